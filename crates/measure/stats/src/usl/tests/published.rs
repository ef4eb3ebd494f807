//! The fit against published curves and the coefficients published with them.
//!
//! Data sets and coefficients of the R package `usl` by Stefan Möding (CRAN; its README, its
//! `tests/*.Rout.save` and vignette), and of Baron Schwartz's book "Practical Scalability
//! Analysis with the Universal Scalability Law", as in the tests of the crate `usl` by Coda Hale.
//! R's α, β and γ are σ, κ and λ here.

use crate::usl::least_squares::{self, Law};
use crate::usl::{Basis, FitOptions, Usl, fit};

/// Throughput of a Sun SPARCcenter 2000 in the SPEC SDM91 benchmark (R's `specsdm91`).
const SPECSDM91: [(u32, f64); 7] = [
    (1, 64.9),
    (18, 995.9),
    (36, 1652.4),
    (72, 1853.2),
    (108, 1828.9),
    (144, 1775.0),
    (216, 1702.2),
];

/// Throughput of a ray tracer by processors of an SGI Origin 2000 (R's `raytracer`).
const RAYTRACER: [(u32, f64); 11] = [
    (1, 20.0),
    (4, 78.0),
    (8, 130.0),
    (12, 170.0),
    (16, 190.0),
    (20, 200.0),
    (24, 210.0),
    (28, 230.0),
    (32, 260.0),
    (48, 280.0),
    (64, 310.0),
];

/// Schwartz's measurements of a Cisco server.
const CISCO: [f64; 32] = [
    955.16, 1878.91, 2688.01, 3548.68, 4315.54, 5130.43, 5931.37, 6531.08, 7219.8, 7867.61,
    8278.71, 8646.7, 9047.84, 9426.55, 9645.37, 9897.24, 10097.6, 10240.5, 10532.39, 10798.52,
    11151.43, 11518.63, 11806.0, 12089.37, 12075.41, 12177.29, 12211.41, 12158.93, 12155.27,
    12118.04, 12140.4, 12074.39,
];

fn coefficients(points: &[(u32, f64)]) -> Usl {
    let pairs: Vec<(f64, f64)> = points.iter().map(|&(n, x)| (f64::from(n), x)).collect();
    least_squares::fit(&pairs, Law::Universal)
}

/// Equal to all published digits.
#[track_caller]
fn same(found: f64, published: f64, last_digit: f64) {
    assert!((found - published).abs() <= last_digit * 0.51, "{found} is not {published}");
}

#[test]
fn specsdm91_has_the_coefficients_that_r_prints() {
    let model = coefficients(&SPECSDM91);
    same(model.sigma, 0.0277285, 1e-7);
    same(model.kappa, 0.0001044, 1e-7);
    same(model.lambda, 89.9952330, 1e-4);
    same(model.peak().unwrap(), 96.51956, 1e-3);
    same(model.throughput(model.peak().unwrap()), 1884.0, 1.0);
    same(model.lambda * model.speedup_limit().unwrap(), 3245.589, 0.05);
    let residuals = [-25.10, -81.66, 111.09, 3.05, -49.99, -46.60, 56.00];
    for (&(n, x), published) in SPECSDM91.iter().zip(residuals) {
        same(x - model.throughput(f64::from(n)), published, 0.01);
    }
}

#[test]
fn the_fit_of_specsdm91_has_the_quality_that_r_prints() {
    let rounds: Vec<(u32, Vec<f64>)> = SPECSDM91.iter().map(|&(n, x)| (n, vec![x])).collect();
    let fit = fit(&rounds, &FitOptions::default()).unwrap();
    assert!(!fit.is_amdahl);
    // R's residual standard error has the degrees of freedom in its divisor: 7 − 3.
    same(fit.rmse * (7.0_f64 / 4.0).sqrt(), 82.85, 0.01);
    assert_eq!((fit.is_prediction, fit.basis), (true, Basis::Residuals));
    let (low, high) = fit.peak.unwrap().interval.unwrap();
    assert!(70.0 < low && low < 96.5 && 96.5 < high && high < 140.0, "{low} {high}");
}

#[test]
fn raytracer_has_no_coherency_cost_and_follows_amdahls_law() {
    let model = coefficients(&RAYTRACER);
    assert_eq!(model.kappa, 0.0);
    same(model.sigma, 0.057771, 1e-6);
    same(model.lambda, 21.848843, 1e-6);
    let rounds: Vec<(u32, Vec<f64>)> = RAYTRACER.iter().map(|&(n, x)| (n, vec![x])).collect();
    let fit = fit(&rounds, &FitOptions::default()).unwrap();
    assert!(fit.is_amdahl && fit.peak.is_none());
    same(fit.model.sigma, 0.057771, 1e-6);
}

#[test]
fn the_first_points_of_raytracer_have_the_coefficients_of_the_package_tests() {
    let model = coefficients(&RAYTRACER[..6]);
    same(model.sigma, 0.02444, 1e-5);
    same(model.kappa, 0.00163, 1e-5);
    same(model.lambda, 20.85605, 1e-5);
    let of_five = coefficients(&RAYTRACER[..5]);
    same(of_five.sigma, 0.028, 1e-3);
    same(of_five.kappa, 0.001, 1e-3);
    same(of_five.lambda, 21.059, 1e-3);
}

/// Fractional loads, many of them below 1. The vignette gives the peak to two
/// digits; the coefficients are those of scipy's `least_squares` on the same data.
#[test]
fn oracledb_peaks_at_three_and_a_half_sessions() {
    let pairs: Vec<(f64, f64)> = include_str!("../../../tests/data/oracledb.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (load, rate) = line.split_once(' ').unwrap();
            (load.parse().unwrap(), rate.parse().unwrap())
        })
        .collect();
    assert_eq!(pairs.len(), 360);
    let model = least_squares::fit(&pairs, Law::Universal);
    same(model.peak().unwrap(), 3.5, 0.1);
    same(model.lambda, 3.3860784, 1e-5);
    same(model.sigma, 0.4413716, 1e-5);
    same(model.kappa, 0.0452983, 1e-5);
}

#[test]
fn the_cisco_server_has_the_coefficients_of_the_book() {
    let points: Vec<(u32, f64)> = (1..).zip(CISCO).collect();
    let model = coefficients(&points);
    same(model.sigma, 0.02671591, 1e-7);
    same(model.kappa, 7.690945e-4, 1e-8);
    same(model.lambda, 995.6486, 1e-2);
    same(model.throughput(35.0), 12341.7454, 0.1);
    assert_eq!(model.peak().unwrap().floor(), 35.0);
}

/// A curve made from σ = κ = 0.02 (the package's tests/coef.R).
#[test]
fn a_textbook_curve_gives_its_coefficients_back() {
    let curve = [(1, 1.0), (2, 1.8868), (4, 3.0769), (6, 3.5294), (8, 3.5398), (10, 3.3557)];
    let model = coefficients(&curve);
    same(model.sigma, 0.02, 1e-4);
    same(model.kappa, 0.02, 1e-4);
    same(model.lambda, 1.0, 1e-3);
}
