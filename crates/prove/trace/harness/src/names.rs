//! Names in a test, such as `key1`: a sort followed by a number. The model leaves open which value a name
//! stands for.

use std::borrow::Cow;

/// The number in a name: 12 in `key12`.
pub fn name_number(name: &str) -> Option<u64> {
    name[sort(name).len()..].parse().ok()
}

/// The sort of a name: `key` in `key12`.
fn sort(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// What the names of a test stand for in one run. A name stands for one value, and two names of the
/// same sort stand for different values. Values of different sorts are unrelated: an inode number
/// may equal an address.
#[derive(Debug, Default)]
pub struct Names<'t>(Vec<(Cow<'t, str>, u64)>);

impl<'t> Names<'t> {
    /// Sets what a name stands for.
    pub fn set(&mut self, name: impl Into<Cow<'t, str>>, value: u64) {
        self.0.push((name.into(), value));
    }

    /// Returns whether `name` can stand for `value`, and if it can, records this value for `name`.
    pub fn agree(&mut self, name: &'t str, value: u64) -> bool {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| known == name) {
            return *known == value;
        }
        let is_taken =
            |(known, other): &(Cow<'_, str>, u64)| *other == value && sort(known) == sort(name);
        let agrees = !self.0.iter().any(is_taken);
        if agrees {
            self.set(name, value);
        }
        agrees
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_for_one_value_and_two_names_of_a_sort_never_share_a_value() {
        let mut names = Names::default();
        assert!(names.agree("address1", 64));
        assert!(names.agree("address1", 64));
        assert!(!names.agree("address2", 64));
        assert!(!names.agree("address1", 80));
        assert!(names.agree("address2", 80));
        assert!(names.agree("inode1", 64), "another sort");
        names.set("inode2".to_owned(), 7);
        assert!(names.agree("inode2", 7) && !names.agree("inode3", 7));
    }

    #[test]
    fn the_number_of_a_name_follows_its_sort() {
        assert_eq!(name_number("key12"), Some(12));
        assert_eq!(name_number("utf8key0"), Some(0));
        assert_eq!((name_number("zeroes"), name_number("")), (None, None));
    }
}
