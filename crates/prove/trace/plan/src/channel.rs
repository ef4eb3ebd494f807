//! Memory that a guest shares with the host. Through this memory, the guest receives plans, and
//! returns reports and the kernel's symbols. Sending the report of a test over a serial console would take
//! longer than the test.
//!
//! In a guest with Linux, the memory belongs to QEMU's device ivshmem-plain, which needs no driver: the agent
//! maps the memory through sysfs.
//!
//! ```text
//! header │ plans │ reports │ symbols
//! ```
//!
//! The header consists of little-endian 64-bit words, in the order of [`Word`]. Plans and reports
//! are in the format of the `postcard` crate; each is preceded by a word that contains its length.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{Ordering::Release, fence};

use serde::{Deserialize, Serialize};

use crate::plan::{Done, Order, Plan, Run};
use crate::returned::Returned;
use crate::run::{MOST_TRACED, untraced};
use crate::script::{Nr, Step};

const WORD_BYTES: usize = 8;
const HEADER_BYTES: usize = 4096;
/// The room in a report for everything except the runs, in bytes. The longest part is the reason why a set-up
/// failed.
const REPORT_BYTES: usize = 1024;

/// A word of the header.
#[derive(Debug, Clone, Copy)]
pub enum Word {
    /// The number of plans.
    Plans,
    /// Nonzero if the host requests another run of the current plan.
    Again,
    /// The offset of the reports, in bytes.
    ReportsAt,
    /// The offset of the symbols, in bytes.
    SymbolsAt,
    /// The number of plans that the guest has begun.
    Begun,
    /// The number of bytes of reports that the guest has written.
    Reported,
    /// The number of bytes of symbols: 0 until the guest has written all of them.
    Symbols,
}

impl Word {
    /// Returns the word's offset in bytes.
    pub fn at(self) -> usize {
        self as usize * WORD_BYTES
    }
}

/// Why a guest could not use the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelError {
    /// The memory is smaller than the header.
    NoHeader,
    /// There is no room for another report, or for the symbols.
    Full,
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChannelError::NoHeader => "the channel to the host has no room for its header",
            ChannelError::Full => "the channel to the host is full",
        })
    }
}

impl core::error::Error for ChannelError {}

/// The result of a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The index of the plan.
    pub plan: usize,
    /// The results of the plan's calls.
    pub done: Done,
    /// The number of runs that the plugin traced.
    pub seen: u64,
}

/// Returns the initial content of the channel, and the minimum size of the channel in bytes. The rest of the
/// channel is zeroes. `symbols` is the room for the kernel's symbols, in bytes.
pub fn channel(plans: &[&Plan], symbols: usize) -> (Vec<u8>, usize) {
    let mut content = vec![0; HEADER_BYTES];
    for plan in plans {
        append(plan, &mut content);
    }
    let reports_at = content.len().next_multiple_of(HEADER_BYTES);
    let reports: usize = longest_reports(plans).iter().sum();
    let symbols_at = reports_at + reports.next_multiple_of(HEADER_BYTES);
    for (word, value) in
        [(Word::Plans, plans.len()), (Word::ReportsAt, reports_at), (Word::SymbolsAt, symbols_at)]
    {
        content[word.at()..][..WORD_BYTES].copy_from_slice(&(value as u64).to_le_bytes());
    }
    (content, symbols_at + symbols)
}

/// Returns the maximum length of each plan's report, in bytes.
pub fn longest_reports(plans: &[&Plan]) -> Vec<usize> {
    plans.iter().enumerate().map(|(nr, plan)| longest_report(nr, plan)).collect()
}

fn longest_report(nr: usize, plan: &Plan) -> usize {
    let learns =
        |(_, step): &&(u8, Step)| matches!(step, Step::Learn { .. } | Step::LearnOpen { .. });
    let inodes = vec![(Nr::MAX, u64::MAX); plan.steps.iter().filter(learns).count()];
    let longest = Returned::Status { inode: u64::MAX, pages: i64::MIN, links: u64::MAX };
    let run_bytes = |order: &Order| {
        let returned = vec![longest; order.calls.len()];
        let mut run = Vec::new();
        append(&Run { order: plan.orders.len(), inodes: inodes.clone(), returned }, &mut run);
        run.len()
    };
    let runs = (untraced(nr) + MOST_TRACED) as usize;
    REPORT_BYTES + runs * plan.orders.iter().map(run_bytes).sum::<usize>()
}

