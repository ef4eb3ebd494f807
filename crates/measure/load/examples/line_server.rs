//! A server for tests. It replies `ok` to each line, or misbehaves in the way that its arguments name.
//!
//! `line_server PORT [BEHAVIOUR]`

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Lines until a server that dies under load does so.
const LIFE: u64 = 50;

/// Connections of the first load and of the check whether the server is ready, at most.
const CONNECTIONS: usize = 6;

static LINES: AtomicU64 = AtomicU64::new(0);

fn main() {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().and_then(|port| port.parse().ok()).expect("a port");
    let behaviour = args.next().unwrap_or_default();
    eprintln!("line_server: {behaviour} at port {port}");
    match behaviour.as_str() {
        "die-at-start" => {
            eprintln!("line_server: no configuration");
            std::process::exit(3);
        }
        "never-ready" => thread::sleep(Duration::from_secs(600)),
        _ => {}
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    println!("ready");
    for (connection, stream) in listener.incoming().flatten().enumerate() {
        let behaviour = behaviour.clone();
        thread::spawn(move || converse(&stream, &behaviour, connection));
    }
}

fn converse(stream: &TcpStream, behaviour: &str, connection: usize) {
    let _ = stream.set_nodelay(true);
    let mut lines = BufReader::new(stream).lines();
    let busy = behaviour.strip_prefix("busy-");
    let busy = busy.map(|micros| Duration::from_micros(micros.parse().expect("microseconds")));
    while let Some(Ok(_)) = lines.next() {
        busy.into_iter().for_each(work);
        let reply: &[u8] = match behaviour {
            "garbage" => b"sorry\n",
            // The connections of a second load are new.
            "garbage-later" if connection > CONNECTIONS => b"sorry\n",
            "silent" => b"",
            // It replies on the others.
            "late" if connection > CONNECTIONS && connection.is_multiple_of(3) => b"",
            "die-later" if connection > CONNECTIONS => {
                eprintln!("line_server: out of memory");
                std::process::exit(4);
            }
            "idle" => {
                thread::sleep(Duration::from_millis(2));
                b"ok\n"
            }
            "die-under-load" if LINES.fetch_add(1, Ordering::Relaxed) == LIFE => {
                eprintln!("line_server: out of memory");
                std::process::exit(4);
            }
            _ => b"ok\n",
        };
        if { stream }.write_all(reply).is_err() {
            return;
        }
    }
}

/// Uses this much CPU time.
fn work(time: Duration) {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let begun = used();
    while used() - begun < time {
        std::hint::spin_loop();
    }
}
