//! Writes tests as lines of JSON, which `knee_trace::record` reads.
//!
//! Addresses and masks are strings such as `"0xffff888003a4b040"`, since many JSON readers are
//! exact only up to 2⁵³. The plugin writes the first line at `Mark::Arm`:
//!
//! ```json
//! {"schema":1,"plugin":"knee","user":false,"interrupts":316,"faults":25,"switches":1}
//! ```
//!
//! The last three members say how many kernel entry points the guest has reported.
//! With `"interrupts":0`, the plugin cannot recognise interrupts, so their accesses count as
//! accesses of operations. When a test ends, the plugin writes a line for it (shown here as several
//! lines):
//!
//! ```json
//! {"test":0,
//!  "sides":[{"side":0,"cpu":1,"opened":1,"closed":1,"instructions":412,"accesses":167,
//!            "read":48,"written":21,"interrupts":0,"switches":0,"unresolved":0,
//!            "overflowed":false}],
//!  "conflicts":[{"line":"0x3a4b040","overlap":true,
//!    "sides":[{"side":0,"first":24,"last":31,"read":"0xff000000","written":"0xff000000",
//!              "virtual":["0xffff888003a4b040"],
//!              "writers":["0xffffffff812f3a10"],"readers":["0xffffffff812f3a04"],
//!              "callers":[["0xffffffff812f4b21","0xffffffff81000c07"],[]]}]}],
//!  "more":0,"stray":0}
//! ```
//!
//! * `sides` lists the sides that opened a window. In `sides`, `read` and `written` are numbers of
//!   distinct lines; in `conflicts` they are masks, with bit n for byte n of the line. `first` and `last` are
//!   the numbers of the lowest and the highest byte that the side touched in the line.
//! * `line` is the physical address of the line's first byte.
//! * `writers` and `readers` are addresses of code, at most four in all; writers take precedence.
//!   `callers` has a list for each of these addresses, in the same order: the call path of the code
//!   when it first touched the line. A call path has at most six calls, the innermost first; a
//!   fault appears as the block of code that it interrupted.
//! * `more` is the number of further conflicts, which are not listed.
//! * A test is **interrupted** if `interrupts` is not 0 for some side. The plugin ignores the accesses of
//!   interrupts, but records all accesses of the operation.
//! * A test is **disturbed**, and should be repeated, if `switches` is not 0 for some side: the task was
//!   switched out and back in. All accesses of the task are recorded, including those that the scheduler
//!   makes on behalf of the task.
//! * A test is **incomplete** if a side has `unresolved` accesses, if a side's `overflowed` is true, if a
//!   side closed fewer windows than it opened, or if the test has `stray` marks, which are marks out of
//!   order.
//!
//! With `moves=on`, a test has three more members for the lines that its sides had to get from
//! other CPUs. `taken` is the number of lines that a side wrote while other CPUs had them in their caches.
//! `fetched` is the number of lines that a side read after another CPU had modified them. `moves` lists the
//! first thousand of these lines: `from` is a mask of the CPUs that had the line in their caches, and `by`
//! describes the accesses of the side, as in conflicts:
//!
//! ```json
//! {"taken":1,"fetched":0,"moves":[{"line":"0x3a4b040","taken":true,"from":"0x5","by":{"side":0,…}}]}
//! ```
//!
//! With `accesses=on`, a test has a further member, which lists each side's accesses to the lines that have
//! moved since the caches were emptied, including those that moved in this test:
//!
//! ```json
//! {"accesses":[{"side":0,"cut":false,"lines":["0x3a4b040"],"code":["0xffffffff812f3a04"],
//!   "list":[[24,0,16,4,0,3]]}]}
//! ```
//!
//! * Each element of `list` describes all accesses that one execution of an instruction makes to one line.
//!   The elements are in the order of execution. The numbers in an element are: the number of instructions
//!   that the side executed before this one; the index of the line in `lines`; the offset of the first
//!   accessed byte in the line; the number of bytes; the index of the instruction's address in `code`; and
//!   the kind of the access. The kinds are 0 for a load, 1 for a store or a plain read-modify-write, 2 for an
//!   atomic read-modify-write, and 3 for an atomic compare and exchange.
//! * `cut` is true if later accesses of the side are missing. The list has at most 16,384 elements.
//!
//! With `accesses=on`, the plugin also writes a line for each batch of deferred work that a virtual CPU has
//! done, such as RCU callbacks that free memory after a grace period. `deferred` is the number of tests that
//! had begun when the batch ended. The other members are those of a test with one side. The window of this
//! side is the execution of the kernel function that does the work:
//!
//! ```json
//! {"deferred":17,"sides":[{"side":0,"cpu":1,…}],"conflicts":[],"more":0,"stray":0,"taken":1,…}
//! ```
//!
//! With `trace=INDEX`, the accesses of the test with that index precede the line of the test:
//!
//! ```json
//! {"trace":0,"side":0,"pc":"0xffffffff812f3a04","virtual":"0xffff888003a4b058",
//!  "physical":"0x3a4b058","bytes":8,"store":false}
//! ```

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter, Write as _};
use std::fs::File;
use std::io::{self, Write as _};

