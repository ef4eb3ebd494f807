//! The user that runs the commands of a description.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use knee_host::users;
use rustix::process::geteuid;

use crate::job::{Failure, FailureKind};

/// Where users are listed.
const PASSWD: &str = "/etc/passwd";

/// A user without privileges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// The user `name`, if this process can become that user. `None` if this process does not run as root, or is only
    /// root of a user namespace without that user, as in `unshare --map-root-user`.
    ///
    /// # Errors
    /// There is no such user.
    pub(super) fn find(name: &str) -> Result<Option<Self>, Failure> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let missing = |reason: String| {
            let remedy = "create the user, or set server.user to another one";
            Failure::new(FailureKind::CannotRun, reason, remedy)
        };
        let passwd = fs::read_to_string(PASSWD);
        let passwd = passwd.map_err(|error| missing(format!("cannot read {PASSWD}: {error}")))?;
        match Self::parse(&passwd, name) {
            Some(user) => Ok(users::has(user.uid).then_some(user)),
            None => Err(missing(format!("{PASSWD} lists no user {name}"))),
        }
    }

    fn parse(passwd: &str, name: &str) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields[..] {
                [found, _, uid, gid, ..] if found == name => {
                    Some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
                }
                _ => None,
            }
        })
    }

    /// Fails if the user cannot enter a directory on the way to `dir`.
    pub(super) fn require_way(&self, dir: &Path) -> Result<(), Failure> {
        let is_closed = |dir: &&Path| {
            // A directory that cannot be examined has an error of its own.
            fs::metadata(dir).is_ok_and(|found| {
                let enter = match (found.uid() == self.uid, found.gid() == self.gid) {
                    (true, _) => 0o100,
                    (_, true) => 0o010,
                    _ => 0o001,
                };
                found.mode() & enter == 0
            })
        };
        match dir.ancestors().skip(1).find(is_closed) {
            None => Ok(()),
            Some(closed) => {
                let (user, closed) = (self.uid, closed.display());
                let reason = format!(
                    "user {user}, who runs the server, cannot enter the directory {closed}"
                );
                let remedy = "use --dir to choose a directory that all users can enter";
                Err(Failure::new(FailureKind::CannotRun, reason, remedy))
            }
        }
    }

    /// Gives `dir`, the directory of a round, to the user, and lets the user traverse its parent directory,
    /// which only the owner can list.
    pub(super) fn take(&self, dir: &Path) -> io::Result<()> {
        if let Some(around) = dir.parent() {
            fs::set_permissions(around, Permissions::from_mode(0o711))?;
        }
        chown(dir, Some(self.uid), Some(self.gid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533::/:\nbad:x:a:1::/:\n";
        let nobody = Some(User { uid: 65534, gid: 65533 });
        assert_eq!(User::parse(passwd, "nobody"), nobody);
        assert_eq!(User::parse(passwd, "nobod"), None);
        assert_eq!(User::parse(passwd, "bad"), None);
    }

    #[test]
    fn a_directory_that_the_user_cannot_enter_is_named() {
        let closed = tempfile::tempdir().unwrap();
        fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).unwrap();
        let dir = closed.path().join("dir");
        let user = User { uid: 65534, gid: 65533 };
        let refused = user.require_way(&dir).unwrap_err().reason;
        assert!(
            refused.ends_with(&format!("cannot enter the directory {}", closed.path().display())),
            "{refused}"
        );
        fs::set_permissions(closed.path(), Permissions::from_mode(0o711)).unwrap();
        assert!(user.require_way(&dir).is_ok());
    }
}
