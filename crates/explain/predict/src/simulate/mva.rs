//! Mean value analysis: the exact throughput of a closed network, as a check of the simulation.
//!
//! M. Reiser and S. S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks",
//! Journal of the ACM 27(2), 1980. It is exact for stations with exponential service times. Those
//! of lines and locks are nearly constant, so that tasks wait less: the simulation is between the
//! analysis and the asymptotic bounds, and up to a third above the analysis at the knee.

/// A closed network: tasks compute, and then visit stations that serve one task at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Time in ns that an iteration needs without any station.
    pub think_ns: f64,
    /// For each station, the time in ns that an iteration needs there: visits times service.
    pub demands_ns: Vec<f64>,
}

impl Network {
    /// Iterations per second of so many tasks, with exponential service times.
    pub fn throughput(&self, tasks: u32) -> f64 {
        let mut queues = vec![0.0; self.demands_ns.len()];
        let mut throughput = 0.0;
        for tasks in 1..=tasks {
            let responses: Vec<f64> = self
                .demands_ns
                .iter()
                .zip(&queues)
                .map(|(demand, queue)| demand * (1.0 + queue))
                .collect();
            throughput = f64::from(tasks) / (self.think_ns + responses.iter().sum::<f64>());
            queues = responses.iter().map(|response| throughput * response).collect();
        }
        throughput * 1e9
    }

    /// The most iterations per second of so many tasks, whatever the distribution of service times:
    /// nobody waits, or the busiest station is always busy (P. J. Denning and J. P. Buzen, "The
    /// Operational Analysis of Queueing Network Models", ACM Computing Surveys 10(3), 1978).
    pub fn bound(&self, tasks: u32) -> f64 {
        let alone = self.think_ns + self.demands_ns.iter().sum::<f64>();
        let busiest = self.demands_ns.iter().copied().fold(0.0, f64::max);
        (f64::from(tasks) / alone).min(1.0 / busiest) * 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_station_without_thinking_is_always_busy() {
        let network = Network { think_ns: 0.0, demands_ns: vec![100.0] };
        for tasks in [1, 2, 50] {
            assert!((network.throughput(tasks) - 1e7).abs() < 1.0);
        }
    }

    #[test]
    fn two_equal_stations_are_each_busy_for_n_of_n_plus_1() {
        // A balanced network of K stations has a throughput of N / (N + K − 1) of that of one
        // station.
        let network = Network { think_ns: 0.0, demands_ns: vec![100.0, 100.0] };
        for tasks in [1, 3, 20] {
            let expected = 1e7 * f64::from(tasks) / f64::from(tasks + 1);
            assert!((network.throughput(tasks) - expected).abs() < 1.0);
        }
    }

    #[test]
    fn the_throughput_is_below_the_bounds_and_reaches_them() {
        let network = Network { think_ns: 900.0, demands_ns: vec![100.0, 50.0] };
        for tasks in 1..=200 {
            assert!(network.throughput(tasks) <= network.bound(tasks) * (1.0 + 1e-12));
        }
        assert_eq!(network.throughput(1), network.bound(1));
        assert!(network.throughput(200) > 0.999 * network.bound(200));
    }
}
