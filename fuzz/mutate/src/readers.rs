//! The readers of knee: which inputs they read, with which commands.
//!
//! Commands that do what their input says are left out: `--resume` measures the commands in a record, `--model`
//! and `--program` run a program, and `knee jobs run` runs the commands of a list, except for Kubernetes. Kernels
//! are opened, but there is no QEMU to boot them. `knee commute verify` makes the calls of its tests, but these
//! cannot name anything outside of its work directory.

use anyhow::ensure;

use crate::inputs::{Inputs, Placed};

/// The reader that runs [`GENERATOR`].
pub(crate) const PERF_MAP: &str = "perf-map";
/// A program that generates code and names it in a map for perf.
pub(crate) const GENERATOR: &str = "generator.elf";
/// Stands for the mutated text as an argument.
pub(crate) const TEXT: &str = "{text}";

/// Something that knee reads.
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    /// Its share of the runs, in relation to the other readers.
    pub(crate) share: usize,
    /// The commands, as arguments separated by spaces.
    pub(crate) commands: &'static [&'static str],
    /// Files that every run needs, never mutated.
    pub(crate) beside: Vec<Placed>,
    pub(crate) originals: Vec<Original>,
    /// How many originals, from the first, knee accepts as they are.
    pub(crate) accepted: usize,
}

impl Reader {
    /// Moves the originals for which this holds to the front, because most of their mutations get past the
    /// parser.
    pub(crate) fn prefer(
        &mut self,
        is_accepted: impl Fn(&Self, &Original) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let accepted = self.originals.iter().map(|original| is_accepted(self, original));
        let accepted: Vec<bool> = accepted.collect::<anyhow::Result<_>>()?;
        let originals = std::mem::take(&mut self.originals).into_iter().zip(accepted);
        let (first, last): (Vec<_>, Vec<_>) = originals.partition(|(_, accepted)| *accepted);
        self.accepted = first.len();
        self.originals = first.into_iter().chain(last).map(|(original, _)| original).collect();
        Ok(())
    }
}

/// An input to mutate.
pub(crate) struct Original {
    /// Where it comes from.
    pub(crate) source: String,
    /// Its path in the directory of a run.
    pub(crate) at: &'static str,
    pub(crate) text: Vec<u8>,
    /// The files that belong to it. All originals of a reader replace the same files.
    pub(crate) with: Vec<Placed>,
}

/// All readers that have an input.
pub(crate) fn readers(inputs: &Inputs) -> anyhow::Result<Vec<Reader>> {
    let readers = vec![
        runs(inputs)?,
        csv(inputs)?,
        will_it_scale(inputs)?,
        numbers(inputs)?,
        noise(inputs)?,
        captures(inputs)?,
        perf_data(inputs)?,
        programs(inputs)?,
        perf_script(inputs)?,
        folded(inputs)?,
        lock_waits(inputs)?,
        checks(inputs)?,
        matrices(inputs)?,
        predictions(inputs)?,
        tests(inputs),
        cpu_lists(inputs)?,
        descriptions(inputs)?,
        machines(inputs)?,
        prediction_traces(inputs)?,
        kernels(inputs),
        code_names(inputs)?,
        job_lists(inputs)?,
        job_templates(),
        job_ends(inputs),
    ];
    let (readers, empty): (Vec<_>, Vec<_>) =
        readers.into_iter().partition(|reader| !reader.originals.is_empty());
    for reader in empty {
        eprintln!("mutate: there is no input for the reader {}, so it is left out", reader.name);
    }
    Ok(readers)
}

