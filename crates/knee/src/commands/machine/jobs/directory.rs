//! The directory of `knee jobs run`. It contains these files:
//!
//! * `list`: the jobs, a line each. The number of a job is the number of its line.
//! * `job`: the script that runs a job. Every engine uses it.
//! * `jobs/NUMBER.log`: the output of a job.
//! * `jobs/NUMBER.status`: how the job ended. A job without this file has not ended.
//! * `results`: the directory to which the jobs write, as `$KNEE_OUT`.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use knee_host::LockFile;
use knee_host::fixed::{self, Readers};
use knee_host::process::last_line;
use knee_host::regular_file::RegularFile;

use super::{list, received};
use crate::exit::{bail_usage, ensure_usage};
use crate::file::write;
use crate::present::jobs::End;

/// The script that runs a job.
pub(super) const SCRIPT: &str = include_str!("job.sh");

const LIST: &str = "list";
const JOB: &str = "job";
const JOBS: &str = "jobs";
const RESULTS: &str = "results";
/// How much of the end of a log is read for its last line.
const TAIL: u64 = 4 << 10;
/// The largest status file that is read.
const MOST_STATUS: u64 = 4 << 10;
/// The times that a clock can show, in seconds: at most the year 5138.
const TIMES: RangeInclusive<f64> = 0.0..=1e11;
/// The longest name of a machine, in bytes (`HOST_NAME_MAX` in limits.h(0p)).
const LONGEST_MACHINE: usize = 64;

/// A directory of jobs that this process writes.
pub(super) struct Directory {
    path: PathBuf,
    commands: Vec<String>,
    _lock: LockFile,
}

impl Directory {
    /// Opens the directory at `path`. With `resume`, it may contain jobs, which must be those of the list, if
    /// there is a list.
    pub(super) fn open(
        path: &Path,
        listed: Option<Vec<String>>,
        resume: bool,
    ) -> anyhow::Result<Self> {
        let name = path.display();
        let has_none = || anyhow!("{name} contains no jobs; name a list of jobs");
        if listed.is_none() && !path.exists() {
            return Err(has_none());
        }
        // Whoever can change the script, the list or a link on the way to them can run commands as this user. What
        // follows uses the real path, which nobody else can change.
        let path = &fixed::create(path, Readers::All)?;
        let has_jobs = path.join(LIST).exists();
        ensure_usage!(
            resume || !has_jobs,
            "{name} already contains jobs; continue them with --resume, or name another directory"
        );
        let is_other = !has_jobs && fs::read_dir(path).is_ok_and(|mut dir| dir.next().is_some());
        ensure_usage!(
            !is_other,
            "{name} is not empty and contains no jobs; name another directory"
        );
        let commands = match (has_jobs, listed) {
            (false, None) => return Err(has_none()),
            (false, Some(listed)) => listed,
            (true, listed) => same_jobs(path, listed)?,
        };
        for dir in [JOBS, RESULTS] {
            fixed::create(&path.join(dir), Readers::All)?;
        }
        let lock = LockFile::take(path).with_context(|| format!("cannot lock {name}"))?;
        let Some(lock) = lock else {
            bail_usage!("another knee process runs the jobs of {name}; wait until it ends");
        };
        received::delete_unchecked(path);
        if !has_jobs {
            write(&path.join(LIST), (commands.join("\n") + "\n").as_bytes())?;
        }
        write(&path.join(JOB), SCRIPT.as_bytes())?;
        Ok(Self { path: path.clone(), commands, _lock: lock })
    }

    /// Its absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn list(&self) -> PathBuf {
        self.path.join(LIST)
    }

    pub(super) fn script(&self) -> PathBuf {
        self.path.join(JOB)
    }

    /// The numbers of the jobs, from 1, and their commands.
    pub(super) fn jobs(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.commands.iter().map(String::as_str))
    }

    /// How a job ended, if it has.
    pub(super) fn end(&self, job: usize) -> Option<End> {
        end(&file_of_job(&self.file(job, "status")).at_most(MOST_STATUS).read_to_string().ok()?)
    }

    /// Whether a job has ended with status 0.
    pub(super) fn is_done(&self, job: usize) -> bool {
        self.end(job).is_some_and(|end| end.status == 0)
    }

    /// Removes the status of an earlier attempt.
    pub(super) fn forget(&self, job: usize) -> anyhow::Result<()> {
        let file = self.file(job, "status");
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", file.display()))
            }
            _ => Ok(()),
        }
    }

    /// The last line that a job printed.
    pub(super) fn last_line(&self, job: usize) -> Option<String> {
        let mut log = file_of_job(&self.file(job, "log")).open().ok()?;
        let length = log.metadata().ok()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
        let mut tail = Vec::new();
        log.take(TAIL).read_to_end(&mut tail).ok()?;
        last_line(&tail)
    }

    /// What a job writes: paths in the directory. The status is last, because it says that the others are there.
    pub(super) fn written_by(job: usize) -> [PathBuf; 3] {
        [RESULTS.into(), file(job, "log"), file(job, "status")]
    }

    fn file(&self, job: usize, kind: &str) -> PathBuf {
        self.path.join(file(job, kind))
    }
}

/// The path of a file of a job, in the directory.
fn file(job: usize, kind: &str) -> PathBuf {
    Path::new(JOBS).join(format!("{job}.{kind}"))
}

