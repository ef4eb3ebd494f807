//! A file that ends in the middle or is damaged, as one whose records end with the last whole one.
//!
//! When perf is killed, or its disk is full, the header does not say how much there is, or says more than
//! there is, and what should follow the records is missing. All readers refuse such a file, although
//! hours of samples may be in it. And the reader believes lengths: it takes as much memory as a file says
//! that something needs, so that each of them is looked at here first.

use std::fs::File;
use std::io::{self, Cursor};
use std::iter;

use memmap2::{MmapMut, MmapOptions};

/// Bytes of the header.
const HEADER: usize = 104;
/// Where the header has the length of the attributes of an event.
const ATTR_SIZE: usize = 16;
/// What that is at least: `PERF_ATTR_SIZE_VER0`.
const SMALLEST_ATTR: usize = 64;
/// Where the header has the place and the length of what was sampled.
const EVENTS: usize = 24;
/// Where it has those of the records.
const RECORDS: usize = 40;
/// Where it has those of a section that no perf has written since 2011.
const EVENT_TYPES: usize = 56;
/// Where it has which other sections follow them, a bit for each.
const FEATURES: usize = 72;
/// Bits of the sections that say how much of something follows, which the reader believes.
const COMMAND_LINE: usize = 11;
const EVENT_NAMES: usize = 12;
/// Bytes that say where such a section is.
const SECTION: usize = 16;
/// Bytes of a record's header.
const RECORD_HEADER: usize = 8;
/// `PERF_RECORD_AUXTRACE`: what a processor traced follows such a record, as much as it says first.
const AUXTRACE: u32 = 71;

/// The content of a file, with a header that is true of it, and whether something is missing.
///
/// The file itself does not change.
pub(super) fn mended(file: &File) -> io::Result<(Cursor<MmapMut>, bool)> {
    // SAFETY: our writes are private, and nobody rewrites the file meanwhile: perf only appends to it, and
    // maps the files that it reads as well.
    let mut bytes = unsafe { MmapOptions::new().map_copy(file)? };
    if bytes.len() < HEADER {
        return Err(io::Error::other("its header is truncated"));
    }
    if section(&bytes, &bytes[EVENTS..]).is_none() {
        return Err(io::Error::other("its header places events beyond the end of the file"));
    }
    if number(&bytes, ATTR_SIZE) < SMALLEST_ATTR {
        return Err(io::Error::other("its header has an invalid event size"));
    }
    let (start, said) = (number(&bytes, RECORDS), number(&bytes, RECORDS + 8));
    let end = start.saturating_add(said);
    let records_end = if said == 0 { bytes.len() } else { bytes.len().min(end) };
    let records = &bytes[..records_end];
    let whole_end = iter::successors(Some(start), |at| next_record(records, *at)).last();
    let whole_end = whole_end.unwrap_or(start);
    let table = table_of_sections(&bytes).map(<[u8]>::to_vec);
    let is_cut = table.is_none() || whole_end < end;
    match table {
        // The reader looks for the table where the records end.
        Some(table) => bytes[whole_end..][..table.len()].copy_from_slice(&table),
        None => bytes[FEATURES..HEADER].fill(0),
    }
    bytes[RECORDS + 8..][..8].copy_from_slice(&((whole_end - start) as u64).to_le_bytes());
    bytes[EVENT_TYPES..FEATURES].fill(0);
    Ok((Cursor::new(bytes), is_cut))
}

/// The table of the sections that follow the records, if all of them are there and as long as they say.
fn table_of_sections(bytes: &[u8]) -> Option<&[u8]> {
    let (start, said) = (number(bytes, RECORDS), number(bytes, RECORDS + 8));
    let has = |bit: &usize| bytes[FEATURES + bit / 8] >> (bit % 8) & 1 == 1;
    let features: Vec<usize> = (0..8 * (HEADER - FEATURES)).filter(has).collect();
    let table = slice(bytes, start.checked_add(said)?, features.len() * SECTION)?;
    let mut all = 0;
    for (feature, place) in features.iter().zip(table.chunks_exact(SECTION)) {
        let section = section(bytes, place)?;
        all += section.len();
        let is_sane = match *feature {
            COMMAND_LINE => is_list(section),
            EVENT_NAMES => are_events(section),
            _ => true,
        };
        if !is_sane {
            return None;
        }
    }
    // It is written where whole records end, which must not be in the header.
    (start >= HEADER && said > 0 && all <= bytes.len()).then_some(table)
}

/// The section whose place and length stand at the beginning of `place`, if it is inside of the file.
fn section<'a>(bytes: &'a [u8], place: &[u8]) -> Option<&'a [u8]> {
    slice(bytes, number(place, 0), number(place, 8))
}

fn slice(bytes: &[u8], start: usize, length: usize) -> Option<&[u8]> {
    bytes.get(start..start.checked_add(length)?)
}

/// The number of eight bytes at a place.
fn number(bytes: &[u8], at: usize) -> usize {
    let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
    usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX)
}

fn number_at(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
}

/// Whether a section has room for as many texts as it says that it has.
fn is_list(bytes: &[u8]) -> bool {
    number_at(bytes, 0).is_some_and(|count| count <= bytes.len() / 4)
}

/// Whether a section has room for the events that it says that it has: attributes of each, then how many
/// numbers it has, its name, and those numbers.
fn are_events(bytes: &[u8]) -> bool {
    let end = || {
        let (count, attributes) = (number_at(bytes, 0)?, number_at(bytes, 4)?);
        (0..count).try_fold(8_usize, |at, _| {
            let at = at.checked_add(attributes)?;
            let (numbers, name) = (number_at(bytes, at)?, number_at(bytes, at + 4)?);
            at.checked_add(8)?.checked_add(name)?.checked_add(8 * numbers)
        })
    };
    number_at(bytes, 0).is_some_and(|count| count <= bytes.len() / 16)
        && end().is_some_and(|end| end <= bytes.len())
}

/// Where the record at a place ends, with what follows it, if it is whole.
fn next_record(bytes: &[u8], at: usize) -> Option<usize> {
    let &[k0, k1, k2, k3, _, _, s0, s1] = slice(bytes, at, RECORD_HEADER)?.first_chunk()?;
    let size = u16::from_le_bytes([s0, s1]).into();
    let record = slice(bytes, at, size)?;
    let end = match u32::from_le_bytes([k0, k1, k2, k3]) {
        AUXTRACE if size >= RECORD_HEADER + 8 => {
            (at + size).checked_add(number(record, RECORD_HEADER))?
        }
        _ => at + size,
    };
    (size >= RECORD_HEADER && end <= bytes.len()).then_some(end)
}
