//! The callers through which a function's cost grew.

use std::collections::HashMap;

use crate::capture::{Capture, Kind};

/// Maximum callers to report: enough to pass a lock's own functions and reach its user.
const MOST: usize = 4;

/// A function by name and kind.
type Name<'a> = (&'a str, Kind);

/// Growth of each function by its callers, nearest first.
pub(super) struct Callers<'a> {
    growth: HashMap<Name<'a>, Vec<(Vec<Name<'a>>, f64)>>,
}

impl<'a> Callers<'a> {
    /// `whole` is the cost of all samples of each capture.
    pub(super) fn of(before: &'a Capture, after: &'a Capture, whole: (f64, f64)) -> Callers<'a> {
        let mut paths: HashMap<(Name<'a>, Vec<Name<'a>>), f64> = HashMap::new();
        for (capture, whole) in [(before, -whole.0), (after, whole.1)] {
            let each = whole / capture.samples().max(1) as f64;
            for count in &capture.counts {
                let name = |function: u32| {
                    let function = &capture.functions[function as usize];
                    (function.name.as_str(), function.kind)
                };
                let mut names = capture.functions_of(count.stack).map(name);
                let Some(function) = names.next() else { continue };
                let callers = names.take(MOST).collect();
                *paths.entry((function, callers)).or_default() += count.samples as f64 * each;
            }
        }
        let mut growth: HashMap<Name<'a>, Vec<_>> = HashMap::new();
        for ((function, callers), cost) in paths {
            growth.entry(function).or_default().push((callers, cost));
        }
        Callers { growth }
    }

    /// The callers through which a function grew most: at each step the caller with the largest growth.
    pub(super) fn of_growth(&self, name: &str, kind: Kind) -> Vec<String> {
        let Some(paths) = self.growth.get(&(name, kind)) else { return Vec::new() };
        let mut left: Vec<&(Vec<Name<'a>>, f64)> = paths.iter().collect();
        let mut callers = Vec::new();
        for depth in 0..MOST {
            let mut costs: HashMap<Name<'a>, f64> = HashMap::new();
            for (path, cost) in &left {
                if let Some(caller) = path.get(depth) {
                    *costs.entry(*caller).or_default() += cost;
                }
            }
            let most = costs.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
            let Some((caller, _)) = most.filter(|(_, cost)| *cost > 0.0) else { break };
            left.retain(|(path, _)| path.get(depth) == Some(&caller));
            callers.push(caller.0.to_owned());
        }
        callers
    }
}
