//! What knee runs in order to sample it: a testcase, or a server under load.

use knee_host::shell::word;
use knee_host::{Interrupt, Topology, number};
use knee_results::Mode;

use super::args::HowArgs;
use super::service::Service;
use super::testcase::{Sampled, Sampling};
use super::watch::Recorder;
use crate::args::directory::directory;
use crate::args::selection::{Selection, described_server, is_description};
use crate::exit::{bail_usage, usage};
use crate::session::bench::Bench;

/// A testcase or a server.
pub(super) enum Subject<'a> {
    Testcase(Sampling<'a>),
    Server(Service<'a>),
}

impl<'a> Subject<'a> {
    /// The testcase or server called `name`, or the server that the file `name` describes.
    pub(super) fn of(name: &str, mode: Option<Mode>, how: &'a HowArgs) -> anyhow::Result<Self> {
        if is_description(name) {
            return Ok(Self::Server(Service::of(described_server(name)?, mode, how)?));
        }
        let selection = Selection::of(&[name.to_owned()], false).map_err(|error| {
            usage(format!(
                "{error}; to profile a command, put it after --: knee profile -- {}",
                word(name)
            ))
        })?;
        match (&selection.testcases[..], &selection.servers[..]) {
            ([testcase], []) => {
                let dir = directory(testcase, how.dir.as_deref())?;
                let bench = Bench::of(testcase, mode, dir, how.placement)?;
                Ok(Self::Testcase(Sampling { bench, how }))
            }
            ([], [server]) => Ok(Self::Server(Service::of(server.case()?, mode, how)?)),
            ([], servers) => {
                bail_usage!("{name} matches {} servers; give the name of one", servers.len())
            }
            (testcases, _) => {
                bail_usage!("{name} matches {} testcases; give the name of one", testcases.len())
            }
        }
    }

    pub(super) fn topology(&self) -> &Topology {
        match self {
            Self::Testcase(sampling) => &sampling.bench.topology,
            Self::Server(service) => &service.0.topology,
        }
    }

    /// The default task count of a single capture.
    pub(super) fn most(&self) -> u32 {
        match self {
            Self::Testcase(sampling) => sampling.bench.topology.usable().len() as u32,
            Self::Server(service) => service.most(),
        }
    }

    /// `mmap1 2 tasks for 3 s`, or a server with its CPUs.
    pub(super) fn describe(&self, tasks: u32, seconds: f64) -> String {
        match self {
            Self::Testcase(sampling) => {
                let case = &sampling.bench.case.id;
                format!("{case} {} for {seconds} s", number::tasks(tasks))
            }
            Self::Server(service) => service.describe(tasks, seconds),
        }
    }

    /// Runs `tasks` tasks, or a server on as many CPUs, and samples for `seconds` after the warm-up. With
    /// `describes`, prints what the sampler records.
    pub(super) fn sample<W: Recorder>(
        &self,
        tasks: u32,
        seconds: f64,
        interrupt: &Interrupt,
        describes: bool,
    ) -> anyhow::Result<Sampled<W::Taken>> {
        match self {
            Self::Testcase(sampling) => sampling.sample::<W>(tasks, seconds, interrupt, describes),
            Self::Server(service) => service.sample::<W>(tasks, seconds, interrupt, describes),
        }
    }
}
