//! Repairs the header of a truncated or damaged file, so that its records end with the last whole one.
//!
//! If perf is killed or its disk is full, the header states no length or one that is too large, and the
//! sections after the records are missing. Readers refuse such a file, although it may contain hours of
//! samples. The reader also allocates as much memory as the lengths in the file demand, so all of them are
//! checked here first.

use std::fs::File;
use std::io::{self, Cursor};

use knee_host::mapping::mappable;
use knee_host::regular_file::FileError;
use memmap2::{MmapMut, MmapOptions};

/// The largest file that is copied because other users can change it. Other files may have any size.
const MOST_COPIED: u64 = 512 << 20;
/// Size of the header.
const HEADER: usize = 104;
/// Offset of the size of an event's attributes.
const ATTR_SIZE: usize = 16;
/// Minimum of that size: `PERF_ATTR_SIZE_VER0`.
const SMALLEST_ATTR: usize = 64;
/// Offset of the place and length of the sampled events.
const EVENTS: usize = 24;
/// Offset of the place and length of the records.
const RECORDS: usize = 40;
/// Offset of the place and length of a section that perf has not written since 2011.
const EVENT_TYPES: usize = 56;
/// Offset of a bit set of the sections that follow the records.
const FEATURES: usize = 72;
/// Bits of the sections with a count that the reader does not check.
const COMMAND_LINE: usize = 11;
const EVENT_NAMES: usize = 12;
/// Size of the place and length of such a section.
const SECTION: usize = 16;
/// Size of a record's header.
const RECORD_HEADER: usize = 8;
/// `PERF_RECORD_FINISHED_ROUND`: perf has read all buffers once. The reader sorts the records of two such rounds.
const FINISHED_ROUND: u32 = 68;
/// `PERF_RECORD_AUXTRACE`: processor trace data follows such a record. Its first field is their length.
const AUXTRACE: u32 = 71;
/// `PERF_RECORD_COMPRESSED` and `PERF_RECORD_COMPRESSED2` contain records. A few bytes of them can contain gigabytes.
const COMPRESSED: [u32; 2] = [81, 83];
/// Memory that the reader needs for a record in addition to its size.
const RECORD_COST: usize = 160;
/// The most memory for the records of two rounds. Full buffers of 256 CPUs, of 512 KiB each by default, take 336 MiB.
const MOST_SORTED: usize = 512 << 20;

/// The content of a file with a correct header, and whether something is missing.
///
/// The file itself does not change.
pub(super) fn repaired(file: File) -> io::Result<(Cursor<MmapMut>, bool)> {
    let file = mappable(file, MOST_COPIED).map_err(|error| match error {
        FileError::TooLarge(most) => io::Error::other(format!(
            "other users can change it, and it is larger than {} MiB; copy it to a file of your own",
            most >> 20
        )),
        error => error.into(),
    })?;
    // SAFETY: writes to the mapping are private. No other user can change the file or the copy, and perf, which
    // maps the files that it reads as well, only appends to a file. So nobody changes the mapped bytes.
    let mut bytes = unsafe { MmapOptions::new().map_copy(&file)? };
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
    let whole_end = end_of_whole_records(records, start)?;
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

/// The table of the sections after the records, if all of them are complete and valid.
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
    // The caller writes the table where the whole records end, which must not be in the header.
    (start >= HEADER && said > 0 && all <= bytes.len()).then_some(table)
}

/// The section with the place and length at the start of `place`, if it is inside the file.
fn section<'a>(bytes: &'a [u8], place: &[u8]) -> Option<&'a [u8]> {
    slice(bytes, number(place, 0), number(place, 8))
}

fn slice(bytes: &[u8], start: usize, length: usize) -> Option<&[u8]> {
    bytes.get(start..start.checked_add(length)?)
}

/// The 64-bit number at an offset.
fn number(bytes: &[u8], at: usize) -> usize {
    let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
    usize::try_from(u64::from_le_bytes(bytes)).unwrap_or(usize::MAX)
}

fn number32(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
}

/// Whether a section is large enough for the count of strings that it states.
fn is_list(bytes: &[u8]) -> bool {
    number32(bytes, 0).is_some_and(|count| count <= bytes.len() / 4)
}

