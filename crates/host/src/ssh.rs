//! Hosts that ssh(1) reaches: one connection for each, which sessions share, and a temporary directory that
//! disappears when the connection ends, also if knee is killed.

use std::ffi::OsString;
use std::fmt;
use std::iter;
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CpuList;

/// How long a host may take to connect and answer.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// The most bytes that are read before the answer of a host.
pub const MOST_BYTES: usize = 1 << 20;
/// `PATH_MAX` of Linux.
const LONGEST_PATH: usize = 4096;
/// The longest path of the socket of a connection, in bytes: `sun_path` of linux/un.h without its final zero, and
/// without the 17 bytes that ssh appends while it creates the socket.
pub const LONGEST_SOCKET: usize = 107 - 17;

/// The prefix of hosts.
const PREFIX: &str = "ssh:";
/// What precedes the answer of a host. A login shell may print other lines first.
const ANSWER: &str = "knee-host ";
/// Creates the temporary directory, answers, and removes the directory when standard input is closed. The answer
/// contains the usable CPUs, the address of the client (`-` if it is unknown), and the directory. The shell of the
/// user may not be a POSIX shell.
const SET_UP: &str = "exec sh -c 'dir=$(mktemp -d \"${TMPDIR:-/tmp}/knee-host.XXXXXX\") && \
    cpus=$(sed -n \"s/^Cpus_allowed_list:[^0-9]*//p\" /proc/self/status) && \
    client=${SSH_CONNECTION%% *} && \
    echo \"knee-host ${cpus:-0} ${client:--} $dir\" && cat >/dev/null; \
    n=0; until rm -rf \"$dir\" || [ $n -ge 50 ]; do n=$((n + 1)); sleep 0.1; done'";
/// No questions, an end within a minute if the host does not answer, and a connection that ends with its
/// process, whatever the configuration of the user says. The host gets no access to this user's keys and windows.
const OPTIONS: [&str; 8] = [
    "BatchMode=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ConnectTimeout=10",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "ControlPersist=no",
    "LogLevel=ERROR",
];

/// A host, written as `ssh:HOST` or `ssh:USER@HOST`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Host(String);

/// A text that is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The prefix is missing.
    #[error("{0:?} does not name a host; write it as ssh:HOST or ssh:USER@HOST")]
    NoPrefix(String),
    /// ssh would take the name for something else.
    #[error("{0:?} is not the name of a host; name it as for ssh: HOST or USER@HOST")]
    Unusable(String),
}

impl Host {
    /// The host with a name that is valid for ssh: `HOST` or `USER@HOST`.
    ///
    /// # Errors
    /// The name is empty, contains white space or a comma, or begins with `-`, like an option of ssh.
    pub fn named(name: &str) -> Result<Self, HostError> {
        let is_unusable = |c: char| c.is_whitespace() || c.is_control() || c == ',';
        match name.is_empty() || name.starts_with('-') || name.contains(is_unusable) {
            true => Err(HostError::Unusable(name.to_owned())),
            false => Ok(Self(name.to_owned())),
        }
    }

    /// The name for ssh and for people.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The command line that connects to the host, creates the socket of the connection at `socket`, and answers
    /// with an [`Answer`]. It ends when its standard input is closed.
    pub fn connection(&self, socket: &Path) -> Vec<OsString> {
        self.ssh(socket, "ControlMaster=yes", SET_UP)
    }

    /// The command line of a session of the connection with this socket. It runs `command` on the host.
    pub fn session(&self, socket: &Path, command: &str) -> Vec<OsString> {
        self.ssh(socket, "ControlMaster=no", command)
    }

    fn ssh(&self, socket: &Path, role: &str, command: &str) -> Vec<OsString> {
        let mut words = vec![OsString::from("ssh")];
        words.extend(
            OPTIONS.into_iter().chain([role]).flat_map(|one| ["-o", one]).map(OsString::from),
        );
        words.extend(["-T", "-S"].map(OsString::from));
        words.push(without_expansion(socket));
        words.extend(["--", &self.0, command].map(OsString::from));
        words
    }
}

/// The path as ssh expands it to `path`.
fn without_expansion(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes().iter();
    let escaped = bytes.flat_map(|&byte| iter::repeat_n(byte, if byte == b'%' { 2 } else { 1 }));
    OsString::from_vec(escaped.collect())
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let name = text.strip_prefix(PREFIX);
        Self::named(name.ok_or_else(|| HostError::NoPrefix(text.to_owned()))?)
    }
}