/// Records of `knee run` and `knee ab`.
fn runs(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut originals = Vec::new();
    for (corpus, file, other) in [
        ("run_json", "run.json", "fuzz/fixed/samples.jsonl"),
        ("samples_jsonl", "samples.jsonl", "fuzz/fixed/run.json"),
    ] {
        for (path, text) in inputs.corpus(corpus)? {
            originals.push(of_record(path, file, text, inputs.stored(other)?));
        }
    }
    let data = "crates/knee/tests/data";
    let mut whole = Vec::new();
    for directory in ["record", "records-before-keys/ab", "records-before-keys/run"] {
        let file = |file: &str| inputs.stored(&format!("{data}/{directory}/{file}"));
        whole.push((directory.to_owned(), file("run.json")?, file("samples.jsonl")?));
    }
    for directory in inputs.recorded_directories("run.json") {
        let file = |file: &str| inputs.recorded(&format!("{directory}/{file}"));
        if let (Some((source, run)), Some((_, samples))) = (file("run.json"), file("samples.jsonl"))
        {
            whole.push((source, run, samples));
        }
    }
    for (source, run, samples) in whole {
        originals.push(of_record(source.clone(), "run.json", run.clone(), samples.clone()));
        originals.push(of_record(source, "samples.jsonl", samples, run));
    }
    let mut beside = record(inputs, "base")?;
    for nr in 0..9 {
        beside.extend(similar_record(inputs, nr)?);
    }
    Ok(Reader {
        name: "run",
        share: 24,
        commands: &[
            "show record",
            "show record --detail --knee 50%",
            "show record --format json",
            "show record --format csv",
            "show record --format will-it-scale-csv",
            "show record --format will-it-scale",
            "compare base record",
            "compare record base --detail -c 99.5",
            "compare record/run.json base --format json",
            "compare base record --format markdown --threshold 0.001%",
            "compare record base base --format benchstat",
            "compare base record --fail-on slower",
            "compare record base --fail-on inconclusive --fail-on missing",
            "fit record --resamples 100",
            "fit record * --resamples 100 --json --knee 99%",
            "history old0 old1 old2 old3 old4 old5 old6 old7 old8 record",
            "history record old0 old1 old2 old3 old4 old5 old6 --significance 5% --shortest 2 --json",
            "history old0 old1 old2 old3 record old4 old5 old6 old7 old8 --detail",
            "report record -o -",
            "report record base -o page.html",
        ],
        beside,
        originals,
        accepted: 0,
    })
}

/// One file of a record, with the other one.
fn of_record(source: String, file: &str, text: Vec<u8>, other: Vec<u8>) -> Original {
    let (at, with) = match file {
        "run.json" => ("record/run.json", "record/samples.jsonl"),
        _ => ("record/samples.jsonl", "record/run.json"),
    };
    Original { source, at, text, with: vec![(with.to_owned(), other)] }
}

/// A good record.
fn record(inputs: &Inputs, directory: &str) -> anyhow::Result<Vec<Placed>> {
    let place = |file: &str| {
        Ok((format!("{directory}/{file}"), inputs.stored(&format!("fuzz/fixed/{file}"))?))
    };
    ["run.json", "samples.jsonl"].into_iter().map(place).collect()
}

/// A good record of another run, because `knee history` refuses copies of one.
fn similar_record(inputs: &Inputs, nr: usize) -> anyhow::Result<Vec<Placed>> {
    const SEED: &str = "\"seed\": 883594525";
    let mut files = record(inputs, &format!("old{nr}"))?;
    let run = String::from_utf8(files[0].1.clone())?;
    ensure!(run.contains(SEED), "fuzz/fixed/run.json has another seed than {SEED}");
    files[0].1 = run.replace(SEED, &format!("\"seed\": {nr}")).into_bytes();
    Ok(files)
}

/// Files of will-it-scale's `runtest.py`.
fn csv(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut texts = inputs.corpus("csv")?;
    texts.push(("curves.csv".to_owned(), inputs.stored("crates/knee/tests/data/curves.csv")?));
    let base = inputs.stored("fuzz/corpus/csv/curves")?;
    Ok(Reader {
        name: "csv",
        share: 5,
        commands: &[
            "compare results/mmap1.csv old0/mmap1.csv",
            "compare old0 results --format json",
            "compare old0 results --fail-on faster",
            "fit results/mmap1.csv --resamples 100",
            "fit results --resamples 100 --json",
            "history old0 old1 old2 old3 old4 old5 old6 old7 old8 results",
            "report results/mmap1.csv -o -",
            "report old0 results -o page.html",
        ],
        beside: (0..9).map(|nr| (format!("old{nr}/mmap1.csv"), base.clone())).collect(),
        originals: at("results/mmap1.csv", texts),
        accepted: 0,
    })
}

