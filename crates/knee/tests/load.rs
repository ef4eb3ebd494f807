//! `knee load`, with servers in the test.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use rustix::process::Signal;
use serde_json::Value;
use support::{Finished, Scratch, finish, signal, start, start_telling};

/// Starts an HTTP server that answers every request with `status`, and returns HOST:PORT.
fn serve(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let stream = stream.unwrap();
                let mut lines = BufReader::new(&stream).lines();
                while let Some(Ok(request)) = lines.next() {
                    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {
                    }
                    let body = request.split(' ').nth(1).unwrap_or("").to_owned();
                    let reply = format!("{status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    if { &stream }.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn load(args: &[&str]) -> Finished {
    let options = ["load", "-q", "-d", "1", "--warmup", "0.02", "-c", "2"];
    finish(Scratch::new().knee(&options).args(args))
}

#[test]
fn an_http_server_is_measured() {
    let url = format!("http://{}/a/b", serve("HTTP/1.1 200 OK"));
    let finished = load(&[&url, "--json"]);
    let result: Value = serde_json::from_str(&finished.assert_code(0).stdout).unwrap();
    assert!(result["rate"].as_f64().unwrap() > 0.0, "{result}");
    assert_eq!(result["loop"], "closed");
    assert_eq!(result["failures"]["errors"], 0);
    assert!(result["latency"]["p50"].as_f64() <= result["latency"]["max"].as_f64());
    assert_eq!(result["lateness"], Value::Null);

    let finished = load(&[&url, "--rate", "100"]);
    finished.assert_code(0).assert_stdout_has("2 connections, open loop at 100/s");
    finished.assert_stdout_has("latency").assert_stdout_has("sent late").assert_stdout_has("p99.9");
    // Notes, such as one on other programs, are wrapped only on a terminal.
    let mut lines = finished.stdout.lines().filter(|line| !line.starts_with("note"));
    assert!(lines.all(|line| line.chars().count() <= 80), "{finished:#?}");
}

#[test]
fn a_request_can_be_written_by_hand() {
    let address = serve("HTTP/1.1 204 Empty");
    let send = r"GET /x{random:5} HTTP/1.1\r\n\r\n";
    let args = [&address, "--send", send, "--reply-http", "--expect", "HTTP/1.1 204"];
    load(&args).assert_code(0);
    // The end never comes.
    let ends = [&address, "--send", send, "--reply-ends", "end", "--expect", "HTTP"];
    load(&ends)
        .assert_code(4)
        .assert_stderr_has(
            "the server did not complete its reply in time: 44 bytes arrived, but not",
        )
        .assert_stderr_has("the end \"end\": \"HTTP/1.1 204 Empty\\r\\n");
}

#[test]
fn wrong_replies_fail_with_the_first_of_them() {
    let url = format!("http://{}/", serve("HTTP/1.1 404 Not Found"));
    let finished = load(&[&url]);
    finished.assert_code(4).assert_stderr_has(r#"the server replied: "HTTP/1.1 404 Not Found"#);
}

#[test]
fn more_connections_than_open_files_are_refused_before_the_load_begins() {
    let line = format!(
        "ulimit -n 300; {} load 127.0.0.1:1 --send a --reply-bytes 1 -c 500",
        env!("CARGO_BIN_EXE_knee")
    );
    let refused = finish(std::process::Command::new("sh").args(["-c", &line]));
    refused
        .assert_code(3)
        .assert_stderr_has("500 connections need 516 open files, but the limit is 300")
        .assert_stderr_has("ulimit -n 516");
}

#[test]
fn an_expected_reply_can_begin_with_a_hyphen() {
    let address = serve("HTTP/1.1 200 OK");
    let finished =
        load(&[&address, "--send", "-x /y\\r\\n\\r\\n", "--expect", "-ERR", "--reply-http"]);
    finished.assert_code(4).assert_stderr_has(r#"expected: "-ERR""#);
}

#[test]
fn a_server_that_is_missing_is_named() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let finished = load(&[&format!("http://{address}")]);
    finished.assert_code(3).assert_stderr_has(&address).assert_stderr_has("Connection refused");
}

#[test]
fn a_signal_ends_it_and_shows_what_was_measured() {
    let url = format!("http://{}/", serve("HTTP/1.1 200 OK"));
    let mut knee = start(&mut Scratch::new().knee(&["load", &url, "-d", "3600"]));
    thread::sleep(std::time::Duration::from_millis(300));
    signal(&knee, Signal::TERM);
    assert_eq!(knee.wait().unwrap().code(), Some(143));
}

#[test]
fn a_signal_ends_it_while_no_reply_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let scratch = Scratch::new();
    let options = ["load", &address, "--send", "x", "--reply-bytes", "1", "-d", "60"];
    let knee = start_telling(&mut scratch.knee(&options), Stdio::piped());
    // The queue of the listener contains the connection, and nothing answers.
    let connection = listener.accept().unwrap();
    signal(&knee, Signal::INT);
    let ended = knee.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    drop(connection);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let refused = |args: &[&str], why: &str| {
        load(args).assert_code(2).assert_stderr_has(why);
    };
    refused(&["127.0.0.1:1"], "--send is missing");
    refused(&["https://127.0.0.1/"], "supports only http://");
    refused(&["http://127.0.0.1:1/", "--cpus", ""], "the list of CPUs is empty");
    refused(&["http://127.0.0.1:1/", "--cpus", "9999"], "this process may not use");
    refused(&["127.0.0.1:1", "--send", "x"], "set one of --reply-ends, ");
    refused(&["127.0.0.1:1", "--send", r"\q", "--reply-bytes", "1"], r"\q has no meaning");
    refused(&["127.0.0.1:1", "--send", "x", "--reply-ends", ""], "--reply-ends is empty");
    refused(&["nowhere", "--send", "x", "--reply-bytes", "1"], "write HOST:PORT or unix:PATH");
    refused(&["http://127.0.0.1:1/", "--send", "x"], "sends a GET request");
    refused(&["http://127.0.0.1:1/", "--rate", "0"], "must be a number of requests per second");
}
