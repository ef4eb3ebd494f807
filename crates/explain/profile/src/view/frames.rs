//! The stacks of captures, merged into a tree of frames.

use std::cmp::Ordering;

use foldhash::HashMap;

use crate::capture::{Capture, Count, Function, Kind};

/// A frame: a function in its callers, a program, or the root.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Frame<'a> {
    pub(super) number: usize,
    pub(super) name: &'a str,
    pub(super) place: Place,
    /// Samples in the first capture and in the second.
    pub(super) samples: (u64, u64),
    /// The numbers of its children.
    pub(super) children: Vec<usize>,
}

/// Where a frame's code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    /// It has none: a program, or the root.
    None,
    Kernel,
    User,
    Inlined,
}

impl Place {
    pub(super) fn of(function: &Function) -> Place {
        match function.inlined {
            true => Place::Inlined,
            false => function.kind.into(),
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Place::None => "none",
            Place::Kernel => "kernel",
            Place::User => "user",
            Place::Inlined => "inlined",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Place::None => "all of it",
            Place::Kernel => "kernel",
            Place::User => "program",
            Place::Inlined => "inlined",
        }
    }
}

impl From<Kind> for Place {
    fn from(kind: Kind) -> Place {
        match kind {
            Kind::Kernel => Place::Kernel,
            Kind::User => Place::User,
        }
    }
}

/// The stack of a count, from the innermost function to the outermost, and the program.
pub(super) fn path<'a>(
    capture: &'a Capture,
    count: &Count,
    place: impl Fn(&Function) -> Place,
) -> Vec<(&'a str, Place)> {
    let functions = capture.functions_of(count.stack).map(|at| &capture.functions[at as usize]);
    let program = &capture.programs[count.program as usize];
    let frames = functions.map(|function| (function.name.as_str(), place(function)));
    frames.chain([(program.as_str(), Place::None)]).collect()
}

/// The most frames of a tree: about 600 MiB. An hour of samples of all CPUs makes less than a tenth of them, but in a
/// foreign capture, each function of each stack can be a frame of its own.
const MOST: usize = 3_000_000;
/// The most bytes of the names of all frames of a tree, each of which views print several times.
const MOST_BYTES: usize = 128 << 20;

/// A tree of frames. The root is the first frame; a parent precedes its children. If it is full, functions that would
/// need a new frame count for their callers only.
pub(super) struct Frames<'a> {
    all: Vec<Frame<'a>>,
    numbers: HashMap<(usize, &'a str, Place), usize>,
    /// Bytes of the names of all frames.
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

impl<'a> Frames<'a> {
    pub(super) fn new(root: &'a str) -> Frames<'a> {
        Self::limited(root, MOST, MOST_BYTES)
    }

    fn limited(root: &'a str, most: usize, most_bytes: usize) -> Frames<'a> {
        let (all, numbers) = (Vec::new(), HashMap::default());
        let mut frames = Frames { all, numbers, bytes: 0, most, most_bytes };
        frames.push(root, Place::None);
        frames
    }

    fn has_space(&self, name: &str) -> bool {
        self.all.len() < self.most && self.bytes + name.len() <= self.most_bytes
    }

    fn push(&mut self, name: &'a str, place: Place) {
        let number = self.all.len();
        self.bytes += name.len();
        self.all.push(Frame { number, name, place, samples: (0, 0), children: Vec::new() });
    }

    /// Adds samples to the root and to all frames of a path from it.
    pub(super) fn add(
        &mut self,
        path: impl IntoIterator<Item = (&'a str, Place)>,
        (before, after): (u64, u64),
    ) {
        let add = |frame: &mut Frame<'_>| {
            frame.samples.0 += before;
            frame.samples.1 += after;
        };
        let mut parent = 0;
        add(&mut self.all[parent]);
        for (name, place) in path {
            let child = match self.numbers.get(&(parent, name, place)) {
                Some(known) => *known,
                None if !self.has_space(name) => return,
                None => {
                    let new = self.all.len();
                    self.numbers.insert((parent, name, place), new);
                    self.push(name, place);
                    self.all[parent].children.push(new);
                    new
                }
            };
            add(&mut self.all[child]);
            parent = child;
        }
    }

    /// All frames, with the children of each in this order.
    pub(super) fn sorted(
        self,
        order: impl Fn(&Frame<'_>, &Frame<'_>) -> Ordering,
    ) -> Vec<Frame<'a>> {
        let mut frames = self.all;
        for parent in 0..frames.len() {
            let mut children = std::mem::take(&mut frames[parent].children);
            children.sort_by(|a, b| order(&frames[*a], &frames[*b]));
            frames[parent].children = children;
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_without_a_frame_in_a_full_tree_count_for_their_callers() {
        let user = |names: &[&'static str]| {
            names.iter().map(|&name| (name, Place::User)).collect::<Vec<_>>()
        };
        for (most, most_bytes) in [(3, 1000), (1000, 5)] {
            let mut frames = Frames::limited("all", most, most_bytes);
            frames.add(user(&["f", "g"]), (1, 0));
            frames.add(user(&["f", "h", "i"]), (2, 0));
            frames.add(user(&["f", "g", "i"]), (4, 0));
            let all = frames.all.iter().map(|frame| (frame.name, frame.samples.0));
            assert_eq!(all.collect::<Vec<_>>(), [("all", 7), ("f", 7), ("g", 5)]);
        }
    }
}