use crate::coherence::{Cpus, Move, Moves};
use crate::conflict::{Conflict, conflicts};
use crate::lines::{LINE_BYTES, Line, MAX_PCS};
use crate::log::{Kind, Logged, Reported};
use crate::side::Side;

/// The version of the schema above.
const SCHEMA: u32 = 1;

/// How many kernel entry points the guest has reported, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entries {
    pub(crate) interrupts: usize,
    pub(crate) faults: usize,
    pub(crate) switches: usize,
}

/// The output file. Each line is one write, so that readers see only whole lines.
pub(crate) struct Output {
    file: File,
    line: String,
}

impl Output {
    pub(crate) fn new(file: File) -> Output {
        Output { file, line: String::new() }
    }

    pub(crate) fn header(&mut self, user: bool, entries: Entries) -> io::Result<()> {
        let Entries { interrupts, faults, switches } = entries;
        self.write(format_args!(
            "{{\"schema\":{SCHEMA},\"plugin\":\"knee\",\"user\":{user},\
             \"interrupts\":{interrupts},\"faults\":{faults},\"switches\":{switches}}}\n"
        ))
    }

    /// Writes the trace, if there is one, and the result of a test. `sides` contains each side that opened a
    /// window, with the number of the side. Returns the number of listed conflicts.
    pub(crate) fn test(
        &mut self,
        test: u64,
        sides: &[(usize, &Side)],
        stray: u64,
        moves: Option<&Moves<'_>>,
        accesses: &[(usize, Reported)],
    ) -> io::Result<usize> {
        for (side, traced) in sides {
            for access in traced.trace.iter().flatten() {
                self.write(format_args!(
                    "{{\"trace\":{test},\"side\":{side},\"pc\":\"{:#x}\",\"virtual\":\"{:#x}\",\
                     \"physical\":\"{:#x}\",\"bytes\":{},\"store\":{}}}\n",
                    access.pc, access.address, access.physical, access.bytes, access.store
                ))?;
            }
        }
        self.result("test", test, sides, stray, moves, accesses)
    }

    /// Writes a batch of deferred work. `begun` is the number of tests that had begun when the batch ended.
    pub(crate) fn deferred(
        &mut self,
        begun: u64,
        sides: &[(usize, &Side)],
        moves: &Moves<'_>,
        accesses: &[(usize, Reported)],
    ) -> io::Result<()> {
        self.result("deferred", begun, sides, 0, Some(moves), accesses).map(drop)
    }

    /// Writes the result of a test or of a batch of deferred work. `kind` is the name of the first member of
    /// the line, and `number` is the value of this member. Returns the number of listed conflicts.
    fn result(
        &mut self,
        kind: &str,
        number: u64,
        sides: &[(usize, &Side)],
        stray: u64,
        moves: Option<&Moves<'_>>,
        accesses: &[(usize, Reported)],
    ) -> io::Result<usize> {
        let tables: Vec<_> = sides.iter().map(|(side, done)| (*side, &done.table)).collect();
        let (conflicts, more) = conflicts(&tables);
        self.write(format_args!(
            "{{\"{kind}\":{number},\"sides\":[{}],\"conflicts\":[{}],\"more\":{more},\"stray\":{stray}{}{}}}\n",
            List(sides.iter().map(|(side, done)| SideObject(*side, done))),
            List(conflicts.iter().map(|conflict| ConflictObject(conflict, sides))),
            MovesMembers(moves, sides),
            AccessesMember(accesses),
        ))?;
        Ok(conflicts.len())
    }

    fn write(&mut self, line: fmt::Arguments<'_>) -> io::Result<()> {
        self.line.clear();
        // Formatting these values into a string cannot fail.
        let _ = self.line.write_fmt(line);
        self.file.write_all(self.line.as_bytes())
    }
}

/// Elements with commas between them.
struct List<I>(I);

impl<I: Iterator<Item: Display> + Clone> Display for List<I> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, element) in self.0.clone().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{element}")?;
        }
        Ok(())
    }
}

struct Address(u64);

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"{:#x}\"", self.0)
    }
}

fn addresses(values: &[u64]) -> impl Display {
    List(values.iter().map(|&value| Address(value)))
}

struct Brackets<T>(T);

impl<T: Display> Display for Brackets<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0)
    }
}

struct SideObject<'a>(usize, &'a Side);

