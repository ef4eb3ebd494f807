//! Folded stacks, as `stackcollapse-perf.pl` and `inferno-collapse-perf` write them.
//!
//! ```text
//! program;main;work;[libc.so.6];entry_SYSCALL_64 12
//! ```
//!
//! One line for each distinct stack, sorted by bytes: the program with `_` for its spaces, the
//! functions from the outermost inwards, and what was counted. Parameters of functions are left out,
//! and `;` in a name is written `:`.
//!
//! Inferno drops samples without a stack. Here they are lines with the program only, so that the
//! counts add up to those of the capture.

use std::collections::BTreeMap;

use crate::capture::{Capture, Function, Kind};

/// How folded stacks are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FoldedOptions {
    /// Whether names say where functions are: `_[k]` for the kernel, `_[i]` for inlined.
    pub annotate: bool,
    /// What lines count.
    pub counted: Counted,
}

/// What views count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counted {
    /// How often a stack was seen.
    #[default]
    Samples,
    /// What that stands for, in the unit of the capture's clock. This is what
    /// `inferno-collapse-perf` counts where `perf script` prints periods.
    Weight,
}

/// Folded stacks of a capture.
pub fn folded(capture: &Capture, options: FoldedOptions) -> String {
    let names: Vec<String> = capture.functions.iter().map(|one| name(one, options)).collect();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let mut path = Vec::new();
    for count in &capture.counts {
        let program = &capture.programs[count.program as usize];
        let mut line = program.replace([' ', '\n'], "_").replace(';', ":");
        path.clear();
        path.extend(capture.functions_of(count.stack));
        for function in path.iter().rev() {
            let name = &names[*function as usize];
            line.push(';');
            line.push_str(match program.starts_with("java") {
                true => without_type_mark(name),
                false => name,
            });
        }
        *lines.entry(line).or_default() += match options.counted {
            Counted::Samples => count.samples,
            Counted::Weight => count.weight,
        };
    }
    let mut text = String::new();
    for (line, count) in lines {
        text.push_str(&line);
        text.push_str(&format!(" {count}\n"));
    }
    text
}

fn name(function: &Function, options: FoldedOptions) -> String {
    let mut name = match &function.module {
        // The module is all that is known: written as the reference does.
        Some(module) if *module == function.name && module == "[kernel]" => {
            "[[kernel.kallsyms]]".to_owned()
        }
        Some(module) if *module == function.name => format!("[{module}]"),
        _ => without_parameters(&function.name).replace(';', ":").replace('\n', " "),
    };
    if options.annotate {
        match (function.inlined, function.kind) {
            (true, _) => name.push_str("_[i]"),
            (false, Kind::Kernel) => name.push_str("_[k]"),
            (false, Kind::User) => (),
        }
    }
    name
}

/// The name of a function without what it takes: `base(int) const` is `base`. Names of Go methods
/// (`http.(*Client).Do`) and of C++'s anonymous namespaces are left whole, and so is what is in the
/// brackets of a template or a closure.
fn without_parameters(name: &str) -> &str {
    let mut depth = 0_i64;
    let mut before = None;
    for (at, c) in name.char_indices() {
        match c {
            '<' | '{' | '[' => depth += 1,
            '>' | '}' | ']' | ')' => depth -= 1,
            '(' => {
                let is_part =
                    before == Some('.') || name[at..].starts_with("(anonymous namespace)");
                if depth == 0 && !is_part {
                    return &name[..at];
                }
                depth += 1;
            }
            _ => (),
        }
        before = Some(c);
    }
    name
}

/// Java's virtual machine names a class `Lorg/example/Class;`.
fn without_type_mark(name: &str) -> &str {
    name.strip_prefix('L').filter(|rest| rest.contains('/')).unwrap_or(name)
}

#[cfg(test)]
mod tests;