/// Output of a binary of will-it-scale.
fn will_it_scale(inputs: &Inputs) -> anyhow::Result<Reader> {
    let base = inputs.stored("fuzz/corpus/will_it_scale/real")?;
    let mut beside = vec![("base/mmap1_threads-2.txt".to_owned(), base.clone())];
    beside.extend((0..9).map(|nr| (format!("old{nr}/mmap1_threads-2.txt"), base.clone())));
    let mut texts = inputs.corpus("will_it_scale")?;
    let real = "crates/knee/tests/data/will-it-scale.txt";
    texts.push((real.to_owned(), inputs.stored(real)?));
    Ok(Reader {
        name: "will-it-scale",
        share: 5,
        commands: &[
            "compare mmap1_threads-2.txt base/mmap1_threads-2.txt",
            "compare base/mmap1_threads-2.txt mmap1_threads-2.txt --format json",
            "fit mmap1_threads-2.txt --resamples 100",
            "history old0/mmap1_threads-2.txt old1/mmap1_threads-2.txt old2/mmap1_threads-2.txt \
             old3/mmap1_threads-2.txt old4/mmap1_threads-2.txt old5/mmap1_threads-2.txt \
             old6/mmap1_threads-2.txt old7/mmap1_threads-2.txt old8/mmap1_threads-2.txt \
             mmap1_threads-2.txt",
            "report mmap1_threads-2.txt -o -",
            "report base/mmap1_threads-2.txt mmap1_threads-2.txt -o page.html",
        ],
        beside,
        originals: at("mmap1_threads-2.txt", texts),
        accepted: 0,
    })
}

/// Files of numbers.
fn numbers(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut texts = inputs.corpus("numbers")?;
    texts.extend(inputs.directory("crates/knee/tests/data/ministat")?);
    Ok(Reader {
        name: "numbers",
        share: 7,
        commands: &[
            "compare numbers",
            "compare numbers base",
            "compare base numbers -c 80 -w 200",
            "compare base numbers -s -q -w 1",
            "compare numbers base -n",
            "compare -",
            "compare base -",
            "compare numbers -C 2 -d ,; -A",
            "compare --format ministat base numbers",
            "compare --format ministat -s -w 30 -c 99.5 numbers base",
            "compare --format ministat -C 2 -n numbers",
        ],
        beside: vec![("base".to_owned(), inputs.stored("fuzz/corpus/numbers/iguana")?)],
        originals: at("numbers", texts),
        accepted: 0,
    })
}

/// Noise floors. knee reads them when it prints results of the machine that they belong to.
fn noise(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut texts = inputs.corpus("noise_json")?;
    texts.extend(inputs.recorded("state/knee/noise.json"));
    let mut beside = record(inputs, "base")?;
    for file in ["run.json", "samples.jsonl"] {
        let recorded = inputs.recorded(&format!("aa/{file}"));
        let text =
            recorded.map_or_else(|| inputs.stored(&format!("fuzz/fixed/{file}")), |it| Ok(it.1));
        beside.push((format!("record/{file}"), text?));
    }
    Ok(Reader {
        name: "noise",
        share: 6,
        commands: &[
            "show record",
            "show record --detail",
            "show record --json",
            "show base",
            "compare base record",
            "compare record base --json",
        ],
        beside,
        originals: at("state/knee/noise.json", texts),
        accepted: 0,
    })
}

