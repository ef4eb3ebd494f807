//! Unintended differences between two sides, which may explain a change.

use std::collections::BTreeSet;
use std::fmt;

use knee_host::counters::CounterSet;
use knee_host::number::percent;
use knee_host::text::one_line;
use knee_host::{CpuList, Environment};
use serde::Serialize;

use crate::{CaseInfo, LatencyRequest, Request, Results};

/// Characters of a setting that are shown.
const SHOWN: usize = 80;
/// How many of them stand before the first difference.
const SHOWN_BEFORE: usize = 40;

/// Something that can change results by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is.
    pub what: String,
    /// Its value on the first side.
    pub before: String,
    /// Its value on the second side.
    pub after: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} before, {} after", self.what, self.before, self.after)
    }
}

/// All differences in properties that both results contain. They do not include the kernel and the
/// version of knee, which are what users compare.
pub fn differences(before: &Results, after: &Results) -> Vec<Difference> {
    let mut found = Vec::new();
    if let (Some(before), Some(after)) = (&before.origin, &after.origin) {
        machines(&before.environment, &after.environment, &mut found);
        requests(&before.request, &after.request, &mut found);
    }
    found.extend(differences_of_cases(before, after));
    found
}

/// What the runs call by the same name, although it runs something else or has another load.
pub fn differences_of_cases(before: &Results, after: &Results) -> Vec<Difference> {
    let mut found = Vec::new();
    loads(before, after, &mut found);
    settings(before, after, &mut found);
    found
}

fn machines(before: &Environment, after: &Environment, found: &mut Vec<Difference>) {
    let mut differ = |what: &str, read: &dyn Fn(&Environment) -> Option<String>| {
        note(what, read(before), read(after), found);
    };
    differ("build of knee", &|e| Some(if e.debug_build { "debug" } else { "release" }.to_owned()));
    differ("machine", &|e| Some(e.hostname.clone()));
    differ("architecture", &|e| Some(e.architecture.clone()));
    differ("CPU model", &|e| e.cpu_model.clone());
    differ("topology", &|e| e.topology.as_ref().map(ToString::to_string));
    differ("usable CPUs", &|e| Some(e.usable_cpus.to_string()));
    differ("CPU quota of the cgroup", &|e| e.cgroup_cpu_quota.map(|quota| format!("{quota:.2}")));
    differ("kernel command line", &|e| e.kernel_command_line.as_deref().map(without_image));
    differ("frequency governor", &|e| e.governor.clone());
    differ("turbo", &|e| e.turbo.map(on_off));
    differ("SMT", &|e| e.smt_active.map(on_off));
    differ("hypervisor", &|e| e.hypervisor.clone());
    differ("clock source", &|e| e.clocksource.clone());
    differ("transparent huge pages", &|e| e.transparent_huge_pages.clone());
    differ("NUMA balancing", &|e| e.numa_balancing.map(on_off));
    differ("isolated CPUs", &|e| e.isolated_cpus.as_ref().map(ToString::to_string));
    differ("C library", &|e| e.libc.clone());
    differ("file system", &|e| e.work_dir_file_system.clone());
    let names = before.mitigations.keys().chain(after.mitigations.keys());
    for name in names.collect::<std::collections::BTreeSet<_>>() {
        let read = |e: &Environment| e.mitigations.get(name).cloned();
        note(&format!("mitigation of {name}"), read(before), read(after), found);
    }
}

fn requests(before: &Request, after: &Request, found: &mut Vec<Difference>) {
    let mut differ = |what: &str, read: &dyn Fn(&Request) -> String| {
        note(what, Some(read(before)), Some(read(after)), found);
    };
    differ("placement", &|r| r.placement.to_string());
    differ("CPUs", &|r| r.cpus.iter().copied().collect::<CpuList>().to_string());
    differ("seconds per sample", &|r| r.interval.to_string());
    differ("samples per round", &|r| r.samples.to_string());
    differ("seconds of warm-up", &|r| r.warmup.to_string());
    // Otherwise nothing is compared.
    if before.counters.is_some() && after.counters.is_some() {
        differ("counters", &|r| r.counters.as_ref().map_or(String::new(), CounterSet::to_string));
    }
    // The rates of a server do not depend on whether its latency is measured afterwards.
    if before.latency.is_some() && after.latency.is_some() {
        differ("rate at which latency is measured", &|r| r.latency.map_or(String::new(), how));
    }
}

/// Where the loads on servers come from.
fn loads(before: &Results, after: &Results, found: &mut Vec<Difference>) {
    let host =
        |case: &CaseInfo| Some(case.load_host.as_deref().unwrap_or("this machine").to_owned());
    for (id, case) in &before.cases {
        let Some(other) = after.cases.get(id) else { continue };
        note(&format!("host of the load on {id}"), host(case), host(other), found);
    }
}

