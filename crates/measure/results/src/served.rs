//! How a server and the load on it used their CPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CaseId;

/// A server that is less busy than this could serve more: its load, or something that it waits for,
/// limits the rate. The clocks of CPU time are exact to one or two percent of a second.
const SATURATED: f64 = 0.95;

/// A load that is busier than this may limit the rate.
const FULL: f64 = 0.9;

/// What a server and the load on it did in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerUse {
    /// CPU seconds of all processes of the server.
    pub server_cpu: f64,
    /// Share of the time of the server's CPUs in which the server or interrupts ran, 0 to 1.
    pub server_busy: f64,
    /// CPU seconds of the load.
    pub load_cpu: f64,
    /// Share of the time of the load's CPUs that the load used, 0 to 1.
    pub load_busy: f64,
    /// Whether the load may use cores of the server.
    pub shared: bool,
}

/// The same over the rounds of a point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Served {
    /// Median busy share of the server's CPUs, 0 to 1.
    pub server_busy: f64,
    /// Median busy share of the load's CPUs, 0 to 1.
    pub load_busy: f64,
    /// Median CPU seconds of the server for each request.
    pub cpu_per_request: f64,
    /// Whether the load may use cores of the server, so that the point does not show how the server
    /// scales.
    pub shared: bool,
}

impl Served {
    /// Whether the server left its CPUs idle, so that its rate is only a lower bound of what it can
    /// serve. On CPUs that server and load share, the load takes what the server does not use, and the rate is
    /// that of both together.
    pub fn is_lower_bound(&self) -> bool {
        self.server_busy < SATURATED && !self.shared
    }

    /// Whether no claim can be based on the rate of `case`, because it is only a lower bound. At a swept number of
    /// connections it is normal that a server is idle, unless the CPUs of the load were full.
    pub fn is_bound(&self, case: &CaseId) -> bool {
        let is_swept = case.connections().is_some();
        self.is_lower_bound() && (!is_swept || self.is_load_full())
    }

    /// Whether the load had hardly any CPU time left, so that it may limit the rate.
    pub fn is_load_full(&self) -> bool {
        self.load_busy > FULL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_on_shared_cpus_is_not_a_lower_bound() {
        let served =
            |shared| Served { server_busy: 0.4, load_busy: 0.95, cpu_per_request: 1e-5, shared };
        let (nginx, swept) = (CaseId::new("nginx"), CaseId::new("nginx").with_connections(8));
        for case in [&nginx, &swept] {
            assert!(served(false).is_lower_bound() && served(false).is_bound(case));
            assert!(!served(true).is_lower_bound() && !served(true).is_bound(case));
        }
    }
}
