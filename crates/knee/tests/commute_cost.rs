//! `knee commute cost`: operations in a guest. Tests are skipped, with a reason, if QEMU or the kernel is
//! missing.

mod support;

use knee_host::skip::skip;
use serde_json::Value;
use support::{Finished, Scratch, finish, guest_kernel, has_guests};

/// The Debian release whose kernel runs.
const RELEASE: &str = "bookworm";
/// Operations, and the tolerated difference between two guests in the fewest instructions of a round. The
/// contents of slabs and trees depend on the boot, and a churn allocates and frees most.
const TOLERANCES: [(&str, f64); 4] =
    [("open", 0.02), ("munmap", 0.05), ("page_fault1", 0.05), ("mmap_churn1", 0.2)];

fn cost(args: &[&str]) -> Option<Finished> {
    cost_on(RELEASE, args)
}

/// Measures operations on the kernel of a Debian release.
fn cost_on(release: &str, args: &[&str]) -> Option<Finished> {
    if !has_guests(release) {
        return None;
    }
    let scratch = Scratch::new();
    let args = [args, &["--rounds", "8", "--kernel", release]].concat();
    Some(finish(scratch.knee(&["commute", "cost"]).args(args)))
}

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.assert_code(0).stdout).unwrap()
}

#[test]
fn without_qemu_no_message_claims_that_a_guest_boots() {
    let scratch = Scratch::new();
    let mut knee = scratch.knee(&["commute", "cost", "open"]);
    let finished = finish(knee.env("PATH", scratch.path()).env_remove("KNEE_QEMU"));
    finished.assert_code(3).assert_stderr_has("qemu-system-x86_64 is not installed");
    assert!(!finished.stderr.contains("boot"), "{finished:#?}");
}

/// The figures of an operation at a CPU count.
fn measured<'a>(document: &'a Value, operation: &str, cpus: u32) -> &'a Value {
    let costs = document["kernels"][0]["costs"].as_array().unwrap();
    let is = |cost: &&Value| cost["operation"] == operation && cost["cpus"] == cpus;
    costs.iter().find(is).unwrap_or_else(|| panic!("no {operation} on {cpus}: {document:#}"))
}

fn median(cost: &Value, figure: &str) -> u64 {
    cost["figures"][figure]["median"].as_u64().unwrap()
}

/// The fewest instructions of any round; the other rounds also filled a slab or split a tree node.
fn least(cost: &Value) -> u64 {
    cost["figures"]["instructions"]["min"].as_u64().unwrap()
}

/// The lines that move in most operations. Not in all: RCU callbacks of an earlier operation, which run at
/// any time, may have moved a line to the CPU of the next one.
fn moving(cost: &Value) -> impl Iterator<Item = &Value> {
    cost["lines"].as_array().unwrap().iter().filter(|line| line["taken"].as_f64().unwrap() > 0.6)
}

/// Functions that access the lines that move in most operations.
fn functions(cost: &Value) -> Vec<&str> {
    let writers = moving(cost).flat_map(|line| line["writers"].as_array().unwrap());
    writers.filter_map(Value::as_str).collect()
}

#[test]
fn a_shared_offset_moves_between_cpus_and_unshared_data_stay() {
    for mode in ["threads", "processes"] {
        let operations = ["lseek_shared", "lseek", "getppid1", "--json", "--cpus", "2,5"];
        let Some(run) = cost(&[&operations[..], &["--mode", mode]].concat()) else { return };
        let document = document(&run);
        for cpus in [2, 5] {
            let shared = measured(&document, "lseek_shared", cpus);
            assert!(shared["figures"]["taken"]["min"].as_u64() >= Some(1), "{mode}: {shared:#}");
            assert!(functions(shared).contains(&"mutex_lock"), "{mode}: {shared:#}");
            for own in ["lseek", "getppid1"] {
                let cost = measured(&document, own, cpus);
                assert_eq!(median(cost, "taken") + median(cost, "fetched"), 0, "{mode}: {cost:#}");
            }
        }
        for operation in ["lseek_shared", "lseek", "getppid1"] {
            let alone = measured(&document, operation, 1);
            assert_eq!(alone["figures"]["taken"]["max"], 0, "{mode}: {alone:#}");
            assert!(median(alone, "instructions") > 100 && median(alone, "read") > 10);
        }
    }
}

