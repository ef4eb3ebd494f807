//! Synthetic pages: the Universal Scalability Law with a little noise, the same each time.

use knee_report::{
    Change, Curve, Differing, Matrix, MatrixOperation, Missing, Page, Pair, Run, Shared,
    SharedLine, SharedSide, SharedVerdict,
};
use knee_results::prediction::Predictions;
use knee_results::{
    self as results, CaseId, CaseInfo, CpuShares, Family, Latency, Mode, PerTask, Point,
    PointLatency,
};
use knee_stats::usl::{FitOptions, fit};
use knee_stats::{CompareOptions, Drift, Histogram, compare_all};

const POWERS: [u32; 10] = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64];

/// The parameters of a testcase: name, family, description, λ, σ and κ of processes, σ and κ of
/// threads.
type Law = (&'static str, Family, &'static str, f64, (f64, f64), (f64, f64));

const LAWS: [Law; 14] = [
    (
        "page_fault1",
        Family::Memory,
        "touch each page of 128 MB",
        4.1e5,
        (0.012, 2e-5),
        (0.05, 6e-4),
    ),
    ("mmap1", Family::Memory, "mmap and munmap 128 MB", 9.8e5, (0.001, 0.0), (0.21, 2.4e-3)),
    (
        "brk1",
        Family::Memory,
        "grow and shrink the heap by a page",
        1.6e6,
        (0.002, 0.0),
        (0.31, 4e-3),
    ),
    (
        "open1",
        Family::Directory,
        "open and close a file of its own",
        1.1e6,
        (0.02, 1e-5),
        (0.07, 1e-4),
    ),
    (
        "open2",
        Family::Directory,
        "open and close one shared file",
        1.0e6,
        (0.19, 3e-4),
        (0.24, 5e-4),
    ),
    ("unlink2", Family::Directory, "create and unlink a file", 2.1e5, (0.008, 0.0), (0.010, 0.0)),
    ("dup1", Family::Directory, "dup and close a descriptor", 6.0e6, (0.0, 0.0), (0.45, 1e-4)),
    ("getppid1", Family::Process, "the cheapest system call", 8.4e6, (0.0, 0.0), (0.0002, 0.0)),
    ("fork1", Family::Process, "fork, exit and wait", 5.2e3, (0.06, 2e-4), (0.11, 8e-4)),
    (
        "futex1",
        Family::Lock,
        "wait for and wake a futex of its own",
        5.1e6,
        (0.001, 0.0),
        (0.02, 0.0),
    ),
    (
        "lock1",
        Family::Lock,
        "lock and unlock a range of a file",
        1.9e6,
        (0.03, 1e-5),
        (0.31, 4.1e-3),
    ),
    ("pipe1", Family::Ipc, "write a byte to a pipe and read it", 1.2e6, (0.0, 0.0), (0.03, 1e-5)),
    (
        "tcp_loopback1",
        Family::Network,
        "write 64 KiB over loopback",
        9.1e4,
        (0.02, 6e-5),
        (0.02, 7e-5),
    ),
    ("signal1", Family::Process, "raise and handle a signal", 2.4e6, (0.0, 0.0), (0.09, 9e-4)),
];

/// The page of `kind`, if it exists.
pub(crate) fn page(kind: &str) -> Option<Page> {
    Some(match kind {
        "one" => measured(&POWERS, LAWS.to_vec(), 1),
        "two" => measured(&POWERS, LAWS.to_vec(), 2),
        "few" => measured(&POWERS, LAWS[1..3].to_vec(), 2),
        "latency" => with_latency(measured(&POWERS, LAWS[1..3].to_vec(), 2)),
        "single" => measured(&[16], LAWS[..6].to_vec(), 2),
        "large" => many(&POWERS),
        "doubtful" => doubtful(measured(&POWERS, LAWS[..4].to_vec(), 2)),
        "matrix" => Page { matrices: vec![matrix(4)], ..Page::default() },
        "matrices" => Page {
            matrices: vec![matrix(25), matrix(4)],
            ..measured(&POWERS, LAWS[1..3].to_vec(), 2)
        },
        "shared" => Page { shared: vec![shared()], ..Page::default() },
        "predictions" => predictions(),
        "huge" => many(&(1..=256).collect::<Vec<u32>>()),
        _ => return None,
    })
}

