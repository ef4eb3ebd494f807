//! Least-squares fit of the coefficients within their bounds.
//!
//! The Levenberg–Marquardt method, projected onto the bounds (C. Kanzow, N. Yamashita, M.
//! Fukushima, "Levenberg–Marquardt methods with strong local convergence properties for solving
//! nonlinear equations with convex constraints", 2004). A coefficient that is at a bound and would
//! leave it is held fixed while the others are solved for; if the error falls towards the inside,
//! it is free again in the next step. Clamping the unbounded solution instead would leave the other
//! coefficients at the optimum for a value that is not allowed.

use super::Usl;

/// Maximum number of steps; ten are usual.
const MAX_STEPS: usize = 500;
/// Squared error below this share of the squared data is a perfect fit.
const PERFECT: f64 = 1e-28;
/// Damping after the first step that fails, and the damping beyond which no step can improve the
/// fit.
const DAMPING: (f64, f64) = (1e-3, 1e15);
/// Lower bound of λ, as a share of the greatest throughput per task.
const LEAST_LAMBDA: f64 = 1e-9;
/// The start of R's `usl`, for data without a sensible linear solution.
const USUAL_SIGMA: f64 = 0.01;
const USUAL_KAPPA: f64 = 1e-4;

/// How the search begins and ends.
struct Search {
    /// Damping of the first step.
    damping: f64,
    /// The search ends at a step whose predicted reduction of the squared error is below this
    /// share.
    converged: f64,
}

/// From a distant start to full precision.
const SEARCH: Search = Search { damping: DAMPING.0, converged: 1e-15 };
/// From the coefficients of the measured curve to those of a resample. They are a few standard
/// errors apart, where the law is nearly linear: an undamped step is almost exact, and the second
/// or third step predicts no further reduction. A step that lowers the squared error by the share ε
/// moves the coefficients by about √(ε(points − 3)) of their standard errors: by a thousandth with
/// 50 points. The ends of an interval are order statistics of the resamples; with 2000 resamples,
/// their error is a twentieth of a standard error.
const REFINEMENT: Search = Search { damping: 1e-9, converged: 1e-8 };

type Three = [f64; 3];

/// The coefficients to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Law {
    /// λ, σ and κ.
    Universal,
    /// λ and σ; κ is 0.
    Amdahl,
}

/// The best coefficients for `points` of (tasks, throughput), from the better of two starts.
pub(super) fn fit(points: &[(f64, f64)], law: Law) -> Usl {
    let most = points.iter().map(|&(n, x)| x / n).fold(0.0, f64::max);
    let bounds = Bounds::of(law, most);
    let perfect = PERFECT * points.iter().map(|(_, x)| x * x).sum::<f64>();
    let starts = linear_start(points).into_iter().chain([[most, USUAL_SIGMA, USUAL_KAPPA]]);
    let (best, _) = starts
        .map(|start| bounds.clamp(start))
        .map(|p| descend(points, (p, Sums::at(points, &p)), &bounds, perfect, &SEARCH))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .expect("there is a start");
    model(best)
}

/// Fits resamples of a curve, from the coefficients of the curve itself on.
pub(super) struct Refitter {
    start: Three,
    bounds: Bounds,
    /// Throughput at each point and its slopes, at the start.
    tangent: Vec<(f64, Three)>,
    curvature: [Three; 3],
    perfect: f64,
}

impl Refitter {
    /// For resamples at the task counts of `points`, which differ by no more than measurement noise
    /// from the curve that `start` fits best.
    pub(super) fn new(points: &[(f64, f64)], law: Law, start: &Usl) -> Self {
        let bounds = Bounds::of(law, start.lambda);
        let start = bounds.clamp([start.lambda, start.sigma, start.kappa]);
        let tangent: Vec<(f64, Three)> = points.iter().map(|&(n, _)| predict(&start, n)).collect();
        let Sums { curvature, .. } = Sums::at(points, &start);
        let perfect = PERFECT * tangent.iter().map(|(x, _)| x * x).sum::<f64>();
        Self { start, bounds, tangent, curvature, perfect }
    }

