//! What it costs the CPUs of a machine to communicate: a map of all pairs, and the figures.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use super::triangle::COLOURS;
use crate::cpu_map::CpuMap;

/// CPU count up to which the map is a table with numbers. A larger one is a drawing.
const MOST_CELLS: usize = 40;
/// Least and most pixels of a cell of a drawing, and the width that a drawing should have.
const CELL: (usize, usize) = (2, 14);
const WIDTH: usize = 720;
/// Room for the numbers of CPUs, in pixels, and the distance between two of them.
const MARGIN: usize = 34;
const BETWEEN_LABELS: usize = 56;

pub(super) fn section(maps: &[CpuMap]) -> Markup {
    html! {
        section #cpus aria-labelledby="cpus-title" {
            h2 #cpus-title { "What it costs CPUs to communicate" }
            p.lead {
                "Before a CPU can write to a cache line that another CPU has written, the line has to move. "
                "This time limits everything that CPUs write together: locks, counters, lists."
            }
            @for map in maps { (one(map)) }
        }
    }
}

fn one(map: &CpuMap) -> Markup {
    html! {
        section.cpu-map {
            h3 { (map.name) }
            p.facts { (map.facts.join(" · ")) }
            @if let Some(range) = map.range() {
                (legend(range))
                @if map.cpus.len() <= MOST_CELLS { (table(map, range)) } @else { (drawing(map, range)) }
            }
            (figures(map))
        }
    }
}

/// The colour of a time: equal ratios have equal steps, and longer times are darker.
fn level(ns: f64, (shortest, longest): (f64, f64)) -> usize {
    let steps = (longest / shortest).ln();
    let place = if steps > 0.0 { (ns / shortest).ln() / steps } else { 0.0 };
    COLOURS - 1 - ((place * COLOURS as f64) as usize).min(COLOURS - 1)
}

fn legend((shortest, longest): (f64, f64)) -> Markup {
    html! {
        div.heat-legend {
            p { "Time to move a cache line. The darker the cell, the longer the time." }
            ul {
                li {
                    (format!("{shortest:.0} ns\u{a0}"))
                    @for level in (0..COLOURS).rev() { span class={ "heat heat" (level) } {} }
                    (format!("\u{a0}{longest:.0} ns"))
                }
            }
        }
    }
}

fn table(map: &CpuMap, range: (f64, f64)) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Times between the CPUs of " (map.name) } {
            table.matrix {
                thead {
                    tr {
                        th scope="col" { "CPU" }
                        @for cpu in &map.cpus { th scope="col" { (cpu) } }
                    }
                }
                tbody {
                    @for (cpu, row) in map.cpus.iter().zip(&map.ns) {
                        tr {
                            th scope="row" { (cpu) }
                            @for (other, ns) in map.cpus.iter().zip(row) {
                                td {
                                    @if *ns > 0.0 {
                                        span class={ "heat heat" (level(*ns, range)) }
                                            title={ "CPU " (cpu) " and CPU " (other) } {
                                            (format!("{ns:.0}"))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A square per pair. All squares of a colour are one path, since there may be a hundred thousand.
fn drawing(map: &CpuMap, range: (f64, f64)) -> Markup {
    let count = map.cpus.len();
    let cell = (WIDTH / count).clamp(CELL.0, CELL.1);
    let side = MARGIN + count * cell;
    let mut paths = vec![String::new(); COLOURS];
    for (y, row) in map.ns.iter().enumerate() {
        let top = MARGIN + y * cell;
        let mut x = 0;
        let colour = |x: usize| row.get(x).filter(|ns| **ns > 0.0).map(|ns| level(*ns, range));
        while x < count {
            let mut end = x + 1;
            while end < count && colour(end) == colour(x) {
                end += 1;
            }
            if let Some(level) = colour(x) {
                let (left, width) = (MARGIN + x * cell, (end - x) * cell);
                let _ = write!(paths[level], "M{left} {top}h{width}v{cell}h-{width}z");
            }
            x = end;
        }
    }
    let step = BETWEEN_LABELS.div_ceil(cell).next_power_of_two();
    let labels = || map.cpus.iter().enumerate().step_by(step);
    let middle = |nr: usize| MARGIN + nr * cell + cell / 2;
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Times between the CPUs of " (map.name) } {
            svg.cpu-drawing viewBox={ "0 0 " (side) " " (side) } width=(side) height=(side) role="img"
                aria-label={ (map.sentence()) } {
                @for (nr, cpu) in labels() {
                    text x=(middle(nr)) y=(MARGIN - 8) text-anchor="middle" { (cpu) }
                    text x=(MARGIN - 6) y=(middle(nr) + 4) text-anchor="end" { (cpu) }
                }
                @for (level, path) in paths.iter().enumerate() {
                    @if !path.is_empty() { path class={ "heat" (level) } d=(PreEscaped(path)) {} }
                }
            }
        }
    }
}

fn figures(map: &CpuMap) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for title in ["", "value", "range", "source"] { th scope="col" { (title) } }
                    }
                }
                tbody {
                    @for [name, value, range, source] in &map.figures {
                        tr {
                            th scope="row" { (name) }
                            td { (value) }
                            td { (range) }
                            td { (source) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_time_is_lightest_and_the_longest_darkest() {
        let range = (10.0, 1_000.0);
        assert_eq!(level(10.0, range), COLOURS - 1);
        assert_eq!(level(1_000.0, range), 0);
        assert_eq!(level(100.0, range), COLOURS - 1 - COLOURS / 2);
        assert_eq!(level(10.0, (10.0, 10.0)), COLOURS - 1);
    }

    #[test]
    fn a_drawing_has_a_square_for_each_pair() {
        let count = 100;
        let time =
            |a: u32, b: u32| if a == b { 0.0 } else { 50.0 + f64::from(a / 50 * 50 + b / 50) };
        let cpus: Vec<u32> = (0..count).collect();
        let ns = cpus.iter().map(|&a| cpus.iter().map(|&b| time(a, b)).collect()).collect();
        let map = CpuMap { cpus, ns, ..CpuMap::default() };
        let drawn = drawing(&map, map.range().unwrap()).into_string();
        // The area of all rectangles, in cells of 7 pixels.
        let widths = drawn.match_indices('h').filter_map(|(at, _)| {
            let digits: String = drawn[at + 1..].chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().ok()
        });
        assert_eq!(widths.sum::<u32>() / 7, count * (count - 1));
    }
}
