//! Short names of the data in a line.

use std::fmt;

use knee_trace::Datum;

/// Begin of the remark after a name: `page.flags (page cache of tmpfs)`.
const REMARK: &str = " (";

/// The used parts of an object.
struct Object<'n> {
    name: &'n str,
    remark: &'n str,
    fields: Vec<&'n str>,
    /// Bytes of an object whose type is unknown. A name without a part stands for the first byte.
    offsets: Vec<u64>,
}

/// The names of all data in the line, each once, with the name of an object only once:
/// `page.{flags, _refcount} (page cache of tmpfs)`, `kmalloc-512+0x0…0x18`.
pub(super) fn name(datum: &Datum) -> String {
    let mut objects: Vec<Object<'_>> = Vec::new();
    for whole in datum.fields.iter().chain(&datum.beside) {
        let new = Object::of(whole);
        match objects.iter_mut().find(|known| (known.name, known.remark) == (new.name, new.remark))
        {
            Some(known) => known.add(&new),
            None => objects.push(new),
        }
    }
    objects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl<'n> Object<'n> {
    fn of(whole: &'n str) -> Self {
        let (data, remark) = whole.split_at(whole.find(REMARK).unwrap_or(whole.len()));
        let offset = data
            .split_once("+0x")
            .and_then(|(object, digits)| Some((object, u64::from_str_radix(digits, 16).ok()?)));
        let (name, fields, offsets) = match (offset, data.split_once('.')) {
            (Some((object, offset)), _) => (object, Vec::new(), vec![offset]),
            (None, Some((object, field))) => (object, vec![field], Vec::new()),
            (None, None) => (data, Vec::new(), vec![0]),
        };
        Self { name, remark, fields, offsets }
    }

    fn add(&mut self, other: &Self) {
        for field in &other.fields {
            if !self.fields.contains(field) {
                self.fields.push(field);
            }
        }
        self.offsets.extend(&other.offsets);
        self.offsets.sort_unstable();
        self.offsets.dedup();
    }
}

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match &self.fields[..] {
            [] => {}
            [only] => write!(f, ".{only}")?,
            several => write!(f, ".{{{}}}", several.join(", "))?,
        }
        match &self.offsets[..] {
            [] | [0] => {}
            [only] => write!(f, "+{only:#x}")?,
            [first, .., last] => write!(f, "+{first:#x}…{last:#x}")?,
        }
        f.write_str(self.remark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(fields: &[&str], beside: &[&str]) -> String {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        name(&Datum { fields: owned(fields), beside: owned(beside) })
    }

    #[test]
    fn a_name_appears_once() {
        assert_eq!(short(&["per-cpu allocation"], &["per-cpu allocation"]), "per-cpu allocation");
        assert_eq!(short(&["zone.lock"], &[]), "zone.lock");
    }

    #[test]
    fn fields_of_an_object_share_its_name_and_its_remark() {
        let tmpfs = ["page.flags.f (page cache of tmpfs)", "page._refcount (page cache of tmpfs)"];
        assert_eq!(short(&tmpfs, &[]), "page.{flags.f, _refcount} (page cache of tmpfs)");
        let tlb = "per-cpu cpu_tlbstate";
        let [generation, mm, asid] =
            ["ctxs.tlb_gen", "loaded_mm", "loaded_mm_asid"].map(|field| format!("{tlb}.{field}"));
        assert_eq!(
            short(&[&generation], &[&mm, &asid]),
            "per-cpu cpu_tlbstate.{ctxs.tlb_gen, loaded_mm, loaded_mm_asid}"
        );
        assert_eq!(short(&["cred.usage", "file.f_count"], &[]), "cred.usage, file.f_count");
    }

    #[test]
    fn bytes_of_an_object_of_unknown_type_are_a_range() {
        let all = ["kmalloc-512", "kmalloc-512+0x8", "kmalloc-512+0x18"];
        assert_eq!(short(&all, &[]), "kmalloc-512+0x0…0x18");
        assert_eq!(short(&all[..1], &[]), "kmalloc-512");
        assert_eq!(short(&all[1..2], &all[..1]), "kmalloc-512+0x0…0x8");
    }
}
