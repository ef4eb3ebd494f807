//! The QEMU that runs guests and programs: the installed QEMU, that of another Debian release, or a
//! program that the user names.

mod choice;
mod emulator;
mod emulators;
mod manifest;
mod root;
mod sandbox;
mod user;
mod version;

pub use emulator::{Emulator, EmulatorError};
pub use emulators::Emulators;
pub(crate) use user::QEMU_USER;
pub use user::qemu_user_version;
