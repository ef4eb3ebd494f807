//! Repeats calls in several threads. If the calls are traced, the threads take turns. If the calls are timed,
//! the threads run at the same time.

use std::io::{self, Write};
use std::panic::catch_unwind;
use std::sync::{Arc, Barrier};

use knee_commute::{Model, TestOutcome as Outcome};
use knee_marks::{Mark, SIDES};

use crate::message::{Message, send};
use crate::repeated::{How, Repeat, Repeated};
use crate::reply::{Reply, message};
use crate::workers::Workers;
use crate::{Binding, Setup};

/// Carries out a request, and sends the answer.
pub(crate) fn carry_out<B: Binding>(
    workers: &Workers<B>,
    request: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let failed = |id: &str, outcome| Message::Done { id: id.to_owned(), outcome, seen: 0 };
    let answer = match serde_json::from_str::<Repeat>(request) {
        Err(error) => failed("", Outcome::NotRun(error.to_string())),
        Ok(repeat) => {
            let id = repeat.id.clone();
            match set_up::<B>(repeat) {
                Err(outcome) => failed(&id, outcome),
                Ok(repeated) => {
                    let repeated = Arc::new(repeated);
                    let answer = match repeated.repeat.how {
                        How::Trace { rounds } => trace(workers, &repeated, rounds),
                        How::Time { seconds, most } => time(workers, &repeated, seconds, most),
                    };
                    // As in a test, the object is never freed.
                    std::mem::forget(repeated);
                    answer
                }
            }
        }
    };
    send(out, &answer)
}

fn set_up<B: Binding>(repeat: Repeat) -> Result<Repeated<B>, Outcome> {
    let model = B::model();
    let (theirs, own) = (&repeat.interface, model.name());
    if theirs != own {
        let why = format!("the calls are for the model {theirs}, but this binding is for {own}");
        return Err(Outcome::NotRun(why));
    }
    let threads = repeat.threads.len();
    if !(1..=SIDES).contains(&threads) || repeat.threads.iter().any(Vec::is_empty) {
        let why = format!("there must be from 1 to {SIDES} threads, and each must have iterations");
        return Err(Outcome::NotRun(why));
    }
    let binding = catch_unwind(|| B::set_up(&Setup(&repeat.setup)));
    let binding = binding.map_err(|panic| Outcome::SetupFailed(message(&*panic)))?;
    Ok(Repeated { binding, start: Barrier::new(threads), repeat })
}

/// Runs the iterations of all threads. In each round, the threads run one iteration each, one after the
/// other.
fn trace<B: Binding>(workers: &Workers<B>, of: &Arc<Repeated<B>>, rounds: u32) -> Message {
    let (id, mut seen, mut outcome) = (of.repeat.id.clone(), 0, Outcome::AsExpected);
    Mark::Flush.emit();
    'rounds: for round in 0..rounds {
        for nr in 0..of.repeat.threads.len() {
            Mark::Begin.emit();
            let reply = workers.iterate(of, nr, round);
            Mark::End.emit();
            seen += 1;
            if !matches!(reply, Reply::Returned(_)) {
                outcome = Outcome::NotRun(reply.to_string());
                break 'rounds;
            }
        }
    }
    Message::Done { id, outcome, seen }
}

/// Times the iterations of all threads.
fn time<B: Binding>(
    workers: &Workers<B>,
    of: &Arc<Repeated<B>>,
    seconds: f64,
    most: u64,
) -> Message {
    let id = of.repeat.id.clone();
    let mut rates = Vec::new();
    for reply in workers.time(of, seconds, most) {
        match reply {
            Reply::Timed { iterations, time } => rates.push(iterations as f64 / time.as_secs_f64()),
            other => {
                let outcome = Outcome::NotRun(other.to_string());
                return Message::Done { id, outcome, seen: 0 };
            }
        }
    }
    Message::Timed { id, rates }
}
