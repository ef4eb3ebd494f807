//! Files of `perf record`: `perf.data`.
//!
//! They contain addresses. Names come from this machine: those of programs and libraries from the files at
//! the same paths, those of the kernel from `/proc/kallsyms` if it is the same release. Kernel addresses
//! are shifted by the distance between the two boots.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`.

mod repair;

use std::fs::File;

use knee_host::text::one_line;
use linux_perf_data::linux_perf_event_reader::constants::PERF_RECORD_MISC_MMAP_BUILD_ID;
use linux_perf_data::{PerfFile, PerfFileReader, PerfFileRecord};
use linux_perf_event_reader::{
    Endianness, HardwareEventId, PerfEventAttr, PerfEventType, RawEventRecord, RecordType,
    SampleFormat, SamplingPolicy, SoftwareCounterType,
};

use repair::repaired;

use crate::capture::{Capture, Clock, Machine, Unit};
use crate::kernel_symbols::KernelSymbols;
use crate::records::Records;

/// The first bytes of a file.
pub const MAGIC: &[u8] = b"PERFILE2";

/// Reads a file of `perf record`: the samples of its first sampled event.
///
/// The whole records of a truncated file are read, and counted as incomplete in
/// [`Losses::unreadable`](crate::capture::Losses::unreadable).
///
/// # Errors
/// The reason why the file cannot be read.
pub fn perf_data(file: File, title: &str) -> Result<Capture, String> {
    let unreadable = |error: &dyn std::fmt::Display| {
        format!(
            "knee cannot read this as a file of perf record: {error}; try perf script | knee \
             profile show -"
        )
    };
    let (content, is_cut) = repaired(file).map_err(|error| unreadable(&error))?;
    let PerfFileReader { perf_file: mut file, record_iter: mut records_of } =
        PerfFileReader::parse_file(content).map_err(|error| unreadable(&error))?;
    let Some(event) =
        file.event_attributes().iter().position(|event| is_sampled(event.attributes()))
    else {
        return Err("it has no samples; record them with perf record -g".to_owned());
    };
    let mut records = Records::new(kernel_symbols(&file)).of_other_processes();
    records.losses.unreadable += u64::from(is_cut);
    let mut times: Option<(u64, u64)> = None;
    loop {
        let record = match records_of.next_record(&mut file) {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(_) => {
                records.losses.unreadable += 1;
                break;
            }
        };
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        let is_sample = record.record_type == RecordType::SAMPLE;
        if is_sample && attr_index != event {
            continue;
        }
        if is_sample && let Some(time) = record.timestamp() {
            let (first, last) = times.unwrap_or((time, time));
            times = Some((first.min(time), last.max(time)));
        }
        take(&mut records, &record);
    }
    let (stacks, losses) = records.finish();
    let seconds = times.map(|(first, last)| (last - first) as f64 / 1e9);
    Ok(Capture { seconds, losses, ..about(&file, event, title, stacks.finish()) })
}

fn take(records: &mut Records, record: &RawEventRecord<'_>) {
    match has_sane_lengths(record).then(|| record.parse()) {
        Some(Ok(parsed)) => {
            if record.record_type == RecordType::LOST_SAMPLES {
                let lost = number(record, 0).unwrap_or(0);
                records.losses.lost = records.losses.lost.saturating_add(lost);
            }
            records.take(parsed);
        }
        _ => records.losses.unreadable += 1,
    }
}

/// Whether the lengths in a record fit into it. Its parser does not check them.
fn has_sane_lengths(record: &RawEventRecord<'_>) -> bool {
    let is_with_build_id = record.misc & PERF_RECORD_MISC_MMAP_BUILD_ID != 0;
    match record.record_type {
        // After process, thread, address, length and offset.
        RecordType::MMAP2 if is_with_build_id => {
            number(record, 32).is_some_and(|length| length & 0xff <= 20)
        }
        RecordType::SAMPLE => {
            let format = record.parse_info.sample_format;
            if !format.contains(SampleFormat::CALLCHAIN) || format.contains(SampleFormat::READ) {
                return true;
            }
            let before = SampleFormat::IDENTIFIER
                | SampleFormat::IP
                | SampleFormat::TID
                | SampleFormat::TIME
                | SampleFormat::ADDR
                | SampleFormat::ID
                | SampleFormat::STREAM_ID
                | SampleFormat::CPU
                | SampleFormat::PERIOD;
            let start = 8 * format.intersection(before).bits().count_ones() as usize;
            let room = record.data.len().saturating_sub(start + 8) as u64 / 8;
            number(record, start).is_some_and(|length| length <= room)
        }
        _ => true,
    }
}

/// The 64-bit number at an offset of a record.
fn number(record: &RawEventRecord<'_>, at: usize) -> Option<u64> {
    let bytes = record.data.get(at..at + 8)?;
    let bytes = bytes.as_slice().as_ref().try_into().ok()?;
    Some(match record.parse_info.endian {
        Endianness::LittleEndian => u64::from_le_bytes(bytes),
        Endianness::BigEndian => u64::from_be_bytes(bytes),
    })
}

fn is_sampled(attr: &PerfEventAttr) -> bool {
    let is_dummy = matches!(attr.type_, PerfEventType::Software(SoftwareCounterType::Dummy));
    !is_dummy && !matches!(attr.sampling_policy, SamplingPolicy::NoSampling)
}

/// The symbols of the running kernel, if the file comes from the same release.
fn kernel_symbols(file: &PerfFile) -> Option<KernelSymbols> {
    let here = rustix::system::uname();
    let release = file.os_release().ok().flatten()?;
    let is_same = release.as_bytes() == here.release().to_bytes();
    if is_same { KernelSymbols::of_running() } else { None }
}

/// The capture, with the title, machine and clock that the file states.
fn about(file: &PerfFile, event: usize, title: &str, capture: Capture) -> Capture {
    let of_event = &file.event_attributes()[event];
    let attr = of_event.attributes();
    let unit = match attr.type_ {
        PerfEventType::Software(SoftwareCounterType::CpuClock | SoftwareCounterType::TaskClock) => {
            Unit::Nanoseconds
        }
        PerfEventType::Hardware(HardwareEventId::CpuCycles, _) => Unit::Cycles,
        _ => Unit::Events,
    };
    let frequency = match attr.sampling_policy {
        SamplingPolicy::Frequency(frequency) => Some(frequency),
        _ => None,
    };
    let release = file.os_release().ok().flatten();
    let command = file.cmdline().ok().flatten().map(|words| words.join(" "));
    Capture {
        title: one_line(&command.unwrap_or_else(|| title.to_owned())).into_owned(),
        machine: Machine {
            kernel: release.map_or(String::new(), |release| format!("Linux {}", one_line(release))),
            cpus: file.nr_cpus().ok().flatten().map_or(0, |cpus| cpus.nr_cpus_online),
            started_at: String::new(),
        },
        clock: Clock {
            event: one_line(of_event.name().unwrap_or("samples")).into_owned(),
            unit,
            frequency,
            user_only: false,
        },
        ..capture
    }
}

#[cfg(test)]
mod tests;
