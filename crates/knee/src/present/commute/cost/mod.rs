//! The costs of operations, with kernels side by side.

mod hot;
mod kernel_costs;
mod table;
mod view;

use knee_agent::Operation;
use knee_host::number::plural;
use knee_host::text::Screen;
use knee_trace::findings::plugin_digest;
use serde_json::{Value, json as object};

pub(crate) use self::kernel_costs::KernelCosts;
use self::kernel_costs::{Line, LockLine, OperationCost};
pub(crate) use self::view::View;
use crate::present::style::BOLD;

/// Version of the document.
const SCHEMA: u32 = 1;

/// Maximum lines of an operation in JSON. Memory that migrates from one CPU's cache to another's
/// has thousands of lines, none of them hot.
const MOST_LINES: usize = 100;

/// JSON for programs. Each kernel has a `release`, which is the file of knee's own kernel, and a list
/// of `costs`, one for each `operation` and number of `cpus`. `figures` are those of [`Figures`], each
/// with its median, least, greatest and mean, and the mean of instructions in `deferred` work. `lines` are
/// the hottest lines, ordered by how often an operation `taken` or `fetched` them, with their `visits` per
/// operation, those of `deferred` work, their kernel `data` and the functions that write and read them; `more` counts unlisted lines. `locks` are the locks in lines
/// that CPUs share, each with its `data` and `kind`, the `sections` per operation, the `instructions`
/// and distinct other `lines` of a section, and the lines `inside` with their visits per section.
/// `cut` counts operations whose visits are not all known. `qemu` is the version of QEMU, and `plugin` identifies the
/// plugin of knee; figures may differ with either.
pub(crate) fn json(kernels: &[KernelCosts], mode: &str, rounds: u32, qemu: &str) -> Value {
    let hexadecimal = |address: &u64| format!("{address:#x}");
    let line = |Line { hot, visits, deferred, writers, readers }: &Line| {
        object!({
            "line": hexadecimal(&hot.line),
            "data": hot.datum.as_ref().map(ToString::to_string),
            "virtual": hot.virtuals.iter().map(hexadecimal).collect::<Vec<_>>(),
            "taken": hot.taken,
            "fetched": hot.fetched,
            "visits": visits,
            "deferred": deferred,
            "writers": writers,
            "readers": readers,
        })
    };
    let lock = |LockLine { name, kind, sections, inside }: &LockLine| {
        let line = |(data, visits): &(String, f64)| object!({ "data": data, "visits": visits });
        object!({
            "data": name,
            "kind": kind,
            "sections": sections.per_operation,
            "instructions": sections.instructions,
            "lines": sections.lines,
            "inside": inside.iter().map(line).collect::<Vec<_>>(),
        })
    };
    let cost = |((operation, cpus), of): (&(String, u32), &OperationCost)| {
        let OperationCost { figures, lines, locks, cut } = of;
        object!({
            "operation": operation,
            "cpus": cpus,
            "figures": figures,
            "lines": lines.iter().take(MOST_LINES).map(line).collect::<Vec<_>>(),
            "more": lines.len().saturating_sub(MOST_LINES),
            "locks": locks.iter().take(MOST_LINES).map(lock).collect::<Vec<_>>(),
            "cut": cut,
        })
    };
    let kernel = |kernel: &KernelCosts| {
        let costs: Vec<Value> = kernel.figures.iter().map(cost).collect();
        object!({ "release": kernel.release, "costs": costs })
    };
    let kernels: Vec<Value> = kernels.iter().map(kernel).collect();
    object!({
        "schema": SCHEMA,
        "mode": mode,
        "rounds": rounds,
        "qemu": qemu,
        "plugin": plugin_digest(),
        "kernels": kernels,
    })
}

/// The names of operations, and what they do.
pub(crate) fn list(operations: impl Iterator<Item = &'static Operation> + Clone) -> String {
    let width = operations.clone().map(|operation| operation.name.len()).max().unwrap_or(0);
    operations.map(|one| format!("{:width$}  {}\n", one.name, one.about)).collect()
}

/// Text of the costs.
pub(crate) fn text(
    kernels: &[KernelCosts],
    view: &View<'_>,
    mode: &str,
    rounds: u32,
    screen: &Screen,
) -> String {
    let rounds = plural(rounds as usize, "round");
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    // The word Linux is not repeated.
    let names = names.join(", ").replace(", Linux ", ", ");
    let mut text = format!("{BOLD}{names}{BOLD:#}\n{mode}, {rounds}\n\n");
    text += &table::render(kernels, view, screen);
    for operation in view.operations {
        for kernel in kernels {
            text += &hot::render(kernel, operation, view);
        }
    }
    text
}
