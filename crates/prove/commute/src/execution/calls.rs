//! The processes and arguments of the calls.

use crate::facts::{Flag, Int, Name};

/// An argument of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument {
    Name(Name),
    Int(Int),
    Flag(Flag),
    /// A name that is one of these words.
    Word(Name, &'static [&'static str]),
}

/// The known properties of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallRecord {
    /// The process that makes the call, if the call depends on it. Processes are numbered from 0.
    pub(crate) process: Option<u8>,
    /// The arguments, in the order in which the model asked for them.
    pub(crate) arguments: Vec<(String, Argument)>,
}

/// The calls, by number.
#[derive(Default)]
pub(crate) struct Calls(Vec<CallRecord>);

impl Calls {
    pub(crate) fn set_process(&mut self, nr: usize, process: u8) {
        self.record(nr).process = Some(process);
    }

    /// The first call that `process` makes, if it precedes call `nr`. Process 0 makes the calls that do not
    /// depend on their process.
    pub(crate) fn first_in(&self, process: u8, nr: usize) -> Option<usize> {
        (0..nr).find(|&earlier| self.get(earlier).process.unwrap_or(0) == process)
    }

    /// Records an argument, unless it was recorded already in an earlier order of the calls.
    pub(crate) fn add_argument(&mut self, nr: usize, name: &str, argument: Argument) {
        let arguments = &mut self.record(nr).arguments;
        if arguments.iter().all(|(known, _)| known != name) {
            arguments.push((name.to_owned(), argument));
        }
    }

    pub(crate) fn get(&self, nr: usize) -> &CallRecord {
        static NONE: CallRecord = CallRecord { process: None, arguments: Vec::new() };
        self.0.get(nr).unwrap_or(&NONE)
    }

    fn record(&mut self, nr: usize) -> &mut CallRecord {
        if self.0.len() <= nr {
            self.0.resize_with(nr + 1, CallRecord::default);
        }
        &mut self.0[nr]
    }
}
