//! What an observer, such as a profiler, learns of a round of a server.

use std::io;

/// Follows a round of a server.
pub trait RoundObserver {
    /// The server is ready and filled. It consists of the descendants of the process `root`.
    ///
    /// # Errors
    /// Ends the round.
    fn ready(&mut self, _root: i32) -> io::Result<()> {
        Ok(())
    }

    /// The measured part of the load begins.
    ///
    /// # Errors
    /// Ends the round.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Called again and again in the measured part of the load.
    ///
    /// # Errors
    /// Ends the round.
    fn measuring(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The measured part of the load has ended.
    ///
    /// # Errors
    /// Ends the round.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ignores all events.
impl RoundObserver for () {}
