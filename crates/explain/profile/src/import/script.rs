//! The output of `perf script`.
//!
//! ```text
//! # cmdline : /usr/bin/perf record -g ./prog             with --header
//! two words  1755/1756 [001]  1325.548184:    2004008 cpu-clock:ppp:
//!         ffffffff815eebb1 handle_mm_fault+0x201 ([kernel.kallsyms])
//!                     126d maps+0x51 (/usr/bin/prog)
//!                     1260 inline_part (inlined)
//!
//! ```
//!
//! A sample is a line with its process, time and event, then its stack from the innermost function to
//! the outermost, then an empty line. Process, CPU, time and period may be missing (`-F`). A sample
//! without a call graph has its only function on the first line. A program name may contain spaces and
//! numbers, so the process ID is the first number before a CPU or a time.
//!
//! The rules are those of `stackcollapse-perf.pl` and of inferno's `collapse::perf`, except for text that
//! these misread:
//!
//! * A module's path may contain spaces and `(deleted)`.
//! * `a->b` is an inlined Java method only in code of a JIT compiler, because C++ has `operator->`.
//! * Code in `[vdso]` is not kernel code.
//! * The fields of a tracepoint are not a stack.
//!
//! Only one event is read, because samples of two events do not add up.
//!
//! Most distinct stack lines are parsed once. Memory grows with distinct functions and stacks, up to those of the
//! largest capture, and not with the length of the text.

mod first_line;
mod frame;

use std::io::{self, BufRead};

use first_line::FirstLine;
use foldhash::HashMap;
use frame::Frame;
use knee_host::regular_file::read_line;

use crate::capture::{Capture, Clock, Losses, MOST_FRAMES, Machine, Stacks, Unit};

/// Reads the output of `perf script`: the samples of its first event.
///
/// Text that does not come from perf has no samples. [`Losses::unreadable`] counts the lines that were not
/// understood.
///
/// # Errors
/// The reader fails.
pub fn script(reader: impl BufRead, title: &str) -> io::Result<Capture> {
    let mut text = Text::default();
    text.read(reader)?;
    Ok(text.finish(title))
}

/// The most bytes of stack lines whose functions are kept.
const MOST_KEPT: usize = 64 << 20;
/// Bytes that a line takes in addition to its text.
const LINE_COST: usize = 100;

#[derive(Default)]
struct Text {
    stacks: Stacks,
    /// The functions of each distinct stack line, from the innermost to the outermost. A line has several
    /// functions if a JIT compiler named inlined methods in it.
    frames: HashMap<Box<str>, Box<[u32]>>,
    /// Bytes of these lines.
    kept: usize,
    event: Option<String>,
    sample: Option<Sample>,
    /// The sample's functions, from the innermost to the outermost.
    stack: Vec<u32>,
    /// Lines of the sample's stack, readable or not.
    lines: usize,
    weight: u64,
    machine: Machine,
    times: Option<(f64, f64)>,
    has_periods: bool,
    losses: Losses,
}

/// A sample whose stack is being read.
struct Sample {
    program: u32,
    period: Option<u64>,
    is_wanted: bool,
}

