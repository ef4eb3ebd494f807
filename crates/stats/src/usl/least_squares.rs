//! The coefficients of least squared error within their bounds.
//!
//! Levenberg and Marquardt's method, projected onto the bounds (C. Kanzow, N. Yamashita,
//! M. Fukushima, "Levenberg–Marquardt methods with strong local convergence properties for
//! solving nonlinear equations with convex constraints", 2004). A coefficient that sits at a
//! bound and would leave it is held fixed while the others are solved for; one whose error would
//! fall inside the bounds is free again in the next step. Clamping the unbounded solution
//! instead would leave the others where they were best for a value that is not allowed.

use super::Usl;

/// Steps before giving up improving; ten are usual.
const MAX_STEPS: usize = 500;
/// A step that lowers the squared error by less than this share ends the search.
const CONVERGED: f64 = 1e-15;
/// Squared error below this share of the squared data is a perfect fit.
const PERFECT: f64 = 1e-28;
/// Damping at the start, and beyond which no smaller step can improve anything.
const DAMPING: (f64, f64) = (1e-3, 1e15);
/// λ has to be above 0; as a share of the greatest throughput per task.
const LEAST_LAMBDA: f64 = 1e-9;
/// Where R's `usl` starts, for data whose linear solution makes no sense.
const USUAL_SIGMA: f64 = 0.01;
const USUAL_KAPPA: f64 = 1e-4;

type Three = [f64; 3];

/// Which coefficients there are to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Law {
    /// λ, σ and κ.
    Universal,
    /// λ and σ; κ is 0.
    Amdahl,
}

/// The best coefficients for `points` of (tasks, throughput), from the better of two starts, or
/// from `start` when the neighbourhood is known.
pub(super) fn fit(points: &[(f64, f64)], law: Law, start: Option<Usl>) -> Usl {
    let most = points.iter().map(|&(n, x)| x / n).fold(0.0, f64::max);
    let upper = [f64::INFINITY, 1.0, if law == Law::Universal { f64::INFINITY } else { 0.0 }];
    let bounds = Bounds { lower: [most * LEAST_LAMBDA, 0.0, 0.0], upper };
    let starts = match start {
        Some(model) => vec![[model.lambda, model.sigma, model.kappa]],
        None => {
            linear_start(points).into_iter().chain([[most, USUAL_SIGMA, USUAL_KAPPA]]).collect()
        }
    };
    let [lambda, sigma, kappa] = starts
        .into_iter()
        .map(|start| descend(points, bounds.clamp(start), &bounds))
        .min_by(|a, b| squared_error(points, a).total_cmp(&squared_error(points, b)))
        .expect("there is a start");
    Usl { lambda, sigma, kappa }
}

struct Bounds {
    lower: Three,
    upper: Three,
}

