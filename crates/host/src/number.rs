//! Number formats. All numbers that knee prints and draws come from here.

/// Rounding error of a share times a hundred.
const ROUNDING: f64 = 1e-9;
const PREFIXES: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// A power of a thousand that the numbers of one chart or column share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prefix {
    divisor: f64,
    symbol: &'static str,
}

impl Prefix {
    /// The prefix with which `max` is between 1 and 1000.
    pub fn for_max(max: f64) -> Self {
        let &(divisor, symbol) = PREFIXES
            .iter()
            .find(|(divisor, _)| max >= *divisor)
            .unwrap_or(&PREFIXES[PREFIXES.len() - 1]);
        Self { divisor, symbol }
    }

    /// A heading such as `M iterations/s`.
    pub fn unit(self, unit: &str) -> String {
        format!("{} {unit}/s", self.symbol).trim_start().to_owned()
    }

    /// The letter alone, such as `M`; empty for 1.
    pub fn letter(self) -> &'static str {
        self.symbol
    }

    /// `value` in multiples of the prefix.
    pub fn scale(self, value: f64) -> f64 {
        value / self.divisor
    }

    /// `value` in multiples of the prefix, with at least three significant digits of `smallest`,
    /// the smallest number of the column, so that the decimal points of a column are aligned.
    pub fn format(self, value: f64, smallest: f64) -> String {
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

/// `value` with three significant digits: `12.3`, `0.523`.
pub fn three_digits(value: f64) -> String {
    let decimals = decimals_for(value);
    format!("{value:.decimals$}")
}

/// Three significant digits and a prefix: `411 k`, `1.31 M`. Infinite values and NaN are 0.
pub fn si(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    // Up to 999.5 is printed as 999 at most; beyond it would round to four digits.
    let prefix = Prefix::for_max(value.abs() * 1.0005);
    format!("{} {}", prefix.format(value, value), prefix.symbol).trim_end().to_owned()
}

/// A share in whole per cent: `97%`.
pub fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A threshold as the user typed it: `80%`, `66.7%`.
pub fn threshold(share: f64) -> String {
    format!("{}%", (share * 1e5).round() / 1e3)
}

/// A share with enough decimals to show on which side of `threshold` it is: `79.6%`, not `80%`, if
/// it is below 80%.
pub fn percent_beside(share: f64, threshold: f64) -> String {
    const MOST_DECIMALS: usize = 3;
    let rounded = |decimals: usize| format!("{:.decimals$}", share * 100.0);
    let on_its_side = |text: &String| {
        let shown = text.parse::<f64>().unwrap_or(f64::NAN);
        (shown + ROUNDING < threshold * 100.0) == (share < threshold)
    };
    let text = (0..MOST_DECIMALS).map(rounded).find(on_its_side);
    format!("{}%", text.unwrap_or_else(|| rounded(MOST_DECIMALS)))
}

/// An uncertainty, with one decimal below ten per cent.
pub fn spread(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// A ratio as a signed change: `+50.4%`, `−12.0%`, `±0.0%`.
pub fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let decimals = if percent.abs() >= 99.95 { 0 } else { 1 };
    let digits = format!("{:.decimals$}", percent.abs());
    let is_zero = digits.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    let sign = match () {
        () if is_zero => "±",
        () if percent < 0.0 => "−",
        () => "+",
    };
    format!("{sign}{digits}%")
}

/// A probability: `0.012`, `<0.001`.
pub fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

/// A coefficient of a fit, of any size: `0.035`, `6.0e-4`.
pub fn coefficient(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        x if (0.00995..1000.0).contains(&x) => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// A number of events, which may be rare: `1.31 M`, `0.523`, `2.1e-5`.
pub fn count(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        x if x.abs() < 0.00995 => format!("{value:.1e}"),
        _ => si(value),
    }
}

/// `1 point`, `2 points`.
pub fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// `1 task`, `2 tasks`.
pub fn tasks(n: u32) -> String {
    plural(n as usize, "task")
}

/// Whole seconds in readable form: `12 s`, `1 min 50 s`, `2 h 5 min`.
pub fn duration(seconds: f64) -> String {
    let s = seconds.max(0.0).round() as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// A time in seconds with three digits and its unit: `1.23 s`, `45.6 ms`, `789 µs`, `12.0 ns`.
pub fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 0.999_5e-6 => (s * 1e9, "ns"),
        s if s < 0.999_5e-3 => (s * 1e6, "µs"),
        s if s < 0.999_5 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let decimals = decimals_for(value).min(2);
    format!("{value:.decimals$} {unit}")
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
    fn a_coefficient_has_two_digits_or_more() {
        assert_eq!(coefficient(0.0349), "0.035");
        assert_eq!(coefficient(0.0006), "6.0e-4");
        assert_eq!(coefficient(0.0), "0");
    }

    #[test]
    fn a_change_has_a_sign_unless_it_rounds_to_zero() {
        assert_eq!(change(1.504), "+50.4%");
        assert_eq!(change(0.88), "−12.0%");
        assert_eq!(change(0.9999), "±0.0%");
        assert_eq!(change(3.9), "+290%");
    }

    #[test]
    fn times_have_three_digits() {
        let shown = [0.0123456, 1.0, 0.9999, 75.25, 120.4, 4.2e-5].map(time);
        assert_eq!(shown, ["12.3 ms", "1.00 s", "1.00 s", "75.2 s", "120 s", "42.0 µs"]);
    }

    #[test]
    fn numbers_have_three_significant_digits_and_never_a_fourth() {
        let shown: Vec<String> =
            [0.0, 0.523, 7.0, 12.34, 999.4, 999.6, 410_671.0, 1_310_849.0, 3.2e10].map(si).to_vec();
        assert_eq!(
            shown,
            ["0", "0.523", "7.00", "12.3", "999", "1.00 k", "411 k", "1.31 M", "32.0 G"]
        );
        assert_eq!(si(-1_310_849.0), "-1.31 M");
        assert_eq!(si(f64::INFINITY), "0");
    }

    #[test]
    fn a_share_is_shown_on_its_side_of_the_threshold() {
        let beside_80 = |share| percent_beside(share, 0.8);
        assert_eq!(
            [0.3, 0.796, 0.79996, 0.8, 0.804, 1.0].map(beside_80),
            ["30%", "79.6%", "79.996%", "80%", "80%", "100%"].map(str::to_owned)
        );
        assert_eq!(percent_beside(0.666, 0.667), "66.6%");
        assert_eq!(percent_beside(0.664, 0.663), "66.4%");
        assert_eq!([0.8, 0.667].map(threshold), ["80%", "66.7%"].map(str::to_owned));
    }

    #[test]
    fn a_duration_has_two_units() {
        assert_eq!(
            [3.4, 110.0, 7512.0].map(duration),
            ["3 s", "1 min 50 s", "2 h 5 min"].map(str::to_owned)
        );
    }
}
