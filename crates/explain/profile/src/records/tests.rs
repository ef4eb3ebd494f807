use linux_perf_event_reader::{
    CommOrExecRecord, ForkOrExitRecord, LostRecord, Mmap2FileId, Mmap2InodeAndVersion, Mmap2Record,
    RawData, RawDataU64,
};

use super::*;

fn map(pid: i32, path: &'static str) -> EventRecord<'static> {
    let inode = Mmap2InodeAndVersion { major: 0, minor: 0, inode: 0, inode_generation: 0 };
    EventRecord::Mmap2(Mmap2Record {
        pid,
        tid: pid,
        address: 0x1000,
        length: 0x1000,
        page_offset: 0,
        file_id: Mmap2FileId::InodeAndVersion(inode),
        protection: 5,
        flags: 2,
        cpu_mode: CpuMode::User,
        path: RawData::from(path.as_bytes()),
    })
}

fn comm(pid: i32, name: &'static str, is_execve: bool) -> EventRecord<'static> {
    let name = RawData::from(name.as_bytes());
    EventRecord::Comm(CommOrExecRecord { pid, tid: pid, name, is_execve })
}

fn fork(ppid: i32, pid: i32) -> EventRecord<'static> {
    EventRecord::Fork(ForkOrExitRecord { pid, ppid, tid: pid, ptid: ppid, timestamp: 0 })
}

fn exit(pid: i32) -> EventRecord<'static> {
    EventRecord::Exit(ForkOrExitRecord { pid, ppid: 1, tid: pid, ptid: 1, timestamp: 0 })
}

fn sample(records: &mut Records, tid: i32, addresses: &[u64]) {
    let bytes: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
    let chain =
        RawDataU64::from_raw_data::<byteorder::LittleEndian>(RawData::from(bytes.as_slice()));
    records.take(EventRecord::Sample(SampleRecord {
        id: None,
        addr: None,
        stream_id: None,
        raw: None,
        ip: None,
        timestamp: None,
        pid: Some(tid),
        tid: Some(tid),
        cpu: None,
        period: Some(10),
        user_regs: None,
        user_stack: None,
        callchain: Some(chain),
        phys_addr: None,
        data_page_size: None,
        code_page_size: None,
        intr_regs: None,
        cpu_mode: CpuMode::User,
    }));
}