/// The kernel's data in the lines that move in most operations.
fn data(cost: &Value) -> Vec<&str> {
    moving(cost).map(|line| line["data"].as_str().expect("a name")).collect()
}

#[test]
fn shared_lines_are_named_inside_and_outside_an_address_space() {
    let of = |mode| {
        let run = cost(&["munmap", "open", "--json", "--cpus", "3", "--mode", mode])?;
        let document = document(&run);
        let data = |operation| -> Vec<String> {
            data(measured(&document, operation, 3)).into_iter().map(str::to_owned).collect()
        };
        Some([data("munmap"), data("open")])
    };
    let Some([unmapped, opened]) = of("threads") else { return };
    let has = |data: &[String], name: &str| data.iter().any(|data| data.contains(name));
    assert!(has(&unmapped, "mm_struct.mmap_lock"), "{unmapped:?}");
    assert!(has(&opened, "files_struct.file_lock") && has(&opened, "cred.usage"), "{opened:?}");
    let [unmapped, opened] = of("processes").unwrap();
    assert!(!has(&unmapped, "mm_struct"), "{unmapped:?}");
    assert!(!has(&opened, "files_struct") && has(&opened, "aa_profile.label"), "{opened:?}");
}

#[test]
fn two_guests_give_the_same_results() {
    let names = TOLERANCES.map(|(operation, _)| operation);
    let operations = [&names[..], &["--json", "--cpus", "4"]].concat();
    let Some(first) = cost(&operations) else { return };
    let Some(second) = cost(&operations) else { return };
    let (first, second) = (document(&first), document(&second));
    for (operation, tolerance) in TOLERANCES {
        for cpus in [1, 4] {
            let of = |document| least(measured(document, operation, cpus)) as f64;
            let off = (of(&first) / of(&second) - 1.0).abs();
            assert!(off < tolerance, "{operation} on {cpus}: {} and {}", of(&first), of(&second));
        }
    }
}

/// In Linux 6.1, `apparmor_file_open` and `apparmor_current_getsecid_subj` take and drop a reference to the
/// label that `apparmor_file_alloc_security` has taken. In 6.12, they do not (f4fee216df, "apparmor: try to
/// avoid refing the label in apparmor_file_open").
#[test]
fn an_operation_that_comes_back_to_a_line_makes_several_visits() {
    for (release, opened) in [("bookworm", 3.0), ("trixie", 1.0)] {
        let args = ["open", "close", "--json", "--cpus", "4", "--mode", "processes"];
        let Some(run) = cost_on(release, &args) else { continue };
        let document = document(&run);
        for (operation, visits) in [("open", opened), ("close", 1.0)] {
            let cost = measured(&document, operation, 4);
            let lines = cost["lines"].as_array().unwrap();
            let of_label = |line: &&Value| line["data"].to_string().contains("aa_profile.label");
            let line = lines.iter().find(of_label).unwrap_or_else(|| panic!("{cost:#}"));
            assert_eq!(line["visits"], visits, "{release}: {operation}: {line:#}");
            assert_eq!(line["taken"], 1.0, "{release}: {operation}: {line:#}");
            assert_eq!(cost["cut"], 0);
        }
    }
}

#[test]
fn the_lock_of_the_descriptor_table_is_listed_with_the_lines_in_its_section() {
    for release in ["bookworm", "trixie"] {
        let Some(run) = cost_on(release, &["open", "--json", "--cpus", "3"]) else { continue };
        let document = document(&run);
        let cost = measured(&document, "open", 3);
        let locks = cost["locks"].as_array().unwrap();
        let is = |lock: &&Value| lock["data"] == "files_struct.file_lock";
        let lock = locks.iter().find(is).unwrap_or_else(|| panic!("{cost:#}"));
        assert_eq!((&lock["kind"], &lock["sections"]), (&"spin lock".into(), &1.0.into()));
        let inside = lock["inside"].as_array().unwrap();
        let array = |line: &&Value| line["data"] == "files_struct.fd_array";
        assert!(inside.iter().any(|line| array(&line)), "{release}: {lock:#}");
        let instructions = lock["instructions"]["median"].as_u64().unwrap();
        assert!((20..1000).contains(&instructions), "{release}: {lock:#}");
    }
}