impl Display for SideObject<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let SideObject(side, Side { table, count, .. }) = self;
        let distinct = |touched: fn(&Line) -> u64| {
            table.lines().iter().filter(|&line| touched(line) != 0).count()
        };
        write!(
            f,
            "{{\"side\":{side},\"cpu\":{},\"opened\":{},\"closed\":{},\"instructions\":{},\
             \"accesses\":{},\"read\":{},\"written\":{},\"interrupts\":{},\"switches\":{},\
             \"unresolved\":{},\"overflowed\":{}}}",
            count.cpu,
            count.opened,
            count.closed,
            count.instructions,
            count.accesses,
            distinct(|line| line.read),
            distinct(|line| line.written),
            count.interrupts,
            count.switches,
            count.unresolved,
            table.overflowed(),
        )
    }
}

/// The sides that opened a window, each with its side number.
type Sides<'a> = &'a [(usize, &'a Side)];

struct ConflictObject<'a>(&'a Conflict<'a>, Sides<'a>);

impl Display for ConflictObject<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ConflictObject(Conflict { sides, overlap }, all) = self;
        let line = sides.first().map_or(0, |(_, line)| line.number * LINE_BYTES);
        let sides = List(sides.iter().map(|(side, line)| TouchObject(*side, line, all)));
        write!(f, "{{\"line\":{},\"overlap\":{overlap},\"sides\":[{sides}]}}", Address(line))
    }
}

/// The JSON members that `moves=on` adds to a test.
struct MovesMembers<'a>(Option<&'a Moves<'a>>, Sides<'a>);

impl Display for MovesMembers<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let &MovesMembers(Some(Moves { taken, fetched, first }), sides) = self else {
            return Ok(());
        };
        let first = first.iter().map(|&(side, line, how, from)| MoveObject {
            how,
            from,
            by: TouchObject(side, line, sides),
        });
        let first = List(first);
        write!(f, ",\"taken\":{taken},\"fetched\":{fetched},\"moves\":[{first}]")
    }
}

/// The JSON member that `accesses=on` adds to a test.
struct AccessesMember<'a>(&'a [(usize, Reported)]);

impl Display for AccessesMember<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ",\"accesses\":[{}]", List(self.0.iter().map(|(side, of)| ListObject(*side, of))))
    }
}

struct ListObject<'a>(usize, &'a Reported);

impl Display for ListObject<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ListObject(side, Reported { accesses, cut }) = self;
        let lines = Distinct::of(accesses.iter().map(|access| access.line * LINE_BYTES));
        let code = Distinct::of(accesses.iter().map(|access| access.pc));
        write!(
            f,
            "{{\"side\":{side},\"cut\":{cut},\"lines\":[{}],\"code\":[{}],\"list\":[{}]}}",
            addresses(&lines.values),
            addresses(&code.values),
            List(accesses.iter().map(|&access| AccessArray(access, &lines, &code))),
        )
    }
}

/// An element of `list`: an access, and the lines and addresses of code to which its indices refer.
struct AccessArray<'a>(Logged, &'a Distinct, &'a Distinct);

impl Display for AccessArray<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let AccessArray(Logged { at, line, pc, offset, bytes, kind }, lines, code) = self;
        let (line, code) = (lines.index(line * LINE_BYTES), code.index(*pc));
        let kind = match kind {
            Kind::Load => 0,
            Kind::Store => 1,
            Kind::Atomic => 2,
            Kind::CompareExchange => 3,
        };
        write!(f, "[{at},{line},{offset},{bytes},{code},{kind}]")
    }
}

/// Distinct numbers, in the order of their first occurrence.
struct Distinct {
    values: Vec<u64>,
    indices: HashMap<u64, usize>,
}

impl Distinct {
    fn of(all: impl Iterator<Item = u64>) -> Distinct {
        let mut distinct = Distinct { values: Vec::new(), indices: HashMap::new() };
        for value in all {
            let Distinct { values, indices } = &mut distinct;
            indices.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() - 1
            });
        }
        distinct
    }

    /// Returns the index of a number that is present.
    fn index(&self, value: u64) -> usize {
        self.indices[&value]
    }
}

struct MoveObject<'a> {
    how: Move,
    from: Cpus,
    by: TouchObject<'a>,
}

impl Display for MoveObject<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let MoveObject { how, from, by } = self;
        write!(
            f,
            "{{\"line\":{},\"taken\":{},\"from\":{},\"by\":{}}}",
            Address(by.1.number * LINE_BYTES),
            *how == Move::Taken,
            Address(*from),
            by,
        )
    }
}

struct TouchObject<'a>(usize, &'a Line, Sides<'a>);

