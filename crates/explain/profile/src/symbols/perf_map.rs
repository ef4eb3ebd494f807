//! Names of code from just-in-time compilers: `/tmp/perf-PID.map`, as in
//! `tools/perf/Documentation/jit-interface.txt`.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use knee_host::RegularFile;
use knee_host::regular_file::FileError;
use rustix::process::geteuid;

use super::budget::Budget;

/// The largest map that is read. Those of a Java or JavaScript server have a few megabytes.
const MOST_BYTES: u64 = 128 << 20;
const ROOT: u32 = 0;

/// The names that the process wrote.
#[derive(Debug, Default)]
pub(super) struct PerfMap {
    text: String,
    /// The areas of code, in order.
    areas: Vec<Area>,
}

/// Code with a name.
#[derive(Debug)]
struct Area {
    start: u64,
    end: u64,
    /// The place of its name in the text, whose size a `u32` can hold.
    name: Range<u32>,
}

impl PerfMap {
    /// The map of a process of this machine. Everybody can write to `/tmp`, so a map counts only if it belongs
    /// to the user of the process, to the user of knee, or to root, as in perf.
    pub(super) fn read(pid: i32, budget: &mut Budget) -> PerfMap {
        let process = fs::metadata(format!("/proc/{pid}"));
        let mut owners = vec![ROOT, geteuid().as_raw()];
        owners.extend(process.map(|process| process.uid()));
        PerfMap::at(Path::new(&format!("/tmp/perf-{pid}.map")), &owners, budget)
    }

    fn at(path: &Path, owners: &[u32], budget: &mut Budget) -> PerfMap {
        let most = MOST_BYTES.min(budget.left());
        let file = RegularFile::at(path).without_links().owned_by(owners).at_most(most);
        let map = match file.read() {
            Ok(text) => PerfMap::parse(&text, budget.left()),
            Err(FileError::TooLarge(_)) => None,
            Err(_) => return PerfMap::default(),
        };
        let Some(map) = map else {
            budget.left_out += 1;
            return PerfMap::default();
        };
        budget.take((map.text.len() + size_of_val(&*map.areas)) as u64);
        map
    }

    /// `None` if the map takes more than this much memory. A short line takes several times its length.
    fn parse(text: &[u8], most_bytes: u64) -> Option<PerfMap> {
        let text = String::from_utf8_lossy(text).into_owned();
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let area = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (start, size) = (number(words.next()?)?, number(words.next()?)?);
            let name = words.next()?;
            let at = (name.as_ptr().addr() - text.as_ptr().addr()) as u32;
            let name = at..at + name.len() as u32;
            Some(Area { start, end: start.checked_add(size)?, name })
        };
        let most = most_bytes.checked_sub(text.len() as u64)? as usize / size_of::<Area>();
        let areas = text.lines().filter_map(area);
        let mut areas: Vec<Area> = areas.take(most.saturating_add(1)).collect();
        if areas.len() > most {
            return None;
        }
        // If code was compiled again, its last entry counts.
        areas.reverse();
        areas.sort_by_key(|area| area.start);
        areas.dedup_by_key(|area| area.start);
        Some(PerfMap { areas, text })
    }

    /// The name of the code at an address.
    pub(super) fn find(&self, address: u64) -> Option<&str> {
        let place = self.areas.partition_point(|area| area.start <= address).checked_sub(1)?;
        let Area { end, name, .. } = &self.areas[place];
        (address < *end).then(|| &self.text[name.start as usize..name.end as usize])
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use knee_host::skip::skip;
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn names_of_a_jit_compiler_are_read() {
        let text = b"1000 10 old\n0x2000 20 Foo::bar (int)\nnonsense\n1000 8 new\n";
        let names = PerfMap::parse(text, 1 << 20).unwrap();
        assert_eq!(names.find(0x1007), Some("new"));
        assert_eq!(names.find(0x1008), None);
        assert_eq!(names.find(0x201f), Some("Foo::bar (int)"));
        assert_eq!(names.find(0xfff), None);
    }

    #[test]
    fn only_a_regular_file_is_read_as_a_map() {
        let dir = tempfile::tempdir().unwrap();
        let [map, fifo, link, endless] =
            ["map", "fifo", "link", "endless"].map(|name| dir.path().join(name));
        fs::write(&map, "1000 10 name\n").unwrap();
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        symlink(&map, &link).unwrap();
        symlink("/dev/zero", &endless).unwrap();
        let owners = [ROOT, geteuid().as_raw()];
        let found = |path: &Path| {
            let map = PerfMap::at(path, &owners, &mut Budget::default());
            map.find(0x1000).map(str::to_owned)
        };
        assert_eq!(found(&map).as_deref(), Some("name"));
        for other in [fifo, link, endless] {
            assert_eq!(found(&other), None, "{}", other.display());
        }
    }

    #[test]
    fn a_map_of_a_third_user_is_not_read() {
        if !geteuid().is_root() {
            return skip("root", "only root can give a file to another user");
        }
        let dir = tempfile::tempdir().unwrap();
        let map = dir.path().join("map");
        fs::write(&map, "1000 10 name\n").unwrap();
        chown(&map, Some(65534), None).unwrap();
        let at = |owners: &[u32]| PerfMap::at(&map, owners, &mut Budget::default());
        assert_eq!(at(&[ROOT]).find(0x1000), None);
        assert_eq!(at(&[ROOT, 65534]).find(0x1000), Some("name"));
    }

    #[test]
    fn maps_take_no_more_memory_than_there_is_for_all_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let map = dir.path().join("map");
        fs::write(&map, "1000 10 name\n").unwrap();
        let each = 13 + size_of::<Area>() as u64;
        let mut budget = Budget::of(2 * each + 20);
        let mut found = || {
            let read = PerfMap::at(&map, &[geteuid().as_raw()], &mut budget);
            (read.find(0x1000).map(str::to_owned), budget.left_out)
        };
        let name = || Some("name".to_owned());
        assert_eq!([found(), found()], [(name(), 0), (name(), 0)]);
        // The text fits, but not its areas.
        assert_eq!(found(), (None, 1));
        fs::write(&map, "1000 10 a longer name\n").unwrap();
        assert_eq!(found(), (None, 2));
    }
}
