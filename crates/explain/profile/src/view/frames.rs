//! The stacks of captures, merged into a tree of frames.

use std::cmp::Ordering;
use std::collections::HashMap;

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

/// A tree of frames. The root is the first frame; a parent precedes its children.
pub(super) struct Frames<'a> {
    all: Vec<Frame<'a>>,
    numbers: HashMap<(usize, &'a str, Place), usize>,
}

impl<'a> Frames<'a> {
    pub(super) fn new(root: &'a str) -> Frames<'a> {
        let mut frames = Frames { all: Vec::new(), numbers: HashMap::new() };
        frames.push(root, Place::None);
        frames
    }

    fn push(&mut self, name: &'a str, place: Place) {
        let number = self.all.len();
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
            let next = self.all.len();
            let child = *self.numbers.entry((parent, name, place)).or_insert(next);
            if child == next {
                self.push(name, place);
                self.all[parent].children.push(child);
            }
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
