//! One test: its set-up, its calls in each order, and what is left of them taken away.

use knee_commute::{Finding, Test, TestOutcome as Outcome};
use knee_marks::Mark;
use serde::{Deserialize, Serialize};

use crate::cleanup;
use crate::compare::Meaning;
use crate::plan::{Order, Plan};
use crate::returned::Returned;
use crate::script::{Call, Nr, Step};
use crate::steps;
use crate::workers::{Command, Result as Worked, STEPS_BY, Workers};

/// What a plan's calls returned, in plain data: it is compared where the test is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Done {
    /// A run for each time of each order.
    Ran(Vec<Run>),
    /// A step of the set-up failed.
    SetupFailed(String),
}

/// One run of a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Which order.
    pub(crate) order: usize,
    /// Numbers of inodes, where they are needed.
    pub(crate) inodes: Vec<(Nr, u64)>,
    /// By call.
    pub(crate) returned: Vec<Returned>,
}

/// Runs each order of a plan `unseen` times, and then under the eyes of the plugin for as long as one
/// more run is `wanted` after so many; tells also how many runs the plugin saw.
pub(crate) fn run(
    workers: &Workers,
    plan: &Plan,
    unseen: u32,
    mut wanted: impl FnMut(u32) -> bool,
) -> (Done, u64) {
    let mut runs = Vec::new();
    let mut count = 0;
    for nr in 0..plan.orders.len() {
        let (mut left, mut seen) = (unseen, 0);
        while left > 0 || wanted(seen) {
            match once(workers, plan, nr, left == 0) {
                Ok(run) => runs.push(run),
                Err(why) => return (Done::SetupFailed(why), count),
            }
            match left {
                0 => {
                    seen += 1;
                    count += 1;
                }
                _ => left -= 1,
            }
        }
    }
    (Done::Ran(runs), count)
}

fn once(workers: &Workers, plan: &Plan, nr: usize, seen: bool) -> Result<Run, String> {
    let mut run =
        Run { order: nr, inodes: Vec::new(), returned: vec![Returned::Nothing; plan.calls.len()] };
    let set_up = set_up(workers, plan, &mut run.inodes);
    let processes = plan.processes();
    if set_up.is_err() {
        for (process, by) in STEPS_BY.iter().enumerate().take(processes) {
            workers.tell(process, *by, Command::Sweep);
        }
        cleanup::sweep_files();
        return set_up.map(|()| run);
    }
    if seen {
        Mark::Begin.say();
    }
    for &nr in &plan.orders[nr].calls {
        let (process, call) = plan.calls[nr];
        let call = Command::Call(call, seen);
        if let Worked::Returned(returned) = workers.tell(process.into(), nr, call) {
            run.returned[nr] = returned;
        }
    }
    if seen {
        Mark::End.say();
    }
    for (process, by) in STEPS_BY.iter().enumerate().take(processes) {
        workers.tell(process, *by, Command::Clean);
    }
    cleanup::clean_files(&plan.steps, &plan.calls);
    Ok(run)
}

fn set_up(workers: &Workers, plan: &Plan, inodes: &mut Vec<(Nr, u64)>) -> Result<(), String> {
    for (process, step) in &plan.steps {
        let process = usize::from(*process);
        let by = STEPS_BY[process];
        let command = match *step {
            Step::Learn { inode, home } => {
                inodes.extend(steps::inode_number(home).map(|number| (inode, number)));
                continue;
            }
            Step::LearnOpen { fd, .. } => Command::Call(Call::Fstat { fd }, false),
            step => Command::Step(step),
        };
        match (workers.tell(process, by, command), *step) {
            (Worked::Failed((what, errno)), _) => {
                let error = std::io::Error::from_raw_os_error(errno);
                return Err(format!("cannot {what}: {error}"));
            }
            (
                Worked::Returned(Returned::Status { inode: number, .. }),
                Step::LearnOpen { inode, .. },
            ) => inodes.push((inode, number)),
            _ => {}
        }
    }
    Ok(())
}

impl Done {
    /// Whether the calls returned what the test says.
    pub fn outcome(&self, test: &Test, plan: &Plan) -> Outcome {
        let runs = match self {
            Done::Ran(runs) => runs,
            Done::SetupFailed(why) => return Outcome::SetupFailed(why.clone()),
        };
        let mut findings = Vec::new();
        for run in runs {
            // What comes out of a guest may be anything.
            let Some(order) = plan.orders.get(run.order) else { continue };
            findings.extend(compare(test, plan, order, run));
        }
        if findings.is_empty() { Outcome::AsExpected } else { Outcome::Different(findings) }
    }
}

fn compare(test: &Test, plan: &Plan, order: &Order, run: &Run) -> Vec<Finding> {
    let mut meaning = Meaning::default();
    for (inode, number) in &run.inodes {
        meaning.learn(&format!("inode{inode}"), *number);
    }
    let mut findings = Vec::new();
    for &nr in &order.calls {
        let Some(expected) = test.expect.get(order.expect).and_then(|it| it.results.get(nr)) else {
            continue;
        };
        let returned = run.returned.get(nr).copied().unwrap_or(Returned::Nothing);
        if !meaning.is(expected, returned, plan.calls[nr].0) {
            findings.push(Finding {
                order: order.calls.iter().map(|nr| label(*nr)).collect(),
                call: label(nr).to_string(),
                expected: expected.to_string(),
                returned: returned.show(),
            });
        }
    }
    findings
}

fn label(nr: usize) -> char {
    char::from(b'a' + nr as u8)
}