/// What runs and with which load under the same name.
fn settings(before: &Results, after: &Results, found: &mut Vec<Difference>) {
    for (id, case) in &before.cases {
        let Some(other) = after.cases.get(id) else { continue };
        // A side without any setting does not contain them.
        if case.settings.is_empty() || other.settings.is_empty() {
            continue;
        }
        let names = case.settings.keys().chain(other.settings.keys()).collect::<BTreeSet<_>>();
        for name in names {
            let [one, other] = [case, other].map(|case| case.settings.get(name));
            let [one, other] = [one, other].map(|text| text.map_or("none", String::as_str));
            let [one, other] = around_difference(one, other);
            note(&format!("{name} of {id}"), Some(one), Some(other), found);
        }
    }
}

/// Both texts on one line. In long ones, only the part around the first difference.
fn around_difference(one: &str, other: &str) -> [String; 2] {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    [one, other].map(|text| {
        let length = text.chars().count();
        let from = if length > SHOWN { same.saturating_sub(SHOWN_BEFORE) } else { 0 };
        let part: String = text.chars().skip(from).take(SHOWN).collect();
        let before = if from > 0 { "…" } else { "" };
        let after = if from + SHOWN < length { "…" } else { "" };
        format!("{before}{}{after}", one_line(&part))
    })
}

/// How a run measures latency.
fn how(latency: LatencyRequest) -> String {
    match latency {
        LatencyRequest::Requests { share } => format!("{} of the measured rate", percent(share)),
        LatencyRequest::Iterations => "the measured rate".to_owned(),
    }
}

/// Records a difference, if there is one.
fn note(what: &str, before: Option<String>, after: Option<String>, found: &mut Vec<Difference>) {
    if before != after {
        let said = |side: Option<String>| side.unwrap_or_else(|| "unknown".to_owned());
        let (before, after) = (said(before), said(after));
        found.push(Difference { what: what.to_owned(), before, after });
    }
}

/// The words of a kernel command line that do not name the kernel itself.
fn without_image(command_line: &str) -> String {
    let names_it = |word: &&str| word.starts_with("BOOT_IMAGE=") || word.starts_with("initrd=");
    let words: Vec<&str> = command_line.split_whitespace().filter(|w| !names_it(w)).collect();
    words.join(" ")
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_from_another_host_is_a_difference() {
        let results = |host: Option<&str>| {
            let mut results = Results::new(std::path::Path::new("record"));
            let info = CaseInfo { load_host: host.map(str::to_owned), ..CaseInfo::default() };
            results.cases.insert(crate::CaseId::new("nginx"), info);
            results
        };
        let found = differences(&results(None), &results(Some("beta")));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["host of the load on nginx: this machine before, beta after"]);
        assert_eq!(differences(&results(Some("beta")), &results(Some("beta"))), []);
    }

    #[test]
    fn another_command_or_load_under_the_same_name_is_a_difference() {
        let results = |settings: &[(&'static str, &str)]| {
            let mut results = Results::new(std::path::Path::new("record"));
            let settings = settings.iter().map(|(name, text)| (*name, (*text).to_owned()));
            let info = CaseInfo { settings: settings.collect(), ..CaseInfo::default() };
            results.cases.insert(crate::CaseId::new("spin"), info);
            results
        };
        let found = |before: &[(&'static str, &str)], after: &[(&'static str, &str)]| {
            let found = differences(&results(before), &results(after));
            found.iter().map(ToString::to_string).collect::<Vec<String>>()
        };
        assert_eq!(
            found(&[("command", "spin 0.1"), ("read", "#")], &[("command", "spin 0.2")]),
            [
                "command of spin: spin 0.1 before, spin 0.2 after",
                "read of spin: # before, none after"
            ]
        );
        assert_eq!(found(&[("command", "spin 0.1")], &[("command", "spin 0.1")]), [""; 0]);
        // A table of will-it-scale does not contain them.
        assert_eq!(found(&[("command", "spin 0.1")], &[]), [""; 0]);
        let long = |end: &str| format!("{}{end}", "x".repeat(200));
        let part = format!("…{}", "x".repeat(SHOWN_BEFORE));
        assert_eq!(
            found(&[("files", &long("1"))], &[("files", &long("2"))]),
            [format!("files of spin: {part}1 before, {part}2 after")]
        );
    }

    #[test]
    fn relevant_differences_are_named_and_the_kernel_image_is_not() {
        let before = Environment::capture(std::path::Path::new("/"));
        let mut after = before.clone();
        after.governor = Some("powersave".to_owned());
        after.kernel = "Linux 99".to_owned();
        let boot = |image: &str| Some(format!("BOOT_IMAGE={image} quiet"));
        let before = Environment { kernel_command_line: boot("old"), ..before };
        after.kernel_command_line = boot("new");
        after.mitigations.insert("another".to_owned(), "Vulnerable".to_owned());
        let mut found = Vec::new();
        machines(&before, &after, &mut found);
        let what: Vec<&str> = found.iter().map(|difference| difference.what.as_str()).collect();
        assert_eq!(what, ["frequency governor", "mitigation of another"]);
        assert_eq!(found[1].to_string(), "mitigation of another: unknown before, Vulnerable after");
    }
}
