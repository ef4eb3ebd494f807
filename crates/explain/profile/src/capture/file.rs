//! The file of a capture.

use std::io;
use std::path::{Path, PathBuf};

use knee_host::RegularFile;
use knee_host::json::{Head, fault_in_file, with_one_line_strings};
use knee_host::text::escape_json;

use super::size::Size;
use super::{Capture, SCHEMA};

/// The longest time in a capture, in seconds: 10,000 CPUs for a year. Costs are computed from times, and must be
/// finite.
const LONGEST: f64 = 3.2e11;

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened or read.
    #[error("{}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The file is not a valid capture.
    #[error("{}: {reason}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl Capture {
    /// The content of its file.
    pub fn to_json(&self) -> Vec<u8> {
        let json = serde_json::to_string(self).expect("a capture is plain data");
        format!("{}\n", escape_json(&json)).into_bytes()
    }

    /// Reads a file with the content of [`Capture::to_json`].
    ///
    /// # Errors
    /// [`CaptureError`] states what is wrong with the file.
    pub fn open(path: &Path) -> Result<Capture, CaptureError> {
        let failed = |error| CaptureError::File { path: path.to_owned(), error };
        let text = RegularFile::at(path).read().map_err(|error| failed(error.into()))?;
        Capture::parse(&text)
            .map_err(|reason| CaptureError::Content { path: path.to_owned(), reason })
    }

    /// Reads the text of a capture, and checks that all its indices are valid.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn parse(text: &[u8]) -> Result<Capture, String> {
        let capture = serde_json::from_slice(&with_one_line_strings(text));
        let capture: Capture = capture.map_err(|error| why_not(text, &error))?;
        if capture.schema != SCHEMA {
            return Err(other_schema(capture.schema.into(), SCHEMA));
        }
        capture.check()?;
        Ok(capture)
    }

    fn check(&self) -> Result<(), String> {
        let damaged = |what: &str, place: usize| {
            Err(format!(
                "{what} {place} refers to an entry that does not exist: the file is damaged; \
                 record it again"
            ))
        };
        for (place, stack) in self.stacks.iter().enumerate() {
            let is_child = stack.parent.is_none_or(|parent| (parent as usize) < place);
            if !is_child || stack.function as usize >= self.functions.len() {
                return damaged("stack", place);
            }
        }
        for (place, count) in self.counts.iter().enumerate() {
            let is_stack = count.stack.is_none_or(|stack| (stack as usize) < self.stacks.len());
            if !is_stack || count.program as usize >= self.programs.len() {
                return damaged("count", place);
            }
        }
        self.check_size()?;
        let sum = |of: fn(&super::Count) -> u64| {
            self.counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(of(count)))
        };
        if sum(|count| count.samples).is_none() || sum(|count| count.weight).is_none() {
            return Err("its counts overflow: the file is damaged; record it again".to_owned());
        }
        let mut times = [self.seconds, self.cpu_seconds].into_iter().flatten();
        if !times.all(|seconds| (0.0..=LONGEST).contains(&seconds)) {
            return Err("its times are impossible: the file is damaged; record it again".to_owned());
        }
        Ok(())
    }
}

impl Capture {
    /// Checks that the stacks can be printed. All indices must be valid.
    fn check_size(&self) -> Result<(), String> {
        // A parent precedes its children.
        let mut sizes: Vec<Size> = Vec::with_capacity(self.stacks.len());
        for stack in &self.stacks {
            let above = stack.parent.map_or(Size::default(), |parent| sizes[parent as usize]);
            sizes.push(above.calling(&self.functions[stack.function as usize].name));
        }
        let all = self.counts.iter().fold(Size::default(), |all, count| {
            let stack = count.stack.map_or(Size::default(), |stack| sizes[stack as usize]);
            all.and(stack.in_program(&self.programs[count.program as usize]))
        });
        let limits = [
            ("functions", all.functions, Size::MOST.functions),
            ("bytes of names", all.bytes, Size::MOST.bytes),
        ];
        match limits.into_iter().find(|(_, found, most)| found > most) {
            None => Ok(()),
            Some((what, found, most)) => Err(format!(
                "its stacks have {found} {what}, and knee reads at most {most}; sample for a shorter time, or \
                 with a lower frequency (-F)"
            )),
        }
    }
}

/// The reason why a text could not be read as a capture.
fn why_not(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "it is truncated; record it again".to_owned();
    }
    match Head::of(text) {
        Ok(Head { schema: Some(schema), .. }) if schema != u64::from(SCHEMA) => {
            other_schema(schema, SCHEMA)
        }
        Ok(Head { schema: None, .. }) => {
            "this is not a capture of knee profile: it has no schema".to_owned()
        }
        _ => format!("this is not a capture of knee profile: {}", fault_in_file(error)),
    }
}

/// The error for a file with another schema.
pub(crate) fn other_schema(found: u64, read: u32) -> String {
    format!(
        "it has schema {found}, but this version of knee reads {read}; use the version that \
        wrote it"
    )
}
