//! Student's t-test of two data sets with pooled variance.

use std::str::FromStr;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::DataSet;

/// The confidence that a difference is not due to chance: one of the levels in ministat's table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence {
    percent: f64,
}

/// The levels of confidence in per cent.
const LEVELS: [f64; 6] = [80.0, 90.0, 95.0, 98.0, 99.0, 99.5];

/// Quantiles for 99.8% in ministat's table that are not correctly rounded, by degrees of freedom.
const MISPRINTS: [(usize, f64); 7] =
    [(1, 318.313), (7, 4.782), (8, 4.499), (9, 4.296), (10, 4.143), (11, 4.024), (12, 3.929)];

impl Confidence {
    /// In per cent.
    pub fn percent(self) -> f64 {
        self.percent
    }

    /// The two-sided quantile of Student's t for this many degrees of freedom.
    fn t(self, degrees_of_freedom: usize, quantiles: Quantiles) -> f64 {
        match quantiles {
            Quantiles::Exact => student(degrees_of_freedom, self.percent),
            Quantiles::Ministat => tabulated(degrees_of_freedom, self.percent),
        }
    }
}

fn student(degrees_of_freedom: usize, percent: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees_of_freedom as f64)
        .expect("two data sets have degrees of freedom")
        .inverse_cdf(0.5 + percent / 200.0)
}

/// The number in ministat's table, which has three decimals. Beyond 100 degrees of freedom, it
/// holds quantiles of the normal distribution. Its column for 99.5% is that of 99.8%.
fn tabulated(degrees_of_freedom: usize, percent: f64) -> f64 {
    let percent = if percent == 99.5 { 99.8 } else { percent };
    let misprint = MISPRINTS.iter().find(|(degrees, _)| *degrees == degrees_of_freedom);
    if let Some((_, printed)) = misprint.filter(|_| percent == 99.8) {
        return *printed;
    }
    let exact = match degrees_of_freedom {
        ..=100 => student(degrees_of_freedom, percent),
        _ => Normal::standard().inverse_cdf(0.5 + percent / 200.0),
    };
    (exact * 1e3).round() / 1e3
}

/// The source of the quantiles of Student's t.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantiles {
    /// The distribution.
    Exact,
    /// ministat's table, which has three decimals, ends at 100 degrees of freedom, and has the
    /// quantiles of 99.8% in its column for 99.5%.
    Ministat,
}

/// A confidence that is not in ministat's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the confidence must be 80, 90, 95, 98, 99 or 99.5%")]
pub struct UnknownConfidence;

impl Default for Confidence {
    /// 95%.
    fn default() -> Self {
        Self { percent: 95.0 }
    }
}

impl FromStr for Confidence {
    type Err = UnknownConfidence;

    /// `95`, `95.0`, `95%`.
    fn from_str(text: &str) -> Result<Self, UnknownConfidence> {
        let level = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
        let level = level.map_err(|_| UnknownConfidence)?;
        LEVELS.contains(&level).then_some(Self { percent: level }).ok_or(UnknownConfidence)
    }
}

/// The difference between the means of a data set and a reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Mean of the set minus mean of the reference.
    pub difference: f64,
    /// Half the width of the confidence interval of the difference.
    pub half_width: f64,
    /// Mean of the reference.
    pub reference: f64,
    /// Pooled standard deviation of both.
    pub pooled: f64,
}

impl Comparison {
    /// Compares `set` with `reference`.
    pub fn new(
        set: &DataSet,
        reference: &DataSet,
        confidence: Confidence,
        quantiles: Quantiles,
    ) -> Self {
        let (n, m) = (set.n() as f64, reference.n() as f64);
        let degrees_of_freedom = set.n() + reference.n() - 2;
        let squares = (n - 1.0) * set.variance() + (m - 1.0) * reference.variance();
        let pooled = (squares / degrees_of_freedom as f64).sqrt();
        let error = pooled * (1.0 / n + 1.0 / m).sqrt();
        Self {
            difference: set.mean() - reference.mean(),
            half_width: confidence.t(degrees_of_freedom, quantiles) * error,
            reference: reference.mean(),
            pooled,
        }
    }

    /// Whether the interval excludes zero; false if the interval is NaN.
    pub fn is_proven(&self) -> bool {
        self.difference.abs() > self.half_width
    }

    /// The difference and the half width of its interval, in per cent of the reference.
    pub fn percent(&self) -> (f64, f64) {
        (self.difference * 100.0 / self.reference, self.half_width * 100.0 / self.reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_quantiles_are_those_of_ministats_table() {
        let table = include_str!("../../tests/data/ministat_quantiles.txt");
        let rows = table.lines().filter(|line| !line.starts_with('#'));
        for (degrees, row) in (1..).zip(rows) {
            for (percent, printed) in LEVELS.into_iter().zip(row.split(' ')) {
                let t = Confidence { percent }.t(degrees, Quantiles::Ministat);
                assert_eq!(t, printed.parse::<f64>().unwrap(), "{degrees} {percent}");
            }
        }
    }

    /// Quantiles of Student's t as R's qt() computes them.
    #[test]
    fn exact_quantiles_are_those_of_the_requested_confidence() {
        for (level, degrees, expected) in
            [("95", 10, 2.228_138_852), ("99.5", 10, 3.581_406_202), ("95", 500, 1.964_719_837)]
        {
            let t = level.parse::<Confidence>().unwrap().t(degrees, Quantiles::Exact);
            assert!((t - expected).abs() < 1e-8, "{level} {degrees}: {t}");
        }
    }

    #[test]
    fn a_confidence_is_one_of_six() {
        for (text, percent) in [("95", 95.0), ("99.50", 99.5), ("80%", 80.0), ("9e1", 90.0)] {
            assert_eq!(text.parse::<Confidence>().unwrap().percent(), percent);
        }
        for text in ["", "94", "nan", "%", "95 "] {
            assert_eq!(text.parse::<Confidence>(), Err(UnknownConfidence), "{text:?}");
        }
    }

    /// The example of ministat's manual page.
    #[test]
    fn iguanas_and_chameleons_differ_at_eighty_per_cent() {
        let iguana = DataSet::new(&[50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0]).unwrap();
        let chameleon = DataSet::new(&[150.0, 400.0, 720.0, 500.0, 930.0]).unwrap();
        let compared = |level: &str| {
            Comparison::new(&chameleon, &iguana, level.parse().unwrap(), Quantiles::Ministat)
        };
        assert!(!compared("95").is_proven());
        let at_eighty = compared("80");
        assert!(at_eighty.is_proven());
        assert!((at_eighty.half_width - 212.215).abs() < 1e-3);
        assert!((at_eighty.percent().1 - 70.7384).abs() < 1e-4);
        assert!((at_eighty.pooled - 264.159).abs() < 1e-3);
    }
}
