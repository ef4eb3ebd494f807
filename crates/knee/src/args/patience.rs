//! Options for measuring on a machine that is not quiet.

/// What to do about rounds that other work disturbs.
#[derive(clap::Args)]
pub(crate) struct PatienceArgs {
    /// Measure disturbed rounds again until the run takes up to N times as long as planned; 1 repeats
    /// no round
    #[arg(long, value_name = "N", default_value = "2", allow_negative_numbers = true,
          value_parser = times)]
    patience: f64,
}

impl PatienceArgs {
    pub(crate) fn get(&self) -> f64 {
        self.patience
    }
}

fn times(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(times) if (1.0..=1000.0).contains(&times) => Ok(times),
        _ => Err("must be a number from 1 to 1000, such as 2 or 1.5".to_owned()),
    }
}