impl TryFrom<String> for Host {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        text.parse()
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.to_string()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

/// The names in a list of hosts, `ssh:HOST,HOST`. `None` if the text has no such prefix.
pub fn listed(text: &str) -> Option<impl Iterator<Item = Result<Host, HostError>>> {
    Some(text.strip_prefix(PREFIX)?.split(',').map(Host::named))
}

/// What a host answers when it is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The CPUs that a session may use; CPU 0 if the host does not know them.
    pub cpus: CpuList,
    /// The address of this machine, as the host sees it.
    pub client: Option<IpAddr>,
    /// The temporary directory.
    pub directory: String,
}

impl Answer {
    /// The answer among whole lines that a host printed.
    pub fn find(printed: &[u8]) -> Option<Self> {
        let lines = printed.split_inclusive(|&byte| byte == b'\n');
        let mut lines = lines.filter_map(|line| str::from_utf8(line).ok()?.strip_suffix('\n'));
        let answer = lines.find_map(|line| line.strip_prefix(ANSWER))?;
        let mut words = answer.splitn(3, ' ');
        let (cpus, client, directory) = (words.next()?, words.next()?, words.next()?);
        if directory.len() > LONGEST_PATH {
            return None;
        }
        let cpus = cpus.parse().unwrap_or_else(|_| [0].into_iter().collect());
        Some(Self { cpus, client: client.parse().ok(), directory: directory.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_host_is_written_with_a_prefix() {
        let host: Host = "ssh:me@beta".parse().unwrap();
        assert_eq!((host.name(), host.to_string().as_str()), ("me@beta", "ssh:me@beta"));
        let json = serde_json::to_string(&host).unwrap();
        assert_eq!(serde_json::from_str::<Host>(&json).unwrap(), host);
        for text in ["beta", "ssh:", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:a,b", "ssh:a\n"] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
    }

    #[test]
    fn ssh_takes_the_name_of_a_host_for_nothing_else() {
        let words = Host::named("beta").unwrap().session(Path::new("/%s"), "true");
        assert_eq!(
            words.last_chunk().unwrap(),
            &["-S", "/%%s", "--", "beta", "true"].map(OsString::from)
        );
    }

    #[test]
    fn the_answer_is_found_after_other_lines() {
        let printed = b"Welcome!\n\xff\nknee-host 0-2,8 192.0.2.1 /tmp/a b\nmore";
        let answer = Answer::find(printed).unwrap();
        assert_eq!(answer.cpus.to_string(), "0-2,8");
        assert_eq!(answer.client, Some("192.0.2.1".parse().unwrap()));
        assert_eq!(answer.directory, "/tmp/a b");
        let odd = Answer::find(b"knee-host 0-99999999 - /tmp/a\n").unwrap();
        assert_eq!((odd.cpus.to_string().as_str(), odd.client), ("0", None));
        let long = format!("knee-host 0 - /{}\n", "a".repeat(LONGEST_PATH));
        assert_eq!(Answer::find(long.as_bytes()), None);
        for incomplete in ["knee-host 0 - /tmp/a", "knee-host 0\n", "", "\n"] {
            assert_eq!(Answer::find(incomplete.as_bytes()), None, "{incomplete}");
        }
    }

    #[test]
    fn a_posix_shell_answers_and_removes_its_directory() {
        let parent = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", SET_UP]).env("TMPDIR", parent.path()).stdin(Stdio::null());
        shell.env("SSH_CONNECTION", "2001:db8::1 4000 2001:db8::2 22");
        let answer = Answer::find(&shell.output().unwrap().stdout).unwrap();
        assert_eq!(answer.client, Some("2001:db8::1".parse().unwrap()));
        let usable = crate::affinity::usable_cpus().unwrap();
        assert_eq!(answer.cpus.iter().collect::<Vec<_>>(), usable);
        assert!(answer.directory.starts_with(parent.path().to_str().unwrap()));
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
        let output = shell.env_remove("SSH_CONNECTION").output().unwrap();
        assert_eq!(Answer::find(&output.stdout).unwrap().client, None);
    }
}
