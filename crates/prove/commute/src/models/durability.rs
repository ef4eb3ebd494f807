//! Files that consist of pages, and their content after a crash.
//!
//! An `fsync` does not commute with a `write` that changes the same file, however fast the disk is. `sync`
//! takes a snapshot of all files, as `fork` takes a snapshot of all descriptors. So `sync` commutes with no
//! `write` that changes anything. The fewer pages an operation makes durable, the more often it commutes.
//! `fsync_range` depends only on the page that it makes durable. `write_dsync` makes its own page durable,
//! and commutes with every `fsync` and `sync`, which have nothing left to do for that page.
//!
//! The durable content is what a caller may rely on after a crash. A kernel may write back further pages at
//! any time, but callers must not rely on this. The model leaves out the times of a file, and all other
//! metadata that `fdatasync` need not make durable.

use crate::{Call, Int, Interface, Operation, Outcome, Stop, Term, TotalMap, sort, state};

sort!(File, Datum);

/// The highest page number.
const PAGES: i64 = 1_000_000;

/// The content of a file.
type Pages = TotalMap<Int, Term<Datum>>;

state! {
    /// The content of each file as `read` sees it, and the content after a crash.
    pub struct Disk {
        cached: TotalMap<Term<File>, Pages>,
        durable: TotalMap<Term<File>, Pages>,
    }
}

fn page(call: &mut Call<'_>) -> Int {
    call.int("page", 0..=PAGES)
}

/// Sets a page of a file. `files` contains either the cached or the durable contents of all files.
fn set(
    files: &mut TotalMap<Term<File>, Pages>,
    call: &mut Call<'_>,
    datum: Term<Datum>,
) -> Result<(), Stop> {
    let file = call.term("file");
    let mut pages = files.get(&file, call.execution)?;
    pages.insert(page(call), datum);
    files.insert(file, pages);
    Ok(())
}

/// The interface of writes, and of operations that make writes durable.
pub fn durability() -> Interface<Disk> {
    Interface {
        name: "durability",
        about: "files and what survives a crash: weaker syncs commute with more writes",
        operations: vec![
            Operation {
                name: "read",
                about: "(file, page)",
                apply: |state, call| {
                    let pages = state.cached.get(&call.term("file"), call.execution)?;
                    Ok(Outcome::of(pages.get(&page(call), call.execution)?))
                },
            },
            Operation {
                name: "write",
                about: "(file, page, datum): may be lost in a crash",
                apply: |state, call| {
                    let datum = call.term("datum");
                    set(&mut state.cached, call, datum)?;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "write_dsync",
                about: "(file, page, datum): makes this page durable, as with O_DSYNC",
                apply: |state, call| {
                    let datum = call.term("datum");
                    set(&mut state.cached, call, datum)?;
                    set(&mut state.durable, call, datum)?;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "fsync",
                about: "(file): makes all pages of the file durable",
                apply: |state, call| {
                    let file = call.term("file");
                    let pages = state.cached.get(&file, call.execution)?;
                    state.durable.insert(file, pages);
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "fsync_range",
                about: "(file, page): makes this page durable",
                apply: |state, call| {
                    let pages = state.cached.get(&call.term("file"), call.execution)?;
                    let datum = pages.get(&page(call), call.execution)?;
                    set(&mut state.durable, call, datum)?;
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "sync",
                about: "(): makes all pages of all files durable",
                apply: |state, _| {
                    state.durable = state.cached.clone();
                    Ok(Outcome::nothing())
                },
            },
        ],
        ..Interface::default()
    }
}
