//! Call trees as text.
//!
//! ```text
//! all(100.000% 24419/24419)
//!   mmap_churn1_processes(99.988% 24416/24419)
//!     __munmap(98.243% 23990/24419)
//!       do_mas_align_munmap(98.243% 23990/24419)
//!       (3 more, below 0.5%: 0.123% 30/24419)
//! ```
//!
//! Each line shows a function, its share of the root's samples, its samples, and those of the root. The
//! samples of a function include its callees. Callees are sorted by samples; those below a minimum share are
//! combined in one line.
//!
//! The root is the whole capture, or one function with all of its call sites merged:
//!
//! * [`Root::Function`] shows its callees. If it is recursive, the tree begins at its outermost call.
//! * [`Root::Callers`] shows its callers, up to the program. If it is recursive, the tree begins at its
//!   innermost call.
//!
//! A sample counts once for the root, even if its stack contains the function several times.

use super::frames::{Frame, Frames, Place, path};
use crate::capture::Capture;

/// The root of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Root<'a> {
    /// All samples, with the programs below.
    #[default]
    All,
    /// The functions of this name, with their callees below.
    Function(&'a str),
    /// The functions of this name, with their callers below.
    Callers(&'a str),
}

/// Default minimum share of a printed function.
pub const LEAST_SHARE: f64 = 0.005;

/// Maximum depth of printed functions, so that the text of a stack does not grow with the square of its depth.
/// The kernel records 127 functions per stack by default.
const DEEPEST: usize = 500;

/// A call tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree<'a> {
    /// The first is the root. Children are ordered by samples, the most first, then by name.
    frames: Vec<Frame<'a>>,
}

/// The call tree of a capture; `None` if no sample contains the root function.
pub fn tree<'a>(capture: &'a Capture, root: Root<'a>) -> Option<Tree<'a>> {
    let root_name = match root {
        Root::All => "all",
        Root::Function(name) | Root::Callers(name) => name,
    };
    let is_root = |&(name, place): &(&str, Place)| name == root_name && place != Place::None;
    let mut frames = Frames::new(root_name);
    for count in &capture.counts {
        let path = path(capture, count, |function| function.kind.into());
        let samples = (count.samples, 0);
        match root {
            Root::All => frames.add(path.into_iter().rev(), samples),
            Root::Function(_) => {
                if let Some(outermost) = path.iter().rposition(is_root) {
                    frames.add(path[..outermost].iter().rev().copied(), samples);
                }
            }
            Root::Callers(_) => {
                if let Some(innermost) = path.iter().position(is_root) {
                    frames.add(path[innermost + 1..].iter().copied(), samples);
                }
            }
        }
    }
    let by_samples =
        |a: &Frame<'_>, b: &Frame<'_>| b.samples.cmp(&a.samples).then_with(|| a.name.cmp(b.name));
    let tree = Tree { frames: frames.sorted(by_samples) };
    (root == Root::All || tree.samples() > 0).then_some(tree)
}

impl Tree<'_> {
    /// Samples of the root.
    pub fn samples(&self) -> u64 {
        self.frames[0].samples.0
    }

    /// The tree as text, without functions below a share of the root's samples (0 to 1).
    pub fn text(&self, least_share: f64) -> String {
        let all = self.samples();
        let share = |samples: u64| {
            let percent = 100.0 * samples as f64 / all.max(1) as f64;
            format!("{percent:.3}% {samples}/{all}")
        };
        let line = |frame: &Frame<'_>| format!("{}({})", frame.name, share(frame.samples.0));
        let root = &self.frames[0];
        let mut text = String::new();
        // Not recursive, because a recorded stack may be deeper than the stack of this thread.
        let mut next = vec![(0, line(root), root.children.as_slice())];
        while let Some((depth, words, children)) = next.pop() {
            let indent = 2 * depth;
            text += &format!("{:indent$}{words}\n", "");
            if depth == DEEPEST && !children.is_empty() {
                text += &format!("{:indent$}  (deeper calls are left out)\n", "");
                continue;
            }
            let children = children.iter().map(|child| &self.frames[*child]);
            let is_shown = |child: &&Frame<'_>| child.samples.0 as f64 >= least_share * all as f64;
            let (shown, rest): (Vec<_>, Vec<_>) = children.partition(is_shown);
            if !rest.is_empty() {
                let (functions, least) = (rest.len(), 100.0 * least_share);
                let rest = share(rest.iter().map(|child| child.samples.0).sum());
                next.push((depth + 1, format!("({functions} more, below {least}%: {rest})"), &[]));
            }
            let shown = shown.into_iter().rev();
            next.extend(shown.map(|child| (depth + 1, line(child), child.children.as_slice())));
        }
        text
    }
}

#[cfg(test)]
mod tests;
