//! Records that knee makes on this machine, so that inputs as of today are mutated as well.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use knee_host::process::status;

use crate::readers::image;

/// Commands to record something, each with the file that takes its standard output, if any.
const RECORDINGS: [(&str, Option<&str>); 27] = [
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
    ("dpkg-deb -Zgzip --build package package-1.deb", None),
    ("dpkg-deb -Zxz --build package package-2.deb", None),
    ("dpkg-deb -Znone --build package package-3.deb", None),
    ("cc -O1 -o generator.elf generator.c", None),
    ("KNEE jobs run jobs -o campaign", None),
];
/// The description that a Debian package needs.
const CONTROL: &str = "\
Package: linux-image-6.1.0-18-amd64
Version: 6.1.76-1
Architecture: amd64
Maintainer: a <a@a>
Description: d
";
/// A program that names generated code as `perf.map` says, and then runs this code for about 30 ms. A link to the
/// names of the last run stays behind, so that the next one can remove them.
const GENERATOR_PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the generated code is for x86-64"
#endif

/* dec %rdi; jnz -5; ret */
static const unsigned char loop[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};

int main(void)
{
    char path[64], last[64], text[1 << 16];
    ssize_t length = readlink("names", last, sizeof(last) - 1);
    if (length > 0) {
        last[length] = 0;
        unlink(last);
        unlink("names");
    }
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
    int from = open("perf.map", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (from < 0 || to < 0 || symlink(path, "names"))
        return 1;
    while ((length = read(from, text, sizeof(text))) > 0)
        if (write(to, text, length) != length)
            return 1;
    void *code = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (code == MAP_FAILED)
        return 1;
    memcpy(code, loop, sizeof(loop));
    ((void (*)(unsigned long))code)(60000000);
    return 0;
}
"#;
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
    fs::write(directory.join("generator.c"), GENERATOR_PROGRAM)?;
    fs::write(directory.join("jobs"), "true\ntrue\n")?;
    let package = directory.join("package");
    for (path, text) in [
        ("DEBIAN/control", CONTROL.as_bytes()),
        ("usr/share/doc/linux/copyright", b"GPL-2"),
        ("boot/vmlinuz-6.1.0-18-amd64", &image()),
    ] {
        let path = package.join(path);
        fs::create_dir_all(path.parent().expect("a file in a directory"))?;
        fs::write(path, text)?;
    }
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
