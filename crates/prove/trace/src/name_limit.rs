//! Limits the names of symbols: a small file can have many symbols with the same long name.

/// Maximum length of a name, in bytes. Names of generic functions have up to a few kilobytes.
const LONGEST: usize = 16 << 10;
/// Maximum length of all names of a kernel or program, in bytes.
const IN_ALL: usize = 256 << 20;

/// The names that may still be kept.
#[derive(Debug)]
pub(crate) struct NameLimit {
    left: usize,
}

impl Default for NameLimit {
    fn default() -> Self {
        Self { left: IN_ALL }
    }
}

impl NameLimit {
    /// Whether this name may be kept, and counts it if so.
    pub(crate) fn admits(&mut self, name: &str) -> bool {
        let left = self.left.checked_sub(name.len()).filter(|_| name.len() <= LONGEST);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_and_too_many_are_left_out() {
        let mut limit = NameLimit { left: 5 };
        assert!(limit.admits("abc") && !limit.admits("def") && limit.admits("gh"));
        assert!(limit.admits("") && !limit.admits("i"));
        let long = "x".repeat(LONGEST);
        let mut limit = NameLimit::default();
        assert!(limit.admits(&long) && !limit.admits(&(long + "x")));
    }
}
