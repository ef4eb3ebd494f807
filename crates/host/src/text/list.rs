//! Lists within a sentence.

use std::borrow::Borrow;

/// `a`, `a and b` or `a, b and c`.
pub fn and_list<S: Borrow<str>>(items: &[S]) -> String {
    match items {
        [others @ .., last] if !others.is_empty() => {
            format!("{} and {}", others.join(", "), last.borrow())
        }
        _ => items.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_items_follows_an_and() {
        let list = |items: &[&str]| and_list(items);
        assert_eq!((list(&[]).as_str(), list(&["a"]).as_str()), ("", "a"));
        assert_eq!(
            (list(&["a", "b"]).as_str(), list(&["a", "b", "c"]).as_str()),
            ("a and b", "a, b and c")
        );
        assert_eq!(list(&["1 task"]), "1 task");
        assert_eq!(list(&["1 task", "4 tasks"]), "1 task and 4 tasks");
        assert_eq!(list(&["1 task", "2 tasks", "4 tasks"]), "1 task, 2 tasks and 4 tasks");
    }
}
