//! `knee topology`: the CPU topology, and the order in which tasks take CPUs.

use std::collections::BTreeMap;
use std::fmt::Write;

use knee_host::number;
use knee_host::topology::{Cpu, Exclusion, TopologyCounts};
use knee_host::{CpuList, Placement, Topology, auto_tasks, cgroup};
use serde::Serialize;

use crate::exit::{ExitStatus, usage};
use crate::stdout;

/// Core count up to which each core has a line. Above it, each L3 domain has one.
const MOST_CORE_LINES: usize = 16;
/// L3 count above which identical domains share a line.
const MOST_L3_LINES: usize = 32;
/// Maximum columns of an order when knee prints several, so that each line fits a terminal.
const MOST_ORDER_COLUMNS: usize = 60;

const EXAMPLES: &str = "\
Examples:
  knee topology                       the machine, and all placement orders
  knee topology --placement scatter   one complete order
  knee topology --cpus 0-15 --json    part of the machine, for a script";

/// Show the CPU topology and the order in which tasks take CPUs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Placement whose order to show: cores, smt, compact, scatter or none [default: all]
    #[arg(long, value_name = "PLACEMENT")]
    placement: Option<Placement>,

    /// CPUs to use, such as 0-3,8
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    let machine = Topology::read()?;
    let topology = match &args.cpus {
        Some(cpus) => machine.restrict(cpus).map_err(|e| usage(e.to_string()))?,
        None => machine,
    };
    let placements = match args.placement {
        Some(placement) => vec![placement],
        None => Placement::ALL.to_vec(),
    };
    let quota = cgroup::cpu_quota();
    match args.json {
        true => stdout::print_json(&report(&topology, &placements, quota))?,
        false => stdout::show(&as_text(&topology, &placements, quota))?,
    }
    Ok(ExitStatus::Done)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    counts: TopologyCounts,
    cgroup_cpu_quota: Option<f64>,
    auto_tasks: Vec<u32>,
    cpus: &'a [Cpu],
    excluded: &'a BTreeMap<u32, Exclusion>,
    placements: Vec<Order>,
}

#[derive(Serialize)]
struct Order {
    placement: Placement,
    pins: bool,
    order: Vec<u32>,
}

fn report<'a>(topology: &'a Topology, placements: &[Placement], quota: Option<f64>) -> Report<'a> {
    let order_of = |placement: &Placement| Order {
        placement: *placement,
        pins: placement.pins(),
        order: placement.order(topology),
    };
    Report {
        schema: 1,
        counts: topology.counts(),
        cgroup_cpu_quota: quota,
        auto_tasks: auto_tasks(topology, quota),
        cpus: topology.cpus(),
        excluded: topology.excluded(),
        placements: placements.iter().map(order_of).collect(),
    }
}

fn as_text(topology: &Topology, placements: &[Placement], quota: Option<f64>) -> String {
    let mut lines = vec![topology.counts().to_string(), String::new()];
    lines.extend(tree(topology));
    lines.push(String::new());

    for (why, cpus) in topology.excluded_by_reason() {
        lines.push(format!("not usable  {cpus}: {why}; {}", why.remedy(&cpus)));
    }
    if let Some(quota) = quota {
        lines.push(format!("quota       {quota:.2} CPUs' worth of time, from the control group"));
    }
    let tasks: Vec<String> = auto_tasks(topology, quota).iter().map(u32::to_string).collect();
    lines.push(format!("-t auto     {}", tasks.join(",")));
    lines.push(String::new());

    lines.push(
        "placement   task 0 goes to the first CPU, task 1 to the second, and so on".to_owned(),
    );
    let columns = if placements.len() == 1 { usize::MAX } else { MOST_ORDER_COLUMNS };
    for placement in placements {
        let order = placement.order(topology);
        let order = match placement {
            Placement::None => {
                format!("not pinned, up to {}", number::tasks(order.len() as u32))
            }
            _ => in_words(&order, columns),
        };
        lines.push(format!("  {placement:<9} {order}"));
    }
    if lines.iter().any(|line| line.ends_with('…')) {
        lines.push("  --placement NAME shows the complete order".to_owned());
    }
    lines.join("\n") + "\n"
}

