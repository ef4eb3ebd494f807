//! One simulation: tasks that compute, wait, and go on.

mod events;
mod line;
mod lock;
mod sections;
mod tally;
mod task;
mod visits;

use oorandom::Rand32;

pub(super) use self::tally::Tally;

use self::events::{Event, Events};
use self::line::Line;
use self::lock::Lock;
use self::task::Task;
use super::inputs::Inputs;
use super::program::{Operation, Pace, Programs};
use super::seats::{Seat, Seats};
use super::workload::{Hold, Scope, Workload};
use crate::machine::Distance;

/// Instructions take up to this share more or less time than their mean, so that tasks do not fall into step, which
/// avoids all waiting and does not happen on a real machine.
const JITTER: f64 = 0.2;
/// Instructions that execute while a store waits for its line. A store buffer has 56 entries (Skylake), and about
/// one instruction in seven stores.
const HIDDEN_INSTRUCTIONS: f64 = 400.0;

/// How long to simulate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    /// Iterations of each task, on average.
    pub(super) of_task: u64,
    /// The fewest iterations of all tasks.
    pub(super) least: u64,
    /// The most events.
    pub(super) most_events: u64,
}

/// Iterations of each task until all queues are as long as they will be.
const WARM_UP: u64 = 3;

/// What a simulation found.
#[derive(Debug)]
pub(super) struct Found {
    /// Iterations per ns of all tasks.
    pub(super) rate: f64,
    /// The measured time in ns.
    pub(super) window: f64,
    /// The tallies of each line, then of each lock, then of the word of each lock: one for each instance.
    pub(super) tallies: Vec<Vec<Tally>>,
}

