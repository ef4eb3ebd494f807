//! Trials with known verdicts. A guest runs these trials before anything else. Their results show
//! whether this QEMU reports exactly the memory that two CPUs share.

/// The number of runs of each trial in a guest with few CPUs. One run is not enough, because a kernel task
/// may disturb it. A guest with many CPUs has enough trials of each kind, and runs each trial once.
const ROUNDS: usize = 2;
const FEW_CPUS: usize = 4;
/// The number of times that each operation runs untraced before the first trial, to fill caches
/// and page tables.
pub const WARM_UP: usize = 3;
/// The offset of the shared word in its line, in bytes.
pub const WORD_AT: usize = 16;
/// The length of the shared word, in bytes.
pub const WORD_BYTES: usize = 8;
/// The offset of the first of the two neighbouring bytes in their line.
pub const NEIGHBOURS_AT: usize = 10;

/// The operation that both sides of a trial perform, each on its own CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing.
    Nothing,
    /// A system call that accesses no object.
    NoObject,
    /// Each side reads its own file.
    TwoFiles,
    /// Each side makes system calls until a timer has interrupted it.
    Interrupted,
    /// Both sides make the kernel write the same [`WORD_BYTES`] bytes.
    SharedWord,
    /// Each side makes the kernel write one byte, and the bytes of the two sides are neighbours.
    NeighbouringBytes,
    /// Both sides read the position of one open file.
    OneFile,
}

impl Kind {
    /// All kinds, in the order of their trials.
    pub const ALL: [Kind; 7] = [
        Kind::Nothing,
        Kind::NoObject,
        Kind::TwoFiles,
        Kind::Interrupted,
        Kind::SharedWord,
        Kind::NeighbouringBytes,
        Kind::OneFile,
    ];
    /// The kinds for a kernel that has no files, in the order of their trials.
    pub const WITHOUT_FILES: [Kind; 5] = [
        Kind::Nothing,
        Kind::NoObject,
        Kind::Interrupted,
        Kind::SharedWord,
        Kind::NeighbouringBytes,
    ];
}

/// A trial: two sides that run one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The operation of both sides.
    pub kind: Kind,
    /// The CPU of side 0, the first side.
    pub first: usize,
    /// The CPU of side 1, the second side.
    pub second: usize,
}

/// Returns the trials of these kinds in a guest with `cpus` virtual CPUs, in their order. Each CPU has trials
/// with the CPU before it and with the CPU after it, both as the first side and as the second side. A guest
/// with one CPU has no trials.
pub fn trials(kinds: &[Kind], cpus: usize) -> impl Iterator<Item = Trial> {
    // With two CPUs there is only one pair of neighbours.
    let pairs = match cpus {
        0 | 1 => 0,
        2 => 1,
        _ => cpus,
    };
    let pairs =
        move || (0..pairs).flat_map(move |at| [(at, (at + 1) % cpus), ((at + 1) % cpus, at)]);
    let of_kind =
        move |&kind: &Kind| pairs().map(move |(first, second)| Trial { kind, first, second });
    let rounds = if cpus > FEW_CPUS { 1 } else { ROUNDS };
    (0..rounds).flat_map(move |_| kinds).flat_map(of_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_first_and_second_in_each_kind_of_trial() {
        assert_eq!(trials(&Kind::ALL, 1).count(), 0);
        for cpus in [2, 3, 4, 64] {
            for (kind, cpu) in
                Kind::ALL.into_iter().flat_map(|kind| (0..cpus).map(move |cpu| (kind, cpu)))
            {
                let mut of_kind = trials(&Kind::ALL, cpus).filter(|trial| trial.kind == kind);
                assert!(of_kind.any(|trial| trial.first == cpu && trial.second != cpu));
                let mut of_kind = trials(&Kind::ALL, cpus).filter(|trial| trial.kind == kind);
                assert!(of_kind.any(|trial| trial.second == cpu && trial.first != cpu));
            }
        }
        assert_eq!(trials(&Kind::ALL, 2).count(), ROUNDS * Kind::ALL.len() * 2);
    }
}
