//! Numbers in tables.

/// Three digits, as people read them.
pub(crate) fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Nanoseconds in the unit that suits them.
pub(crate) fn time(nanoseconds: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    match units.into_iter().find(|(size, _)| nanoseconds.abs() >= *size) {
        Some((size, unit)) => format!("{} {unit}", three_digits(nanoseconds / size)),
        None => format!("{} ns", three_digits(nanoseconds)),
    }
}

/// Thousands as `k`, and so on.
pub(crate) fn si(value: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(size, _)| value.abs() >= *size) {
        Some((size, unit)) => format!("{} {unit}", three_digits(value / size)),
        None => three_digits(value),
    }
}
