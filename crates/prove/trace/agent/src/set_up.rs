//! Computes the steps that create a test's initial state, in an order that needs few system calls.
//!
//! The set-up takes most of a test's time. A kernel returns the lowest unused descriptor, so steps
//! open descriptors in ascending order, and most descriptors get the intended number at once. The
//! step that makes a file or a pipe also leaves it open, or maps it, if the test needs that. If
//! only one process uses an empty file, that process makes it. So only a few files need temporary
//! names, by which other steps find them. Later steps remove these names.

use knee_plan::{Home, MOST_OCCUPIED, Mapped, Nr, Opened, Step};
use serde_json::Value;

use crate::arguments::{Unknown, datum, fd, name, names, number, text};
use crate::layout::{BASE_ENDS, MOST_HIDDEN, hidden_end};

/// A file or a pipe.
struct Made {
    /// The step that makes the file or the pipe. In the end, `map` and `keeps` of this struct are added to
    /// the step.
    step: Step,
    /// The process that executes the step: see [`maker`].
    by: u8,
    /// The page that the step maps after it has made the file.
    map: Option<Mapped>,
    /// The descriptors that the step leaves open: for a file, one descriptor at index 0; for a
    /// pipe, one descriptor for each end.
    keeps: [Option<Opened>; 2],
    thing: Thing,
    /// For a pipe: how many hidden read ends and how many hidden write ends it has. Hidden ends are the ends
    /// that the test does not open.
    hidden: [i64; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Thing {
    File(Nr, Home),
    Pipe(Nr),
}

/// A page of a file or of anonymous memory that a process maps.
struct Map {
    process: u8,
    of: Option<(Thing, Home)>,
    page: Mapped,
    datum: Nr,
}

/// A descriptor of a process. It refers to `of`: a file, or one end of a pipe (0 is the read end, 1 is the
/// write end). If `of` is `None`, the descriptor may refer to any file.
struct Open {
    process: u8,
    of: Option<(Thing, usize)>,
    at: Opened,
}

/// Returns the steps that create the initial state of a test, each with the process that executes it. The
/// lines of `setup` describe the state. If `stats` is true, some of the steps read inode numbers, which are
/// compared with results of calls.
pub(crate) fn steps(setup: &[Value], stats: bool) -> Result<Vec<(u8, Step)>, Unknown> {
    let (mut made, mut opens, mut maps) = (Vec::new(), Vec::new(), Vec::new());
    for line in setup {
        let process = number(line, "process").unwrap_or(0) as u8;
        match text(line, "do")? {
            "file" => made.push(file(line)?),
            "pipe" => made.push(pipe(line)?),
            "open" => opens.push(open(process, line, &mut made)?),
            "occupy" => {
                let fds = line["fds"].as_array().ok_or("fds is missing")?;
                if fds.len() > MOST_OCCUPIED {
                    return Err(format!(
                        "{} descriptors to occupy; at most {MOST_OCCUPIED} are supported",
                        fds.len()
                    ));
                }
                for fd in fds {
                    let fd = fd.as_i64().ok_or("a descriptor that is not a number")? as i32;
                    opens.push(Open { process, of: None, at: Opened { fd, off: 0 } });
                }
            }
            "map" => maps.push(map(process, line, &made)?),
            other => return Err(format!("unknown step {other}")),
        }
    }
    for made in &mut made {
        made.by = maker(made, &opens, &maps);
    }
    opens.sort_by_key(|open| (open.process, open.at.fd));
    opens.retain(|open| !is_kept(open, &mut made));
    maps.retain(|map| !is_mapped_at_once(map, &mut made));

    // A file needs a name only if another step opens or maps the file.
    let is_found = |thing: Thing| {
        let opened = opens.iter().any(|open| open.of.is_some_and(|(of, _)| of == thing));
        let mapped = maps.iter().any(|map| map.of.is_some_and(|(of, _)| of == thing));
        opened || mapped
    };
    let (mut last, mut learned, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
    let mut ordered = Vec::new();
    for made in &made {
        let kept = made.keeps.iter().flatten().map(|open| open.fd).min();
        let step = match (made.step, made.thing) {
            (Step::Pipe { data, .. }, Thing::Pipe(nr)) => {
                Step::Pipe { data, ends: ends(made, nr, &mut last, &mut forgotten) }
            }
            (Step::File { inode, home, names, links, pages, .. }, _) => {
                let (open, map) = (made.keeps[0], made.map);
                let mut home = home;
                if home == Home::Own(inode) {
                    let is_known = open.is_some() || map.is_some() && !stats;
                    if is_known && !is_found(made.thing) {
                        home = Home::Nowhere;
                    } else {
                        forgotten.push((0, Step::Forget { inode }));
                    }
                }
                if stats {
                    learned.push(match open {
                        Some(open) => (made.by, Step::LearnOpen { inode, fd: open.fd }),
                        None => (0, Step::Learn { inode, home }),
                    });
                }
                Step::File { inode, home, names, links, pages, open, map }
            }
            (step, _) => step,
        };
        // Steps that keep no descriptor come first. They close the descriptors that they open, so later steps
        // can reuse the numbers.
        ordered.push(((made.by, kept.unwrap_or(-1)), step));
    }
    for Open { process, of, at } in opens {
        let step = match of {
            None => Step::Occupy { fd: at.fd },
            Some((Thing::File(_, home), _)) => Step::OpenFile { home, open: at },
            Some((Thing::Pipe(nr), end)) => {
                let made = made.iter().find(|made| made.thing == Thing::Pipe(nr));
                let own = made.map_or(base(nr, end), |made| own_end(made, nr, end));
                Step::OpenPipe { fd: at.fd, end: own, write: end == 1 }
            }
        };
        ordered.push(((process, at.fd), step));
    }
    ordered.sort_by_key(|(place, _)| *place);
    let mut steps: Vec<(u8, Step)> =
        ordered.into_iter().map(|((process, _), step)| (process, step)).collect();
    steps.append(&mut last);
    steps.extend(maps.into_iter().map(|Map { process, of, page, datum }| {
        let Mapped { va, writable, .. } = page;
        let step = match of {
            None => Step::MapAnonymous { va, writable, datum },
            Some((_, home)) => Step::MapFile { home, map: page },
        };
        (process, step)
    }));
    steps.append(&mut learned);
    steps.append(&mut forgotten);
    Ok(steps)
}

fn file(line: &Value) -> Result<Made, Unknown> {
    let inode = name(line, "inode")?;
    let (names, pages) = (names(line, "names")?, names(line, "pages")?);
    let links = number(line, "links")? as u8;
    let home = match names.as_slice() {
        [first, ..] => Home::Name(*first),
        [] if links > 0 => Home::Hidden(inode),
        [] => Home::Own(inode),
    };
    let step = Step::File { inode, home, names, links, pages, open: None, map: None };
    Ok(made(step, Thing::File(inode, home), [0; 2]))
}

fn pipe(line: &Value) -> Result<Made, Unknown> {
    let nr = name(line, "pipe")?;
    let step = Step::Pipe { data: names(line, "data")?, ends: [0; 2] };
    // These numbers include the ends that the test opens; the function `open` subtracts those ends.
    let hidden = [number(line, "readers")?, number(line, "writers")?];
    if hidden.iter().any(|ends| *ends > MOST_HIDDEN.into()) {
        return Err(format!("a pipe with more than {MOST_HIDDEN} read ends or write ends"));
    }
    Ok(made(step, Thing::Pipe(nr), hidden))
}

fn made(step: Step, thing: Thing, hidden: [i64; 2]) -> Made {
    Made { step, by: 0, map: None, keeps: [None; 2], thing, hidden }
}

fn open(process: u8, line: &Value, made: &mut [Made]) -> Result<Open, Unknown> {
    if line.get("pipe").is_some() {
        let (thing, end) = (Thing::Pipe(name(line, "pipe")?), text(line, "end")? == "write");
        let pipe =
            made.iter_mut().find(|made| made.thing == thing).ok_or("an end of an unknown pipe")?;
        let end = usize::from(end);
        pipe.hidden[end] = pipe.hidden[end].saturating_sub(1);
        let at = Opened { fd: fd(line)?, off: 0 };
        return Ok(Open { process, of: Some((thing, end)), at });
    }
    let (inode, home) = home(made, line)?;
    let at = Opened { fd: fd(line)?, off: number(line, "off")? };
    Ok(Open { process, of: Some((Thing::File(inode, home), 0)), at })
}

fn map(process: u8, line: &Value, made: &[Made]) -> Result<Map, Unknown> {
    let (va, writable) = (name(line, "va")?, line["writable"] == true);
    let (of, off) = match line.get("inode") {
        None => (None, 0),
        Some(_) => {
            let (inode, home) = home(made, line)?;
            (Some((Thing::File(inode, home), home)), number(line, "off")?)
        }
    };
    Ok(Map { process, of, page: Mapped { va, writable, off }, datum: datum(line) })
}

/// Returns the inode in a line of the set-up, and the name by which steps find the file.
fn home(made: &[Made], line: &Value) -> Result<(Nr, Home), Unknown> {
    let wanted = name(line, "inode")?;
    let mut files = made.iter().filter_map(|made| match made.thing {
        Thing::File(inode, home) => Some((inode, home)),
        Thing::Pipe(_) => None,
    });
    files.find(|(inode, _)| *inode == wanted).ok_or_else(|| format!("no file has inode{wanted}"))
}

/// Returns the process that makes a file or a pipe. The first process makes all pipes, because the other
/// processes open the ends of pipes through the descriptors of the first process. The first process also
/// makes all files that are not empty, because the results of a test depend on the CPU that fills its files.
/// The kernel keeps new pages in a list of the CPU that allocates them, and later calls on that CPU drain the
/// list.
fn maker(made: &Made, opens: &[Open], maps: &[Map]) -> u8 {
    let is_empty = matches!(made.step, Step::File { pages, .. } if pages.as_slice().is_empty());
    let of_opens = opens.iter().filter(|open| open.of.is_some_and(|(of, _)| of == made.thing));
    let of_maps = maps.iter().filter(|map| map.of.is_some_and(|(of, _)| of == made.thing));
    let users = of_opens.map(|open| open.process).chain(of_maps.map(|map| map.process));
    if is_empty { users.min().unwrap_or(0) } else { 0 }
}

/// If possible, adds this page to the step that creates the file. Returns whether that step maps the page. If
/// a descriptor and a mapping came from one `open`, the calls would share more than the test describes. So if
/// that step leaves the file open, another step maps the page.
fn is_mapped_at_once(map: &Map, made: &mut [Made]) -> bool {
    let Some((thing, _)) = map.of else { return false };
    let Some(made) = made.iter_mut().find(|made| made.thing == thing) else { return false };
    let is_free = made.by == map.process && made.keeps[0].is_none() && made.map.is_none();
    if is_free {
        made.map = Some(map.page);
    }
    is_free
}

/// If possible, adds this descriptor to the step that creates the file or the pipe. Returns whether that step
/// keeps the descriptor open.
fn is_kept(open: &Open, made: &mut [Made]) -> bool {
    let Some((thing, end)) = open.of else { return false };
    let made = made.iter_mut().find(|made| made.thing == thing && made.by == open.process);
    let Some(made) = made else { return false };
    let is_free = made.keeps[end].is_none();
    if is_free {
        made.keeps[end] = Some(open.at);
    }
    is_free
}

/// Returns the first process's descriptors of a pipe's two ends. Each of these descriptors belongs to the
/// test, is hidden, or is needed only by the set-up. Appends to `more` the steps that open further hidden
/// ends, and to `closed` the steps that close the descriptors that only the set-up needs.
fn ends(made: &Made, nr: Nr, more: &mut Vec<(u8, Step)>, closed: &mut Vec<(u8, Step)>) -> [i32; 2] {
    [0, 1].map(|end| {
        let own = own_end(made, nr, end);
        if own == base(nr, end) {
            closed.push((0, Step::Close { fd: own }));
        }
        let write = end == 1;
        let first = u8::from(own == hidden_end(nr, write, 0));
        for hidden in first..made.hidden[end].max(0) as u8 {
            more.push((0, Step::OpenPipe { fd: hidden_end(nr, write, hidden), end: own, write }));
        }
        own
    })
}

/// Returns the descriptor of an end of a pipe in the first process, which has made the pipe.
fn own_end(made: &Made, nr: Nr, end: usize) -> i32 {
    match made.keeps[end] {
        Some(open) => open.fd,
        None if made.hidden[end] > 0 => hidden_end(nr, end == 1, 0),
        None => base(nr, end),
    }
}

fn base(nr: Nr, end: usize) -> i32 {
    BASE_ENDS + 2 * i32::from(nr) + end as i32
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(setup: &Value) -> Vec<String> {
        shown_with(setup, false)
    }

    fn shown_with(setup: &Value, stats: bool) -> Vec<String> {
        let steps = steps(setup.as_array().expect("a list"), stats).expect("known steps");
        let show = |(process, step): &(u8, Step)| match *step {
            Step::File { home, open, map, .. } => {
                let name = if home == Home::Nowhere { "nameless " } else { "" };
                let map = map.map_or(String::new(), |page| format!(", page {}", page.va));
                format!("{process}: {name}file at {:?}{map}", open.map(|it| it.fd))
            }
            Step::MapFile { map, .. } => format!("{process}: map page {}", map.va),
            Step::Learn { inode, .. } => format!("{process}: learn {inode} by name"),
            Step::LearnOpen { inode, fd } => format!("{process}: learn {inode} by {fd}"),
            Step::Pipe { ends, .. } => format!("{process}: pipe at {ends:?}"),
            Step::OpenFile { open, .. } => format!("{process}: open {}+{}", open.fd, open.off),
            Step::OpenPipe { fd, end, .. } => format!("{process}: open {fd} like {end}"),
            Step::Close { fd } => format!("{process}: close {fd}"),
            Step::Forget { inode } => format!("{process}: forget {inode}"),
            other => format!("{process}: {other:?}"),
        };
        steps.iter().map(show).collect()
    }

    fn file(inode: &str) -> Value {
        json!({ "do": "file", "inode": inode, "names": [], "pages": [], "links": 0 })
    }

    fn open(process: u8, fd: i32, inode: &str) -> Value {
        json!({ "do": "open", "process": process, "fd": fd, "inode": inode, "off": 0 })
    }

    #[test]
    fn the_step_that_makes_a_file_keeps_it_open_and_descriptors_are_opened_in_ascending_order() {
        let setup = json!([
            file("inode0"),
            file("inode1"),
            open(1, 0, "inode0"),
            open(0, 1, "inode0"),
            open(0, 0, "inode1"),
            open(0, 2, "inode0"),
        ]);
        assert_eq!(
            shown(&setup),
            [
                "0: nameless file at Some(0)",
                "0: file at Some(1)",
                "0: open 2+0",
                "1: open 0+0",
                "0: forget 0"
            ]
        );
    }

    fn map(process: u8, va: &str, inode: &str) -> Value {
        json!({ "do": "map", "process": process, "va": va, "inode": inode, "off": 0 })
    }

    #[test]
    fn a_file_that_only_the_second_process_uses_is_made_there_and_needs_no_name() {
        let setup = json!([
            file("inode0"),
            file("inode1"),
            open(1, 1, "inode0"),
            open(1, 0, "inode1"),
            map(1, "va0", "inode1"),
        ]);
        assert_eq!(
            shown(&setup),
            ["1: file at Some(0)", "1: nameless file at Some(1)", "1: map page 0", "0: forget 1"]
        );
    }

    #[test]
    fn the_step_that_makes_a_file_maps_it_once_unless_the_file_stays_open() {
        let setup = json!([
            file("inode0"),
            file("inode1"),
            file("inode2"),
            map(0, "va0", "inode0"),
            map(0, "va1", "inode1"),
            map(0, "va2", "inode1"),
            open(0, 0, "inode2"),
            map(0, "va3", "inode2"),
        ]);
        assert_eq!(
            shown(&setup),
            [
                "0: nameless file at None, page 0",
                "0: file at None, page 1",
                "0: file at Some(0)",
                "0: map page 2",
                "0: map page 3",
                "0: forget 1",
                "0: forget 2"
            ]
        );
    }

    #[test]
    fn inode_numbers_are_read_from_descriptors_if_the_file_is_open() {
        let setup =
            json!([file("inode0"), file("inode1"), open(1, 0, "inode0"), map(0, "va0", "inode1"),]);
        assert_eq!(
            shown_with(&setup, true),
            [
                "0: file at None, page 0",
                "1: nameless file at Some(0)",
                "1: learn 0 by 0",
                "0: learn 1 by name",
                "0: forget 1"
            ]
        );
    }

    #[test]
    fn ends_that_the_test_does_not_open_are_hidden_and_temporary_ends_are_closed_last() {
        let pipe = json!({ "do": "pipe", "pipe": "pipe0", "data": [], "readers": 3, "writers": 0 });
        let reader = json!({ "do": "open", "process": 1, "fd": 3, "pipe": "pipe0", "end": "read" });
        let (hidden, base) = (hidden_end(0, false, 0), base(0, 1));
        assert_eq!(
            shown(&json!([pipe, reader])),
            [
                format!("0: pipe at [{hidden}, {base}]"),
                format!("1: open 3 like {hidden}"),
                format!("0: open {} like {hidden}", hidden + 1),
                format!("0: close {base}"),
            ]
        );
    }

    #[test]
    fn the_first_process_uses_the_original_ends_of_a_pipe() {
        let setup = json!([
            { "do": "pipe", "pipe": "pipe0", "data": [], "readers": 1, "writers": 1 },
            { "do": "open", "fd": 1, "pipe": "pipe0", "end": "read" },
            { "do": "open", "fd": 0, "pipe": "pipe0", "end": "write" },
        ]);
        assert_eq!(shown(&setup), ["0: pipe at [1, 0]"]);
    }
}
