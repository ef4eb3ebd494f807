//! Captures of several runs of one command, as one capture.

use super::{Capture, Losses, Stacks};

impl Capture {
    /// One capture with the samples of all `captures`, which must have the same clock. Their durations, CPU times and
    /// losses are added up. Title, machine and work are those of the first capture. Returns `None` if there is no
    /// capture.
    pub fn joined(captures: Vec<Capture>) -> Option<Capture> {
        let mut stacks = Stacks::default();
        for capture in &captures {
            for count in &capture.counts {
                let mut functions: Vec<u32> = capture.functions_of(count.stack).collect();
                functions.reverse();
                let functions = functions.into_iter().map(|nr| &capture.functions[nr as usize]);
                let program = &capture.programs[count.program as usize];
                stacks.add(program, functions, count.samples, count.weight);
            }
        }
        let sum = |of: fn(&Capture) -> Option<f64>| captures.iter().map(of).sum();
        let (seconds, cpu_seconds) = (sum(|one| one.seconds), sum(|one| one.cpu_seconds));
        let losses = captures.iter().map(|capture| capture.losses);
        let losses = losses.fold(Losses::default(), Losses::and);
        let losses = Losses { left_out: losses.left_out + stacks.left_out(), ..losses };
        let Capture { title, machine, clock, work, .. } = captures.into_iter().next()?;
        Some(Capture {
            title,
            machine,
            clock,
            seconds,
            cpu_seconds,
            work,
            losses,
            ..stacks.finish()
        })
    }
}

impl Losses {
    fn and(self, other: Losses) -> Losses {
        Losses {
            lost: self.lost + other.lost,
            untracked: self.untracked + other.untracked,
            throttled: self.throttled + other.throttled,
            cut: self.cut + other.cut,
            unreadable: self.unreadable + other.unreadable,
            unnamed_files: self.unnamed_files.max(other.unnamed_files),
            unknown_mappings: self.unknown_mappings + other.unknown_mappings,
            left_out: self.left_out + other.left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Function, Kind};
    use super::*;

    fn capture(stacks: &[(&str, &[&str], u64)], cpu_seconds: Option<f64>) -> Capture {
        let mut all = Stacks::default();
        for (program, functions, samples) in stacks {
            let functions = functions.iter().map(|&name| Function::new(name, Kind::User));
            all.add(program, functions, *samples, 10 * samples);
        }
        let losses = Losses { lost: 2, unnamed_files: 1, ..Losses::default() };
        Capture { seconds: Some(1.5), cpu_seconds, losses, ..all.finish() }
    }

    #[test]
    fn equal_stacks_are_counted_together() {
        let one = capture(&[("a", &["main", "f"], 3), ("a", &["main"], 1)], Some(1.0));
        let other = capture(&[("b", &["main", "f"], 4), ("a", &["main", "f"], 5)], Some(0.5));
        let both = Capture::joined(vec![one, other]).unwrap();
        let expected: &[(&str, &[&str], u64)] =
            &[("a", &["main", "f"], 8), ("a", &["main"], 1), ("b", &["main", "f"], 4)];
        let losses = Losses { lost: 4, unnamed_files: 1, ..Losses::default() };
        let expected = Capture { seconds: Some(3.0), losses, ..capture(expected, Some(1.5)) };
        assert_eq!(both, expected);
    }

    #[test]
    fn an_unknown_cpu_time_makes_that_of_all_unknown() {
        let both = Capture::joined(vec![capture(&[], Some(1.0)), capture(&[], None)]).unwrap();
        assert_eq!((both.seconds, both.cpu_seconds), (Some(3.0), None));
        assert_eq!(Capture::joined(Vec::new()), None);
    }
}