/// Whether a section is large enough for the events that it states. Each event has attributes, a count of
/// numbers, a name, and the numbers.
fn are_events(bytes: &[u8]) -> bool {
    let end = || {
        let (count, attributes) = (number32(bytes, 0)?, number32(bytes, 4)?);
        (0..count).try_fold(8_usize, |at, _| {
            let at = at.checked_add(attributes)?;
            let (numbers, name) = (number32(bytes, at)?, number32(bytes, at + 4)?);
            at.checked_add(8)?.checked_add(name)?.checked_add(8 * numbers)
        })
    };
    number32(bytes, 0).is_some_and(|count| count <= bytes.len() / 16)
        && end().is_some_and(|end| end <= bytes.len())
}

/// The end of the last whole record, if the reader can take in all of them.
fn end_of_whole_records(bytes: &[u8], start: usize) -> io::Result<usize> {
    let mut end = start;
    // The memory for the records of this round, and for those of the round before.
    let (mut round, mut before) = (0_usize, 0_usize);
    while let Some((kind, next)) = next_record(bytes, end) {
        if COMPRESSED.contains(&kind) {
            return Err(io::Error::other("its records are compressed (perf record -z)"));
        }
        if kind == FINISHED_ROUND {
            (round, before) = (0, round);
        } else {
            round += RECORD_COST + next - end;
        }
        if round + before > MOST_SORTED {
            let most = MOST_SORTED >> 20;
            return Err(io::Error::other(format!(
                "sorting the records of two rounds takes more than {most} MiB"
            )));
        }
        end = next;
    }
    Ok(end)
}

/// The type and the end of the record at an offset, including its trace data, if it is whole.
fn next_record(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let &[k0, k1, k2, k3, _, _, s0, s1] = slice(bytes, at, RECORD_HEADER)?.first_chunk()?;
    let size = u16::from_le_bytes([s0, s1]).into();
    let record = slice(bytes, at, size)?;
    let kind = u32::from_le_bytes([k0, k1, k2, k3]);
    let end = match kind {
        // The reader would take its content for the next record.
        FINISHED_ROUND if size != RECORD_HEADER => return None,
        AUXTRACE if size >= RECORD_HEADER + 8 => {
            (at + size).checked_add(number(record, RECORD_HEADER))?
        }
        _ => at + size,
    };
    (size >= RECORD_HEADER && end <= bytes.len()).then_some((kind, end))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::super::MAGIC;
    use super::*;

    fn record(kind: u32, size: u16) -> Vec<u8> {
        let mut record = [&kind.to_le_bytes()[..], &[0, 0], &size.to_le_bytes()].concat();
        record.resize(size.into(), 0);
        record
    }

    #[test]
    fn compressed_records_are_refused() {
        for kind in COMPRESSED {
            let records = [record(9, 32), record(kind, 16)].concat();
            let error = end_of_whole_records(&records, 0).unwrap_err().to_string();
            assert!(error.contains("perf record -z"), "{error}");
        }
    }

    #[test]
    fn two_rounds_have_a_limited_number_of_records() {
        let most = MOST_SORTED / (RECORD_COST + RECORD_HEADER);
        let half = record(200, 8).repeat(most / 2);
        let end = record(FINISHED_ROUND, 8);
        let rounds = [&half[..], &end, &half, &end, &half].concat();
        assert_eq!(end_of_whole_records(&rounds, 0).unwrap(), rounds.len());
        for too_many in [[&half[..], &half, &half], [&half[..], &end, &record(200, 8).repeat(most)]]
        {
            let error = end_of_whole_records(&too_many.concat(), 0).unwrap_err().to_string();
            assert!(error.contains("more than 512 MiB"), "{error}");
        }
        // The content of the record that ends a round is not a record.
        assert_eq!(end_of_whole_records(&record(FINISHED_ROUND, 16), 0).unwrap(), 0);
    }

    #[test]
    fn a_file_may_be_truncated_by_another_user_while_it_is_read() {
        let mut bytes = vec![0; 1 << 16];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[ATTR_SIZE] = SMALLEST_ATTR as u8;
        bytes[RECORDS] = HEADER as u8;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        std::fs::set_permissions(file.path(), Permissions::from_mode(0o666)).unwrap();
        let (content, is_cut) = repaired(file.reopen().unwrap()).unwrap();
        file.as_file().set_len(0).unwrap();
        // Without a copy, this access would end the test with SIGBUS.
        assert_eq!(content.into_inner().last(), Some(&0));
        assert!(is_cut);
    }
}
