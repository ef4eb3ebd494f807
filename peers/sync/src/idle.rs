//! The same measurements beside idle threads that are registered with each library. Operations that scan all
//! threads are slower then.
//!
//! Some libraries keep the records of exited threads, so these measurements come last.

use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};

use knee_sync::{epoch, hazard};

use crate::c::{BP, C, CK, MEMB, QSBR};
use crate::{read, retire, ways};
use side_by_side::{Figure, Row, measure};

/// Numbers of idle threads.
const IDLE: [usize; 2] = [100, 1000];

pub(crate) fn figures(rounds: usize) -> Vec<Figure> {
    let (reads, ways) = (read::rows(), ways::all());
    let all = reads.iter().chain(ways.iter().map(|way| &way.row));
    let rows: Vec<&Row> = all.filter(|row| row.among_idle).collect();
    let figures = IDLE.map(|idle| {
        let _idle = Idle::start(idle);
        measure(&format!("{idle} threads idle"), &rows, rounds, idle)
    });
    retire::end(&ways);
    figures.into_iter().flatten().collect()
}

/// They sleep until it is dropped.
struct Idle {
    /// The threads wait until it is dropped. Nothing is sent.
    awake: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Idle {
    /// Starts the threads and returns when all have registered with each library.
    fn start(number: usize) -> Idle {
        let (awake, waits): (_, Vec<_>) = (0..number).map(|_| channel::<()>()).unzip();
        let ready = Arc::new(Barrier::new(number + 1));
        let spawn = |wait: Receiver<()>| {
            let ready = Arc::clone(&ready);
            let thread = thread::Builder::new().stack_size(1 << 17).spawn(move || {
                drop(epoch::pin());
                drop(hazard::AtomicBox::new(0).load());
                drop(crossbeam_epoch::pin());
                drop(read::SEIZE.enter());
                drop(sdd::Guard::new());
                drop(haphazard::HazardPointer::new());
                drop(black_box(arc_swap::ArcSwap::from_pointee(0).load()));
                let joined = [&CK, &MEMB, &QSBR, &BP].map(C::join);
                ready.wait();
                // It fails when the sender is dropped.
                let _ = wait.recv();
                drop(joined);
            });
            thread.expect("the system starts a thread more")
        };
        let threads = waits.into_iter().map(spawn).collect();
        ready.wait();
        Idle { awake, threads }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.awake.clear();
        for thread in self.threads.drain(..) {
            thread.join().expect("idle threads do nothing");
        }
    }
}
