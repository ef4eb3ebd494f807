//! The steps that set up the initial state of a test. Each test begins with no files, no descriptors
//! and no memory.
//!
//! - `{"do": "file", "inode": I, "names": [N…], "links": n, "pages": [D…]}`: a file. If `links` is larger
//!   than the number of names, the runner adds hidden names. A page that is `null` may hold anything.
//! - `{"do": "pipe", "pipe": P, "data": [D…], "readers": n, "writers": n}`: a pipe. If the pipe has more
//!   readers or writers than the test opens, the runner opens additional, hidden ends.
//! - `{"do": "open", "process": p, "fd": n, "inode": I, "off": pages}`
//! - `{"do": "open", "process": p, "fd": n, "pipe": P, "end": "read" or "write"}`
//! - `{"do": "occupy", "process": p, "fds": [n…]}`: opens descriptors that may refer to anything.
//! - `{"do": "map", "process": p, "va": V, "writable": bool, "datum": D}`: a page of anonymous
//!   memory, shared by the threads of the process.
//! - `{"do": "map", "process": p, "va": V, "writable": bool, "inode": I, "off": page}`: a shared
//!   mapping of a page of a file.
//! - `{"do": "leave", "process": p, "va": V}`: begins a delayed munmap of the page at this address.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::models::posix::state::{Fd, Inode, InodeState, PipeState, Posix, Process};
use crate::{Example, Execution, Int, Term};

/// The known entries of a map, without the keys that have no value.
fn present<K, V>(known: Vec<(K, Option<V>)>) -> impl Iterator<Item = (K, V)> {
    known.into_iter().filter_map(|(key, value)| Some((key, value?)))
}

pub(super) fn setup(
    state: &Posix,
    execution: &mut Execution,
    example: &mut Example<'_>,
) -> Vec<Value> {
    let processes = [(0, &state.proc0), (1, &state.proc1), (2, &state.proc2)];
    let (mut files, mut pipes) = (Files::of(state, execution, example), BTreeMap::new());
    for (pipe, ends) in state.pipes.known(execution) {
        if !execution.facts().is_fresh(pipe.0) {
            pipes.insert(
                example.term(pipe),
                pipe_step(example.term(pipe), &ends, execution, example),
            );
        }
    }
    let mut later = Vec::new();
    for (nr, process) in processes {
        let mut occupied = Vec::new();
        for (fd, open) in present(process.fds.known(execution)) {
            match open.is_pipe.known(execution) {
                None => occupied.push(example.int(fd)),
                Some(_) => later.push(open_step(nr, example.int(fd), &open, &mut files, example)),
            }
        }
        occupied.extend(below_unused(process, execution, example));
        if !occupied.is_empty() {
            occupied.sort_unstable();
            later.push(json!({ "do": "occupy", "process": nr, "fds": occupied }));
        }
        for (va, area) in present(process.memory.known(execution)) {
            let mut step = json!({
                "do": "map",
                "process": nr,
                "va": example.term(va),
                "writable": example.truth(area.writable),
            });
            if area.anonymous.known(execution) == Some(false) {
                step["inode"] = json!(files.named(area.inode, example));
                step["off"] = json!(example.int(area.off.0));
            } else {
                step["datum"] = json!(example.term(area.datum));
            }
            later.push(step);
        }
        for (va, ()) in present(process.leaving.known(execution)) {
            later.push(json!({ "do": "leave", "process": nr, "va": example.term(va) }));
        }
    }
    files.steps().chain(pipes.into_values()).chain(later).collect()
}

/// The files of a test, by the name of the inode.
#[derive(Default)]
struct Files(BTreeMap<String, File>);

#[derive(Default)]
struct File {
    names: Vec<String>,
    links: i64,
    pages: Vec<Value>,
}

impl Files {
    /// The known files of the initial state: files with a name in the directory, and files that a
    /// call has used.
    fn of(state: &Posix, execution: &Execution, example: &mut Example<'_>) -> Self {
        let mut files = Self::default();
        for (inode, known) in state.inodes.known(execution) {
            if !execution.facts().is_fresh(inode.0) {
                let file = files.file(inode, example);
                file.links = example.int(known.nlink.0);
                file.pages = pages(&known, execution, example);
            }
        }
        for (name, inode) in present(state.dir.known(execution)) {
            let name = example.term(name);
            files.file(inode, example).names.push(name);
        }
        files
    }

    fn file(&mut self, inode: Term<Inode>, example: &mut Example<'_>) -> &mut File {
        self.0.entry(example.term(inode)).or_default()
    }

    /// The name of an inode. Adds the file of the inode if the file is missing.
    fn named(&mut self, inode: Term<Inode>, example: &mut Example<'_>) -> String {
        self.file(inode, example);
        example.term(inode)
    }

    fn steps(self) -> impl Iterator<Item = Value> {
        self.0.into_iter().map(|(inode, file)| {
            let links = file.links.max(file.names.len() as i64);
            json!({
                "do": "file",
                "inode": inode,
                "names": file.names,
                "links": links,
                "pages": file.pages,
            })
        })
    }
}

fn pages(file: &InodeState, execution: &Execution, example: &mut Example<'_>) -> Vec<Value> {
    let known: Vec<(i64, String)> = file
        .data
        .pages
        .known(execution)
        .into_iter()
        .map(|(page, datum)| (example.int(page), example.term(datum)))
        .collect();
    let page = |nr: i64| known.iter().find(|(at, _)| *at == nr).map(|(_, datum)| json!(datum));
    (0..example.int(file.data.len.0)).map(|nr| page(nr).unwrap_or(Value::Null)).collect()
}

fn pipe_step(
    pipe: String,
    ends: &PipeState,
    execution: &mut Execution,
    example: &mut Example<'_>,
) -> Value {
    let data: Vec<String> =
        ends.data.initial(execution).into_iter().map(|datum| example.term(datum)).collect();
    json!({
        "do": "pipe",
        "pipe": pipe,
        "data": data,
        "readers": example.int(ends.readers.0),
        "writers": example.int(ends.writers.0),
    })
}

fn open_step(
    process: u8,
    fd: i64,
    open: &Fd,
    files: &mut Files,
    example: &mut Example<'_>,
) -> Value {
    let mut step = json!({ "do": "open", "process": process, "fd": fd });
    if example.truth(open.is_pipe) {
        step["pipe"] = json!(example.term(open.pipe));
        step["end"] = json!(if example.truth(open.writer) { "write" } else { "read" });
    } else {
        step["inode"] = json!(files.named(open.inode, example));
        step["off"] = json!(example.int(open.off.0));
    }
    step
}

/// The further descriptors that the set-up must occupy, so that the lowest unused descriptors are those that
/// the situation requires.
fn below_unused(process: &Process, execution: &Execution, example: &Example<'_>) -> Vec<i64> {
    let unused: Vec<i64> =
        process.fds.known_unused(execution).into_iter().map(|fd: Int| example.int(fd)).collect();
    let known: Vec<i64> =
        process.fds.known(execution).into_iter().map(|(fd, _)| example.int(fd)).collect();
    let below = 0..unused.last().copied().unwrap_or(0);
    below.filter(|fd| !unused.contains(fd) && !known.contains(fd)).collect()
}
