//! A space, whatever its design.

use knee_baselines::AddressSpace;
use knee_vm::MapError;
use knee_vm::hosted::{Hosted, Processor};

/// Pages that may be mapped: a limit that is never reached, as that of kernels mostly is not, so what is
/// measured is to count.
pub(super) const LIMIT: u64 = 1 << 40;

/// A CPU of the machine that all tasks are.
pub(super) type Cpu = Processor<'static>;

/// A space. Each call goes through a table, which costs all designs the same nanosecond.
pub(super) trait Memory: AddressSpace<'static, Hosted> {
    /// [`AddressSpace::fork`], of a space whose design the caller does not know.
    fn fork_boxed(&self, cpu: &Cpu) -> Result<Box<dyn Memory>, MapError>;
}

impl<S: AddressSpace<'static, Hosted> + 'static> Memory for S {
    fn fork_boxed(&self, cpu: &Cpu) -> Result<Box<dyn Memory>, MapError> {
        Ok(Box::new(self.fork(cpu)?))
    }
}
