//! The frames of one or two captures, as a tree.

use std::collections::HashMap;

use crate::capture::{Capture, Function, Kind};

/// A frame: a function in its callers, a program, or all of them.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) place: Place,
    /// Samples in the first capture and in the second.
    pub(super) samples: (u64, u64),
    /// In the order of their names.
    pub(super) children: Vec<usize>,
}

/// Where a frame's code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    /// It has none: a program, or all of them.
    None,
    Kernel,
    User,
    Inlined,
}

impl Place {
    fn of(function: &Function) -> Place {
        match (function.inlined, function.kind) {
            (true, _) => Place::Inlined,
            (false, Kind::Kernel) => Place::Kernel,
            (false, Kind::User) => Place::User,
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

/// The frames of up to two captures. The first frame is that of all samples; a parent stands before
/// its children.
pub(super) fn frames(captures: &[&Capture]) -> Vec<Frame> {
    let frame = |number, name: &str, place| Frame {
        number,
        name: name.to_owned(),
        place,
        samples: (0, 0),
        children: Vec::new(),
    };
    let mut frames = vec![frame(0, "all", Place::None)];
    let mut places: HashMap<(usize, &str, Place), usize> = HashMap::new();
    let mut path = Vec::new();
    for (side, capture) in captures.iter().enumerate() {
        for count in &capture.counts {
            path.clear();
            path.extend(capture.functions_of(count.stack).map(|place| {
                let function = &capture.functions[place as usize];
                (function.name.as_str(), Place::of(function))
            }));
            path.push((&capture.programs[count.program as usize], Place::None));
            let mut at = 0;
            let add = |frame: &mut Frame| match side {
                0 => frame.samples.0 += count.samples,
                _ => frame.samples.1 += count.samples,
            };
            add(&mut frames[at]);
            for (name, place) in path.iter().rev() {
                let next = frames.len();
                let child = *places.entry((at, *name, *place)).or_insert(next);
                if child == next {
                    frames.push(frame(next, name, *place));
                    frames[at].children.push(next);
                }
                at = child;
                add(&mut frames[at]);
            }
        }
    }
    for at in 0..frames.len() {
        let mut children = std::mem::take(&mut frames[at].children);
        children.sort_by_key(|child| (&frames[*child].name, frames[*child].place));
        frames[at].children = children;
    }
    frames
}
