//! Two files of two pages each; a page has one of two values.

use knee_commute::models::durability;

use super::{Args, Concrete, arg, check, choices};

/// The values of pages, by file and then by page.
type Files = [[i64; 2]; 2];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Disk {
    cached: Files,
    durable: Files,
}

impl Concrete for Disk {
    fn all() -> Vec<Self> {
        let files = |bits: i64| [[bits & 1, bits >> 1 & 1], [bits >> 2 & 1, bits >> 3 & 1]];
        let durable =
            |cached| (0..16).map(move |bits| Self { cached: files(cached), durable: files(bits) });
        (0..16).flat_map(durable).collect()
    }

    fn arguments(operation: &str) -> Vec<Args> {
        choices(match operation {
            "write" | "write_dsync" => &[("file", 2), ("page", 2), ("datum", 2)],
            "read" | "fsync_range" => &[("file", 2), ("page", 2)],
            "fsync" => &[("file", 2)],
            _ => &[],
        })
    }

    fn call(&self, operation: &str, args: &Args) -> Vec<(Self, String)> {
        let mut left = self.clone();
        let [file, page] = ["file", "page"].map(|name| {
            args.iter().find(|(other, _)| *other == name).map_or(0, |(_, value)| *value as usize)
        });
        let mut seen = String::new();
        match operation {
            "read" => seen = self.cached[file][page].to_string(),
            "write" => left.cached[file][page] = arg(args, "datum"),
            "write_dsync" => {
                left.cached[file][page] = arg(args, "datum");
                left.durable[file][page] = arg(args, "datum");
            }
            "fsync" => left.durable[file] = self.cached[file],
            "fsync_range" => left.durable[file][page] = self.cached[file][page],
            "sync" => left.durable = self.cached,
            other => panic!("{other}"),
        }
        vec![(left, seen)]
    }

    fn number(&self, label: &str, arg: &dyn Fn(&str) -> i64) -> i64 {
        // A label: `cached[a.file][b.page]`
        let parts: Vec<&str> = label.split(['[', ']']).collect();
        let files = if parts[0] == "cached" { &self.cached } else { &self.durable };
        files[arg(parts[1]) as usize][arg(parts[3]) as usize]
    }

    fn flag(&self, label: &str, _: &dyn Fn(&str) -> i64) -> bool {
        panic!("{label}")
    }
}

#[test]
fn durability_agrees_with_brute_force() {
    assert_eq!(check::<_, Disk>(&durability::durability(), 2), 0);
}
