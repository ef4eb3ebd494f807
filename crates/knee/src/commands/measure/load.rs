//! `knee load`: send requests to a server, and measure its rate and latency.

mod job;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use knee_host::affinity::usable_cpus;
use knee_host::limits::raise_open_files;
use knee_host::process::wait_readable;
use knee_host::text::Screen;
use knee_host::{CpuList, Interrupt};
use knee_load::{End, Load, LoadError, Outcome, Pace, Reply, Request, Target};
use knee_run::server::require_connections;

use crate::args::{seconds, seconds_or_none, whole};
use crate::exit::{ExitStatus, bail_usage, ensure_usage, failed, usage};
use crate::progress::{Amount, Progress};
use crate::session::topology;
use crate::stderr::tell;
use crate::{interrupt, present, stdout};

/// How often the command looks for signals and shows progress.
const LOOK: Duration = Duration::from_millis(50);
/// How long the load may take to end after a signal.
const END: Duration = Duration::from_millis(400);
/// Open files beside those of the connections.
const OTHER_FILES: u64 = 16;
/// Seconds to wait for the replies to the last requests.
const PATIENCE: f64 = 1.0;
/// Prefix of an address with the path of an HTTP request.
const HTTP: &str = "http://";

/// Send requests to a server, and measure its rate and latency
///
/// Without --rate, each connection sends its next request as soon as it has the reply (closed loop).
/// This measures the highest rate. With --rate, requests are due at fixed times (open loop), and
/// latency counts from the time at which a request was due. A server that stalls then delays all
/// requests that were due meanwhile, as it would delay independent users.
///
/// knee checks every reply. It counts replies that do not start with --expect, broken connections,
/// and requests without a reply as failures.
///
/// In --send, --expect and --reply-ends, \r, \n, \t, \0, \\ and \xHH are single bytes. In --send,
/// {random:N} is a number from 0 to N-1 that differs from request to request, and {number} is the
/// number of the request within its thread.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee load http://127.0.0.1:8080/index.html       the highest rate, 8 connections
  knee load http://127.0.0.1:8080/ --rate 5000     latency at 5000 requests/s
  knee load 127.0.0.1:11211 --send 'get key{random:1000}\\r\\n' \\
      --expect VALUE --reply-ends 'END\\r\\n'        memcached
  knee load unix:/run/redis.sock --send 'PING\\r\\n' --expect +PONG --reply-bytes 7

Exit status:
  0  success
  3  the server cannot be reached, or this machine allows too few connections
  4  replies were wrong or missing")]
pub(crate) struct Args {
    /// Server: http://HOST:PORT/PATH, HOST:PORT, or unix:PATH for a Unix socket
    #[arg(value_name = "ADDRESS", required_unless_present = "job")]
    address: Option<String>,

    /// Text of a request [default: for http://, a GET request]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    send: Option<String>,

    /// Text with which a correct reply starts [default: for http://, HTTP/1.1 200]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    expect: Option<String>,

    /// Text with which a reply ends
    #[arg(long, value_name = "TEXT", group = "end", allow_hyphen_values = true)]
    reply_ends: Option<String>,

    /// Length of a reply in bytes
    #[arg(long, value_name = "N", group = "end", value_parser = whole::<u64>(1..=1 << 40))]
    reply_bytes: Option<u64>,

    /// Take the length of a reply from its header Content-Length
    #[arg(long, group = "end")]
    reply_http: bool,

    /// Number of connections; each has at most one request under way
    #[arg(short, long, value_name = "N", default_value = "8",
          value_parser = whole::<u32>(1..=1_000_000))]
    connections: u32,

    /// Requests per second, over all connections [default: as many as possible]
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,

    /// Open a new connection for each request
    #[arg(long)]
    reconnect: bool,

    /// Seconds of the measurement
    #[arg(short, long, value_name = "S", default_value = "5", value_parser = seconds)]
    duration: f64,

    /// Seconds before the measurement
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = seconds_or_none)]
    warmup: f64,

    /// CPUs of the generator, such as 2-3, with a thread on each [default: the last CPU]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,

    /// Do not show progress
    #[arg(short, long)]
    quiet: bool,

    /// Read the load from standard input, and print its result, as `knee run` on another machine requests with
    /// load.host
    #[arg(long, hide = true, exclusive = true)]
    job: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.01..=1e8).contains(&rate) => Ok(rate),
        _ => Err("must be a number of requests per second from 0.01 to 100000000".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let Some(address) = &args.address else { return job::run() };
    // Before this function takes signals, because a name server may be slow to reply.
    let load = load(args, address)?;
    let interrupt = interrupt::poll()?;
    raise_open_files();
    require_connections(load.connections, 0, load.connections as u64 + OTHER_FILES).map_err(
        |failure| {
            failed(ExitStatus::Environment, format!("{}; {}", failure.reason, failure.remedy))
        },
    )?;
    let load = Arc::new(load);
    let (outcome, signal) = measure(&load, &interrupt, args.quiet)?;
    let outcome = outcome.and_then(|outcome| match outcome.is_idle() && signal.is_none() {
        true => Err(LoadError::Idle),
        false => Ok(outcome),
    });
    let outcome = outcome.map_err(|error| match signal {
        Some(signal) => failed(ExitStatus::Interrupted(signal), interrupt::message()),
        None => failed(status(&error), format!("{address}: {error}")),
    })?;
    if args.json {
        stdout::print_json(&present::load::json(&load, &outcome))?;
    } else {
        stdout::print(&present::load::text(&load, &outcome, &Screen::of_stdout()))?;
    }
    if signal.is_some() {
        tell!("knee: {}", interrupt::message_after(&format!("{:.1} s", outcome.seconds)));
    }
    Ok(match signal {
        Some(signal) => ExitStatus::Interrupted(signal),
        None if outcome.failures.count() > 0 => ExitStatus::TestcaseDied,
        None => ExitStatus::Done,
    })
}

