//! What all steps of a round of a server need.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use knee_host::counters::CounterSet;
use knee_host::limits::{open_files_below, raise_open_files};
use knee_host::number::plural;
use knee_host::process::keeper::Program;
use knee_host::{Interrupt, Topology};
use rustix::process::{Rlimit, Signal};

use super::host::LoadHost;
use super::places::Places;
use super::process::{Process, watch};
use super::programs;
use super::usage::Usage;
use super::user::User;
use crate::command::listener;
use crate::command::words::words;
use crate::description::{Generator, Server, StopSignal};
use crate::job::{Failure, FailureKind, Job};
use crate::needs::unusable_dir;
use crate::observer::RoundObserver;
use crate::placeholders::{SPARE_CONNECTIONS, Values, max_connections};
use crate::stopped::Stopped;

/// Descriptors that knee and a server need in addition to one for each connection.
const OTHER_FILES: u32 = 64;

/// A round of a server.
pub(super) struct Round<'r> {
    pub(super) server: &'r Server,
    pub(super) job: &'r Job,
    pub(super) interrupt: &'r Interrupt,
    pub(super) places: Places,
    pub(super) values: Values,
    /// The host of the load, if that is not this machine.
    pub(super) host: Option<LoadHost>,
    path: OsString,
    user: Option<User>,
    open_files: Rlimit,
    observer: RefCell<&'r mut dyn RoundObserver>,
}

impl<'r> Round<'r> {
    /// Connects to the host of the load, chooses CPUs and a port, and writes the files of the description.
    pub(super) fn prepare(
        server: &'r Server,
        here: &Path,
        job: &'r Job,
        interrupt: &'r Interrupt,
        observer: &'r mut dyn RoundObserver,
    ) -> Result<Self, Stopped> {
        let open_files = require_open_files(server)?;
        let topology = Topology::read().map_err(|error| {
            Failure::runner(format!("cannot read which CPUs are siblings: {error}"))
        })?;
        let host = host(server, job, interrupt)?;
        let places = match &host {
            Some(_) => Places::without_load(&job.cpus, job.tasks),
            None => {
                let places = Places::new(&job.cpus, job.tasks, &topology);
                // Without a placement, all processes may use all CPUs.
                Places { shared: places.shared || !job.pin, ..places }
            }
        };
        let load: Vec<u32> = match &host {
            Some(host) => host.cpus().iter().collect(),
            None => places.load.clone(),
        };
        // The port is free again when the listener is closed.
        let (_, port) = listener()?;
        let values = Values::new(
            [&places.server, &load],
            server.load.connections.get(),
            job.interval,
            job.dir.to_string_lossy().into_owned(),
            SocketAddr::new(address(server, host.as_ref())?, port),
            here.to_string_lossy().into_owned(),
        );
        let user = server.server.user.as_deref().map(User::find).transpose()?.flatten();
        write_files(server, &values, &job.dir, user.as_ref())
            .map_err(|error| unusable_dir(&job.dir, &error))?;
        if let Some(user) = &user {
            user.require_way(&job.dir)?;
        }
        let path = programs::path(server);
        let observer = RefCell::new(observer);
        Ok(Self { server, job, interrupt, places, values, host, path, user, open_files, observer })
    }

    /// Tells the observer of the round what happens.
    pub(super) fn tell(
        &self,
        what: impl FnOnce(&mut dyn RoundObserver) -> io::Result<()>,
    ) -> Result<(), Stopped> {
        what(&mut **self.observer.borrow_mut()).map_err(Stopped::ByReceiver)
    }

    /// The user of the commands, if it is not the one of knee.
    pub(super) fn user_id(&self) -> Option<u32> {
        self.user.as_ref().map(|user| user.uid)
    }

    /// Starts the server, and counts its events if the run asks for that.
    pub(super) fn start_server(&self) -> Result<Process, Failure> {
        let counters = self.job.counters.as_ref();
        self.start_counted("the server", &self.server.server.command, &self.places.server, counters)
    }

