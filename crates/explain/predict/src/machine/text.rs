//! Writing a machine as TOML, for people: a line per figure.

use std::fmt::Write;

use super::fields::{Distance, Figure, Machine, Matrix};

impl Machine {
    /// The text of a file. `comment` comes first.
    pub fn to_toml(&self, comment: &str) -> String {
        let mut text = String::new();
        for line in comment.lines() {
            let _ = writeln!(text, "{}", format!("# {line}").trim_end());
        }
        let Self { schema, sockets, l3s_per_socket, cores_per_l3, threads_per_core, .. } = self;
        let (name, title) = (quoted(&self.name), quoted(&self.title));
        let _ = writeln!(text, "schema = {schema}\nname = {name}\ntitle = {title}");
        let _ = writeln!(text, "sockets = {sockets}\nl3s_per_socket = {l3s_per_socket}");
        let _ =
            writeln!(text, "cores_per_l3 = {cores_per_l3}\nthreads_per_core = {threads_per_core}");
        for (key, figure) in [("smt_slowdown", &self.smt_slowdown), ("wake_ns", &self.wake_ns)] {
            if let Some(figure) = figure {
                let _ = writeln!(text, "{key} = {}", inline(figure));
            }
        }
        let transfers = Distance::ALL
            .into_iter()
            .filter_map(|distance| Some((distance.key(), self.transfer_ns.at(distance)?)));
        figures(&mut text, "transfer_ns", transfers);
        let interrupts = self.interrupt_ns.iter().flat_map(|interrupts| {
            let each = interrupts.each.iter().map(|each| ("each", each));
            std::iter::once(("first", &interrupts.first)).chain(each)
        });
        figures(&mut text, "interrupt_ns", interrupts);
        if let Some(contended) = &self.contended_ns {
            points(&mut text, "contended_ns", &contended.points, &contended.source);
        }
        if let Some(clock) = &self.clock {
            points(&mut text, "clock", &clock.points, &clock.source);
        }
        text.push_str("\n[sources]\n");
        for (name, source) in &self.sources {
            let _ = writeln!(text, "{} = {}", quoted(name), quoted(source));
        }
        if let Some(Matrix { cpus, ns }) = &self.matrix {
            let _ = writeln!(text, "\n[matrix]\ncpus = {cpus:?}\nns = [");
            for row in ns {
                let _ = writeln!(text, "    {row:?},");
            }
            text.push_str("]\n");
        }
        text
    }
}

/// A table of figures, if there are any.
fn figures<'f>(
    text: &mut String,
    table: &str,
    figures: impl Iterator<Item = (&'static str, &'f Figure)>,
) {
    let mut figures = figures.peekable();
    if figures.peek().is_some() {
        let _ = writeln!(text, "\n[{table}]");
    }
    for (key, figure) in figures {
        let _ = writeln!(text, "{key} = {}", inline(figure));
    }
}

fn inline(figure: &Figure) -> String {
    let mut text = format!("{{ value = {:?}", figure.value);
    for (key, end) in [("low", figure.low), ("high", figure.high)] {
        if let Some(end) = end {
            let _ = write!(text, ", {key} = {end:?}");
        }
    }
    format!("{text}, source = {} }}", quoted(&figure.source))
}

fn points(text: &mut String, table: &str, points: &[(u32, f64)], source: &str) {
    let points: Vec<String> =
        points.iter().map(|(count, value)| format!("[{count}, {value:?}]")).collect();
    let (points, source) = (points.join(", "), quoted(source));
    let _ = writeln!(text, "\n[{table}]\npoints = [{points}]\nsource = {source}");
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            _ if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}
