//! Numbers for people: three significant digits and a prefix.

/// What a product of a share and a hundred may be off by.
const ROUNDING: f64 = 1e-9;
const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];

/// `411 k`, `1.31 M`, `0.52`: a rate or a number of bytes per second.
pub(crate) fn si(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let mut scaled = value;
    let mut prefix = 0;
    // Up to 999.5 is printed as 999 at most; beyond it would round to four digits.
    while scaled.abs() >= 999.5 && prefix + 1 < PREFIXES.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    let decimals = match scaled.abs() {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$} {}", PREFIXES[prefix]).trim_end().to_owned()
}

/// A share as whole per cent: `97%`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A threshold as it was typed: `80%`, `66.7%`.
pub(crate) fn threshold(share: f64) -> String {
    format!("{}%", (share * 1e5).round() / 1e3)
}

/// A share with as many decimals as it takes to be on its side of a threshold: `79.6%`, not `80%`,
/// where it is below 80 %.
pub(crate) fn percent_beside(share: f64, threshold: f64) -> String {
    const MOST_DECIMALS: usize = 3;
    let rounded = |decimals: usize| format!("{:.decimals$}", share * 100.0);
    let on_its_side = |text: &String| {
        let shown = text.parse::<f64>().unwrap_or(f64::NAN);
        (shown + ROUNDING < threshold * 100.0) == (share < threshold)
    };
    let text = (0..MOST_DECIMALS).map(rounded).find(on_its_side);
    format!("{}%", text.unwrap_or_else(|| rounded(MOST_DECIMALS)))
}

/// `1 task`, `2 tasks`.
pub(crate) fn tasks(n: u32) -> String {
    if n == 1 { "1 task".to_owned() } else { format!("{n} tasks") }
}

/// An uncertainty: one decimal below ten per cent.
pub(crate) fn spread(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// `1 point`, `2 points`.
pub(crate) fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Seconds as a person says them: `12 s`, `1 min 50 s`, `2 h 5 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let s = seconds.max(0.0).round() as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// A time with three digits: `1.23 s`, `45.6 ms`, `789 µs`.
pub(crate) fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 0.999_5e-6 => (s * 1e9, "ns"),
        s if s < 0.999_5e-3 => (s * 1e6, "µs"),
        s if s < 0.999_5 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let decimals = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// A curve in as many characters as it has points, from zero to its greatest value.
pub(crate) fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let greatest = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: f64| {
        let level = if greatest > 0.0 { value / greatest * 8.0 } else { 0.0 };
        BARS[(level.ceil() as usize).clamp(1, 8) - 1]
    };
    values.iter().map(|&value| bar(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let shown = [0.0123456, 1.0, 0.9999, 75.25, 120.4, 4.2e-5].map(time);
        assert_eq!(shown, ["12.3 ms", "1.00 s", "1.00 s", "75.2 s", "120 s", "42.0 µs"]);
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown: Vec<String> =
            [0.0, 0.523, 7.0, 12.34, 999.4, 999.6, 410_671.0, 1_310_849.0, 3.2e10].map(si).to_vec();
        assert_eq!(
            shown,
            ["0", "0.52", "7.00", "12.3", "999", "1.00 k", "411 k", "1.31 M", "32.0 G"]
        );
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
    fn a_sparkline_starts_at_zero() {
        assert_eq!(sparkline(&[1.0, 2.0, 4.0, 8.0]), "▁▂▄█");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
    }

    #[test]
    fn durations_are_said_in_two_units() {
        assert_eq!(
            [3.4, 110.0, 7512.0].map(duration),
            ["3 s", "1 min 50 s", "2 h 5 min"].map(str::to_owned)
        );
    }
}
