//! Why tests were not checked.

use std::path::PathBuf;

use crate::calibration::Fault;
use crate::error::GuestError;
use crate::guest::End;
use crate::qemu::Emulator;

/// Why tests were not checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The guest could not be started, or its output could not be read.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The agent or the binding failed.
    #[error("the test agent failed: {0}")]
    Agent(String),
    /// This QEMU returned a wrong result for a trial of the calibration, so its reports cannot be trusted.
    #[error("{qemu} failed its calibration: {fault}. Its verdicts cannot be trusted; {remedy}")]
    Calibration {
        /// The QEMU.
        qemu: String,
        /// The trial with the wrong result.
        fault: Fault,
        /// What to do.
        remedy: &'static str,
    },
    /// knee's own kernel ended before it began the experiments.
    #[error(
        "{path} does not answer: {end}; build it from the same sources as knee, with cargo build \
         --release -p knee-kernel --target x86_64-unknown-none", path = path.display()
    )]
    NoAnswer {
        /// The kernel's file.
        path: PathBuf,
        /// How the guest ended.
        end: End,
    },
    /// knee's own kernel does not have enough memory for the tests and their results.
    #[error(
        "the guest has {available} MiB of memory for tests and their results, and these {tests} tests \
         need {needed} MiB; run fewer tests at a time, with --shard I/N"
    )]
    TooLarge {
        /// The number of tests.
        tests: usize,
        /// The memory that the tests and their results need, in MiB.
        needed: u64,
        /// The memory that the kernel has for them, in MiB.
        available: u64,
    },
    /// The guest or the program ended before its first test.
    #[error("the guest or program ended before its first test: {0}")]
    NotUp(End),
    /// A line of the input cannot be parsed as a test.
    #[error("line {line} is not a test: {source}")]
    NoTest {
        /// The line's number, from 1.
        line: usize,
        /// The parser's error.
        source: serde_json::Error,
    },
}

impl CheckError {
    /// The error for a QEMU whose calibration failed.
    pub(crate) fn uncalibrated(emulator: &Emulator, fault: Fault) -> CheckError {
        let version = emulator.version().unwrap_or_default();
        let remedy = "choose another QEMU with KNEE_QEMU";
        CheckError::Calibration { qemu: format!("QEMU {version}"), fault, remedy }
    }
}
