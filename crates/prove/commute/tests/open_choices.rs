//! What an interface leaves open is chosen so that orders agree, where it can be.

use knee_commute::{
    Int, Interface, Limits, Operation, Outcome, Verdict, conditions, explore, state,
};

state! {
    /// Two times of a file.
    struct Times {
        mtime: Int,
        ctime: Int,
    }
}

/// `write` sets both times to one that is before neither; `stat` tells them.
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

/// z3 found this: that the time could be chosen to be the mtime decided that the ctime was no
/// later, and stat and write were said to commute always.
#[test]
fn a_chosen_time_decided_how_two_times_of_the_initial_state_compare() {
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
fn two_times_that_are_both_open_agree_whatever_was_there() {
    let file = file();
    let write = file.operation("write").unwrap();
    let exploration = explore(&file, &[write, write], &Limits::default()).unwrap();
    assert!(exploration.situations.iter().all(|s| s.verdict == Verdict::Commute));
}
