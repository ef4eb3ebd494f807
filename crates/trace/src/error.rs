//! What can go wrong with a guest, and what to do.

use std::io;

use crate::record::RecordError;

/// Why there is no guest, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// QEMU is not there.
    #[error("{0} is not installed: apt-get install {package}", package = package(.0))]
    NoQemu(&'static str),
    /// QEMU cannot load plugins.
    #[error("this QEMU cannot load knee's plugin: {0}; choose another QEMU with KNEE_QEMU")]
    NoPlugins(String),
    /// QEMU is newer than the plugin.
    #[error(
        "this QEMU supports only plugins of API version {oldest} and later, and this knee knows \
         versions up to {newest}: choose an older QEMU with KNEE_QEMU, or update knee"
    )]
    NewPluginApi {
        /// The oldest version that QEMU supports.
        oldest: u32,
        /// The newest version that the plugin knows.
        newest: u32,
    },
    /// The plugin is another than this knee's.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The system refused something that a guest needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Debian's package of a QEMU.
fn package(qemu: &str) -> &'static str {
    match qemu {
        "qemu-x86_64" => "qemu-user",
        _ => "qemu-system-x86",
    }
}

impl GuestError {
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> GuestError {
        move |source| GuestError::System { what, source }
    }

    pub(crate) fn errno(what: &'static str) -> impl Fn(rustix::io::Errno) -> GuestError {
        move |errno| GuestError::System { what, source: errno.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qemu_that_is_missing_is_told_with_its_package() {
        let told = |qemu| GuestError::NoQemu(qemu).to_string();
        assert!(told("qemu-x86_64").ends_with("apt-get install qemu-user"));
        assert!(told("qemu-system-x86_64").ends_with("apt-get install qemu-system-x86"));
    }
}
