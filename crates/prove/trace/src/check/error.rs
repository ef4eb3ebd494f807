//! Why tests were not checked.

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
    /// This QEMU reported sharing that did not happen, or missed sharing that did.
    #[error("{qemu} failed its calibration: {fault}. Its verdicts cannot be trusted; {remedy}")]
    Calibration {
        /// The QEMU.
        qemu: String,
        /// The trial with the wrong result.
        fault: Fault,
        /// What to do.
        remedy: &'static str,
    },
    /// The guest or the program ended before its first test.
    #[error("the guest or program ended before its first test: {0}")]
    NotUp(End),
    /// A line is not a test.
    #[error("line {line} is not a test: {source}")]
    NoTest {
        /// Its number, from 1.
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
