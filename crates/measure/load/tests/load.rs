//! Load on servers that behave well and badly.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use knee_load::{
    End, Load, LoadError, Outcome, Pace, Reply, Request, Target, exchange, quantiles, run,
};

/// Starts a server that answers the lines of each connection by `answer`, and returns its address. A
/// connection ends where there is no answer.
fn serve(answer: impl Fn(&str) -> Option<String> + Clone + Send + 'static) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string().parse().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, answer) = (stream.unwrap(), answer.clone());
            thread::spawn(move || converse(&stream, answer));
        }
    });
    target
}

fn converse(stream: &TcpStream, answer: impl Fn(&str) -> Option<String>) {
    stream.set_nodelay(true).unwrap();
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let Some(reply) = answer(&line) else { return };
        if { stream }.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

fn load(target: Target, pace: Pace) -> Load {
    let reply = Reply::new("ok", End::with(r"\n").unwrap()).unwrap();
    Load {
        target,
        requests: vec![Request::new(r"get {random:9}\n", reply).unwrap()],
        connections: 2,
        pace,
        reconnect: false,
        warmup: 0.05,
        seconds: 0.3,
        patience: 1.0,
        cpus: vec![knee_host::affinity::usable_cpus().unwrap()[0]],
    }
}

fn measure(load: &Load) -> Result<Outcome, LoadError> {
    run(load, &AtomicBool::new(false))
}

#[test]
fn a_closed_loop_counts_the_replies() {
    let seen = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&seen);
    let target = serve(move |line| {
        assert!(line.strip_prefix("get ").unwrap().parse::<u32>().unwrap() < 9);
        counter.fetch_add(1, Ordering::Relaxed);
        Some("ok\n".to_owned())
    });
    let outcome = measure(&load(target, Pace::Closed)).unwrap();
    assert_eq!(outcome.failures.count(), 0, "{:?}", outcome.failures);
    assert!(outcome.replies > 0 && outcome.replies <= seen.load(Ordering::Relaxed));
    assert_eq!(outcome.replies, outcome.latency.len());
    assert_eq!(outcome.rate(), outcome.replies as f64 / 0.3);
    assert!(outcome.busy() > 0.0);
}

#[test]
fn an_open_loop_sends_at_its_rate_over_all_workers() {
    let target = serve(|_| Some("ok\n".to_owned()));
    let cpu = knee_host::affinity::usable_cpus().unwrap()[0];
    let rate = 200.0;
    let load = Load { cpus: vec![cpu; 2], ..load(target, Pace::Open { rate }) };
    let outcome = measure(&load).unwrap();
    // 0.3 s at 200 per second, however slow the machine is.
    assert_eq!(outcome.latency.len() + outcome.failures.errors, 60);
    assert_eq!(outcome.workers, 2);
    assert!(outcome.lateness.len() <= outcome.latency.len());
}

#[test]
fn a_stall_delays_all_requests_that_were_due_meanwhile() {
    let seen = Arc::new(AtomicU64::new(0));
    let target = serve(move |_| {
        // This request is due 100 ms after the begin, and 50 ms after the end of the warm-up.
        if seen.fetch_add(1, Ordering::Relaxed) == 100 {
            thread::sleep(Duration::from_millis(200));
        }
        Some("ok\n".to_owned())
    });
    let load = Load { connections: 1, seconds: 0.6, ..load(target, Pace::Open { rate: 1000.0 }) };
    let outcome = measure(&load).unwrap();
    let is_slow = |millis: u64| outcome.latency.count_between(millis * 1_000_000, u64::MAX);
    // A generator that counts from the time of sending sees one on a fast machine.
    assert!(is_slow(100) >= 90, "{} of {}", is_slow(100), outcome.latency.len());
    assert!(quantiles(&outcome.latency).unwrap().max >= 0.19);
}

