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
}
