//! The fit of the Universal Scalability Law for every curve, or the reason why there is none.

use knee_host::number::plural;
use knee_report::{Curve, Estimate, Fit};
use knee_stats::usl::{self, FitOptions, Worth, fit_all};

pub(super) fn add(curves: &mut [Curve]) {
    let rounds: Vec<Vec<(u32, Vec<f64>)>> =
        curves.iter().map(|curve| curve.measured.rounds()).collect();
    for (curve, fit) in curves.iter_mut().zip(fit_all(&rounds, &FitOptions::default())) {
        curve.fit = fit.map(|fit| shown(&fit)).map_err(|unfit| unfit.to_string());
    }
}

fn shown(fit: &usl::Fit) -> Fit {
    let is_prediction = fit.worth == Worth::Prediction;
    let note = match is_prediction {
        true => String::new(),
        false => format!("{}: not a prediction", plural(fit.residuals.len(), "point")),
    };
    Fit {
        lambda: estimate(&fit.lambda),
        sigma: estimate(&fit.sigma),
        // The page then draws Amdahl's law; the interval shows how large κ might still be.
        kappa: match fit.is_amdahl {
            true => Estimate { value: 0.0, ..estimate(&fit.kappa) },
            false => estimate(&fit.kappa),
        },
        r2: fit.r_squared,
        peak: fit.peak.as_ref().map(estimate),
        is_prediction,
        note,
    }
}

fn estimate(estimate: &usl::Estimate) -> Estimate {
    Estimate { value: estimate.value, interval: estimate.interval }
}
