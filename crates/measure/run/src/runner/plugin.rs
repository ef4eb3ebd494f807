//! Unmodified testcases of will-it-scale, compiled as shared objects.
//!
//! A plug-in defines `testcase_description` and `testcase`, and may define `testcase_prepare` and
//! `testcase_cleanup`. It may call [`new_task`], which it finds in this executable. One plug-in
//! per process: its globals (`mutex`, `val`, `handler`) would collide with another's.

use std::error::Error;
use std::ffi::{CStr, c_char, c_ulong, c_ulonglong, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use knee_host::RegularFile;
use knee_host::digest::sha256;
use knee_host::process::fork_bound;
use knee_results::Mode;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use object::{Object, ObjectKind, ObjectSymbol};

use crate::area::Area;
use crate::job::{Failure, FailureKind};

// Always two arguments: the prepare function of will-it-scale's `lseek2` declares a second one, and
// `testcase` functions that take only the counter ignore the number.
type Run = unsafe extern "C" fn(*mut c_ulonglong, c_ulong);
type Prepare = unsafe extern "C" fn(c_ulong, c_ulong);
type CleanUp = unsafe extern "C" fn();

/// A loaded plug-in.
pub(crate) struct Plugin {
    description: *const *const c_char,
    run: Run,
    prepare: Option<Prepare>,
    clean_up: Option<CleanUp>,
    // Declared last, because the library must outlive the pointers into it.
    _library: Library,
}

// SAFETY: the pointers lead into a library that stays loaded, and its code is written to run in
// many threads at once: that is what a testcase is.
unsafe impl Sync for Plugin {}

fn refuse(path: &Path, reason: String) -> Failure {
    Failure::new(
        FailureKind::CannotRun,
        format!("{}: {reason}", path.display()),
        "compile it with: cc -O2 -shared -fPIC -pthread -o NAME.so NAME.c",
    )
}

/// Whether the file at `path` may be a plug-in: a shared object that defines the required names.
/// None of its code runs. Returns the SHA-256 of the file.
///
/// # Errors
/// Says what is missing and how to compile one.
pub fn check(path: &Path) -> Result<String, Failure> {
    let bytes = RegularFile::at(path).read();
    let bytes = bytes.map_err(|error| refuse(path, format!("cannot read it: {error}")))?;
    let library = match object::File::parse(&*bytes) {
        Ok(file) if file.kind() == ObjectKind::Dynamic => file,
        _ => return Err(refuse(path, "it is not a shared object".to_owned())),
    };
    for (name, what) in NAMES {
        if !library.dynamic_symbols().any(|s| s.is_definition() && s.name() == Ok(name)) {
            return Err(refuse(path, format!("it does not define {what}")));
        }
    }
    Ok(sha256(&bytes))
}

/// The names that a plug-in must define.
const NAMES: [(&str, &str); 2] =
    [("testcase_description", "testcase_description"), ("testcase", "function testcase")];

impl Plugin {
    /// Loads `path` and resolves its functions.
    pub(super) fn load(path: &Path) -> Result<Self, Failure> {
        let refuse = |reason| refuse(path, reason);
        // SAFETY: loading runs the constructors of a file that the user asked to run as code, in
        // a process that exists for nothing else.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|e| refuse(format!("cannot load it: {}", e.source().unwrap_or(&e))))?;
        let missing = |name| refuse(format!("it does not define {name}"));
        // SAFETY: the types are those of the interface that a plug-in declares to have by
        // defining these names.
        unsafe {
            Ok(Self {
                description: *library
                    .get::<*const *const c_char>(b"testcase_description\0")
                    .map_err(|_| missing("testcase_description"))?,
                run: *library
                    .get::<Run>(b"testcase\0")
                    .map_err(|_| missing("function testcase"))?,
                prepare: library.get::<Prepare>(b"testcase_prepare\0").ok().map(|f| *f),
                clean_up: library.get::<CleanUp>(b"testcase_cleanup\0").ok().map(|f| *f),
                _library: library,
            })
        }
    }

    /// The plug-in's description of itself.
    pub(super) fn description(&self) -> String {
        // SAFETY: `testcase_description` is a `char *` that points to a C string or is null.
        unsafe {
            match *self.description {
                text if text.is_null() => String::new(),
                text => CStr::from_ptr(text).to_string_lossy().into_owned(),
            }
        }
    }

    pub(super) fn prepare(&self, tasks: u32) {
        if let Some(prepare) = self.prepare {
            // SAFETY: foreign code, run once and before any task, as its interface promises.
            unsafe { prepare(c_ulong::from(tasks), 0) }
        }
    }

    pub(super) fn clean_up(&self) {
        if let Some(clean_up) = self.clean_up {
            // SAFETY: foreign code, run once and after all tasks are dead, in the process that
            // ran `prepare`.
            unsafe { clean_up() }
        }
    }

    /// Runs the loop as task `nr`; it must not return.
    pub(super) fn run(&self, mode: Mode, area: &Area, nr: usize) {
        THREADS.store(mode == Mode::Threads, Ordering::Relaxed);
        HELPERS.store(std::ptr::from_ref(area.helpers()).cast_mut(), Ordering::Release);
        area.wait_for_start(nr);
        let count = area.slot(nr).count().as_ptr();
        // SAFETY: foreign code. It counts with plain stores to an aligned u64 that this process
        // only ever reads as an atomic.
        unsafe { (self.run)(count, nr as c_ulong) }
    }
}

/// The state of [`new_task`], which plug-ins call without a context argument: whether tasks are
/// threads of this process, and the flag that records the existence of helpers.
static THREADS: AtomicBool = AtomicBool::new(false);
static HELPERS: AtomicPtr<AtomicBool> = AtomicPtr::new(std::ptr::null_mut());

/// Part of will-it-scale's interface: starts a helper of the calling task, which ends with it.
///
/// # Safety
/// `function` must be callable with `argument` in another thread or a forked process.
#[unsafe(no_mangle)]
#[allow(unreachable_pub, reason = "plug-ins reach it through the dynamic symbol table")]
pub unsafe extern "C" fn new_task(
    function: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) {
    // SAFETY: null, or set by a task of this process to a flag in an area that stays mapped for as
    // long as its tasks live.
    if let Some(helpers) = unsafe { HELPERS.load(Ordering::Acquire).as_ref() } {
        helpers.store(true, Ordering::Relaxed);
    }
    if THREADS.load(Ordering::Relaxed) {
        let mut thread = MaybeUninit::uninit();
        // SAFETY: the caller guarantees that the function may run in another thread.
        let result = unsafe {
            libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), function, argument)
        };
        assert_eq!(result, 0, "new_task: cannot create a thread");
    } else {
        // SAFETY: in process mode a task has one thread.
        if unsafe { fork_bound() }.expect("new_task").is_none() {
            function(argument);
            // SAFETY: ends the process without running the runner's handlers.
            unsafe { libc::_exit(0) }
        }
    }
}
