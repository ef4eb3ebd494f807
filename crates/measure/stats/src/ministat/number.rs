//! Numbers as C reads and writes them in its "C" locale: `strtod` and `printf`'s `%g`.

/// White space in the "C" locale.
pub(super) const WHITE_SPACE: [u8; 6] = *b" \t\n\x0b\x0c\r";

/// While the mantissa of a hexadecimal number is below this, another digit fits into 64 bits.
const ROOM_FOR_A_DIGIT: u64 = 1 << 60;
/// Beyond this exponent of two, every number of up to 64 bits is zero or infinite.
const EXPONENT_LIMIT: i64 = 100_000;

/// The number that `strtod` reads from a text, if it consumes the whole text: decimal, hexadecimal
/// (`0x1.8p3`), `inf`, `infinity`, `nan` and `nan(…)`, in upper or lower case, after optional white
/// space and an optional sign.
pub fn parse(text: &[u8]) -> Option<f64> {
    let start = text.iter().position(|b| !WHITE_SPACE.contains(b))?;
    let text = std::str::from_utf8(&text[start..]).ok()?;
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = if let Some(digits) = strip_prefix_in_any_case(unsigned, "0x") {
        hexadecimal(digits)
    } else if let Some(payload) = strip_prefix_in_any_case(unsigned, "nan(") {
        let payload = payload.strip_suffix(')')?;
        let is_word = payload.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        is_word.then_some(f64::NAN)
    } else if unsigned.starts_with(['+', '-']) {
        None
    } else {
        unsigned.parse().ok()
    }?;
    Some(if negative { -magnitude } else { magnitude })
}

fn strip_prefix_in_any_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// `1.8p3`, the part after `0x`.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, binary_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut mantissa = 0u64;
    let mut exponent = exponent - 4 * fraction.len() as i64;
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if mantissa < ROOM_FOR_A_DIGIT {
            mantissa = mantissa << 4 | digit;
        } else {
            // Too small to be kept, but it breaks a tie in rounding.
            mantissa |= u64::from(digit != 0);
            exponent += 4;
        }
    }
    Some(scaled(mantissa, exponent.clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT)))
}

fn binary_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // An exponent that overflows is far beyond the limit; a line is too short for enough digits to
    // compensate for it.
    let size = digits.parse::<i64>().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
    Some(if text.starts_with('-') { -size } else { size })
}

/// `mantissa` × 2^`exponent`, rounded once, with ties to even.
fn scaled(mantissa: u64, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let highest = exponent + i64::from(mantissa.ilog2());
    if highest > 1023 {
        return f64::INFINITY;
    }
    // The exponent of the lowest bit of the result, which has 53 bits, or fewer if it is subnormal.
    let last = (highest - 52).max(-1074);
    let dropped = last - exponent;
    if dropped <= 0 {
        return mantissa as f64 * power_of_two(exponent);
    }
    if dropped > 64 {
        return 0.0;
    }
    let mantissa = u128::from(mantissa);
    let (kept, rest) = (mantissa >> dropped, mantissa & ((1 << dropped) - 1));
    let half = 1 << (dropped - 1);
    let up = rest > half || rest == half && kept % 2 == 1;
    (kept + u128::from(up)) as f64 * power_of_two(last)
}

/// 2^`exponent` for -1074 to 1023.
fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(if exponent >= -1022 {
        ((exponent + 1023) as u64) << 52
    } else {
        1 << (exponent + 1074)
    })
}

/// Formats `value` like `%g` with `digits` significant digits (`%.8g` has 8).
///
/// # Panics
/// If `digits` is 0.
pub fn general(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    // Rounding can carry into one more digit, so the exponent is read from the rounded number.
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("a float has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent of a float has few digits");
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
    } else {
        let decimals = (digits as i32 - 1 - exponent) as usize;
        without_trailing_zeros(&format!("{value:.decimals$}")).to_owned()
    }
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_parse_as_with_strtod() {
        for (text, expected) in [
            ("5", 5.0),
            (" \t-5.", -5.0),
            ("+.5e1", 5.0),
            ("1e999", f64::INFINITY),
            ("-INFINITY", f64::NEG_INFINITY),
            ("0x10", 16.0),
            ("-0X.8p+3", -4.0),
            ("0x1.fffffffffffff7ffp0", 2.0 - f64::EPSILON),
            ("0x1.fffffffffffff8p0", 2.0),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.0000000000000000000001p-1075", 5e-324),
            ("0x1p1023", 8.98846567431158e307),
            ("0x1p99999999999999999999", f64::INFINITY),
            ("0x0p99999999999999999999", 0.0),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text:?}");
        }
        for text in ["nan", "NaN(0x_1)", "+nan()"] {
            assert!(parse(text.as_bytes()).unwrap().is_nan(), "{text:?}");
        }
        assert!(parse(b"-nan").unwrap().is_sign_negative());
    }

    #[test]
    fn a_text_that_strtod_does_not_fully_consume_is_not_a_number() {
        for text in [
            "", " ", "-", "+-5", "5 ", "5x", "1e", ".", "1_0", "0x", "0x.", "0x1p", "0x1p+",
            "0x1g", "0x1.2.3", "nan(", "nan(-)", "infin", "١", "1,5", "5\r",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(b"\xff"), None);
    }

    #[test]
    fn numbers_print_as_with_printf() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (238.047_614_284_761, "238.04761"),
            (99_999_999.4, "99999999"),
            (99_999_999.5, "1e+08"),
            (123_456_789.0, "1.2345679e+08"),
            (16_777_216.5, "16777216"),
            (0.0001, "0.0001"),
            (0.000_099_999_999_96, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (5e-324, "4.9406565e-324"),
            (f64::MAX, "1.7976931e+308"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
        ] {
            assert_eq!(general(value, 8), expected);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text in prop::collection::vec(any::<u8>(), 0..40)) {
            parse(&text);
        }

        #[test]
        fn texts_like_numbers_do_not_panic(text in "[ +-]{0,2}(0x|nan\\(|inf)?[0-9a-fp.+-]{0,20}\\)?") {
            parse(text.as_bytes());
        }

        #[test]
        fn hexadecimal_numbers_are_exact(value in any::<f64>().prop_filter("", |v| v.is_normal())) {
            let bits = value.to_bits();
            let sign = if value < 0.0 { "-" } else { "" };
            let exponent = (bits >> 52 & 0x7ff) as i64 - 1023;
            let text = format!("{sign}0x1.{:013x}p{exponent}", bits & ((1 << 52) - 1));
            prop_assert_eq!(parse(text.as_bytes()), Some(value));
        }

        #[test]
        fn seventeen_digits_identify_every_number(value in any::<f64>()) {
            let read = parse(general(value, 17).as_bytes()).unwrap();
            prop_assert!(read == value || read.is_nan() && value.is_nan());
        }
    }
}
