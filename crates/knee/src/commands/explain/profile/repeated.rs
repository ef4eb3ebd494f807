//! Sampling runs of a command.

use std::time::Instant;

use knee_host::number::time;
use knee_host::process::keeper::KEEPER;
use knee_host::{Interrupt, auto_tasks, cgroup, number};
use knee_profile::Capture;
use knee_profile::capture::Work;
use knee_profile::sampling::{Sampler, Watch};
use knee_results::Mode;
use knee_run::job::{Command, Source};

use super::args::HowArgs;
use super::rounds::{Round, Rounds, Shown};
use super::testcase::Sampled;
use super::watch::Recorder;
use crate::args::score::ScoreArgs;
use crate::present::left_running;
use crate::progress::Progress;
use crate::session::bench::{Intervals, interrupted};
use crate::stderr::tell;

/// How many times longer than planned the runs of a command may take with the work between them.
const LONGEST: f64 = 5.0;

/// A command that knee runs again and again.
pub(super) struct Repeated<'a>(pub(super) Rounds<'a>);

impl<'a> Repeated<'a> {
    pub(super) fn of(
        words: &[String],
        score: &ScoreArgs,
        mode: Option<Mode>,
        how: &'a HowArgs,
    ) -> anyhow::Result<Self> {
        Ok(Self(Rounds::of(score.case(words)?, mode, how)?))
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
        let (mut captures, mut intervals, mut left) =
            (Vec::new(), Intervals::default(), Vec::new());
        let begun = Instant::now();
        let mut progress = Progress::new(rounds.how.quiet);
        while before < seconds {
            if before > 0.0 && begun.elapsed().as_secs_f64() > LONGEST * seconds {
                tell!(
                    "knee: each run of {} is so short that knee sampled only {} in {}; sample a longer run, \
                     such as a loop",
                    rounds.case.id,
                    time(before),
                    time(begun.elapsed().as_secs_f64())
                );
                break;
            }
            let describes = describes && captures.is_empty();
            let shown = Shown { describes, before, planned: seconds };
            let Round { started_at, recorder, seconds: sampled, samples } =
                rounds.run::<Sampler>(tasks, seconds, interrupt, shown, &mut progress)?;
            // A short run ends before an update is due.
            recorder.show(&mut progress, before + sampled, Some(seconds));
            // The work of an interrupted run is unknown.
            let samples = samples.map_err(interrupted)?;
            let capture = recorder.finish(point.to_string(), started_at, None)?;
            // The CPU times of its processes are rounded to ticks.
            let cpu_seconds = capture.cpu_seconds.filter(|_| sampled > Command::SHORT);
            captures.push(without_keepers(Capture { cpu_seconds, ..capture }));
            left.extend(samples[1].left_running.iter().cloned());
            iterations += samples[0].rates.iter().sum::<f64>() * samples[0].seconds;
            intervals.add(&samples[0]);
            before += sampled;
        }
        drop(progress);
        if let Some(note) = left_running::of_command(&left) {
            tell!("knee: {note}");
        }
        let taken = Capture::joined(captures).expect("a run takes some time");
        let work = Work {
            point: point.clone(),
            iterations: iterations.round() as u64,
            unit: rounds.case.unit.clone(),
            server: None,
            command: match &rounds.case.source {
                Source::Command { command } => {
                    Some(Command::typed(&command.line, command.read.as_deref()))
                }
                _ => None,
            },
            disturbed: intervals.are_disturbed(),
        };
        let taken = Capture { work: Some(work), ..taken };
        Ok(Sampled { taken, interrupted: None, point, intervals })
    }
}

/// Leaves out what the parents of the command did, and the command before it executed its program.
fn without_keepers(mut capture: Capture) -> Capture {
    let keeper = KEEPER.to_str().expect("the name is ASCII");
    let programs = &capture.programs;
    capture.counts.retain(|count| programs[count.program as usize] != keeper);
    capture
}
