//! The users of this user namespace, see user_namespaces(7).

use std::fs;
use std::ops::Range;
use std::sync::LazyLock;

use rustix::process::{Uid, geteuid};

/// The users: their numbers inside, outside, and their count.
const UID_MAP: &str = "/proc/self/uid_map";
/// The number that the kernel reports for every user that the namespace does not have.
const OVERFLOW_UID: &str = "/proc/sys/kernel/overflowuid";

/// The users of a user namespace.
#[derive(Debug)]
struct Users {
    /// The numbers of its users.
    numbers: Vec<Range<u64>>,
    overflow: u32,
}

static USERS: LazyLock<Users> = LazyLock::new(Users::read);

impl Users {
    fn read() -> Self {
        // Without /proc, there is no user namespace either that a container would have made.
        let map = fs::read_to_string(UID_MAP).unwrap_or_else(|_| format!("0 0 {}", u32::MAX));
        let overflow = fs::read_to_string(OVERFLOW_UID).ok();
        let overflow = overflow.and_then(|number| number.trim().parse().ok());
        Self { numbers: parse(&map), overflow: overflow.unwrap_or(65_534) }
    }

    fn has(&self, user: u32) -> bool {
        self.numbers.iter().any(|numbers| numbers.contains(&user.into()))
    }

    fn identifies(&self, user: u32) -> bool {
        let has_all = self.numbers.iter().any(|numbers| numbers.end >= u32::MAX.into());
        user != self.overflow || has_all
    }
}

fn parse(map: &str) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse);
        let (Some(Ok(first)), Some(Ok(count))) = (numbers.next(), numbers.nth(1)) else {
            return None;
        };
        Some(first..u64::saturating_add(first, count))
    };
    map.lines().filter_map(range).collect()
}

/// Whether this user namespace has the user, so that root can become that user.
pub fn has(user: u32) -> bool {
    USERS.has(user)
}

/// Whether a number that the kernel reports for a user is that of a single user. In a user namespace that lacks users, such
/// as that of a rootless container, the kernel reports the same number, usually 65534, for each of those. It may also be
/// the number of `nobody`, or of the user of this process.
pub fn identifies(user: u32) -> bool {
    USERS.identifies(user)
}

/// Whether a user number that the kernel reports is that of this process's user.
pub fn is_own(user: u32) -> bool {
    user == geteuid().as_raw() && identifies(user)
}

/// Whether a user number that the kernel reports is that of this process's user or of root, so that nobody else decides
/// what such a user's files are.
pub fn is_trusted(user: u32) -> bool {
    user == Uid::ROOT.as_raw() || is_own(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(map: &str) -> Users {
        Users { numbers: parse(map), overflow: 65_534 }
    }

    #[test]
    fn a_namespace_has_the_users_in_its_map() {
        assert!(users("         0          0 4294967295\n").has(65_534));
        assert!(!users("         0       1000          1\n").has(65_534));
        assert!(users("0 1000 1\n1 100000 65536\n").has(65_534));
        assert!(!users("").has(0));
    }

    #[test]
    fn where_users_are_missing_the_number_of_all_of_them_identifies_none() {
        let container = users("0 0 1\n1 100000 65536\n");
        assert!(container.has(65_534) && !container.identifies(65_534));
        assert!(container.identifies(0) && container.identifies(1000));
        assert!(!users("").identifies(65_534), "unshare --user without a map");
        assert!(users("0 0 4294967295\n").identifies(65_534));
    }
}
