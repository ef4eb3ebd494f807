//! Collects samples by distinct stack.

use std::borrow::Borrow;

use foldhash::HashMap;
use foldhash::fast::RandomState;
use indexmap::IndexSet;
use knee_host::text::one_line;

use super::{Capture, Count, Function, SCHEMA, Stack};

/// The most functions of a stack. perf records at most 127 by default; a stack of millions would take gigabytes, because
/// each of its functions is a node of a tree.
pub const MOST_FRAMES: usize = 10_000;

/// Collects samples. It grows with the count of distinct stacks, not with the count of samples.
///
/// The number of a program, function or stack is its place in its set.
#[derive(Debug, Default)]
pub struct Stacks {
    programs: IndexSet<String, RandomState>,
    functions: IndexSet<Function, RandomState>,
    stacks: IndexSet<Stack, RandomState>,
    counts: HashMap<(u32, Option<u32>), (u64, u64)>,
    samples: u64,
    weight: u64,
}

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
        let known = self.programs.get_index_of(name);
        known.unwrap_or_else(|| self.programs.insert_full(name.to_owned()).0) as u32
    }

    /// The number of a function.
    pub fn function(&mut self, function: &Function) -> u32 {
        let known = self.functions.get_index_of(function);
        known.unwrap_or_else(|| self.functions.insert_full(function.clone()).0) as u32
    }

    /// The number of the stack in which `parent` calls a function, both by number.
    pub fn node(&mut self, parent: Option<u32>, function: u32) -> u32 {
        self.stacks.insert_full(Stack { parent, function }).0 as u32
    }

    /// Adds samples of one stack, by number. The sums over all stacks saturate at [`u64::MAX`], because the
    /// counts in a damaged file may be of any size.
    pub fn count(&mut self, program: u32, stack: Option<u32>, samples: u64, weight: u64) {
        let samples = samples.min(u64::MAX - self.samples);
        let weight = weight.min(u64::MAX - self.weight);
        self.samples += samples;
        self.weight += weight;
        let count = self.counts.entry((program, stack)).or_default();
        count.0 += samples;
        count.1 += weight;
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
    fn sums_of_weights_saturate() {
        let mut stacks = Stacks::default();
        for program in 0..3 {
            stacks.count(program, None, 1, u64::MAX / 2);
        }
        let weights: Vec<u64> = (0..3).map(|program| stacks.counts[&(program, None)].1).collect();
        assert_eq!(weights, [u64::MAX / 2, u64::MAX / 2, 1]);
        assert_eq!(stacks.seen(), 3);
    }
}
