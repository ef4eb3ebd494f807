//! Collects samples by distinct stack.

use std::borrow::Borrow;

use foldhash::HashMap;
use foldhash::fast::RandomState;
use indexmap::IndexSet;
use knee_host::text::one_line;

use super::size::{Room, Size};
use super::{Capture, Count, Function, SCHEMA, Stack};

/// The most functions of a stack. perf records at most 127 by default; a stack of millions would take gigabytes, because
/// each of its functions is a node of a tree.
pub const MOST_FRAMES: usize = 10_000;

/// Collects samples. It grows with the count of distinct stacks, not with the count of samples.
///
/// The number of a program, function or stack is its place in its set. Once the capture is as large as knee reads,
/// what would make it larger gets the number `LEFT_OUT`.
#[derive(Debug, Default)]
pub struct Stacks {
    programs: IndexSet<String, RandomState>,
    functions: IndexSet<Function, RandomState>,
    stacks: IndexSet<Stack, RandomState>,
    counts: HashMap<(u32, Option<u32>), (u64, u64)>,
    samples: u64,
    weight: u64,
    room: Room,
    /// Of each stack.
    sizes: Vec<Size>,
    left_out: u64,
}

/// The number of everything that would make a capture too large.
const LEFT_OUT: u32 = u32::MAX;

impl Stacks {
    /// Adds samples of one stack, from the outermost function to the innermost.
    pub fn add<F: Borrow<Function>>(
        &mut self,
        program: &str,
        stack: impl IntoIterator<Item = F>,
        samples: u64,
        weight: u64,
    ) {
        let program = self.program(program);
        let mut node = None;
        for function in stack {
            let function = self.function(function.borrow());
            node = Some(self.node(node, function));
        }
        self.count(program, node, samples, weight);
    }

    /// The number of a program.
    pub fn program(&mut self, name: &str) -> u32 {
        if let Some(known) = self.programs.get_index_of(name) {
            return known as u32;
        }
        match self.room.take(Room::of_name(name)) {
            true => self.programs.insert_full(name.to_owned()).0 as u32,
            false => LEFT_OUT,
        }
    }

    /// The number of a function.
    pub fn function(&mut self, function: &Function) -> u32 {
        if let Some(known) = self.functions.get_index_of(function) {
            return known as u32;
        }
        let module = function.module.as_deref().map_or(0, Room::of_name);
        match self.room.take(Room::of_name(&function.name) + module) {
            true => self.functions.insert_full(function.clone()).0 as u32,
            false => LEFT_OUT,
        }
    }

    /// The number of the stack in which `parent` calls a function, both by number.
    pub fn node(&mut self, parent: Option<u32>, function: u32) -> u32 {
        let stack = Stack { parent, function };
        if let Some(known) = self.stacks.get_index_of(&stack) {
            return known as u32;
        }
        if parent == Some(LEFT_OUT) || function == LEFT_OUT || !self.room.take(Room::STACK) {
            return LEFT_OUT;
        }
        let above = parent.map_or(Size::default(), |parent| self.sizes[parent as usize]);
        self.sizes.push(above.calling(&self.functions[function as usize].name));
        self.stacks.insert_full(stack).0 as u32
    }

    /// Adds samples of one stack, by number. The sums over all stacks saturate at [`u64::MAX`], because the
    /// counts in a damaged file may be of any size.
    pub fn count(&mut self, program: u32, stack: Option<u32>, samples: u64, weight: u64) {
        if !self.counts.contains_key(&(program, stack)) && !self.has_room(program, stack) {
            self.left_out = self.left_out.saturating_add(samples);
            return;
        }
        let samples = samples.min(u64::MAX - self.samples);
        let weight = weight.min(u64::MAX - self.weight);
        self.samples += samples;
        self.weight += weight;
        let count = self.counts.entry((program, stack)).or_default();
        count.0 += samples;
        count.1 += weight;
    }

    /// Whether a stack that was not counted in this program yet may be.
    fn has_room(&mut self, program: u32, stack: Option<u32>) -> bool {
        if program == LEFT_OUT || stack == Some(LEFT_OUT) {
            return false;
        }
        let stack = stack.map_or(Size::default(), |stack| self.sizes[stack as usize]);
        let program = &self.programs[program as usize];
        self.room.take_printed(stack.in_program(program)) && self.room.take(Room::COUNT)
    }

    /// Samples that were left out, because knee would not read the capture with them.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Samples so far.
    pub fn seen(&self) -> u64 {
        self.samples
    }

