//! The types of data, as the kernel describes them: what a field is, and how its struct is laid out.

use std::collections::BTreeMap;

use knee_host::json::at_most;
use knee_host::text::one_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::btf::{Btf, Kind, TypeId};
use super::fields::Place;

/// Maximum number of fields of a struct that are recorded or read. The largest structs of Linux have a few hundred.
const MAX_MEMBERS: usize = 1_000;
/// Maximum length of the name of a type or a field, in characters. A hostile guest can name them as it likes.
const MAX_NAME: usize = 200;
/// Maximum nesting of pointers and arrays in a type, and of anonymous structs in a struct.
const MAX_DEPTH: usize = 8;

/// The types of data, and the structs that contain them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layouts {
    /// By the name of a datum: its type.
    pub fields: BTreeMap<String, FieldType>,
    /// By name: the layout of each struct that has one of these fields.
    pub structs: BTreeMap<String, Layout>,
}

/// The type of a field, and its struct.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldType {
    /// The type as in C, without the word `struct`: `atomic_t`, `list_head`, `file *`. Empty if the datum is
    /// padding.
    #[serde(rename = "type")]
    pub of: String,
    /// The struct.
    #[serde(rename = "struct")]
    pub within: String,
}

/// An object in which calls access different fields of one cache line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct FalselyShared {
    /// Its struct.
    #[serde(rename = "struct")]
    pub within: String,
    /// The offset of the line in the object, in bytes; negative if the object begins in the line.
    pub offset: i64,
    /// The accessed fields.
    #[serde(deserialize_with = "at_most::<MAX_MEMBERS, _, _>")]
    pub fields: Vec<Access>,
}

/// A call's access to a field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Access {
    /// The call's position in the test's id, counted from 0.
    pub call: usize,
    /// Whether the call wrote to the field.
    pub wrote: bool,
    /// The path to the field in the struct.
    pub name: String,
    /// Its type as in C, without the word `struct`.
    #[serde(rename = "type")]
    pub of: String,
    /// Its offset in the struct, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The layout of a struct.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    /// The size of the struct in bytes.
    pub bytes: u64,
    /// The fields in the order of the source. The fields of anonymous structs and unions are the struct's own.
    #[serde(deserialize_with = "at_most::<MAX_MEMBERS, _, _>")]
    pub members: Vec<Member>,
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its type as in C, without the word `struct`.
    #[serde(rename = "type")]
    pub of: String,
    /// Its offset in the struct, in bytes. Fields of a union have the same offset, and so may bit-fields.
    pub offset: u64,
    /// Its size in bytes; for a bit-field, the size of its type.
    pub bytes: u64,
}

impl Layouts {
    /// Whether it has no types.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Adds other types. Existing entries win.
    pub fn extend(&mut self, other: Layouts) {
        for (name, field) in other.fields {
            self.fields.entry(name).or_insert(field);
        }
        for (name, layout) in other.structs {
            self.structs.entry(name).or_insert(layout);
        }
    }

    /// Adds the type of a datum.
    pub(super) fn add_field(&mut self, btf: &Btf, datum: &str, place: Place) {
        let (of, within) = (c_type(btf, place.of, MAX_DEPTH), short(btf.name(place.within)));
        self.fields.insert(one_line(datum).into_owned(), FieldType { of, within });
    }

    /// Adds the layout of a struct.
    pub(super) fn add_struct(&mut self, btf: &Btf, of: TypeId) {
        self.structs.insert(short(btf.name(of)), layout(btf, of));
    }

    /// The number of fields and of members of structs.
    pub(crate) fn count(&self) -> usize {
        let members: usize = self.structs.values().map(|layout| layout.members.len()).sum();
        self.fields.len() + members
    }
}

impl Access {
    /// The access of a call to the field with this name, `struct.path (role)`; `None` for padding.
    pub(super) fn of(
        btf: &Btf,
        name: &str,
        place: Place,
        call: usize,
        wrote: bool,
    ) -> Option<Self> {
        let path = name.split_once('.')?.1;
        let path = path.split_once(" (").map_or(path, |(path, _)| path);
        let (of, bytes) = (c_type(btf, place.of, MAX_DEPTH), btf.bytes(place.of));
        Some(Self { call, wrote, name: short(path), of, offset: place.offset, bytes })
    }
}

fn layout(btf: &Btf, of: TypeId) -> Layout {
    let mut members = Vec::new();
    add_members(btf, btf.resolve(of), 0, MAX_DEPTH, &mut members, &mut { MAX_MEMBERS });
    Layout { bytes: btf.bytes(of), members }
}

/// Adds the fields of a struct that begins at `begin`. `left` is the number of members that may still be visited, which
/// stops hostile types in which an anonymous struct contains itself.
fn add_members(
    btf: &Btf,
    of: TypeId,
    begin: u64,
    depth: usize,
    to: &mut Vec<Member>,
    left: &mut usize,
) {
    let Kind::Composite { members, .. } = btf.kind(of) else { return };
    for member in members {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        let offset = begin.saturating_add(member.offset());
        let name = btf.member_name(member);
        if name.is_empty() {
            let Some(depth) = depth.checked_sub(1) else { continue };
            add_members(btf, btf.resolve(member.of), offset, depth, to, left);
        } else {
            let of = c_type(btf, member.of, MAX_DEPTH);
            to.push(Member { name: short(name), of, offset, bytes: btf.bytes(member.of) });
        }
    }
}

/// A type as in C, without the word `struct`.
fn c_type(btf: &Btf, of: TypeId, depth: usize) -> String {
    let name = btf.known_as(of);
    if !name.is_empty() || depth == 0 {
        return short(name);
    }
    match btf.kind(btf.resolve(of)) {
        Kind::Pointer(to) => match &*c_type(btf, *to, depth - 1) {
            "" if matches!(btf.kind(btf.resolve(*to)), Kind::Void) => "void *".to_owned(),
            "" => "function *".to_owned(),
            pointer if pointer.ends_with('*') => format!("{pointer}*"),
            to => format!("{to} *"),
        },
        Kind::Array { element, count } => {
            format!("{}[{count}]", c_type(btf, *element, depth - 1))
        }
        Kind::Composite { is_union: true, .. } => "union".to_owned(),
        Kind::Composite { .. } => "struct".to_owned(),
        _ => String::new(),
    }
}

/// A name from the guest on one line, cut off after [`MAX_NAME`] characters.
pub(super) fn short(name: &str) -> String {
    let name: String = name.chars().take(MAX_NAME).collect();
    one_line(&name).into_owned()
}
