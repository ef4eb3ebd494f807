//! Debian packages, opened without installing them.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::kernel::KernelError;

/// A file that says so when there is less of it than there should be, as in a package that was cut off.
struct Whole<R> {
    file: R,
    left: u64,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(to)?;
        if count == 0 && self.left > 0 && !to.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}

/// Hands the regular files of a package, paths like `./boot/vmlinuz-6.1`, to `take` until it has
/// enough.
pub(crate) fn files(
    package: &Path,
    mut take: impl FnMut(&Path, &mut dyn Read) -> io::Result<ControlFlow<()>>,
) -> Result<(), KernelError> {
    let program = "dpkg-deb";
    let mut opener = Command::new(program);
    opener.arg("--fsys-tarfile").arg(package);
    opener.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut opener = opener.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => KernelError::NoProgram { program, package: "dpkg" },
        _ => KernelError::Failed { program, said: error.to_string() },
    })?;
    let taken: io::Result<_> =
        opener.stdout.take().map_or(Ok(ControlFlow::Continue(())), |files| {
            for file in tar::Archive::new(files).entries()? {
                let file = file?;
                if !file.header().entry_type().is_file() {
                    continue;
                }
                let path = file.path()?.into_owned();
                let mut file = Whole { left: file.size(), file };
                if take(&path, &mut file)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        });
    // Its pipe is closed: it has ended, or ends of that.
    let opened = opener.wait().is_ok_and(|status| status.success());
    match taken {
        Ok(ControlFlow::Break(())) => Ok(()),
        Ok(ControlFlow::Continue(())) if opened => Ok(()),
        Ok(_) => Err(KernelError::BrokenPackage(package.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(KernelError::BrokenPackage(package.to_owned()))
        }
        Err(source) => Err(KernelError::Read { path: package.to_owned(), source }),
    }
}
