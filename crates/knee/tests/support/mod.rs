//! What the end-to-end tests share: the real binary, scratch directories, and a look at what is
//! left behind.
#![allow(dead_code, reason = "each test binary uses some of it")]

#[cfg(feature = "prove")]
pub(crate) mod jobs;
pub(crate) mod schema;
pub(crate) mod sshd;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) use knee_host::skip::{has_rust_target, skip};

/// How long a condition may take on the slowest machine before the test gives up; a test that
/// passes never waits that long.
const AT_MOST: Duration = Duration::from_secs(60);

/// A directory for one test: its work directory, its records, its state.
pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let scratch = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(scratch.work()).unwrap();
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where testcases keep their files; has to be empty afterwards.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.dir.path().join("record")
    }

    /// `knee` in this directory, with nothing of the user's in reach.
    pub(crate) fn knee(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command
            .args(args)
            .current_dir(self.path())
            .env("TMPDIR", self.work())
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("NO_COLOR", "1")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("COLUMNS")
            .stdin(Stdio::null());
        command
    }

    /// `knee run`, as short as it can be, into [`Scratch::record`].
    pub(crate) fn run(&self, args: &[&str]) -> Command {
        // Tests run beside each other, and would repeat most rounds.
        let mut command = self.knee(&["run", "-q", "--patience", "1", "-r", "1", "-s", "1"]);
        command.args(["--interval", "0.05", "--warmup", "0.02", "-o", "record"]).args(args);
        command
    }

    /// What testcases have left behind.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        fs::read_dir(self.work()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    pub(crate) fn samples(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.record().join("samples.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The samples that count.
    pub(crate) fn measured(&self) -> Vec<serde_json::Value> {
        let mut samples = self.samples();
        samples.retain(|sample| sample["phase"] == "measure");
        samples
    }

    pub(crate) fn run_json(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.record().join("run.json")).unwrap()).unwrap()
    }
}

/// Puts a copy of the recorded run into the scratch directory, with its description and each of
/// its samples changed.
pub(crate) fn copy(
    scratch: &Scratch,
    name: &str,
    run: impl Fn(&mut serde_json::Value),
    sample: impl Fn(&mut serde_json::Value),
) {
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/record");
    let dir = scratch.path().join(name);
    fs::create_dir(&dir).unwrap();
    let read = |file| fs::read_to_string(Path::new(record).join(file)).unwrap();
    let mut description = serde_json::from_str(&read("run.json")).unwrap();
    run(&mut description);
    fs::write(dir.join("run.json"), description.to_string()).unwrap();
    let mut samples = String::new();
    for line in read("samples.jsonl").lines() {
        let mut line = serde_json::from_str(line).unwrap();
        sample(&mut line);
        samples += &format!("{line}\n");
    }
    fs::write(dir.join("samples.jsonl"), samples).unwrap();
}

/// The same command without a umask, so that knee alone decides who can write to its files.
pub(crate) fn without_umask(command: &Command) -> Command {
    after("umask 0", command)
}

/// The same command in a shell that runs `setting` first.
pub(crate) fn after(setting: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{setting}; exec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    shell
}

/// The permissions of a file or directory.
pub(crate) fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs to the end; the whole output is in the panic if a test fails on it.
pub(crate) fn finish(command: &mut Command) -> Finished {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Finished {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// That a document is as the schema says that knee prints by this name.
#[track_caller]
pub(crate) fn assert_schema(name: &str, document: &serde_json::Value) {
    let printed = finish(&mut Scratch::new().knee(&["generate", "schema", name]));
    let schema = serde_json::from_str(&printed.assert_code(0).stdout).unwrap();
    schema::assert_valid(&schema, document);
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// What a command that has succeeded wrote, a line of JSON each.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        let lines = self.assert_code(0).stdout.lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    pub(crate) fn assert_stderr_has(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "{text:?} is missing in {self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn assert_stdout_has(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text), "{text:?} is missing in {self:#?}");
        self
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < AT_MOST, "still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The living processes below `dir` as their working directory: knee, its runners, their tasks.
pub(crate) fn processes_in(dir: &Path) -> Vec<String> {
    let dir = dir.canonicalize().unwrap();
    let numbers = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == dir))
        .map(|pid| {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid}: {}", command.replace('\0', " "))
        })
        .collect()
}

/// The verdict of each of these lines of `tests.jsonl`, ordered by test.
pub(crate) fn verdicts(lines: &str) -> Vec<(String, String)> {
    let word = |line: &serde_json::Value, member: &str| line[member].as_str().unwrap().to_owned();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut verdicts: Vec<_> = lines
        .map(|line: serde_json::Value| (word(&line, "test"), word(&line, "verdict")))
        .collect();
    verdicts.sort();
    verdicts
}