/// Predictions of open1 and of mprotect_flip1. A run measured the first of them.
fn predictions() -> Page {
    const FILE: &[u8] = include_bytes!("../../../../../fuzz/fixed/prediction.json");
    let predictions = vec![Predictions::parse(FILE).expect("it is a prediction")];
    let open1 = LAWS.into_iter().filter(|(name, ..)| *name == "open1").collect();
    Page { predictions, ..measured(&POWERS, open1, 1) }
}

/// Makes points of `page` doubtful: on a machine with 32 CPUs, the threads of page_fault1 are
/// disturbed at 4 tasks in the first run, those of mmap1 at 1 task in both runs, and one process of
/// open1 is slowed down.
fn doubtful(mut page: Page) -> Page {
    for curve in &mut page.curves {
        let name = curve.measured.case.testcase.clone();
        let (mode, run) = (curve.measured.mode, curve.run);
        let mut points = curve.measured.points().to_vec();
        for point in &mut points {
            point.oversubscribed = point.tasks > 32;
            point.disturbed = match (&*name, mode, point.tasks) {
                ("page_fault1", Mode::Threads, 4) => run == 0,
                ("mmap1", Mode::Threads, 1) => true,
                _ => false,
            };
            if (&*name, mode, point.tasks) == ("open1", Mode::Processes, 1) {
                for rate in [&mut point.rate, &mut point.low, &mut point.high] {
                    *rate /= 3.0;
                }
                point.rounds.iter_mut().for_each(|rate| *rate /= 3.0);
            }
        }
        curve.measured = results::Curve::new(CaseId::new(name.clone()), mode, points);
        for (tasks, change) in &mut curve.changes {
            change.disturbed = mode == Mode::Threads
                && [("page_fault1", 4), ("mmap1", 1)].contains(&(&*name, *tasks));
        }
    }
    page
}

/// Gives each point latencies with a long tail, which grows with the tasks.
fn with_latency(mut page: Page) -> Page {
    for curve in &mut page.curves {
        let mut points = curve.measured.points().to_vec();
        for point in &mut points {
            let mut latency = Latency { rate: Some(0.7 * point.rate), ..Latency::default() };
            let typical = 1e9 * f64::from(point.tasks) / point.rate;
            // 100 buckets for each nine.
            for nr in 0..500 {
                let nines = f64::from(nr) / 100.0;
                let time = typical * 10f64.powf((0.25 + 0.1 * curve.run as f64) * nines);
                let count = 2e4 * (10f64.powf(-nines) - 10f64.powf(-nines - 0.01));
                latency.times.record(time as u64, count.round() as u64);
            }
            let mut late = Histogram::default();
            late.record(8_000, 20_000);
            latency.lateness = Some(late);
            point.latency = PointLatency::of(&[&latency; 5]);
        }
        curve.measured =
            results::Curve::new(curve.measured.case.clone(), curve.measured.mode, points);
    }
    page
}

/// A check with tests of several verdicts.
fn shared() -> Shared {
    let mut shared = Shared::new(
        "Linux 6.1 <test>, tmpfs",
        ["open", "close", "dup"].map(str::to_owned).to_vec(),
    );
    shared.facts = vec!["QEMU 7.2".to_owned()];
    shared.fixes =
        vec!["fixing `struct file.f_count` would make 2 more tests conflict-free".to_owned()];
    let side = |call, writers: &[&str], readers: &[&str]| {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        SharedSide { call, bytes: [24, 31], writers: names(writers), readers: names(readers) }
    };
    let count = SharedLine {
        name: "struct file.f_count".to_owned(),
        same_bytes: true,
        sides: vec![side(0, &["fget", "fput"], &[]), side(1, &["filp_close"], &["fget"])],
    };
    let apart = SharedLine { name: "fd <table>".to_owned(), same_bytes: false, ..count.clone() };
    let mut add = |id: &str, verdict, note: &str, lines: &[&SharedLine]| {
        let operations: Vec<&str> = id.split('/').next().unwrap_or(id).split(',').collect();
        shared.add(
            id,
            &operations,
            verdict,
            note.to_owned(),
            lines.iter().map(|&line| line.clone()),
        );
    };
    add("open,close/0.0", SharedVerdict::Conflict, "", &[&count, &apart]);
    add("open,close/0.1", SharedVerdict::Conflict, "", &[&count]);
    add("open,close/1.0", SharedVerdict::Free, "", &[]);
    add("open,open/0.0", SharedVerdict::Sometimes, "", &[&apart]);
    add("open,open/0.1", SharedVerdict::Died, "the guest panicked: <oops>", &[]);
    for nr in 0..250 {
        add(&format!("close,close/{nr}"), SharedVerdict::Free, "", &[]);
    }
    shared
}

