//! Suggestions for misspelt names.

/// Minimum Jaro-Winkler similarity of a suggestion.
const SIMILAR: f64 = 0.75;
/// Maximum number of suggestions.
const SUGGESTIONS: usize = 3;

/// Up to three of `known` that are similar to `name`, the most similar first.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> = known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|&(score, _)| score >= SIMILAR)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.iter().take(SUGGESTIONS).map(|&(_, name)| name.to_owned()).collect()
}

/// ` (did you mean a or b?)`; nothing without `names`.
pub fn question(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(" (did you mean {}?)", names.join(" or ")),
    }
}

/// Like [`question`], but `otherwise` without `names`.
pub fn question_or(names: &[String], otherwise: &str) -> String {
    if names.is_empty() { otherwise.to_owned() } else { question(names) }
}

/// Whether `word` differs from `name` by one letter or by two swapped ones.
pub fn is_misspelt(word: &str, name: &str) -> bool {
    strsim::osa_distance(word, name) == 1
}

/// The words of `text` in braces, with their braces and the text before them. Words of more than `longest` bytes are left
/// out, so that a text of many braces takes no quadratic time.
pub fn in_braces(text: &str, longest: usize) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices('{').filter_map(move |(begin, _)| {
        let mut near = text.as_bytes()[begin..].iter().take(longest);
        let length = near.position(|&byte| byte == b'}')? + 1;
        Some((&text[..begin], &text[begin..begin + length]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_names_come_first_and_others_are_left_out() {
        let known = ["mmap1", "mmap2", "munmap1", "getppid1"];
        assert_eq!(nearest("mmap", known.into_iter()), ["mmap1", "mmap2", "munmap1"]);
        assert!(nearest("zz", known.into_iter()).is_empty());
        assert_eq!(question(&nearest("mmap", ["mmap1"].into_iter())), " (did you mean mmap1?)");
        assert_eq!(question(&[]), "");
        assert_eq!(question_or(&[], "; list"), "; list");
        assert_eq!(question_or(&["a".to_owned()], "; list"), " (did you mean a?)");
    }

    #[test]
    fn words_in_braces_are_found_up_to_a_length() {
        let found = |text| in_braces(text, 5).collect::<Vec<_>>();
        assert_eq!(found("a{b} {{ü}"), [("a", "{b}"), ("a{b} ", "{{ü}"), ("a{b} {", "{ü}")]);
        assert_eq!(found("{abc}{abcd}{"), [("", "{abc}")]);
        // Comparing each word to the end would take hours.
        assert_eq!(in_braces(&("{".repeat(1 << 20) + "}"), 5).count(), 4);
    }
}
