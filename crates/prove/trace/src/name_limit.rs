//! Limits the names of symbols, types and fields: a small file can have many symbols with the same long name.

/// Maximum length of a name, in bytes. Names of generic functions have up to a few kilobytes.
const LONGEST: usize = 16 << 10;
/// Maximum length of the name of a symbol, type or field of Linux, in bytes (KSYM_NAME_LEN).
pub(crate) const LONGEST_OF_LINUX: usize = 512;
/// Maximum length of all names of a kernel or program, in bytes.
const IN_ALL: usize = 256 << 20;

/// The names that may still be kept.
#[derive(Debug)]
pub(crate) struct NameLimit {
    left: usize,
    longest: usize,
}

impl Default for NameLimit {
    fn default() -> Self {
        Self { left: IN_ALL, longest: LONGEST }
    }
}

impl NameLimit {
    /// The limit of the names of Linux: `in_all` bytes together.
    pub(crate) fn of_linux(in_all: usize) -> Self {
        Self { left: in_all, longest: LONGEST_OF_LINUX }
    }

    /// Whether this name may be kept, and counts it if so.
    pub(crate) fn admits(&mut self, name: impl AsRef<[u8]>) -> bool {
        let name = name.as_ref();
        let left = self.left.checked_sub(name.len()).filter(|_| name.len() <= self.longest);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_and_too_many_are_left_out() {
        let mut limit = NameLimit { left: 5, ..NameLimit::default() };
        assert!(limit.admits("abc") && !limit.admits("def") && limit.admits("gh"));
        assert!(limit.admits("") && !limit.admits("i"));
        let long = "x".repeat(LONGEST);
        let mut limit = NameLimit::default();
        assert!(limit.admits(&long) && !limit.admits(&(long + "x")));
    }
}
