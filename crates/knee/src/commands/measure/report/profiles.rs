//! Captures and lock waits of `knee profile` on the page.

use std::path::{Path, PathBuf};

use knee_host::RegularFile;
use knee_host::json::has_fields;
use knee_profile::Capture;
use knee_profile::capture::Work;
use knee_profile::growth::{growth, table};
use knee_profile::locks::{self, LockWaits};
use knee_profile::view::flame::{SCRIPT, STYLE, flame};
use knee_report::{Growth, Page, Profile, Waits};
use knee_results::PointId;
use knee_run::job::Command;

use crate::exit::{bail_usage, usage};
use crate::present::profile::{lock_waits, summary};

/// Maximum rows of a table of functions or lock sites on a page.
const SHOWN: usize = 10;

/// Captures and lock waits.
#[derive(Default)]
pub(super) struct Profiles {
    captures: Vec<PathBuf>,
    waits: Vec<(PathBuf, LockWaits)>,
}

impl Profiles {
    /// Adds the JSON file `path`. Returns `false` if it is neither a capture nor lock waits.
    pub(super) fn add(&mut self, path: &Path) -> anyhow::Result<bool> {
        if is_capture(path) {
            self.captures.push(path.to_owned());
        } else if let Some(waits) = lock_waits(path)? {
            self.waits.push((path.to_owned(), waits));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Adds all of them to the page, beside the curves of their testcases.
    pub(super) fn put(&self, page: &mut Page) -> anyhow::Result<()> {
        put_captures(&self.captures, page)?;
        put_waits(&self.waits, page)
    }
}

/// Whether a JSON file is a capture.
fn is_capture(path: &Path) -> bool {
    // A key can be as long as the file, so this reads no more of it than `Capture::open` does.
    let text = RegularFile::at(path).read();
    text.is_ok_and(|text| has_fields(&text, &["stacks", "functions"]))
}

/// Adds captures to the page.
fn put_captures(paths: &[PathBuf], page: &mut Page) -> anyhow::Result<()> {
    let mut captures = Vec::new();
    for path in paths {
        let capture = Capture::open(path)?;
        let work = capture.work.as_ref();
        has_curve(page, path, work, &capture.title)?;
        captures.push(capture);
    }
    let key = |capture: &Capture| capture.work.as_ref().map(|work| work.point.clone());
    captures.sort_by_key(key);
    if let Some(pair) = captures.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
        bail_usage!("there are two captures of the point {}; name only one of them", pair[0].title);
    }
    page.profiles = captures.iter().filter_map(profile).collect();
    let is_same = |a: &Capture, b: &Capture| {
        let (a, b) = (key(a), key(b));
        a.zip(b).is_some_and(|(a, b)| (a.case, a.mode) == (b.case, b.mode))
    };
    for of_one in captures.chunk_by(is_same) {
        if let (Ok(growth), Some(work)) = (growth(of_one), &of_one[0].work) {
            let table = table(&growth, SHOWN).to_string();
            let PointId { case, mode, .. } = work.point.clone();
            page.growths.push(Growth { case, mode, table });
        }
    }
    Ok(())
}

/// Adds tables of lock waits to the page.
fn put_waits(all: &[(PathBuf, LockWaits)], page: &mut Page) -> anyhow::Result<()> {
    for (path, waits) in all {
        let point = has_curve(page, path, waits.work.as_ref(), &waits.title)?.point.clone();
        page.waits.push(Waits { point, table: locks::table(waits, SHOWN).to_string() });
    }
    page.waits.sort_by_key(|waits| waits.point.tasks);
    Ok(())
}

/// Returns `work`, or an error if the page has no curve for it, or a curve of another command with the same name.
fn has_curve<'a>(
    page: &Page,
    path: &Path,
    work: Option<&'a Work>,
    title: &str,
) -> anyhow::Result<&'a Work> {
    let is_of = |work: &&Work| {
        let mut curves = page.curves.iter();
        curves.any(|curve| {
            curve.measured.case == work.point.case && curve.measured.mode == work.point.mode
        })
    };
    let work = work.filter(is_of).ok_or_else(|| {
        let what = work
            .map_or(title.to_owned(), |work| format!("{} as {}", work.point.case, work.point.mode));
        usage(format!(
            "{}: this is a profile of {what}, but no run on the page measured this curve; add a \
             run that measured it",
            path.display()
        ))
    })?;
    // CSV files do not contain the commands. The page has the commands of its first run alone.
    let measured = page.cases.get(&work.point.case).filter(|_| page.runs.len() == 1);
    let measured = measured.and_then(|case| {
        let read = case.settings.get("--read").map(String::as_str);
        Some(Command::typed(case.settings.get("command")?, read))
    });
    match (&work.command, measured) {
        (Some(sampled), Some(measured)) if *sampled != measured => bail_usage!(
            "{}: this profile is of another command than the run; profile: {sampled}; run: {measured}",
            path.display()
        ),
        _ => Ok(work),
    }
}

fn profile(capture: &Capture) -> Option<Profile> {
    Some(Profile {
        point: capture.work.as_ref()?.point.clone(),
        summary: summary(capture).trim_end().to_owned(),
        flame: flame(capture),
        style: STYLE,
        script: SCRIPT,
    })
}
