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

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use knee_host::text::original;

use crate::capture::{Capture, Count, Function, Kind};

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

/// Writes the folded stacks of a capture, each line with one call.
///
/// The lines together can be much longer than the capture, in which stacks share their callers. They are therefore
/// never in memory together.
///
/// # Errors
/// Those of `out`.
pub fn folded(capture: &Capture, options: FoldedOptions, out: &mut dyn Write) -> io::Result<()> {
    let counted = |count: &Count| match options.counted {
        Counted::Samples => count.samples,
        Counted::Weight => count.weight,
    };
    let names = [false, true].map(|is_java| Names::of(capture, options, is_java));
    let mut programs: BTreeMap<String, Vec<&Count>> = BTreeMap::new();
    for count in &capture.counts {
        let name = original(&capture.programs[count.program as usize]);
        let name = name.replace([' ', '\n', '\t'], "_").replace(';', ":");
        programs.entry(name).or_default().push(count);
    }
    let parts = |(program, _): (&String, _)| Part::ALL.map(|part| (part, program.clone()));
    let mut parts: Vec<(Part, String)> = programs.iter().flat_map(parts).collect();
    parts.sort_by(|(part, name), (other_part, other)| Part::order(*part, name, *other_part, other));
    for (part, program) in parts {
        let counts = &programs[&program];
        if part == Part::Calls {
            let mut calls = Calls::new(&names[usize::from(program.starts_with("java"))]);
            counts.iter().for_each(|count| calls.add(capture, count.stack, counted(count)));
            calls.write(program, out)?;
        } else if counts.iter().any(|count| count.stack.is_none()) {
            let without = counts.iter().filter(|count| count.stack.is_none());
            let sum: u64 = without.map(|count| counted(count)).sum();
            out.write_all(format!("{program} {sum}\n").as_bytes())?;
        }
    }
    Ok(())
}

/// What the lines of a function are sorted by. Another name can be between them: `f 1`, `f-g 1`, `f;g 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The line that ends with the function.
    Line,
    /// The lines that continue with the functions that it calls.
    Calls,
}

impl Part {
    const ALL: [Part; 2] = [Part::Line, Part::Calls];

    /// The order of the lines of two functions with the same callers. No printed name contains a semicolon.
    fn order(self, name: &str, other_part: Part, other: &str) -> Ordering {
        let end = |part| (part == Part::Calls).then_some(b';');
        name.bytes().chain(end(self)).cmp(other.bytes().chain(end(other_part)))
    }
}

/// The printed names of the functions of a capture.
struct Names {
    names: Vec<String>,
    /// For each function, the first one with its printed name.
    first: Vec<u32>,
}

impl Names {
    fn of(capture: &Capture, options: FoldedOptions, is_java: bool) -> Names {
        let printed = |function| {
            let name = name(function, options);
            if is_java { without_type_mark(&name).to_owned() } else { name }
        };
        let names: Vec<String> = capture.functions.iter().map(printed).collect();
        let mut known: HashMap<&str, u32> = HashMap::new();
        let first = (0..).zip(&names).map(|(nr, name)| *known.entry(name).or_insert(nr)).collect();
        Names { names, first }
    }
}

/// The tree of the stacks of one program.
struct Calls<'a> {
    names: &'a Names,
    /// The first is the program. A caller precedes the functions that it calls.
    nodes: Vec<Node>,
    /// The number of the node of a function and its caller.
    numbers: HashMap<(u32, u32), u32>,
    /// The numbers of the nodes of stacks of the capture.
    of_stacks: HashMap<u32, u32>,
}

#[derive(Default)]
struct Node {
    function: u32,
    count: Option<u64>,
    calls: Vec<u32>,
}

impl<'a> Calls<'a> {
    fn new(names: &'a Names) -> Calls<'a> {
        let (numbers, of_stacks) = (HashMap::new(), HashMap::new());
        Calls { names, nodes: vec![Node::default()], numbers, of_stacks }
    }

    fn add(&mut self, capture: &Capture, stack: Option<u32>, counted: u64) {
        let Some(stack) = stack else { return };
        // Each stack is walked up to a caller that is known, so this takes no longer for deep stacks.
        let mut unknown = Vec::new();
        let mut next = Some(stack);
        let mut number = 0;
        while let Some(stack) = next {
            if let Some(known) = self.of_stacks.get(&stack) {
                number = *known;
                break;
            }
            unknown.push(stack);
            next = capture.stacks[stack as usize].parent;
        }
        for stack in unknown.into_iter().rev() {
            let function = self.names.first[capture.stacks[stack as usize].function as usize];
            let new = self.nodes.len() as u32;
            let child = *self.numbers.entry((number, function)).or_insert(new);
            if child == new {
                self.nodes.push(Node { function, ..Node::default() });
                self.nodes[number as usize].calls.push(child);
            }
            self.of_stacks.insert(stack, child);
            number = child;
        }
        *self.nodes[number as usize].count.get_or_insert(0) += counted;
    }

    fn name(&self, node: u32) -> &str {
        &self.names.names[self.nodes[node as usize].function as usize]
    }

    /// Writes all lines, which begin with `program`.
    fn write(&self, program: String, out: &mut dyn Write) -> io::Result<()> {
        let mut line = program;
        // Not recursive, because a recorded stack may be deeper than the stack of this thread.
        let mut next = self.parts_of_calls(0, line.len());
        while let Some((part, node, length)) = next.pop() {
            line.truncate(length);
            line.push(';');
            line.push_str(self.name(node));
            match (part, self.nodes[node as usize].count) {
                (Part::Calls, _) => next.extend(self.parts_of_calls(node, line.len())),
                (Part::Line, None) => {}
                (Part::Line, Some(count)) => {
                    let length = line.len();
                    line.push_str(&format!(" {count}\n"));
                    out.write_all(line.as_bytes())?;
                    line.truncate(length);
                }
            }
        }
        Ok(())
    }

    /// The parts of the functions that a node calls, the first one last. `length` is that of the node's line.
    fn parts_of_calls(&self, node: u32, length: usize) -> Vec<(Part, u32, usize)> {
        let calls = &self.nodes[node as usize].calls;
        let parts = calls.iter().flat_map(|&call| Part::ALL.map(|part| (part, call, length)));
        let mut parts: Vec<(Part, u32, usize)> = parts.collect();
        parts.sort_by(|&(a, one, _), &(b, other, _)| {
            Part::order(a, self.name(one), b, self.name(other)).reverse()
        });
        parts
    }
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
pub(crate) mod tests;