/// Captures of `knee profile`.
fn captures(inputs: &Inputs) -> anyhow::Result<Reader> {
    let data = "crates/knee/tests/data/records-before-keys";
    let old = inputs.stored(&format!("{data}/capture.json"))?;
    let mut texts = inputs.corpus("capture_json")?;
    texts.push((format!("{data}/capture.json"), old.clone()));
    texts.extend(inputs.all_recorded("capture-", ".json"));
    let other = inputs.recorded("capture-1.json").map_or(old, |(_, text)| text);
    let mut beside = vec![("other.json".to_owned(), other)];
    for file in ["run.json", "samples.jsonl"] {
        let old = inputs.stored(&format!("{data}/run/{file}"))?;
        let new = inputs.recorded(&format!("run/{file}")).map_or(old.clone(), |(_, text)| text);
        beside.push((format!("old/{file}"), old));
        beside.push((format!("new/{file}"), new));
    }
    Ok(Reader {
        name: "capture",
        share: 11,
        commands: &[
            "profile show file.json",
            "profile show file.json --least 0.001%",
            "profile show file.json --root main",
            "profile show file.json --callers x64_sys_call",
            "profile show file.json --format functions",
            "profile show file.json --format flame",
            "profile show file.json --format folded --annotate --weight",
            "profile show file.json --format speedscope",
            "profile show file.json --format pprof -o out.pb.gz",
            "profile show -",
            "profile diff file.json other.json --top 1000",
            "profile diff other.json file.json --flame out.svg --widths before",
            "profile growth --from other.json file.json",
            "profile growth --from file.json other.json --json",
            "report old new file.json -o -",
        ],
        beside,
        originals: at("file.json", texts),
        accepted: 0,
    })
}

/// The commands for captures of other tools.
const OTHER_CAPTURES: &[&str] = &[
    "profile show file",
    "profile show file --least 0.001%",
    "profile show file --callers [unknown]",
    "profile show file --format functions",
    "profile show file --format flame",
    "profile show file --format folded --annotate",
    "profile show file --format speedscope",
    "profile show file --format pprof -o out.pb.gz",
    "profile diff file other --flame out.svg --widths before",
    "profile diff other file --flame out.svg",
    "profile diff other file --top 1000",
];

fn perf_data(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut texts = inputs.corpus("perf_data")?;
    texts.extend(inputs.all_recorded("", ".data"));
    let other = inputs.stored("fuzz/corpus/perf_data/small")?;
    Ok(other_captures("perf-data", 14, texts, other))
}

/// Programs, in which knee looks up the functions of a perf.data file. The file names the program as
/// standard input, which is the mutated text.
fn programs(inputs: &Inputs) -> anyhow::Result<Reader> {
    const NAME: &[u8] = b"/a/program";
    const STANDARD_INPUT: &[u8] = b"/dev/fd/0\0";
    let mut capture = inputs.stored("fuzz/corpus/perf_data/small")?;
    let is_named = |at: &usize| capture[*at..].starts_with(NAME);
    let places: Vec<usize> = (0..capture.len()).filter(is_named).collect();
    ensure!(!places.is_empty(), "fuzz/corpus/perf_data/small names no program");
    for at in places {
        capture[at..at + NAME.len()].copy_from_slice(STANDARD_INPUT);
    }
    Ok(Reader {
        name: "program",
        share: 4,
        commands: &["profile show perf.data", "profile show perf.data --format functions"],
        beside: vec![("perf.data".to_owned(), capture)],
        originals: at("program", inputs.all_recorded("", ".elf")),
        accepted: 0,
    })
}

fn perf_script(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut texts = inputs.corpus("perf_script")?;
    texts.extend(inputs.directory("crates/explain/profile/tests/data")?);
    texts.extend(inputs.all_recorded("", ".script"));
    Ok(other_captures("perf-script", 5, texts, inputs.stored("fuzz/corpus/perf_script/rust")?))
}

fn folded(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut texts = inputs.corpus("folded_stacks")?;
    texts.extend(inputs.all_recorded("", ".folded"));
    let other = inputs.stored("fuzz/corpus/folded_stacks/annotated")?;
    Ok(other_captures("folded", 4, texts, other))
}

fn other_captures(name: &'static str, share: usize, texts: Vec<Placed>, other: Vec<u8>) -> Reader {
    let beside = vec![("other".to_owned(), other)];
    let originals = at("file", texts);
    Reader { name, share, commands: OTHER_CAPTURES, beside, originals, accepted: 0 }
}

/// Lock waits of `knee profile --locks`.
fn lock_waits(inputs: &Inputs) -> anyhow::Result<Reader> {
    let stored = "fuzz/fixed/lock_waits.json";
    let mut texts = vec![(stored.to_owned(), inputs.stored(stored)?)];
    texts.extend(inputs.recorded("locks.json"));
    Ok(Reader {
        name: "lock-waits",
        share: 5,
        commands: &[
            "profile show locks.json",
            "profile show locks.json -o out.txt",
            "report base locks.json -o -",
        ],
        beside: record(inputs, "base")?,
        originals: at("locks.json", texts),
        accepted: 0,
    })
}

