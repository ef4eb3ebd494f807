//! Numbers for people: three significant digits and a prefix.

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

/// An uncertainty: one decimal below ten per cent.
pub(crate) fn spread(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
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
    fn numbers_have_three_significant_digits() {
        let shown: Vec<String> =
            [0.0, 0.523, 7.0, 12.34, 999.4, 999.6, 410_671.0, 1_310_849.0, 3.2e10].map(si).to_vec();
        assert_eq!(
            shown,
            ["0", "0.52", "7.00", "12.3", "999", "1.00 k", "411 k", "1.31 M", "32.0 G"]
        );
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
