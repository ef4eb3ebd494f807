//! A line of a stack: what it says of a function.

use crate::capture::{Function, Kind};
use crate::import::rust_name;

/// A line of a stack.
#[derive(Debug, PartialEq)]
pub(super) struct Frame<'a> {
    /// Whether the address is in the upper half, which is the kernel's.
    pub(super) is_high: bool,
    /// Empty where it is unknown.
    pub(super) symbol: &'a [u8],
    pub(super) module: &'a [u8],
}

impl<'a> Frame<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Option<Frame<'a>> {
        let line = line.trim_ascii_start();
        let space = line.iter().position(|byte| *byte == b' ')?;
        let (address, rest) = (&line[..space], &line[space + 1..]);
        if !address.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let is_high = address.len() == 16 && address[0] >= b'8';
        let rest = rest.trim_ascii_start().strip_suffix(b")")?;
        let (symbol, module) = split_module(rest)?;
        // perf names programs so, where no function is known.
        let is_program = symbol.starts_with(b"(") && !symbol.starts_with(b"(anonymous namespace)");
        (!is_program).then_some(Frame { is_high, symbol, module })
    }

    /// The function, and those that a JIT compiler has inlined in it, from the outermost inwards.
    pub(super) fn functions(&self) -> Vec<Function> {
        let module = String::from_utf8_lossy(self.module);
        let symbol = String::from_utf8_lossy(self.symbol);
        let is_inlined = module == "inlined";
        let is_kernel = self.is_high || is_kernel(&module);
        let module = match &*module {
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
        match (&*symbol, &module) {
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
fn split_module(text: &[u8]) -> Option<(&[u8], &[u8])> {
    // What comes before the module is a name of any form, and the module is a path of any form.
    // Only where an offset stands between them is it certain where the one ends.
    let mut at = 0;
    let mut last = None;
    while let Some(found) = text[at..].windows(2).position(|pair| pair == b" (") {
        let place = at + found;
        let (symbol, module) = (&text[..place], &text[place + 2..]);
        if let Some(name) = strip_offset(symbol) {
            return Some((name, module));
        }
        if symbol == b"[unknown]" {
            return Some((symbol, module));
        }
        if module != b"deleted)" {
            last = Some((symbol, module));
        }
        at = place + 2;
    }
    last.or_else(|| text.strip_prefix(b"(").map(|module| (&b""[..], module)))
}

/// The name before an offset such as `+0x1f`.
fn strip_offset(symbol: &[u8]) -> Option<&[u8]> {
    let digits = symbol.iter().rev().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let name = &symbol[..symbol.len() - digits];
    name.strip_suffix(b"+0x").filter(|_| digits > 0)
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
