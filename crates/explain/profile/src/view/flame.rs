//! Flame graphs.
//!
//! A frame is a function with its callers below it, as wide as its share of the samples. Siblings are
//! sorted by name, so that a stack is at the same place in every graph.
//! (Brendan Gregg, "The Flame Graph", Communications of the ACM 59, 2016.)
//!
//! **Colours.** In the graph of one capture, the colour shows where code runs: kernel, program, or inlined
//! into its caller. In the graph of two captures ([`difference`]), frames that take more in the second are
//! red, those that take less are blue, and larger differences have stronger colours. Frames within the
//! sampling error, with all frames considered (see [`mod@crate::diff`]), are grey. The title of each frame
//! states the same in numbers.
//!
//! **The file** is one SVG that loads nothing. Without scripts it is a static picture. With its script, click
//! or Enter zooms in and Escape zooms out. The field or Ctrl-F searches by a regular expression and shows
//! the share of samples with a match. Arrow keys move along the stacks. The graph fits the window.
//!
//! knee does not use inferno, which draws good flame graphs of one capture, because inferno colours a
//! difference by its sign and size alone, without the sampling error, and a frame by its name alone.

mod svg;

use svg::{Bar, Graph};
pub use svg::{SCRIPT, STYLE};

use super::frames::{Frame, Frames, Place, path};
use crate::capture::{Capture, Clock, Unit};
use crate::diff::{Difference, Measure, Scale};

/// The capture that sets the widths of a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Widths {
    /// The first: shows frames that the second lacks.
    Before,
    /// The second: shows frames that the first lacks.
    #[default]
    After,
}

/// The flame graph of a capture: an SVG.
pub fn flame(capture: &Capture) -> String {
    let frames = frames(&[capture]);
    let all = capture.samples();
    let width = |frame: &Frame| frame.samples.0 as f64 / all.max(1) as f64;
    let bar = |frame: &Frame| {
        let (samples, share) = (frame.samples.0, 100.0 * width(frame));
        let place = frame.place.words();
        Bar {
            class: frame.place.class().to_owned(),
            fill: None,
            title: format!("{} ({place}, {samples} samples, {share:.2}%)", frame.name),
        }
    };
    Graph {
        title: capture.title.clone(),
        subtitle: vec![about(capture)],
        legend: &[
            ("kernel", "kernel"),
            ("user", "program"),
            ("inlined", "inlined"),
            ("none", "no function"),
        ],
    }
    .draw(&frames, &width, &bar)
}

/// The flame graph of the difference between two captures: an SVG.
pub fn difference(before: &Capture, after: &Capture, widths: Widths) -> String {
    let frames = frames(&[before, after]);
    let scale = Scale::of(before, after);
    let mut differences: Vec<Difference> = (frames.iter())
        .map(|frame| Difference { samples: frame.samples, ..Difference::default() })
        .collect();
    scale.fill(differences.iter_mut().collect());
    let chosen = |(before, after): (f64, f64)| match widths {
        Widths::Before => before,
        Widths::After => after,
    };
    let difference = |frame: &Frame| &differences[frame.number];
    let width = |frame: &Frame| {
        let Difference { before, after, .. } = difference(frame);
        chosen((*before, *after)) / chosen(scale.whole)
    };
    let largest = (differences.iter().filter(|difference| difference.is_real))
        .map(|difference| difference.change().abs())
        .fold(f64::MIN_POSITIVE, f64::max);
    let same = scale.disturbed.map_or("within the sampling error", |_| "inconclusive");
    let bar = |frame: &Frame| {
        let difference = difference(frame);
        let strength = (difference.change().abs() / largest).sqrt();
        let (class, fill) = match (difference.is_real, difference.change() > 0.0) {
            (false, _) => ("same", None),
            (true, true) => ("more", Some(blend([253, 220, 214], [236, 104, 84], strength))),
            (true, false) => ("less", Some(blend([219, 233, 250], [96, 160, 230], strength))),
        };
        let verdict = if difference.is_real { String::new() } else { format!(", {same}") };
        let title = format!("{} ({}{verdict})", frame.name, words(difference, scale.measure));
        Bar { class: class.to_owned(), fill, title }
    };
    let measure = match scale.measure {
        Measure::Share => "shares of the samples",
        Measure::NanosecondsPerIteration => "CPU time per iteration",
        Measure::CyclesPerIteration => "cycles per iteration",
    };
    let side = match widths {
        Widths::Before => "before",
        Widths::After => "after",
    };
    let mut subtitle = vec![
        format!("Widths show {measure} {side}."),
        format!("Before: {}", about(before)),
        format!("After: {}", about(after)),
    ];
    subtitle.extend(
        scale.disturbed.map(|captures| format!("Inconclusive: other work disturbed {captures}.")),
    );
    Graph {
        title: format!("{} → {}", before.title, after.title),
        subtitle,
        legend: &[("more", "more"), ("less", "less"), ("same", same)],
    }
    .draw(&frames, &width, &bar)
}

/// The frames of one or two captures. Siblings are ordered by name.
fn frames<'a>(captures: &[&'a Capture]) -> Vec<Frame<'a>> {
    let mut frames = Frames::new("all");
    for (side, capture) in captures.iter().enumerate() {
        for count in &capture.counts {
            let samples = if side == 0 { (count.samples, 0) } else { (0, count.samples) };
            frames.add(path(capture, count, Place::of).into_iter().rev(), samples);
        }
    }
    frames.sorted(|a, b| (a.name, a.place).cmp(&(b.name, b.place)))
}

/// A difference in words.
fn words(difference: &Difference, measure: Measure) -> String {
    let (factor, unit) = measure.unit();
    let unit = unit.trim_start();
    let Difference { before, after, error, samples, .. } = difference;
    let change = difference.change();
    let [before, after, change, error] = [before, after, &change, error].map(|n| n * factor);
    let (from, to) = samples;
    format!(
        "{before:.2} → {after:.2} {unit}, {change:+.2} ± {error:.2} {unit}, {from} → {to} samples"
    )
}

fn blend(weak: [u8; 3], strong: [u8; 3], strength: f64) -> [u8; 3] {
    std::array::from_fn(|place| {
        let (weak, strong) = (f64::from(weak[place]), f64::from(strong[place]));
        (weak + (strong - weak) * strength.min(1.0)).round() as u8
    })
}

/// How the capture was sampled, and its losses.
fn about(capture: &Capture) -> String {
    let Clock { event, unit, frequency, user_only } = &capture.clock;
    let mut text = format!("{} samples of {event}", capture.samples());
    if let Some(frequency) = frequency {
        text.push_str(&format!(" at {frequency} Hz"));
    }
    if *user_only {
        text.push_str(", in user mode only");
    }
    if *unit == Unit::Nanoseconds {
        text.push_str(&format!(", {:.2} s of CPU time", capture.weight() as f64 / 1e9));
    }
    match capture.losses.lost {
        0 => text.push_str(", none lost"),
        lost => text.push_str(&format!(", {lost} lost")),
    }
    if capture.losses.cut > 0 {
        text.push_str(&format!(", {} with truncated stacks", capture.losses.cut));
    }
    if !capture.machine.kernel.is_empty() {
        text.push_str(&format!("; {}, {} CPUs", capture.machine.kernel, capture.machine.cpus));
    }
    text
}

#[cfg(test)]
mod tests;