/// Records of `knee commute check`.
fn checks(inputs: &Inputs) -> anyhow::Result<Reader> {
    let fixed = |file: &str| inputs.stored(&format!("fuzz/fixed/{file}"));
    let mut originals = Vec::new();
    for (source, text) in inputs.corpus("check_json")? {
        let with = vec![("record/tests.jsonl".to_owned(), fixed("tests.jsonl")?)];
        originals.push(Original { source, at: "record/check.json", text, with });
    }
    for (source, text) in inputs.corpus("check_tests")? {
        let with = vec![("record/check.json".to_owned(), fixed("check.json")?)];
        originals.push(Original { source, at: "record/tests.jsonl", text, with });
    }
    let mut beside = record(inputs, "run")?;
    beside.push(("base/check.json".to_owned(), fixed("check.json")?));
    beside.push(("base/tests.jsonl".to_owned(), fixed("tests.jsonl")?));
    // The other half of the original with a record of half the tests.
    let (half, other) = halves(fixed("check.json")?)?;
    let with = vec![("record/tests.jsonl".to_owned(), fixed("tests.jsonl")?)];
    let source = "fuzz/fixed/check.json, shard 1 of 2".to_owned();
    originals.push(Original { source, at: "record/check.json", text: half.clone(), with });
    let with = vec![("record/check.json".to_owned(), half)];
    let source = "fuzz/fixed/tests.jsonl, shard 1 of 2".to_owned();
    let text = fixed("tests.jsonl")?;
    originals.push(Original { source, at: "record/tests.jsonl", text, with });
    beside.push(("other/check.json".to_owned(), other));
    beside.push(("other/tests.jsonl".to_owned(), Vec::new()));
    Ok(Reader {
        name: "check",
        share: 9,
        commands: &[
            "commute matrix record",
            "commute matrix record --json",
            "commute matrix record -o -",
            "commute matrix record -o matrix.svg",
            "commute matrix record other",
            "commute explain record",
            "commute explain record --json --top 0",
            "commute explain record --pair open,close",
            "commute explain record --test open,close/0.0",
            "commute diff base record",
            "commute diff record base --top 0",
            "commute diff base record --again record --json",
            "commute diff base record,other",
            "report record -o -",
            "report run base record -o page.html",
        ],
        beside,
        originals,
        accepted: 0,
    })
}

/// The description of a check as those of its two shards.
fn halves(whole: Vec<u8>) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    const ONLY: &str = "\"index\": 1,\n    \"of\": 1";
    let whole = String::from_utf8(whole)?;
    ensure!(whole.contains(ONLY), "fuzz/fixed/check.json is not the only shard");
    let shard = |index| {
        let place = format!("\"index\": {index},\n    \"of\": 2");
        whole.replace(ONLY, &place).into_bytes()
    };
    Ok((shard(1), shard(2)))
}

/// Matrices of `knee commute matrix --json`.
fn matrices(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut texts = inputs.corpus("matrix_json")?;
    texts.extend(inputs.all_recorded("matrix-", ".json"));
    Ok(Reader {
        name: "matrix",
        share: 5,
        commands: &["report matrix.json -o -", "report run matrix.json -o page.html"],
        beside: record(inputs, "run")?,
        originals: at("matrix.json", texts),
        accepted: 0,
    })
}

/// Predictions of `knee predict -o`.
fn predictions(inputs: &Inputs) -> anyhow::Result<Reader> {
    let stored = "fuzz/fixed/prediction.json";
    let mut texts = inputs.corpus("prediction_json")?;
    texts.push((stored.to_owned(), inputs.stored(stored)?));
    Ok(Reader {
        name: "prediction",
        share: 4,
        commands: &[
            "show prediction.json",
            "show prediction.json --json",
            "report prediction.json -o -",
            "report run prediction.json -o page.html",
        ],
        beside: record(inputs, "run")?,
        originals: at("prediction.json", texts),
        accepted: 0,
    })
}