/// A matrix of a number of operations, with all kinds of shares and conditions.
fn matrix(operations: usize) -> Matrix {
    const SITUATIONS: u32 = 400;
    let name = |nr: usize| match nr {
        3 => "a_call_of_a_long_name".to_owned(),
        nr => format!("call{nr}"),
    };
    let pairs = (0..operations).flat_map(|i| (i..operations).map(move |j| [i, j])).enumerate();
    let pairs = pairs.map(|(nr, [i, j])| {
        let commuting = [SITUATIONS, 0, SITUATIONS - 1, 1, 320, 200, SITUATIONS][nr % 7];
        let formulas = |commutes: bool| match commuting {
            0 | SITUATIONS => Vec::new(),
            _ if commutes => vec!["a.key ≠ b.key".to_owned()],
            _ => vec!["a.key = b.key".to_owned(), format!("table{nr}[a.key]")],
        };
        let differing = Differing {
            situations: 1,
            all_of: formulas(false),
            because: format!("a ({}) sees x in the order a, b, but y in b, a", name(i)),
        };
        Pair {
            operations: [name(i), name(j)],
            situations: SITUATIONS,
            commuting,
            cut: nr == 3,
            given_up: u32::from(nr == 4),
            commute_if_any_of: if commuting == 0 { Vec::new() } else { vec![formulas(true); 2] },
            differ: if commuting == SITUATIONS { Vec::new() } else { vec![differing] },
        }
    });
    Matrix {
        knee_version: "0.1.0".to_owned(),
        interface: format!("made-up-{operations}"),
        about: "calls that nobody has".to_owned(),
        pairs: pairs.collect(),
        operations: (0..operations)
            .map(|nr| MatrixOperation { name: name(nr), about: "(key)".to_owned() })
            .collect(),
    }
}

fn many(tasks: &[u32]) -> Page {
    let mut page = measured(tasks, LAWS.to_vec(), 1);
    let (cases, curves) = (std::mem::take(&mut page.cases), std::mem::take(&mut page.curves));
    let copies = (0..).flat_map(|copy| cases.iter().map(move |case| (copy, case))).take(100);
    for (copy, (case, info)) in copies {
        let copied = CaseId::new(format!("{case}_{copy}"));
        let of_case = curves.iter().filter(|curve| curve.measured.case == *case);
        page.curves.extend(of_case.map(|curve| renamed(curve, copied.clone())));
        page.cases.insert(copied, info.clone());
    }
    page
}

fn measured(tasks: &[u32], laws: Vec<Law>, runs: usize) -> Page {
    let labels = ["6.12", "6.18-patched"];
    let mut noise = Noise(7);
    let mut curves = Vec::new();
    for law in &laws {
        for run in 0..runs {
            for mode in Mode::ALL {
                curves.push(curve(law, mode, run, tasks, &mut noise));
            }
        }
    }
    compare(&mut curves);
    let cases = laws.iter().map(|&(name, family, description, ..)| {
        let info = CaseInfo {
            family: Some(family),
            description: description.to_owned(),
            bytes: if name.starts_with("tcp") { 65536 } else { 0 },
            ..CaseInfo::default()
        };
        (CaseId::new(name), info)
    });
    Page {
        cases: cases.collect(),
        curves,
        runs: labels[..runs].iter().map(|label| run(label)).collect(),
        threshold: (runs > 1).then_some(0.02),
        comparison_method: "Ratio of medians with a 95% bootstrap interval over rounds; \
                            Mann-Whitney, corrected by Benjamini-Hochberg over all points."
            .to_owned(),
        ..Page::default()
    }
}

