//! The option `--latency`.

use knee_host::number::percent;
use knee_results::LatencyRequest;

use super::percentage;
use crate::exit::{bail_usage, ensure_usage};

/// Default rate of the open loop of a server, as a share of the measured rate. At a higher share, the
/// variation of the rate alone lets requests queue up.
const SHARE: f64 = 0.7;

/// The value of `--latency`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LatencyChoice {
    /// Without a value.
    On,
    /// `off`
    Off,
    /// At this share of the rate.
    Share(f64),
}

impl LatencyChoice {
    /// Whether the user asks for latency.
    pub(crate) fn is_asked(given: Option<Self>) -> bool {
        matches!(given, Some(Self::On | Self::Share(_)))
    }

    /// Which latency a run of servers measures. All of them generate their load with a command if
    /// `has_generator` is false.
    pub(crate) fn of_servers(
        given: Option<Self>,
        has_generator: bool,
    ) -> anyhow::Result<Option<LatencyRequest>> {
        ensure_usage!(
            has_generator || !Self::is_asked(given),
            "--latency: knee can measure only requests that it sends itself, but a command \
             (load.command) generates this load; leave out --latency"
        );
        let share = match given {
            Some(Self::Off) => return Ok(None),
            Some(Self::Share(share)) => share,
            Some(Self::On) | None => SHARE,
        };
        Ok(has_generator.then_some(LatencyRequest::Requests { share }))
    }

    /// Which latency a run of testcases measures.
    pub(crate) fn of_testcases(given: Option<Self>) -> anyhow::Result<Option<LatencyRequest>> {
        if let Some(Self::Share(share)) = given {
            bail_usage!(
                "--latency={}: a share of the rate applies only to servers; for testcases, use \
                 --latency without a value",
                percent(share)
            );
        }
        Ok(Self::is_asked(given).then_some(LatencyRequest::Iterations))
    }
}

/// Parses `on`, `off` or a percentage up to 100%.
pub(crate) fn latency(text: &str) -> Result<LatencyChoice, String> {
    match text {
        "on" => Ok(LatencyChoice::On),
        "off" => Ok(LatencyChoice::Off),
        _ => percentage(text).map(LatencyChoice::Share).map_err(|_| {
            "must be on, off, or a share of the rate up to 100%, such as 70%".to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_up_to_100() {
        assert_eq!(latency("on"), Ok(LatencyChoice::On));
        assert_eq!(latency("off"), Ok(LatencyChoice::Off));
        assert_eq!(latency("50%"), Ok(LatencyChoice::Share(0.5)));
        for wrong in ["101%", "0%", "-1%", "often"] {
            assert!(latency(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn servers_have_latency_by_default_and_testcases_do_not() {
        let requests = |share| Some(LatencyRequest::Requests { share });
        let servers = |given| LatencyChoice::of_servers(given, true).unwrap();
        assert_eq!(servers(None), requests(0.7));
        assert_eq!(servers(Some(LatencyChoice::Share(0.5))), requests(0.5));
        assert_eq!(servers(Some(LatencyChoice::Off)), None);
        assert_eq!(LatencyChoice::of_servers(None, false).unwrap(), None);
        assert!(LatencyChoice::of_servers(Some(LatencyChoice::On), false).is_err());
        let testcases = |given| LatencyChoice::of_testcases(given).unwrap();
        assert_eq!((testcases(None), testcases(Some(LatencyChoice::Off))), (None, None));
        assert_eq!(testcases(Some(LatencyChoice::On)), Some(LatencyRequest::Iterations));
        assert!(LatencyChoice::of_testcases(Some(LatencyChoice::Share(0.5))).is_err());
    }
}
