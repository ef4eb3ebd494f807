//! `knee_vm::Quota`: CPUs that charge one quota, near its limit and far from it.

use std::process::ExitCode;

use knee_bind::{Action, Binding, Call, Returned, Setup};
use knee_commute::{Interface, Model, Natural, Operation, Outcome, Truth, state};
use knee_sync::System;
use knee_vm::hosted::Hosted;
use knee_vm::{MapError, Quota};

state! {
    /// A quota.
    struct Account {
        /// Whether the limit is so high that no test reaches it.
        roomy: Truth,
        used: Natural,
    }
}

/// The limit of a quota that is not `roomy`.
const LIMIT: i64 = 4;

/// A limit on pages. Two charges commute unless only one of them fits under the limit.
fn quota() -> Interface<Account> {
    let give_back = |name, about| Operation {
        name,
        about,
        apply: |state: &mut Account, call: &mut knee_commute::Call<'_>| {
            call.execution.assume_at_most(1, state.used.0)?;
            state.roomy.ask(call.execution)?;
            state.used.0 = state.used.0 - 1;
            Ok(Outcome::nothing())
        },
    };
    Interface {
        name: "quota",
        about: "a limit on pages: charges commute unless together they exceed it",
        invariant: |state, execution| execution.assume_at_most(state.used.0, LIMIT),
        operations: vec![
            Operation {
                name: "charge",
                about: "(): charges a page",
                apply: |state, call| {
                    let roomy = state.roomy.ask(call.execution)?;
                    if !roomy && call.execution.at_most(LIMIT, state.used.0)? {
                        return Ok(Outcome::of("exceeded"));
                    }
                    state.used.0 = state.used.0 + 1;
                    Ok(Outcome::of("done"))
                },
            },
            give_back("give_back", "(): gives a page back to the CPU's share"),
            give_back("give_back_to_rest", "(): gives a page back to the rest of the quota"),
            Operation {
                name: "used",
                about: "(): the number of used pages",
                apply: |state, _| Ok(Outcome::of(state.used.0)),
            },
            Operation { name: "limit", about: "()", apply: |_, _| Ok(Outcome::nothing()) },
        ],
        ..Interface::default()
    }
}

/// The number of CPUs. The main thread uses the last CPU.
const CPUS: usize = 4;

struct Bound {
    quota: Quota,
    platform: System,
}

impl Binding for Bound {
    fn model() -> impl Model {
        quota()
    }

    fn set_up(setup: &Setup<'_>) -> Self {
        let limit = if setup.flag("roomy") { 1 << 30 } else { LIMIT as u64 };
        let quota = Quota::new(&Hosted::new(1, CPUS), limit).unwrap();
        let platform = System::detect();
        quota.charge(CPUS - 1, setup.number("used") as u64, &platform).unwrap();
        Self { quota, platform }
    }

    fn prepare(&self, call: &Call<'_>) -> Option<Action<'_>> {
        let (cpu, quota, platform) = (call.thread(), &self.quota, &self.platform);
        // If the quota has room, this charge moves unused pages to the CPU's share, and they stay there after
        // the charge is given back.
        if quota.charge(cpu, 1, platform).is_ok() {
            quota.give_back(cpu, 1, platform);
        }
        Some(match call.operation() {
            "charge" => Box::new(move || match quota.charge(cpu, 1, platform) {
                Ok(()) => Returned::Word("done"),
                Err(MapError::QuotaExceeded) => Returned::Word("exceeded"),
                Err(error) => panic!("{error}"),
            }),
            "give_back" => Box::new(move || {
                quota.give_back(cpu, 1, platform);
                Returned::Nothing
            }),
            "give_back_to_rest" => Box::new(move || {
                quota.give_back_to_rest(1, platform);
                Returned::Nothing
            }),
            "used" => Box::new(|| Returned::Number(quota.used() as i64)),
            "limit" => Box::new(|| {
                quota.limit();
                Returned::Nothing
            }),
            _ => return None,
        })
    }
}

fn main() -> ExitCode {
    knee_bind::main::<Bound>()
}
