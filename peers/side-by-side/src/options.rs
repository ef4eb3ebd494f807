//! What the programs take.

use std::fs;
use std::process::ExitCode;

/// What was asked for.
pub struct Options {
    /// The groups; all if none is named.
    only: Vec<String>,
    /// Samples of each row.
    pub rounds: usize,
    json: Option<String>,
}

impl Options {
    /// Calls `run` with what the command line says; `help` says what that may be.
    pub fn run(
        help: &str,
        groups: &[&str],
        run: impl FnOnce(&Options) -> serde_json::Value,
    ) -> ExitCode {
        let options = match Options::parse(groups, std::env::args().skip(1)) {
            Ok(Some(options)) => options,
            Ok(None) => {
                print!("{help}");
                return ExitCode::SUCCESS;
            }
            Err(wrong) => {
                eprintln!("run: {wrong}; see --help");
                return ExitCode::from(2);
            }
        };
        println!("{}", machine());
        let all = run(&options);
        if let Some(file) = &options.json
            && let Err(error) = fs::write(file, format!("{all:#}\n"))
        {
            eprintln!("run: {file}: {error}");
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }

    /// Whether this group was asked for.
    pub fn wants(&self, group: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == group)
    }

    /// None if help is asked for.
    fn parse(
        groups: &[&str],
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Options>, String> {
        let mut options = Options { only: Vec::new(), rounds: 7, json: None };
        while let Some(option) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{option} needs a value"));
            match option.as_str() {
                "--help" => return Ok(None),
                "--only" => {
                    let group = value()?;
                    if !groups.contains(&group.as_str()) {
                        return Err(format!("there is no group {group}"));
                    }
                    options.only.push(group);
                }
                "--rounds" => {
                    let rounds = value()?;
                    let number = rounds.parse().ok().filter(|&number| number > 0);
                    options.rounds = number.ok_or(format!("{rounds} is no number of rounds"))?;
                }
                "--json" => options.json = Some(value()?),
                _ => return Err(format!("there is no option {option}")),
            }
        }
        Ok(Some(options))
    }
}

/// The processor, the number of CPUs and the kernel.
pub fn machine() -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model =
        processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cpus} CPUs, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}
