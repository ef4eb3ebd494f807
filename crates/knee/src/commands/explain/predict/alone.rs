//! The rate of one task, from which the time of an iteration follows.

use knee_host::environment::{hostname, kernel};
use knee_host::{Interrupt, Placement};
use knee_results::Mode;
use knee_results::prediction::Alone;

use crate::args::directory::directory;
use crate::args::selection::Selection;
use crate::exit::{ExitStatus, bail_usage, failed};
use crate::session::bench::Bench;
use crate::stderr::tell;

/// Seconds of a measurement.
const SECONDS: f64 = 1.0;
/// Measurements, if other work disturbs them.
const ATTEMPTS: u32 = 3;

/// Measures one task of a testcase on this machine.
pub(super) fn measure(name: &str, mode: Mode, interrupt: &Interrupt) -> anyhow::Result<Alone> {
    let selection = Selection::of(&[name.to_owned()], false)?;
    let [testcase] = &selection.testcases[..] else {
        bail_usage!("{name} is not the name of one testcase");
    };
    tell!("knee: measuring one task of {name} on this machine");
    let dir = directory(testcase, None)?;
    let bench = Bench::of(testcase, Some(mode), dir, Placement::Cores)?;
    for _ in 0..ATTEMPTS {
        if let Some(rate) = bench.rate(1, SECONDS, interrupt)? {
            return Ok(measured(rate));
        }
    }
    Err(failed(
        ExitStatus::TooNoisy,
        format!(
            "other work disturbed {ATTEMPTS} measurements of one task of {name}; reduce other \
             load, or give the rate with --at"
        ),
    ))
}

/// A rate that was measured here.
pub(super) fn measured(rate: f64) -> Alone {
    Alone { rate, measured_on: Some(format!("{}, {}", hostname(), kernel())) }
}

/// A rate of `--at`, for one testcase or, without a name, for the only one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Given {
    testcase: Option<String>,
    rate: f64,
}

/// The rate in `2.0M` or `open1=2.0M`.
pub(super) fn given(text: &str) -> Result<Given, String> {
    let (testcase, rate_text) = match text.rsplit_once('=') {
        Some((name, rate)) => (Some(name.to_owned()), rate),
        None => (None, text),
    };
    Ok(Given { testcase, rate: rate(rate_text)? })
}

/// The given rates of the testcases, in their order; `None` for those to measure.
pub(super) fn rates(
    given: &[Given],
    testcases: &[impl AsRef<str>],
) -> anyhow::Result<Vec<Option<f64>>> {
    let mut rates = vec![None; testcases.len()];
    for Given { testcase, rate } in given {
        let is_meant: Vec<bool> = match testcase {
            // In traces, a testcase may occur in both modes.
            Some(name) => testcases.iter().map(|known| known.as_ref() == name).collect(),
            None if testcases.len() == 1 => vec![true],
            None => bail_usage!(
                "--at without a name is the rate of one testcase, but there are {}; name each, \
                 such as --at {}=2.0M",
                testcases.len(),
                testcases[0].as_ref()
            ),
        };
        if !is_meant.contains(&true) {
            let name = testcase.as_deref().unwrap_or_default();
            bail_usage!("--at {name}=…: {name} is not among the testcases to predict");
        }
        for (at, _) in is_meant.iter().enumerate().filter(|(_, is_meant)| **is_meant) {
            if rates[at].replace(*rate).is_some() {
                bail_usage!("--at gives two rates of {}", testcases[at].as_ref());
            }
        }
    }
    Ok(rates)
}

/// The highest rate of a task that makes sense: an iteration takes at least an instruction.
pub(super) const MOST_RATE: f64 = 10e9;

/// The rate in a text such as `2.0M` or `850k`, per second.
fn rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match digits.trim_end().parse::<f64>() {
        Ok(number) if number > 0.0 && number * factor <= MOST_RATE => Ok(number * factor),
        _ => Err("must be a rate per second of at most 10G, such as 2.0M or 850k".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates_of(texts: &[&str], testcases: &[&str]) -> Result<Vec<Option<f64>>, String> {
        let given: Vec<Given> = texts.iter().map(|text| given(text).unwrap()).collect();
        rates(&given, testcases).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rate_belongs_to_the_only_testcase_or_to_the_named_one() {
        assert_eq!(rates_of(&["2M"], &["open1"]), Ok(vec![Some(2e6)]));
        let two = ["open1", "pipe1"];
        assert_eq!(rates_of(&["pipe1=3M"], &two), Ok(vec![None, Some(3e6)]));
        assert_eq!(rates_of(&["pipe1=3M", "open1=2M"], &two), Ok(vec![Some(2e6), Some(3e6)]));
        assert!(rates_of(&["2M"], &two).unwrap_err().contains("--at open1=2.0M"));
        assert!(rates_of(&["dup1=2M"], &two).unwrap_err().contains("dup1 is not among"));
        let twice = rates_of(&["open1=2M", "open1=3M"], &two).unwrap_err();
        assert!(twice.contains("two rates of open1"), "{twice}");
    }

    #[test]
    fn rates_have_a_unit_prefix_or_none() {
        assert_eq!(rate("2.0M"), Ok(2e6));
        assert_eq!(rate("850 k"), Ok(850e3));
        assert_eq!(rate("1e9"), Ok(1e9));
        for wrong in ["", "M", "0", "-1k", "2m", "inf", "11G", "1e308G"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
