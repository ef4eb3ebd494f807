//! Notes about processes that still ran after their command had ended, or their server should have.

use knee_host::number::plural;
use knee_run::job::Source;
use knee_run::record::{LeftRunning, RunRecord};
use knee_run::server::Server;

use super::enumeration::named;

/// The note about the commands of a run.
pub(crate) fn of_run(run: &RunRecord) -> Option<String> {
    let is_of_command = |left: &&LeftRunning| server(run, left).is_none();
    of_commands(&run.left_running.iter().filter(is_of_command).collect::<Vec<_>>())
}

/// The note about the servers of a run that knee killed.
pub(crate) fn of_servers(run: &RunRecord) -> Option<String> {
    let killed = run.left_running.iter().filter_map(|left| Some((left, server(run, left)?)));
    of_killed(&killed.collect::<Vec<_>>())
}

/// The description of the server to which `left` belongs; `None` for a command.
fn server<'r>(run: &'r RunRecord, left: &LeftRunning) -> Option<&'r Server> {
    match &run.case(&left.testcase)?.source {
        Source::Server { server, .. } => Some(server),
        _ => None,
    }
}

fn of_killed(killed: &[(&LeftRunning, &Server)]) -> Option<String> {
    let ((LeftRunning { testcase, programs }, server), others) = killed.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        n => format!(", and so did {}", plural(n, "other server")),
    };
    let (processes, them) = processes(programs);
    let them = if others.is_empty() { them } else { "them" };
    let (signal, seconds) = (server.stop.signal, server.stop.seconds);
    Some(format!(
        "the server {testcase} left {processes} {seconds} s after {signal}{others}, so knee killed {them}; \
         stop.signal and stop.seconds in its description change this"
    ))
}

fn of_commands(left: &[&LeftRunning]) -> Option<String> {
    let (LeftRunning { testcase, programs }, others) = left.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        n => format!(", and so did {}", plural(n, "other command")),
    };
    let (processes, them) = processes(programs);
    let them = if others.is_empty() { them } else { "them" };
    Some(format!(
        "the command {testcase} left {processes} after a round{others}; knee ended {them}"
    ))
}

/// The note about one command.
pub(crate) fn of_command(programs: &[String]) -> Option<String> {
    let (processes, them) = processes(programs);
    (!programs.is_empty()).then(|| format!("the command left {processes}; knee ended {them}"))
}

/// `3 processes running (cat, sleep)`, and the pronoun for them.
fn processes(programs: &[String]) -> (String, &'static str) {
    let mut names: Vec<&str> = programs.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let names = named(&names);
    match programs.len() {
        1 => (format!("1 process running ({names})"), "it"),
        n => (format!("{n} processes running ({names})"), "them"),
    }
}

#[cfg(test)]
mod tests {
    use knee_results::CaseId;

    use super::*;

    #[test]
    fn the_programs_are_counted_and_named_once() {
        let left = |programs: &[&str]| programs.iter().map(|&name| name.to_owned()).collect();
        let of = |testcase, programs| LeftRunning { testcase: CaseId::new(testcase), programs };
        let note = |left: &[LeftRunning]| of_commands(&left.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            note(&[of("sh", left(&["sleep"]))]),
            "the command sh left 1 process running (sleep) after a round; knee ended it"
        );
        assert_eq!(
            note(&[of("sh", left(&["d", "b", "b", "e", "a", "c"])), of("ls", left(&["x"]))]),
            "the command sh left 6 processes running (a, b, c, d and 1 more) after a round, and so \
             did 1 other command; knee ended them"
        );
        assert_eq!((of_commands(&[]), of_command(&[])), (None, None));
        assert_eq!(
            of_command(&left(&["cat", "sleep"])).unwrap(),
            "the command left 2 processes running (cat, sleep); knee ended them"
        );
    }

    #[test]
    fn the_note_about_a_killed_server_names_its_signal_and_its_time() {
        let text = "name = 'a'\nserver.command = 'a'\nready.output = 'up'\n\
                    load = { command = 'b' }\nstop = { signal = 'INT', seconds = 0.5 }\n";
        let server = Server::parse(text).unwrap();
        let programs = vec!["a".to_owned()];
        let left = LeftRunning { testcase: CaseId::new("a"), programs };
        assert_eq!(
            of_killed(&[(&left, &server)]).unwrap(),
            "the server a left 1 process running (a) 0.5 s after SIGINT, so knee killed it; \
             stop.signal and stop.seconds in its description change this"
        );
        assert_eq!(of_killed(&[]), None);
    }
}
