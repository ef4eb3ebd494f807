//! The program that each thread runs, by the name that the kernel knows.
//!
//! A thread can rename itself as often as it likes, and start and end others. So a name counts as one of the capture
//! only once a sample has it, and the names of exited threads are kept in limited number.

use std::collections::VecDeque;
use std::rc::Rc;

use foldhash::HashMap;

use crate::capture::Stacks;

/// The most exited threads with a name. An exiting thread may have samples after the record of its exit, until it
/// leaves its CPU, so few threads of each CPU need theirs.
const MOST_EXITED: usize = 1 << 16;

/// The program of each thread.
#[derive(Debug, Default)]
pub(super) struct Programs {
    threads: HashMap<i32, Thread>,
    /// The exited threads, and the number that each name had then, from the first to the last.
    exited: VecDeque<(i32, u64)>,
    /// The number of the next name.
    next: u64,
}

#[derive(Debug)]
struct Thread {
    /// Differs from that of an earlier thread with the same TID.
    number: u64,
    program: Program,
}

#[derive(Debug, Clone)]
enum Program {
    /// No sample has it yet. A forked thread shares it.
    Name(Rc<str>),
    /// Its number in the capture.
    Number(u32),
}

impl Programs {
    /// A thread runs a program.
    pub(super) fn name(&mut self, thread: i32, program: &str) {
        self.insert(thread, Program::Name(program.into()));
    }

    /// A thread starts another one, which has the same name, or none.
    pub(super) fn fork(&mut self, from: i32, to: i32) {
        match self.threads.get(&from).map(|thread| thread.program.clone()) {
            Some(program) => self.insert(to, program),
            None => self.remove(to),
        }
    }

    /// A thread exits. Its name is kept for a while.
    pub(super) fn exit(&mut self, thread: i32) {
        let Some(known) = self.threads.get(&thread) else { return };
        self.exited.push_back((thread, known.number));
        if self.exited.len() > MOST_EXITED
            && let Some((oldest, number)) = self.exited.pop_front()
            && self.threads.get(&oldest).is_some_and(|thread| thread.number == number)
        {
            self.remove(oldest);
        }
    }

    pub(super) fn remove(&mut self, thread: i32) {
        self.threads.remove(&thread);
    }

    /// Whether the name of a thread is known.
    pub(super) fn is_known(&self, thread: i32) -> bool {
        self.threads.contains_key(&thread)
    }

    /// The number of a thread's program in a capture.
    pub(super) fn number(&mut self, thread: i32, stacks: &mut Stacks) -> Option<u32> {
        let program = &mut self.threads.get_mut(&thread)?.program;
        let number = match program {
            Program::Name(name) => stacks.program(name),
            Program::Number(number) => *number,
        };
        *program = Program::Number(number);
        Some(number)
    }

    fn insert(&mut self, thread: i32, program: Program) {
        self.threads.insert(thread, Thread { number: self.next, program });
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sampled_names_enter_a_capture() {
        let (mut programs, mut stacks) = (Programs::default(), Stacks::default());
        for number in 0..1_000 {
            programs.name(1, &format!("name {number}"));
        }
        programs.fork(1, 2);
        let number = programs.number(1, &mut stacks);
        assert_eq!(number, programs.number(2, &mut stacks));
        stacks.count(number.unwrap(), None, 1, 1);
        assert_eq!(stacks.finish().programs, ["name 999"]);
    }

    #[test]
    fn a_limited_number_of_exited_threads_keep_their_names() {
        let mut programs = Programs::default();
        let last = MOST_EXITED as i32 + 10;
        for thread in 1..=last {
            programs.name(thread, "x");
            programs.exit(thread);
        }
        assert_eq!((programs.threads.len(), programs.exited.len()), (MOST_EXITED, MOST_EXITED));
        assert!(programs.is_known(last) && !programs.is_known(10));
        // The kernel gives TIDs to new threads again.
        programs.name(11, "y");
        programs.name(1, "x");
        programs.exit(1);
        assert!(programs.is_known(11), "another thread has exited");
    }
}
