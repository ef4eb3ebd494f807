//! Numbers with commas between groups of three digits.

/// The number without its commas: `1234.5` for `1,234.5`. `None` for text without commas, or with
/// commas anywhere else.
pub fn ungrouped(text: &str) -> Option<String> {
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.trim_start_matches(['+', '-']).split(',');
    let first = groups.next().unwrap_or_default();
    let mut others = groups.peekable();
    let is_grouped =
        others.peek().is_some() && others.all(|part| part.len() == 3 && is_digits(part));
    let is_valid = (1..=3).contains(&first.len()) && is_digits(first) && !fraction.contains(',');
    (is_grouped && is_valid).then(|| text.replace(',', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commas_between_groups_of_three_digits_are_removed() {
        for (text, number) in [("1,234", "1234"), ("-12,345,678.5e3", "-12345678.5e3")] {
            assert_eq!(ungrouped(text).as_deref(), Some(number));
        }
        for text in ["", "1234", "1,23", "1234,567", ",123", "1,234.5,6", "a,123", "1,,234"] {
            assert_eq!(ungrouped(text), None, "{text}");
        }
    }
}
