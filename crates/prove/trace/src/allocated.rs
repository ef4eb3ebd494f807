//! Names a program's allocated memory after the code that accesses it: `memory that
//! std::sys::sync::rwlock::futex::RwLock writes`.
//!
//! Allocated memory has no symbol. knee cannot observe the allocation either: an allocator returns the
//! address in a register, and a plugin cannot read registers in QEMU versions before 9. So the memory is
//! named after the innermost meaningful function on the call path of the first access. Primitives of `core`,
//! functions that copy bytes, and allocators are not meaningful. If the path contains no meaningful function,
//! the memory is named after another function of the path. If the function is a method, the memory is named
//! after the method's type. The methods of a type often access the same word, and this word should have the
//! same name in all tests. For example, a lock's `read`, `write` and `write_unlock` all access the lock's
//! word.

use crate::functions::Functions;
use crate::record::Touch;

/// The name of memory if the code that accesses it is unknown.
const ALLOCATED: &str = "allocated memory";
/// The label of code without a symbol is the name of the code's file, followed by this text.
pub(crate) const NO_SYMBOLS: &str = ", where it has no symbols";
/// Rust code that accesses memory on behalf of its caller.
const PRIMITIVES: &[&str] =
    &["core::", "compiler_builtins::", "alloc::alloc::", "std::alloc::", "__rustc::"];
/// C functions that access memory on behalf of their caller. C libraries have variants of these
/// functions, such as `__memmove_avx_unaligned_erms`.
const COPIES: &[&str] = &["memcpy", "memmove", "memset", "memcmp", "bcmp"];
/// C functions that manage memory for their callers. `__libc_malloc` is another name for `malloc`.
const ALLOCATORS: &[&str] =
    &["malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "aligned_alloc"];
/// Name prefix of knee-bind's functions, which make the calls of a test.
const BINDING_CODE: &str = "knee_bind::";
/// Part of the name of each function with which a binding implements the calls.
const BOUND_CALL: &str = " as knee_bind::Binding>::";

/// Names the memory to which the calls of these records write.
pub(crate) fn written<'t>(
    sides: impl IntoIterator<Item = &'t Touch>,
    functions: &Functions,
) -> String {
    named(sides.into_iter().filter_map(|side| side.called_writers().next()), "writes", functions)
}

/// Names the memory from which the calls of these records read.
pub(crate) fn read<'t>(
    sides: impl IntoIterator<Item = &'t Touch>,
    functions: &Functions,
) -> String {
    named(sides.into_iter().filter_map(|side| side.called_readers().next()), "reads", functions)
}

/// Names the memory after the code that accesses it. If several names are possible, takes the first in
/// alphabetical order, so that the name does not depend on the order of the calls.
fn named<'t>(
    code: impl Iterator<Item = (u64, &'t [u64])>,
    does: &str,
    functions: &Functions,
) -> String {
    let users = code.filter_map(|(code, callers)| {
        user(std::iter::once(&code).chain(callers).flat_map(|code| functions.frames(*code)))
    });
    match users.min() {
        Some(user) => format!("memory that {user} {does}"),
        None => ALLOCATED.to_owned(),
    }
}

/// The innermost meaningful function of a call path. If the binding calls a C library directly,
/// returns the library's function or file, which says more than the name of the binding.
fn user<'f>(frames: impl Iterator<Item = &'f str>) -> Option<String> {
    let (mut of_c, mut primitive) = (None, None);
    for frame in frames.map(without_line).take_while(|frame| !frame.starts_with(BINDING_CODE)) {
        if let Some(file) = frame.strip_suffix(NO_SYMBOLS) {
            of_c = of_c.or(Some(file));
        } else if is_of_c(frame) {
            of_c = of_c.or(Some(frame));
        } else if is_primitive(frame) {
            primitive = primitive.or(Some(frame));
        } else if frame.contains(BOUND_CALL) && of_c.is_some() {
            break;
        } else {
            return Some(type_or_module(frame).to_owned());
        }
    }
    of_c.or(primitive).map(str::to_owned)
}

/// `write (futex.rs:173)` → `write`.
fn without_line(frame: &str) -> &str {
    match frame.strip_suffix(')').and_then(|frame| frame.rsplit_once(" (")) {
        Some((name, place)) if place.contains(':') => name,
        _ => frame,
    }
}

fn is_of_c(function: &str) -> bool {
    let name = function.strip_prefix("__libc_").unwrap_or(function);
    ALLOCATORS.contains(&name)
        || !function.contains("::") && COPIES.iter().any(|copy| function.contains(copy))
}

fn is_primitive(function: &str) -> bool {
    let path = function.trim_start_matches(['<', '&']);
    let of_rust = |path: &str| PRIMITIVES.iter().any(|of| path.starts_with(of));
    // Methods of a built-in type, such as `<u64 as core::cmp::PartialEq>::eq`, or of a type
    // parameter, such as `<Q as a::Same>::is`, are primitives too.
    of_rust(path) || path.split_once(" as ").is_some_and(|(of, _)| !of.contains("::"))
}