    /// Starts the command `line`, for the purpose `role`, on `cpus`.
    pub(super) fn start(
        &self,
        role: &'static str,
        line: &str,
        cpus: &[u32],
    ) -> Result<Process, Failure> {
        self.start_counted(role, line, cpus, None)
    }

    fn start_counted(
        &self,
        role: &'static str,
        line: &str,
        cpus: &[u32],
        counters: Option<&CounterSet>,
    ) -> Result<Process, Failure> {
        let cpus = if self.job.pin { cpus.to_vec() } else { self.job.cpus.clone() };
        let line = self.values.fill(line);
        let mut program = Program::new(words(&line, &self.job.dir, &self.path))
            .cpus(&cpus)
            .open_files(self.open_files)
            .dir(&self.job.dir)
            .env("KNEE_PADDING", "x".repeat(self.job.layout as usize))
            .env("PATH", &self.path)
            .in_round(&self.job.dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let patience = Duration::from_secs_f64(self.server.stop.seconds);
        program = program.asked_to_end_by(self.signal(), patience);
        if let Some(user) = &self.user {
            program = program.user(user.uid, user.gid);
        }
        Process::start(role, line, program, counters, self.signal())
    }

    /// Runs the command `line` to its end. Meanwhile, `server` must not end, if it has started.
    pub(super) fn run(
        &self,
        role: &'static str,
        line: &str,
        mut server: Option<&mut Process>,
    ) -> Result<(), Stopped> {
        let limit = self.job.start_timeout;
        let deadline = Instant::now() + Duration::from_secs_f64(limit);
        let mut command = self.start(role, line, &self.places.server)?;
        while command.end().is_none() {
            if Instant::now() >= deadline {
                let what = format!("did not end within {limit} s");
                let remedy = "use a longer --start-timeout, or correct the description";
                return Err(command.failure(FailureKind::Hung, &what, remedy).into());
            }
            match &mut server {
                Some(server) if server.end().is_some() => return Err(self.dead(server).into()),
                Some(server) => {
                    watch(&mut [&mut **server, &mut command], deadline, self.interrupt)?
                }
                None => watch(&mut [&mut command], deadline, self.interrupt)?,
            }
        }
        match command.end().is_some_and(|end| end.success()) {
            true => Ok(()),
            false => Err(command.death("", "run the command by hand to see why").into()),
        }
    }

    /// The failure of a server that has ended after it was ready.
    pub(super) fn dead(&self, server: &Process) -> Failure {
        let remedy = match server.has_printed("\n") {
            _ if server.end().is_some_and(|end| end.success()) => {
                "a server must stay in the foreground"
            }
            true => "look for the cause in its output, or use fewer connections",
            false => "it printed nothing; run it by hand to see why, or use fewer connections",
        };
        server.death("after it was ready", remedy)
    }

    /// Whether other work may have slowed down the server or its load in the measured part of a load, which took
    /// `load` CPU seconds in `seconds`.
    pub(super) fn is_disturbed(&self, usage: &Usage, load: f64, seconds: f64) -> bool {
        let load = load * usage.seconds / seconds;
        match self.places.shared {
            // Who ran on which CPU is unknown.
            _ if !self.job.pin => false,
            false => {
                // What runs on another host is unknown.
                let load_cpus = usage.load_cpus.as_ref();
                usage.server_cpus.is_disturbed(usage.server)
                    || load_cpus.is_some_and(|cpus| cpus.is_disturbed(load))
            }
            // The load ran on the same CPUs, and is not other work.
            true if self.places.load == self.places.server => {
                usage.server_cpus.is_disturbed(usage.server + load)
            }
            true => false,
        }
    }

    /// Whether it is known what else the CPUs of the server did.
    pub(super) fn has_own_cpus(&self) -> bool {
        self.job.pin && !self.places.shared
    }

    /// The signal that asks the server to stop.
    fn signal(&self) -> Signal {
        match self.server.stop.signal {
            StopSignal::Term => Signal::TERM,
            StopSignal::Int => Signal::INT,
            StopSignal::Quit => Signal::QUIT,
            StopSignal::Hup => Signal::HUP,
            StopSignal::Usr1 => Signal::USR1,
            StopSignal::Usr2 => Signal::USR2,
            StopSignal::Kill => Signal::KILL,
        }
    }
}

/// The connection to the host of the load, if there is one. It has the right knee if it needs one.
fn host(server: &Server, job: &Job, interrupt: &Interrupt) -> Result<Option<LoadHost>, Stopped> {
    let Some(host) = &server.load.host else { return Ok(None) };
    let host = LoadHost::connect(host, &job.dir, interrupt)?;
    if matches!(server.generator(), Generator::Requests(_)) {
        host.require_knee(server.load.knee.as_deref(), interrupt)?;
    }
    Ok(Some(host))
}

/// The address of this machine for the load.
fn address(server: &Server, host: Option<&LoadHost>) -> Result<IpAddr, Failure> {
    match host {
        Some(host) if server.takes_address() => host.client(),
        _ => Ok(Ipv4Addr::LOCALHOST.into()),
    }
}

/// The limit of open files for the commands of `server`: the usual one, or as many as its connections need.
///
/// # Errors
/// They need more than the limit of knee.
pub fn require_open_files(server: &Server) -> Result<Rlimit, Failure> {
    let usual = raise_open_files();
    let needed = u64::from(needed_files(server));
    let spare = if server.takes_max_connections() { SPARE_CONNECTIONS } else { 0 };
    require_connections(server.load.connections.get() as usize, spare, needed)?;
    // Some programs take long to start with a high limit.
    let current = usual.current.map(|usual| usual.max(needed));
    Ok(Rlimit { current, ..usual })
}

/// Checks that this process may have the open files that connections and `spare` ones need.
///
/// # Errors
/// They need more than its limit.
pub fn require_connections(connections: usize, spare: u32, needed: u64) -> Result<(), Failure> {
    let Some(most) = open_files_below(needed) else { return Ok(()) };
    let (spare, need) = match spare {
        0 => (String::new(), if connections == 1 { "needs" } else { "need" }),
        spare => (format!(" and {spare} spare ones"), "need"),
    };
    let connections = plural(connections, "connection");
    let reason =
        format!("{connections}{spare} {need} {needed} open files, but the limit is {most}");
    let remedy = format!("raise the limit (ulimit -n {needed}), or use fewer connections");
    Err(Failure::new(FailureKind::CannotRun, reason, remedy))
}

/// The open files that `server`, its load, and knee need.
fn needed_files(server: &Server) -> u32 {
    let connections = server.load.connections.get();
    match server.takes_max_connections() {
        // Some programs set their limit to this number.
        true => max_connections(connections),
        false => connections.saturating_add(OTHER_FILES),
    }
}

fn write_files(
    server: &Server,
    values: &Values,
    dir: &Path,
    user: Option<&User>,
) -> io::Result<()> {
    for (name, text) in &server.files {
        let file = dir.join(name);
        fs::write(&file, values.fill(text))?;
        if let Some(user) = user {
            chown(&file, Some(user.uid), Some(user.gid))?;
        }
    }
    user.map_or(Ok(()), |user| user.take(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "name = 'a'\nserver.command = 'a {port}'\nready.output = 'up'\n\
                          load = { command = 'b {connections}', read = 'tps = #', connections = 8 }\n";

    fn needed(text: &str) -> u32 {
        needed_files(&Server::parse(text).unwrap())
    }

    #[test]
    fn a_server_needs_open_files_for_the_connections_that_it_allows() {
        assert_eq!(needed(SERVER), 8 + OTHER_FILES);
        let in_command = SERVER.replace("a {port}", "a {port} {max_connections}");
        assert_eq!(needed(&in_command), 8 + SPARE_CONNECTIONS);
        let in_file = format!("files.conf = 'max {{max_connections}}'\n{SERVER}");
        assert_eq!(needed(&in_file), 8 + SPARE_CONNECTIONS);
    }
}
