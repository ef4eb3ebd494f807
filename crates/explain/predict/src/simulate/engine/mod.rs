//! One simulation: tasks that compute, wait, and go on.

mod events;
mod line;
mod lock;
mod polling;
mod sections;
mod shootdown;
mod store;
mod stores;
mod tally;
mod task;
mod visits;

use std::collections::VecDeque;

use oorandom::Rand32;

pub(super) use self::tally::Tally;

use self::events::{Event, Events};
use self::line::Line;
use self::lock::Lock;
use self::tally::Waiter;
use self::task::Task;
use super::inputs::Inputs;
use super::program::{Operation, Programs};
use super::seats::{Seat, Seats};
use super::workload::{Scope, Workload};
use crate::machine::Distance;

/// Instructions take up to this share more or less time than their mean, so that tasks do not fall
/// into step, which avoids all waiting and does not happen on a real machine. No source has the
/// figure. Between 0 and 0.5, it changes points at the knee of the published curves by up to 5 %,
/// and others by 2 %.
const JITTER: f64 = 0.2;
/// Instructions that execute while a store waits for its line. A store buffer has 56 entries
/// (Skylake), and about one instruction in seven stores.
const HIDDEN_INSTRUCTIONS: f64 = 400.0;

/// Operations that take as long as an event. Most operations make an event, but visits to lines that a task already has
/// do not, and a trace can contain millions of them.
const OPERATIONS_OF_EVENT: u64 = 16;

/// Events of each task after which all queues are shuffled, on average: it has waited once or twice.
/// Tasks that wait most of the time otherwise keep the order of their start, which decides how many
/// transfers are between sockets. On a real machine, each interrupt makes a task lose its place,
/// many thousand times during a measurement.
const EVENTS_IN_ORDER: u64 = 8;

/// How long to simulate. A round is as many iterations as there are tasks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    /// Rounds until queues are as long as they will be.
    pub(super) warm_up: u64,
    /// Rounds to measure.
    pub(super) rounds: u64,
    /// The fewest iterations to measure. The warm-up has at least a quarter of it.
    pub(super) least: u64,
    /// The most events to measure. The warm-up has as many.
    pub(super) most_events: u64,
}

/// What a measurement found.
#[derive(Debug)]
pub(super) struct Found {
    /// Iterations per ns of all tasks.
    pub(super) rate: f64,
    /// The measured time in ns.
    pub(super) window: f64,
    /// The tallies of each lock, and then of each line: one for each instance.
    pub(super) tallies: Vec<Vec<Tally>>,
    /// The shootdowns of all tasks.
    pub(super) shootdowns: Tally,
}

