//! Runs a program in a guest that contains only the files that the program needs.
//!
//! The guest has a virtual CPU for each thread that makes calls, and one for everything else. The guest's
//! kernel does not balance load between the CPUs of these threads. So each thread stays on its CPU, although
//! its affinity mask allows all CPUs. The kernel does not randomise addresses, so that a program has the same
//! addresses each time.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::task::Poll;
use std::time::Duration;

use knee_agent::{
    CONSOLE, PROGRAM, PROGRAM_DIRECTORY, PROGRAM_INPUT, ProgramRequest, READ_AT, RELAY_BYTES,
    RING_BYTES, Relayed, WRITTEN_AT, places, relayed,
};
use knee_bind::GUEST;
use knee_host::RegularFile;
use knee_marks::SIDES;

use super::event::{self, ProgramEvent};
use super::files::files;
use crate::check::CheckError;
use crate::error::GuestError;
use crate::guest::{Event, Guest, GuestOptions};
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::line_buffer::LineBuffer;
use crate::process::{MAX_STDERR, Tracing};
use crate::qemu::Emulator;
use crate::ram::Ram;

/// The interval at which the program's output is polled.
const PERIOD: Duration = Duration::from_millis(2);
/// Memory of a guest in MiB: the largest size that a PC maps as one physical range. Memory that the
/// guest does not use takes no host memory.
const MEMORY: u32 = 3072;

/// A program with the files that it needs, packed for guests.
pub(super) struct Packed(Initramfs);

impl Packed {
    /// Reads the files that a program needs.
    pub(super) fn new(program: &Path) -> Result<Packed, GuestError> {
        let failed = |reason: String| GuestError::Program { program: program.to_owned(), reason };
        let paths = files(program)?;
        let own = paths[0].clone().into_os_string().into_vec();
        let mut packed = Initramfs::new().program_devices().directory("dev/shm", 0o777);
        let mut seen = BTreeSet::new();
        for path in paths.iter().filter(|path| seen.insert(path.as_path())) {
            // Ignore a missing file: a program works without the linker's cache, and if another file is
            // missing, the program itself reports it.
            let Ok(content) = RegularFile::at(path).read() else { continue };
            let Some(path) = path.to_str() else {
                return Err(failed(format!("{} is not UTF-8", path.display())));
            };
            let path = path.trim_start_matches('/');
            packed = packed.parents(path).file(path, 0o755, &content);
        }
        let in_guest = (GUEST.into(), "1".into());
        let environment = std::env::vars_os().chain([in_guest]);
        let environment = environment.map(|(name, value)| (name.into_vec(), value.into_vec()));
        let request = ProgramRequest { path: own, environment: environment.collect() };
        let files =
            packed.directory(PROGRAM_DIRECTORY, 0o700).file(PROGRAM, 0o600, &request.bytes());
        let files = files.file("init", 0o755, knee_artefacts::AGENT);
        Ok(Packed(files))
    }

    /// Starts the program in a guest, with `input` on its standard input.
    pub(super) fn start(
        &self,
        kernel: &Kernel,
        emulator: &Emulator,
        input: &[u8],
        tracing: Tracing,
        patience: Duration,
    ) -> Result<ProgramGuest, GuestError> {
        let channel = Ram::new("knee-relay", RELAY_BYTES as u64)
            .map_err(GuestError::system("allocate memory for a guest"))?;
        let files = self.0.clone().file(PROGRAM_INPUT, 0o600, input).finish();
        let isolated = format!("isolcpus=domain,0-{}", SIDES - 1);
        let options = GuestOptions {
            emulator: emulator.clone(),
            cpus: SIDES as u32 + 1,
            nodes: 1,
            memory: MEMORY,
            parameters: vec![isolated, "norandmaps".to_owned()],
            channel: Some(channel.clone()),
            tracing: Some(tracing),
            patience,
            arguments: Vec::new(),
        };
        Ok(ProgramGuest {
            guest: Guest::start(kernel, &files, &options)?,
            channel,
            read: 0,
            rest: Vec::new(),
            line: LineBuffer::default(),
            events: VecDeque::new(),
            stderr: Vec::new(),
            ended: None,
        })
    }
}

