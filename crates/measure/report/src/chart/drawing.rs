//! SVG written directly as text: a page contains hundreds of charts, and a tree of elements would
//! need more memory than the numbers in it. Coordinates have one decimal.

use std::fmt::Write as _;

use maud::{Escaper, Markup, PreEscaped};

/// The part of a text that is at its position.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG element under construction.
pub(super) struct Drawing {
    svg: String,
}

impl Drawing {
    /// An image of `width` × `height` user units, with further `attributes`.
    pub(super) fn new(
        class: &str,
        (width, height): (f64, f64),
        title: &str,
        description: &str,
        attributes: &str,
    ) -> Self {
        let mut svg = String::with_capacity(4096);
        let _ = write!(svg, r#"<svg class="{class}" viewBox="0 0 {width} {height}" role="img""#);
        svg.push_str(attributes);
        svg.push('>');
        let mut drawing = Self { svg };
        drawing.element("title", title);
        drawing.element("desc", description);
        drawing
    }

    /// A drawing without information beyond the text beside it.
    pub(super) fn decoration(class: &str, (width, height): (f64, f64)) -> Self {
        Self {
            svg: format!(
                r#"<svg class="{class}" viewBox="0 0 {width} {height}" aria-hidden="true">"#
            ),
        }
    }

    fn element(&mut self, name: &str, text: &str) {
        let _ = write!(self.svg, "<{name}>");
        self.escaped(text);
        let _ = write!(self.svg, "</{name}>");
    }

    /// Escapes text, which is user data: names of testcases, labels of runs, reasons for failures.
    fn escaped(&mut self, text: &str) {
        let _ = Escaper::new(&mut self.svg).write_str(text);
    }

    pub(super) fn open_group(&mut self, class: &str) {
        let _ = write!(self.svg, r#"<g class="{class}">"#);
    }

    pub(super) fn close_group(&mut self) {
        self.svg.push_str("</g>");
    }

    /// Paths with their classes, in a group.
    pub(super) fn group(&mut self, class: &str, paths: &[(&str, &Path)]) {
        self.open_group(class);
        for (class, path) in paths {
            self.path(class, path);
        }
        self.close_group();
    }

    /// A path; nothing if it is empty.
    pub(super) fn path(&mut self, class: &str, path: &Path) {
        if !path.data.is_empty() {
            let _ = write!(self.svg, r#"<path class="{class}" d="{}"/>"#, path.data);
        }
    }

    /// A path with strokes of `width`.
    pub(super) fn wide_path(&mut self, class: &str, width: f64, path: &Path) {
        if !path.data.is_empty() {
            let d = &path.data;
            let _ =
                write!(self.svg, r#"<path class="{class}" stroke-width="{width:.1}" d="{d}"/>"#);
        }
    }

    /// A path with a title, which browsers show when the reader points at it.
    pub(super) fn titled_path(&mut self, class: &str, path: &Path, title: &str) {
        let _ = write!(self.svg, r#"<path class="{class}" d="{}">"#, path.data);
        self.element("title", title);
        self.svg.push_str("</path>");
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let _ = write!(self.svg, r#"<text class="{class}" x="{x:.1}" y="{y:.1}"{anchor}>"#);
        self.escaped(text);
        self.svg.push_str("</text>");
    }

    /// A text with the class and the anchor of its group.
    pub(super) fn plain_text(&mut self, (x, y): (f64, f64), text: &str) {
        let _ = write!(self.svg, r#"<text x="{x:.1}" y="{y:.1}">"#);
        self.escaped(text);
        self.svg.push_str("</text>");
    }

    /// Defines the markers of runs, once per page.
    pub(super) fn define_markers(&mut self) {
        for (run, shape) in MARKERS.iter().enumerate() {
            let _ = write!(
                self.svg,
                concat!(
                    r#"<marker id="marker{run}" markerUnits="userSpaceOnUse" markerWidth="12" "#,
                    r#"markerHeight="12" viewBox="-6 -6 12 12"><g class="r{run}">"#,
                    r#"<path class="median" d="M0 0{shape}"/></g></marker>"#
                ),
                run = run,
                shape = shape
            );
        }
    }

    pub(super) fn finish(mut self) -> Markup {
        self.svg.push_str("</svg>");
        PreEscaped(self.svg)
    }
}

/// The data of a path in relative coordinates, which take half the bytes of absolute ones. All
/// arithmetic is in tenths, so that rounding errors do not accumulate.
#[derive(Debug, Default)]
pub(super) struct Path {
    data: String,
    /// The current position; unknown after a marker.
    pen: Option<(i64, i64)>,
    /// The position after closing the path.
    start: Option<(i64, i64)>,
}

impl Path {
    pub(super) fn move_to(&mut self, x: f64, y: f64) -> &mut Self {
        let to = (tenths(x), tenths(y));
        match self.pen {
            Some(from) => self.pair('m', to.0 - from.0, to.1 - from.1),
            None => self.pair('M', to.0, to.1),
        }
        self.pen = Some(to);
        self.start = self.pen;
        self
    }

    pub(super) fn line_to(&mut self, x: f64, y: f64) -> &mut Self {
        let Some(from) = self.pen else { return self.move_to(x, y) };
        let to = (tenths(x), tenths(y));
        match (to.0 - from.0, to.1 - from.1) {
            (dx, 0) => self.single('h', dx),
            (0, dy) => self.single('v', dy),
            (dx, dy) => self.pair('l', dx, dy),
        }
        self.pen = Some(to);
        self
    }

    pub(super) fn vertical_to(&mut self, y: f64) -> &mut Self {
        let x = self.pen.map_or(0, |(x, _)| x);
        self.line_to(x as f64 / 10.0, y)
    }

    pub(super) fn horizontal_to(&mut self, x: f64) -> &mut Self {
        let y = self.pen.map_or(0, |(_, y)| y);
        self.line_to(x, y as f64 / 10.0)
    }

    pub(super) fn close(&mut self) -> &mut Self {
        self.data.push('z');
        self.pen = self.start;
        self
    }

    /// A line through `points`. A single point is a line of no length, which still has its marker.
    pub(super) fn line(&mut self, points: impl Iterator<Item = (f64, f64)>) -> &mut Self {
        let mut count = 0;
        for (x, y) in points {
            if count == 0 {
                self.move_to(x, y);
            } else {
                self.line_to(x, y);
            }
            count += 1;
        }
        if count == 1 {
            self.data.push_str("h0");
        }
        self
    }

    /// A cross about a point, `reach` to each side.
    pub(super) fn cross(&mut self, x: f64, y: f64, reach: f64) -> &mut Self {
        self.move_to(x - reach, y - reach).line_to(x + reach, y + reach);
        self.move_to(x - reach, y + reach).line_to(x + reach, y - reach)
    }

    /// A circle with a cross in it.
    pub(super) fn disturbed(&mut self, x: f64, y: f64) -> &mut Self {
        self.pen = None;
        self.move_to(x, y);
        self.pen = None;
        self.data.push_str(DISTURBED);
        self
    }

    /// A circle around a marker.
    pub(super) fn ring(&mut self, x: f64, y: f64) -> &mut Self {
        self.pen = None;
        self.move_to(x, y);
        self.pen = None;
        self.data.push_str(RING);
        self
    }

    /// A dot: a line of no length, which a round cap makes visible.
    pub(super) fn dot(&mut self, x: f64, y: f64) -> &mut Self {
        self.move_to(x, y);
        self.data.push_str("h0");
        self
    }

    /// The marker of a run, with a different shape for each of the first six runs.
    pub(super) fn marker(&mut self, run: usize, x: f64, y: f64) -> &mut Self {
        self.pen = None;
        self.move_to(x, y);
        self.pen = None;
        self.data.push_str(MARKERS[run % MARKERS.len()]);
        self
    }

    fn single(&mut self, command: char, value: i64) {
        self.data.push(command);
        self.number(value, true);
    }

    fn pair(&mut self, command: char, x: i64, y: i64) {
        self.data.push(command);
        self.number(x, true);
        self.number(y, false);
    }

    /// A number of tenths. A minus sign also separates it from the previous number.
    fn number(&mut self, tenths: i64, is_first: bool) {
        if !is_first && tenths >= 0 {
            self.data.push(' ');
        }
        let sign = if tenths < 0 { "-" } else { "" };
        let (whole, tenth) = (tenths.abs() / 10, tenths.abs() % 10);
        let _ = match (whole, tenth) {
            (whole, 0) => write!(self.data, "{sign}{whole}"),
            (0, tenth) => write!(self.data, "{sign}.{tenth}"),
            (whole, tenth) => write!(self.data, "{sign}{whole}.{tenth}"),
        };
    }
}

fn tenths(x: f64) -> i64 {
    (x * 10.0).round() as i64
}

/// Number of different markers.
pub(super) const MARKER_COUNT: usize = MARKERS.len();

/// Circle, square, diamond, upward triangle, downward triangle and cross, centred on a point.
const MARKERS: [&str; 6] = [
    "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0",
    "m-2.9-2.9h5.8v5.8h-5.8z",
    "m-4 0l4-4l4 4l-4 4z",
    "m-3.7 2.8l3.7-6.4l3.7 6.4z",
    "m-3.7-2.8l3.7 6.4l3.7-6.4z",
    "m-3.2-3.2l6.4 6.4m0-6.4l-6.4 6.4",
];

/// A circle with a cross in it, and a wide circle, centred on a point.
const DISTURBED: &str = "m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0m1.5-3.5l7 7m0-7l-7 7";
const RING: &str = "m-6.5 0a6.5 6.5 0 1 0 13 0a6.5 6.5 0 1 0-13 0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_relative_and_exact_to_a_tenth() {
        let mut path = Path::default();
        path.line([(1.04, 2.0), (1.1, 1.9), (1.1, 4.0)].into_iter()).close().dot(1.5, 2.0);
        assert_eq!(path.data, "M1 2l.1-.1v2.1zm.5 0h0");
    }

    #[test]
    fn text_in_a_drawing_is_not_markup() {
        let mut drawing = Drawing::new("c", (1.0, 1.0), "<script>", "a & b", "");
        drawing.text("t", (0.0, 0.0), Anchor::Start, "</svg>\"");
        let svg = drawing.finish().into_string();
        assert!(svg.contains("<title>&lt;script&gt;</title><desc>a &amp; b</desc>"), "{svg}");
        assert!(svg.contains(">&lt;/svg&gt;&quot;</text></svg>"), "{svg}");
    }
}