/// A file of a job. It may come from an archive that another host has made, and be a FIFO.
fn file_of_job(path: &Path) -> RegularFile<'_> {
    RegularFile::at(path).without_links()
}

/// The jobs of a directory, which must be those of the list, if there is a list.
fn same_jobs(path: &Path, listed: Option<Vec<String>>) -> anyhow::Result<Vec<String>> {
    // The commands run as this user, so no other user may have written them.
    let file = path.join(LIST);
    RegularFile::at(&file)
        .own()
        .open()
        .with_context(|| format!("cannot read {}", file.display()))?;
    let here = list::read(&file)?;
    let Some(listed) = listed else { return Ok(here) };
    let name = path.display();
    let (a, b) = (here.len(), listed.len());
    ensure_usage!(a == b, "{name} contains {a} jobs, but the list has {b}; name another directory");
    if let Some(nr) = (0..a).find(|&nr| here[nr] != listed[nr]) {
        bail_usage!(
            "{name} contains other jobs: job {} is `{}`, not `{}`; name another directory",
            nr + 1,
            here[nr],
            listed[nr]
        );
    }
    Ok(here)
}

/// Parses the content of a status file, which another host may have written. A file that is cut off has no newline at its
/// end.
fn end(text: &str) -> Option<End> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    let (status, begun, ended, machine) =
        (words.next()?, words.next()?, words.next()?, words.next()?);
    // A `date` without nanoseconds prints %N as it is.
    let seconds = |time: &str| {
        time.trim_end_matches(".%N").parse::<f64>().ok().filter(|seconds| TIMES.contains(seconds))
    };
    let seconds = (seconds(ended)? - seconds(begun)?).max(0.0);
    let status: u8 = status.parse().ok()?;
    let is_name = machine.len() <= LONGEST_MACHINE;
    is_name.then(|| End { status: status.into(), seconds, machine: machine.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use knee_host::skip::skip;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use rustix::process::geteuid;

    use super::*;

    #[test]
    fn a_status_file_that_is_cut_off_is_not_the_end_of_a_job() {
        let whole = "0 10.25 12.5 alpha\n";
        let read = end(whole).unwrap();
        assert_eq!((read.status, read.seconds, read.machine.as_str()), (0, 2.25, "alpha"));
        for length in 0..whole.len() {
            assert!(end(&whole[..length]).is_none(), "{length}");
        }
        assert!(end("0 0 inf alpha\n").is_none() && end("0 NaN 1 alpha\n").is_none());
        let long = format!("0 1 2 {}\n", "x".repeat(65));
        for other in ["0 0 1.7e308 a\n", "1 -1e308 1e308 a\n", "-2147483648 0 1 a\n", &long] {
            assert!(end(other).is_none(), "{other}");
        }
        assert_eq!(end("3 10.%N 11.%N beta\n").unwrap().seconds, 1.0);
    }

    /// A new directory at `path` with one job.
    fn with_a_job(path: &Path) -> anyhow::Result<Directory> {
        Directory::open(path, Some(vec!["true".to_owned()]), false)
    }

    #[test]
    fn a_status_or_log_that_is_not_a_regular_file_is_not_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = with_a_job(&scratch.path().join("out")).unwrap();
        let elsewhere = scratch.path().join("elsewhere");
        fs::write(&elsewhere, "0 10.25 12.5 alpha\n").unwrap();
        let [status, log] = ["status", "log"].map(|kind| directory.file(1, kind));
        for file in [&status, &log] {
            symlink(&elsewhere, file).unwrap();
        }
        assert!(!directory.is_done(1) && directory.last_line(1).is_none());
        for file in [&status, &log] {
            fs::remove_file(file).unwrap();
            mkfifoat(CWD, file, Mode::RUSR | Mode::WUSR).unwrap();
        }
        // An open FIFO without a writer would never end.
        assert!(!directory.is_done(1) && directory.last_line(1).is_none());
    }

    #[test]
    fn a_link_of_another_user_leads_to_no_directory_of_jobs() {
        if !geteuid().is_root() {
            return skip("root", "only root can give a link to another user");
        }
        let scratch = tempfile::tempdir().unwrap();
        let [own, link] = ["own", "link"].map(|name| scratch.path().join(name));
        fs::create_dir(&own).unwrap();
        symlink(&own, &link).unwrap();
        lchown(&link, Some(65534), None).unwrap();
        let refused = with_a_job(&link).map(drop).unwrap_err().to_string();
        assert!(refused.contains("it belongs to user 65534"), "{refused}");
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
        // Nor does a link on the way, before and after which the path is missing.
        let refused = with_a_job(&link.join("out")).map(drop).unwrap_err().to_string();
        assert!(refused.contains("it belongs to user 65534"), "{refused}");
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
    }

    #[test]
    fn a_link_to_a_directory_of_jobs_leads_elsewhere_only_for_its_owner() {
        let scratch = tempfile::tempdir().unwrap();
        let [own, link] = ["own", "link"].map(|name| scratch.path().join(name));
        fs::create_dir(&own).unwrap();
        symlink(&own, &link).unwrap();
        let directory = with_a_job(&link).unwrap();
        // Another link now would not change where the jobs run.
        assert_eq!(directory.path(), own.canonicalize().unwrap());
    }
}