    /// The capture, without a title and other facts about the sampling. Equal samples make equal captures
    /// if they come in the same order. Newlines in names are marked; see [`one_line`].
    pub fn finish(self) -> Capture {
        let mut counts: Vec<Count> = self
            .counts
            .into_iter()
            .map(|((program, stack), (samples, weight))| Count { program, stack, samples, weight })
            .collect();
        counts.sort_unstable_by_key(|count| (count.program, count.stack));
        Capture {
            schema: SCHEMA,
            programs: self.programs.into_iter().map(|name| marked(&name)).collect(),
            functions: self.functions.into_iter().map(with_marked_names).collect(),
            stacks: self.stacks.into_iter().collect(),
            counts,
            ..Capture::default()
        }
    }
}

fn marked(name: &str) -> String {
    one_line(name).into_owned()
}

fn with_marked_names(function: Function) -> Function {
    let module = function.module.as_deref().map(marked);
    Function { name: marked(&function.name), module, ..function }
}

#[cfg(test)]
mod tests {
    use knee_host::text::plain;

    use super::*;
    use crate::capture::Kind;

    #[test]
    fn newlines_in_names_add_no_lines_to_text_and_are_unchanged_in_json() {
        let mut stacks = Stacks::default();
        let function =
            Function { module: Some("/a\nb".to_owned()), ..Function::new("f\tg", Kind::User) };
        stacks.add("p\nq", [function], 1, 1);
        let capture = stacks.finish();
        let Function { name, module, .. } = &capture.functions[0];
        let names = [&capture.programs[0], name, module.as_ref().unwrap()];
        assert_eq!(names.map(|name| plain(name).into_owned()), ["p q", "f g", "/a b"]);
        let json = String::from_utf8(capture.to_json()).unwrap();
        assert!(json.contains(r#""p\nq""#) && json.contains(r#""f\tg""#), "{json}");
        assert_eq!(Capture::parse(json.as_bytes()).unwrap(), capture);
    }

    #[test]
    fn a_full_capture_counts_only_known_stacks_and_reports_the_others() {
        let mut stacks = Stacks::default();
        let [main, work] = ["main", "work"].map(|name| Function::new(name, Kind::User));
        stacks.add("prog", [&main], 1, 1);
        assert!(!stacks.room.take(Room::MOST_BYTES));
        stacks.add("prog", [&main], 2, 2);
        stacks.add("prog", [&main, &work], 4, 4);
        stacks.add("prog", [&main, &main], 8, 8);
        stacks.add("other", [&main], 16, 16);
        stacks.add::<&Function>("prog", [], 32, 32);
        assert_eq!((stacks.seen(), stacks.left_out()), (3, 60));
        let capture = stacks.finish();
        assert_eq!((capture.programs.len(), capture.functions.len()), (1, 1));
        assert_eq!(Capture::parse(&capture.to_json()).unwrap(), capture);
    }

    #[test]
    fn the_file_of_a_capture_is_not_larger_than_the_room_it_takes() {
        let mut stacks = Stacks::default();
        for name in ["f", "a\nb\t\u{1b}\u{202e}\"\\", "\u{0}\u{9b}é"] {
            let module = Some(name.repeat(20));
            let function = Function { module, inlined: true, ..Function::new(name, Kind::Kernel) };
            stacks.add(name, [&function, &function], u64::MAX / 8, u64::MAX / 8);
        }
        let taken = stacks.room.bytes();
        let rest = Capture::default().to_json().len();
        let length = stacks.finish().to_json().len() - rest;
        assert!(length as u64 <= taken, "{length} of {taken}");
    }

    #[test]
    fn stacks_that_could_not_be_printed_are_left_out() {
        let mut stacks = Stacks::default();
        let function = Function::new("f", Kind::User);
        let function = stacks.function(&function);
        let program = stacks.program("prog");
        // Each stack shares the functions of the one before. In folded stacks, it repeats them.
        let mut node = None;
        for _ in 0..15_000 {
            node = Some(stacks.node(node, function));
            stacks.count(program, node, 1, 1);
        }
        assert!(stacks.left_out() > 0);
        let capture = stacks.finish();
        assert!(Capture::parse(&capture.to_json()).is_ok());
    }

    #[test]
    fn sums_of_weights_saturate() {
        let mut stacks = Stacks::default();
        for name in ["a", "b", "c"] {
            let program = stacks.program(name);
            stacks.count(program, None, 1, u64::MAX / 2);
        }
        let weights: Vec<u64> = (0..3).map(|program| stacks.counts[&(program, None)].1).collect();
        assert_eq!(weights, [u64::MAX / 2, u64::MAX / 2, 1]);
        assert_eq!(stacks.seen(), 3);
    }
}