/// The levels of the machine, indented. If there are many domains, identical domains of a node
/// share a line.
fn tree(topology: &Topology) -> Vec<String> {
    let counts = topology.counts();
    let core_lines = counts.cores as usize <= MOST_CORE_LINES;
    let l3_lines = counts.l3s.unwrap_or(0) as usize <= MOST_L3_LINES;
    let mut lines = Vec::new();

    for (package, cpus) in grouped(topology.cpus(), |cpu| cpu.package) {
        let nodes = grouped(&cpus, |cpu| cpu.node);
        let one_node = nodes.len() == 1;
        let mut line = format!("package {package}{}", os_number(package, cpus[0].os_package));
        if one_node {
            let _ = write!(line, ", {}", node_name(&cpus[0]));
        }
        lines.push(line);
        let mut depth = 1;
        for cpus in nodes.into_values() {
            if !one_node {
                lines.push(indented(1, &node_name(&cpus[0])));
                depth = 2;
            }
            let l3s: Vec<Vec<Cpu>> = grouped(&cpus, |cpu| cpu.l3).into_values().collect();
            let runs: Vec<&[Vec<Cpu>]> = match l3_lines {
                true => l3s.chunks(1).collect(),
                false => l3s.chunk_by(|a, b| shape(a) == shape(b)).collect(),
            };
            for run in runs {
                let cpus = run.concat();
                let name = range("L3", cpus[0].l3, cpus[cpus.len() - 1].l3);
                let in_words = || cores_in_words(&run[0], &cpus, run.len());
                match (counts.l3s, core_lines) {
                    (None, true) => lines.extend(cores(&cpus).map(|core| indented(depth, &core))),
                    (None, false) => lines.push(indented(depth, &in_words())),
                    (Some(_), true) => {
                        lines.push(indented(depth, &name));
                        lines.extend(cores(&cpus).map(|core| indented(depth + 1, &core)));
                    }
                    (Some(_), false) => {
                        lines.push(indented(depth, &format!("{name:<9} {}", in_words())));
                    }
                }
            }
        }
    }
    lines
}

fn grouped(cpus: &[Cpu], level: fn(&Cpu) -> u32) -> BTreeMap<u32, Vec<Cpu>> {
    let mut groups: BTreeMap<u32, Vec<Cpu>> = BTreeMap::new();
    for cpu in cpus {
        groups.entry(level(cpu)).or_default().push(*cpu);
    }
    groups
}

/// Core and CPU counts; domains with equal counts are identical.
fn shape(l3: &[Cpu]) -> (usize, usize) {
    (grouped(l3, |cpu| cpu.core).len(), l3.len())
}

fn cores(cpus: &[Cpu]) -> impl Iterator<Item = String> {
    grouped(cpus, |cpu| cpu.core).into_iter().map(|(core, threads)| {
        let ids: Vec<String> = threads.iter().map(|cpu| cpu.id.to_string()).collect();
        let noun = if ids.len() == 1 { "CPU" } else { "CPUs" };
        format!("core {core:<4} {noun} {}", ids.join(", "))
    })
}

/// `8 cores × 2 threads: CPUs 0-7,128-135`, for `domains` domains that are identical to `one`.
fn cores_in_words(one: &[Cpu], all: &[Cpu], domains: usize) -> String {
    let (cores, cpus) = shape(one);
    let noun = if cores == 1 { "core" } else { "cores" };
    let threads = match cpus / cores {
        _ if cpus % cores != 0 => format!("{cores} {noun}, {cpus} threads"),
        1 => format!("{cores} {noun}"),
        threads => format!("{cores} {noun} × {threads} threads"),
    };
    let each = if domains > 1 { " each" } else { "" };
    let list: CpuList = all.iter().map(|cpu| cpu.id).collect();
    format!("{threads}{each}: CPUs {list}")
}

fn node_name(cpu: &Cpu) -> String {
    format!("NUMA node {}{}", cpu.node, os_number(cpu.node, cpu.os_node))
}

/// The operating system's number, if it differs.
fn os_number(logical: u32, os: Option<u32>) -> String {
    match os {
        Some(os) if os != logical => format!(" (the system's {os})"),
        _ => String::new(),
    }
}

fn range(noun: &str, first: u32, last: u32) -> String {
    match last - first {
        0 => format!("{noun} {first}"),
        _ => format!("{noun} {first}-{last}"),
    }
}

fn indented(depth: usize, text: &str) -> String {
    format!("{}{text}", "  ".repeat(depth))
}

