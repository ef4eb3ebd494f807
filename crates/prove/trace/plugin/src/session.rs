//! The current test and its sides.
//!
//! A side is in one of two places: here, behind a lock, or, while its window is open, in its virtual
//! CPU's slot, where no lock is needed for every access. Windows of one test are open one after the
//! other, and the guest orders them, so a lock per mark costs nothing.

use std::collections::HashMap;
use std::ffi::c_uint;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use knee_marks::{Entry, EntryKind, SIDES};

use crate::coherence::Caches;
use crate::executing;
use crate::output::{Entries, Output};
use crate::scope;
use crate::settings::Settings;
use crate::side::Side;
use crate::vcpu::Vcpu;

struct Session {
    output: Output,
    /// The reader of results writes a byte here when the guest may continue.
    resume: Option<File>,
    trace: Option<u64>,
    /// Which CPUs have which lines, with `moves=on`.
    caches: Option<Caches>,
    armed: bool,
    /// The guest has what is executed in windows translated apart.
    apart: bool,
    /// The test that has begun and not ended.
    test: Option<u64>,
    begun: u64,
    /// Sides whose window is not open now.
    sides: [Option<Box<Side>>; SIDES],
    /// Marks that fitted nowhere since the last result.
    stray: u64,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);
static ENTRIES: RwLock<Option<HashMap<u64, EntryKind>>> = RwLock::new(None);
/// Whether what is translated now may be executed in a window.
static WATCHING: AtomicBool = AtomicBool::new(true);
/// How many windows are open.
static WINDOWS: AtomicUsize = AtomicUsize::new(0);

/// Opens the files that the settings name.
pub(crate) fn start(settings: Settings) -> Result<(), String> {
    let Settings { out, user, trace, resume, moves, stack, program, registers } = settings;
    let file = File::options().create(true).append(true).open(&out);
    let output = Output::new(file.map_err(|error| format!("cannot write to {out}: {error}"))?);
    let wrong = |path: &str, error| format!("cannot read {path}: {error}");
    let open = |path: String| File::open(&path).map_err(|error| wrong(&path, error));
    let resume = resume.map(open).transpose()?;
    scope::set_counted(user || program, !program, stack);
    executing::start(registers);
    let sides = std::array::from_fn(|_| Some(Box::new(Side::new())));
    let caches = moves.then(Caches::default);
    let (armed, apart, test, begun, stray) = (false, false, None, 0, 0);
    let session =
        Session { output, resume, trace, caches, armed, apart, test, begun, sides, stray };
    *SESSION.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    Ok(())
}

fn with<T>(does: impl FnOnce(&mut Session) -> T) -> Option<T> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(does)
}

/// Whether what is translated now may be executed in a window.
pub(crate) fn is_watching() -> bool {
    WATCHING.load(Relaxed)
}

/// Whether a window is open on any virtual CPU.
pub(crate) fn has_windows() -> bool {
    WINDOWS.load(Relaxed) > 0
}

/// The guest has what is executed in windows translated apart.
pub(crate) fn apart() {
    with(|session| session.apart = true);
    WATCHING.store(false, Relaxed);
}

/// The guest names an entry.
pub(crate) fn learn(entry: Entry) {
    let mut entries = ENTRIES.write().unwrap_or_else(PoisonError::into_inner);
    entries.get_or_insert_default().insert(entry.address, entry.kind);
}

/// What enters the kernel at this address.
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
        }
    }
    count
}

/// A result that cannot be written is lost, with a message for each line: the guest continues, and the
/// driver misses the line.
fn complain(written: std::io::Result<()>) {
    if let Err(error) = written {
        eprintln!("knee-plugin: cannot write results: {error}");
    }
}

/// Whether this is the first mark that arms.
pub(crate) fn arm() -> bool {
    let first = with(|session| {
        let first = !session.armed;
        if first {
            session.armed = true;
            complain(session.output.header(scope::counts_user(), entries()));
        }
        first
    });
    first.unwrap_or(false)
}

/// All virtual CPUs lose their lines.
pub(crate) fn flush() {
    with(|session| session.caches = session.caches.take().map(|_| Caches::default()));
}

/// A test begins. One that has not ended before is without a result.
pub(crate) fn begin() {
    with(|session| {
        let test = session.begun;
        session.begun += 1;
        session.test = Some(test);
        let traced = session.trace == Some(test);
        for side in &mut session.sides {
            match side {
                Some(side) => side.clear(traced),
                // Its window is still open at the end of the test; the CPU keeps its side.
                None => {
                    *side = Some(Box::new(Side::new()));
                    session.stray += 1;
                }
            }
        }
    });
}

/// The test ends: its result is written. If it has conflicts, or a side was switched out, the guest
/// pauses, since the reader of results may read its memory or have the test run again.
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
        let written = session.output.test(test, &opened, stray, moves.as_ref());
        let disturbed = opened.iter().any(|(_, side)| side.count.switches > 0);
        let wait = matches!(written, Ok(found) if found > 0 || disturbed);
        complain(written.map(drop));
        if wait {
            session.wait();
        }
    });
}

impl Session {
    /// Pauses the guest, with all that the test made, until the reader of results has read its memory. If
    /// there is no reader any more, the guest continues.
    fn wait(&mut self) {
        let Some(mut resume) = self.resume.as_ref() else { return };
        if resume.read_exact(&mut [0]).is_err() {
            self.resume = None;
        }
    }
}

/// The window of a side opens. Outside of a test, as in a run that fills caches, it does not.
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
        vcpu.open(side, free);
        WINDOWS.fetch_add(1, Relaxed);
        WATCHING.store(true, Relaxed);
    });
}

/// The window of a side closes.
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
        // The flag that marks code of windows is the CPU's, so a task that is switched out leaves it to
        // another one, which may keep it. From then on the flag means nothing.
        session.apart &= done.count.switches == 0;
        session.sides[open] = Some(done);
        let all_closed = session.sides.iter().all(Option::is_some);
        WATCHING.store(!(session.apart && all_closed), Relaxed);
    });
}