#[test]
fn a_table_names_the_lines_that_move_and_the_functions_that_touch_them() {
    let Some(run) = cost(&["lseek_shared", "--cpus", "3", "--top", "2"]) else { return };
    run.assert_code(0)
        .assert_stdout_has("threads, 8 rounds")
        .assert_stdout_has("3 CPUs")
        .assert_stdout_has("  1.00   0.00   1.00  file.f_pos_lock, file.f_pos  written by ")
        .assert_stdout_has("1 other line: file.f_version; most in")
        .assert_stdout_has("file.f_pos_lock: mutex, ")
        .assert_stdout_has(" inside, 1.00 per operation");
}

#[test]
fn an_unknown_operation_is_reported_with_the_known_ones() {
    let scratch = Scratch::new();
    let knee = |args: &[&str]| finish(scratch.knee(&["commute", "cost"]).args(args));
    knee(&["munmp"])
        .assert_code(2)
        .assert_stderr_has("no operation is named \"munmp\" (did you mean munmap");
    knee(&["--list"]).assert_code(0).assert_stdout_has("munmap");
}

/// The command that measures an operation on knee's own kernel, or `None` if the kernel cannot run here.
fn cost_on_knee(args: &[&str]) -> Option<Finished> {
    let emulator = knee_trace::Emulator::of_user().expect("the QEMU that KNEE_QEMU names");
    if let Err(error) = emulator.version() {
        skip("qemu", error);
        return None;
    }
    let kernel = guest_kernel()?;
    let scratch = Scratch::new();
    let mut knee = scratch.knee(&["commute", "cost", "--guest-kernel"]);
    Some(finish(knee.arg(kernel).args(args)))
}

#[test]
fn operations_on_private_pages_take_no_lines_on_knees_kernel() {
    for mode in ["threads", "processes"] {
        let args = ["--rounds", "4", "--cpus", "2", "--json", "--mode", mode];
        let Some(run) = cost_on_knee(&args) else { return };
        let document = document(&run);
        for operation in
            ["mmap", "munmap", "mprotect", "memread", "memwrite", "mmap_churn1", "mmap_churn2"]
        {
            let (alone, both) =
                (measured(&document, operation, 1), measured(&document, operation, 2));
            assert!(median(alone, "instructions") > 100, "{mode}: {alone:#}");
            assert!(median(alone, "read") > 10 && median(alone, "written") > 5, "{alone:#}");
            assert_eq!(both["figures"]["operations"], 8, "{mode}: {both:#}");
            assert_eq!(both["figures"]["taken"]["max"], 0, "{mode}: {both:#}");
        }
    }
}

#[test]
fn on_knees_kernel_a_huge_page_takes_a_hundredth_of_the_instructions_of_its_pages() {
    const PAGES: u64 = 512;
    let args = ["huge_fault", "page_fault1", "--cpus", "1", "--json"];
    let Some(run) = cost_on_knee(&args) else { return };
    let document = document(&run);
    let instructions = |operation| median(measured(&document, operation, 1), "instructions");
    let (huge, small) = (instructions("huge_fault"), instructions("page_fault1"));
    assert!(100 * huge <= PAGES * small, "{huge} {small}");
    // Each 64-byte line of a huge page is cleared.
    let written = median(measured(&document, "huge_fault", 1), "written");
    assert!(written >= PAGES * 64, "{written}");
}

#[test]
fn lines_of_knees_kernel_have_the_names_of_its_functions_and_variables() {
    // A CPU takes 64 frames at a time from the list that all CPUs share, once it has used up its own frames.
    let args = ["page_fault1", "--rounds", "500", "--cpus", "2", "--json"];
    let Some(run) = cost_on_knee(&args) else { return };
    let document = document(&run);
    let lines = measured(&document, "page_fault1", 2)["lines"].as_array().unwrap();
    let has = |line: &Value, field: &str, part: &str| line[field].to_string().contains(part);
    let list = |line: &&Value| has(line, "data", "machine::BOARD");
    let list = lines.iter().find(list).unwrap_or_else(|| panic!("no BOARD in {lines:#?}"));
    assert!(has(list, "writers", "knee_"), "{list:#}");
}