    /// The best coefficients for `points`.
    pub(super) fn fit(&self, points: &[(f64, f64)]) -> Usl {
        let (mut error, mut gradient) = (0.0, [0.0; 3]);
        for (&(_, x), (predicted, slope)) in points.iter().zip(&self.tangent) {
            let residual = predicted - x;
            error += residual * residual;
            gradient = std::array::from_fn(|i| gradient[i] + slope[i] * residual);
        }
        let here = Sums { error, gradient, curvature: self.curvature };
        let found = descend(points, (self.start, here), &self.bounds, self.perfect, &REFINEMENT);
        model(found.0)
    }
}

fn model([lambda, sigma, kappa]: Three) -> Usl {
    Usl { lambda, sigma, kappa }
}

struct Bounds {
    lower: Three,
    upper: Three,
}

impl Bounds {
    fn of(law: Law, per_task: f64) -> Self {
        let kappa = if law == Law::Universal { f64::INFINITY } else { 0.0 };
        Self { lower: [per_task * LEAST_LAMBDA, 0.0, 0.0], upper: [f64::INFINITY, 1.0, kappa] }
    }

    fn clamp(&self, p: Three) -> Three {
        std::array::from_fn(|i| p[i].clamp(self.lower[i], self.upper[i]))
    }

    /// Whether coefficient `i` may move against its gradient.
    fn is_free(&self, i: usize, value: f64, gradient: f64) -> bool {
        let pushed_out = (value <= self.lower[i] && gradient >= 0.0)
            || (value >= self.upper[i] && gradient <= 0.0);
        !pushed_out
    }
}

