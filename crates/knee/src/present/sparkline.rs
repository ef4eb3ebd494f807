//! Curves drawn in one line of text.

/// A curve with one character per point, scaled from zero to its maximum.
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
    fn a_sparkline_is_scaled_from_zero() {
        assert_eq!(sparkline(&[1.0, 2.0, 4.0, 8.0]), "▁▂▄█");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
    }
}