/// Stacks as text, from the outermost function, with their samples.
fn collected(records: Records) -> Vec<String> {
    let capture = records.finish().0.finish();
    let line = |count: &crate::capture::Count| {
        let mut names: Vec<&str> = capture
            .functions_of(count.stack)
            .map(|function| capture.functions[function as usize].name.as_str())
            .collect();
        names.push(&capture.programs[count.program as usize]);
        names.reverse();
        format!("{} {}", names.join(";"), count.samples)
    };
    let mut lines: Vec<_> = capture.counts.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn samples_have_the_code_at_their_time() {
    let mut records = Records::new(None);
    records.take(comm(1, "shell", true));
    records.take(map(1, "/no/shell"));
    records.take(fork(1, 2));
    sample(&mut records, 1, &[PERF_CONTEXT_USER, 0x1010, 0x1020]);
    sample(&mut records, 2, &[PERF_CONTEXT_USER, 0x1010, 0x1020]);
    records.take(comm(2, "program", true));
    sample(&mut records, 2, &[PERF_CONTEXT_USER, 0x1010]);
    records.take(map(2, "/no/program"));
    sample(&mut records, 2, &[PERF_CONTEXT_USER, 0x1010]);
    records.take(exit(2));
    records.take(fork(1, 2));
    sample(&mut records, 2, &[PERF_CONTEXT_USER, 0x1010]);
    assert_eq!(
        collected(records),
        [
            "program;[program] 1",
            "program;[unknown] 1",
            "shell;[shell] 1",
            "shell;[shell];[shell] 2",
        ]
    );
}

#[test]
fn an_exiting_process_keeps_its_program_until_the_end() {
    let mut records = Records::new(None);
    records.take(comm(1, "program", true));
    records.take(exit(1));
    sample(&mut records, 1, &[PERF_CONTEXT_KERNEL, u64::MAX / 2]);
    // A reused PID of an unknown process.
    records.take(fork(9, 1));
    sample(&mut records, 1, &[PERF_CONTEXT_KERNEL, u64::MAX / 2]);
    assert_eq!(collected(records), ["[unknown];[kernel] 1", "program;[kernel] 1"]);
}

#[test]
fn names_that_no_sample_has_take_no_memory() {
    let mut records = Records::new(None);
    for name in ["one", "two", "three"] {
        records.take(comm(1, name, false));
    }
    sample(&mut records, 1, &[]);
    records.take(comm(1, "four", false));
    assert_eq!(records.finish().0.finish().programs, ["three"]);
}

#[test]
fn only_the_family_counts() {
    let mut records = Records::new(None);
    records.family = Some(Family::of(1, []));
    for (pid, name) in [(1, "ours"), (9, "strangers")] {
        records.take(comm(pid, name, true));
        records.take(map(pid, "/no/file"));
        sample(&mut records, pid, &[PERF_CONTEXT_USER, 0x1010]);
    }
    records.take(fork(1, 2));
    records.take(fork(9, 3));
    sample(&mut records, 2, &[PERF_CONTEXT_USER, 0x1010, 0x1010]);
    sample(&mut records, 3, &[PERF_CONTEXT_USER, 0x1010]);
    assert_eq!(records.seen(), 2);
    assert_eq!(collected(records), ["ours;[file] 1", "ours;[file];[file] 1"]);
}

#[test]
fn a_process_born_while_records_were_lost_counts_once_found() {
    let mut records = Records::new(None);
    records.family = Some(Family::of(1, []));
    sample(&mut records, 2, &[PERF_CONTEXT_USER, 0x1010]);
    assert_eq!((records.seen(), records.lacks_births), (0, false));
    records.take(EventRecord::Lost(LostRecord { id: 1, count: 5 }));
    assert!(records.lacks_births);
    assert_eq!(records.adopt(vec![(2, 1), (3, 9)]), [2]);
    assert!(!records.lacks_births);
    for pid in [2, 3] {
        sample(&mut records, pid, &[PERF_CONTEXT_USER, 0x1010]);
    }
    assert_eq!(records.seen(), 1);
}

#[test]
fn stacks_with_a_common_part_stay_distinct() {
    let mut records = Records::new(None);
    records.take(map(1, "/no/one"));
    records.take(map(2, "/no/other"));
    let (user, kernel) = (PERF_CONTEXT_USER, PERF_CONTEXT_KERNEL);
    // The same addresses in other maps, as innermost function and as caller, and in the kernel.
    sample(&mut records, 1, &[user, 0x1010, 0x1020]);
    sample(&mut records, 1, &[user, 0x1000, 0x1010, 0x1020]);
    sample(&mut records, 2, &[user, 0x1010, 0x1020]);
    sample(&mut records, 2, &[user, 0x1000, 0x1010, 0x1020]);
    sample(&mut records, 2, &[kernel, 0x1010, 0x1020]);
    sample(&mut records, 2, &[kernel, 0x1010, user, 0x1020]);
    // A return address at the start of a mapping belongs to a call before it.
    sample(&mut records, 1, &[user, 0x1010, 0x1000]);
    sample(&mut records, 1, &[user, 0x1000]);
    sample(&mut records, 1, &[0x1010, user, 0x1020]);
    assert_eq!(
        collected(records),
        [
            "[unknown];[kernel];[kernel] 1",
            "[unknown];[one] 1",
            "[unknown];[one];[kernel] 1",
            "[unknown];[one];[one] 1",
            "[unknown];[one];[one];[one] 1",
            "[unknown];[other];[kernel] 1",
            "[unknown];[other];[other] 1",
            "[unknown];[other];[other];[other] 1",
            "[unknown];[unknown];[one] 1",
        ]
    );
}

#[test]
fn the_kernel_is_inside_its_callers() {
    let mut records = Records::new(None);
    records.take(comm(7, "x", false));
    let kernel = 0xffff_ffff_8100_0000;
    let stack = [PERF_CONTEXT_KERNEL, kernel, kernel + 9, PERF_CONTEXT_USER, 0x5000];
    sample(&mut records, 7, &stack);
    sample(&mut records, 7, &stack[..3]);
    sample(&mut records, 99, &[]);
    let lines = collected(records);
    let all = ["[unknown] 1", "x;[kernel];[kernel] 1", "x;[unknown];[kernel];[kernel] 1"];
    assert_eq!(lines, all);
}

#[test]
fn losses_are_counted() {
    let mut records = Records::new(None);
    records.deepest = Some(2);
    records.take(EventRecord::Lost(LostRecord { id: 1, count: 5 }));
    sample(&mut records, 1, &[PERF_CONTEXT_USER, 1]);
    sample(&mut records, 1, &[PERF_CONTEXT_USER, 1, 2]);
    let (stacks, losses) = records.finish();
    assert_eq!((losses.lost, losses.cut, stacks.seen()), (5, 1, 2));
}

#[test]
fn many_stacks_get_names_early_and_count_the_same() {
    let mut records = Records::new(None);
    records.take(comm(1, "x", false));
    records.take(map(1, "/no/file"));
    let rounds = STACKS_WITHOUT_NAMES as u64 + 100;
    for round in 0..rounds {
        sample(&mut records, 1, &[PERF_CONTEXT_USER, 0x1000 + round % 0x800, 0x3000 + round]);
    }
    assert!(records.unnamed.len() < 200);
    assert_eq!(records.seen(), rounds);
    assert_eq!(collected(records), [format!("x;[unknown];[file] {rounds}")]);
}

#[test]
fn a_process_that_changes_many_mappings_takes_limited_memory() {
    let mut records = Records::new(None);
    records.take(comm(1, "x", false));
    records.take(map(1, "/no/file"));
    let areas = 10_000;
    for nr in 1..=areas {
        records.spaces.map(1, nr * 0x4000..nr * 0x4000 + 0x1000, 0, "/no/other");
    }
    let rounds = 300;
    for nr in 0..rounds {
        records.spaces.map(1, 0x1_0000_0000..0x1_0000_0000 + (nr << 12) + 1, 0, "/no/other");
        sample(&mut records, 1, &[PERF_CONTEXT_USER, 0x1010]);
    }
    assert!(records.spaces.areas() < 1_200_000, "{} areas", records.spaces.areas());
    assert_eq!(collected(records), [format!("x;[file] {rounds}")]);
}

#[test]
fn deep_stacks_get_names_early_and_count_the_same() {
    let mut records = Records::new(None);
    records.take(comm(1, "program", true));
    let mut chain = vec![PERF_CONTEXT_KERNEL; 1000];
    let rounds = ADDRESSES_WITHOUT_NAMES / chain.len() + 10;
    for round in 0..rounds {
        chain[999] = round as u64;
        sample(&mut records, 1, &chain);
    }
    assert!(records.addresses < 20 * chain.len(), "{} are without names", records.addresses);
    assert_eq!(collected(records), [format!("program;[kernel] {rounds}")]);
}

#[test]
fn the_stack_of_a_waiting_thread_keeps_its_code_when_others_get_names() {
    let mut records = Records::new(None);
    records.off_cpu = Some(OffCpu::new(10));
    records.take(comm(1, "x", false));
    records.take(map(1, "/no/before"));
    sample(&mut records, 1, &[PERF_CONTEXT_USER, 0x1010]);
    records.take(map(1, "/no/after"));
    records.give_names();
    assert_eq!(records.spaces.areas(), 2);
    records.on_cpu(1, 35);
    records.give_names();
    assert_eq!(records.spaces.areas(), 1, "no sample refers to the maps before the change");
    assert_eq!(collected(records), ["x;[before] 3"]);
}

#[test]
fn an_off_cpu_stack_counts_for_as_long_as_the_wait() {
    let mut records = Records::new(None);
    records.off_cpu = Some(OffCpu::new(10));
    records.take(comm(1, "x", false));
    records.take(fork(1, 2));
    records.take(map(1, "/no/file"));
    // All samples here are at time 0.
    sample(&mut records, 1, &[PERF_CONTEXT_USER, 0x1010]);
    sample(&mut records, 2, &[PERF_CONTEXT_USER, 0x1010]);
    records.on_cpu(1, 35);
    records.on_cpu(1, 95);
    records.take(exit(2));
    sample(&mut records, 2, &[PERF_CONTEXT_USER, 0x1010]);
    sample(&mut records, 1, &[PERF_CONTEXT_USER, 0x1010]);
    records.all_on_cpu(50);
    let expected = ["x;[file] 8", "x;[unknown] 9"];
    assert_eq!(collected(records), expected, "3 and 5; 9 until the last event");
}

#[test]
fn an_excluded_thread_is_not_sampled() {
    let mut records = Records::new(None);
    records.without = Some(1);
    sample(&mut records, 1, &[PERF_CONTEXT_USER, 1]);
    sample(&mut records, 2, &[PERF_CONTEXT_USER, 1]);
    assert_eq!(records.seen(), 1);
}