fn status(error: &LoadError) -> ExitStatus {
    match error {
        LoadError::Nothing(_) | LoadError::Request { .. } | LoadError::Idle => {
            ExitStatus::TestcaseDied
        }
        LoadError::Unreachable(_) | LoadError::System(_) => ExitStatus::Environment,
    }
}

/// Generates the load, until its end or until a signal arrives. Returns the signal too.
///
/// # Errors
/// A signal arrived, and the server does not let the load end.
fn measure(
    load: &Arc<Load>,
    interrupt: &Interrupt,
    is_quiet: bool,
) -> anyhow::Result<(Result<Outcome, LoadError>, Option<i32>)> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut progress = Progress::new(is_quiet);
    let seconds = load.warmup + load.seconds;
    let begun = Instant::now();
    let running = {
        let (load, stop) = (Arc::clone(load), Arc::clone(&stop));
        thread::Builder::new().spawn(move || knee_load::run(&load, &stop))?
    };
    let mut signal = None;
    while !running.is_finished() {
        if wait_readable(interrupt, LOOK)
            && let Some(number) = interrupt.take()
        {
            signal = Some((number, Instant::now()));
            stop.store(true, Ordering::Relaxed);
        }
        // It may wait for a connection, or for replies. It ends with this process.
        if let Some((number, _)) = signal.filter(|(_, since)| since.elapsed() >= END) {
            return Err(failed(ExitStatus::Interrupted(number), interrupt::message()));
        }
        let done = begun.elapsed().as_secs_f64().min(seconds).round() as u64;
        let amount = Amount { done, of: seconds.round() as u64, unit: "seconds" };
        progress.show_with(&amount, None, String::new);
    }
    let outcome = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok((outcome, signal.map(|(number, _)| number)))
}

fn load(args: &Args, address: &str) -> anyhow::Result<Load> {
    let (target, request) = match address.strip_prefix(HTTP) {
        Some(rest) => http(args, rest)?,
        None => raw(args, address)?,
    };
    let cpus = match &args.cpus {
        Some(cpus) => topology(Some(cpus))?.cpus().iter().map(|cpu| cpu.id).collect(),
        None => {
            let usable = usable_cpus().context("cannot determine the usable CPUs")?;
            usable.last().copied().into_iter().collect::<Vec<u32>>()
        }
    };
    Ok(Load {
        target,
        requests: vec![request],
        connections: args.connections as usize,
        pace: args.rate.map_or(Pace::Closed, |rate| Pace::Open { rate }),
        reconnect: args.reconnect,
        warmup: args.warmup,
        seconds: args.duration,
        patience: PATIENCE,
        cpus,
    })
}

/// A GET request of the address after `http://`.
fn http(args: &Args, rest: &str) -> anyhow::Result<(Target, Request)> {
    ensure_usage!(
        args.send.is_none() && args.reply_ends.is_none() && args.reply_bytes.is_none(),
        "{HTTP} sends a GET request; for another request, write HOST:PORT with --send and --reply-http"
    );
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    let target = if has_port { host.to_owned() } else { format!("{host}:80") };
    let text = format!(r"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let reply = Reply::new(args.expect.as_deref().unwrap_or("HTTP/1.1 200"), End::Http);
    Ok((parsed(&target)?, Request::new(&text, reply.map_err(text_error)?).map_err(text_error)?))
}

fn raw(args: &Args, address: &str) -> anyhow::Result<(Target, Request)> {
    ensure_usage!(
        !address.contains("://"),
        "{address}: knee load supports only {HTTP}; write HOST:PORT with --send for another protocol"
    );
    let Some(send) = &args.send else {
        bail_usage!("--send is missing: the text of a request, such as --send 'PING\\r\\n'");
    };
    let end = match (&args.reply_ends, args.reply_bytes, args.reply_http) {
        (Some(text), ..) => End::with(text).map_err(text_error)?,
        (_, Some(length), _) => End::Bytes(length),
        (_, _, true) => End::Http,
        _ => bail_usage!("set one of --reply-ends, --reply-bytes and --reply-http"),
    };
    ensure_usage!(end != End::With(Vec::new()), "--reply-ends is empty; name the end of a reply");
    let reply = Reply::new(args.expect.as_deref().unwrap_or(""), end).map_err(text_error)?;
    Ok((parsed(address)?, Request::new(send, reply).map_err(text_error)?))
}

fn parsed(address: &str) -> anyhow::Result<Target> {
    address.parse::<Target>().map_err(|error| usage(error.to_string()))
}

fn text_error(error: knee_load::TextError) -> anyhow::Error {
    usage(error.to_string())
}