/// Appends a value, preceded by its length.
pub fn append(value: &impl Serialize, to: &mut Vec<u8>) {
    let at = to.len();
    to.extend([0; WORD_BYTES]);
    let begin = to.len();
    *to = postcard::to_extend(value, core::mem::take(to)).expect("plain data can be serialized");
    let length = (to.len() - begin) as u64;
    to[at..begin].copy_from_slice(&length.to_le_bytes());
}

/// Returns the first value of a list and the bytes after it, or `None` if the value is incomplete.
pub fn first<'d, T: Deserialize<'d>>(from: &'d [u8]) -> Option<(T, &'d [u8])> {
    first_within(from, usize::MAX)
}

/// Returns the same as [`first`], or `None` if the value and its length take more than `longest` bytes.
fn first_within<'d, T: Deserialize<'d>>(from: &'d [u8], longest: usize) -> Option<(T, &'d [u8])> {
    let (length, rest) = from.split_first_chunk::<WORD_BYTES>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (value, rest) = rest.split_at_checked(length)?;
    if WORD_BYTES + length > longest {
        return None;
    }
    Some((postcard::from_bytes(value).ok()?, rest))
}

/// Returns the complete reports in these bytes. `longest` contains the maximum length of each report, as
/// [`longest_reports`] returns it; guests report the plans in their order. A guest may have written anything;
/// the list ends at the first report that is too long or cannot be decoded. Without a maximum, a report of
/// empty runs would take 20 times as much memory as its bytes.
pub fn reports(from: &[u8], longest: &[usize]) -> Vec<Report> {
    let (mut reports, mut rest) = (Vec::new(), from);
    for &longest in longest {
        let Some((report, behind)) = first_within(rest, longest) else { break };
        reports.push(report);
        rest = behind;
    }
    reports
}

/// The guest's end of the channel.
#[derive(Debug)]
pub struct Shared {
    at: *mut u8,
    bytes: usize,
    reported: usize,
}

impl Shared {
    /// Returns the channel in the memory at `at`. Fails if the memory is smaller than the header.
    ///
    /// # Safety
    /// The memory must be aligned to 8 bytes, must be mapped for reading and writing, and must never be
    /// unmapped. Nothing else in this program may use it.
    pub unsafe fn new(at: *mut u8, bytes: usize) -> Result<Shared, ChannelError> {
        match bytes >= HEADER_BYTES {
            true => Ok(Shared { at, bytes, reported: 0 }),
            false => Err(ChannelError::NoHeader),
        }
    }

    /// Returns the value of a word.
    pub fn get(&self, word: Word) -> usize {
        // SAFETY: the word is in the header, and aligned. The host changes the word only while the guest is
        // paused.
        let word = unsafe { self.at.add(word.at()).cast::<u64>().read_volatile() };
        u64::from_le(word) as usize
    }

    /// Sets a word; the host sees all earlier writes once it sees the new value.
    pub fn set(&mut self, word: Word, value: usize) {
        fence(Release);
        // SAFETY: the word is in the header, and aligned. No other thread of the guest writes the word, and
        // the host does not write it while the guest runs.
        unsafe { self.at.add(word.at()).cast::<u64>().write_volatile((value as u64).to_le()) };
    }

    /// Returns the plans in their order.
    pub fn plans(&self) -> impl Iterator<Item = Plan> + use<> {
        let length = self.get(Word::ReportsAt).clamp(HEADER_BYTES, self.bytes) - HEADER_BYTES;
        // SAFETY: the bytes are inside the mapping, which is never unmapped, and neither the host
        // nor the guest writes them once the guest runs.
        let mut rest =
            unsafe { core::slice::from_raw_parts(self.at.add(HEADER_BYTES).cast_const(), length) };
        (0..self.get(Word::Plans)).map_while(move |_| {
            let (plan, behind) = first(rest)?;
            rest = behind;
            Some(plan)
        })
    }

    /// Appends a report.
    pub fn report(&mut self, report: &Report) -> Result<(), ChannelError> {
        let mut bytes = Vec::with_capacity(REPORT_BYTES);
        append(report, &mut bytes);
        let (begin, end) = (self.get(Word::ReportsAt), self.get(Word::SymbolsAt));
        self.write(begin + self.reported, end, &bytes)?;
        self.reported += bytes.len();
        self.set(Word::Reported, self.reported);
        Ok(())
    }

