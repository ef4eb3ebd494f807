//! An operation that a task repeats.

use core::fmt;

use knee_marks::Mark;

/// An operation on the objects `O` of a task. Its errors have the type `E`.
pub struct Operation<O, E> {
    /// The name of the operation in the model `posix` or, if the operation is an iteration of a testcase, the
    /// name of the testcase in `knee list`.
    pub name: &'static str,
    /// What the operation does.
    pub about: &'static str,
    /// Runs once, in the task's first turn.
    pub set_up: Step<O, E>,
    /// Runs before each operation, untraced.
    pub prepare: Step<O, E>,
    /// The operation.
    pub call: Step<O, E>,
    /// Runs after each operation, untraced.
    pub restore: Step<O, E>,
    /// The number of iterations that the testcase of this name counts per operation.
    pub iterations: u32,
    /// Some work of the testcase, such as going back to the beginning of a file, recurs only after several
    /// operations. In each period of this many operations, such work occurs as often as in the testcase. The
    /// period is a power of two, so that a multiple of the largest period is a multiple of every period.
    pub period: u32,
}

/// A function that executes one part of an operation.
pub type Step<O, E> = fn(&mut O) -> Result<(), E>;

/// The part that failed, and its error.
pub type Failed<E> = (Part, E);

/// The parts of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// [`Operation::set_up`].
    SetUp,
    /// [`Operation::prepare`].
    Prepare,
    /// [`Operation::call`].
    Call,
    /// [`Operation::restore`].
    Restore,
}

impl Part {
    /// All parts, in the order of their numbers.
    pub const ALL: [Part; 4] = [Part::SetUp, Part::Prepare, Part::Call, Part::Restore];

    /// The part as a verb phrase.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::SetUp => "set up",
            Part::Prepare => "prepare the operation",
            Part::Call => "do the operation",
            Part::Restore => "undo the operation",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<O, E> Operation<O, E> {
    /// The step that does nothing.
    pub const NOTHING: Step<O, E> = |_| Ok(());

    /// Returns an operation that needs no set-up.
    pub const fn plain(
        name: &'static str,
        about: &'static str,
        call: Step<O, E>,
    ) -> Operation<O, E> {
        let nothing = Self::NOTHING;
        Operation {
            name,
            about,
            set_up: nothing,
            prepare: nothing,
            call,
            restore: nothing,
            iterations: 1,
            period: 1,
        }
    }

    /// Performs the operation once, as a test with a single side. The plugin observes only
    /// [`Operation::call`].
    pub fn perform(&self, own: &mut O) -> Result<(), Failed<E>> {
        (self.prepare)(own).map_err(|error| (Part::Prepare, error))?;
        Mark::Begin.emit();
        Mark::Open(0).emit();
        let done = (self.call)(own);
        Mark::Close(0).emit();
        Mark::End.emit();
        done.map_err(|error| (Part::Call, error))?;
        (self.restore)(own).map_err(|error| (Part::Restore, error))
    }
}
