//! Guests under QEMU whose operations are traced, and the kernels that run in them.
#![deny(unsafe_op_in_unsafe_fn)]

mod archive;
mod error;
mod guest;
mod initramfs;
mod kernel;

pub use archive::{Archive, Package};
pub use error::GuestError;
pub use guest::{End, Event, Guest, GuestOptions, Tracing};
pub use initramfs::Initramfs;
pub use kernel::{Kernel, KernelError};