    /// Sends the text of /proc/kallsyms, a file that only Linux has, to the host.
    pub fn symbols(&mut self, text: &str) -> Result<(), ChannelError> {
        self.write(self.get(Word::SymbolsAt), self.bytes, text.as_bytes())?;
        self.set(Word::Symbols, text.len());
        Ok(())
    }

    fn write(&mut self, at: usize, end: usize, bytes: &[u8]) -> Result<(), ChannelError> {
        if at < HEADER_BYTES || at + bytes.len() > end.min(self.bytes) {
            return Err(ChannelError::Full);
        }
        // SAFETY: the bytes are inside the mapping, after the header and the plans, where only this
        // function writes.
        unsafe { self.at.add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use std::prelude::rust_2024::*;

    use crate::run::run_plans;
    use crate::script::Call;

    /// The guest's end of a channel in ordinary memory.
    fn connected(plans: &[&Plan]) -> (&'static mut [u64], Shared) {
        let (content, bytes) = channel(plans, 0);
        let memory = vec![0_u64; bytes / 8].leak();
        let at = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the memory is an array of words, is large enough and is never freed.
        let shared = unsafe {
            at.copy_from_nonoverlapping(content.as_ptr(), content.len());
            Shared::new(at, bytes).expect("room for a header")
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
        // SAFETY: the bytes are inside the memory that `connected` allocated.
        let bytes = unsafe {
            core::slice::from_raw_parts(shared.at.add(begin), shared.get(Word::Reported))
        };
        let longest = longest_reports(&plans.each_ref());
        let seen = reports(bytes, &longest);
        assert_eq!(seen.iter().map(|report| report.plan).collect::<Vec<_>>(), [0, 1]);
        let seen = reports(&bytes[..bytes.len() - 1], &longest);
        assert_eq!(seen.len(), 1, "an incomplete report is ignored");
        assert_eq!(reports(bytes, &longest[..1]).len(), 1, "a plan has only one report");
    }

    #[test]
    fn a_report_that_is_longer_than_its_plan_permits_is_ignored() {
        let longest = longest_reports(&[&plan(3)]);
        let seen = |runs: usize| {
            let run = Run { order: 0, inodes: Vec::new(), returned: Vec::new() };
            let mut bytes = Vec::new();
            let done = Done::Ran(vec![run; runs]);
            append(&Report { plan: 0, done, seen: 0 }, &mut bytes);
            reports(&bytes, &longest).len()
        };
        assert_eq!((seen(4), seen(longest[0])), (1, 0));
    }

    #[test]
    fn the_longest_report_of_each_plan_fits() {
        let steps = vec![(0, Step::LearnOpen { inode: 0, fd: 3 }); 8];
        let calls = vec![(1, Call::Fstat { fd: 3 }); 4];
        let orders = vec![Order { expect: 0, calls: vec![0, 1, 2, 3] }; 96];
        let plan = Plan { steps, calls, orders };
        let plans = [&plan; 20];
        let (_, mut shared) = connected(&plans);
        let status = Returned::Status { inode: u64::MAX, pages: i64::MIN, links: u64::MAX };
        let run = Run { order: 95, inodes: vec![(7, u64::MAX); 8], returned: vec![status; 4] };
        let reported = run_plans(&mut shared, |plan, untraced, _| {
            let runs = plan.orders.len() * (untraced + MOST_TRACED) as usize;
            (Done::Ran(vec![run.clone(); runs]), u64::MAX)
        });
        assert_eq!(reported, Ok(()));
        assert_eq!(shared.get(Word::Begun), plans.len());
    }

    #[test]
    fn reports_do_not_overwrite_the_symbols() {
        let only = plan(0);
        let (_, mut shared) = connected(&[&only]);
        let report = Report { plan: 0, done: Done::SetupFailed("x".repeat(REPORT_BYTES)), seen: 0 };
        let room = HEADER_BYTES / (REPORT_BYTES + 16);
        let written = (0..2 * room).filter(|_| shared.report(&report).is_ok()).count();
        assert_eq!(written, room);
    }

    proptest! {
        #[test]
        fn any_bytes_of_a_guest_are_decoded_without_a_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0..80_u64
        ) {
            // The first word is the length of the first report. A random length would almost always exceed
            // the bytes that follow, and decoding would end at once. So the length is small.
            if let Some(first) = bytes.first_chunk_mut::<WORD_BYTES>() {
                *first = length.to_le_bytes();
            }
            prop_assert!(reports(&bytes, &[100; 200]).len() <= bytes.len() / WORD_BYTES);
        }
    }
}
