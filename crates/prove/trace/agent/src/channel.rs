//! Memory that a guest shares with the host: plans go in, reports and the kernel's symbols come out.
//!
//! It is the memory of QEMU's device ivshmem-plain, which needs no driver: the guest maps it through
//! sysfs. A serial console would take longer for a test's report than the test takes.
//!
//! ```text
//! header │ plans │ reports │ symbols
//! ```
//!
//! The header is words of 64 bits, little-endian, in the order of [`Word`]. Plans and reports are in
//! the format of crate postcard, each behind its length, a word.

use std::io;
use std::sync::atomic::{Ordering::Release, fence};

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::run::Done;

const WORD_BYTES: usize = 8;
const HEADER_BYTES: usize = 4096;
/// Room for the report of a test, on average.
const REPORT_BYTES: usize = 1024;
/// Room for the text of /proc/kallsyms: with modules it has 12 MB in large kernels.
const SYMBOLS_BYTES: usize = 32 << 20;

/// Words of the header.
#[derive(Debug, Clone, Copy)]
pub enum Word {
    /// How many plans there are.
    Plans,
    /// Not 0: the host requests another run of the plan.
    Again,
    /// Where reports begin, in bytes.
    ReportsAt,
    /// Where symbols begin, in bytes.
    SymbolsAt,
    /// Tests that the guest has begun.
    Begun,
    /// Bytes of reports that are there.
    Reported,
    /// Bytes of symbols that are there: none or all.
    Symbols,
}

impl Word {
    /// Its offset in bytes.
    pub fn at(self) -> usize {
        self as usize * WORD_BYTES
    }
}

/// The result of a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Which.
    pub plan: usize,
    /// What its calls returned.
    pub done: Done,
    /// Runs that the plugin saw.
    pub seen: u64,
}

/// The channel as the host makes it: its content, and its size, a power of two. The rest is
/// zeroes.
pub fn channel(plans: &[&Plan]) -> (Vec<u8>, u64) {
    let mut content = vec![0; HEADER_BYTES];
    for plan in plans {
        append(plan, &mut content);
    }
    let reports_at = content.len().next_multiple_of(HEADER_BYTES);
    let symbols_at = reports_at + (plans.len() * REPORT_BYTES).next_multiple_of(HEADER_BYTES);
    for (word, value) in
        [(Word::Plans, plans.len()), (Word::ReportsAt, reports_at), (Word::SymbolsAt, symbols_at)]
    {
        content[word.at()..][..WORD_BYTES].copy_from_slice(&(value as u64).to_le_bytes());
    }
    (content, ((symbols_at + SYMBOLS_BYTES) as u64).next_power_of_two())
}

pub(crate) fn append(value: &impl Serialize, to: &mut Vec<u8>) {
    let at = to.len();
    to.extend([0; WORD_BYTES]);
    let begin = to.len();
    postcard::to_io(value, &mut *to).expect("plain data is serialized into memory");
    let length = (to.len() - begin) as u64;
    to[at..begin].copy_from_slice(&length.to_le_bytes());
}

/// The first value of a list, and the rest; `None` if the value is incomplete.
pub(crate) fn first<'d, T: Deserialize<'d>>(from: &'d [u8]) -> Option<(T, &'d [u8])> {
    let (length, rest) = from.split_first_chunk::<WORD_BYTES>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    Some((postcard::from_bytes(value).ok()?, rest))
}

/// The reports in what has been read of them. What a guest wrote may be anything; what cannot be
/// read ends the list.
pub fn reports(from: &[u8]) -> Vec<Report> {
    let (mut reports, mut rest) = (Vec::new(), from);
    while let Some((report, behind)) = first(rest) {
        reports.push(report);
        rest = behind;
    }
    reports
}

/// The channel as the guest has it.
pub(crate) struct Shared {
    at: *mut u8,
    bytes: usize,
    reported: usize,
}

impl Shared {
    /// The memory that begins there.
    ///
    /// # Safety
    /// The memory is mapped for reading and writing, is never unmapped, and nothing else in this program
    /// uses it.
    pub(crate) unsafe fn new(at: *mut u8, bytes: usize) -> io::Result<Shared> {
        match bytes >= HEADER_BYTES {
            true => Ok(Shared { at, bytes, reported: 0 }),
            false => Err(io::Error::other("the channel to the host has no room for its header")),
        }
    }

    /// A word.
    pub(crate) fn get(&self, word: Word) -> usize {
        // SAFETY: it is in the header, and aligned. The host changes it only while the guest is paused.
        let word = unsafe { self.at.add(word.at()).cast::<u64>().read_volatile() };
        u64::from_le(word) as usize
    }

