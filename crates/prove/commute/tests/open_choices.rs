//! An operation may leave a value open. The explorer chooses these values so that the orders of the calls
//! agree, if possible.

use knee_commute::{
    Int, Interface, Limits, Operation, Outcome, Verdict, conditions, explore, state,
};

state! {
    /// The mtime and the ctime of a file.
    struct Times {
        mtime: Int,
        ctime: Int,
    }
}

/// `write` sets both times to a new time that is not earlier than either of them. `stat` returns both
/// times.
fn file() -> Interface<Times> {
    Interface {
        name: "file",
        operations: vec![
            Operation {
                name: "write",
                about: "()",
                apply: |state, call| {
                    let time = call.open_int("time");
                    for field in [&mut state.mtime, &mut state.ctime] {
                        call.execution.assume_at_most(*field, time)?;
                        *field = time;
                    }
                    Ok(Outcome::nothing())
                },
            },
            Operation {
                name: "stat",
                about: "(): both times",
                apply: |state, _| {
                    Ok(Outcome::nothing().and("mtime", state.mtime).and("ctime", state.ctime))
                },
            },
        ],
        ..Interface::default()
    }
}

/// An error that z3 found in an earlier version: the explorer chose the new time to be equal to the mtime.
/// From this choice, it concluded that the ctime was not later than the mtime, so `stat` and `write` always
/// seemed to commute.
#[test]
fn a_chosen_time_does_not_decide_how_two_initial_times_compare() {
    let file = file();
    let operations = ["stat", "write"].map(|name| file.operation(name).unwrap());
    let exploration = explore(&file, &operations, &Limits::default()).unwrap();
    let conditions = conditions(&exploration);
    let commute: Vec<String> =
        conditions.commute.iter().map(|case| case.formulas.join(" and ")).collect();
    assert_eq!(commute, ["ctime = mtime"]);
    let differ: Vec<String> =
        conditions.differ.iter().map(|reason| reason.formulas.join(" and ")).collect();
    assert_eq!(differ, ["ctime < mtime", "mtime < ctime"]);
}

#[test]
fn two_open_times_agree_in_every_initial_state() {
    let file = file();
    let write = file.operation("write").unwrap();
    let exploration = explore(&file, &[write, write], &Limits::default()).unwrap();
    assert!(exploration.situations.iter().all(|s| s.verdict == Verdict::Commute));
}
