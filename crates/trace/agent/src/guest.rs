//! The agent as the init of a guest: it finds its tests in the first file system, runs them under
//! the eyes of the plugin, tells what came of each on the console, and powers off.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::fd::IntoRawFd;
use std::ptr;

use knee_marks::{Mark, say_entries};

use crate::process::own;
use crate::run::{Options, run};

/// Where the tests are.
const TESTS: &str = "/tests.jsonl";
/// Where they make their files.
const WORK: &str = "/tmp";
/// How often each test is run. The first run fills caches and makes what is made once; what the
/// others share is what counts.
const TIMES: u32 = 3;
/// What begins a line of the agent on the console: the kernel writes there too. An outcome follows,
/// and its runs.
pub const CONSOLE: &str = "knee-agent ";
/// What begins a line that names a function of the kernel: its address and its name.
pub const SYMBOL: &str = "knee-symbol ";

/// Runs the tests and powers off.
pub fn init() -> ! {
    if let Err(error) = work() {
        println!("{CONSOLE}{}", serde_json::json!({ "failed": error.to_string() }));
    }
    // SAFETY: no memory is involved; nothing is mounted that a power-off could damage.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    std::process::exit(1)
}

fn work() -> io::Result<()> {
    mount(c"proc", c"/proc")?;
    mount(c"tmpfs", c"/tmp")?;
    std::env::set_current_dir(WORK)?;
    let kallsyms = fs::read_to_string("/proc/kallsyms")?;
    let mut console = own(1)?;
    let text = |line: &&str| matches!(line.split(' ').nth(1), Some("t" | "T"));
    let mut symbols = String::new();
    for line in kallsyms.lines().filter(text) {
        let mut words = line.split_ascii_whitespace();
        if let (Some(address), Some(name)) = (words.next(), words.nth(1)) {
            symbols += &format!("{SYMBOL}{address} {name}\n");
        }
    }
    console.write_all(symbols.as_bytes())?;
    drop(symbols);
    say_entries(&kallsyms)?;
    drop(kallsyms);
    Mark::Arm.say();
    std::thread::yield_now();

    let tests = own(File::open(TESTS)?.into_raw_fd())?;
    for fd in [0, 2] {
        // SAFETY: the agent has the console under a number of its own.
        unsafe { libc::close(fd) };
    }
    let options = Options { every_order: false, times: TIMES };
    run(BufReader::new(tests), options, |id, outcome, runs| {
        let line = serde_json::to_string(&(id, outcome, runs))?;
        console.write_all(format!("{CONSOLE}{line}\n").as_bytes())
    })?;
    Ok(())
}

fn mount(kind: &std::ffi::CStr, at: &std::ffi::CStr) -> io::Result<()> {
    // SAFETY: valid C strings, and no data.
    let mounted = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, ptr::null()) };
    if mounted == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