/// An order with regular sequences as ranges: `0-62:2` is every second CPU. Truncated to fit into
/// `columns`.
fn in_words(order: &[u32], columns: usize) -> String {
    let mut words = String::new();
    let mut rest = order;
    while let [first, ..] = rest {
        let step = match rest {
            [_, second, ..] if second > first => second - first,
            _ => 0,
        };
        let regular = rest.windows(2).take_while(|pair| step > 0 && pair[1] == pair[0] + step);
        let length = regular.count() + 1;
        // Shorter progressions are easier to read one by one.
        let length = if length >= 3 { length } else { 1 };
        let last = rest[length - 1];
        let piece = match step {
            _ if length == 1 => first.to_string(),
            1 => format!("{first}-{last}"),
            _ => format!("{first}-{last}:{step}"),
        };
        if words.len() + 1 + piece.len() > columns {
            return words + " …";
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words += &piece;
        rest = &rest[length..];
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use snapbox::str;

    /// A machine of one NUMA node per package, two threads per core, numbered as Linux does.
    fn machine(packages: u32, l3s: u32, cores: u32) -> Topology {
        let sysfs = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = sysfs.path().join("devices/system").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let all = packages * l3s * cores;
        let both = |first: u32, count: u32| {
            let threads = [first, first + all];
            threads.map(|first| format!("{first}-{}", first + count - 1)).join(",")
        };
        for cpu in 0..2 * all {
            let core = cpu % all;
            let l3 = core / cores;
            let package = l3 / l3s;
            let dir = format!("cpu/cpu{cpu}");
            write(format!("{dir}/topology/physical_package_id"), package.to_string());
            write(format!("{dir}/topology/core_cpus_list"), both(core, 1));
            write(format!("{dir}/cache/index3/level"), "3".to_owned());
            write(format!("{dir}/cache/index3/type"), "Unified".to_owned());
            write(format!("{dir}/cache/index3/shared_cpu_list"), both(l3 * cores, cores));
            let node = both(package * l3s * cores, l3s * cores);
            write(format!("node/node{package}/cpulist"), node);
        }
        Topology::read_from(sysfs.path(), &(0..2 * all).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_small_machine_shows_every_core() {
        let text = as_text(&machine(1, 2, 2), Placement::ALL, Some(2.5));
        snapbox::assert_data_eq!(
            text,
            str![[r#"
8 CPUs (4 cores, 2 L3s, 1 package)

package 0, NUMA node 0
  L3 0
    core 0    CPUs 0, 4
    core 1    CPUs 1, 5
  L3 1
    core 2    CPUs 2, 6
    core 3    CPUs 3, 7

quota       2.50 CPUs' worth of time, from the control group
-t auto     1,2,3

placement   task 0 goes to the first CPU, task 1 to the second, and so on
  cores     0-7
  smt       0 4 1 5 2 6 3 7
  compact   0 1 4 5 2 3 6 7
  scatter   0 2 1 3 4 6 5 7
  none      not pinned, up to 8 tasks

"#]]
        );
    }

    #[test]
    fn a_machine_of_256_cpus_fits_a_terminal() {
        let text = as_text(&machine(2, 8, 8), Placement::ALL, None);
        snapbox::assert_data_eq!(
            text,
            str![[r#"
256 CPUs (128 cores, 16 L3s, 2 NUMA nodes, 2 packages)

package 0, NUMA node 0
  L3 0      8 cores × 2 threads: CPUs 0-7,128-135
  L3 1      8 cores × 2 threads: CPUs 8-15,136-143
  L3 2      8 cores × 2 threads: CPUs 16-23,144-151
  L3 3      8 cores × 2 threads: CPUs 24-31,152-159
  L3 4      8 cores × 2 threads: CPUs 32-39,160-167
  L3 5      8 cores × 2 threads: CPUs 40-47,168-175
  L3 6      8 cores × 2 threads: CPUs 48-55,176-183
  L3 7      8 cores × 2 threads: CPUs 56-63,184-191
package 1, NUMA node 1
  L3 8      8 cores × 2 threads: CPUs 64-71,192-199
  L3 9      8 cores × 2 threads: CPUs 72-79,200-207
  L3 10     8 cores × 2 threads: CPUs 80-87,208-215
  L3 11     8 cores × 2 threads: CPUs 88-95,216-223
  L3 12     8 cores × 2 threads: CPUs 96-103,224-231
  L3 13     8 cores × 2 threads: CPUs 104-111,232-239
  L3 14     8 cores × 2 threads: CPUs 112-119,240-247
  L3 15     8 cores × 2 threads: CPUs 120-127,248-255

-t auto     1,2,4,8,16,32,64,128,256

placement   task 0 goes to the first CPU, task 1 to the second, and so on
  cores     0-255
  smt       0 128 1 129 2 130 3 131 4 132 5 133 6 134 7 135 8 136 9 137 …
  compact   0-7 128-135 8-15 136-143 16-23 144-151 24-31 152-159 32-39 …
  scatter   0 64 8 72 16 80 24 88 32 96 40 104 48 112 56 120 1 65 9 73 …
  none      not pinned, up to 256 tasks
  --placement NAME shows the complete order

"#]]
        );
    }

    #[test]
    fn identical_small_domains_share_a_line() {
        let text = tree(&machine(1, 64, 1)).join("\n");
        snapbox::assert_data_eq!(
            text,
            str![[r#"
package 0, NUMA node 0
  L3 0-63   1 core × 2 threads each: CPUs 0-127
"#]]
        );
    }

    #[test]
    fn an_order_is_written_as_ranges_and_strides_and_truncated_at_the_limit() {
        assert_eq!(in_words(&[0, 1, 2, 3, 8, 9, 10, 7], 80), "0-3 8-10 7");
        assert_eq!(in_words(&[0, 2, 4, 6, 1, 0], 80), "0-6:2 1 0");
        assert_eq!(in_words(&[0, 4, 2, 6], 4), "0 4 …");
        assert_eq!(in_words(&[], 80), "");
    }

    #[test]
    fn json_has_the_schema_number_and_the_orders() {
        let machine = machine(1, 1, 2);
        let report = report(&machine, &[Placement::Smt], Some(1.0));
        let value = serde_json::to_value(report).unwrap();
        assert_eq!(value["schema"], 1);
        assert_eq!(value["auto_tasks"], serde_json::json!([1]));
        assert_eq!(value["placements"][0]["order"], serde_json::json!([0, 2, 1, 3]));
    }
}
