//! Numbers for people: a fixed number of digits, one unit per chart and column.

const PREFIXES: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// A power of thousand that all numbers of a chart or column share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prefix {
    divisor: f64,
    symbol: &'static str,
}

impl Prefix {
    /// The one in which `max` is between 1 and 1000.
    pub(crate) fn for_max(max: f64) -> Self {
        let &(divisor, symbol) = PREFIXES
            .iter()
            .find(|(divisor, _)| max >= *divisor)
            .unwrap_or(&PREFIXES[PREFIXES.len() - 1]);
        Self { divisor, symbol }
    }

    /// `M iterations/s`, to go into a heading.
    pub(crate) fn unit(self, unit: &str) -> String {
        format!("{} {unit}/s", self.symbol).trim_start().to_owned()
    }

    /// `M`, to go behind a number.
    pub(crate) fn letter(self) -> &'static str {
        self.symbol
    }

    /// `value` in this unit.
    pub(crate) fn scale(self, value: f64) -> f64 {
        value / self.divisor
    }

    /// `value` in this unit with three significant digits or more, for a column whose smallest
    /// number is `smallest`: all of them have their decimal point in the same place.
    pub(crate) fn format(self, value: f64, smallest: f64) -> String {
        let decimals = decimals_for(self.scale(smallest));
        format!("{:.decimals$}", self.scale(value))
    }
}

/// Decimals that leave three significant digits of `value`, at most 4.
fn decimals_for(value: f64) -> usize {
    match value.abs() {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        x if x >= 0.9995 => 2,
        x if x >= 0.09995 => 3,
        0.0 => 0,
        _ => 4,
    }
}

/// Three significant digits and a prefix: `411 k`, `1.31 M`.
pub(crate) fn si(value: f64) -> String {
    let prefix = Prefix::for_max(value * 1.0005);
    format!("{} {}", prefix.format(value, value), prefix.symbol).trim_end().to_owned()
}

/// `62 %`, with the space between them never broken.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}\u{a0}%", share * 100.0)
}

/// A ratio as a signed change: `+50.4 %`, `−12.0 %`, `+0.0 %`.
pub(crate) fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let decimals = if percent.abs() >= 99.95 { 0 } else { 1 };
    let digits = format!("{:.decimals$}", percent.abs());
    let is_zero = digits.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    let sign = match () {
        () if is_zero => "±",
        () if percent < 0.0 => "−",
        () => "+",
    };
    format!("{sign}{digits}\u{a0}%")
}

/// A probability: `0.012`, `<0.001`.
pub(crate) fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

/// A coefficient of a fit, which may be of any size: `0.035`, `6.0e-4`.
pub(crate) fn coefficient(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        x if (0.00995..1000.0).contains(&x) => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// `16 threads`, `1 process`.
pub(crate) fn tasks(n: u32, mode: crate::model::Mode) -> String {
    use crate::model::Mode;
    match (mode, n) {
        (Mode::Processes, 1) => "1 process".to_owned(),
        (Mode::Threads, 1) => "1 thread".to_owned(),
        _ => format!("{n} {}", mode.as_str()),
    }
}

/// `1 testcase`, `3 testcases`.
pub(crate) fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_one_unit_and_one_place_for_its_point() {
        let prefix = Prefix::for_max(12.3e6);
        assert_eq!(prefix.unit("iterations"), "M iterations/s");
        assert_eq!(prefix.format(12.3e6, 0.98e6), "12.300");
        assert_eq!(prefix.format(0.98e6, 0.98e6), "0.980");
        assert_eq!(Prefix::for_max(12.0).unit("builds"), "builds/s");
    }

    #[test]
    fn rounding_never_shows_a_fourth_digit() {
        assert_eq!(si(999_700.0), "1.00 M");
        assert_eq!(si(411_000.0), "411 k");
        assert_eq!(si(0.0), "0");
    }

    #[test]
    fn a_coefficient_has_two_digits_or_more() {
        assert_eq!(coefficient(0.0349), "0.035");
        assert_eq!(coefficient(0.0006), "6.0e-4");
        assert_eq!(coefficient(0.0), "0");
    }

    #[test]
    fn a_change_has_a_sign_unless_it_is_nothing() {
        assert_eq!(change(1.504), "+50.4\u{a0}%");
        assert_eq!(change(0.88), "−12.0\u{a0}%");
        assert_eq!(change(0.9999), "±0.0\u{a0}%");
        assert_eq!(change(3.9), "+290\u{a0}%");
    }
}
