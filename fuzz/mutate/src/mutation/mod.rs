//! Mutations: small changes that leave most of an input valid, so that the code behind the parsers runs
//! as well.

mod bytes;
mod json;
mod text;

use crate::random::Random;

/// How much longer than its original a mutated input may be, in bytes.
pub(crate) const MOST_GROWTH: usize = 64 * 1024;
/// Maximum mutations of one input. More would only break its syntax.
const MOST_STEPS: usize = 4;
/// A mutation that does not apply, such as one of JSON to another format, changes nothing.
const ATTEMPTS: usize = 20;

/// Changes a text in place. `other` is another input of the same kind.
type Mutation = fn(text: &mut Vec<u8>, other: &[u8], random: &mut Random);

/// Valid JSON reaches the most code, so its mutations appear several times. They do not apply to other formats.
const MUTATIONS: [Mutation; 25] = [
    bytes::flip_bits,
    bytes::truncate,
    bytes::delete,
    bytes::duplicate,
    bytes::insert,
    bytes::overwrite_integer,
    bytes::overwrite_integer,
    bytes::splice,
    text::swap_lines,
    text::delete_line,
    text::repeat_line,
    text::insert_line,
    text::replace_number,
    text::replace_number,
    text::replace_word,
    json::replace_value,
    json::replace_value,
    json::change_shape,
    json::replace_alike,
    json::replace_alike,
    json::replace_alike,
    json::replace_alike,
    json::replace_alike,
    json::replace_alike,
    json::replace_alike,
];

/// A copy of `original` with one to four mutations. It differs from the original.
pub(crate) fn mutate(original: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    for _ in 0..ATTEMPTS {
        let mut text = original.to_vec();
        // Half of all inputs get one mutation.
        let steps = if random.one_in(2) { 1 } else { 1 + random.below(MOST_STEPS) };
        for _ in 0..steps {
            random.pick(&MUTATIONS)(&mut text, other, random);
            text.truncate(original.len() + MOST_GROWTH);
        }
        if text != original {
            return text;
        }
    }
    [original, b"0"].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const JSON: &[u8] =
        br#"{"schema":1,"points":[{"tasks":2,"rate":1.5e6},{"tasks":4,"rate":2.5e6}]}"#;
    const LINES: &[u8] = b"main;outer;inner 12\nmain;outer 3\nmain 40\n";
    const ORIGINALS: [&[u8]; 5] = [b"", b"\n", b"\x00\xff\x7f\x01\x02\x03", JSON, LINES];

    #[test]
    fn a_seed_and_a_run_determine_the_input() {
        for original in ORIGINALS {
            let of_run = |seed, run| mutate(original, LINES, &mut Random::of_run(seed, run));
            assert!((0..200).all(|run| of_run(7, run) == of_run(7, run)));
            assert!((0..200).any(|run| of_run(7, run) != of_run(8, run)));
        }
    }

    #[test]
    fn every_input_differs_from_its_original_and_nearly_all_from_each_other() {
        for original in ORIGINALS {
            let inputs: BTreeSet<Vec<u8>> =
                (0..1000).map(|run| mutate(original, JSON, &mut Random::of_run(1, run))).collect();
            assert!(!inputs.contains(original));
            assert!(inputs.len() > 100, "{} inputs of {original:?}", inputs.len());
        }
    }

    #[test]
    fn an_input_is_at_most_64_kib_longer_than_its_original() {
        let long = [b'x'; 2 * MOST_GROWTH];
        for original in ORIGINALS {
            for run in 0..200 {
                let input = mutate(original, &long, &mut Random::of_run(2, run));
                assert!(input.len() <= original.len() + MOST_GROWTH, "run {run}");
            }
        }
    }

    #[test]
    fn every_mutation_changes_a_text_that_it_applies_to() {
        let records = [JSON, b"\n", JSON, b"\nmain;outer 3\n"].concat();
        for (nr, mutation) in MUTATIONS.iter().enumerate() {
            let changes = |run| {
                let mut text = records.clone();
                mutation(&mut text, LINES, &mut Random::of_run(3, run));
                text != records
            };
            assert!((0..100).filter(|run| changes(*run)).count() > 20, "mutation {nr}");
        }
    }

    #[test]
    fn a_mutation_of_json_leaves_valid_json() {
        for mutation in [json::replace_value, json::replace_alike, json::change_shape] {
            for run in 0..500 {
                let mut text = JSON.to_vec();
                mutation(&mut text, b"", &mut Random::of_run(4, run));
                let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&text);
                assert!(parsed.is_ok(), "run {run}: {}", String::from_utf8_lossy(&text));
            }
        }
    }
}
