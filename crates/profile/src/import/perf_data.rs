//! Files of `perf record`: `perf.data`.
//!
//! What they hold are addresses. Names come from this machine: those of programs and libraries from the
//! files of the same paths, those of the kernel from `/proc/kallsyms` if it is the same release, moved as
//! far as the kernel has moved since.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt`.

mod mended;

use std::fs::File;
use std::io::BufReader;

use linux_perf_data::linux_perf_event_reader::constants::PERF_RECORD_MISC_MMAP_BUILD_ID;
use linux_perf_data::{PerfFile, PerfFileReader, PerfFileRecord};
use linux_perf_event_reader::{
    HardwareEventId, PerfEventAttr, PerfEventType, RawEventRecord, RecordType, SamplingPolicy,
    SoftwareCounterType,
};

use mended::Mended;

use crate::capture::{About, Capture, Clock, Losses, Machine, Unit};
use crate::records::Records;
use crate::symbols::KernelNames;

/// What a file begins with.
pub const MAGIC: &[u8] = b"PERFILE2";

/// Reads a file of `perf record`: samples of one event, the first that was sampled.
///
/// # Errors
/// In words: why it cannot be read. Of a file that ends in the middle, what is whole is read, and
/// [`Losses::unreadable`] says that something is missing.
pub fn perf_data(file: File, title: &str) -> Result<Capture, String> {
    let unreadable = |error: &dyn std::fmt::Display| {
        format!(
            "this is no file of perf record that knee can read: {error}; try perf script | knee profile show -"
        )
    };
    let mended = Mended::of(file).map_err(|error| unreadable(&error))?;
    let is_cut = mended.is_cut();
    let PerfFileReader { perf_file: mut file, record_iter: mut records_of } =
        PerfFileReader::parse_file(BufReader::new(mended)).map_err(|error| unreadable(&error))?;
    let Some(event) =
        file.event_attributes().iter().position(|event| is_sampled(event.attributes()))
    else {
        return Err("it has no samples: record with perf record -g".to_owned());
    };
    let mut records = Records::new(kernel_names(&file));
    records.losses().unreadable += u64::from(is_cut);
    let mut times: Option<(u64, u64)> = None;
    loop {
        let record = match records_of.next_record(&mut file) {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(_) => {
                records.losses().unreadable += 1;
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
    let about = about(&file, event, title, losses);
    let seconds = times.map(|(first, last)| (last - first) as f64 / 1e9);
    Ok(stacks.finish(About { seconds, ..about }))
}

fn take(records: &mut Records, record: &RawEventRecord<'_>) {
    // The reader believes this length, and would panic.
    let is_with_build_id = record.record_type == RecordType::MMAP2
        && record.misc & PERF_RECORD_MISC_MMAP_BUILD_ID != 0;
    let length = record.data.get(32..33).map(|length| length.as_slice()[0]);
    let is_sane = !is_with_build_id || length.is_some_and(|length| length <= 20);
    match is_sane.then(|| record.parse()) {
        Some(Ok(parsed)) => {
            if record.record_type == RecordType::LOST_SAMPLES {
                let lost = record.data.get(0..8).map(|bytes| bytes.as_slice().to_vec());
                let lost = lost.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
                records.losses().lost += lost.unwrap_or(0);
            }
            records.take(parsed);
        }
        _ => records.losses().unreadable += 1,
    }
}

fn is_sampled(attr: &PerfEventAttr) -> bool {
    let is_dummy = matches!(attr.type_, PerfEventType::Software(SoftwareCounterType::Dummy));
    !is_dummy && !matches!(attr.sampling_policy, SamplingPolicy::NoSampling)
}

/// Only a kernel of the same release has the same functions.
fn kernel_names(file: &PerfFile) -> KernelNames {
    let here = rustix::system::uname();
    match file.os_release() {
        Ok(Some(release)) if release.as_bytes() == here.release().to_bytes() => {
            KernelNames::of_running()
        }
        _ => KernelNames::Unknown,
    }
}

fn about(file: &PerfFile, event: usize, title: &str, losses: Losses) -> About {
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
    About {
        title: command.unwrap_or_else(|| title.to_owned()),
        machine: Machine {
            kernel: release.map_or(String::new(), |release| format!("Linux {release}")),
            cpus: file.nr_cpus().ok().flatten().map_or(0, |cpus| cpus.nr_cpus_online),
            started_at: String::new(),
        },
        clock: Clock { event: of_event.name().unwrap_or("samples").to_owned(), unit, frequency },
        seconds: None,
        cpu_seconds: None,
        work: None,
        losses,
    }
}

#[cfg(test)]
mod tests;