impl Text {
    fn read(&mut self, mut reader: impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if read_line(&mut reader, &mut line)? == 0 {
                self.end_sample();
                return Ok(());
            }
            let content = line.trim_ascii_end();
            if line.last() != Some(&b'\n') && !content.is_empty() {
                // The line may be truncated, and the rest of its stack is missing.
                self.losses.unreadable += 1;
                return Ok(());
            }
            let content = &*String::from_utf8_lossy(content);
            if content.is_empty() {
                self.end_sample();
            } else if let Some(header) = content.strip_prefix('#') {
                self.header(header);
            } else if self.sample.is_none() {
                self.first_line(content);
            } else if !content.starts_with('\t') && FirstLine::parse(content).is_some() {
                // No empty line separates samples of a tracepoint without a call graph.
                self.end_sample();
                self.first_line(content);
            } else {
                self.frame(content);
            }
        }
    }

    fn first_line(&mut self, line: &str) {
        let Some(first) = FirstLine::parse(line) else {
            self.losses.unreadable += 1;
            return;
        };
        if let Some(record) = first.event.strip_prefix("PERF_RECORD_") {
            self.losses.lost = self.losses.lost.saturating_add(lost(record));
            return;
        }
        let wanted = self.event.get_or_insert_with(|| first.event.to_owned());
        let is_wanted = first.event == wanted;
        if is_wanted {
            if let Some(time) = first.time {
                let (begin, end) = self.times.unwrap_or((time, time));
                self.times = Some((begin.min(time), end.max(time)));
            }
            self.has_periods |= first.period.is_some();
        }
        let program = match is_wanted {
            true => self.stacks.program(first.program),
            false => 0,
        };
        self.sample = Some(Sample { program, period: first.period, is_wanted });
        if Frame::parse(first.rest).is_some() {
            self.frame(first.rest);
            self.end_sample();
        }
    }

    fn frame(&mut self, line: &str) {
        self.lines += 1;
        let is_wanted = self.sample.as_ref().is_none_or(|sample| sample.is_wanted);
        if !is_wanted || self.lines > MOST_FRAMES {
            return;
        }
        if let Some(functions) = self.frames.get(line) {
            self.stack.extend(functions);
        } else if let Some(frame) = Frame::parse(line) {
            let functions = frame.functions().into_iter().rev();
            let functions: Box<[u32]> =
                functions.map(|function| self.stacks.function(&function)).collect();
            self.stack.extend(&functions);
            self.keep(line, functions);
        }
    }

    /// Keeps the functions of a line. Above the limit, forgets those of all other lines.
    fn keep(&mut self, line: &str, functions: Box<[u32]>) {
        self.kept += LINE_COST + line.len() + size_of_val(&*functions);
        if self.kept > MOST_KEPT {
            self.frames = HashMap::default();
            self.kept = 0;
        }
        self.frames.insert(line.into(), functions);
    }

    fn end_sample(&mut self) {
        let Some(sample) = self.sample.take() else { return };
        let lines = std::mem::take(&mut self.lines);
        match sample.is_wanted {
            false => {}
            true if lines > MOST_FRAMES || (lines > 0 && self.stack.is_empty()) => {
                self.losses.unreadable += 1;
            }
            true => {
                let weight = sample.period.unwrap_or(1);
                let Some(sum) = self.weight.checked_add(weight) else {
                    self.losses.unreadable += 1;
                    self.stack.clear();
                    return;
                };
                self.weight = sum;
                let mut node = None;
                for function in self.stack.iter().rev() {
                    node = Some(self.stacks.node(node, *function));
                }
                self.stacks.count(sample.program, node, 1, weight);
            }
        }
        self.stack.clear();
    }

    fn header(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else { return };
        match name.trim() {
            "os release" => self.machine.kernel = format!("Linux {}", value.trim()),
            "nrcpus online" => self.machine.cpus = value.trim().parse().unwrap_or(0),
            _ => (),
        }
    }

    fn finish(self, title: &str) -> Capture {
        let event = self.event.unwrap_or_default();
        let unit = match event.split(':').next().unwrap_or_default() {
            _ if !self.has_periods => Unit::Events,
            "cpu-clock" | "task-clock" => Unit::Nanoseconds,
            "cycles" | "cpu-cycles" => Unit::Cycles,
            _ => Unit::Events,
        };
        Capture {
            title: title.to_owned(),
            machine: self.machine,
            clock: Clock { event, unit, frequency: None, user_only: false },
            seconds: self.times.map(|(begin, end)| end - begin),
            losses: Losses { left_out: self.stacks.left_out(), ..self.losses },
            ..self.stacks.finish()
        }
    }
}

/// The count of samples in a record of lost samples.
fn lost(record: &str) -> u64 {
    let mut words = record.split_ascii_whitespace();
    match words.next() {
        Some("LOST" | "LOST_SAMPLES") => {
            words.find_map(|word| word.parse().ok()).unwrap_or_default()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
