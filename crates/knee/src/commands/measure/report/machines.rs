//! Files of machines on the page.

use std::path::Path;

use knee_predict::Machine;
use knee_predict::machine::Matrix;
use knee_report::{CpuMap, Page};

use crate::input::machine::{is_machine_file, machine_file};
use crate::present::machine::{figures, shape};

/// Machines.
#[derive(Default)]
pub(super) struct Machines(Vec<CpuMap>);

impl Machines {
    /// Adds the file `path`. Returns `false` if it is not that of a machine.
    pub(super) fn add(&mut self, path: &Path) -> anyhow::Result<bool> {
        if !is_machine_file(path) {
            return Ok(false);
        }
        let (_, machine) = machine_file(path)?;
        self.0.push(map(machine));
        Ok(true)
    }

    /// Adds all of them to the page.
    pub(super) fn put(self, page: &mut Page) {
        page.cpu_maps = self.0;
    }
}

fn map(machine: Machine) -> CpuMap {
    let facts = vec![machine.title.clone(), shape(&machine)];
    let figures = figures(&machine)
        .map(|[name, value, range, source]| [name, value, range, machine.sources[&source].clone()])
        .collect();
    let (cpus, ns) = machine.matrix.map_or_else(Default::default, |Matrix { cpus, ns }| (cpus, ns));
    CpuMap { name: machine.name, facts, figures, cpus, ns }
}
