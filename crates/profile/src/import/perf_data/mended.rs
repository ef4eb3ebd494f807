//! A file that ends in the middle, as one that ends where its last whole record does.
//!
//! When perf is killed, or its disk is full, the header does not say how much there is, or says more than
//! there is, and what should follow the records is missing. All readers refuse such a file, although
//! hours of samples may be in it.

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

/// The file, with a header that is true of it.
pub(super) struct Mended {
    file: File,
    header: Vec<u8>,
    place: u64,
    is_cut: bool,
}

impl Mended {
    pub(super) fn of(mut file: File) -> io::Result<Mended> {
        let length = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mut header = vec![0; HEADER];
        file.read_exact(&mut header).map_err(|_| io::Error::other("it ends in its header"))?;
        let number = |at: usize| -> u64 {
            u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"))
        };
        let is_inside =
            |(start, count): (u64, u64)| start.checked_add(count).is_some_and(|end| end <= length);
        if !is_inside((number(EVENTS), number(EVENTS + 8))) {
            return Err(io::Error::other("its header says that events are beyond its end"));
        }
        if number(ATTR_SIZE) < SMALLEST_ATTR {
            return Err(io::Error::other("its header does not know what an event is"));
        }
        let (start, said) = (number(RECORDS), number(RECORDS + 8));
        let has = |bit: usize| header[FEATURES + bit / 8] >> (bit % 8) & 1 == 1;
        let place_of = |bit: usize| (0..bit).filter(|bit| has(*bit)).count();
        let sections = place_of((HEADER - FEATURES) * 8) as u32;
        let end = start.saturating_add(said);
        // The reader takes as much memory as sections say that they need.
        let is_whole = said > 0 && is_inside((end, u64::from(sections) * SECTION)) && {
            let table = sections_at(&mut file, end, sections)?;
            let mut is_sane = |bit: usize, is_sane: fn(&[u8]) -> bool| -> io::Result<bool> {
                Ok(!has(bit) || is_sane(&section(&mut file, table[place_of(bit)])?))
            };
            table.iter().copied().all(is_inside)
                && is_sane(COMMAND_LINE, is_list)?
                && is_sane(EVENT_NAMES, are_events)?
        };
        if !is_whole && start <= length {
            let end = if said == 0 { length } else { length.min(end) };
            let whole = whole_records(&mut file, start, end)?;
            header[RECORDS + 8..RECORDS + 16].copy_from_slice(&whole.to_le_bytes());
            header[FEATURES..].fill(0);
        }
        header[EVENT_TYPES..FEATURES].fill(0);
        file.rewind()?;
        Ok(Mended { file, header, place: 0, is_cut: !is_whole })
    }

    /// Whether something is missing.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// Places and lengths of the sections behind the records.
fn sections_at(file: &mut File, start: u64, count: u32) -> io::Result<Vec<(u64, u64)>> {
    file.seek(SeekFrom::Start(start))?;
    let mut table = vec![0; count as usize * SECTION as usize];
    file.read_exact(&mut table)?;
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let sections = table.chunks(SECTION as usize);
    Ok(sections.map(|section| (number(&section[..8]), number(&section[8..]))).collect())
}

fn section(file: &mut File, (start, length): (u64, u64)) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
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

/// Bytes of whole records from `start` on.
fn whole_records(file: &mut File, start: u64, length: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::new(&*file);
    let mut place = start;
    let mut header = [0; RECORD_HEADER as usize];
    while place + RECORD_HEADER <= length {
        reader.read_exact(&mut header)?;
        let size = u64::from(u16::from_le_bytes([header[6], header[7]]));
        if size < RECORD_HEADER || place + size > length {
            break;
        }
        place += size;
        reader.seek_relative((size - RECORD_HEADER) as i64)?;
    }
    Ok(place - start)
}

impl Read for Mended {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let in_header = self.header.get(self.place as usize..).filter(|left| !left.is_empty());
        let count = match in_header {
            Some(mut left) => left.read(into)?,
            None => self.file.read(into)?,
        };
        if in_header.is_some() {
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