/// A simulation.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    programs: &'a Programs,
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
    /// The line of each lock of the workload.
    lines_of_locks: Vec<usize>,
    shootdowns: Tally,
    /// Iterations per ns in the measured time.
    rate: f64,
    completed: u64,
    handled: u64,
    /// Operations that tasks have executed.
    executed: u64,
    /// The number of handled events at which queues are shuffled.
    next_shuffle: u64,
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
        let (line_places, lines) = places(&mut workload.lines.iter().map(|line| line.scope));
        let (lock_places, _) = places(&mut workload.locks.iter().map(|lock| lock.scope));
        let locks = workload
            .locks
            .iter()
            .flat_map(|lock| (0..seats.instances(lock.scope)).map(|_| Lock::new(lock.kind)));
        let mut random = Rand32::new(seed);
        let mut events = Events::default();
        let of_instruction = programs.pace(inputs.section);
        let groups = seats.instances(Scope::Group);
        let task = |(nr, seat): (usize, &'a Seat)| {
            let start = f64::from(random.rand_float()) * inputs.iteration_ns;
            events.add(start, Event::Task(nr));
            let of_iteration = inputs.iteration_ns * seat.slowdown(inputs);
            let pace = of_instruction.slower(of_iteration);
            Task::new(&programs.all[seat.recorded], seat, pace, groups)
        };
        let tasks = seats.iter().enumerate().map(task).collect();
        Self {
            programs,
            seats,
            inputs,
            now: 0.0,
            start: 0.0,
            events,
            random,
            tasks,
            lines: (0..lines).map(|_| Line::default()).collect(),
            locks: locks.collect(),
            line_places,
            lock_places,
            lines_of_locks: workload.locks.iter().map(|lock| lock.line).collect(),
            shootdowns: Tally::default(),
            rate: 0.0,
            completed: 0,
            handled: 0,
            executed: 0,
            next_shuffle: 0,
        }
    }

    /// Goes on with other inputs. Transfers and instructions under way take their old time.
    pub(super) fn change(&mut self, inputs: &'a Inputs) {
        self.inputs = inputs;
        let of_instruction = self.programs.pace(inputs.section);
        for (task, seat) in self.tasks.iter_mut().zip(self.seats.iter()) {
            task.pace = of_instruction.slower(inputs.iteration_ns * seat.slowdown(inputs));
        }
    }

    /// Simulates, and returns the iterations per ns after the warm-up.
    pub(super) fn measure(&mut self, length: Length) -> f64 {
        let tasks = self.tasks.len() as u64;
        self.simulate((length.warm_up * tasks).max(length.least / 4), length.most_events);
        let now = self.now;
        self.start = now;
        self.lines.iter_mut().for_each(|line| line.tally.restart(now));
        self.locks.iter_mut().for_each(|lock| lock.tally.restart(now));
        self.shootdowns = Tally::default();
        self.completed = 0;
        let before = self.progress();
        self.simulate((length.rounds * tasks).max(length.least), length.most_events);
        self.rate = (self.progress() - before) / (self.now - self.start);
        self.rate
    }

    /// Iterations that all tasks have executed. Whole iterations would be too few if each is long.
    fn progress(&self) -> f64 {
        self.tasks.iter().map(Task::progress).sum()
    }

    /// Simulates so many more iterations, but not more events.
    fn simulate(&mut self, iterations: u64, events: u64) {
        let completed = self.completed + iterations;
        let handled = self.handled() + events;
        while self.completed < completed && self.handled() < handled {
            if self.handled >= self.next_shuffle {
                self.shuffle();
            }
            let next = self.events.next();
            let (time, event) = next.expect("a task that waits is woken up by another one");
            self.now = time;
            self.handled += 1;
            match event {
                Event::Task(task) => self.resume(task),
                Event::Line(line) => self.end_transfer(line),
            }
        }
    }

    fn shuffle(&mut self) {
        // The tasks that are not in a queue keep their order, so it has to be others each time.
        let most = 2 * EVENTS_IN_ORDER * self.tasks.len() as u64;
        self.next_shuffle = self.handled + 1 + u64::from(self.random.rand_range(0..most as u32));
        for line in &mut self.lines {
            shuffled(&mut line.queue, 0, &mut self.random);
        }
        for lock in &mut self.locks {
            shuffled(&mut lock.queue, lock.polling, &mut self.random);
        }
    }

    /// What the last measurement found.
    pub(super) fn found(&self) -> Found {
        let window = self.now - self.start;
        let instances =
            |&(scope, first): &(Scope, usize)| first..first + self.seats.instances(scope);
        let of_line = |line: &Line| line.tally.until(self.start, self.now, &line.queue);
        let of_lock = |lock: &Lock| lock.tally.until(self.start, self.now, &lock.queue);
        let of_lines = |lines: &[Line]| lines.iter().map(of_line).collect();
        let of_locks = |locks: &[Lock]| locks.iter().map(of_lock).collect();
        let lines = self.line_places.iter().map(|place| of_lines(&self.lines[instances(place)]));
        let locks = self.lock_places.iter().map(|place| of_locks(&self.locks[instances(place)]));
        let tallies = locks.chain(lines).collect();
        Found { rate: self.rate, window, tallies, shootdowns: self.shootdowns.clone() }
    }

    /// Events so far, or the operations if there are so many that they take longer.
    pub(super) fn handled(&self) -> u64 {
        self.handled.max(self.executed / OPERATIONS_OF_EVENT)
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
                    let line = of_task.own(engine.line_places[line as usize]);
                    !engine.visit(task, line, access)
                }
                Operation::Acquire { lock, hold } => {
                    let (lock, line) = engine.own_lock(task, lock as usize);
                    !engine.acquire(task, lock, line, hold)
                }
                Operation::Release { lock, hold } => {
                    let (lock, line) = engine.own_lock(task, lock as usize);
                    !engine.release(task, lock, line, hold)
                }
                Operation::Shootdown => !engine.shootdown(task),
                Operation::End => {
                    of_task.complete();
                    engine.completed += 1;
                    false
                }
            }
        };
        while !is_waiting(self) {
            self.executed += 1;
        }
    }

    /// The lock that the task uses, and its line.
    fn own_lock(&self, task: usize, lock: usize) -> (usize, usize) {
        let task = &self.tasks[task];
        let line = self.line_places[self.lines_of_locks[lock]];
        (task.own(self.lock_places[lock]), task.own(line))
    }

    /// Executes instructions, as many as the store buffer allows.
    fn compute(&mut self, task: usize, instructions: f64, is_inside: bool) {
        let (nr, task) = (task, &mut self.tasks[task]);
        task.is_executing = true;
        let left = if task.rest > 0.0 { task.rest } else { instructions };
        let mut executed = left;
        if !task.stores.is_empty() {
            if task.hidden <= 0.0 {
                task.rest = left;
                task.drains = true;
                task.is_executing = false;
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

/// Puts waiters, except the first ones, into a random order (R. A. Fisher and F. Yates, "Statistical
/// Tables", 1938).
fn shuffled<How>(queue: &mut VecDeque<Waiter<How>>, first: usize, random: &mut Rand32) {
    for last in (first + 1..queue.len()).rev() {
        queue.swap(last, random.rand_range(first as u32..last as u32 + 1) as usize);
    }
}
