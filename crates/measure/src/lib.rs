//! Measuring how an operating system's services scale with cores.
#![cfg_attr(test, allow(missing_docs))]

pub mod area;
pub mod interrupt;
pub mod job;
pub mod launch;
pub mod runner;
pub mod task;
pub mod testcase;
pub mod testcases;
pub mod workdir;
