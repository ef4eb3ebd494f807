//! The tables and keys of a description.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use knee_host::ssh::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A server, the load on it, and the unit of the rate.
///
/// Commands, addresses and files may contain placeholders: `{tasks}` is the number of CPUs of the server
/// and `{cpus}` their list, such as `0-3`. `{load_tasks}` and `{load_cpus}` are the same for the load.
/// `{connections}` is the number of connections, and `{max_connections}` the number that the server
/// should allow, which is 1000 more. `{seconds}` is the length of the measurement, `{dir}` a private
/// directory, `{port}` a free TCP port, and `{here}` the directory of the description. `{address}` is the address
/// of this machine for the load: 127.0.0.1, or the one that `load.host` sees.
///
/// Commands run in the private directory, which knee removes afterwards. knee uses a shell only for a
/// command that contains shell syntax.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Name of the testcase. Example: `name = "nginx"`
    pub name: String,
    /// What the load does. Example: `description = "GET of a file of 1 KiB"`
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What the rate counts, in the plural. Example: `unit = "transactions"`
    #[serde(default = "requests")]
    pub unit: String,
    /// Directories in which knee looks for programs, after those of `PATH`. A directory may be a glob;
    /// the match with the highest version number counts. Example: `path = ["/usr/lib/postgresql/*/bin"]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Programs that must be installed. Example: `needs = [{ program = "nginx", package = "nginx-light" }]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Program>,
    /// Files in the private directory, by name. Their placeholders are replaced. Example:
    /// `files."my.conf" = "port {port}"`
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Commands that run before the server starts. Example: `setup = ["initdb -D {dir}/data"]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// The server itself. Example: `server = { command = "redis-server --port {port}" }`
    pub server: ServerCommand,
    /// How to see that the server is ready. By default, it is ready when it accepts connections at
    /// `load.address`. Example: `ready = { output = "ready to accept connections" }`
    #[serde(default, skip_serializing_if = "Ready::is_default")]
    pub ready: Ready,
    /// Commands that run when the server is ready, before the load. Example:
    /// `prepare = ["createdb -h {dir} bench"]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// Requests that fill the server with data, before the load. Example: `fill = [{ count = 1000, request =
    /// { send = 'set key{number} 0 0 1\r\nx\r\n', expect = "STORED", reply_ends = '\r\n' } }]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fill: Vec<Fill>,
    /// The load. Example: `load = { address = "127.0.0.1:{port}", request = [{ send = 'PING\r\n', expect = "+PONG",
    /// reply_ends = '\r\n' }] }`
    pub load: LoadDescription,
    /// How the server stops. Example: `stop = { signal = "QUIT", seconds = 10 }`
    #[serde(default, skip_serializing_if = "Stop::is_default")]
    pub stop: Stop,
}

/// A program that must be installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name. Example: `program = "nginx"`
    pub program: String,
    /// The Debian package that contains it. Example: `package = "nginx-light"`
    pub package: String,
}

/// The command that starts a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerCommand {
    /// The command line. The server must stay in the foreground. Example:
    /// `command = "redis-server --port {port}"`
    pub command: String,
    /// The user who runs all commands of this description if root runs knee, for servers that refuse to
    /// run as root. Example: `user = "nobody"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// How to see that a server is ready. At most one of `connect`, `output` and `command`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// It accepts connections at this address. Example: `connect = "unix:{dir}/socket"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
    /// Its output contains this text. Example: `output = "ready to accept connections"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// This command succeeds. Example: `command = "pg_isready -q -h {dir}"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Time limit in seconds. By default, the value of `--start-timeout`. Example:
    /// `seconds = 60`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// The load: requests of knee to `address`, or a `command`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadDescription {
    /// Where knee sends requests: `HOST:PORT`, or `unix:PATH`. Example: `address = "{address}:{port}"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The requests. Each connection sends its next request when it has the reply to the last one. Example:
    /// `request = [{ send = 'PING\r\n', expect = "+PONG", reply_ends = '\r\n' }]`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request: Vec<RequestDescription>,
    /// Number of connections at every point. Example: `connections = 64`
    #[serde(default = "connections")]
    pub connections: NonZeroU32,
    /// Whether each request has a connection of its own. Example: `reconnect = true`
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reconnect: bool,
    /// A command that generates the load and prints its rate. Example:
    /// `command = "pgbench -h {dir} -c {connections} -j {load_tasks} -T {seconds}"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Whether the command accepts only a whole number as `{seconds}`, as pgbench does. knee then refuses another
    /// `--interval` before it measures. Example: `whole_seconds = true`
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_seconds: bool,
    /// The text around the rate that the command prints, with `#` in place of the rate. Without it, the
    /// rate is the last number. Example: `read = "tps = #"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// The host that generates the load in place of this machine. `ssh` must reach it without a question. Example:
    /// `host = "ssh:me@beta"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub host: Option<Host>,
    /// The program knee on `host`, which must be of the same version. By default, `knee` of its `PATH`. Example:
    /// `knee = "./knee"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<String>,
}

