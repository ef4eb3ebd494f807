//! Pipes, sockets and waiting for them on one machine.

mod channel;
mod context_switch;
mod poll;
mod select;

use knee_run::Testcase;

pub(super) const TABLES: &[&[Testcase]] =
    &[channel::TESTCASES, poll::TESTCASES, select::TESTCASES, context_switch::TESTCASES];
