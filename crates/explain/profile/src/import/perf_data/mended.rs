//! A file that ends in the middle or is damaged, as one whose records end with the last whole one.
//!
//! When perf is killed, or its disk is full, the header does not say how much there is, or says more than
//! there is, and what should follow the records is missing. All readers refuse such a file, although
//! hours of samples may be in it. And the reader believes lengths: it takes as much memory as a file says
//! that something needs, so that each of them is looked at here first.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Bytes of the header.
const HEADER: usize = 104;
/// Where the header has the length of the attributes of an event.
const ATTR_SIZE: usize = 16;
/// What that is at least: `PERF_ATTR_SIZE_VER0`.
const SMALLEST_ATTR: u64 = 64;
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
const SECTION: u64 = 16;
/// Bytes of a record's header.
const RECORD_HEADER: u64 = 8;
/// `PERF_RECORD_AUXTRACE`: what a processor traced follows such a record, as much as it says first.
const AUXTRACE: u32 = 71;
/// Bytes of the records that are looked at in one go.
const AT_ONCE: usize = 1 << 20;

/// The file, with a header that is true of it.
pub(super) struct Mended {
    file: File,
    place: u64,
    /// Bytes to be read instead of those of the file, and where, in the order of their places.
    instead: [(u64, Vec<u8>); 2],
    is_cut: bool,
}

impl Mended {
    pub(super) fn of(mut file: File) -> io::Result<Mended> {
        let length = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mut header = vec![0; HEADER];
        file.read_exact(&mut header).map_err(|_| io::Error::other("its header is truncated"))?;
        let number = |at: usize| -> u64 {
            u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"))
        };
        let is_inside =
            |(start, count): (u64, u64)| start.checked_add(count).is_some_and(|end| end <= length);
        if !is_inside((number(EVENTS), number(EVENTS + 8))) {
            return Err(io::Error::other("its header places events beyond the end of the file"));
        }
        if number(ATTR_SIZE) < SMALLEST_ATTR {
            return Err(io::Error::other("its header has an invalid event size"));
        }
        let (start, said) = (number(RECORDS), number(RECORDS + 8));
        let has = |bit: usize| header[FEATURES + bit / 8] >> (bit % 8) & 1 == 1;
        let place_of = |bit: usize| (0..bit).filter(|bit| has(*bit)).count();
        let end = start.saturating_add(said);
        let table = (end, place_of((HEADER - FEATURES) * 8) as u64 * SECTION);
        let mut follows = Vec::new();
        let is_whole = said > 0 && is_inside(table) && {
            follows = section(&mut file, table)?;
            let sections = places(&follows);
            let mut is_sane = |bit: usize, is_sane: fn(&[u8]) -> bool| -> io::Result<bool> {
                Ok(!has(bit) || is_sane(&section(&mut file, sections[place_of(bit)])?))
            };
            sections.iter().copied().all(is_inside)
                && sections.iter().map(|(_, count)| count).sum::<u64>() <= length
                && is_sane(COMMAND_LINE, is_list)?
                && is_sane(EVENT_NAMES, are_events)?
        };
        let records_end = if said == 0 { length } else { length.min(end) };
        let whole_end = whole_records(&mut file, start, records_end)?;
        if !is_whole {
            header[FEATURES..].fill(0);
            follows.clear();
        }
        let whole = whole_end.saturating_sub(start);
        header[RECORDS + 8..RECORDS + 16].copy_from_slice(&whole.to_le_bytes());
        header[EVENT_TYPES..FEATURES].fill(0);
        file.rewind()?;
        let is_cut = !is_whole || whole_end < end;
        // The reader looks for the table of sections where the records end.
        Ok(Mended { file, place: 0, instead: [(0, header), (whole_end, follows)], is_cut })
    }

    /// Whether something is missing.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Places and lengths of sections, by the table of them that follows the records.
fn places(table: &[u8]) -> Vec<(u64, u64)> {
    let (numbers, _) = table.as_chunks::<8>();
    let (sections, _) = numbers.as_chunks::<2>();
    let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    sections.iter().map(|[start, length]| (number(start), number(length))).collect()
}

/// Bytes at a place that is inside of the file.
fn section(file: &mut File, (start, length): (u64, u64)) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    match file.take(length).read_to_end(&mut bytes)? as u64 == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
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

/// Where the whole records between two places of a file end.
fn whole_records(file: &mut File, start: u64, end: u64) -> io::Result<u64> {
    if start > end {
        return Ok(start);
    }
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::with_capacity(AT_ONCE, &*file);
    let mut place = start;
    let mut header = [0; RECORD_HEADER as usize];
    while place + RECORD_HEADER <= end {
        reader.read_exact(&mut header)?;
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let size = u64::from(u16::from_le_bytes([header[6], header[7]]));
        if size < RECORD_HEADER || place + size > end {
            break;
        }
        let mut left = size - RECORD_HEADER;
        let mut behind = 0;
        if kind == AUXTRACE && left >= 8 {
            let mut bytes = [0; 8];
            reader.read_exact(&mut bytes)?;
            behind = u64::from_le_bytes(bytes);
            left -= 8;
        }
        if behind > end - (place + size) {
            break;
        }
        place += size + behind;
        reader.seek_relative((left + behind) as i64)?;
    }
    Ok(place)
}

impl Read for Mended {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let place = self.place;
        let instead = self.instead.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(place.checked_sub(*start)?).ok()?;
            bytes.get(from..).filter(|left| !left.is_empty())
        });
        let count = match instead {
            Some(mut left) => left.read(into)?,
            None => {
                let next = self.instead.iter().map(|(start, _)| *start).find(|next| *next > place);
                let until_next = next.map_or(u64::MAX, |next| next - place);
                (&self.file).take(until_next).read(into)?
            }
        };
        if instead.is_some() {
            self.file.seek_relative(count as i64)?;
        }
        self.place += count as u64;
        Ok(count)
    }
}

impl Seek for Mended {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.place = self.file.seek(to)?;
        Ok(self.place)
    }
}