#[test]
fn a_table_shows_knees_kernel_beside_linux() {
    if !has_guests(RELEASE) {
        return;
    }
    let args = ["mmap", "--rounds", "2", "--cpus", "2", "--kernel", RELEASE];
    let Some(run) = cost_on_knee(&args) else { return };
    run.assert_code(0)
        .assert_stdout_has("Linux 6.1.0")
        .assert_stdout_has(", kernel ")
        .assert_stdout_has("mmap 6.1.0")
        .assert_stdout_has("     knee-kernel");
}

#[test]
fn what_knees_kernel_does_not_have_is_reported() {
    let Some(run) = cost_on_knee(&["mmap", "open"]) else { return };
    run.assert_code(2).assert_stderr_has(
        "knee's kernel has no operation \"open\"; the operations are mmap, munmap, mprotect, memread,",
    );
    let Some(run) = cost_on_knee(&["mmap", "--cpus", "2,17"]) else { return };
    run.assert_code(2).assert_stderr_has("knee's kernel has at most 16 CPUs, not 17");
}

/// The name of the note that names the sources of knee's kernel. The hash of the sources follows it.
const SOURCES: &[u8] = b"knee\0\0\0\0";

/// An ELF file whose code, at 1 MiB, powers the machine off. QEMU boots it by its PVH note. A second note names
/// the sources.
fn other_kernel(sources: &[u8]) -> Vec<u8> {
    const AT: u64 = 1 << 20;
    let word = u64::to_le_bytes;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    // The entry point; the offsets of the program headers and of the section headers, of which there are none.
    file.extend([AT, 64, 0].into_iter().flat_map(word));
    for half in [0, 0, 64, 56, 2, 0, 0, 0_u16] {
        file.extend(half.to_le_bytes());
    }
    // Two segments: one to load, with the note at its start, and the note. Each line is a kind and flags, an
    // offset, two addresses, two sizes, and an alignment.
    for segment in [[7 << 32 | 1, 192, AT, AT, 68, 68, 4096], [4 << 32 | 4, 192, AT, AT, 52, 52, 4]]
    {
        file.extend(segment.into_iter().flat_map(word));
    }
    file.resize(192, 0);
    for half in [4, 8, 18_u32] {
        file.extend(half.to_le_bytes());
    }
    file.extend(b"Xen\0");
    file.extend(word(AT + 52));
    for half in [5, 8, 1_u32] {
        file.extend(half.to_le_bytes());
    }
    file.extend(SOURCES);
    file.extend(sources);
    // mov $0x604, %dx; mov $0x2000, %ax; out %ax, %dx; 1: hlt; jmp 1b
    file.extend(b"\x66\xba\x04\x06\x66\xb8\x00\x20\x66\xef\xf4\xeb\xfd");
    file.resize(192 + 68, 0);
    file
}

#[test]
fn kernels_that_do_not_answer_or_have_other_sources_are_refused() {
    let Some(kernel) = guest_kernel().filter(|_| cost_on_knee(&["nonsense"]).is_some()) else {
        return;
    };
    let kernel = std::fs::read(kernel).unwrap();
    let note = kernel.windows(SOURCES.len()).position(|name| name == SOURCES).unwrap();
    let scratch = Scratch::new();
    let write = |file: &str, sources: &[u8]| {
        std::fs::write(scratch.path().join(file), other_kernel(sources)).unwrap();
    };
    write("other", &kernel[note + SOURCES.len()..][..8]);
    write("old", &[0; 8]);
    let knee = |file: &str| {
        finish(&mut scratch.knee(&["commute", "cost", "mmap", "--guest-kernel", file]))
    };
    knee("other")
        .assert_code(3)
        .assert_stderr_has("other does not answer: it rebooted; build it from the same sources");
    knee("old").assert_code(3).assert_stderr_has("old is not built from the same sources");
    knee(env!("CARGO_BIN_EXE_knee")).assert_code(3).assert_stderr_has("has no PVH note");
}