/// The type or module of a Rust function; other functions are returned unchanged.
fn type_or_module(function: &str) -> &str {
    let mut function = function;
    let path = loop {
        match split_last(function) {
            // A closure counts as the function that contains it.
            Some((around, closure)) if closure.starts_with('{') => function = around,
            Some((path, _)) => break path,
            None => return function,
        }
    };
    // An `impl` outside the module of its type: `a::<impl b::C>::d`.
    let last = split_last(path).map_or(path, |(_, last)| last);
    let brackets = |of: &str| of.starts_with('<') && of.ends_with('>');
    match last.strip_prefix("<impl ") {
        Some(of) if brackets(last) => {
            let of = &of[..of.len() - 1];
            of.rsplit_once(" for ").map_or(of, |(_, of)| of)
        }
        _ if brackets(path) => {
            let of = &path[1..path.len() - 1];
            of.split_once(" as ").map_or(of, |(of, _)| of)
        }
        _ => path,
    }
}

/// `a::B<c::D>::e` → `a::B<c::D>` and `e`.
fn split_last(function: &str) -> Option<(&str, &str)> {
    let mut depth = 0_i32;
    let bytes = function.as_bytes();
    for at in (1..bytes.len()).rev() {
        match bytes[at] {
            // The `>` of an arrow is not a bracket.
            b'>' if bytes[at - 1] != b'-' => depth += 1,
            b'<' => depth -= 1,
            b':' if depth == 0 && bytes[at - 1] == b':' => {
                return Some((&function[..at - 1], &function[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(frames: &[&str]) -> Option<String> {
        user(frames.iter().copied())
    }

    #[test]
    fn methods_of_a_type_have_one_name() {
        let same = |frames: &[&str], expected: &str| {
            for frame in frames {
                assert_eq!(of(&[frame]).as_deref(), Some(expected), "{frame}");
            }
        };
        let lock = [
            "<std::sys::sync::rwlock::futex::RwLock>::write (futex.rs:173)",
            "std::sys::sync::rwlock::futex::RwLock::read_contended",
            "<std::sys::sync::rwlock::futex::RwLock as a::Lock>::lock::{{closure}} (futex.rs:1)",
        ];
        same(&lock, "std::sys::sync::rwlock::futex::RwLock");
        let generic =
            ["a::Map<K,V>::insert::{{closure}}::{{closure}}", "a::Map<K,V>::get (a.rs:1)"];
        same(&generic, "a::Map<K,V>");
        same(&["<a::B<fn(c::D) -> e::F> as g::H<i::J>>::k"], "a::B<fn(c::D) -> e::F>");
        same(&["a::module::function", "a::module::function::{closure#0}"], "a::module");
        same(&["a::b::<impl c::D<E>>::f", "a::b::<impl g::H for c::D<E>>::f"], "c::D<E>");
    }

    #[test]
    fn a_c_function_keeps_its_own_name() {
        assert_eq!(of(&["_int_free", "free"]).as_deref(), Some("_int_free"));
        assert_eq!(of(&["put (map.c:12)", "main"]).as_deref(), Some("put"));
    }

    #[test]
    fn memory_is_named_after_the_caller_of_a_primitive() {
        let map = "a::Map<K,V>::insert (a.rs:1)";
        let primitives = [
            "core::ptr::write (mod.rs:1)",
            "<core::sync::atomic::AtomicU32>::store",
            "__memmove_avx_unaligned_erms",
            "libc.so.6, where it has no symbols",
            "compiler_builtins::mem::memcpy",
            "<u64 as core::cmp::PartialEq>::eq (cmp.rs:1)",
            "<Q as a::Equivalent<K>>::equivalent (a.rs:3)",
            "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            "__rustc::__rust_alloc",
            "__libc_calloc",
        ];
        for primitive in primitives {
            assert_eq!(of(&[primitive, map, "b::C::d"]).as_deref(), Some("a::Map<K,V>"));
        }
        let (calls, bound) =
            ("knee_bind::workers::window", "<a::B as knee_bind::Binding>::prepare");
        assert_eq!(of(&[primitives[0], bound]).as_deref(), Some("a::B"));
        assert_eq!(of(&["free", bound]).as_deref(), Some("free"));
        assert_eq!(of(&["free", map, bound]).as_deref(), Some("a::Map<K,V>"));
        assert_eq!(of(&[primitives[3], primitives[0], calls, map]).as_deref(), Some("libc.so.6"));
        assert_eq!(of(&[calls, map]), None);
    }

    proptest! {
        #[test]
        fn any_symbol_has_a_name(name in "[a-c<>:{} ()é-]{0,20}") {
            prop_assert!(of(&[&name]).is_some());
        }
    }
}
