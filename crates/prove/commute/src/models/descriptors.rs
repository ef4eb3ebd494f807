//! The descriptors of a process, with a search for the lowest unused one.

use crate::{Call, Execution, Int, Map, Part, State, Stop};

/// The maximum descriptor in the initial state and in arguments. An `open` with O_ANYFD returns a
/// greater descriptor, which no other call can name.
pub(super) const DESCRIPTORS: i64 = 1_000_000;

/// An upper bound on the number of calls of a test.
const CALLS: usize = 100;

/// The descriptors of a process.
#[derive(Debug, Clone)]
pub(super) struct Descriptors<V> {
    label: String,
    fds: Map<Int, V>,
}

impl<V: State> State for Descriptors<V> {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self { label: label.to_owned(), fds: Map::unknown(execution, label) }
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        self.fds.same(&other.fds, execution)
    }

    fn show(&self, execution: &Execution) -> String {
        self.fds.show(execution)
    }

    fn part(&self, execution: &mut Execution) -> Part {
        self.fds.part(execution)
    }
}

impl<V: State> Descriptors<V> {
    /// What `fd` refers to, and whether `fd` is still as in the initial state.
    pub(super) fn find(
        &self,
        fd: Int,
        execution: &mut Execution,
    ) -> Result<Option<(V, bool)>, Stop> {
        execution.search(|execution| self.search(fd, execution))
    }

    fn search(&self, fd: Int, execution: &mut Execution) -> Result<Option<(V, bool)>, Stop> {
        if let Some(value) = self.fds.last_write(&fd, execution)? {
            return Ok(value.clone().map(|value| (value, false)));
        }
        // `unused` is complete up to its last element: a descriptor below the last element is unused only if
        // the list contains it.
        let unused = execution.heap.list(&self.unused()).to_vec();
        if let Some(&last) = unused.last()
            && execution.at_most(fd + 1, last)?
        {
            let mut below = unused[..unused.len() - 1].iter();
            let is_unused =
                below.try_fold(false, |any, other| Ok(any || other.same(&fd, execution)?))?;
            self.fds.assume_presence(&fd, !is_unused, execution)?;
        }
        self.fds.find(&fd, execution)
    }

    /// The known descriptors of the initial state. A descriptor that is known to be unused is listed with
    /// `None`.
    pub(super) fn known(&self, execution: &Execution) -> Vec<(Int, Option<V>)> {
        self.fds.known(execution)
    }

    /// The lowest unused descriptors of the initial state, as far as they are known.
    pub(super) fn known_unused(&self, execution: &Execution) -> Vec<Int> {
        execution.heap.list(&self.unused()).to_vec()
    }

    fn unused(&self) -> String {
        format!("{}.unused", self.label)
    }

    /// The descriptor that is unused in the initial state and has exactly `nr` unused descriptors
    /// below it.
    fn initially_unused(&self, nr: usize, execution: &mut Execution) -> Result<Int, Stop> {
        let known = execution.heap.list(&self.unused()).to_vec();
        if let Some(&fd) = known.get(nr) {
            return Ok(fd);
        }
        let rank = match nr {
            0 => String::new(),
            1 => "2nd ".to_owned(),
            2 => "3rd ".to_owned(),
            nr => format!("{}th ", nr + 1),
        };
        let label = format!("{rank}lowest unused fd of {}", self.label.trim_end_matches(".fds"));
        let fd = execution.int(&label, Some(0), Some(DESCRIPTORS));
        let above = known.last().map_or(Int::from(-1), |last| *last);
        execution.assume_at_most(above + 1, fd)?;
        for (other, value) in self.fds.known(execution) {
            if other.same(&fd, execution)? {
                // `fd` must differ from a descriptor in use, but may be equal to an unused descriptor.
                match value {
                    Some(_) => execution.assume_at_most(fd + 1, other)?,
                    None => continue,
                }
            }
            // No unused descriptor lies between the previous unused descriptor and `fd`. So if `other` is
            // unused, and above the previous unused descriptor but not above `fd`, then `other` is `fd`.
            if value.is_none()
                && execution.at_most(above + 1, other)?
                && execution.at_most(other, fd)?
            {
                execution.assume_at_most(fd, other)?;
            }
        }
        self.fds.assume_presence(&fd, false, execution)?;
        execution.heap.append(&self.unused(), fd);
        Ok(fd)
    }

    /// The lowest unused descriptor.
    pub(super) fn lowest(&self, execution: &mut Execution) -> Result<Int, Stop> {
        let mut lowest = None;
        for nr in 0.. {
            let fd = self.initially_unused(nr, execution)?;
            if self.find(fd, execution)?.is_none() {
                lowest = Some(fd);
                break;
            }
        }
        let mut lowest = lowest.expect("the loop ends with one");
        for (closed, value) in self.fds.writes() {
            let lower = value.is_none() && execution.at_most(*closed + 1, lowest)?;
            if lower && self.find(*closed, execution)?.is_none() {
                lowest = *closed;
            }
        }
        Ok(lowest)
    }

    /// Any unused descriptor. If a call needs two descriptors, it passes 0 and then 1 as `nth`.
    pub(super) fn any(&self, nth: usize, call: &mut Call<'_>) -> Result<Int, Stop> {
        let above = DESCRIPTORS + 1 + (CALLS * nth) as i64;
        let fd = call.unused_int(["any unused fd", "another unused fd"][nth], above);
        self.fds.assume_presence(&fd, false, call.execution)?;
        Ok(fd)
    }

    pub(super) fn insert(&mut self, fd: Int, to: V) {
        self.fds.insert(fd, to);
    }

    pub(super) fn remove(&mut self, fd: Int) {
        self.fds.remove(fd);
    }

    /// The descriptors that were opened or closed. A descriptor occurs once for each time that it was opened
    /// or closed.
    pub(super) fn written(&self) -> impl Iterator<Item = Int> {
        self.fds.writes().iter().map(|(fd, _)| *fd)
    }
}
