//! Lists kernels, or fetches one: `kernels [NAME]`.

use knee_trace::{Archive, Kernel, KernelError};

fn main() -> Result<(), KernelError> {
    let archive = Archive::of_user()?;
    match std::env::args().nth(1) {
        None => {
            for package in archive.list()? {
                println!("{:8} {:16} {}", package.suite, package.version, package.name);
            }
        }
        Some(name) => {
            let file = archive.fetch(&name)?;
            println!("{} {}", Kernel::open(&file)?.release(), file.display());
        }
    }
    Ok(())
}
