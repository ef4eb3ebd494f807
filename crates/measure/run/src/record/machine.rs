//! The machine that measurements apply to.

use std::fmt;

use knee_host::Environment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What has to be the same for numbers of two days to belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Its name.
    pub hostname: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Model name of its CPUs, if known.
    pub cpu_model: Option<String>,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hostname, kernel, cpu_model } = self;
        write!(f, "{hostname} ({kernel}, {})", cpu_model.as_deref().unwrap_or("unknown CPU"))
    }
}

impl From<&Environment> for Machine {
    fn from(environment: &Environment) -> Self {
        Self {
            hostname: environment.hostname.clone(),
            kernel: environment.kernel.clone(),
            cpu_model: environment.cpu_model.clone(),
        }
    }
}