/// A program that runs in a guest.
pub(super) struct ProgramGuest {
    guest: Guest,
    channel: Ram,
    /// How many bytes of the ring have been read.
    read: u64,
    /// Bytes that have been read but are not a complete message yet.
    rest: Vec<u8>,
    line: LineBuffer,
    /// Events that have not been returned yet.
    events: VecDeque<ProgramEvent>,
    stderr: Vec<u8>,
    /// The program's exit status; `None` until the program has ended. Test results may arrive even after the
    /// program has ended.
    ended: Option<ExitStatus>,
}

impl ProgramGuest {
    /// The QEMU that runs the guest.
    pub(super) fn emulator(&self) -> &Emulator {
        self.guest.emulator()
    }

    /// Starts a step; see [`Guest::begin_step`].
    pub(super) fn begin_step(&mut self) {
        self.guest.begin_step();
    }

    /// Waits for the next event. [`ProgramEvent::End`] is the last event; later calls return another
    /// `End`.
    pub(super) fn next(&mut self) -> Result<ProgramEvent, CheckError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let polled = self.guest.poll(PERIOD)?;
            self.read_ring()?;
            match polled {
                Poll::Ready(Some(Event::Result(record))) => {
                    self.events.push_back(ProgramEvent::Result(record));
                }
                // The firmware may have printed text before the message on the same line.
                Poll::Ready(Some(Event::Console(line))) => {
                    if let Some((_, message)) = line.split_once(CONSOLE) {
                        return Err(CheckError::Agent(message.to_owned()));
                    }
                }
                Poll::Ready(Some(Event::End(end))) => {
                    let end = self.ended.map_or(end, |status| event::end(status, &self.stderr));
                    self.events.push_back(ProgramEvent::End(end));
                }
                Poll::Ready(None) => self.events.push_back(ProgramEvent::End(event::silent())),
                Poll::Pending => {}
            }
        }
    }

    /// Reads what the guest has reported about the program.
    fn read_ring(&mut self) -> Result<(), GuestError> {
        let mut written = [0; 8];
        self.channel.read(WRITTEN_AT as u64, &mut written).map_err(read_error)?;
        let new = self.read..u64::from_le_bytes(written);
        if new.is_empty() {
            return Ok(());
        }
        // The count comes from the guest, so it may be larger than the ring.
        if new.end - new.start > RING_BYTES as u64 {
            return Err(read_error(io::ErrorKind::InvalidData.into()));
        }
        for place in places(new.clone()) {
            let begin = self.rest.len();
            self.rest.resize(begin + place.len(), 0);
            self.channel.read(place.start as u64, &mut self.rest[begin..]).map_err(read_error)?;
        }
        self.read = new.end;
        let failed = GuestError::system("acknowledge the output of a guest");
        self.channel.write(READ_AT as u64, &self.read.to_le_bytes()).map_err(failed)?;
        self.guest.reset_patience();
        for message in relayed(&mut self.rest) {
            match message {
                Relayed::Output(bytes) => {
                    let events = &mut self.events;
                    self.line.add(&bytes, |line| {
                        events.push_back(ProgramEvent::Line(
                            String::from_utf8_lossy(line).into_owned(),
                        ));
                        Ok::<_, GuestError>(())
                    })?;
                }
                Relayed::Complaints(bytes) => {
                    self.stderr.extend(bytes);
                    let excess = self.stderr.len().saturating_sub(MAX_STDERR);
                    self.stderr.drain(..excess);
                }
                Relayed::Ended(status) => self.ended = Some(ExitStatus::from_raw(status)),
            }
        }
        Ok(())
    }
}

fn read_error(source: io::Error) -> GuestError {
    GuestError::System { what: "read what the guest reports about the program", source }
}
