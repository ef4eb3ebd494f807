//! Simulates what was traced.

use knee_host::{Interrupt, number};
use knee_predict::Machine;
use knee_predict::simulate::{Plan, Point, Range, Simulator, Workload};
use knee_predict::trace::{Trace, Traced};
use knee_results::CaseId;
use knee_results::prediction::{self, Alone, Prediction};

use super::alone::{self, Given};
use super::change::Changes;
use super::outcome::{Simulated, curves};
use crate::exit::usage;
use crate::progress::{Amount, Progress};

/// Factor of the time of an iteration for kernels other than the first one. Their instructions are
/// counted, but may take longer or shorter on average. The rates of other programs are measured, but
/// independently of that of the first one.
const OTHER_KERNEL: Range = Range::new(0.85, 1.15);

/// What to predict for each trace.
pub(super) struct Request<'a> {
    pub(super) machine: &'a Machine,
    pub(super) tasks: &'a [u32],
    pub(super) changes: Changes<'a>,
    /// The rates of one task with the first kernel or program that the user gave.
    pub(super) at: &'a [Given],
}

/// The predictions for each testcase, or the signal that interrupted them.
pub(super) fn predict(
    traces: &[Trace],
    request: &Request<'_>,
    interrupt: &Interrupt,
) -> anyhow::Result<Result<Vec<Prediction>, i32>> {
    let recorded: Vec<Workload> = traces.iter().map(|trace| trace.workload.clone()).collect();
    let changed = request.changes.apply(recorded)?;
    let testcases = testcases(traces);
    let names: Vec<&str> = testcases.iter().map(|of| traces[of[0]].testcase.as_str()).collect();
    let given = alone::rates(request.at, &names)?;
    let mut progress = Progress::new(false);
    let of = (traces.len() * request.tasks.len()) as u64;
    let mut done = 0;
    let mut predictions = Vec::new();
    for (numbers, given) in testcases.into_iter().zip(given) {
        let first = &traces[numbers[0]];
        let given = given.map(|rate| Alone { rate, measured_on: None });
        let Some(alone) = given.or_else(|| first.alone.clone()) else {
            return Err(usage(format!(
                "the trace of {} lacks the rate of one task; give it with --at",
                first.testcase
            )));
        };
        let mut simulated: Vec<Simulated> = Vec::new();
        for number in numbers {
            let trace = &traces[number];
            let iterations = f64::from(trace.iterations);
            // A rate that was given may be that of another machine.
            let is_comparable = !simulated.is_empty() && alone.measured_on.is_some();
            let own = own_rate(trace).filter(|own| is_comparable && own.measured_on.is_some());
            let slower = match own {
                Some(own) => alone.rate / own.rate,
                None => trace.instructions() / first.instructions(),
            };
            let nanoseconds = 1e9 * iterations / alone.rate * slower;
            let mut plan = Plan::new(&changed[number], request.machine, nanoseconds);
            if !simulated.is_empty() {
                plan.uncertainty.relative = OTHER_KERNEL;
            }
            let simulator = Simulator::new(plan)?;
            let mut points = Vec::new();
            for &tasks in request.tasks {
                progress.show(&Amount { done, of, unit: "points" }, || {
                    format!("{} on {}, {}", trace.testcase, trace.of, number::tasks(tasks))
                });
                points.push(simulator.point(tasks)?.counted(iterations));
                done += 1;
                if let Some(signal) = interrupt.take() {
                    return Ok(Err(signal));
                }
            }
            let next = next(plan, points.last(), iterations)?;
            let (kernel, is_measured) = (trace.of.to_string(), own.is_some());
            simulated.push(Simulated { kernel, slower, is_measured, points, next });
        }
        predictions.push(Prediction {
            testcase: CaseId::new(&first.testcase),
            mode: first.mode,
            machine: prediction::Machine {
                name: request.machine.name.clone(),
                title: request.machine.title.clone(),
            },
            alone,
            curves: curves(&simulated),
        });
    }
    Ok(Ok(predictions))
}

/// The numbers of the traces of each testcase and mode, in the order in which they appear.
fn testcases(traces: &[Trace]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    for (number, trace) in traces.iter().enumerate() {
        let is_same = |numbers: &&mut Vec<usize>| {
            let other = &traces[numbers[0]];
            (&other.testcase, other.mode) == (&trace.testcase, trace.mode)
        };
        match all.iter_mut().find(is_same) {
            Some(numbers) => numbers.push(number),
            None => all.push(vec![number]),
        }
    }
    all
}

/// The rate of one task of a program. That of a testcase belongs to the kernel of the machine on
/// which it was measured, and not to the traced one.
fn own_rate(trace: &Trace) -> Option<&Alone> {
    match trace.of {
        Traced::Program(_) => trace.alone.as_ref(),
        Traced::Kernel(_) => None,
    }
}

/// The last point without what limits it.
fn next(
    plan: Plan<'_>,
    last: Option<&Point>,
    iterations: f64,
) -> anyhow::Result<Option<(String, Point)>> {
    let Some((last, binding)) = last.and_then(|last| Some((last, last.binding()?))) else {
        return Ok(None);
    };
    let without = plan.workload.without(&binding.name)?;
    let point = Simulator::new(Plan { workload: &without, ..plan })?.point(last.tasks)?;
    Ok(Some((binding.name.clone(), point.counted(iterations))))
}

#[cfg(test)]
mod tests {
    use knee_results::Mode;

    use super::*;

    fn trace(testcase: &str, mode: Mode) -> Trace {
        Trace {
            testcase: testcase.to_owned(),
            mode,
            of: Traced::Kernel(String::new()),
            iterations: 1,
            alone: None,
            workload: Workload::default(),
        }
    }

    #[test]
    fn traces_of_a_testcase_are_compared_whichever_file_they_are_in() {
        let (open, pipe) = (trace("open1", Mode::Threads), trace("pipe1", Mode::Threads));
        let processes = trace("open1", Mode::Processes);
        let all = [open.clone(), pipe.clone(), processes, open, pipe];
        assert_eq!(testcases(&all), [vec![0, 3], vec![1, 4], vec![2]]);
    }
}
