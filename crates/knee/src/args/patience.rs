//! Options for measuring on a machine that is not quiet.

use std::ffi::OsString;

use super::seconds;

/// What to do about other work on the machine.
#[derive(clap::Args)]
pub(crate) struct PatienceArgs {
    /// Measure disturbed rounds again until the run takes up to N times as long as planned; 1 repeats
    /// no round
    #[arg(long, value_name = "N", default_value = "2",
          value_parser = times)]
    patience: f64,

    #[command(flatten)]
    quiet: WaitQuietArgs,
}

/// Whether to wait for a quiet machine.
#[derive(clap::Args)]
pub(crate) struct WaitQuietArgs {
    /// Before the measurement, wait until other work uses at most 2% of the CPUs, but at most S
    /// seconds [default: 600]
    #[arg(long, value_name = "S", num_args = 0..=1, require_equals = true,
          default_missing_value = "600", value_parser = seconds)]
    wait_quiet: Option<f64>,
}

impl WaitQuietArgs {
    /// How many seconds to wait, if at all.
    pub(crate) fn limit(&self) -> Option<f64> {
        self.wait_quiet
    }
}

impl PatienceArgs {
    /// How many times as long as planned a run may take.
    pub(crate) fn times(&self) -> f64 {
        self.patience
    }

    /// How many seconds to wait for a quiet machine, if at all.
    pub(crate) fn wait_quiet(&self) -> Option<f64> {
        self.quiet.limit()
    }
}

/// The seconds that follow `--wait-quiet` as an argument of their own, where they would be taken for a
/// testcase.
pub(crate) fn detached_seconds(args: impl Iterator<Item = OsString>) -> Option<String> {
    // The arguments after -- belong to another program.
    let args: Vec<OsString> = args.take_while(|arg| *arg != "--").collect();
    args.windows(2).find_map(|pair| {
        let next = pair[1].to_str()?;
        (pair[0] == "--wait-quiet" && seconds(next).is_ok()).then(|| next.to_owned())
    })
}

fn times(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(times) if (1.0..=1000.0).contains(&times) => Ok(times),
        _ => Err("must be a number from 1 to 1000, such as 2 or 1.5".to_owned()),
    }
}