/// Tests of `knee commute tests`. A run takes long, because it makes the calls, and some of them wait.
fn tests(inputs: &Inputs) -> Reader {
    const LINES: usize = 3;
    let mut texts = Vec::new();
    for (source, text) in inputs.all_recorded("tests-", ".jsonl") {
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        for (nr, lines) in lines.chunks(LINES).enumerate().step_by(1 + lines.len() / 60) {
            texts.push((format!("{source}, part {nr}"), lines.concat()));
        }
    }
    Reader {
        name: "tests",
        share: 1,
        commands: &[
            "commute verify --tests tests.jsonl --dir .",
            "commute verify --tests tests.jsonl --dir . --json",
            "commute verify --tests - --dir .",
        ],
        beside: Vec::new(),
        originals: at("tests.jsonl", texts),
        accepted: 0,
    }
}

/// Lists of CPUs, which are arguments.
fn cpu_lists(inputs: &Inputs) -> anyhow::Result<Reader> {
    Ok(Reader {
        name: "cpu-list",
        share: 2,
        commands: &["topology --cpus={text}", "topology --json --cpus={text}"],
        beside: Vec::new(),
        originals: at("cpus", inputs.corpus("cpu_list")?),
        accepted: 0,
    })
}

/// Descriptions of servers.
fn descriptions(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut texts = inputs.directory("crates/measure/testcases/servers")?;
    texts.extend(inputs.corpus("server_toml")?);
    Ok(Reader {
        name: "description",
        share: 3,
        commands: &["list server.toml", "list server.toml --json", "list server.toml --toml"],
        beside: Vec::new(),
        originals: at("server.toml", texts),
        accepted: 0,
    })
}

/// Machines.
fn machines(inputs: &Inputs) -> anyhow::Result<Reader> {
    let mut texts = inputs.directory("crates/explain/predict/machines")?;
    texts.extend(inputs.directory("crates/explain/predict/tests/data")?);
    Ok(Reader {
        name: "machine",
        share: 1,
        commands: &[
            "machine show machine.toml",
            "machine show machine.toml --json",
            "report machine.toml -o page.html",
        ],
        beside: Vec::new(),
        originals: at("machine.toml", texts),
        accepted: 0,
    })
}

/// Saved traces of `knee predict`.
fn prediction_traces(inputs: &Inputs) -> anyhow::Result<Reader> {
    Ok(Reader {
        name: "prediction-trace",
        share: 2,
        commands: &[
            "predict --trace trace.json --machine genoa-2x96 -t 1,2",
            "predict --trace trace.json --machine genoa-2x96 -t 2 --without label.count",
        ],
        beside: Vec::new(),
        originals: at("trace.json", inputs.corpus("prediction_trace")?),
        accepted: 0,
    })
}

/// Kernel images and packages. knee refuses all, because there is no QEMU to boot them.
fn kernels(inputs: &Inputs) -> Reader {
    let mut texts = vec![("an image".to_owned(), image())];
    texts.extend(inputs.all_recorded("package-", ".deb"));
    let tests = inputs.recorded("tests-1.jsonl").map(|(_, text)| ("tests.jsonl".to_owned(), text));
    Reader {
        name: "kernel",
        share: 3,
        commands: &["commute check --tests tests.jsonl --kernel ./kernel"],
        beside: tests.into_iter().collect(),
        originals: at("kernel", texts),
        accepted: 0,
    }
}

/// What knee reads of a kernel image (Documentation/arch/x86/boot.rst of Linux), and nothing else of it.
pub(crate) fn image() -> Vec<u8> {
    let mut image = vec![0; 0x400];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    // The place of the text, from 0x200.
    image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    let text = b"6.1.0-18-amd64 (builder@host) #1 SMP";
    image[0x300..0x300 + text.len()].copy_from_slice(text);
    image
}

