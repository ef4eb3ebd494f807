//! Distinct stacks, as samples come in.

use foldhash::HashMap;

use super::{Capture, Clock, Count, Function, Losses, Machine, SCHEMA, Stack, Work};

/// Collects samples: what it holds grows with distinct stacks, not with samples.
#[derive(Debug, Default)]
pub struct Stacks {
    programs: Vec<String>,
    program_numbers: HashMap<String, u32>,
    functions: Vec<Function>,
    function_numbers: HashMap<Function, u32>,
    stacks: Vec<Stack>,
    stack_numbers: HashMap<Stack, u32>,
    counts: HashMap<(u32, Option<u32>), (u64, u64)>,
    /// Samples and weight that can still be added: what a damaged file says has no end, and sums do.
    room: Room,
}

#[derive(Debug)]
struct Room {
    samples: u64,
    weight: u64,
}

impl Default for Room {
    fn default() -> Room {
        Room { samples: u64::MAX, weight: u64::MAX }
    }
}

/// What a capture holds beside its stacks.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// See [`Capture::title`].
    pub title: String,
    /// See [`Capture::machine`].
    pub machine: Machine,
    /// See [`Capture::clock`].
    pub clock: Clock,
    /// See [`Capture::seconds`].
    pub seconds: Option<f64>,
    /// See [`Capture::cpu_seconds`].
    pub cpu_seconds: Option<f64>,
    /// See [`Capture::work`].
    pub work: Option<Work>,
    /// See [`Capture::losses`].
    pub losses: Losses,
}

impl Stacks {
    /// Adds samples of one stack, from the outermost function to the innermost.
    pub fn add<'a>(
        &mut self,
        program: &str,
        stack: impl IntoIterator<Item = &'a Function>,
        samples: u64,
        weight: u64,
    ) {
        let program = self.program(program);
        let mut node = None;
        for function in stack {
            let function = self.function(function);
            node = Some(self.node(node, function));
        }
        self.count(program, node, samples, weight);
    }

    /// The number of a program.
    pub fn program(&mut self, name: &str) -> u32 {
        if let Some(number) = self.program_numbers.get(name) {
            return *number;
        }
        let number = self.programs.len() as u32;
        self.programs.push(name.to_owned());
        self.program_numbers.insert(name.to_owned(), number);
        number
    }

    /// The number of a function.
    pub fn function(&mut self, function: &Function) -> u32 {
        if let Some(number) = self.function_numbers.get(function) {
            return *number;
        }
        let number = self.functions.len() as u32;
        self.functions.push(function.clone());
        self.function_numbers.insert(function.clone(), number);
        number
    }

    /// The number of the stack in which `parent` calls a function, both by number.
    pub fn node(&mut self, parent: Option<u32>, function: u32) -> u32 {
        let stack = Stack { parent, function };
        let stacks = &mut self.stacks;
        *self.stack_numbers.entry(stack).or_insert_with(|| {
            stacks.push(stack);
            stacks.len() as u32 - 1
        })
    }

    /// Adds samples of one stack, by number. All together are at most [`u64::MAX`]; what is beyond that is
    /// left out.
    pub fn count(&mut self, program: u32, stack: Option<u32>, samples: u64, weight: u64) {
        let count = self.counts.entry((program, stack)).or_default();
        let (samples, weight) = (samples.min(self.room.samples), weight.min(self.room.weight));
        self.room =
            Room { samples: self.room.samples - samples, weight: self.room.weight - weight };
        count.0 += samples;
        count.1 += weight;
    }

    /// Samples so far.
    pub fn seen(&self) -> u64 {
        self.counts.values().map(|count| count.0).sum()
    }

    /// The capture. Equal samples make equal captures if they come in the same order.
    pub fn finish(self, about: About) -> Capture {
        let mut counts: Vec<Count> = self
            .counts
            .into_iter()
            .map(|((program, stack), (samples, weight))| Count { program, stack, samples, weight })
            .collect();
        counts.sort_unstable_by_key(|count| (count.program, count.stack));
        let About { title, machine, clock, seconds, cpu_seconds, work, losses } = about;
        Capture {
            schema: SCHEMA,
            title,
            machine,
            clock,
            seconds,
            cpu_seconds,
            work,
            losses,
            programs: self.programs,
            functions: self.functions,
            stacks: self.stacks,
            counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_weights_are_too_many_for_their_sum() {
        let mut stacks = Stacks::default();
        for program in 0..3 {
            stacks.count(program, None, 1, u64::MAX / 2);
        }
        let weights: Vec<u64> = (0..3).map(|program| stacks.counts[&(program, None)].1).collect();
        assert_eq!(weights, [u64::MAX / 2, u64::MAX / 2, 1]);
        assert_eq!(stacks.seen(), 3);
    }
}
