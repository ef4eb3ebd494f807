//! Runs a plan: for each order, executes the set-up and then the calls, and records what the calls
//! returned.

use knee_commute::{Test, TestOutcome as Outcome};
use knee_harness::{Names, findings};
use knee_plan::{Call, Done, Nr, Plan, Returned, Run, Session, Step};

use crate::cleanup;
use crate::compare::agrees;
use crate::steps;
use crate::workers::{Command, Reply, STEPS_BY, Workers};

/// Maximum number of findings of a test: one for each of four calls in each of their orders. A guest can report any
/// number of runs without results.
const MOST_FINDINGS: usize = 4 * 24;

/// Runs each order of a plan `untraced` times without tracing, and then with tracing for as long as `again`
/// returns true; see [`knee_plan::run`]. Returns the result, and the number of traced runs of all orders.
pub(crate) fn run(
    workers: &Workers,
    plan: &Plan,
    untraced: u32,
    again: impl FnMut(u32) -> bool,
) -> (Done, u64) {
    let mut processes = Processes { workers, plan, runs: Vec::new() };
    let orders = plan.orders.iter().map(|order| order.calls.as_slice());
    let (ran, traced) = knee_plan::run(&mut processes, orders, untraced, again);
    let done = match ran {
        Ok(()) => Done::Ran(processes.runs),
        Err(why) => Done::SetupFailed(why),
    };
    (done, traced)
}

/// The processes of the agent, which run a plan.
struct Processes<'a> {
    workers: &'a Workers,
    plan: &'a Plan,
    runs: Vec<Run>,
}

impl Session for Processes<'_> {
    /// The test's inodes with their inode numbers.
    type State = Vec<(Nr, u64)>;
    type Returned = Returned;
    type Error = String;

    fn set_up(&mut self) -> Result<Self::State, String> {
        let mut inodes = Vec::new();
        let set_up = set_up(self.workers, self.plan, &mut inodes);
        if set_up.is_err() {
            self.all_processes(Command::Sweep);
            cleanup::sweep_files();
        }
        set_up.map(|()| inodes)
    }

    fn call(&mut self, _: &Self::State, nr: usize, traced: bool) -> Returned {
        let (process, call) = self.plan.calls[nr];
        match self.workers.request(process.into(), nr, Command::Call(call, traced)) {
            Reply::Returned(returned) => returned,
            Reply::Done | Reply::Failed(_) => Returned::Nothing,
        }
    }

    fn finish(
        &mut self,
        order: usize,
        inodes: Self::State,
        returned: Vec<Returned>,
    ) -> Result<(), String> {
        self.all_processes(Command::Clean);
        cleanup::clean_files(&self.plan.steps, &self.plan.calls);
        self.runs.push(Run { order, inodes, returned });
        Ok(())
    }
}

impl Processes<'_> {
    fn all_processes(&self, command: Command) {
        for (process, by) in STEPS_BY.iter().enumerate().take(self.plan.processes()) {
            self.workers.request(process, *by, command);
        }
    }
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
        match (workers.request(process, by, command), *step) {
            (Reply::Failed((what, errno)), _) => {
                let error = std::io::Error::from_raw_os_error(errno);
                return Err(format!("cannot {what}: {error}"));
            }
            (
                Reply::Returned(Returned::Status { inode: number, .. }),
                Step::LearnOpen { inode, .. },
            ) => inodes.push((inode, number)),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the outcome of the test: whether the calls returned the results that the test
/// expects. Contains at most 96 findings, those of the first runs.
pub fn outcome(done: &Done, test: &Test, plan: &Plan) -> Outcome {
    let runs = match done {
        Done::Ran(runs) => runs,
        Done::SetupFailed(why) => return Outcome::SetupFailed(why.clone()),
    };
    let mut all = Vec::new();
    for run in runs {
        // Indices from a guest may be out of range.
        let Some(order) = plan.orders.get(run.order) else { continue };
        let Some(expect) = test.expect.get(order.expect) else { continue };
        if all.len() >= MOST_FINDINGS {
            break;
        }
        let mut names = Names::default();
        for (inode, number) in &run.inodes {
            names.set(format!("inode{inode}"), *number);
        }
        let found =
            findings(test, expect, &order.calls, &run.returned, |call, expected, returned| {
                agrees(&mut names, expected, *returned, call.process)
            });
        all.extend(found);
    }
    all.truncate(MOST_FINDINGS);
    if all.is_empty() { Outcome::AsExpected } else { Outcome::Different(all) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_first_findings_are_kept() {
        let call = json!({ "label": "a", "operation": "close", "process": 0, "thread": 0, "cpu": 0,
            "arguments": {} });
        let test: Test = serde_json::from_value(json!({
            "schema": 1, "id": "close/0.0", "interface": "posix", "commute": true, "condition": [],
            "pattern": [], "setup": [], "calls": [call],
            "expect": [{ "order": "a", "results": [0] }],
        }))
        .expect("a test");
        let orders = vec![knee_plan::Order { expect: 0, calls: vec![0] }];
        let plan = Plan { steps: Vec::new(), calls: Vec::new(), orders };
        let run = Run { order: 0, inodes: Vec::new(), returned: Vec::new() };
        let found = |runs| match outcome(&Done::Ran(vec![run.clone(); runs]), &test, &plan) {
            Outcome::Different(findings) => findings.len(),
            other => panic!("{other}"),
        };
        assert_eq!((found(2), found(1000)), (2, MOST_FINDINGS));
    }
}
