//! The kernels that guests run, and the names of their code and data.

use std::fmt;

use crate::channel::Channel;
use crate::datum::{DataNames, Layouts, Resolver};
use crate::error::GuestError;
use crate::functions::Functions;
use crate::kernel::Kernel;
use crate::knee_kernel::{KneeData, KneeKernel};
use crate::ram::Ram;
use crate::record::TestResult;

/// A kernel that runs in a guest.
pub enum GuestKernel {
    /// Linux.
    Linux(Kernel),
    /// knee's own kernel.
    Knee(KneeKernel),
}

impl GuestKernel {
    /// The release of Linux, or the file of knee's own kernel.
    pub fn release(&self) -> String {
        match self {
            GuestKernel::Linux(kernel) => kernel.release().to_owned(),
            GuestKernel::Knee(kernel) => kernel.path().display().to_string(),
        }
    }
}

/// Displays Linux as `Linux 6.1.0-50-cloud-amd64`, and knee's own kernel as `kernel FILE`.
impl fmt::Display for GuestKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestKernel::Linux(_) => write!(f, "Linux {}", self.release()),
            GuestKernel::Knee(_) => write!(f, "kernel {}", self.release()),
        }
    }
}

/// The source of names for the code and the data of a guest.
pub(crate) enum Names<'a> {
    /// `None` until the symbols of Linux have arrived.
    Linux(Option<Box<Resolver>>),
    Knee(KneeData<'a>),
}

impl<'a> Names<'a> {
    /// The names in a guest that has not started yet.
    pub(crate) fn of(kernel: &'a GuestKernel) -> Names<'a> {
        match kernel {
            GuestKernel::Linux(_) => Names::Linux(None),
            GuestKernel::Knee(kernel) => Names::Knee(KneeData::new(kernel)),
        }
    }
}

impl Names<'_> {
    /// On knee's own kernel, adds the range of memory that a console line names.
    pub(crate) fn learn(&mut self, line: &str) {
        if let Names::Knee(data) = self {
            data.learn(line);
        }
    }

    /// The kernel's functions. On Linux, reads the symbols that the guest has sent over the channel.
    pub(crate) fn functions(
        &mut self,
        channel: Option<&Channel>,
        ram: &Ram,
    ) -> Result<Functions, GuestError> {
        match self {
            Names::Knee(data) => Ok(data.functions().clone()),
            Names::Linux(resolver) => {
                let symbols = channel.map_or_else(|| Ok(String::new()), Channel::kallsyms)?;
                let names = resolver.insert(Box::new(Resolver::new(ram.clone(), &symbols)));
                Ok(Functions::of(&symbols, names))
            }
        }
    }

    /// The names of data, if they are known.
    pub(crate) fn of_data(&mut self) -> Option<&mut dyn DataNames> {
        match self {
            Names::Knee(data) => Some(data),
            Names::Linux(resolver) => Some(&mut **resolver.as_mut()?),
        }
    }

    /// The types of the data that have been named for the first time since the last call.
    pub(crate) fn take_layouts(&mut self) -> Layouts {
        match self {
            Names::Linux(Some(resolver)) => resolver.take_layouts(),
            Names::Linux(None) | Names::Knee(_) => Layouts::default(),
        }
    }

    /// Names the data in the lines that the calls of a test shared, if the names are known.
    pub(crate) fn resolve(&mut self, result: &mut TestResult) {
        match self {
            Names::Linux(resolver) => {
                resolver.iter_mut().for_each(|resolver| resolver.resolve(result));
            }
            Names::Knee(data) => {
                for conflict in &mut result.conflicts {
                    conflict.datum = Some(data.datum(conflict));
                }
            }
        }
    }
}