fn run(label: &str) -> Run {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Run {
        label: label.to_owned(),
        hostname: "bench7".to_owned(),
        kernel: format!("Linux {label}"),
        cpu: "Example EPYC 9554, 64 cores".to_owned(),
        virtualisation: "KVM guest".to_owned(),
        started_at: "2026-11-21T09:00:00Z".to_owned(),
        plan: "5 rounds × 3 samples × 1 s".to_owned(),
        placement: "cores".to_owned(),
        seed: Some(7),
        command_line: ["knee", "run", "--all"].map(str::to_owned).to_vec(),
        knee_version: "0.1.0".to_owned(),
        facts: vec![
            fact("governor", "performance"),
            fact("mitigations", "auto"),
            fact("clock source", "tsc"),
            fact("transparent huge pages", "madvise"),
            fact("boot", &format!("BOOT_IMAGE=/vmlinuz-{label} root=/dev/vda1 quiet")),
        ],
        is_incomplete: false,
        warnings: vec!["turbo is on: clocks fall as more cores work".to_owned()],
        failures: vec![
            "fork1, threads, 64 tasks: fork: Resource temporarily unavailable; \
                        raise `ulimit -u`"
                .to_owned(),
        ],
        off_chart: Vec::new(),
    }
}

fn renamed(curve: &Curve, case: CaseId) -> Curve {
    let points = curve.measured.points().to_vec();
    let measured = results::Curve::new(case, curve.measured.mode, points);
    Curve { measured, ..curve.clone() }
}

fn curve(law: &Law, mode: Mode, run: usize, tasks: &[u32], noise: &mut Noise) -> Curve {
    let &(name, _, _, lambda, processes, threads) = law;
    let (mut sigma, mut kappa) = if mode == Mode::Processes { processes } else { threads };
    if run > 0 && ["page_fault1", "mmap1", "open2"].contains(&name) {
        (sigma, kappa) = (sigma * 0.4, kappa * 0.3);
    }
    if run > 0 && name == "signal1" {
        sigma += 0.02;
    }
    let (mut points, mut missing) = (Vec::new(), Vec::new());
    let rate = |n: f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
    for &n in tasks {
        if name == "fork1" && mode == Mode::Threads && n == 48 {
            let reason = "fork: Resource temporarily unavailable; raise `ulimit -u`".to_owned();
            missing.push(Missing { tasks: n, reason });
            continue;
        }
        let mean = rate(f64::from(n));
        let rounds: Vec<f64> = (0..5).map(|_| mean * (1.0 + 0.03 * noise.next())).collect();
        let mut point = Point::new(n, rounds.clone()).expect("there are rounds");
        point.low = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        point.high = rounds.iter().copied().fold(0.0, f64::max);
        point.confidence = 0.95;
        let idle = (sigma * f64::from(n) / 4.0).min(0.6);
        let uneven = (sigma * 1.4).min(0.5) * f64::from(n - 1) / f64::from(n);
        let per_task = point.rate / f64::from(n);
        point.per_task = Some(PerTask {
            min: per_task * (1.0 - uneven),
            max: per_task * (1.0 + uneven),
            fairness: 1.0 / (1.0 + uneven * uneven),
        });
        point.cpu = Some(CpuShares {
            user: (1.0 - idle) * 0.2,
            system: (1.0 - idle) * 0.8,
            idle,
            ..CpuShares::default()
        });
        point.samples = 15;
        point.marked = u64::from(n == 64 && name == "brk1");
        points.push(point);
    }
    let measured = results::Curve::new(CaseId::new(name), mode, points);
    let mut curve = Curve { missing, ..Curve::new(run, measured) };
    let options = FitOptions { resamples: 20, ..FitOptions::default() };
    curve.fit = fit(&curve.measured.rounds(), &options).map_err(|unfit| unfit.to_string());
    if let Ok(fit) = &mut curve.fit {
        fit.is_prediction &= name != "unlink2";
    }
    curve
}

/// Compares the runs like `knee report`.
fn compare(curves: &mut [Curve]) {
    let mut places = Vec::new();
    let mut rounds = Vec::new();
    for (nr, curve) in curves.iter().enumerate().filter(|(_, curve)| curve.run > 0) {
        let is_same = |other: &&Curve| {
            (&other.measured.case, other.measured.mode)
                == (&curve.measured.case, curve.measured.mode)
        };
        let Some(first) = curves.iter().filter(|c| c.run == 0).find(is_same) else { continue };
        for point in curve.measured.points() {
            let Some(before) = first.measured.at(point.tasks) else { continue };
            places.push((nr, point.tasks));
            rounds.push((before.rounds.clone(), point.rounds.clone(), Drift::NONE));
        }
    }
    let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
    for ((nr, tasks), comparison) in places.into_iter().zip(compare_all(&rounds, &options)) {
        let change = |comparison| (tasks, Change { comparison, disturbed: false });
        curves[nr].changes.extend(comparison.map(change));
    }
}

/// Numbers from −1 to 1 that are the same each time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    }
}