/// Solves n/X = 1/λ + (σ/λ)(n − 1) + (κ/λ)n(n − 1), which is linear. An error of X appears in n/X
/// multiplied by n/X², for which the weights compensate.
fn linear_start(points: &[(f64, f64)]) -> Option<Three> {
    let (mut normal, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for &(n, x) in points.iter().filter(|(_, x)| *x > 0.0) {
        let row = [1.0, n - 1.0, n * (n - 1.0)];
        let weight = (x * x / n).powi(2);
        for i in 0..3 {
            right[i] += weight * row[i] * n / x;
            for j in 0..3 {
                normal[i][j] += weight * row[i] * row[j];
            }
        }
    }
    let [a, b, c] = solve(normal, right)?;
    (a > 0.0).then(|| [1.0 / a, b / a, c / a])
}

/// Throughput at `n` tasks, and its derivatives with respect to the coefficients.
fn predict(&[lambda, sigma, kappa]: &Three, n: f64) -> (f64, Three) {
    let others = n - 1.0;
    let efficiency = 1.0 / (1.0 + others * (sigma + kappa * n));
    let by_lambda = n * efficiency;
    let predicted = lambda * by_lambda;
    // ∂X/∂σ = −X²(n − 1)/(λn), and the same with another factor n for κ.
    let by_sigma = -predicted * efficiency * others;
    (predicted, [by_lambda, by_sigma, by_sigma * n])
}

/// The sums for a step at some coefficients, from one pass over the points: of the residuals
/// r = X(n) − x and their slopes J.
struct Sums {
    /// rᵀr.
    error: f64,
    /// Jᵀr.
    gradient: Three,
    /// JᵀJ.
    curvature: [Three; 3],
}

impl Sums {
    fn at(points: &[(f64, f64)], p: &Three) -> Self {
        let mut error = 0.0;
        let [mut g0, mut g1, mut g2] = [0.0; 3];
        let [mut c00, mut c01, mut c02, mut c11, mut c12, mut c22] = [0.0; 6];
        for &(n, x) in points {
            let (predicted, [by_lambda, by_sigma, by_kappa]) = predict(p, n);
            let residual = predicted - x;
            error += residual * residual;
            g0 += by_lambda * residual;
            g1 += by_sigma * residual;
            g2 += by_kappa * residual;
            c00 += by_lambda * by_lambda;
            c01 += by_lambda * by_sigma;
            c02 += by_lambda * by_kappa;
            c11 += by_sigma * by_sigma;
            c12 += by_sigma * by_kappa;
            c22 += by_kappa * by_kappa;
        }
        let curvature = [[c00, c01, c02], [c01, c11, c12], [c02, c12, c22]];
        Self { error, gradient: [g0, g1, g2], curvature }
    }
}

/// Descends from the given coefficients and returns the best ones with their squared error.
fn descend(
    points: &[(f64, f64)],
    (mut p, mut here): (Three, Sums),
    bounds: &Bounds,
    perfect: f64,
    search: &Search,
) -> (Three, f64) {
    let mut damping = search.damping;
    for _ in 0..MAX_STEPS {
        if here.error <= perfect {
            break;
        }
        let better = loop {
            if damping > DAMPING.1 {
                break None;
            }
            if let Some(trial) = damped_step(&p, &here, bounds, damping) {
                let promised: f64 = (0..3).map(|i| here.gradient[i] * (p[i] - trial[i])).sum();
                if promised <= search.converged * here.error {
                    break None;
                }
                let there = Sums::at(points, &trial);
                if there.error < here.error {
                    break Some((trial, there));
                }
            }
            damping = (damping * 10.0).max(DAMPING.0);
        };
        let Some(found) = better else { break };
        (p, here) = found;
        damping /= 10.0;
    }
    (p, here.error)
}

/// `p` + δ within the bounds, from (JᵀJ + damping·diag(JᵀJ)) δ = −Jᵀr. A coefficient that would
/// leave the bounds is fixed at its bound, and the others are solved for again.
fn damped_step(p: &Three, sums: &Sums, bounds: &Bounds, damping: f64) -> Option<Three> {
    let mut given: [Option<f64>; 3] = std::array::from_fn(|i| {
        let moves = bounds.is_free(i, p[i], sums.gradient[i]) && sums.curvature[i][i] != 0.0;
        (!moves).then_some(0.0)
    });
    loop {
        let mut matrix = [[0.0; 3]; 3];
        let mut right = [0.0; 3];
        for i in 0..3 {
            if let Some(step) = given[i] {
                (matrix[i][i], right[i]) = (1.0, step);
                continue;
            }
            right[i] = -sums.gradient[i];
            for j in 0..3 {
                match given[j] {
                    Some(step) => right[i] -= sums.curvature[i][j] * step,
                    None => matrix[i][j] = sums.curvature[i][j],
                }
            }
            matrix[i][i] *= 1.0 + damping;
        }
        let step = solve(matrix, right)?;
        let trial: Three = std::array::from_fn(|i| p[i] + step[i]);
        let within = bounds.clamp(trial);
        let leaving: [bool; 3] =
            std::array::from_fn(|i| given[i].is_none() && within[i] != trial[i]);
        if !leaving.contains(&true) {
            return Some(within);
        }
        for i in (0..3).filter(|&i| leaving[i]) {
            given[i] = Some(within[i] - p[i]);
        }
    }
}

/// Gaussian elimination of a symmetric positive definite matrix, scaled to a unit diagonal first
/// because λ can be 10⁹ and κ 10⁻⁹. `None` if the matrix is singular.
fn solve(matrix: [Three; 3], right: Three) -> Option<Three> {
    let scale: Three = std::array::from_fn(|i| 1.0 / matrix[i][i].sqrt());
    if scale.iter().any(|s| !s.is_normal()) {
        return None;
    }
    let mut m: [Three; 3] =
        std::array::from_fn(|i| std::array::from_fn(|j| matrix[i][j] * scale[i] * scale[j]));
    let mut r: Three = std::array::from_fn(|i| right[i] * scale[i]);
    for column in 0..3 {
        if m[column][column] <= f64::EPSILON {
            return None;
        }
        for row in column + 1..3 {
            let factor = m[row][column] / m[column][column];
            let pivot = m[column];
            for (value, above) in m[row].iter_mut().zip(pivot).skip(column) {
                *value -= factor * above;
            }
            r[row] -= factor * r[column];
        }
    }
    for row in (0..3).rev() {
        for k in row + 1..3 {
            r[row] -= m[row][k] * r[k];
        }
        r[row] /= m[row][row];
    }
    let solution: Three = std::array::from_fn(|i| r[i] * scale[i]);
    solution.iter().all(|s| s.is_finite()).then_some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(model: Usl, tasks: &[f64]) -> Vec<(f64, f64)> {
        tasks.iter().map(|&n| (n, model.throughput(n))).collect()
    }

    const TASKS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    #[test]
    fn the_bound_of_kappa_moves_sigma_to_its_best_value_there() {
        // More than linear at the end: the unbounded optimum has κ < 0.
        let mut points = curve(Usl { lambda: 10.0, sigma: 0.05, kappa: 0.0 }, &TASKS);
        points[7].1 *= 1.4;
        let bounded = fit(&points, Law::Universal);
        let amdahl = fit(&points, Law::Amdahl);
        assert_eq!(bounded.kappa, 0.0);
        assert!((bounded.sigma / amdahl.sigma - 1.0).abs() < 1e-6, "{bounded:?} {amdahl:?}");
    }

    #[test]
    fn a_superlinear_curve_is_fitted_at_both_bounds() {
        let points: Vec<_> = TASKS.iter().map(|&n| (n, n.powf(1.2))).collect();
        let model = fit(&points, Law::Universal);
        assert_eq!((model.sigma, model.kappa), (0.0, 0.0));
        // With σ = κ = 0 the best λ is that of a line through the origin.
        let line = points.iter().map(|(n, x)| n * x).sum::<f64>()
            / points.iter().map(|(n, _)| n * n).sum::<f64>();
        assert!((model.lambda / line - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_collapsing_curve_keeps_sigma_at_most_one() {
        let points: Vec<_> = TASKS.iter().map(|&n| (n, 100.0 / n)).collect();
        let model = fit(&points, Law::Universal);
        assert!(model.sigma <= 1.0 && model.kappa > 0.0, "{model:?}");
        assert!((model.throughput(1.0) / 100.0 - 1.0).abs() < 0.1, "{model:?}");
    }

    proptest! {
        #[test]
        fn an_exact_curve_gives_its_coefficients_back(
            lambda in 1e-3..1e9, sigma in 0.0..0.9, kappa in 0.0..0.05
        ) {
            let model = Usl { lambda, sigma, kappa };
            let found = fit(&curve(model, &TASKS), Law::Universal);
            prop_assert!((found.lambda / lambda - 1.0).abs() < 1e-6, "{found:?}");
            prop_assert!((found.sigma - sigma).abs() < 1e-6, "{found:?}");
            prop_assert!((found.kappa - kappa).abs() < 1e-6, "{found:?}");
        }

        #[test]
        fn a_resample_is_fitted_as_well_from_a_near_start_as_from_a_distant_one(
            noise in prop::collection::vec(0.9..1.1, TASKS.len()), sigma in 0.0..0.5, kappa in 0.0..0.01
        ) {
            let model = Usl { lambda: 100.0, sigma, kappa };
            let mut points = curve(model, &TASKS);
            for (point, factor) in points.iter_mut().zip(noise) {
                point.1 *= factor;
            }
            for law in [Law::Universal, Law::Amdahl] {
                let start = fit(&curve(model, &TASKS), law);
                let near = Refitter::new(&points, law, &start).fit(&points);
                let error = |m: Usl| Sums::at(&points, &[m.lambda, m.sigma, m.kappa]).error;
                let (best, found) = (error(fit(&points, law)), error(near));
                prop_assert!(found <= best * (1.0 + 1e-5), "{law:?}: {near:?}: {found} {best}");
            }
        }

        #[test]
        fn no_step_within_the_bounds_is_better(
            noise in prop::collection::vec(0.7..1.3, TASKS.len()), sigma in 0.0..0.5, kappa in 0.0..0.01
        ) {
            let mut points = curve(Usl { lambda: 100.0, sigma, kappa }, &TASKS);
            for (point, factor) in points.iter_mut().zip(noise) {
                point.1 *= factor;
            }
            let found = fit(&points, Law::Universal);
            let error = |p| Sums::at(&points, &p).error;
            let best = error([found.lambda, found.sigma, found.kappa]);
            for (i, j) in [(1.001, 0.0), (0.999, 0.0), (1.0, 1e-4), (1.0, -1e-4)] {
                for k in [-1e-5, 0.0, 1e-5] {
                    let near = [
                        found.lambda * i,
                        (found.sigma + j).clamp(0.0, 1.0),
                        (found.kappa + k).max(0.0),
                    ];
                    prop_assert!(error(near) >= best * (1.0 - 1e-9), "{found:?}");
                }
            }
        }
    }
}
