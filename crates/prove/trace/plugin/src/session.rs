//! The current test and its sides. A side is a call of the test. The guest marks when the window of a side
//! opens and closes.
//!
//! While a side's window is open, the side is stored in the slot of its virtual CPU, where accesses need no
//! lock. At all other times, the side is stored in the [`Session`], which a lock protects. The guest opens
//! the windows of a test one after the other, so CPUs do not contend for the lock at marks.

use std::collections::HashMap;
use std::ffi::c_uint;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use knee_marks::{Entry, EntryKind, SIDES};

use crate::coherence::Caches;
use crate::executing;
use crate::log::Reported;
use crate::output::{Entries, Output};
use crate::scope;
use crate::settings::Settings;
use crate::side::Side;
use crate::vcpu::Vcpu;

struct Session {
    output: Output,
    /// The paused guest continues when a byte can be read from this file.
    resume: Option<File>,
    trace: Option<u64>,
    /// With the setting `moves=on`, the lines in each virtual CPU's modelled cache.
    caches: Option<Caches>,
    armed: bool,
    /// Whether QEMU translates code in windows separately: see [`apart`].
    apart: bool,
    /// The number of the current test.
    test: Option<u64>,
    begun: u64,
    /// The sides whose windows are closed.
    sides: [Option<Box<Side>>; SIDES],
    /// Sides that are not in use, for the next windows of deferred work.
    #[expect(clippy::vec_box, reason = "a side moves to a virtual CPU and back")]
    spare: Vec<Box<Side>>,
    /// The number of marks in the wrong order since the last result.
    stray: u64,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);
static ENTRIES: RwLock<Option<HashMap<u64, EntryKind>>> = RwLock::new(None);
/// Whether code that is translated now may be executed in a window.
static WATCHING: AtomicBool = AtomicBool::new(true);
/// The number of open windows.
static WINDOWS: AtomicUsize = AtomicUsize::new(0);

/// Opens the files whose paths are in the settings.
pub(crate) fn start(settings: Settings) -> Result<(), String> {
    let Settings { out, user, trace, resume, moves, accesses, stack, program, registers } =
        settings;
    let file = File::options().create(true).append(true).open(&out);
    let output = Output::new(file.map_err(|error| format!("cannot write to {out}: {error}"))?);
    let wrong = |path: &str, error| format!("cannot read {path}: {error}");
    let open = |path: String| File::open(&path).map_err(|error| wrong(&path, error));
    let resume = resume.map(open).transpose()?;
    scope::set_counted(user || program, !program, stack);
    scope::set_logged(accesses);
    executing::start(registers);
    let sides = std::array::from_fn(|_| Some(Box::new(Side::new())));
    let caches = moves.then(Caches::default);
    let (armed, apart, test, begun, stray) = (false, false, None, 0, 0);
    let spare = Vec::new();
    let session =
        Session { output, resume, trace, caches, armed, apart, test, begun, sides, spare, stray };
    *SESSION.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    Ok(())
}

fn with<T>(does: impl FnOnce(&mut Session) -> T) -> Option<T> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(does)
}

/// Returns whether code that is translated now may be executed in a window.
pub(crate) fn is_watching() -> bool {
    WATCHING.load(Relaxed)
}

/// Returns whether a window is open on any virtual CPU.
pub(crate) fn has_windows() -> bool {
    WINDOWS.load(Relaxed) > 0
}

/// Handles [`Mark::Apart`](knee_marks::Mark::Apart): QEMU translates code in windows separately
/// from now on.
pub(crate) fn apart() {
    with(|session| session.apart = true);
    WATCHING.store(false, Relaxed);
}

/// Records a kernel entry point that the guest reports.
pub(crate) fn learn(entry: Entry) {
    let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    entries.get_or_insert_default().insert(entry.address, entry.kind);
}

/// Returns the kind of the kernel's entry point at this address, if there is one.
pub(crate) fn entry_at(address: u64) -> Option<EntryKind> {
    let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
    entries.as_ref()?.get(&address).copied()
}

fn entries() -> Entries {
    let entries = ENTRIES.read().unwrap_or_else(PoisonError::into_inner);
    let mut count = Entries::default();
    for kind in entries.iter().flat_map(HashMap::values) {
        match kind {
            EntryKind::Interrupt => count.interrupts += 1,
            EntryKind::Fault => count.faults += 1,
            EntryKind::Switch => count.switches += 1,
            EntryKind::Deferred => {}
        }
    }
    count
}

/// Prints the error if a result could not be written. The result is lost, and the guest continues;
/// the driver detects that the result is missing.
fn report_error(written: std::io::Result<()>) {
    if let Err(error) = written {
        eprintln!("knee-plugin: cannot write results: {error}");
    }
}

/// Handles [`Mark::Arm`](knee_marks::Mark::Arm). Returns whether this is the first such mark.
pub(crate) fn arm() -> bool {
    let first = with(|session| {
        let first = !session.armed;
        if first {
            session.armed = true;
            report_error(session.output.header(scope::counts_user(), entries()));
        }
        first
    });
    first.unwrap_or(false)
}

/// Empties the caches of all virtual CPUs.
pub(crate) fn flush() {
    with(|session| session.caches = session.caches.take().map(|_| Caches::default()));
}

