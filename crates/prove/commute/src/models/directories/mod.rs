//! Nested directories: a name in a directory refers to a file or to another directory.
//!
//! Operations on different names of one directory commute, although most file systems lock the
//! directory for each operation. Operations that depend on the directory as a whole do not commute.
//! `rmdir` depends on the directory being empty, so an `rmdir` that succeeds does not commute with
//! any `create` in that directory. Two `mkdir` of different names in one directory commute with
//! each other, but not with an `fstat` of the directory, because st_nlink of a directory counts its
//! sub-directories. `fstatx`, which does not return st_nlink, commutes with every `mkdir`.
//!
//! Calls take a directory and a name in it, as openat does. A call may still refer to a directory that
//! `rmdir` has removed; the call finds nothing there. The model leaves out times. If it had times, their
//! values would be open, and the explorer would choose them so that the orders agree. `rename` moves a
//! directory only within its parent, and otherwise returns EXDEV. For a move to another parent, the call
//! would have to make sure that no directory becomes its own ancestor, so the call would depend on every
//! directory in between.

pub mod tree;

use crate::models::directories::tree::{Counts, Directory, Found, Node, Path, Tree};
use crate::{Call, Interface, Natural, Operation, Outcome, State, Stop, Term, Truth};

/// The directory that the argument `name` refers to; `None` if it was removed.
fn dir_argument(
    state: &Tree,
    name: &str,
    call: &mut Call<'_>,
) -> Result<Option<Term<Directory>>, Stop> {
    let dir = call.term(name);
    Ok(state.dirs.contains(&dir, call.execution)?.then_some(dir))
}

/// The path in a call's arguments, and what the path refers to; `None` if the path's directory was removed.
fn path(state: &Tree, call: &mut Call<'_>) -> Result<Option<(Path, Option<Found>)>, Stop> {
    let Some(dir) = dir_argument(state, "dir", call)? else { return Ok(None) };
    let path = Path { dir, name: call.term("name") };
    let found = state.look_up(&path, call.execution)?;
    Ok(Some((path, found)))
}

fn mkdir(state: &mut Tree, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let Some((path, found)) = path(state, call)? else { return Ok(Outcome::of("ENOENT")) };
    if found.is_some() {
        return Ok(Outcome::of("EEXIST"));
    }
    let (dir, zero) = (call.fresh("new directory")?, Natural(0.into()));
    let depth = Natural::unknown(call.execution, "depth of a new directory");
    state.dirs.insert(dir, Counts { files: zero, subdirs: zero, depth });
    let node = Node { is_dir: Truth::Known(true), dir, ..Node::unknown(call.execution, "no file") };
    state.entries.insert(path, node);
    state.count(path.dir, [0, 1], call.execution)?;
    Ok(Outcome::of("0"))
}

fn rmdir(state: &mut Tree, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let (path, dir) = match path(state, call)? {
        None | Some((_, None)) => return Ok(Outcome::of("ENOENT")),
        Some((_, Some(Found::File(_)))) => return Ok(Outcome::of("ENOTDIR")),
        Some((path, Some(Found::Dir(dir)))) => (path, dir),
    };
    let removed = state.remove_dir(path, dir, call.execution)?;
    Ok(Outcome::of(if removed { "0" } else { "ENOTEMPTY" }))
}

fn create(state: &mut Tree, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let Some((path, found)) = path(state, call)? else { return Ok(Outcome::of("ENOENT")) };
    if found.is_some() {
        return Ok(Outcome::of("EEXIST"));
    }
    let file = call.fresh("new file")?;
    let node =
        Node { is_dir: Truth::Known(false), file, ..Node::unknown(call.execution, "no dir") };
    state.entries.insert(path, node);
    state.count(path.dir, [1, 0], call.execution)?;
    Ok(Outcome::of("0"))
}

fn unlink(state: &mut Tree, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let path = match path(state, call)? {
        None | Some((_, None)) => return Ok(Outcome::of("ENOENT")),
        Some((_, Some(Found::Dir(_)))) => return Ok(Outcome::of("EISDIR")),
        Some((path, Some(Found::File(_)))) => path,
    };
    state.entries.remove(path);
    state.count(path.dir, [-1, 0], call.execution)?;
    Ok(Outcome::of("0"))
}