/// Names of generated code, which a program writes for perf. The program that is measured puts them there.
fn code_names(inputs: &Inputs) -> anyhow::Result<Reader> {
    let stored = "fuzz/fixed/perf.map";
    let program = inputs.recorded(GENERATOR);
    let texts = match program {
        Some(_) => vec![(stored.to_owned(), inputs.stored(stored)?)],
        None => Vec::new(),
    };
    Ok(Reader {
        name: PERF_MAP,
        share: 1,
        commands: &[
            "profile -q -o capture.json -- ./generator.elf",
            "profile -o capture.json -- ./generator.elf",
        ],
        beside: program.into_iter().map(|(_, text)| (GENERATOR.to_owned(), text)).collect(),
        originals: at("perf.map", texts),
        accepted: 0,
    })
}

/// Lists of jobs. The manifest for Kubernetes contains the list, and printing it runs nothing.
fn job_lists(inputs: &Inputs) -> anyhow::Result<Reader> {
    let stored = "fuzz/fixed/jobs";
    Ok(Reader {
        name: "job-list",
        share: 2,
        commands: &[
            "jobs run list --on k8s --image an/image --claim a-claim",
            "jobs run - --on k8s --image an/image --claim a-claim --exclusive -j 3",
        ],
        beside: Vec::new(),
        originals: at("list", vec![(stored.to_owned(), inputs.stored(stored)?)]),
        accepted: 0,
    })
}

/// Commands and parameters of lists of jobs, which are arguments.
fn job_templates() -> Reader {
    let texts = [
        "knee commute check --shard {a} -o $KNEE_OUT/{b}/{job} --resume",
        "1..8/8",
        "a=1..20,x",
        "b=1,2,3..5",
    ];
    let texts = texts.map(|text| (format!("`{text}`"), text.as_bytes().to_vec()));
    Reader {
        name: "job-plan",
        share: 2,
        commands: &["jobs plan {text} a=1..8/8 b=x,y", "jobs plan {a}{b} b=1 a={text}"],
        beside: Vec::new(),
        originals: at("text", texts.to_vec()),
        accepted: 0,
    }
}

/// How jobs ended. The jobs that are not done do nothing.
fn job_ends(inputs: &Inputs) -> Reader {
    let file = |path: &str| inputs.recorded(&format!("campaign/{path}"));
    let [list, job, first, last] = ["list", "job", "jobs/1.status", "jobs/2.status"].map(file);
    let beside = [("list", list), ("job", job), ("jobs/2.status", last)];
    let beside = beside
        .into_iter()
        .filter_map(|(path, file)| file.map(|(_, text)| (format!("campaign/{path}"), text)));
    Reader {
        name: "job-status",
        share: 1,
        commands: &[
            "jobs run -o campaign --resume",
            "jobs run -o campaign --resume --retries 0 --json",
        ],
        beside: beside.collect(),
        originals: at("campaign/jobs/1.status", first.into_iter().collect()),
        accepted: 0,
    }
}

/// Inputs that consist of one file.
fn at(at: &'static str, texts: Vec<Placed>) -> Vec<Original> {
    let original = |(source, text)| Original { source, at, text, with: Vec::new() };
    texts.into_iter().map(original).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn all() -> Vec<Reader> {
        readers(&Inputs::new("/nowhere".into())).unwrap()
    }

    #[test]
    fn each_stored_corpus_has_a_reader() {
        let readers = all();
        let sources: BTreeSet<&str> = readers
            .iter()
            .flat_map(|reader| &reader.originals)
            .filter_map(|original| original.source.strip_prefix("fuzz/corpus/")?.split('/').next())
            .collect();
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
        let stored = std::fs::read_dir(corpus).unwrap();
        let stored: BTreeSet<String> =
            stored.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        // These bytes are operations on an address space, not a file.
        let missing: Vec<&String> =
            stored.iter().filter(|name| !sources.contains(name.as_str())).collect();
        assert_eq!(missing, ["vm_space"]);
    }

    #[test]
    fn the_originals_of_a_reader_replace_the_same_files_and_none_beside() {
        for reader in all() {
            let files = |original: &Original| -> BTreeSet<String> {
                let with = original.with.iter().map(|(path, _)| path.clone());
                with.chain([original.at.to_owned()]).collect()
            };
            let first = files(&reader.originals[0]);
            assert!(reader.originals.iter().all(|original| files(original) == first));
            assert!(!reader.beside.iter().any(|(path, _)| first.contains(path)), "{}", reader.name);
        }
    }
}
