//! Circles in a graph of imports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use crate::imports::Graph;

/// The shortest circle through each file that is on one.
pub(crate) fn circles(graph: &Graph) -> BTreeSet<Vec<PathBuf>> {
    graph.keys().filter_map(|file| circle_through(file, graph)).collect()
}

/// `a.rs → b.rs → a.rs`
pub(crate) fn shown(circle: &[PathBuf]) -> String {
    let files = circle.iter().chain(circle.first());
    files.map(|file| file.display().to_string()).collect::<Vec<_>>().join(" → ")
}

/// Breadth first; the circle begins with its first file in the order of the alphabet.
fn circle_through(start: &Path, graph: &Graph) -> Option<Vec<PathBuf>> {
    let mut came_from: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for next in graph.get(file).into_iter().flatten() {
            if next == start {
                let back = std::iter::successors(Some(file), |file| came_from.get(file).copied());
                let mut circle: Vec<PathBuf> = back.map(Path::to_owned).collect();
                circle.reverse();
                let first = circle.iter().enumerate().min_by_key(|(_, file)| *file)?.0;
                circle.rotate_left(first);
                return Some(circle);
            }
            if !came_from.contains_key(next.as_path()) {
                came_from.insert(next, file);
                queue.push_back(next);
            }
        }
    }
    None
}
