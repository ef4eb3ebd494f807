//! Which kind of results a file has, and reading it.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use knee_host::RegularFile;

use crate::results::{RUN_FILE, Results, ResultsError};
use crate::{csv, will_it_scale};

/// How much of a file to read to detect its format.
const START_BYTES: u64 = 4096;

/// The format of the results in a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A record of `knee run`.
    Record,
    /// A CSV file of will-it-scale's runtest.py, or a directory of them.
    Csv,
    /// What a binary of will-it-scale printed, once or several times.
    WillItScale,
}

impl Kind {
    /// Detects the format of `path`; `None` for plain numbers and everything else.
    pub fn of(path: &Path) -> Result<Option<Self>, ResultsError> {
        let failed = |error| ResultsError::Io { path: path.to_owned(), error };
        if path.is_dir() {
            if path.join(RUN_FILE).exists() {
                return Ok(Some(Self::Record));
            }
            let csv = !csv::files(path).map_err(failed)?.is_empty();
            return Ok(csv.then_some(Self::Csv));
        }
        if path.file_name().is_some_and(|name| name == RUN_FILE) {
            return Ok(Some(Self::Record));
        }
        if !path.is_file() {
            return Ok(None);
        }
        let [first, second] = first_lines(path).map_err(failed)?;
        // Plain numbers may begin with a comment too, but not with that header after it.
        let named = first.starts_with('#') && csv::is_header(&second);
        Ok(match first.as_str() {
            line if csv::is_header(line) || named => Some(Self::Csv),
            line if will_it_scale::is_header(line) => Some(Self::WillItScale),
            _ => None,
        })
    }
}

impl Results {
    /// Reads what will-it-scale printed, as CSV or not.
    ///
    /// # Errors
    /// The error names the file and the place. Missing measurements are marked as gaps and cause no
    /// error. This function does not read records.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        match Kind::of(path)? {
            Some(Kind::Csv) => csv::read(path),
            Some(Kind::WillItScale) => will_it_scale::read(path),
            Some(Kind::Record) | None if path.exists() => {
                Err(ResultsError::Unknown { path: path.to_owned() })
            }
            Some(Kind::Record) | None => Err(ResultsError::Missing { path: path.to_owned() }),
        }
    }
}

/// The first two lines, as far as they are text. Reads only as much as necessary from a file
/// without lines.
fn first_lines(path: &Path) -> io::Result<[String; 2]> {
    let mut start = BufReader::new(RegularFile::at(path).open()?.take(START_BYTES));
    let mut line = || -> io::Result<String> {
        let mut line = Vec::new();
        start.read_until(b'\n', &mut line)?;
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    };
    Ok([line()?, line()?])
}
