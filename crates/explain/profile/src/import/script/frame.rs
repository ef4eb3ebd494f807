//! A line of a stack.

use crate::capture::{Function, Kind};
use crate::import::rust_name;

/// A line of a stack.
#[derive(Debug, PartialEq)]
pub(super) struct Frame<'a> {
    /// Whether the address is in the upper half of the address space, which belongs to the kernel.
    pub(super) is_high: bool,
    /// Empty if unknown.
    pub(super) symbol: &'a str,
    pub(super) module: &'a str,
}

impl<'a> Frame<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Frame<'a>> {
        let line = line.trim_ascii_start();
        let (address, rest) = line.split_once(' ')?;
        if !address.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let is_high = address.len() == 16 && address.as_bytes()[0] >= b'8';
        let rest = rest.trim_ascii_start().strip_suffix(')')?;
        let (symbol, module) = split_module(rest)?;
        // perf writes the program in this form if the function is unknown.
        let is_program = symbol.starts_with('(') && !symbol.starts_with("(anonymous namespace)");
        (!is_program).then_some(Frame { is_high, symbol, module })
    }

    /// The function, and those that a JIT compiler inlined into it, from the outermost to the innermost.
    pub(super) fn functions(&self) -> Vec<Function> {
        let Frame { symbol, module, .. } = *self;
        let is_inlined = module == "inlined";
        let is_kernel = self.is_high || is_kernel(module);
        let module = match module {
            "inlined" | "[unknown]" => None,
            "[kernel.kallsyms]" => Some("[kernel]".to_owned()),
            path if is_vmlinux(path) => Some("[kernel]".to_owned()),
            path => Some(path.to_owned()),
        };
        let function = |name: &str, inlined: bool| Function {
            name: name.to_owned(),
            module: module.clone(),
            kind: if is_kernel { Kind::Kernel } else { Kind::User },
            inlined,
        };
        match (symbol, &module) {
            ("" | "[unknown]", Some(module)) => vec![function(&unknown_in(module), is_inlined)],
            ("" | "[unknown]", None) => vec![function("[unknown]", is_inlined)],
            (symbol, Some(module)) if is_jit(module) => symbol
                .split("->")
                .enumerate()
                .map(|(place, name)| function(name, place > 0))
                .collect(),
            (symbol, _) => vec![function(&rust_name::demangled(symbol), is_inlined)],
        }
    }
}

/// Symbol and module of `symbol+0x1f (module`, `[unknown] (module` or `symbol (module`.
fn split_module(text: &str) -> Option<(&str, &str)> {
    // Symbol and module may contain anything. Only an offset between them shows for certain where the symbol
    // ends.
    let mut last = None;
    for (place, bracket) in text.match_indices(" (") {
        let (symbol, module) = (&text[..place], &text[place + bracket.len()..]);
        if let Some(name) = strip_offset(symbol) {
            return Some((name, module));
        }
        if symbol == "[unknown]" {
            return Some((symbol, module));
        }
        if module != "deleted)" {
            last = Some((symbol, module));
        }
    }
    last.or_else(|| text.strip_prefix('(').map(|module| ("", module)))
}

/// The name before an offset such as `+0x1f`.
fn strip_offset(symbol: &str) -> Option<&str> {
    let name = symbol.trim_end_matches(|c: char| c.is_ascii_hexdigit());
    name.strip_suffix("+0x").filter(|_| name.len() < symbol.len())
}

fn is_kernel(module: &str) -> bool {
    let of_user = ["[unknown]", "[vdso]", "[vsyscall]", "[heap]", "[stack]", "[uprobes]"];
    let in_brackets =
        module.starts_with('[') && !of_user.contains(&module) && !module.starts_with("[anon");
    in_brackets || module.ends_with(".ko") || is_vmlinux(module)
}

fn is_vmlinux(module: &str) -> bool {
    let is_version = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    module.rfind("vmlinux").is_some_and(|at| module[at..].chars().all(is_version))
}

fn is_jit(module: &str) -> bool {
    let is_map = module.starts_with("/tmp/perf-") && module.ends_with(".map");
    is_map || (module.contains("/jitted-") && module.ends_with(".so"))
}

/// The name of an unknown function in a known module.
fn unknown_in(module: &str) -> String {
    match module.starts_with('[') {
        true => module.to_owned(),
        false => format!("[{}]", module.rsplit('/').next().unwrap_or(module)),
    }
}
