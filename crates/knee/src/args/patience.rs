//! Options for measuring on a machine that is not quiet.

use super::seconds;

/// What to do about other work on the machine.
#[derive(clap::Args)]
pub(crate) struct PatienceArgs {
    /// Measure disturbed rounds again until the run takes up to N times as long as planned; 1 repeats
    /// no round
    #[arg(long, value_name = "N", default_value = "2",
          value_parser = times)]
    patience: f64,

    /// Before the first round, wait until other work uses at most 2% of the CPUs, but at most S
    /// seconds [default: 600]
    #[arg(long, value_name = "S", num_args = 0..=1, require_equals = true,
          default_missing_value = "600", value_parser = seconds)]
    wait_quiet: Option<f64>,
}

impl PatienceArgs {
    /// How many times as long as planned a run may take.
    pub(crate) fn times(&self) -> f64 {
        self.patience
    }

    /// How many seconds to wait for a quiet machine, if at all.
    pub(crate) fn wait_quiet(&self) -> Option<f64> {
        self.wait_quiet
    }
}

fn times(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(times) if (1.0..=1000.0).contains(&times) => Ok(times),
        _ => Err("must be a number from 1 to 1000, such as 2 or 1.5".to_owned()),
    }
}
