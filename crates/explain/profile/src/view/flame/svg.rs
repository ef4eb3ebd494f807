//! The drawing of a flame graph.

use std::fmt::Write;

use knee_host::text::plain;

use crate::view::frames::Frame;

/// Minimum share of the graph for a frame to be drawn: a tenth of a pixel.
const NARROWEST: f64 = 0.0001;

/// The content of each graph's style element. A page with graphs allows it by its hash.
pub const STYLE: &str = concat!("\n", include_str!("flame.css"));

/// The content of each graph's script element.
pub const SCRIPT: &str = concat!("\n", include_str!("flame.js"));

/// Pixels.
const ROW: usize = 17;
const PAD: usize = 10;
const LINE: usize = 18;
const BOTTOM: usize = 34;
/// The width for which names are shortened. The script shortens them again for the window.
const WIDTH: f64 = 1200.0;
/// Width of a letter in the font.
const LETTER: f64 = 7.2;

/// The texts around the frames.
pub(super) struct Graph<'a> {
    pub(super) title: String,
    pub(super) subtitle: Vec<String>,
    /// Classes of frames, and their meanings.
    pub(super) legend: &'a [(&'a str, &'a str)],
}

/// The appearance of a frame.
pub(super) struct Bar {
    pub(super) class: String,
    /// A colour, if the class does not define it.
    pub(super) fill: Option<[u8; 3]>,
    pub(super) title: String,
}

/// A frame at its position. `x` and `width` are shares of the graph.
struct Placed<'a> {
    frame: &'a Frame<'a>,
    depth: usize,
    x: f64,
    width: f64,
}

impl Graph<'_> {
    /// The SVG. `width` is a frame's share of the graph.
    pub(super) fn draw(
        &self,
        frames: &[Frame],
        width: &dyn Fn(&Frame) -> f64,
        bar: &dyn Fn(&Frame) -> Bar,
    ) -> String {
        let placed = place(frames, width);
        let rows = placed.iter().map(|placed| placed.depth + 1).max().unwrap_or(0);
        let top = 78 + LINE * self.subtitle.len();
        let height = top + rows * ROW + BOTTOM;
        let mut svg = String::new();
        self.head(&mut svg, height);
        let inner = WIDTH as usize - 2 * PAD;
        let _ = writeln!(
            svg,
            r#"<svg class="frames" role="tree" aria-label="stacks" x="{PAD}" y="0" width="{inner}" height="{height}">"#
        );
        for placed in placed {
            let y = top + (rows - 1 - placed.depth) * ROW;
            draw_frame(&mut svg, &placed, y, &bar(placed.frame));
        }
        let _ = writeln!(svg, "</svg>\n<script><![CDATA[{SCRIPT}]]></script>\n</svg>");
        svg
    }

    fn head(&self, svg: &mut String, height: usize) {
        let (title, description) = (escape(&self.title), escape(&self.subtitle.join("\n")));
        let _ = writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="flame" width="{WIDTH}" height="{height}" role="figure" aria-label="Flame graph: {title}">
<title>Flame graph: {title}</title>
<desc>{description}</desc>
<style>{STYLE}</style>
<rect class="ground" width="100%" height="100%"/>
<text class="title" x="{PAD}" y="22">{title}</text>"#
        );
        let mut y = 24;
        for line in &self.subtitle {
            y += LINE;
            let line = escape(line);
            let _ = writeln!(svg, r#"<text x="{PAD}" y="{y}">{line}</text>"#);
        }
        let (box_y, text_y, field_y, below) = (y + 12, y + 23, y + 8, height - 12);
        let mut x = PAD;
        for (class, meaning) in self.legend {
            let text = x + 18;
            let _ = writeln!(
                svg,
                r#"<rect class="{class}" x="{x}" y="{box_y}" width="13" height="13"/><text x="{text}" y="{text_y}">{meaning}</text>"#
            );
            x = text + 24 + (meaning.chars().count() as f64 * LETTER) as usize;
        }
        let _ = writeln!(
            svg,
            r#"<foreignObject class="field" x="{x}" y="{field_y}" width="420" height="26"><div xmlns="http://www.w3.org/1999/xhtml"><input type="search" placeholder="search (Ctrl-F)" aria-label="search functions by a regular expression"/> <button type="button" hidden="hidden">zoom out (Esc)</button> <output></output></div></foreignObject>
<text class="details" x="{PAD}" y="{below}"> </text>"#
        );
    }
}

/// The visible frames, with their positions.
fn place<'a>(frames: &'a [Frame<'a>], width: &dyn Fn(&Frame) -> f64) -> Vec<Placed<'a>> {
    let mut placed = Vec::new();
    let mut next = vec![Placed { frame: &frames[0], depth: 0, x: 0.0, width: width(&frames[0]) }];
    while let Some(parent) = next.pop() {
        let mut x = parent.x;
        let first = next.len();
        for child in &parent.frame.children {
            let frame = &frames[*child];
            let width = width(frame);
            if width >= NARROWEST {
                next.push(Placed { frame, depth: parent.depth + 1, x, width });
            }
            x += width;
        }
        next[first..].reverse();
        placed.push(parent);
    }
    placed
}

fn draw_frame(svg: &mut String, placed: &Placed, y: usize, bar: &Bar) {
    let Placed { frame, depth, x, width } = placed;
    let (x, width) = (100.0 * x, 100.0 * width);
    let title = escape(&bar.title);
    let class = &bar.class;
    let fill = bar.fill.map(|[r, g, b]| format!(r#" style="fill:rgb({r},{g},{b})""#));
    let fill = fill.unwrap_or_default();
    let height = ROW - 1;
    let letters = ((width / 100.0 * WIDTH - 6.0) / LETTER).max(0.0) as usize;
    let name = escape(&shortened(frame.name, letters));
    let (level, baseline) = (depth + 1, y + 12);
    let tab = if *depth == 0 { 0 } else { -1 };
    let full = escape(frame.name);
    let _ = writeln!(
        svg,
        r#"<g role="treeitem" aria-level="{level}" tabindex="{tab}" data-name="{full}"><title>{title}</title><rect class="{class}" x="{x:.4}%" y="{y}" width="{width:.4}%" height="{height}"{fill}/><text x="{x:.4}%" dx="3" y="{baseline}">{name}</text></g>"#
    );
}

/// A name, shortened to a count of letters.
fn shortened(name: &str, letters: usize) -> String {
    match name.chars().count() {
        all if all <= letters => name.to_owned(),
        _ if letters < 3 => String::new(),
        _ => name.chars().take(letters - 1).chain(['…']).collect(),
    }
}

/// Escapes text for an element or an attribute. Characters that XML forbids become `�`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
