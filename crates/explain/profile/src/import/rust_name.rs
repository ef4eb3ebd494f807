//! Names in Rust's legacy mangling, which `perf` demangles only in part.

use std::borrow::Cow;

/// `::h` and 16 digits.
const HASH: usize = 19;

/// `_$LT$std..fs..ReadDir$GT$::next::hc14f1750ca79129b` becomes `<std::fs::ReadDir>::next`. Names that do not
/// end in such a hash stay unchanged.
pub(super) fn demangled(name: &str) -> Cow<'_, str> {
    let Some((path, hash)) = name.len().checked_sub(HASH).and_then(|at| name.split_at_checked(at))
    else {
        return Cow::Borrowed(name);
    };
    let is_hash = hash
        .strip_prefix("::h")
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if !is_hash {
        return Cow::Borrowed(name);
    }
    let mut rest = path.strip_prefix('_').filter(|rest| rest.starts_with('$')).unwrap_or(path);
    let mut whole = String::with_capacity(rest.len());
    while let Some(at) = rest.find(['$', '.']) {
        whole.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("..") {
            whole.push_str("::");
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            whole.push('.');
            rest = after;
        } else {
            let escape = rest[1..].split_once('$');
            let Some((sign, after)) = escape.and_then(|(e, after)| Some((sign(e)?, after))) else {
                break;
            };
            whole.push(sign);
            rest = after;
        }
    }
    whole.push_str(rest);
    Cow::Owned(whole)
}

fn sign(escape: &str) -> Option<char> {
    Some(match escape {
        "SP" => '@',
        "BP" => '*',
        "RF" => '&',
        "LT" => '<',
        "GT" => '>',
        "LP" => '(',
        "RP" => ')',
        "C" => ',',
        _ => {
            let number = u32::from_str_radix(escape.strip_prefix('u')?, 16).ok()?;
            char::from_u32(number).filter(|c| !c.is_control())?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn partly_demangled_names_are_demangled() {
        let cases = [
            ("std::fs::File::open::hb90e1c1c787080f0", "std::fs::File::open"),
            (
                "_$LT$std..fs..ReadDir$u20$as$u20$core..Iterator$GT$::next::hc14f1750ca79129b",
                "<std::fs::ReadDir as core::Iterator>::next",
            ),
            (
                "rg::search::_$u7b$$u7b$closure$u7d$$u7d$::h6e849b55a66fcd85",
                "rg::search::_{{closure}}",
            ),
            ("do_vmi_munmap", "do_vmi_munmap"),
            ("vms_clear_ptes.part.0", "vms_clear_ptes.part.0"),
            ("a$NO$b::h6e849b55a66fcd85", "a$NO$b"),
        ];
        for (name, expected) in cases {
            assert_eq!(demangled(name), expected);
        }
    }

    proptest! {
        #[test]
        fn no_name_makes_the_demangler_panic(name in "[a$.u7dLT_é]{0,30}(::h[0-9a-f]{16})?") {
            demangled(&name);
        }
    }
}
