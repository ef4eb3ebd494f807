//! z3 as a child process: SMT-LIB 2 in, answers out.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What z3 says of the formulas that are asserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    Satisfiable,
    Unsatisfiable,
    /// It gave up.
    Unknown,
}

pub(crate) struct Solver {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What it has not been told yet: a pipe is written to as rarely as possible.
    unsent: String,
    queries: usize,
}

impl Solver {
    pub(crate) fn start() -> std::io::Result<Self> {
        let mut process = Command::new("z3")
            .args(["-in", "-smt2"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take().expect("it is piped");
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        Ok(Self { process, input, output, unsent: String::new(), queries: 0 })
    }

    /// Gives a command that z3 does not answer.
    pub(crate) fn tell(&mut self, command: &str) {
        self.unsent += command;
        self.unsent.push('\n');
    }

    pub(crate) fn assert(&mut self, formula: &str) {
        self.tell(&format!("(assert {formula})"));
    }

    /// Forgets afterwards what `ask` has asserted.
    pub(crate) fn meanwhile<T>(&mut self, ask: impl FnOnce(&mut Self) -> T) -> T {
        self.tell("(push)");
        let result = ask(self);
        self.tell("(pop)");
        result
    }

    /// Whether all that is asserted can hold at once.
    pub(crate) fn check(&mut self) -> Answer {
        self.answer("(check-sat)")
    }

    /// The same where integers are quantified: they are eliminated first, so that z3 does not have
    /// to guess them.
    pub(crate) fn check_quantified(&mut self) -> Answer {
        self.answer("(check-sat-using (then qe smt))")
    }

    fn answer(&mut self, question: &str) -> Answer {
        self.tell(question);
        self.queries += 1;
        self.input.write_all(self.unsent.as_bytes()).expect("z3 reads what it is asked");
        self.unsent.clear();
        let mut line = String::new();
        self.output.read_line(&mut line).expect("z3 answers");
        match line.trim_end() {
            "sat" => Answer::Satisfiable,
            "unsat" => Answer::Unsatisfiable,
            "unknown" => Answer::Unknown,
            other => panic!("z3 cannot read what it is asked: {other}"),
        }
    }

    /// Whether `formula` can hold as well.
    pub(crate) fn check_with(&mut self, formula: &str) -> Answer {
        self.meanwhile(|solver| {
            solver.assert(formula);
            solver.check()
        })
    }

    /// How often it has been asked.
    pub(crate) fn queries(&self) -> usize {
        self.queries
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        // It has nothing left to do; where it has ended already there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
