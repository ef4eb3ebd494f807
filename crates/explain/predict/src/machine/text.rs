//! Writing a machine as TOML, for people: a line per figure.

use std::fmt::Write;

use knee_host::text::original;

use super::fields::{Figure, Machine, Matrix};

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
        // In TOML, keys outside of tables come first.
        let (in_tables, single): (Vec<_>, Vec<_>) =
            self.figures().partition(|(key, _)| key.contains('.'));
        for (key, figure) in single {
            let _ = writeln!(text, "{key} = {}", inline(figure));
        }
        let mut last = "";
        for (key, figure) in &in_tables {
            let (table, key) = key.split_once('.').expect("it is in a table");
            if std::mem::replace(&mut last, table) != table {
                let _ = writeln!(text, "\n[{table}]");
            }
            let _ = writeln!(text, "{key} = {}", inline(figure));
        }
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
    let text = original(text);
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
