//! The fields of a machine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine: its CPUs, and what it costs them to communicate. All CPUs of a level are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Version of the format: 1.
    pub schema: u32,
    /// Name in commands: lower-case letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Sockets.
    pub sockets: u32,
    /// L3 caches of a socket.
    pub l3s_per_socket: u32,
    /// Cores that share an L3 cache.
    pub cores_per_l3: u32,
    /// Hardware threads of a core.
    pub threads_per_core: u32,
    /// Time in ns to take a modified cache line from another CPU, by the distance between the CPUs:
    /// half a round trip of compare-and-swap.
    #[serde(default, skip_serializing_if = "Transfers::is_empty")]
    pub transfer_ns: Transfers,
    /// Time in ns from an atomic addition to the next, if CPUs add to one cache line all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contended_ns: Option<Contended>,
    /// Speed of a core by the number of busy cores of its socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// Time that work of a core takes if its other hardware thread is busy too, as a multiple of
    /// the time without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt_slowdown: Option<Figure>,
    /// Time in ns of an instruction that pauses a loop that waits: `pause` on x86.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ns: Option<Figure>,
    /// Time in ns to interrupt other CPUs and wait for their answers, as for a TLB shootdown on
    /// x86.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_ns: Option<Interrupts>,
    /// Time in ns from the wake-up of a sleeping thread on an idle CPU until it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_ns: Option<Figure>,
    /// Where the figures are from, by the names that they use.
    pub sources: BTreeMap<String, String>,
    /// Transfer times between all pairs of CPUs, if they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
}

/// A figure and where it is from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The figure, in the unit that the key names.
    pub value: f64,
    /// Lower end of the range, if the source has a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// A name in `sources`.
    pub source: String,
}

/// How close two CPUs are: the smallest part of the machine that contains both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// Hardware threads of one core.
    Core,
    /// Cores that share an L3 cache, which is not all of their socket.
    L3,
    /// Cores of one socket.
    Socket,
    /// Cores of different sockets.
    Machine,
}

impl Distance {
    /// From close to far.
    pub const ALL: [Self; 4] = [Self::Core, Self::L3, Self::Socket, Self::Machine];

    /// The key in a machine's file.
    pub fn key(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::L3 => "l3",
            Self::Socket => "socket",
            Self::Machine => "machine",
        }
    }
}

/// Figures by distance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfers {
    /// Between the hardware threads of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<Figure>,
    /// Between cores that share an L3 cache, if a socket has several L3 caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l3: Option<Figure>,
    /// Between other cores of a socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<Figure>,
    /// Between sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Figure>,
}

impl Transfers {
    /// The figure for CPUs at this distance.
    pub fn at(&self, distance: Distance) -> Option<&Figure> {
        match distance {
            Distance::Core => self.core.as_ref(),
            Distance::L3 => self.l3.as_ref(),
            Distance::Socket => self.socket.as_ref(),
            Distance::Machine => self.machine.as_ref(),
        }
    }

    /// The place of the figure for CPUs at this distance.
    pub fn at_mut(&mut self, distance: Distance) -> &mut Option<Figure> {
        match distance {
            Distance::Core => &mut self.core,
            Distance::L3 => &mut self.l3,
            Distance::Socket => &mut self.socket,
            Distance::Machine => &mut self.machine,
        }
    }

    fn is_empty(&self) -> bool {
        Distance::ALL.iter().all(|distance| self.at(*distance).is_none())
    }
}

/// Atomic additions by several CPUs to one cache line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contended {
    /// Number of CPUs, and the time in ns from an addition to the next.
    pub points: Vec<(u32, f64)>,
    /// A name in `sources`.
    pub source: String,
}

/// Speed of a core by the number of busy cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Number of busy cores of the socket, and the speed relative to a single busy core.
    pub points: Vec<(u32, f64)>,
    /// A name in `sources`.
    pub source: String,
}

/// Interrupts of other CPUs: the time until all have answered is `first + each × (CPUs − 1)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interrupts {
    /// For one CPU.
    pub first: Figure,
    /// For each further CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<Figure>,
}

/// Transfer times between all pairs of CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// The operating system's numbers of the CPUs.
    pub cpus: Vec<u32>,
    /// Time in ns. Row and column have the order of `cpus`; the diagonal is 0.
    pub ns: Vec<Vec<f64>>,
}

impl Machine {
    /// Number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.sockets * self.cores_per_socket() * self.threads_per_core
    }

    /// Number of cores of a socket.
    pub fn cores_per_socket(&self) -> u32 {
        self.l3s_per_socket * self.cores_per_l3
    }

    /// The distances between CPUs of this machine, from close to far.
    pub fn distances(&self) -> impl Iterator<Item = Distance> {
        let exists = |distance: &Distance| match distance {
            Distance::Core => self.threads_per_core > 1,
            // With a single L3 cache, cores that share it are simply cores of a socket.
            Distance::L3 => self.l3s_per_socket > 1 && self.cores_per_l3 > 1,
            Distance::Socket => self.cores_per_socket() > 1,
            Distance::Machine => self.sockets > 1,
        };
        Distance::ALL.into_iter().filter(exists)
    }

    /// All figures, with their keys.
    pub fn figures(&self) -> impl Iterator<Item = (String, &Figure)> {
        let transfers = Distance::ALL.into_iter().filter_map(|distance| {
            Some((format!("transfer_ns.{}", distance.key()), self.transfer_ns.at(distance)?))
        });
        let interrupts = self.interrupt_ns.iter().flat_map(|interrupts| {
            let each = interrupts.each.iter().map(|each| ("interrupt_ns.each", each));
            std::iter::once(("interrupt_ns.first", &interrupts.first)).chain(each)
        });
        let smt = self.smt_slowdown.iter().map(|figure| ("smt_slowdown", figure));
        let wake = self.wake_ns.iter().map(|figure| ("wake_ns", figure));
        let pause = self.pause_ns.iter().map(|figure| ("pause_ns", figure));
        let single = interrupts.chain(smt).chain(pause).chain(wake);
        transfers.chain(single.map(|(key, figure)| (key.to_owned(), figure)))
    }
}