#[test]
fn each_request_can_have_a_connection_of_its_own() {
    let connections = Arc::new(AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string().parse().unwrap();
    let counter = Arc::clone(&connections);
    thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || converse(&stream.unwrap(), |_| Some("ok\n".to_owned())));
        }
    });
    let outcome = measure(&Load { reconnect: true, ..load(target, Pace::Closed) }).unwrap();
    assert_eq!(outcome.failures.count(), 0, "{:?}", outcome.failures);
    assert!(connections.load(Ordering::Relaxed) >= outcome.replies && outcome.replies > 0);
}

#[test]
fn a_server_may_close_a_connection_that_it_announces_to_close() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string().parse().unwrap();
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n";
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let stream = stream.unwrap();
                // As servers do that limit the requests of a connection.
                for last in ["", "Connection: close\r\n"] {
                    let mut line = String::new();
                    if !BufReader::new(&stream).read_line(&mut line).is_ok_and(|length| length > 0)
                    {
                        return;
                    }
                    let _ = { &stream }.write_all(format!("{reply}{last}\r\nhi").as_bytes());
                }
            });
        }
    });
    let mut load = load(target, Pace::Closed);
    let reply = Reply::new("HTTP/1.1 200", End::Http).unwrap();
    load.requests = vec![Request::new(r"GET /\n", reply).unwrap()];
    let outcome = measure(&load).unwrap();
    assert_eq!(outcome.failures.count(), 0, "{:?}", outcome.failures);
}

#[test]
fn a_request_larger_than_the_buffers_keeps_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string().parse().unwrap();
    let connections = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&connections);
    thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || {
                // The buffers of both sides fill up meanwhile.
                thread::sleep(Duration::from_millis(50));
                converse(&stream.unwrap(), |_| Some("ok\n".to_owned()));
            });
        }
    });
    let mut load = Load { connections: 1, ..load(target, Pace::Open { rate: 20.0 }) };
    let text = "a".repeat(16 << 20) + r"\n";
    load.requests = vec![Request::new(&text, load.requests[0].reply.clone()).unwrap()];
    let outcome = measure(&load).unwrap();
    assert_eq!((outcome.failures.errors, outcome.failures.wrong), (0, 0), "{outcome:?}");
    assert_eq!(
        connections.load(Ordering::Relaxed),
        2,
        "one is the check whether it can be reached"
    );
}

#[test]
fn requests_are_chosen_by_weight() {
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counters = Arc::clone(&counts);
    let target = serve(move |line| {
        counters[usize::from(line == "set")].fetch_add(1, Ordering::Relaxed);
        Some(if line == "set" { "done\n" } else { "ok\n" }.to_owned())
    });
    let set = Reply::new("done", End::Bytes(5)).unwrap();
    let mut set = Request::new(r"set\n", set).unwrap();
    set.weight = 3;
    let mut load = load(target, Pace::Open { rate: 1000.0 });
    load.requests.push(set);
    let outcome = measure(&load).unwrap();
    assert_eq!(outcome.failures.wrong, 0, "{:?}", outcome.failures);
    let [gets, sets] = [&counts[0], &counts[1]].map(|count| count.load(Ordering::Relaxed));
    // Three quarters are expected.
    assert!(gets > 0 && sets > 2 * gets && sets < 5 * gets, "{sets} of {}", gets + sets);
}

#[test]
fn a_unix_socket_is_a_target() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let stream = stream.unwrap();
                for _ in BufReader::new(&stream).lines().map_while(Result::ok) {
                    let _ = { &stream }.write_all(b"ok\n");
                }
            });
        }
    });
    let outcome = measure(&load(Target::Unix(path), Pace::Closed)).unwrap();
    assert!(outcome.replies > 0 && outcome.failures.count() == 0, "{:?}", outcome.failures);
}

#[test]
fn a_full_queue_of_a_unix_socket_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // Room for one connection, which the check takes whether the server can be reached.
    rustix::net::listen(&listener, 0).unwrap();
    let error = measure(&load(Target::Unix(path), Pace::Closed)).unwrap_err().to_string();
    assert!(error.ends_with("the server accepts no connection, and its queue is full"), "{error}");
}

