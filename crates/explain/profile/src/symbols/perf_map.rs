//! Names of code from just-in-time compilers: `/tmp/perf-PID.map`, as in
//! `tools/perf/Documentation/jit-interface.txt`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use knee_host::RegularFile;
use rustix::process::geteuid;

/// The largest map that is read. Those of a Java or JavaScript server have a few megabytes.
const MOST_BYTES: u64 = 128 << 20;
const ROOT: u32 = 0;

/// The names that the process wrote.
#[derive(Debug, Default)]
pub(super) struct PerfMap {
    /// Start, end and name, in order.
    names: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// The map of a process of this machine. Everybody can write to `/tmp`, so a map counts only if it belongs
    /// to the user of the process, to the user of knee, or to root, as in perf.
    pub(super) fn read(pid: i32) -> PerfMap {
        let process = fs::metadata(format!("/proc/{pid}"));
        let mut owners = vec![ROOT, geteuid().as_raw()];
        owners.extend(process.map(|process| process.uid()));
        PerfMap::at(Path::new(&format!("/tmp/perf-{pid}.map")), &owners)
    }

    fn at(path: &Path, owners: &[u32]) -> PerfMap {
        let file = RegularFile::at(path).without_links().owned_by(owners).at_most(MOST_BYTES);
        PerfMap::parse(&file.read().unwrap_or_default())
    }

    fn parse(text: &[u8]) -> PerfMap {
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let line = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let (start, size) = (number(words.next()?)?, number(words.next()?)?);
            Some((start, start.checked_add(size)?, words.next()?.to_owned()))
        };
        let mut names: Vec<_> = String::from_utf8_lossy(text).lines().filter_map(line).collect();
        // If code was compiled again, its last entry counts.
        names.reverse();
        names.sort_by_key(|name| name.0);
        names.dedup_by_key(|name| name.0);
        PerfMap { names }
    }

    /// The name of the code at an address.
    pub(super) fn find(&self, address: u64) -> Option<&str> {
        let place = self.names.partition_point(|name| name.0 <= address).checked_sub(1)?;
        let (_, end, name) = &self.names[place];
        (address < *end).then_some(name)
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
        let names =
            PerfMap::parse(b"1000 10 old\n0x2000 20 Foo::bar (int)\nnonsense\n1000 8 new\n");
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
        let found = |path: &Path| PerfMap::at(path, &owners).find(0x1000).map(str::to_owned);
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
        assert_eq!(PerfMap::at(&map, &[ROOT]).find(0x1000), None);
        assert_eq!(PerfMap::at(&map, &[ROOT, 65534]).find(0x1000), Some("name"));
    }
}
