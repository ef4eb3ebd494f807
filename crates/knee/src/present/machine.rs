//! A machine as text.

use knee_host::number::{percent, plural, time};
use knee_host::text::{Column, Table, one_line};
use knee_predict::Machine;
use knee_predict::machine::{Distance, Figure};

use crate::stdout;

/// CPU count up to which the times between all pairs are printed.
const MOST_CPUS: usize = 16;

/// Prints a machine: its figures, and the times between all pairs if there are few.
pub(crate) fn show(machine: &Machine) -> anyhow::Result<()> {
    stdout::show(&format!("{}\n{}\n\n", one_line(&machine.title), shape(machine)))?;
    let columns =
        [Column::left(""), Column::right(""), Column::right("range"), Column::left("source")];
    let mut table = Table::new(columns.into());
    table.titles();
    let cell = |text: String| one_line(&text).into_owned().into();
    figures(machine).for_each(|row| table.row(row.map(cell).into()));
    stdout::show_table(&table)?;

    if let Some(matrix) = machine.matrix.as_ref().filter(|matrix| matrix.cpus.len() <= MOST_CPUS) {
        stdout::show("\nns to move a cache line between two CPUs\n\n")?;
        let names = matrix.cpus.iter().map(|cpu| Column::right(cpu.to_string()));
        let mut table = Table::new([Column::right("CPU")].into_iter().chain(names).collect());
        table.titles();
        for (cpu, row) in matrix.cpus.iter().zip(&matrix.ns) {
            let time = |&ns: &f64| if ns == 0.0 { String::new() } else { number(ns) };
            let cells = std::iter::once(cpu.to_string()).chain(row.iter().map(time));
            table.row(cells.map(Into::into).collect());
        }
        stdout::show_table(&table)?;
    }
    let sources = machine.sources.iter();
    let sources = sources.map(|(name, text)| format!("{}: {}\n", one_line(name), one_line(text)));
    stdout::show(&format!("\nSources\n{}", sources.collect::<String>()))
}

/// `2 sockets × 12 L3 caches × 8 cores × 2 threads: 384 CPUs`
pub(crate) fn shape(machine: &Machine) -> String {
    let parts = [
        (machine.sockets, "socket"),
        (machine.l3s_per_socket, "L3 cache"),
        (machine.cores_per_l3, "core"),
        (machine.threads_per_core, "thread"),
    ];
    let parts = parts.map(|(count, noun)| plural(count as usize, noun));
    format!("{}: {}", parts.join(" × "), plural(machine.cpus() as usize, "CPU"))
}

/// The figures of a machine: name, value, range, and the name of the source.
pub(crate) fn figures(machine: &Machine) -> impl Iterator<Item = [String; 4]> {
    let interrupts = machine.interrupt_ns.as_ref();
    let times = [
        ("transfer within a core", machine.transfer_ns.at(Distance::Core)),
        ("transfer within an L3 cache", machine.transfer_ns.at(Distance::L3)),
        ("transfer within a socket", machine.transfer_ns.at(Distance::Socket)),
        ("transfer between sockets", machine.transfer_ns.at(Distance::Machine)),
        ("interrupt of a CPU", interrupts.map(|found| &found.first)),
        ("interrupt of each further CPU", interrupts.and_then(|found| found.each.as_ref())),
        ("pause of a waiting loop", machine.pause_ns.as_ref()),
        ("wake-up of a thread", machine.wake_ns.as_ref()),
    ];
    let times = times.into_iter().filter_map(|(name, found)| Some(row(name, found?, nanoseconds)));
    let smt = machine.smt_slowdown.iter();
    let smt = smt.map(|found| row("busy sibling thread", found, |times| format!("× {times:.2}")));
    let additions = machine.contended_ns.iter().flat_map(|contended| {
        contended.points.iter().map(|(cpus, ns)| {
            let name = format!("atomic addition, {}", plural(*cpus as usize, "CPU"));
            [name, nanoseconds(*ns), String::new(), contended.source.clone()]
        })
    });
    let speeds = machine.clock.iter().flat_map(|clock| {
        clock.points.iter().map(|(cores, speed)| {
            let name = format!("speed, {}", plural(*cores as usize, "busy core"));
            [name, percent(*speed), String::new(), clock.source.clone()]
        })
    });
    times.chain(smt).chain(additions).chain(speeds)
}

fn row(name: &str, figure: &Figure, form: fn(f64) -> String) -> [String; 4] {
    let Figure { value, low, high, source } = figure;
    let range = match (low, high) {
        (None, None) => String::new(),
        _ => format!("{} to {}", form(low.unwrap_or(*value)), form(high.unwrap_or(*value))),
    };
    [name.to_owned(), form(*value), range, source.clone()]
}

/// `65 ns`, `8.2 ns` or `12.3 µs`
pub(crate) fn nanoseconds(ns: f64) -> String {
    if ns.fract() == 0.0 && ns < 1_000.0 { format!("{ns:.0} ns") } else { time(ns / 1e9) }
}

fn number(ns: f64) -> String {
    if ns < 10.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}