#[test]
fn wrong_replies_and_broken_connections_are_counted() {
    let nr = Arc::new(AtomicU64::new(0));
    let target = serve(move |_| match nr.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => Some("ok\n".to_owned()),
        1 => Some("sorry\n".to_owned()),
        _ => None,
    });
    let failures = measure(&load(target, Pace::Closed)).unwrap().failures;
    assert!(failures.wrong > 0 && failures.errors > 0, "{failures:?}");
}

#[test]
fn a_worker_that_gives_up_counts_no_request_that_is_not_yet_due() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string().parse().unwrap();
    thread::spawn(move || {
        // After the check, a server with room for a single connection.
        for (nr, stream) in listener.incoming().enumerate() {
            if nr == 1 {
                thread::spawn(move || converse(&stream.unwrap(), |_| Some("ok\n".to_owned())));
            }
        }
    });
    let cpu = knee_host::affinity::usable_cpus().unwrap()[0];
    let load = Load { cpus: vec![cpu; 2], ..load(target, Pace::Open { rate: 4000.0 }) };
    let outcome = measure(&load).unwrap();
    assert!(outcome.failures.errors > 0, "{outcome:?}");
    assert!(outcome.latency.min() > 0, "{outcome:?}");
}

#[test]
fn a_server_that_never_sends_a_correct_reply_is_reported_with_the_reason() {
    let reason = |load: &Load| measure(load).unwrap_err().to_string();
    let wrong = load(serve(|_| Some("sorry\n".to_owned())), Pace::Closed);
    let expected = "no request got a correct reply: the server replied: \"sorry\\n\"; \
                    expected: \"ok\"";
    assert_eq!(reason(&wrong), expected);
    let closing = load(serve(|_| None), Pace::Closed);
    assert!(reason(&closing).contains("closed the connection without a whole reply"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let missing = load(Target::Tcp(port), Pace::Open { rate: 100.0 });
    assert!(reason(&missing).contains("Connection refused"), "{}", reason(&missing));
    // It accepts connections, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = load(Target::Tcp(listener.local_addr().unwrap()), Pace::Closed);
    assert!(reason(&silent).contains("did not reply in time"));
}

#[test]
fn a_stopped_load_waits_for_the_replies_under_way() {
    let seen = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&seen);
    let target = serve(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Some("ok\n".to_owned())
    });
    let load = Load { warmup: 0.0, seconds: 3600.0, ..load(target, Pace::Closed) };
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| run(&load, &stop));
        // Two connections send a third request after the first reply.
        while seen.load(Ordering::Relaxed) < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap()
    });
    assert!(outcome.seconds < 3600.0 && outcome.replies > 0);
    assert_eq!(outcome.failures.count(), 0, "{:?}", outcome.failures);
}

#[test]
fn a_measured_time_without_a_request_is_idle() {
    let target = serve(|_| Some("ok\n".to_owned()));
    // The first request is due at once, and the second one after ten seconds.
    let load = load(target, Pace::Open { rate: 0.1 });
    assert!(measure(&load).unwrap().is_idle());
}

#[test]
fn an_exchange_sends_numbered_requests_until_a_reply_is_wrong() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&seen);
    let target = serve(move |line| {
        lines.lock().unwrap().push(line.to_owned());
        Some(if line == "set 3" { "no\n" } else { "ok\n" }.to_owned())
    });
    let reply = Reply::new("ok", End::with(r"\n").unwrap()).unwrap();
    let request = Request::new(r"set {number}\n", reply).unwrap();
    let patience = Duration::from_secs(60);
    let send = |count| exchange(&target, &request, count, patience, &AtomicBool::new(false));
    send(3).unwrap();
    assert_eq!(*seen.lock().unwrap(), ["set 0", "set 1", "set 2"]);
    let error = send(9).unwrap_err().to_string();
    assert!(error.starts_with("request 3 got no correct reply: the server replied"), "{error}");
}
