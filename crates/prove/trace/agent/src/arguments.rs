//! Converts the JSON of a test to plain data.

use knee_harness::name_number;
use knee_plan::{Call, List, MOST, Nr, Whence, ZEROES};
use serde_json::Value;

/// The name of a page of zeroes in tests.
const ZEROES_NAME: &str = "zeroes";

/// The reason why a test cannot be run: an unknown word, or too many objects of a kind.
pub(crate) type Unknown = String;

/// Returns the call with this operation and these arguments. Arguments that make no difference may
/// be absent.
pub(crate) fn call(operation: &str, given: &Value) -> Result<Call, Unknown> {
    let flag = |what: &str| given[what] == true;
    let off = || number(given, "off").unwrap_or(0);
    Ok(match operation {
        "open" => Call::Open {
            name: name(given, "name")?,
            creat: flag("creat"),
            excl: flag("excl"),
            trunc: flag("trunc"),
            anyfd: flag("anyfd"),
        },
        "link" => Call::Link { old: name(given, "old")?, new: name(given, "new")? },
        "unlink" => Call::Unlink { name: name(given, "name")? },
        "rename" => Call::Rename { old: name(given, "old")?, new: name(given, "new")? },
        "stat" => Call::Stat { name: name(given, "name")? },
        "fstat" => Call::Fstat { fd: fd(given)? },
        "lseek" => {
            let whence = match given["whence"].as_str() {
                None | Some("SEEK_SET") => Whence::Set,
                Some("SEEK_CUR") => Whence::Cur,
                Some("SEEK_END") => Whence::End,
                Some(_) => Whence::Invalid,
            };
            Call::Lseek { fd: fd(given)?, off: off(), whence }
        }
        "close" => Call::Close { fd: fd(given)? },
        "pipe" => Call::Pipe,
        "read" => Call::Read { fd: fd(given)? },
        "write" => Call::Write { fd: fd(given)?, datum: datum(given) },
        "pread" => Call::Pread { fd: fd(given)?, off: off() },
        "pwrite" => Call::Pwrite { fd: fd(given)?, off: off(), datum: datum(given) },
        "mmap" => Call::Mmap {
            fd: if flag("anonymous") { None } else { Some(fd(given)?) },
            off: off(),
            writable: flag("writable"),
            va: if flag("fixed") { Some(name(given, "va")?) } else { None },
        },
        "munmap" => Call::Munmap { va: name(given, "va")? },
        "mprotect" => Call::Mprotect { va: name(given, "va")?, writable: flag("writable") },
        "memread" => Call::Memread { va: name(given, "va")? },
        "memwrite" => Call::Memwrite { va: name(given, "va")?, datum: datum(given) },
        other => return Err(format!("unknown operation {other}")),
    })
}

pub(crate) fn text<'v>(value: &'v Value, field: &str) -> Result<&'v str, Unknown> {
    value[field].as_str().ok_or_else(|| format!("{field} is missing"))
}

pub(crate) fn number(value: &Value, field: &str) -> Result<i64, Unknown> {
    value[field].as_i64().ok_or_else(|| format!("{field} is missing"))
}

pub(crate) fn fd(value: &Value) -> Result<i32, Unknown> {
    number(value, "fd").map(|fd| fd as i32)
}

pub(crate) fn name(value: &Value, field: &str) -> Result<Nr, Unknown> {
    name_nr(text(value, field)?)
}

pub(crate) fn names(value: &Value, field: &str) -> Result<List, Unknown> {
    let mut list = List::default();
    for item in value[field].as_array().ok_or_else(|| format!("{field} is missing"))? {
        list.push(item.as_str().map_or(Ok(ZEROES), datum_nr)?)?;
    }
    Ok(list)
}

/// Returns the number of the datum. An absent datum makes no difference to the call, so its number is 0.
pub(crate) fn datum(given: &Value) -> Nr {
    given["datum"].as_str().and_then(|name| datum_nr(name).ok()).unwrap_or(0)
}

/// Returns the number at the end of a datum's name, or `ZEROES` for a page of zeroes.
pub(crate) fn datum_nr(name: &str) -> Result<Nr, Unknown> {
    if name == ZEROES_NAME { Ok(ZEROES) } else { name_nr(name) }
}

/// Returns the number at the end of a name.
pub(crate) fn name_nr(name: &str) -> Result<Nr, Unknown> {
    let number = name_number(name).ok_or_else(|| format!("{name} has no number"))?;
    let nr = Nr::try_from(number).ok().filter(|nr| usize::from(*nr) < MOST);
    nr.ok_or_else(|| format!("{name}: more than {MOST} objects of one kind"))
}
