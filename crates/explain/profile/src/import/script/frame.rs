//! A line of a stack: what it says of a function.

use crate::capture::{Function, Kind};
use crate::import::rust_name;

/// A line of a stack.
#[derive(Debug, PartialEq)]
pub(super) struct Frame<'a> {
    /// Whether the address is in the upper half, which is the kernel's.
    pub(super) is_high: bool,
    /// Empty where it is unknown.
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
        // perf names programs so, where no function is known.
        let is_program = symbol.starts_with('(') && !symbol.starts_with("(anonymous namespace)");
        (!is_program).then_some(Frame { is_high, symbol, module })
    }

    /// The function, and those that a JIT compiler has inlined in it, from the outermost inwards.
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
            (symbol, _) => vec![function(&rust_name::whole(symbol), is_inlined)],
        }
    }
}

/// Symbol and module of `symbol+0x1f (module`, `[unknown] (module` or `symbol (module`.
fn split_module(text: &str) -> Option<(&str, &str)> {
    // What comes before the module is a name of any form, and the module is a path of any form.
    // Only where an offset stands between them is it certain where the one ends.
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

/// What an unknown function of a known module is called.
fn unknown_in(module: &str) -> String {
    match module.starts_with('[') {
        true => module.to_owned(),
        false => format!("[{}]", module.rsplit('/').next().unwrap_or(module)),
    }
}
