//! Captures of `knee profile` among what is to be shown.

use std::path::{Path, PathBuf};

use knee_profile::Capture;
use knee_profile::capture::Work;
use knee_profile::growth::{growth, table};
use knee_profile::locks::{self, LockWaits};
use knee_profile::view::flame::{SCRIPT, STYLE, flame};
use knee_report::{Growth, Page, Profile, Waits};
use knee_results::{CaseId, Mode};

use crate::exit::usage;
use crate::present::profile::summary;

/// Functions and sites that a table shows on a page.
const SHOWN: usize = 10;

/// Whether a file of JSON is a capture.
pub(super) fn is_capture(path: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Head {
        #[serde(rename = "stacks")]
        _stacks: serde::de::IgnoredAny,
        #[serde(rename = "functions")]
        _functions: serde::de::IgnoredAny,
    }
    let file = std::fs::File::open(path).map(std::io::BufReader::new);
    file.is_ok_and(|file| serde_json::from_reader::<_, Head>(file).is_ok())
}

/// Puts captures beside the curves of their testcases.
pub(super) fn put(paths: &[PathBuf], page: &mut Page) -> anyhow::Result<()> {
    let mut captures = Vec::new();
    for path in paths {
        let capture = Capture::open(path)?;
        let work = capture.work.as_ref();
        has_curve(page, path, work, &capture.title)?;
        captures.push(capture);
    }
    let key = |capture: &Capture| {
        capture.work.as_ref().map(|work| (work.testcase.clone(), work.mode.clone(), work.tasks))
    };
    captures.sort_by_key(key);
    if let Some(pair) = captures.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
        return Err(usage(format!("two captures are of {}: name one of them", pair[0].title)));
    }
    page.profiles = captures.iter().filter_map(profile).collect();
    let is_same = |a: &Capture, b: &Capture| {
        let (a, b) = (key(a), key(b));
        a.zip(b).is_some_and(|(a, b)| (a.0, a.1) == (b.0, b.1))
    };
    for of_one in captures.chunk_by(is_same) {
        if let (Ok(growth), Some(work)) = (growth(of_one), &of_one[0].work) {
            let table = table(&growth, SHOWN).to_string();
            page.growths.push(Growth {
                case: CaseId::from_record(&work.testcase).to_string(),
                mode: mode(&work.mode),
                table,
            });
        }
    }
    Ok(())
}

/// Puts tables of lock waits there.
pub(super) fn put_waits(all: &[(PathBuf, LockWaits)], page: &mut Page) -> anyhow::Result<()> {
    for (path, waits) in all {
        let work = has_curve(page, path, waits.work.as_ref(), &waits.title)?;
        page.waits.push(Waits {
            case: CaseId::from_record(&work.testcase).to_string(),
            mode: mode(&work.mode),
            tasks: work.tasks,
            table: locks::table(waits, SHOWN).to_string(),
        });
    }
    page.waits.sort_by_key(|waits| waits.tasks);
    Ok(())
}

/// What got done, of which the page has a curve.
fn has_curve<'a>(
    page: &Page,
    path: &Path,
    work: Option<&'a Work>,
    title: &str,
) -> anyhow::Result<&'a Work> {
    let is_of = |work: &&Work| {
        let mut curves = page.curves.iter();
        let case = CaseId::from_record(&work.testcase);
        curves.any(|curve| curve.measured.case == case && curve.mode() == mode(&work.mode))
    };
    work.filter(is_of).ok_or_else(|| {
        let what =
            work.map_or(title.to_owned(), |work| format!("{} as {}", work.testcase, work.mode));
        usage(format!(
            "{}: it is of {what}, which none of the runs has: name a run that does",
            path.display()
        ))
    })
}

fn profile(capture: &Capture) -> Option<Profile> {
    let work = capture.work.as_ref()?;
    Some(Profile {
        case: CaseId::from_record(&work.testcase).to_string(),
        mode: mode(&work.mode),
        tasks: work.tasks,
        summary: summary(capture).trim_end().to_owned(),
        flame: flame(capture),
        style: STYLE,
        script: SCRIPT,
    })
}

fn mode(name: &str) -> Mode {
    if name == Mode::Threads.as_str() { Mode::Threads } else { Mode::Processes }
}
