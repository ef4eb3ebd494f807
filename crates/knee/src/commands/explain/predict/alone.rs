//! The rate of one task, from which the time of an iteration follows.

use knee_host::{Interrupt, Placement};
use knee_results::Mode;

use crate::args::directory::directory;
use crate::args::selection::Selection;
use crate::exit::{ExitStatus, bail_usage, failed};
use crate::present::predict::Alone;
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
            return Ok(Alone { rate, is_measured: true });
        }
    }
    Err(failed(
        ExitStatus::TooNoisy,
        format!(
            "other work disturbed {ATTEMPTS} measurements of one task of {name}; reduce other load, or \
             give the rate with --at"
        ),
    ))
}

/// The highest rate of a task that makes sense: an iteration takes at least an instruction.
const MOST: f64 = 10e9;

/// The rate in a text such as `2.0M` or `850k`, per second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match digits.trim_end().parse::<f64>() {
        Ok(number) if number > 0.0 && number * factor <= MOST => Ok(number * factor),
        _ => Err("must be a rate per second of at most 10G, such as 2.0M or 850k".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