fn rename(state: &mut Tree, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let Some((old, found)) = path(state, call)? else { return Ok(Outcome::of("ENOENT")) };
    let Some(new_dir) = dir_argument(state, "new_dir", call)? else {
        return Ok(Outcome::of("ENOENT"));
    };
    let Some(found) = found else { return Ok(Outcome::of("ENOENT")) };
    let new = Path { dir: new_dir, name: call.term("new_name") };
    let within = new.dir.same(&old.dir, call.execution)?;
    let moved = match found {
        Found::Dir(_) if !within => return Ok(Outcome::of("EXDEV")),
        Found::Dir(_) => [0, 1],
        Found::File(_) => [1, 0],
    };
    if within && new.name.same(&old.name, call.execution)? {
        return Ok(Outcome::of("0"));
    }
    match (&found, state.look_up(&new, call.execution)?) {
        (_, None) => {}
        (Found::File(_), Some(Found::Dir(_))) => return Ok(Outcome::of("EISDIR")),
        (Found::Dir(_), Some(Found::File(_))) => return Ok(Outcome::of("ENOTDIR")),
        (Found::File(file), Some(Found::File(replaced))) => {
            if replaced.same(file, call.execution)? {
                return Ok(Outcome::of("0"));
            }
            state.count(new.dir, [-1, 0], call.execution)?;
        }
        (Found::Dir(_), Some(Found::Dir(replaced))) => {
            if !state.remove_dir(new, replaced, call.execution)? {
                return Ok(Outcome::of("ENOTEMPTY"));
            }
        }
    }
    let node = state.entries.get(&old, call.execution)?.expect("it was found");
    state.entries.remove(old);
    state.entries.insert(new, node);
    state.count(old.dir, moved.map(|n| -n), call.execution)?;
    state.count(new.dir, moved, call.execution)?;
    Ok(Outcome::of("0"))
}

fn stat(state: &mut Tree, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    Ok(match path(state, call)? {
        None | Some((_, None)) => Outcome::of("ENOENT"),
        Some((_, Some(Found::Dir(dir)))) => Outcome::of(dir),
        Some((_, Some(Found::File(file)))) => Outcome::of(file),
    })
}

fn fstat(state: &mut Tree, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let dir = call.term("dir");
    let counts = state.dirs.get(&dir, call.execution)?;
    Ok(Outcome::of(dir).and("nlink", counts.map_or(0.into(), |counts| counts.subdirs.0 + 2)))
}

fn fstatx(_: &mut Tree, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    Ok(Outcome::of(call.term::<Directory>("dir")))
}

fn list_empty(state: &mut Tree, call: &mut Call<'_>) -> Result<Outcome, Stop> {
    let Some(dir) = dir_argument(state, "dir", call)? else { return Ok(Outcome::of("ENOENT")) };
    Ok(Outcome::of(if state.is_empty(&dir, call.execution)? { "empty" } else { "not empty" }))
}

/// Operations in directories and on directories.
pub fn directories() -> Interface<Tree> {
    let operation = |name, about, apply| Operation { name, about, apply };
    Interface {
        name: "directories",
        about: "nested directories: operations on different names commute, operations on the \
            whole tree do not",
        operations: vec![
            operation("mkdir", "(dir, name): the new directory counts as a link of dir", mkdir),
            operation("rmdir", "(dir, name): fails if the directory is not empty", rmdir),
            operation("create", "(dir, name): creates an empty file", create),
            operation("unlink", "(dir, name): removes a name of a file", unlink),
            operation("rename", "(dir, name, new_dir, new_name): replaces the target", rename),
            operation("stat", "(dir, name): which file or directory the name refers to", stat),
            operation("fstat", "(dir): its inode number and link count", fstat),
            operation("fstatx", "(dir): its inode number", fstatx),
            operation("list_empty", "(dir): whether the directory is empty", list_empty),
        ],
        ..Interface::default()
    }
}
