//! Call trees in text.
//!
//! ```text
//! all(100.000% 24419/24419)
//!   mmap_churn1_processes(99.988% 24416/24419)
//!     __munmap(98.243% 23990/24419)
//!       do_mas_align_munmap(98.243% 23990/24419)
//!       (3 more, below 0.5%: 0.123% 30/24419)
//! ```
//!
//! Each line is a function, its share of the root's samples, its own samples and those of the root.
//! A function includes what it calls; what its callees leave of it is its own. Callees stand in the
//! order of their samples, those below a share in one line.
//!
//! The root is the whole capture, or one function wherever it is:
//!
//! * [`Root::Function`]: what it calls. Where it calls itself, the tree begins at the outermost.
//! * [`Root::Callers`]: who calls it, outwards up to the program. Where it calls itself, the tree
//!   begins at the innermost.
//!
//! In both a sample counts once for the root, however often the function is in its stack.

use std::collections::HashMap;
use std::fmt::{self, Display};

use super::first_of_name;
use crate::capture::{Capture, Count};

/// Where a tree begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Root<'a> {
    /// With all samples, and below them the programs.
    #[default]
    All,
    /// With the functions of this name, and below them what they call.
    Function(&'a str),
    /// With the functions of this name, and below them who calls them.
    Callers(&'a str),
}

/// What is printed of a tree if nobody says otherwise.
pub const LEAST_SHARE: f64 = 0.005;

/// Lines are indented no further, as the text of a stack would else grow with its square. The kernel
/// records 127 functions of a stack.
const DEEPEST: usize = 500;

/// A call tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// The first is the root.
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq)]
struct Node {
    name: String,
    samples: u64,
    /// By samples, the most first; by name where they are equal.
    children: Vec<usize>,
}

/// A node's function, or program, by its place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Function(u32),
    Program(u32),
}

/// The tree of a capture. `None` if no sample has the function that it should begin with.
pub fn tree(capture: &Capture, root: Root) -> Option<Tree> {
    let first = first_of_name(capture);
    let mut tree = Growing::new(match root {
        Root::All => "all",
        Root::Function(name) | Root::Callers(name) => name,
    });
    let is_root = |function: &u32| match root {
        Root::All => false,
        Root::Function(name) | Root::Callers(name) => {
            capture.functions[*function as usize].name == name
        }
    };
    let mut path = Vec::new();
    for count in &capture.counts {
        // From the innermost to the outermost.
        path.clear();
        path.extend(capture.functions_of(count.stack).map(|place| first[place as usize]));
        let functions = |places: &[u32]| places.iter().copied().map(Of::Function).collect();
        let below: Vec<Of> = match root {
            Root::All => [Of::Program(count.program)]
                .into_iter()
                .chain(path.iter().rev().copied().map(Of::Function))
                .collect(),
            Root::Function(_) => {
                let Some(outermost) = path.iter().rposition(is_root) else { continue };
                path[..outermost].reverse();
                functions(&path[..outermost])
            }
            Root::Callers(_) => {
                let Some(innermost) = path.iter().position(is_root) else { continue };
                let mut callers: Vec<Of> = functions(&path[innermost + 1..]);
                callers.push(Of::Program(count.program));
                callers
            }
        };
        tree.add(&below, count);
    }
    (root == Root::All || tree.samples[0] > 0).then(|| tree.finish(capture))
}

/// A tree while samples are added.
struct Growing {
    of: Vec<Option<Of>>,
    samples: Vec<u64>,
    parents: Vec<usize>,
    places: HashMap<(usize, Of), usize>,
    root: String,
}

impl Growing {
    fn new(root: &str) -> Growing {
        Growing {
            of: vec![None],
            samples: vec![0],
            parents: vec![0],
            places: HashMap::new(),
            root: root.to_owned(),
        }
    }

    fn add(&mut self, below: &[Of], count: &Count) {
        let mut node = 0;
        self.samples[node] += count.samples;
        for of in below {
            let next = self.of.len();
            let place = *self.places.entry((node, *of)).or_insert(next);
            if place == next {
                self.of.push(Some(*of));
                self.samples.push(0);
                self.parents.push(node);
            }
            node = place;
            self.samples[node] += count.samples;
        }
    }

    fn finish(self, capture: &Capture) -> Tree {
        let name = |of: &Option<Of>| match of {
            None => self.root.clone(),
            Some(Of::Program(place)) => capture.programs[*place as usize].clone(),
            Some(Of::Function(place)) => capture.functions[*place as usize].name.clone(),
        };
        let nodes = self.of.iter().zip(&self.samples);
        let mut nodes: Vec<Node> = nodes
            .map(|(of, samples)| Node { name: name(of), samples: *samples, children: Vec::new() })
            .collect();
        for (place, parent) in self.parents.iter().enumerate().skip(1) {
            nodes[*parent].children.push(place);
        }
        for place in 0..nodes.len() {
            let mut children = std::mem::take(&mut nodes[place].children);
            children.sort_by(|a, b| {
                let (a, b) = (&nodes[*a], &nodes[*b]);
                b.samples.cmp(&a.samples).then_with(|| a.name.cmp(&b.name))
            });
            nodes[place].children = children;
        }
        Tree { nodes }
    }
}

impl Tree {
    /// Samples of the root.
    pub fn samples(&self) -> u64 {
        self.nodes[0].samples
    }

    /// The tree in text, without functions below a share of the root's samples (0 to 1).
    pub fn text(&self, least_share: f64) -> impl Display + '_ {
        Text { tree: self, least_share }
    }
}

struct Text<'a> {
    tree: &'a Tree,
    least_share: f64,
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tree { nodes } = self.tree;
        let all = nodes[0].samples;
        let percent = |samples: u64| 100.0 * samples as f64 / all.max(1) as f64;
        // A stack of our own: stacks of a capture may be deeper than ours can be.
        let mut next = vec![(0_usize, Line::Node(0))];
        while let Some((depth, line)) = next.pop() {
            let indent = 2 * depth.min(DEEPEST);
            let node = match line {
                Line::Rest { functions, samples } => {
                    let (least, percent) = (100.0 * self.least_share, percent(samples));
                    writeln!(
                        f,
                        "{:indent$}({functions} more, below {least}%: {percent:.3}% {samples}/{all})",
                        ""
                    )?;
                    continue;
                }
                Line::Node(place) => &nodes[place],
            };
            let (name, samples) = (&node.name, node.samples);
            let percent = percent(samples);
            writeln!(f, "{:indent$}{name}({percent:.3}% {samples}/{all})", "")?;
            let shown = node.children.partition_point(|child| {
                nodes[*child].samples as f64 >= self.least_share * all as f64
            });
            let (shown, rest) = node.children.split_at(shown);
            if !rest.is_empty() {
                let samples = rest.iter().map(|child| nodes[*child].samples).sum();
                next.push((depth + 1, Line::Rest { functions: rest.len(), samples }));
            }
            next.extend(shown.iter().rev().map(|child| (depth + 1, Line::Node(*child))));
        }
        Ok(())
    }
}

enum Line {
    Node(usize),
    /// Functions below the least share.
    Rest {
        functions: usize,
        samples: u64,
    },
}

#[cfg(test)]
mod tests;
