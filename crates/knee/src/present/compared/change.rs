//! A change as a percentage.

/// Formats a ratio as a change: `+12.3%`, `-4.50%`, or `12.3×` if it exceeds tenfold.
pub(crate) fn change(ratio: f64) -> String {
    // Not -0.00%.
    let percent = Some((ratio - 1.0) * 100.0).filter(|p| p.abs() >= 0.005).unwrap_or(0.0);
    match percent.abs() {
        _ if ratio >= 10.0 => format!("{ratio:.1}×"),
        p if p < 9.995 => format!("{percent:+.2}%"),
        _ => format!("{percent:+.1}%"),
    }
}
