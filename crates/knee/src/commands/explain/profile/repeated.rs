//! Sampling runs of a command.

use knee_host::{Interrupt, auto_tasks, cgroup, number};
use knee_profile::Capture;
use knee_profile::capture::Work;
use knee_profile::sampling::{Sampler, Watch};
use knee_results::Mode;
use knee_run::job::Command;

use super::args::HowArgs;
use super::rounds::{Round, Rounds, Shown};
use super::testcase::Sampled;
use crate::args::score::ScoreArgs;
use crate::exit::bail_usage;
use crate::session::bench::{Intervals, interrupted};

/// A command that knee runs again and again.
pub(super) struct Repeated<'a>(pub(super) Rounds<'a>);

impl<'a> Repeated<'a> {
    pub(super) fn of(
        words: &[String],
        score: &ScoreArgs,
        mode: Option<Mode>,
        how: &'a HowArgs,
    ) -> anyhow::Result<Self> {
        if mode == Some(Mode::Threads) {
            bail_usage!("-m threads applies only to testcases; leave out -m for a command");
        }
        Ok(Self(Rounds::of(score.case(words)?, how)?))
    }

    /// The default task counts to compare: one, and as many as there are CPUs.
    pub(super) fn ends(&self) -> Vec<u32> {
        let auto = auto_tasks(&self.0.topology, cgroup::cpu_quota());
        vec![1, auto.last().copied().unwrap_or(1).max(2)]
    }

    /// `make 2 tasks for at least 3 s`
    pub(super) fn describe(&self, tasks: u32, seconds: f64) -> String {
        format!("{} {} for at least {seconds} s", self.0.case.id, number::tasks(tasks))
    }

    /// Runs the command, or `tasks` copies of it, until `seconds` of its runs are sampled. Each run is complete.
    pub(super) fn sample(
        &self,
        tasks: u32,
        seconds: f64,
        interrupt: &Interrupt,
        describes: bool,
    ) -> anyhow::Result<Sampled<Capture>> {
        let (rounds, point) = (&self.0, self.0.point(tasks));
        let (mut before, mut iterations) = (0.0, 0.0);
        let (mut captures, mut intervals) = (Vec::new(), Intervals::default());
        while before < seconds {
            let describes = describes && captures.is_empty();
            let shown = Shown { describes, before, planned: seconds };
            let Round { started_at, recorder, seconds: sampled, samples } =
                rounds.run::<Sampler>(tasks, seconds, interrupt, shown)?;
            // The work of an interrupted run is unknown.
            let samples = samples.map_err(interrupted)?;
            let capture = recorder.finish(point.to_string(), started_at, None)?;
            // The CPU times of its processes are rounded to ticks.
            let cpu_seconds = capture.cpu_seconds.filter(|_| sampled > Command::SHORT);
            captures.push(Capture { cpu_seconds, ..capture });
            iterations += samples[0].rates.iter().sum::<f64>() * samples[0].seconds;
            intervals.add(&samples[0]);
            before += sampled;
        }
        let taken = Capture::joined(captures).expect("a run takes some time");
        let work = Work {
            point: point.clone(),
            iterations: iterations.round() as u64,
            unit: rounds.case.unit.clone(),
            server: None,
            disturbed: intervals.are_disturbed(),
        };
        let taken = Capture { work: Some(work), ..taken };
        Ok(Sampled { taken, interrupted: None, point, intervals })
    }
}
