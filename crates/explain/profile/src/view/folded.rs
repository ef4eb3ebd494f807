//! Folded stacks, as `stackcollapse-perf.pl` and `inferno-collapse-perf` write them.
//!
//! ```text
//! program;main;work;[libc.so.6];entry_SYSCALL_64 12
//! ```
//!
//! Each distinct stack is a line, sorted by bytes: the program with `_` instead of spaces, the functions from
//! the outermost to the innermost, and the count. Function parameters are left out, and `;` in a name becomes
//! `:`.
//!
//! Inferno drops samples without a stack. knee writes a line with only the program for them, so that the
//! counts add up to the samples of the capture.

use std::collections::BTreeMap;

use knee_host::text::original;

use crate::capture::{Capture, Function, Kind};

/// Options of folded stacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FoldedOptions {
    /// Whether names show where functions are: `_[k]` for the kernel, `_[i]` for inlined functions.
    pub annotate: bool,
    /// The count of a line.
    pub counted: Counted,
}

/// What a view counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counted {
    /// Samples of a stack.
    #[default]
    Samples,
    /// The weight of the samples, in the unit of the capture's clock. `inferno-collapse-perf` counts this if
    /// `perf script` prints periods.
    Weight,
}

/// Folded stacks of a capture.
pub fn folded(capture: &Capture, options: FoldedOptions) -> String {
    let names: Vec<String> = capture.functions.iter().map(|one| name(one, options)).collect();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let mut path = Vec::new();
    for count in &capture.counts {
        let program = &capture.programs[count.program as usize];
        let mut line = original(program).replace([' ', '\n', '\t'], "_").replace(';', ":");
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
        // Only the module is known. The form is that of stackcollapse-perf.pl.
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

/// The name of a function without its parameters: `base(int) const` becomes `base`. Names of Go methods
/// (`http.(*Client).Do`) and of anonymous C++ namespaces stay whole, as does the text within the brackets of
/// a template or a closure.
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

/// Removes the type mark of a Java class name, such as `Lorg/example/Class;`.
fn without_type_mark(name: &str) -> &str {
    name.strip_prefix('L').filter(|rest| rest.contains('/')).unwrap_or(name)
}

#[cfg(test)]
mod tests;
