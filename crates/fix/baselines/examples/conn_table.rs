//! Measures the lookups per second of two connection tables: one under a read lock, the other under an epoch.
//! Each table is measured with 1 to N lookup threads, both with and without a thread that opens and closes
//! connections. See `--help`.

use std::hint::black_box;
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use knee_baselines::conn_table::{ConnTable, EpochTable, FourTuple, LockedTable};

const HELP: &str = "\
Measure lookups per second in a table of connections, under a read lock and under an epoch.

Usage: conn_table [THREADS] [SECONDS]

  THREADS  maximum number of threads that look up connections [default: the number of CPUs]
  SECONDS  duration of each measurement [default: 0.5]

Each thread looks up connections of its own, as if a network card sent all packets of a connection to
the same core. The writer opens and closes a connection every 100 microseconds.

  cargo run --release -p knee-baselines --example conn_table 4";

/// The maximum thread count that this program accepts. A larger number is probably a typo.
const MOST_THREADS: u32 = 1024;

/// The number of connections of each thread. One thread's connections fit into its core's L1 cache.
const CONNECTIONS: u32 = 64;

/// How long the writer keeps each connection open.
const PAUSE: Duration = Duration::from_micros(100);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let printed = if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        writeln!(io::stdout(), "{HELP}")
    } else if let Some((most, seconds)) = parse(&arguments) {
        compare(&mut io::stdout(), most, seconds)
    } else {
        eprintln!("conn_table: 1 to {MOST_THREADS} threads, and 0.001 to 3600 seconds; see --help");
        return ExitCode::from(2);
    };
    match printed {
        // A broken pipe is not an error: it means that a reader such as `head` has exited.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("conn_table: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints the throughput of each table for 1, 2, 4 … threads, one line for each thread count.
fn compare(out: &mut impl Write, most: u32, seconds: f64) -> io::Result<()> {
    writeln!(out, "million lookups per second, all threads together\n")?;
    writeln!(out, "{:>21}{:>26}", "alone", "with a writer")?;
    writeln!(out, "threads  read lock   epoch      read lock   epoch")?;
    let doubled = std::iter::successors(Some(1), |threads| Some(2 * threads));
    for threads in doubled.take_while(|&threads| threads < most).chain([most]) {
        let measured = [false, true].map(|with_writer| {
            let buckets = (most * CONNECTIONS) as usize;
            let locked = LockedTable::with_buckets(buckets);
            let epoch = EpochTable::with_buckets(buckets);
            [
                measure(&locked, threads, with_writer, seconds),
                measure(&epoch, threads, with_writer, seconds),
            ]
        });
        let [[locked, epoch], [locked_with_writer, epoch_with_writer]] = measured;
        writeln!(
            out,
            "{threads:7}  {locked:9.1} {epoch:7.1}      {locked_with_writer:9.1} \
             {epoch_with_writer:7.1}"
        )?;
    }
    Ok(())
}

/// Parses the maximum number of threads, and the duration of each measurement in seconds.
fn parse(arguments: &[String]) -> Option<(u32, f64)> {
    let cpus = || thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let (threads, seconds) = match arguments {
        [] => (cpus(), 0.5),
        [threads] => (threads.parse().ok()?, 0.5),
        [threads, seconds] => (threads.parse().ok()?, seconds.parse().ok()?),
        _ => return None,
    };
    let is_sane = (1..=MOST_THREADS).contains(&threads) && (0.001..=3600.0).contains(&seconds);
    is_sane.then_some((threads, seconds))
}

/// Returns the key of connection `number` of thread `thread`.
fn id(thread: u32, number: u32) -> FourTuple {
    FourTuple {
        local: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443),
        foreign: SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0000 + thread), 1024 + number as u16),
    }
}

/// Measures the throughput of all threads together, in millions of lookups per second.
fn measure(table: &impl ConnTable<u64>, threads: u32, with_writer: bool, seconds: f64) -> f64 {
    let begin = Barrier::new(threads as usize);
    let over = AtomicBool::new(false);
    let look_up = |thread: u32| {
        for number in 0..CONNECTIONS {
            table.insert(id(thread, number), 0).expect("each thread has connections of its own");
        }
        begin.wait();
        let (begin, mut lookups) = (Instant::now(), 0);
        while !over.load(Relaxed) {
            for number in 0..CONNECTIONS {
                let packets = table.lookup(black_box(&id(thread, number)), |packets| {
                    *packets += 1;
                    *packets
                });
                black_box(packets.expect("the connection is open"));
            }
            lookups += u64::from(CONNECTIONS);
        }
        lookups as f64 / begin.elapsed().as_secs_f64()
    };
    let open_and_close = || {
        // A connection that no lookup thread uses.
        let id = id(threads, 0);
        while !over.load(Relaxed) {
            table.insert(id, 0).expect("the connection is closed");
            thread::sleep(PAUSE);
            table.remove(&id).expect("the connection is open");
        }
    };
    let (look_up, open_and_close) = (&look_up, &open_and_close);
    thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || look_up(thread))).collect();
        if with_writer {
            scope.spawn(open_and_close);
        }
        thread::sleep(Duration::from_secs_f64(seconds));
        over.store(true, Relaxed);
        let rates = running.into_iter().map(|thread| thread.join().expect("no thread panics"));
        rates.sum::<f64>() / 1e6
    })
}
