//! How evenly the tasks of one sample shared the machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Summary of the rates of all tasks over one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// All tasks together: the throughput.
    pub total: f64,
    /// The slowest task.
    pub min: f64,
    /// The fastest task.
    pub max: f64,
    /// Average per task.
    pub mean: f64,
    /// Standard deviation of the tasks as a population (divided by n, since all tasks are here).
    pub stddev: f64,
    /// Jain's fairness index, (Σx)² / (n·Σx²): 1 when all tasks ran at the same rate, 1/n when
    /// one task did all the work (Jain, Chiu and Hawe, DEC-TR-301, 1984).
    pub fairness: f64,
}

impl Spread {
    /// Summarises `rates`, one per task, in any unit; `None` without tasks.
    pub fn of(rates: &[f64]) -> Option<Self> {
        if rates.is_empty() {
            return None;
        }
        let n = rates.len() as f64;
        let total: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|r| r * r).sum();
        let mean = total / n;
        let variance = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n;
        Some(Self {
            total,
            min: rates.iter().copied().fold(f64::INFINITY, f64::min),
            max: rates.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            mean,
            stddev: variance.sqrt(),
            // If no task ran, no task was favoured.
            fairness: if squares > 0.0 { total * total / (n * squares) } else { 1.0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_tasks_are_fair_and_one_task_that_does_all_the_work_is_not() {
        assert_eq!(Spread::of(&[5.0; 4]).unwrap().fairness, 1.0);
        assert_eq!(Spread::of(&[8.0, 0.0, 0.0, 0.0]).unwrap().fairness, 0.25);
        assert_eq!(Spread::of(&[0.0, 0.0]).unwrap().fairness, 1.0);
        assert_eq!(Spread::of(&[]), None);
    }

    proptest! {
        #[test]
        fn the_mean_lies_between_the_extremes(rates in prop::collection::vec(0.0..1e12, 1..50)) {
            let s = Spread::of(&rates).unwrap();
            let slack = 1e-9 * s.max;
            prop_assert!(s.min <= s.mean + slack && s.mean <= s.max + slack);
            prop_assert!(s.fairness <= 1.0 + 1e-9);
            prop_assert!(s.fairness >= 1.0 / rates.len() as f64 - 1e-9);
        }
    }
}
