//! What an observer, such as a profiler, learns of a round of a server or a command.

use std::io;

/// Follows a round of a server or a command.
pub trait RoundObserver {
    /// The server is ready and filled, or the command is about to run. It consists of the processes `roots` with
    /// their descendants.
    ///
    /// # Errors
    /// Ends the round.
    fn ready(&mut self, _roots: &[i32]) -> io::Result<()> {
        Ok(())
    }

    /// The measured part of the load begins, or the command is about to run.
    ///
    /// # Errors
    /// Ends the round.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Called again and again in the measured part of the load, or while the command runs.
    ///
    /// # Errors
    /// Ends the round.
    fn measuring(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The measured part of the load, or the command, has ended. All processes that were ready still exist, or their
    /// parents do.
    ///
    /// # Errors
    /// Ends the round.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ignores all events.
impl RoundObserver for () {}