/// Begins a test. If the previous test has not ended, it gets no result.
pub(crate) fn begin() {
    with(|session| {
        let test = session.begun;
        session.begun += 1;
        session.test = Some(test);
        let traced = session.trace == Some(test);
        for side in &mut session.sides {
            match side {
                Some(side) => side.clear(traced),
                // The window of the old side is still open, so the old side stays in the slot of its virtual
                // CPU.
                None => {
                    *side = Some(Box::new(Side::new()));
                    session.stray += 1;
                }
            }
        }
    });
}

/// Ends the test and writes its result. If the test has conflicts, or a side was switched out, the
/// guest pauses, so that the reader of results can read the guest's memory or request another run
/// of the test.
pub(crate) fn end() {
    with(|session| {
        let Some(test) = session.test.take() else {
            session.stray += 1;
            return;
        };
        let missing = session.sides.iter().filter(|side| side.is_none()).count() as u64;
        let stray = std::mem::take(&mut session.stray) + missing;
        let sides = session.sides.iter().enumerate();
        let opened: Vec<(usize, &Side)> = sides
            .filter_map(|(number, side)| side.as_deref().map(|side| (number, side)))
            .filter(|(_, side)| side.count.opened > 0)
            .collect();
        let moves = session.caches.as_mut().map(|caches| caches.touched(&opened));
        let caches = session.caches.as_ref().filter(|_| scope::logs_accesses());
        let accesses = |&(number, side): &(usize, &Side)| Some((number, caches?.accesses(side)));
        let accesses: Vec<(usize, Reported)> = opened.iter().filter_map(accesses).collect();
        let written = session.output.test(test, &opened, stray, moves.as_ref(), &accesses);
        let disturbed = opened.iter().any(|(_, side)| side.count.switches > 0);
        let wait = matches!(written, Ok(found) if found > 0 || disturbed);
        report_error(written.map(drop));
        if wait {
            session.wait();
        }
    });
}

impl Session {
    /// Pauses the guest until the reader of results lets it continue. If there is no longer a
    /// reader, the guest continues at once.
    fn wait(&mut self) {
        let Some(mut resume) = self.resume.as_ref() else { return };
        if resume.read_exact(&mut [0]).is_err() {
            self.resume = None;
        }
    }
}

/// Opens the window of a side. Does nothing outside of a test, for example in a run that only fills
/// caches.
pub(crate) fn open(side: usize, cpu: c_uint, vcpu: &mut Vcpu) {
    with(|session| {
        if session.test.is_none() {
            return;
        }
        let free = match vcpu.is_open() {
            false => session.sides.get_mut(side).and_then(Option::take),
            true => None,
        };
        let Some(mut free) = free else {
            session.stray += 1;
            return;
        };
        free.count.cpu = cpu;
        free.count.opened += 1;
        // If a window for deferred work is still open, the thread that did the work was switched out.
        if let Some(unfinished) = vcpu.close_deferred() {
            WINDOWS.fetch_sub(1, Relaxed);
            session.spare.push(unfinished);
        }
        vcpu.open(side, free);
        WINDOWS.fetch_add(1, Relaxed);
        WATCHING.store(true, Relaxed);
    });
}

/// Opens a window for deferred work.
pub(crate) fn begin_deferred(cpu: c_uint, vcpu: &mut Vcpu) {
    with(|session| {
        if session.caches.is_none() {
            return;
        }
        let mut side = session.spare.pop().unwrap_or_else(|| Box::new(Side::new()));
        side.clear(false);
        side.count.cpu = cpu;
        (side.count.opened, side.count.closed) = (1, 1);
        match vcpu.open_deferred(side) {
            None => drop(WINDOWS.fetch_add(1, Relaxed)),
            Some(unused) => session.spare.push(unused),
        }
    });
}

/// Ends a window for deferred work, and writes what was recorded in it.
pub(crate) fn end_deferred(done: Box<Side>) {
    WINDOWS.fetch_sub(1, Relaxed);
    with(|session| {
        if let Some(caches) = &mut session.caches {
            let sides = [(0, &*done)];
            let moves = caches.touched(&sides);
            let accesses = [(0, caches.accesses(&done))];
            report_error(session.output.deferred(session.begun, &sides, &moves, &accesses));
        }
        session.spare.push(done);
    });
}

/// Closes the window of a side.
pub(crate) fn close(side: usize, vcpu: &mut Vcpu) {
    with(|session| {
        let Some((open, mut done)) = vcpu.close() else {
            session.stray += u64::from(session.test.is_some());
            return;
        };
        WINDOWS.fetch_sub(1, Relaxed);
        let fits = open == side && session.sides.get(open).is_some_and(Option::is_none);
        if !fits {
            session.stray += 1;
            return;
        }
        done.count.closed += 1;
        // The flag that marks code in windows belongs to the CPU. If the task was switched out, another
        // task may have run with the flag set, and may still have it set. So the flag is unreliable from then
        // on.
        session.apart &= done.count.switches == 0;
        session.sides[open] = Some(done);
        let all_closed = session.sides.iter().all(Option::is_some);
        WATCHING.store(!(session.apart && all_closed), Relaxed);
    });
}
