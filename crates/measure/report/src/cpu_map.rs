//! What it costs the CPUs of a machine to communicate: data for a page.

/// Times to move a cache line between the CPUs of a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuMap {
    /// Name of the machine.
    pub name: String,
    /// What the machine is, and its number of CPUs.
    pub facts: Vec<String>,
    /// The figures of the machine: name, value, range and source.
    pub figures: Vec<[String; 4]>,
    /// The operating system's numbers of the CPUs. Empty if times of pairs are unknown.
    pub cpus: Vec<u32>,
    /// Time of each pair of CPUs in ns, by row and column in the order of `cpus`. A CPU with itself has 0.
    pub ns: Vec<Vec<f64>>,
}

impl CpuMap {
    /// The times of pairs.
    fn times(&self) -> impl Iterator<Item = f64> {
        self.ns.iter().flatten().copied().filter(|ns| *ns > 0.0)
    }

    /// The shortest and the longest time of a pair. `None` if there is none.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let shortest = self.times().reduce(f64::min)?;
        Some((shortest, self.times().reduce(f64::max)?))
    }

    /// The main finding in a sentence.
    pub(crate) fn sentence(&self) -> String {
        match self.range() {
            Some((shortest, longest)) if longest >= shortest * 1.05 => format!(
                "{}: a cache line takes {shortest:.0} to {longest:.0} ns from one CPU to another",
                self.name
            ),
            Some((_, longest)) => {
                format!("{}: a cache line takes {longest:.0} ns from one CPU to another", self.name)
            }
            None => format!("{}: what it costs CPUs to communicate", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_has_the_range_of_the_pairs() {
        let mut map = CpuMap { name: "m".to_owned(), ..CpuMap::default() };
        assert_eq!(map.sentence(), "m: what it costs CPUs to communicate");
        map.cpus = vec![0, 1];
        map.ns = vec![vec![0.0, 50.0], vec![50.2, 0.0]];
        assert_eq!(map.sentence(), "m: a cache line takes 50 ns from one CPU to another");
        map.ns[1][0] = 120.0;
        assert_eq!(map.sentence(), "m: a cache line takes 50 to 120 ns from one CPU to another");
    }
}
