//! What a campaign has done so far.

use std::collections::BTreeMap;
use std::time::Duration;

use knee_host::number::time;
use knee_host::text::{Column, Screen, Table};

use crate::fault::Fault;
use crate::process::Ended;

/// A command that never succeeds reaches only the parser of its arguments. Fewer runs may all be refused by
/// chance.
const ENOUGH: u64 = 200;

/// Counts of runs, by reader and command.
#[derive(Default)]
pub(crate) struct Summary {
    rows: BTreeMap<&'static str, Row>,
    commands: BTreeMap<(&'static str, &'static str), Row>,
    /// How often each fault was seen, with a run that had it.
    faults: BTreeMap<String, (u64, u64)>,
}

#[derive(Default, Clone, Copy)]
struct Row {
    runs: u64,
    accepted: u64,
    cpu: Duration,
    memory: u64,
    faults: u64,
}

impl Row {
    fn add(&mut self, ended: &Ended, fault: Option<&Fault>) {
        self.runs += 1;
        self.accepted += u64::from(ended.status.success());
        self.cpu = self.cpu.max(ended.cpu);
        self.memory = self.memory.max(ended.memory);
        self.faults += u64::from(fault.is_some());
    }

    fn join(mut self, other: &Self) -> Self {
        self.runs += other.runs;
        self.accepted += other.accepted;
        self.cpu = self.cpu.max(other.cpu);
        self.memory = self.memory.max(other.memory);
        self.faults += other.faults;
        self
    }

    fn cells(&self, name: &str) -> Vec<knee_host::text::Cell> {
        let refused = self.runs - self.accepted - self.faults;
        vec![
            name.into(),
            self.runs.to_string().into(),
            self.accepted.to_string().into(),
            refused.to_string().into(),
            time(self.cpu.as_secs_f64()).into(),
            format!("{} MB", self.memory >> 20).into(),
            self.faults.to_string().into(),
        ]
    }
}

impl Summary {
    /// Adds a run. Returns how often its fault, if any, was seen before.
    pub(crate) fn add(
        &mut self,
        run: u64,
        reader: &'static str,
        command: &'static str,
        ended: &Ended,
        fault: Option<&Fault>,
    ) -> u64 {
        self.rows.entry(reader).or_default().add(ended, fault);
        self.commands.entry((reader, command)).or_default().add(ended, fault);
        let Some(fault) = fault else { return 0 };
        let (_, count) = self.faults.entry(format!("{reader}: {fault}")).or_insert((run, 0));
        *count += 1;
        *count - 1
    }

    pub(crate) fn runs(&self) -> u64 {
        self.rows.values().map(|row| row.runs).sum()
    }

    pub(crate) fn faults(&self) -> u64 {
        self.rows.values().map(|row| row.faults).sum()
    }

    /// The table of readers, the faults, and the commands that succeeded on no input.
    pub(crate) fn text(&self, screen: &Screen) -> String {
        let mut table = Table::new(vec![
            Column::left("reader"),
            Column::right("runs"),
            Column::right("accepted"),
            Column::right("refused"),
            Column::right("longest CPU time"),
            Column::right("largest memory"),
            Column::right("faults"),
        ]);
        table.titles();
        for (name, row) in &self.rows {
            table.row(row.cells(name));
        }
        let all = self.rows.values().fold(Row::default(), Row::join);
        table.row(all.cells("all"));
        let mut text = table.render(screen);
        for (fault, (run, count)) in &self.faults {
            text += &format!("{fault} ({count} times, such as in run {run})\n");
        }
        for ((reader, command), row) in &self.commands {
            if row.accepted == 0 && row.runs >= ENOUGH {
                text += &format!("{reader}: every run of knee {command} was refused\n");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn a_summary_counts_runs_and_names_faults_once() {
        let mut summary = Summary::default();
        let accepted =
            Ended { cpu: Duration::from_millis(20), memory: 5 << 20, ..Ended::default() };
        let refused = Ended { status: ExitStatus::from_raw(3 << 8), ..Ended::default() };
        let killed = Ended { status: ExitStatus::from_raw(11), ..Ended::default() };
        summary.add(0, "run", "show record", &accepted, None);
        summary.add(1, "run", "show record", &refused, None);
        let fault = Fault::Signal(11);
        assert_eq!(summary.add(2, "csv", "fit a", &killed, Some(&fault)), 0);
        assert_eq!(summary.add(3, "csv", "fit a", &killed, Some(&fault)), 1);
        assert_eq!((summary.runs(), summary.faults()), (4, 2));
        let text = summary.text(&Screen::UNLIMITED);
        assert!(text.contains("csv: was killed by SIGSEGV (2 times, such as in run 2)"), "{text}");
        assert!(!text.contains("was refused"), "{text}");
    }

    #[test]
    fn a_command_that_no_input_satisfies_is_named() {
        let mut summary = Summary::default();
        let refused = Ended { status: ExitStatus::from_raw(2 << 8), ..Ended::default() };
        for run in 0..ENOUGH {
            summary.add(run, "run", "fit record", &refused, None);
        }
        let text = summary.text(&Screen::UNLIMITED);
        assert!(text.contains("run: every run of knee fit record was refused"), "{text}");
    }
}
