//! The map entries in a label: `inodes[dir[a.name]].len` contains the entry of `inodes` with the key
//! `dir[a.name]` and the entry of `dir` with the key `a.name`.

use crate::formula::{Terms, and, number, symbol};

/// An entry of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) map: String,
    pub(crate) key: String,
}

/// All map entries in `label`.
pub(crate) fn entries(label: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut opened = Vec::new();
    for (at, character) in label.char_indices() {
        match character {
            '[' => opened.push(at),
            ']' => {
                let from = opened.pop().expect("brackets are balanced");
                // If this entry is part of the key of an outer entry, the name of this entry's map begins
                // after the outer bracket. Otherwise the name begins at the start of the label.
                let begins = opened.last().map_or(0, |outer| outer + 1);
                let map = label[begins..from].to_owned();
                entries.push(Entry { map, key: label[from + 1..at].to_owned() });
            }
            _ => {}
        }
    }
    if let Some((map, key)) = label.split_once(" has ") {
        entries.push(Entry { map: map.to_owned(), key: key.to_owned() });
    }
    entries
}

/// An integer key as a term, which is a variable plus a constant. `None` if the key is not an integer.
fn integer(key: &str, terms: &Terms) -> Option<String> {
    if let Ok(n) = key.parse() {
        return Some(number(n));
    }
    if terms.ints.contains(key) {
        return Some(symbol(key));
    }
    [(" + ", "+"), (" - ", "-")].into_iter().find_map(|(between, sign)| {
        let (variable, plus) = key.rsplit_once(between)?;
        let plus: u64 = plus.parse().ok()?;
        terms.ints.contains(variable).then(|| format!("({sign} {} {plus})", symbol(variable)))
    })
}

/// The parts of a key: `a.dir/a.name` has two.
fn parts(key: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, character) in key.char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth -= 1,
            '/' if depth == 0 => {
                parts.push(&key[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&key[from..]);
    parts
}

/// A formula which states that two keys of a map are equal. Keys that are names are compared part by part.
pub(crate) fn same_key(a: &str, b: &str, terms: &Terms) -> String {
    let term = |key: &str| integer(key, terms).unwrap_or_else(|| symbol(key));
    let same = |(a, b): (&str, &str)| format!("(= {} {})", term(a), term(b));
    and(parts(a).into_iter().zip(parts(b)).map(same))
}

/// Adds names that occur only as keys. Integer keys need not be added, because each of them also
/// occurs in a literal that bounds it.
pub(crate) fn add_keys(terms: &mut Terms) {
    let labels = terms.names.iter().chain(&terms.ints).chain(&terms.flags);
    let keys: Vec<String> = labels
        .flat_map(|label| entries(label))
        .flat_map(|entry| parts(&entry.key).into_iter().map(str::to_owned).collect::<Vec<_>>())
        .filter(|key| integer(key, terms).is_none())
        .collect();
    terms.names.extend(keys);
}