impl Display for TouchObject<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let TouchObject(number, line, sides) = self;
        let touched = line.read | line.written;
        let side = sides.iter().find(|(side, _)| side == number).map(|(_, side)| side);
        let Some(details) = side.and_then(|side| side.table.details(line.number)) else {
            return Err(fmt::Error);
        };
        let writers = details.writers.pcs();
        let readers = details.readers.pcs();
        let readers = &readers[..readers.len().min(MAX_PCS - writers.len())];
        let chains = details.writers.chains().iter().chain(details.readers.chains()).take(MAX_PCS);
        let callers = chains.map(|&chain| side.map_or(&[][..], |side| side.calls.callers(chain)));
        write!(
            f,
            "{{\"side\":{number},\"first\":{},\"last\":{},\"read\":{},\"written\":{},\
             \"virtual\":[{}],\"writers\":[{}],\"readers\":[{}],\"callers\":[{}]}}",
            touched.trailing_zeros(),
            63 - touched.leading_zeros(),
            Address(line.read),
            Address(line.written),
            addresses(details.virtuals.as_slice()),
            addresses(writers),
            addresses(readers),
            List(callers.map(|calls| Brackets(addresses(calls)))),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;
    use crate::block::{BlockStart, Ends};
    use crate::lines::Access;

    #[test]
    fn a_conflict_is_written_according_to_the_schema() {
        let side = |address: u64, store| {
            let mut side = Side::new();
            side.count.opened = 1;
            side.count.closed = 1;
            let pc = 0xffff_ffff_8100_0000;
            let physical = address & 0xffff;
            for (address, ends) in [(pc - 0x100, Ends::Call), (pc, Ends::Otherwise)] {
                let enters = None;
                side.calls.block(&BlockStart { address, length: 1, enters, ends });
                side.calls.call(address);
            }
            let access = Access { physical, address, bytes: 4, pc, store };
            side.table.add(&access, || side.calls.chain());
            side
        };
        let (writer, reader) = (side(0xffff_8880_0000_1044, true), side(0x7000_1044, false));
        let path = std::env::temp_dir().join(format!("knee-plugin-{}", std::process::id()));
        let mut options = File::options();
        let mut file =
            options.create_new(true).read(true).write(true).open(&path).expect("create a file");
        std::fs::remove_file(&path).expect("unlink it");
        let mut output = Output::new(file.try_clone().expect("share the file"));
        let line = &writer.table.lines()[0];
        let moves = Moves { taken: 1, fetched: 2, first: vec![(0, line, Move::Taken, 0b101)] };
        let sides = [(0, &writer), (2, &reader)];
        let (offset, bytes, kind) = (4, 4, Kind::CompareExchange);
        let access = Logged { at: 24, line: 0x41, pc: 0xffff_ffff_8100_0000, offset, bytes, kind };
        let again = Logged { at: 31, kind: Kind::Load, ..access };
        let accesses = [(0, Reported { accesses: vec![access, again], cut: true })];
        let count = output.test(7, &sides, 1, Some(&moves), &accesses).expect("write");
        assert_eq!(count, 1);
        file.rewind().expect("go to its start");
        let mut written = String::new();
        file.read_to_string(&mut written).expect("read it");
        let expected = r#"{"test":7,"sides":[{"side":0,"cpu":0,"opened":1,"closed":1,"instructions":0,"accesses":0,"read":0,"written":1,"interrupts":0,"switches":0,"unresolved":0,"overflowed":false},{"side":2,"cpu":0,"opened":1,"closed":1,"instructions":0,"accesses":0,"read":1,"written":0,"interrupts":0,"switches":0,"unresolved":0,"overflowed":false}],"conflicts":[{"line":"0x1040","overlap":true,"sides":[{"side":0,"first":4,"last":7,"read":"0x0","written":"0xf0","virtual":["0xffff888000001040"],"writers":["0xffffffff81000000"],"readers":[],"callers":[["0xffffffff80ffff00"]]},{"side":2,"first":4,"last":7,"read":"0xf0","written":"0x0","virtual":["0x70001040"],"writers":[],"readers":["0xffffffff81000000"],"callers":[["0xffffffff80ffff00"]]}]}],"more":0,"stray":1,"taken":1,"fetched":2,"moves":[{"line":"0x1040","taken":true,"from":"0x5","by":{"side":0,"first":4,"last":7,"read":"0x0","written":"0xf0","virtual":["0xffff888000001040"],"writers":["0xffffffff81000000"],"readers":[],"callers":[["0xffffffff80ffff00"]]}}],"accesses":[{"side":0,"cut":true,"lines":["0x1040"],"code":["0xffffffff81000000"],"list":[[24,0,4,4,0,3],[31,0,4,4,0,0]]}]}"#;
        assert_eq!(written.trim_end(), expected);
    }
}
