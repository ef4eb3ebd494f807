//! Where the cycles of a testcase go: tables of growing costs and of lock waits, and a flame graph
//! for each sampled point.

use knee_host::number::tasks;
use knee_results::{CaseId, Mode, PointId};
use maud::{Markup, PreEscaped, html};

use super::fragment::fragment;
use crate::model::{Page, Profile};

/// The flame graphs of a testcase, which the reader can open.
pub(super) fn flames(page: &Page, case: &CaseId) -> Markup {
    html! {
        @for profile in page.profiles.iter().filter(|profile| profile.point.case == *case) {
            details.data.flame-of id=(id(profile)) {
                summary { "Flame graph: " (profile.point.mode.as_str()) ", " (tasks(profile.point.tasks)) }
                p.note { (profile.summary) }
                // From knee-profile, which escapes all names in it.
                (PreEscaped(&profile.flame))
            }
        }
    }
}

/// Growing costs and lock waits of a testcase in a mode, and links to its flame graphs.
pub(super) fn beside_knee(page: &Page, case: &CaseId, mode: Mode) -> Markup {
    let is_here = |point: &PointId| point.case == *case && point.mode == mode;
    let graphs: Vec<&Profile> =
        page.profiles.iter().filter(|profile| is_here(&profile.point)).collect();
    html! {
        @for growth in page.growths.iter().filter(|g| g.case == *case && g.mode == mode) {
            p.note { "Functions whose cost per iteration grows with the task count:" }
            pre.growth tabindex="0" { (growth.table) }
        }
        @for waits in page.waits.iter().filter(|waits| is_here(&waits.point)) {
            p.note { "Waits for kernel locks, " (tasks(waits.point.tasks)) ":" }
            pre.growth tabindex="0" { (waits.table) }
        }
        @if !graphs.is_empty() {
            p.note {
                "Where the cycles go:"
                @for profile in graphs {
                    " " a href={ "#" (id(profile)) } { (tasks(profile.point.tasks)) }
                }
            }
        }
    }
}

fn id(profile: &Profile) -> String {
    let PointId { case, mode, tasks } = &profile.point;
    format!("flame={}&mode={mode}&tasks={tasks}", fragment(&case.to_string()))
}
