//! The small interfaces in SMT-LIB, independent of the explorer.
//!
//! Each interface has a sort `State` with `start`, `valid` and `same`, and two functions for each operation:
//! the state after the operation, and what its caller sees. A term of the state that occurs in conditions,
//! such as `plates.length`, is defined as a function of `start`. Arguments are constants.

use knee_commute::{Exploration, Model, Situation, Verdict, call_label, models};

use crate::formula::{all, and, not, symbol};
use crate::oracle::Objection;
use crate::oracle::{Fault, Objections, partition};
use crate::solver::{Answer, Solver};

/// The type of all results of operations.
const RESULTS: &str = "
    (declare-sort Name 0)
    (declare-datatypes ((Result 0)) (((nothing) (word (text String)) (number (of Int))
        (name (called Name)))))
";

/// A small interface.
pub(crate) struct Toy {
    pub(crate) name: &'static str,
    /// The arguments, which are the same for every operation.
    arguments: &'static [&'static str],
    definitions: &'static str,
    /// The terms of each call. `CALL` stands for the label of the call.
    of_calls: &'static str,
}

pub(crate) const TOYS: [Toy; 5] = [
    Toy {
        name: "counter",
        arguments: &[],
        definitions: r#"
            (define-sort State () Int)
            (declare-const start State)
            (define-fun valid ((s State)) Bool true)
            (define-fun same ((s State) (t State)) Bool (= s t))

            (define-fun inc.state ((s State)) State (+ s 1))
            (define-fun inc.result ((s State)) Result nothing)
            (define-fun inc_get.state ((s State)) State (+ s 1))
            (define-fun inc_get.result ((s State)) Result (number (+ s 1)))
            (define-fun dec_if_positive.state ((s State)) State (ite (> s 0) (- s 1) s))
            (define-fun dec_if_positive.result ((s State)) Result
                (ite (> s 0) (word "done") (word "zero")))
            (define-fun get.state ((s State)) State s)
            (define-fun get.result ((s State)) Result (number s))

            (define-fun |n| () Int start)
        "#,
        of_calls: "",
    },
    Toy {
        name: "register",
        arguments: &["value"],
        definitions: r#"
            (define-sort State () Name)
            (declare-const start State)
            (define-fun valid ((s State)) Bool true)
            (define-fun same ((s State) (t State)) Bool (= s t))

            (define-fun write.state ((s State) (value Name)) State value)
            (define-fun write.result ((s State) (value Name)) Result nothing)
            (define-fun read.state ((s State) (value Name)) State s)
            (define-fun read.result ((s State) (value Name)) Result (name s))

            (define-fun |value| () Name start)
        "#,
        of_calls: "",
    },
    // In the state of the stack, the elements are numbered from 0 at the bottom. Elements above the top
    // have no meaning.
    Toy {
        name: "stack",
        arguments: &["element"],
        definitions: r#"
            (declare-datatypes ((State 0)) (((plates (elements (Array Int Name)) (height Int)))))
            (declare-const start State)
            (define-fun valid ((s State)) Bool (>= (height s) 0))
            (define-fun same ((s State) (t State)) Bool (and
                (= (height s) (height t))
                (forall ((i Int)) (=> (and (<= 0 i) (< i (height s)))
                    (= (select (elements s) i) (select (elements t) i))))))
            (define-fun from_top ((s State) (n Int)) Name
                (select (elements s) (- (height s) n 1)))

            (define-fun push.state ((s State) (element Name)) State
                (plates (store (elements s) (height s) element) (+ (height s) 1)))
            (define-fun push.result ((s State) (element Name)) Result nothing)
            (define-fun pop.state ((s State) (element Name)) State
                (ite (= (height s) 0) s (plates (elements s) (- (height s) 1))))
            (define-fun pop.result ((s State) (element Name)) Result
                (ite (= (height s) 0) (word "empty") (name (from_top s 0))))

            (define-fun |plates.length| () Int (height start))
            (define-fun |plates(0)| () Name (from_top start 0))
            (define-fun |plates(1)| () Name (from_top start 1))
            (define-fun |plates(2)| () Name (from_top start 2))
        "#,
        of_calls: "",
    },
    Toy {
        name: "map",
        arguments: &["key", "value"],
        definitions: r#"
            (declare-datatypes ((Entry 0)) (((none) (some (content Name)))))
            (define-sort State () (Array Name Entry))
            (declare-const start State)
            (define-fun valid ((s State)) Bool true)
            (define-fun same ((s State) (t State)) Bool (= s t))
            (define-fun found ((entry Entry)) Result
                (ite ((_ is none) entry) (word "none") (name (content entry))))

            (define-fun put.state ((s State) (key Name) (value Name)) State
                (store s key (some value)))
            (define-fun put.result ((s State) (key Name) (value Name)) Result nothing)
            (define-fun swap.state ((s State) (key Name) (value Name)) State
                (store s key (some value)))
            (define-fun swap.result ((s State) (key Name) (value Name)) Result
                (found (select s key)))
            (define-fun get.state ((s State) (key Name) (value Name)) State s)
            (define-fun get.result ((s State) (key Name) (value Name)) Result
                (found (select s key)))
            (define-fun remove.state ((s State) (key Name) (value Name)) State
                (store s key none))
            (define-fun remove.result ((s State) (key Name) (value Name)) Result nothing)
        "#,
        of_calls: "
            (define-fun |table has CALL.key| () Bool ((_ is some) (select start |CALL.key|)))
            (define-fun |table[CALL.key]| () Name (content (select start |CALL.key|)))
        ",
    },
    // The capacity of the queue is two.
    Toy {
        name: "queue",
        arguments: &["message"],
        definitions: r#"
            (declare-datatypes ((State 0)) (((mail (waiting Int) (front Name) (back Name)))))
            (declare-const start State)
            (define-fun valid ((s State)) Bool (and (<= 0 (waiting s)) (<= (waiting s) 2)))
            (define-fun same ((s State) (t State)) Bool (and
                (= (waiting s) (waiting t))
                (=> (>= (waiting s) 1) (= (front s) (front t)))
                (=> (>= (waiting s) 2) (= (back s) (back t)))))

            (define-fun push.state ((s State) (message Name)) State
                (ite (= (waiting s) 0) (mail 1 message (back s))
                (ite (= (waiting s) 1) (mail 2 (front s) message) s)))
            (define-fun push.result ((s State) (message Name)) Result
                (ite (= (waiting s) 2) (word "full") (word "done")))
            (define-fun pop.state ((s State) (message Name)) State
                (ite (= (waiting s) 0) s (mail (- (waiting s) 1) (back s) (back s))))
            (define-fun pop.result ((s State) (message Name)) Result
                (ite (= (waiting s) 0) (word "empty") (name (front s))))

            (define-fun |mail.length| () Int (waiting start))
            (define-fun |mail(0)| () Name (front start))
            (define-fun |mail(1)| () Name (back start))
        "#,
        of_calls: "",
    },
];