impl Bounds {
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

/// n/X = 1/λ + (σ/λ)(n − 1) + (κ/λ)n(n − 1) is linear. An error of X appears in n/X multiplied
/// by n/X², which the weights undo.
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

fn predict(p: &Three, n: f64) -> f64 {
    Usl { lambda: p[0], sigma: p[1], kappa: p[2] }.throughput(n)
}

fn squared_error(points: &[(f64, f64)], p: &Three) -> f64 {
    points.iter().map(|&(n, x)| (predict(p, n) - x).powi(2)).sum()
}

fn descend(points: &[(f64, f64)], mut p: Three, bounds: &Bounds) -> Three {
    let scale: f64 = points.iter().map(|(_, x)| x * x).sum();
    let mut error = squared_error(points, &p);
    let (mut damping, most_damping) = DAMPING;
    for _ in 0..MAX_STEPS {
        if error <= PERFECT * scale {
            break;
        }
        let (curvature, gradient) = normal_equations(points, &p);
        let free: [bool; 3] = std::array::from_fn(|i| bounds.is_free(i, p[i], gradient[i]));
        let before = error;
        while damping <= most_damping {
            let step = damped_step(&curvature, &gradient, &free, damping);
            let trial = step.map(|s| bounds.clamp(std::array::from_fn(|i| p[i] + s[i])));
            let trial_error = trial.map_or(f64::INFINITY, |t| squared_error(points, &t));
            if let Some(trial) = trial.filter(|_| trial_error < error) {
                (p, error) = (trial, trial_error);
                damping /= 10.0;
                break;
            }
            damping *= 10.0;
        }
        if before - error <= CONVERGED * before {
            break;
        }
    }
    p
}

/// JᵀJ and Jᵀr of the residuals r = X(n) − x.
fn normal_equations(points: &[(f64, f64)], p: &Three) -> ([Three; 3], Three) {
    let (mut curvature, mut gradient) = ([[0.0; 3]; 3], [0.0; 3]);
    for &(n, x) in points {
        let predicted = predict(p, n);
        // ∂X/∂σ = −X²(n − 1)/(λn), and the same with another factor n for κ.
        let by_sigma = -predicted * predicted * (n - 1.0) / (p[0] * n);
        let slope = [predicted / p[0], by_sigma, by_sigma * n];
        for i in 0..3 {
            gradient[i] += slope[i] * (predicted - x);
            for j in 0..3 {
                curvature[i][j] += slope[i] * slope[j];
            }
        }
    }
    (curvature, gradient)
}

/// Solves (JᵀJ + damping·diag(JᵀJ)) δ = −Jᵀr for the free coefficients; the others stay.
fn damped_step(
    curvature: &[Three; 3],
    gradient: &Three,
    free: &[bool; 3],
    damping: f64,
) -> Option<Three> {
    let mut matrix = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    for i in 0..3 {
        if !free[i] || curvature[i][i] == 0.0 {
            matrix[i][i] = 1.0;
            continue;
        }
        for j in (0..3).filter(|&j| free[j]) {
            matrix[i][j] = curvature[i][j];
        }
        matrix[i][i] *= 1.0 + damping;
        right[i] = -gradient[i];
    }
    solve(matrix, right)
}

/// Gauss's elimination of a symmetric positive matrix, scaled to ones on the diagonal first:
/// λ may be 10⁹ and κ 10⁻⁹. `None` when it is singular.
fn solve(matrix: [Three; 3], right: Three) -> Option<Three> {
    let scale: Three = std::array::from_fn(|i| matrix[i][i].sqrt());
    if scale.iter().any(|s| !s.is_normal()) {
        return None;
    }
    let mut m: [Three; 3] =
        std::array::from_fn(|i| std::array::from_fn(|j| matrix[i][j] / scale[i] / scale[j]));
    let mut r: Three = std::array::from_fn(|i| right[i] / scale[i]);
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
    let solution: Three = std::array::from_fn(|i| r[i] / scale[i]);
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
        let bounded = fit(&points, Law::Universal, None);
        let amdahl = fit(&points, Law::Amdahl, None);
        assert_eq!(bounded.kappa, 0.0);
        assert!((bounded.sigma / amdahl.sigma - 1.0).abs() < 1e-6, "{bounded:?} {amdahl:?}");
    }

    #[test]
    fn a_superlinear_curve_is_fitted_at_both_bounds() {
        let points: Vec<_> = TASKS.iter().map(|&n| (n, n.powf(1.2))).collect();
        let model = fit(&points, Law::Universal, None);
        assert_eq!((model.sigma, model.kappa), (0.0, 0.0));
        // With σ = κ = 0 the best λ is that of a line through the origin.
        let line = points.iter().map(|(n, x)| n * x).sum::<f64>()
            / points.iter().map(|(n, _)| n * n).sum::<f64>();
        assert!((model.lambda / line - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_collapsing_curve_keeps_sigma_at_most_one() {
        let points: Vec<_> = TASKS.iter().map(|&n| (n, 100.0 / n)).collect();
        let model = fit(&points, Law::Universal, None);
        assert!(model.sigma <= 1.0 && model.kappa > 0.0, "{model:?}");
        assert!((model.throughput(1.0) / 100.0 - 1.0).abs() < 0.1, "{model:?}");
    }

    proptest! {
        #[test]
        fn an_exact_curve_gives_its_coefficients_back(
            lambda in 1e-3..1e9, sigma in 0.0..0.9, kappa in 0.0..0.05
        ) {
            let model = Usl { lambda, sigma, kappa };
            let found = fit(&curve(model, &TASKS), Law::Universal, None);
            prop_assert!((found.lambda / lambda - 1.0).abs() < 1e-6, "{found:?}");
            prop_assert!((found.sigma - sigma).abs() < 1e-6, "{found:?}");
            prop_assert!((found.kappa - kappa).abs() < 1e-6, "{found:?}");
        }

        #[test]
        fn no_step_within_the_bounds_is_better(
            noise in prop::collection::vec(0.7..1.3, TASKS.len()), sigma in 0.0..0.5, kappa in 0.0..0.01
        ) {
            let mut points = curve(Usl { lambda: 100.0, sigma, kappa }, &TASKS);
            for (point, factor) in points.iter_mut().zip(noise) {
                point.1 *= factor;
            }
            let found = fit(&points, Law::Universal, None);
            let best = squared_error(&points, &[found.lambda, found.sigma, found.kappa]);
            for (i, j) in [(1.001, 0.0), (0.999, 0.0), (1.0, 1e-4), (1.0, -1e-4)] {
                for k in [-1e-5, 0.0, 1e-5] {
                    let near = [
                        found.lambda * i,
                        (found.sigma + j).clamp(0.0, 1.0),
                        (found.kappa + k).max(0.0),
                    ];
                    prop_assert!(squared_error(&points, &near) >= best * (1.0 - 1e-9), "{found:?}");
                }
            }
        }
    }
}
