//! What `knee commute check` finds: the record of a check, and its evaluation.
//!
//! ```text
//! 6.1/
//!   check.json     the kernel or program, the tests, the progress (schemas/check.schema.json)
//!   tests.jsonl    a line per test, written when the test ends    (schemas/check-test.schema.json)
//! ```
//!
//! ```json
//! {"schema":1,"test":"lseek,close/3.1","verdict":"conflict","unexpected":null,"died":null,
//!  "conflicts":[{"data":["file.f_count"],"line":"0x3a4b040","same_bytes":true,
//!    "sides":{"0":{"bytes":[24,31],"wrote":true,"writers":["fget","fput"],"readers":[],
//!                  "callers":{"fget":[["ksys_lseek"]],"fput":[["ksys_lseek"]]}},
//!             "1":{"bytes":[24,31],"wrote":true,"writers":["filp_close"],"readers":[],
//!                  "callers":{"filp_close":[["__x64_sys_close"]]}}}}]}
//! ```
//!
//! `check.json` is replaced atomically. `tests.jsonl` grows by whole lines, each written by one
//! system call, so that at most the test in progress is lost if knee is killed. If the machine crashes
//! while a line is written, the partial line is removed when the record is resumed. A check can be divided
//! into shards, for example one for each machine. Each shard has a record of its own, and several of these
//! records can be read as one.
//!
//! # Which conflicts a test has
//!
//! A test runs until its calls share nothing in one run, or the same data in two successive runs. It runs at
//! most three times, or six times if its calls share lines *by position* only. The calls then touch different
//! bytes of a line, and these bytes might be in different lines in another object of the same type. A
//! disturbed or incomplete run is not valid, and counts only towards this maximum. A conflict of the test is
//! a datum that its calls share in **every** valid run. If the datum is unknown, the conflict is a line that
//! the same functions write in every valid run.
//!
//! * `conflict-free`: the calls share nothing in any valid run. This is also the verdict if some runs show no
//!   sharing and all other runs show only sharing by position.
//! * `conflict`: the calls share at least one datum in every run. `conflicts` lists the data that they share
//!   in every run, with the addresses and functions of the last run.
//! * `sometimes`: the calls share something in some runs, but there is no datum that they share in every run.
//!   `conflicts` lists everything that the calls share in any run, each datum once. One cause of this verdict
//!   is a cache that is occasionally refilled from a shared list. This is also the verdict if the calls share
//!   lines in every run, but by position only (`by_position`).
//! * `disturbed`: no run is valid.
//! * `died`: the guest or the program did not survive the test. The member `died` describes how the
//!   guest or the program ended.
//!
//! # The evaluation of a record
//!
//! Pure functions compute how many tests of each pair of calls are conflict-free ([`Tally`]), how two
//! records differ ([`Diff`]), and which data prevent the most tests from being conflict-free ([`Ranking`]), and which fields to move apart
//! ([`Separations`]).
//! The commands that print these results have schemas for their `--json` output:
//! `schemas/check-matrix.schema.json`, `schemas/check-diff.schema.json`,
//! `schemas/check-explain.schema.json` and `schemas/check-layout.schema.json`.

mod cause;
mod description;
mod diff;
mod document;
mod error;
mod line;
mod ranking;
mod reader;
mod separation;
mod shared_line;
mod tally;
mod verdict;
mod writer;

#[cfg(test)]
mod samples;

pub use cause::Cause;
pub use description::{
    Check, Ids, Shard, ShardError, Tested, TestedKernel, TestedProgram, Tool, ToolChange,
    check_schema, plugin_digest,
};
pub use diff::{DatumChange, Diff, PairChange, confirmed};
pub use document::{DiffDocument, MatrixDocument, Set, diff_schema, explain_schema, matrix_schema};
pub use error::FindingsError;
pub use line::{TestLine, require_operations, test_schema};
pub use ranking::{DataOfCause, Datum, Fix, Ranking};
pub use reader::{Findings, is_record, read_check};
pub use separation::{Separation, Separations, SharedField, separation_schema};
pub use shared_line::{SharedLine, Touched, way};
pub use tally::{Counts, Tally};
pub use verdict::Verdict;
pub use writer::Writer;

/// Version of both files.
pub const SCHEMA: u32 = 1;
/// Name of the file that describes the check.
pub const CHECK_FILE: &str = "check.json";
/// Name of the file of tests.
pub const TESTS_FILE: &str = "tests.jsonl";
