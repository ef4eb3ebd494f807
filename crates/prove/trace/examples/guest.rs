//! Boots a kernel with a static program as its init: `guest KERNEL INIT [ARGUMENT…]`.

use std::error::Error;
use std::path::Path;

use knee_trace::{Emulator, Event, Guest, GuestOptions, Initramfs, Kernel, Tracing};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, init, arguments @ ..] = &arguments[..] else {
        return Err("usage: guest KERNEL INIT [ARGUMENT…]".into());
    };
    let kernel = Kernel::open(Path::new(kernel))?;
    let archive = Initramfs::new().file("init", 0o755, &std::fs::read(init)?).finish();
    let user = std::env::var_os("USER_MODE").is_some();
    let options = GuestOptions {
        emulator: Emulator::of_user()?,
        arguments: arguments.to_vec(),
        tracing: Some(Tracing { user, ..Tracing::default() }),
        ..GuestOptions::default()
    };
    let mut guest = Guest::start(&kernel, &archive, &options)?;
    while let Some(event) = guest.next_event()? {
        match event {
            Event::Console(line) => println!("console: {line}"),
            Event::Result(record) => println!("{record:?}"),
            Event::End(end) => println!("{end:?}"),
        }
    }
    Ok(())
}
