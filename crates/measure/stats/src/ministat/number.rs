//! Numbers as C reads and writes them in its "C" locale: `strtod` and `printf`'s `%g`.

use std::ffi::CString;
use std::ptr;

/// White space in the "C" locale.
pub(super) const WHITE_SPACE: [u8; 6] = *b" \t\n\x0b\x0c\r";

/// The number that `strtod` reads from a text, if it consumes the whole text: decimal, hexadecimal
/// (`0x1.8p3`), `inf`, `infinity`, `nan` and `nan(…)`, in upper or lower case, after optional white
/// space and an optional sign.
#[allow(unsafe_code, reason = "the C library reads what ministat reads")]
pub fn parse(text: &[u8]) -> Option<f64> {
    let text = CString::new(text).ok()?;
    let mut end = ptr::null_mut();
    // SAFETY: `CString` ends the text with a zero byte, and `end` points to a pointer of this frame.
    let number = unsafe { libc::strtod(text.as_ptr(), &raw mut end) };
    let consumed = end.addr() - text.as_ptr().addr();
    (consumed > 0 && consumed == text.as_bytes().len()).then_some(number)
}

/// Formats `value` like `%g` with `digits` significant digits (`%.8g` has 8).
///
/// # Panics
/// If the text is longer than 63 bytes, which at most 50 digits never are.
#[allow(unsafe_code, reason = "the C library writes what ministat writes")]
pub fn general(value: f64, digits: u8) -> String {
    let mut text = [0_u8; 64];
    // SAFETY: `%.*g` takes an `int` and a `double`, and at most `text.len()` bytes are written.
    let length = unsafe {
        libc::snprintf(
            text.as_mut_ptr().cast(),
            text.len(),
            c"%.*g".as_ptr(),
            libc::c_int::from(digits),
            value,
        )
    };
    String::from_utf8_lossy(&text[..length as usize]).into_owned()
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
