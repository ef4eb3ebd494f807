//! Memory that knee shares with the agent in a guest. Its layout is documented in the crate knee-plan.

use std::io;

use knee_plan::{Plan, Report, Word, channel, longest_reports, reports};

use crate::error::GuestError;
use crate::guest::Guest;
use crate::ram::Ram;

/// The room for the text of /proc/kallsyms, in bytes. For a large kernel with modules, this text is
/// 12 MB long.
const SYMBOLS_BYTES: usize = 32 << 20;

/// The host's end of the channel. The host writes the plans; the guest adds reports and the
/// kernel's symbols. The guest's data may be invalid.
#[derive(Debug)]
pub(crate) struct Channel {
    ram: Ram,
    /// The channel's offset in `ram`, in bytes.
    at: u64,
    /// How many bytes of reports have been read.
    read: usize,
    /// The maximum length of each report that has not been read.
    due: Vec<usize>,
}

impl Channel {
    /// Creates a channel that contains these plans and has room for the symbols of Linux. It has memory of
    /// its own.
    pub(crate) fn new(plans: &[&Plan]) -> Result<Channel, GuestError> {
        let (content, bytes) = channel(plans, SYMBOLS_BYTES);
        let failed = GuestError::system("allocate memory for a guest");
        let ram = Ram::new("knee-channel", bytes.next_power_of_two() as u64).map_err(&failed)?;
        ram.write(0, &content).map_err(&failed)?;
        Ok(Channel { ram, at: 0, read: 0, due: longest_reports(plans) })
    }

    /// The channel in a guest's own memory, at address `at`. The guest was started with the content of a
    /// channel with these plans at this address.
    pub(crate) fn of_guest(guest: &Guest, at: u64, plans: &[&Plan]) -> Channel {
        Channel { ram: guest.ram().clone(), at, read: 0, due: longest_reports(plans) }
    }

    /// The shared memory.
    pub(crate) fn ram(&self) -> Ram {
        self.ram.clone()
    }

    /// The number of tests that the guest has begun.
    pub(crate) fn begun(&self) -> Result<usize, GuestError> {
        self.word(Word::Begun)
    }

    /// The reports that have arrived since the last call.
    ///
    /// # Errors
    /// The reports cannot be read, or are longer than the plans permit.
    pub(crate) fn reports(&mut self) -> Result<Vec<Report>, GuestError> {
        let reported = self.word(Word::Reported)?;
        let Some(new) = reported.checked_sub(self.read).filter(|new| *new > 0) else {
            return Ok(Vec::new());
        };
        if new > self.due.iter().sum() {
            return Err(GuestError::TooMany("results"));
        }
        let bytes = self.bytes(self.word(Word::ReportsAt)?.saturating_add(self.read), new)?;
        self.read = reported;
        let arrived = reports(&bytes, &self.due);
        self.due.drain(..arrived.len());
        Ok(arrived)
    }

    /// The text of the guest's `/proc/kallsyms`.
    pub(crate) fn kallsyms(&self) -> Result<String, GuestError> {
        let text = self.bytes(self.word(Word::SymbolsAt)?, self.word(Word::Symbols)?)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Tells a paused guest whether to run the same test again.
    pub(crate) fn set_run_again(&self, again: bool) -> Result<(), GuestError> {
        let failed = GuestError::system("ask for another run of a test");
        self.ram
            .write(self.at + Word::Again.at() as u64, &u64::from(again).to_le_bytes())
            .map_err(failed)
    }

    fn word(&self, word: Word) -> Result<usize, GuestError> {
        let mut bytes = [0; 8];
        self.ram.read(self.at + word.at() as u64, &mut bytes).map_err(read_error)?;
        Ok(u64::from_le_bytes(bytes) as usize)
    }

    fn bytes(&self, at: usize, count: usize) -> Result<Vec<u8>, GuestError> {
        let mut bytes = vec![0; count.min(self.ram.bytes() as usize)];
        self.ram.read(self.at.saturating_add(at as u64), &mut bytes).map_err(read_error)?;
        Ok(bytes)
    }
}

fn read_error(source: io::Error) -> GuestError {
    GuestError::System { what: "read what the guest reports", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_numbers_in_the_header_are_errors() {
        let mut channel = Channel::new(&[]).unwrap();
        assert_eq!(channel.kallsyms().unwrap(), "");
        assert_eq!((channel.begun().unwrap(), channel.reports().unwrap().len()), (0, 0));
        for word in [Word::Symbols, Word::Reported] {
            channel.ram.write(word.at() as u64, &[0xff; 8]).unwrap();
        }
        assert!(channel.kallsyms().is_err());
        assert!(channel.reports().is_err());
    }

    #[test]
    fn reports_that_are_longer_than_the_plans_permit_are_an_error() {
        let plan = Plan { steps: Vec::new(), calls: Vec::new(), orders: Vec::new() };
        let mut channel = Channel::new(&[&plan]).unwrap();
        let longest = longest_reports(&[&plan])[0] as u64;
        let report = |channel: &mut Channel, bytes: u64| {
            channel.ram.write(Word::Reported.at() as u64, &bytes.to_le_bytes()).unwrap();
            channel.reports().map(|reports| reports.len())
        };
        assert!(matches!(report(&mut channel, longest + 1), Err(GuestError::TooMany(_))));
        assert_eq!(report(&mut channel, longest).unwrap(), 0, "the report is empty");
    }
}