impl Toy {
    pub(crate) fn model(&self) -> Box<dyn Model> {
        models().into_iter().find(|model| model.name() == self.name).expect("it is a model")
    }

    /// Lets z3 check an exploration of these operations, and returns what z3 objects to.
    pub(crate) fn objections(
        &self,
        solver: &mut Solver,
        operations: &[&str],
        exploration: &Exploration,
    ) -> Vec<Objection> {
        let mut objections = Objections::default();
        solver.meanwhile(|solver| {
            solver.command(&self.defined(operations.len()));
            solver.assert("(valid start)");
            partition(solver, exploration, &mut objections);
            let agree = self.orders_agree(operations);
            for (nr, Situation { condition, verdict, certificate }) in
                exploration.situations.iter().enumerate()
            {
                solver.meanwhile(|solver| {
                    solver.assert(&all(condition));
                    let mut expect = |expected, answer, fault| {
                        objections.expect(expected, answer, fault, Some(nr));
                    };
                    expect(Answer::Satisfiable, solver.check(), Fault::NoSituation);
                    let unfounded = solver.check_with(&not(&all(&certificate.assumed)));
                    expect(Answer::Unsatisfiable, unfounded, Fault::Unfounded);
                    let wrong = match verdict {
                        Verdict::Commute => not(&agree),
                        Verdict::Differ(_) => agree.clone(),
                    };
                    expect(Answer::Unsatisfiable, solver.check_with(&wrong), Fault::Verdict);
                });
            }
        });
        objections.0
    }

    fn defined(&self, calls: usize) -> String {
        let mut text = RESULTS.to_owned() + self.definitions;
        for call in (0..calls).map(call_label) {
            for argument in self.arguments {
                let argument = symbol(&format!("{call}.{argument}"));
                text += &format!("(declare-const {argument} Name)\n");
            }
            text += &self.of_calls.replace("CALL", call);
        }
        text
    }

    /// A formula: for each subset of the calls, all orders have the same results and the same final state.
    fn orders_agree(&self, operations: &[&str]) -> String {
        let mut agree = Vec::new();
        for set in 1..1usize << operations.len() {
            let calls: Vec<usize> = (0..operations.len()).filter(|nr| set >> nr & 1 == 1).collect();
            let runs: Vec<_> = orders(&calls).iter().map(|o| self.run(operations, o)).collect();
            for (state, results) in &runs[1..] {
                let (first, first_results) = &runs[0];
                agree.push(format!("(same {first} {state})"));
                let results = calls.iter().map(|&nr| (&first_results[nr], &results[nr]));
                agree.extend(results.map(|(a, b)| format!("(= {a} {b})")));
            }
        }
        and(agree)
    }

    /// The final state, and what each call returns.
    fn run(&self, operations: &[&str], order: &[usize]) -> (String, Vec<String>) {
        let (mut state, mut results) = ("start".to_owned(), vec![String::new(); operations.len()]);
        for &nr in order {
            let argument = |name: &&str| symbol(&format!("{}.{name}", call_label(nr)));
            let arguments: Vec<String> = self.arguments.iter().map(argument).collect();
            let with = format!("{state} {}", arguments.join(" "));
            results[nr] = format!("({}.result {with})", operations[nr]);
            state = format!("({}.state {with})", operations[nr]);
        }
        (state, results)
    }
}

/// All orders of some calls.
fn orders(calls: &[usize]) -> Vec<Vec<usize>> {
    if calls.is_empty() {
        return vec![Vec::new()];
    }
    let first = |&first: &usize| {
        let others: Vec<usize> = calls.iter().copied().filter(|&nr| nr != first).collect();
        orders(&others).into_iter().map(move |order| [&[first], &order[..]].concat())
    };
    calls.iter().flat_map(first).collect()
}
