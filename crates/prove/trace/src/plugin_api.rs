//! Finds the version of QEMU's plugin API that the plugin has to claim.
//!
//! QEMU supports a range of versions and refuses a plugin that claims a version outside this range. QEMU
//! prints the oldest version of this range only when it refuses a plugin that claims an older one. So knee
//! starts QEMU once, without a machine, just to load the plugin.

use crate::error::GuestError;

/// This environment variable tells the plugin which version to claim.
pub(crate) const VARIABLE: &str = "KNEE_PLUGIN_API";
/// With this argument, the plugin only prints the versions that QEMU supports, and QEMU exits.
pub(crate) const PROBE: &str = "probe=on";
/// The newest API version that the plugin was written for.
const NEWEST: u32 = 7;
/// What the plugin prints once QEMU has loaded it.
const LOADED: &str = "knee-plugin: API versions ";
/// What QEMU prints when it refuses a plugin that claims a version older than QEMU's oldest version
/// (plugins/loader.c).
const REFUSED: &str = "supports only a minimum version of ";

/// The version to claim, parsed from the output of QEMU and the plugin; `None` if the plugin's
/// default works.
///
/// # Errors
/// QEMU could not load the plugin, or supports only versions that are newer than [`NEWEST`].
pub(crate) fn to_claim(printed: &str) -> Result<Option<u32>, GuestError> {
    if printed.contains(LOADED) {
        return Ok(None);
    }
    let oldest = printed.split_once(REFUSED).and_then(|(_, rest)| {
        rest.split(|next: char| !next.is_ascii_digit()).next().and_then(|n| n.parse().ok())
    });
    match oldest {
        Some(oldest) if oldest <= NEWEST => Ok(Some(oldest)),
        Some(oldest) => Err(GuestError::NewPluginApi { oldest, newest: NEWEST }),
        None => {
            let first = printed.trim().lines().next().unwrap_or_default();
            Err(GuestError::NoPlugins(first.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_refusal_the_plugin_claims_the_oldest_version_of_qemu() {
        let loaded = "knee-plugin: API versions 0 to 1\n";
        assert_eq!(to_claim(loaded).unwrap(), None);
        let refused = |oldest: u32| {
            let text = format!(
                "qemu-system-x86_64: Could not load plugin /proc/self/fd/15: plugin requires API \
                 version 2, but this QEMU supports only a minimum version of {oldest}\n"
            );
            to_claim(&text)
        };
        assert_eq!(refused(7).unwrap(), Some(7));
        let error = refused(8).unwrap_err().to_string();
        assert!(error.contains("API version 8") && error.contains("up to 7"), "{error}");
    }

    #[test]
    fn the_message_of_a_qemu_without_plugins_is_quoted() {
        let error = to_claim("qemu-x86_64: unknown option 'plugin'\n").unwrap_err().to_string();
        assert!(error.contains("unknown option 'plugin'"), "{error}");
    }
}