    /// Sets a word, after all that was written before.
    pub(crate) fn set(&mut self, word: Word, value: usize) {
        fence(Release);
        // SAFETY: it is in the header, and aligned; the host only reads it, and the guest has one writer.
        unsafe { self.at.add(word.at()).cast::<u64>().write_volatile((value as u64).to_le()) };
    }

    /// The plans, one after the other.
    pub(crate) fn plans(&self) -> impl Iterator<Item = Plan> + use<> {
        let length = self.get(Word::ReportsAt).clamp(HEADER_BYTES, self.bytes) - HEADER_BYTES;
        // SAFETY: it is inside the mapping, which is never unmapped, and neither host nor guest writes
        // there once the guest runs.
        let mut rest =
            unsafe { std::slice::from_raw_parts(self.at.add(HEADER_BYTES).cast_const(), length) };
        (0..self.get(Word::Plans)).map_while(move |_| {
            let (plan, behind) = first(rest)?;
            rest = behind;
            Some(plan)
        })
    }

    /// Appends a report.
    pub(crate) fn report(&mut self, report: &Report) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(REPORT_BYTES);
        append(report, &mut bytes);
        let (begin, end) = (self.get(Word::ReportsAt), self.get(Word::SymbolsAt));
        self.write(begin + self.reported, end, &bytes)?;
        self.reported += bytes.len();
        self.set(Word::Reported, self.reported);
        Ok(())
    }

    /// Hands over the text of /proc/kallsyms.
    pub(crate) fn symbols(&mut self, text: &str) -> io::Result<()> {
        self.write(self.get(Word::SymbolsAt), self.bytes, text.as_bytes())?;
        self.set(Word::Symbols, text.len());
        Ok(())
    }

    fn write(&mut self, at: usize, end: usize, bytes: &[u8]) -> io::Result<()> {
        if at < HEADER_BYTES || at + bytes.len() > end.min(self.bytes) {
            return Err(io::Error::other("the channel to the host is full"));
        }
        // SAFETY: it is inside the mapping, behind the header and the plans, where only this writes.
        unsafe { self.at.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::Order;
    use crate::returned::Returned;
    use crate::run::Run;
    use crate::script::Call;

    /// The guest's end of a channel in ordinary memory.
    fn connected(plans: &[&Plan]) -> (&'static mut [u64], Shared) {
        let (content, bytes) = channel(plans);
        let memory = vec![0_u64; bytes as usize / 8].leak();
        let at = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the memory is large enough, and stays.
        let shared = unsafe {
            at.copy_from_nonoverlapping(content.as_ptr(), content.len());
            Shared::new(at, bytes as usize).expect("room for a header")
        };
        (memory, shared)
    }

    fn plan(fd: i32) -> Plan {
        let orders = vec![Order { expect: 0, calls: vec![0] }];
        Plan { steps: Vec::new(), calls: vec![(1, Call::Fstat { fd })], orders }
    }

    #[test]
    fn plans_arrive_and_reports_come_back() {
        let plans = [plan(3), plan(4)];
        let (_, mut shared) = connected(&plans.each_ref());
        let arrived: Vec<Plan> = shared.plans().collect();
        assert!(matches!(arrived[1].calls[..], [(1, Call::Fstat { fd: 4 })]));
        let run = Run { order: 0, inodes: vec![(0, 7)], returned: vec![Returned::APipe] };
        for plan in 0..2 {
            let done = Done::Ran(vec![run.clone()]);
            shared.report(&Report { plan, done, seen: 2 }).expect("there is room");
        }
        let begin = shared.get(Word::ReportsAt);
        // SAFETY: inside the memory that `connected` made.
        let bytes =
            unsafe { std::slice::from_raw_parts(shared.at.add(begin), shared.get(Word::Reported)) };
        let seen = reports(bytes);
        assert_eq!(seen.iter().map(|report| report.plan).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(reports(&bytes[..bytes.len() - 1]).len(), 1, "half a report is none");
    }

    #[test]
    fn reports_do_not_run_into_the_symbols() {
        let only = plan(0);
        let (_, mut shared) = connected(&[&only]);
        let report = Report { plan: 0, done: Done::SetupFailed("x".repeat(REPORT_BYTES)), seen: 0 };
        let room = HEADER_BYTES / (REPORT_BYTES + 16);
        let written = (0..2 * room).filter(|_| shared.report(&report).is_ok()).count();
        assert_eq!(written, room);
    }

    proptest! {
        #[test]
        fn whatever_a_guest_writes_is_some_reports_or_none(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0..80_u64
        ) {
            // A length that may fit, since reading ends at one that does not.
            if let Some(first) = bytes.first_chunk_mut::<WORD_BYTES>() {
                *first = length.to_le_bytes();
            }
            prop_assert!(reports(&bytes).len() <= bytes.len() / WORD_BYTES);
        }
    }
}