/// A request, and its correct reply. Exactly one of `reply_ends`, `reply_bytes` and `reply_http`.
///
/// In `send`, `expect` and `reply_ends`, `\r`, `\n`, `\t`, `\0`, `\\` and `\xHH` are single bytes. In
/// `send`, `{random:N}` is a random number below N, and `{number}` the number of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestDescription {
    /// Text of the request. Example: `send = 'get key{random:1000}\r\n'`
    pub send: String,
    /// Text with which a correct reply starts. Example: `expect = "VALUE"`
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expect: String,
    /// Text with which a reply ends. Example: `reply_ends = 'END\r\n'`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_ends: Option<String>,
    /// Length of a reply in bytes. Example: `reply_bytes = 7`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_bytes: Option<u64>,
    /// Take the length of a reply from its header Content-Length. Example: `reply_http = true`
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reply_http: bool,
    /// How often the request is sent, relative to the others. Example: `weight = 9`
    #[serde(default = "once")]
    pub weight: NonZeroU32,
}

/// Requests that fill a server with data, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// Number of requests. Example: `count = 1000`
    pub count: u64,
    /// The request. Example: `request = { send = 'set key{number} 0 0 1\r\nx\r\n', expect = "STORED",
    /// reply_ends = '\r\n' }`
    pub request: RequestDescription,
}

/// How a server stops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The signal that asks it to stop. Example: `signal = "QUIT"`
    #[serde(default)]
    pub signal: StopSignal,
    /// Seconds after which knee kills it. Example: `seconds = 10`
    #[serde(default = "stop_seconds")]
    pub seconds: f64,
}

/// A signal that asks a server to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM
    #[default]
    #[serde(alias = "SIGTERM")]
    Term,
    /// SIGINT
    #[serde(alias = "SIGINT")]
    Int,
    /// SIGQUIT
    #[serde(alias = "SIGQUIT")]
    Quit,
    /// SIGHUP
    #[serde(alias = "SIGHUP")]
    Hup,
    /// SIGUSR1
    #[serde(alias = "SIGUSR1")]
    Usr1,
    /// SIGUSR2
    #[serde(alias = "SIGUSR2")]
    Usr2,
    /// SIGKILL
    #[serde(alias = "SIGKILL")]
    Kill,
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Term => "SIGTERM",
            Self::Int => "SIGINT",
            Self::Quit => "SIGQUIT",
            Self::Hup => "SIGHUP",
            Self::Usr1 => "SIGUSR1",
            Self::Usr2 => "SIGUSR2",
            Self::Kill => "SIGKILL",
        })
    }
}

/// Default number of connections.
const CONNECTIONS: NonZeroU32 = NonZeroU32::new(32).unwrap();
/// Default seconds until a server is killed.
const STOP_SECONDS: f64 = 5.0;

fn requests() -> String {
    "requests".to_owned()
}

fn connections() -> NonZeroU32 {
    CONNECTIONS
}

fn once() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn stop_seconds() -> f64 {
    STOP_SECONDS
}

impl Ready {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self { signal: StopSignal::default(), seconds: STOP_SECONDS }
    }
}

impl Stop {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for RequestDescription {
    /// `'PING\r\n' (weight 9, reply '+PONG' … \r\n)`: the request, and its correct reply.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { send, expect, weight, .. } = self;
        let end = match (&self.reply_ends, self.reply_bytes) {
            (Some(end), _) => end.clone(),
            (None, Some(bytes)) => format!("{bytes} bytes"),
            (None, None) => "HTTP".to_owned(),
        };
        write!(f, "'{send}' (weight {weight}, reply '{expect}' … {end})")
    }
}

/// Where the load comes from.
pub(crate) enum Generator<'d> {
    /// knee sends requests to this address.
    Requests(&'d str),
    /// A command.
    Command(&'d str),
}

impl Server {
    /// Where the load comes from.
    pub(crate) fn generator(&self) -> Generator<'_> {
        match (&self.load.address, &self.load.command) {
            (Some(address), _) => Generator::Requests(address),
            (None, command) => Generator::Command(command.as_deref().unwrap_or_default()),
        }
    }
}