/// A simulation.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    seats: &'a Seats,
    inputs: &'a Inputs,
    now: f64,
    /// When the measured time starts.
    start: f64,
    events: Events,
    random: Rand32,
    tasks: Vec<Task<'a>>,
    lines: Vec<Line>,
    locks: Vec<Lock>,
    /// Scope and first instance of each line of the workload.
    line_places: Vec<(Scope, usize)>,
    /// Scope and first instance of each lock of the workload.
    lock_places: Vec<(Scope, usize)>,
    /// The line that is the word of the first lock. Those of the others follow.
    words: usize,
    completed: u64,
    handled: u64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        workload: &Workload,
        programs: &'a Programs,
        seats: &'a Seats,
        inputs: &'a Inputs,
        seed: u64,
    ) -> Self {
        let places = |scopes: &mut dyn Iterator<Item = Scope>| {
            let mut places: Vec<(Scope, usize)> = Vec::new();
            let mut count = 0;
            for scope in scopes {
                places.push((scope, count));
                count += seats.instances(scope);
            }
            (places, count)
        };
        let (line_places, words) = places(&mut workload.lines.iter().map(|line| line.scope));
        let (lock_places, locks) = places(&mut workload.locks.iter().map(|lock| lock.scope));
        let mut random = Rand32::new(seed);
        let mut events = Events::default();
        let of_instruction = programs.pace(inputs.section);
        let groups = 1 + seats.iter().map(|seat| seat.group).max().unwrap_or(0);
        let task = |(nr, seat): (usize, &Seat)| {
            let start = f64::from(random.rand_float()) * inputs.iteration_ns;
            events.add(start, Event::Task(nr));
            let of_iteration = inputs.iteration_ns * seat.slowdown(inputs);
            let pace = Pace {
                inside: of_instruction.inside * of_iteration,
                outside: of_instruction.outside * of_iteration,
            };
            Task::new(&programs.all[seat.recorded], seat, pace, groups)
        };
        let tasks = seats.iter().enumerate().map(task).collect();
        Self {
            seats,
            inputs,
            now: 0.0,
            start: 0.0,
            events,
            random,
            tasks,
            lines: (0..words + locks).map(|_| Line::default()).collect(),
            locks: (0..locks).map(|_| Lock::default()).collect(),
            line_places,
            lock_places,
            words,
            completed: 0,
            handled: 0,
        }
    }

    /// Simulates, and returns what happened after the warm-up.
    pub(super) fn run(mut self, length: Length) -> Found {
        let tasks = self.tasks.len() as u64;
        self.simulate(WARM_UP * tasks, length.most_events / 2);
        self.restart();
        let iterations = (length.of_task * tasks).max(length.least);
        self.simulate(self.completed + iterations, self.handled + length.most_events);
        self.stop();
        let window = self.now - self.start;
        Found {
            rate: self.tasks.iter().map(|task| task.rate(window)).sum(),
            window,
            tallies: self.tallies(),
        }
    }

    fn simulate(&mut self, completed: u64, handled: u64) {
        while self.completed < completed && self.handled < handled {
            let Some((time, event)) = self.events.next() else { return };
            self.now = time;
            self.handled += 1;
            match event {
                Event::Task(task) => self.go_on(task),
                Event::Line(line) => self.end_transfer(line),
            }
        }
    }

    fn restart(&mut self) {
        let now = self.now;
        self.start = now;
        self.lines.iter_mut().for_each(|line| line.tally.restart(now));
        self.locks.iter_mut().for_each(|lock| lock.tally.restart(now));
        self.tasks.iter_mut().for_each(|task| task.completed = 0);
    }

    /// Counts what has not ended.
    fn stop(&mut self) {
        let (start, now) = (self.start, self.now);
        for line in &mut self.lines {
            line.tally.end(now);
            let waited = line.queue.iter().map(|waiter| now - waiter.since.max(start));
            line.tally.waited += waited.sum::<f64>();
        }
        for lock in &mut self.locks {
            lock.tally.end(now);
            let waited = lock.queue.iter().map(|waiter| now - waiter.since.max(start));
            lock.tally.waited += waited.sum::<f64>();
        }
    }

    fn tallies(&self) -> Vec<Vec<Tally>> {
        let instances =
            |&(scope, first): &(Scope, usize)| first..first + self.seats.instances(scope);
        let of_lines = self.line_places.iter().map(instances);
        let of_words = self.lock_places.iter().map(instances);
        let lines = of_lines.map(|range| &self.lines[range]);
        let words = of_words.clone().map(|range| &self.lines[self.words..][range]);
        let line_tallies = |lines: &[Line]| lines.iter().map(|line| line.tally.clone()).collect();
        let locks = of_words.map(|range| &self.locks[range]);
        let lock_tallies = |locks: &[Lock]| locks.iter().map(|lock| lock.tally.clone()).collect();
        lines
            .map(line_tallies)
            .chain(locks.map(lock_tallies))
            .chain(words.map(line_tallies))
            .collect()
    }

    /// Executes operations of a task until it has to wait or time passes.
    fn go_on(&mut self, task: usize) {
        let is_waiting = |engine: &mut Self| {
            let of_task = &mut engine.tasks[task];
            match of_task.operations[of_task.next] {
                Operation::Compute { instructions, is_inside } => {
                    engine.compute(task, instructions, is_inside);
                    true
                }
                Operation::Visit { line, access } => {
                    let (scope, first) = engine.line_places[line as usize];
                    let line = first + of_task.instance(scope);
                    !engine.visit(task, line, access)
                }
                Operation::Acquire { lock, hold } => {
                    let (scope, first) = engine.lock_places[lock as usize];
                    let lock = first + of_task.instance(scope);
                    !match hold {
                        Hold::Exclusive => engine.acquire(task, lock),
                        Hold::Shared => engine.acquire_shared(task, lock),
                    }
                }
                Operation::Release { lock, hold } => {
                    let (scope, first) = engine.lock_places[lock as usize];
                    let lock = first + of_task.instance(scope);
                    !match hold {
                        Hold::Exclusive => engine.release(task, lock),
                        Hold::Shared => engine.release_shared(task, lock),
                    }
                }
                Operation::End => {
                    of_task.complete(engine.now);
                    engine.completed += 1;
                    false
                }
            }
        };
        while !is_waiting(self) {}
    }

    /// Executes instructions, as many as the store buffer allows.
    fn compute(&mut self, task: usize, instructions: f64, is_inside: bool) {
        let (nr, task) = (task, &mut self.tasks[task]);
        let left = if task.rest > 0.0 { task.rest } else { instructions };
        let mut executed = left;
        if !task.stores.is_empty() {
            if task.hidden <= 0.0 {
                task.rest = left;
                task.drains = true;
                return;
            }
            executed = left.min(task.hidden);
            task.hidden -= executed;
        }
        task.rest = left - executed;
        if task.rest <= 0.0 {
            task.next += 1;
        }
        let pace = if is_inside { task.pace.inside } else { task.pace.outside };
        let jitter = 1.0 + JITTER * (2.0 * f64::from(self.random.rand_float()) - 1.0);
        self.events.add(self.now + executed * pace * jitter, Event::Task(nr));
    }

    /// The time of a transfer in ns.
    fn transfer(&self, distance: Distance) -> f64 {
        self.inputs.transfer_ns[distance as usize]
    }
}
