//! Uses a program's debug information to map code addresses to functions, including inlined functions.

use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, LittleEndian};
use object::{File, Object, ObjectSection};

/// The debug information of a file.
pub(crate) struct Lines(Context<EndianArcSlice<LittleEndian>>);

impl Lines {
    /// Reads the debug information of a file; `None` if it has none.
    pub(crate) fn of(file: &File<'_>) -> Option<Lines> {
        file.section_by_name(".debug_line")?;
        let section = |id: gimli::SectionId| {
            let section = file.section_by_name(id.name());
            let data = section.and_then(|section| section.uncompressed_data().ok());
            Ok::<_, gimli::Error>(EndianArcSlice::new(
                Arc::from(&*data.unwrap_or_default()),
                LittleEndian,
            ))
        };
        Dwarf::load(section).and_then(Context::from_dwarf).ok().map(Lines)
    }

    /// The functions at an address of the file, each with its source line: the innermost inlined function
    /// first, then the functions that contain it. Innermost functions from the `core` crate are left out,
    /// unless there are no other functions.
    pub(crate) fn frames(&self, address: u64) -> Vec<String> {
        let Ok(mut frames) = self.0.find_frames(address).skip_all_loads() else {
            return Vec::new();
        };
        let (mut names, mut primitive) = (Vec::new(), None);
        while let Ok(Some(frame)) = frames.next() {
            let Some(function) = frame.function else { continue };
            let Ok(mangled) = function.raw_name() else { continue };
            let name = format!("{:#}", rustc_demangle::demangle(&mangled));
            let is_primitive = name.trim_start_matches('<').starts_with("core::");
            let line = frame.location.and_then(|at| Some((at.file?, at.line?)));
            let named = match line {
                Some((file, line)) => {
                    let file = file.rsplit('/').next().unwrap_or(file);
                    format!("{name} ({file}:{line})")
                }
                None => name,
            };
            if is_primitive && names.is_empty() {
                primitive = Some(named);
            } else {
                names.push(named);
            }
        }
        if names.is_empty() { primitive.into_iter().collect() } else { names }
    }
}
