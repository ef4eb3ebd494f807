use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::capture::{Kind, Losses};
use knee_host::skip::skip;

/// Minimum of samples in a file: with fewer, the checks could fail by chance.
const ENOUGH: u64 = 100;

/// A file of `perf record` for a program with known functions, or the reason why perf cannot record here.
fn recorded(dir: &Path) -> Result<PathBuf, String> {
    let mut samples = 0;
    // About 200 samples; fewer if the CPU is faster or the host preempts it.
    for rounds in [300, 1200, 4800] {
        let file = recorded_rounds(dir, rounds)?;
        samples = read(&file).unwrap().samples();
        if samples > ENOUGH {
            return Ok(file);
        }
        println!("{samples} samples of {rounds} rounds");
    }
    panic!("perf took {samples} samples of 4800 rounds");
}

fn recorded_rounds(dir: &Path, rounds: u32) -> Result<PathBuf, String> {
    let program = crate::sampling::tests::known(dir, rounds)?;
    let file = dir.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-o"])
        .arg(&file)
        .arg(&program);
    match perf.output() {
        Ok(output) if output.status.success() => Ok(file),
        Ok(output) => Err(format!("perf: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("perf: {error}")),
    }
}

fn read(file: &Path) -> Result<Capture, String> {
    perf_data(File::open(file).unwrap(), "perf.data")
}

#[test]
fn perf_script_finds_the_same_stacks() {
    let dir = tempfile::tempdir().unwrap();
    let file = match recorded(dir.path()) {
        Ok(file) => file,
        Err(reason) => return skip("perf", reason),
    };
    let script = Command::new("perf").arg("script").arg("-i").arg(&file).output().unwrap();
    let text = script.stdout.as_slice();
    let theirs = crate::import::script(text, "").unwrap();
    let ours = read(&file).unwrap();
    // perf finds what is inlined only where addr2line is. Of a library, whose functions have several
    // names each and more where its debugging symbols are installed, the file's name is compared.
    let stacks = |capture: &Capture| {
        let mut counts: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for count in &capture.counts {
            let functions =
                capture.functions_of(count.stack).map(|one| &capture.functions[one as usize]);
            let names = functions.filter(|function| !function.inlined).map(|function| {
                let module = function.module.as_deref().unwrap_or_default();
                let library = function.kind == Kind::User && !module.ends_with("/known");
                if library { module.to_owned() } else { function.name.clone() }
            });
            *counts.entry(names.collect()).or_default() += count.samples;
        }
        counts
    };
    assert_eq!(ours.samples(), theirs.samples());
    assert_eq!(stacks(&ours), stacks(&theirs));
    let works = |stack: &Vec<String>| stack.starts_with(&["unit".into(), "three_of_ten".into()]);
    assert!(stacks(&ours).keys().any(works));
    assert!(ours.functions.iter().any(|function| function.name == "folded_in" && function.inlined));
    assert_eq!((ours.clock.unit, ours.clock.frequency), (Unit::Nanoseconds, Some(997)));
    assert!(ours.machine.cpus > 0 && ours.seconds.unwrap() > 0.0);
    assert_eq!(ours.losses, Losses::default());
}

#[test]
fn the_whole_records_of_a_truncated_file_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = match recorded(dir.path()) {
        Ok(file) => file,
        Err(reason) => return skip("perf", reason),
    };
    let whole = fs::read(&file).unwrap();
    let all = read(&file).unwrap().samples();
    // As a killed perf leaves it: the header states no length.
    let mut killed = whole.clone();
    killed[48..56].fill(0);
    for bytes in [&whole[..whole.len() * 2 / 3], &killed[..whole.len() / 2]] {
        fs::write(&file, bytes).unwrap();
        let part = read(&file).unwrap();
        assert!(part.samples() > 0 && part.samples() < all, "{} of {all}", part.samples());
        assert!(part.losses.unreadable > 0);
    }
    for length in [0, 50, 103, 110] {
        fs::write(&file, &whole[..length]).unwrap();
        assert!(read(&file).unwrap_err().contains("perf"), "{length} bytes");
    }
}

/// Offsets of the records.
fn records(bytes: &[u8]) -> Vec<usize> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (start, length) = (number(40), number(48));
    let next = |at: &usize| at + usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
    std::iter::successors(Some(start), |at| Some(next(at)))
        .take_while(|at| *at < start + length)
        .collect()
}

#[test]
fn a_record_with_an_invalid_length_ends_the_records() {
    let dir = tempfile::tempdir().unwrap();
    let file = match recorded(dir.path()) {
        Ok(file) => file,
        Err(reason) => return skip("perf", reason),
    };
    let whole = fs::read(&file).unwrap();
    let all = read(&file).unwrap();
    let records = records(&whole);
    let middle = records[records.len() * 2 / 3];
    let mut too_short = whole.clone();
    too_short[middle + 6..middle + 8].copy_from_slice(&7_u16.to_le_bytes());
    // Processor trace data that are larger than any memory.
    let mut traced = whole.clone();
    traced[middle..middle + 4].copy_from_slice(&71_u32.to_le_bytes());
    traced[middle + 8..middle + 16].copy_from_slice(&(1_u64 << 46).to_le_bytes());
    for bytes in [too_short, traced] {
        fs::write(&file, bytes).unwrap();
        let part = read(&file).unwrap();
        assert!(part.samples() > 0 && part.samples() < all.samples(), "{}", part.samples());
        assert!(part.losses.unreadable > 0);
        assert_eq!(
            part.machine.kernel, all.machine.kernel,
            "the sections after the records are read"
        );
    }
}

#[test]
fn damage_does_not_make_the_reader_panic() {
    let dir = tempfile::tempdir().unwrap();
    let file = match recorded(dir.path()) {
        Ok(file) => file,
        Err(reason) => return skip("perf", reason),
    };
    let whole = fs::read(&file).unwrap();
    let heads: Vec<usize> =
        records(&whole).into_iter().filter(|at| at + 16 <= whole.len()).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..100 {
        let mut bytes = whole.clone();
        for _ in 0..20 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = (random >> 20) as usize;
            let (place, byte) = (at % bytes.len(), (random >> 8) as u8);
            // Mostly where lengths and offsets are: in the header and at the start of a record.
            match random & 3 {
                0 => bytes[place] = byte,
                1 => bytes[place % 4096] = byte,
                2 => bytes[heads[at % heads.len()] + place % 16] = byte,
                // A record type of perf itself.
                _ => bytes[heads[at % heads.len()]] = 64 + byte % 24,
            }
        }
        fs::write(&file, bytes).unwrap();
        let _ = read(&file);
    }
}

#[test]
fn a_file_that_perf_did_not_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text");
    fs::write(&file, "PERFILE1 and what was before 2009".repeat(10)).unwrap();
    assert!(read(&file).unwrap_err().contains("perf script"));
}
