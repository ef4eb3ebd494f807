//! z3 as a child process: SMT-LIB 2 in, answers out.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The answer of z3 to the question whether the asserted formulas are satisfiable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    Satisfiable,
    Unsatisfiable,
    /// z3 gave up.
    Unknown,
}

pub(crate) struct Solver {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Commands that have not been sent yet. Commands are buffered, so that writes to the pipe are rare.
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

    /// Adds a command to which z3 gives no answer.
    pub(crate) fn command(&mut self, command: &str) {
        self.unsent += command;
        self.unsent.push('\n');
    }

    pub(crate) fn assert(&mut self, formula: &str) {
        self.command(&format!("(assert {formula})"));
    }

    /// Runs `ask`, and then retracts the assertions that `ask` made.
    pub(crate) fn meanwhile<T>(&mut self, ask: impl FnOnce(&mut Self) -> T) -> T {
        self.command("(push)");
        let result = ask(self);
        self.command("(pop)");
        result
    }

    /// Whether the assertions are satisfiable.
    pub(crate) fn check(&mut self) -> Answer {
        self.answer("(check-sat)")
    }

    /// Like [`check`](Self::check), for formulas with quantified integers. z3 eliminates the quantifiers
    /// first; without this step, z3 would guess instances.
    pub(crate) fn check_quantified(&mut self) -> Answer {
        self.answer("(check-sat-using (then qe smt))")
    }

    fn answer(&mut self, question: &str) -> Answer {
        self.command(question);
        self.queries += 1;
        self.input.write_all(self.unsent.as_bytes()).expect("z3 reads its input");
        self.unsent.clear();
        let mut line = String::new();
        self.output.read_line(&mut line).expect("z3 answers");
        match line.trim_end() {
            "sat" => Answer::Satisfiable,
            "unsat" => Answer::Unsatisfiable,
            "unknown" => Answer::Unknown,
            other => panic!("z3 refuses its input: {other}"),
        }
    }

    /// Whether the assertions are satisfiable together with `formula`.
    pub(crate) fn check_with(&mut self, formula: &str) -> Answer {
        self.meanwhile(|solver| {
            solver.assert(formula);
            solver.check()
        })
    }

    /// The number of queries so far.
    pub(crate) fn queries(&self) -> usize {
        self.queries
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        // An error means that z3 has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
