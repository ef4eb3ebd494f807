//! A list of jobs: a shell command per line. Empty lines and lines that begin with `#` are ignored.

use std::path::Path;

use anyhow::Context;
use knee_host::regular_file::{read_named, read_whole};

/// Maximum number of jobs. A Kubernetes job with retries per index has at most as many indexes, and
/// Slurm's default configuration holds 10,000.
pub(super) const MAX_JOBS: usize = 100_000;

/// Name of standard input.
pub(super) const STDIN: &str = "-";

/// Reads the jobs of a list; `-` is standard input.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    let (name, content) = match path == Path::new(STDIN) {
        true => ("standard input".to_owned(), read_whole(std::io::stdin())),
        false => (path.display().to_string(), read_named(path)),
    };
    let content = content.with_context(|| format!("cannot read {name}"))?;
    let text = String::from_utf8(content);
    let text = text.ok().filter(|text| !text.contains('\0'));
    let text =
        text.with_context(|| format!("{name} is not a list of jobs: it is not UTF-8 text"))?;
    let jobs = commands(&text);
    anyhow::ensure!(!jobs.is_empty(), "{name} contains no jobs; write a shell command per line");
    anyhow::ensure!(
        jobs.len() <= MAX_JOBS,
        "{name} has more than {MAX_JOBS} jobs; split it into several lists"
    );
    Ok(jobs)
}

/// The commands in a list, up to the first one that is too many.
fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let jobs = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    jobs.take(MAX_JOBS + 1).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{MAX_JOBS, commands};

    #[test]
    fn empty_lines_and_comments_are_ignored() {
        let text = "# shards\n\n  echo 1 # no comment of the list\r\n\t\n  #echo 2\necho 3";
        assert_eq!(commands(text), ["echo 1 # no comment of the list", "echo 3"]);
    }

    #[test]
    fn a_list_with_too_many_jobs_is_read_only_up_to_the_first_excess_job() {
        assert_eq!(commands(&"a\n".repeat(2 * MAX_JOBS)).len(), MAX_JOBS + 1);
    }
}
