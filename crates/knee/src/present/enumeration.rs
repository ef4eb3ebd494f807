//! Lists within a sentence.

use std::borrow::Borrow;

/// Maximum points that a warning lists. The warning counts the others.
pub(super) const NAMED: usize = 4;

/// ` and 3 more`; empty for none.
pub(crate) fn and_more(more: usize) -> String {
    if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// The first few of some names, and how many more there are.
pub(super) fn named<S: Borrow<str>>(names: &[S]) -> String {
    let (first, others) = names.split_at(names.len().min(NAMED));
    format!("{}{}", first.join(", "), and_more(others.len()))
}

/// Groups `items` that are the `same`, in the order of the first item of each group.
pub(super) fn grouped<'t, T>(
    items: impl IntoIterator<Item = &'t T>,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<&'t T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| same(group[0], item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}