/// Starts a command whose output nobody reads.
pub(crate) fn start(command: &mut Command) -> Child {
    start_telling(command, Stdio::null())
}

/// Starts a command of whose output only what it tells is read.
pub(crate) fn start_telling(command: &mut Command, stderr: Stdio) -> Child {
    heeding_ctrl_c(command).stdout(Stdio::null()).stderr(stderr).spawn().unwrap()
}

/// The same command, which SIGINT ends even if the tests run in the background of a shell.
pub(crate) fn heeding_ctrl_c(command: &mut Command) -> &mut Command {
    let heeds_ctrl_c = || {
        // Shells have what they start with & ignore it, and knee would then as well.
        // SAFETY: that a signal has its default action runs none of our code.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(heeds_ctrl_c) }
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Compiles a plug-in of this crate's `tests/plugins`; `None`, with a printed reason, where there
/// is no C compiler.
pub(crate) fn compile_plugin(scratch: &Scratch, name: &str) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/plugins/{name}.c"));
    compile(scratch, &source, name)
}

/// Compiles a C file to a shared object in the scratch directory.
pub(crate) fn compile(scratch: &Scratch, source: &Path, name: &str) -> Option<String> {
    let object = scratch.path().join(format!("{name}.so"));
    let status = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-pthread", "-Wall", "-Werror", "-o"])
        .args([object.as_path(), source])
        .status();
    match status {
        Ok(status) => {
            assert!(status.success(), "cc failed on {}", source.display());
            Some(object.to_str().unwrap().to_owned())
        }
        Err(error) => {
            skip("cc", format_args!("cc cannot be run: {error}"));
            None
        }
    }
}

/// Whether guests can run the kernel of a Debian release; tells why not.
#[cfg(feature = "prove")]
pub(crate) fn has_guests(release: &str) -> bool {
    let emulator = knee_trace::Emulator::of_user().expect("the QEMU that KNEE_QEMU names");
    if let Err(error) = emulator.version() {
        skip("qemu", error);
        return false;
    }
    if let Err(error) = knee_trace::Archive::of_user().unwrap().fetch(release) {
        skip("qemu", format_args!("there is no kernel of {release}: {error}"));
        return false;
    }
    true
}

/// knee's own kernel, built for x86-64. `None`, with a printed reason, if Rust's target is missing.
pub(crate) fn guest_kernel() -> Option<PathBuf> {
    const TARGET: &str = "x86_64-unknown-none";
    if !has_rust_target(TARGET) {
        return None;
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--quiet", "--package", "knee-kernel"]);
    cargo.args(["--target", TARGET, "--target-dir"]).arg(&directory);
    // The flags in the environment are for the tests on the host.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    assert!(cargo.status().unwrap().success(), "the kernel does not compile");
    Some(directory.join(TARGET).join("release/knee-kernel"))
}

/// An example program of a package, built where it is not yet.
pub(crate) fn example(package: &str, name: &str) -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "-q", "-p", package, "--message-format=json", "--example", name])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8(built.stdout).unwrap();
    let mut programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    programs.next_back().expect("cargo says where it is")
}

/// Writes the description NAME.toml of a `line_server` whose load is the shell command `load`, which prints the rate
/// as `tps = RATE`.
pub(crate) fn describe_commanded(scratch: &Scratch, name: &str, load: &str) {
    let server = example("knee-load", "line_server");
    let text = format!(
        "name = '{name}'\n[server]\ncommand = '{} {{port}}'\n[ready]\noutput = 'ready'\n\
         [load]\ncommand = '{load}'\nread = 'tps = #'\n",
        server.display()
    );
    fs::write(scratch.path().join(format!("{name}.toml")), text).unwrap();
}

/// Writes the description NAME.toml of the `line_server` with this behaviour, and `more` at its end.
pub(crate) fn describe(scratch: &Scratch, name: &str, behaviour: &str, more: &str) {
    let server = example("knee-load", "line_server");
    let text = format!(
        "name = '{name}'\n\
         [server]\n\
         command = '{} {{port}} {behaviour}'\n\
         [load]\n\
         address = '127.0.0.1:{{port}}'\n\
         connections = 4\n\
         request = [{{ send = 'hello {{random:9}}\\n', expect = 'ok', reply_ends = '\\n' }}]\n\
         {more}",
        server.display()
    );
    fs::write(scratch.path().join(format!("{name}.toml")), text).unwrap();
}
