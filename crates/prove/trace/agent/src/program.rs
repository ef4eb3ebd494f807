//! Runs a program in the guest, and sends its output and its exit status to the host.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::relay::{Relay, Relayed};

/// The directory into which the host writes the request, relative to the root of the initramfs. The name is
/// unusual, so that it does not collide with files of the program.
pub const PROGRAM_DIRECTORY: &str = ".knee";
/// The file of the request, a [`ProgramRequest`] in the format of the `postcard` crate.
pub const PROGRAM: &str = ".knee/program";
/// The file that is the program's standard input.
pub const PROGRAM_INPUT: &str = ".knee/input";
/// The number of bytes that are read from a pipe at once: the pipe's capacity.
const READ_BYTES: usize = 1 << 16;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRequest {
    /// The program's absolute path in the guest.
    pub path: Vec<u8>,
    /// The program's environment: names and values.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ProgramRequest {
    /// Returns the content of the request's file.
    pub fn bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data is serialized into memory")
    }
}

/// Returns the request, if the host has sent one.
pub(crate) fn request() -> io::Result<Option<ProgramRequest>> {
    match fs::read(format!("/{PROGRAM}")) {
        Ok(request) => Ok(Some(postcard::from_bytes(&request).map_err(io::Error::other)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs the program of a request, and waits until it has ended.
pub(crate) fn run(request: ProgramRequest, relay: &mut Relay) -> io::Result<()> {
    // If some CPUs are isolated, init is confined to the other CPUs. The program may use all CPUs.
    sched_setaffinity(None, &all_cpus())?;
    let own = |bytes: Vec<u8>| OsString::from_vec(bytes);
    let mut child = Command::new(own(request.path))
        .env_clear()
        .envs(request.environment.into_iter().map(|(name, value)| (own(name), own(value))))
        .current_dir("/")
        .stdin(File::open(format!("/{PROGRAM_INPUT}"))?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().map(|pipe| pipe_of(pipe.into(), Relayed::Output));
    let complaints = child.stderr.take().map(|pipe| pipe_of(pipe.into(), Relayed::Complaints));
    let mut pipes: Vec<Pipe> = output.into_iter().chain(complaints).collect();
    let mut buffer = vec![0; READ_BYTES];
    while !pipes.is_empty() {
        for nr in ready(&pipes)?.into_iter().rev() {
            let Pipe { file, kind } = &mut pipes[nr];
            match file.read(&mut buffer)? {
                0 => drop(pipes.remove(nr)),
                count => relay.send(&kind(buffer[..count].to_vec()))?,
            }
        }
    }
    relay.send(&Relayed::Ended(child.wait()?.into_raw()))
}

fn all_cpus() -> CpuSet {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    all
}

/// A pipe that the program writes to.
struct Pipe {
    file: File,
    kind: fn(Vec<u8>) -> Relayed,
}

fn pipe_of(file: OwnedFd, kind: fn(Vec<u8>) -> Relayed) -> Pipe {
    Pipe { file: file.into(), kind }
}

/// Waits until at least one pipe can be read or is closed. Returns the indices of all pipes that
/// can be read or are closed.
fn ready(pipes: &[Pipe]) -> io::Result<Vec<usize>> {
    let mut polled: Vec<_> =
        pipes.iter().map(|pipe| PollFd::new(&pipe.file, PollFlags::IN)).collect();
    poll(&mut polled, None)?;
    Ok((0..polled.len()).filter(|&nr| !polled[nr].revents().is_empty()).collect())
}
