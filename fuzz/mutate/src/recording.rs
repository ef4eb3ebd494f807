//! Records that knee makes on this machine, so that inputs as of today are mutated as well.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use knee_host::process::status;

/// Commands to record something, each with the file that takes its standard output, if any.
const RECORDINGS: [(&str, Option<&str>); 22] = [
    ("KNEE run getppid1 -m both -t 1,2 -r 2 -s 1 --interval 0.05 --warmup 0.01 -q -o run", None),
    (
        "KNEE run getppid1 lock1 -m threads -t 1-2 -r 3 -s 2 --interval 0.02 --warmup 0 -q -o second",
        None,
    ),
    ("KNEE run getppid1 -m threads -t 1,2 --aa -s 1 --interval 0.02 --warmup 0 -q -o aa", None),
    ("KNEE ab --before true --after true -r 6 -q -o ab", None),
    ("KNEE ab --before true --after false -r 6 -q -o failed", None),
    ("KNEE profile getppid1 -m threads -t 1 -d 0.2 -q -o capture-1.json", None),
    ("KNEE profile getppid1 -m threads -t 2 -d 0.2 -q -o capture-2.json", None),
    ("KNEE profile getppid1 -m threads -t 2 -d 0.2 --event off-cpu -q -o capture-3.json", None),
    ("KNEE profile -q -o capture-4.json -- sh -c true", None),
    ("KNEE profile show capture-2.json --format folded -o recorded.folded", None),
    ("KNEE profile mmap1 -m threads -t 2 -d 0.2 --locks -q -o locks.json", None),
    ("KNEE commute matrix --interface counter --json", Some("matrix-1.json")),
    ("KNEE commute matrix --interface map --json", Some("matrix-2.json")),
    ("KNEE commute tests open close", Some("tests-1.jsonl")),
    ("KNEE commute tests --sequential rename stat", Some("tests-2.jsonl")),
    ("KNEE commute tests --sequential mmap memwrite", Some("tests-3.jsonl")),
    ("KNEE commute tests --sequential pipe read", Some("tests-4.jsonl")),
    ("cc -g -O2 -o program.elf program.c", None),
    ("perf record -q -F 2000 -g -o 1.data ./program.elf", None),
    ("perf record -q -e page-faults -c 1 -o 2.data ./program.elf", None),
    ("perf script -i 1.data", Some("1.script")),
    ("perf script -i 2.data", Some("2.script")),
];
/// A program that runs for about 50 ms, with debug information and an inlined function. The function is so
/// long that the program contains the address in `fuzz/corpus/perf_data/small`.
const PROGRAM: &str = r#"
static inline __attribute__((always_inline)) int square(int n)
{
    __asm__ volatile(".rept 8192\n nop\n .endr");
    return n * n;
}

int main(int count, char **arguments)
{
    int sum = count;
    for (int n = 0; n < 30000; n++)
        sum += square(n) + arguments[0][0];
    return sum == 0;
}
"#;

/// A file beside the records, which shows that all have been made.
const COMPLETE: &str = "complete";

/// Makes the records in a directory, if it does not contain them already. What this machine cannot record is
/// left out, with a message.
pub(crate) fn record(knee: &Path, directory: &Path) -> anyhow::Result<()> {
    if directory.join(COMPLETE).exists() {
        return Ok(());
    }
    eprintln!("mutate: recording inputs in {}", directory.display());
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    fs::write(directory.join("program.c"), PROGRAM)?;
    for (words, output) in RECORDINGS {
        if let Err(error) = one(knee, directory, words, output) {
            eprintln!("mutate: this machine cannot record `{words}`: {error:#}");
            if let Some(output) = output {
                let _ = fs::remove_file(directory.join(output));
            }
        }
    }
    File::create(directory.join(COMPLETE))?;
    Ok(())
}

fn one(knee: &Path, directory: &Path, words: &str, output: Option<&str>) -> anyhow::Result<()> {
    let mut words =
        words.split(' ').map(|word| if word == "KNEE" { knee.as_os_str() } else { word.as_ref() });
    let mut command = Command::new(words.next().expect("the name of a program"));
    command.args(words).current_dir(directory).env("XDG_STATE_HOME", directory.join("state"));
    command.stdin(Stdio::null()).stderr(File::create(directory.join("errors"))?);
    match output {
        Some(output) => command.stdout(File::create(directory.join(output))?),
        None => command.stdout(Stdio::null()),
    };
    let status = status(&mut command)?;
    // knee also records a side that failed.
    let errors = fs::read_to_string(directory.join("errors")).unwrap_or_default();
    ensure!(matches!(status.code(), Some(0 | 4)), "{status}: {}", errors.trim());
    Ok(())
}
