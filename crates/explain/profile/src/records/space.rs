//! The code mappings of each process at each time.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::rc::Rc;

use rangemap::RangeMap;

/// The maps of a stack without user space.
pub(super) const NO_MAPS: u32 = u32::MAX;

/// Code that is mapped from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapped {
    /// A path, or the kernel's name for memory without a file.
    file: Rc<str>,
    /// The difference of an offset in the file and its address.
    shift: u64,
}

/// The place of an address in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: Rc<str>,
    pub(crate) offset: u64,
    /// The process that mapped it first. A just-in-time compiler writes its names under this PID.
    pub(crate) pid: i32,
}

/// The code that a process has mapped. A forked process shares its parent's maps until one of them changes.
#[derive(Debug, Clone, Default)]
struct Maps {
    pid: i32,
    /// The index in [`Spaces::kept`], if samples refer to it.
    kept: Option<u32>,
    mapped: RangeMap<u64, Mapped>,
}

impl Maps {
    fn new(pid: i32) -> Rc<Maps> {
        Rc::new(Maps { pid, ..Maps::default() })
    }
}

/// The code of all processes.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    current: HashMap<i32, Rc<Maps>>,
    /// Thread counts of processes that have had more than one thread.
    threads: HashMap<i32, usize>,
    kept: Vec<Rc<Maps>>,
    /// All mapped paths, to keep each in memory once.
    files: HashSet<Rc<str>>,
}

impl Spaces {
    fn change(&mut self, pid: i32) -> &mut Maps {
        let maps = self.current.entry(pid).or_insert_with(|| Maps::new(pid));
        let maps = Rc::make_mut(maps);
        // Earlier samples refer to the maps before this change.
        maps.kept = None;
        maps
    }

    pub(crate) fn exec(&mut self, pid: i32) {
        // An exec ends all other threads and gives the PID of the process to the remaining one.
        self.threads.remove(&pid);
        self.current.insert(pid, Maps::new(pid));
    }

    pub(crate) fn fork(&mut self, from: i32, to: i32) {
        if let Some(maps) = self.current.get(&from) {
            self.current.insert(to, Rc::clone(maps));
        }
    }

    /// A process has started a thread.
    pub(crate) fn thread(&mut self, pid: i32) {
        *self.threads.entry(pid).or_insert(1) += 1;
    }

    /// A thread of a process has ended. The first thread may end before the others.
    pub(crate) fn exit(&mut self, pid: i32) {
        let threads = self.threads.entry(pid).or_insert(1);
        *threads = threads.saturating_sub(1);
        if *threads == 0 {
            self.threads.remove(&pid);
            self.current.remove(&pid);
        }
    }

    pub(crate) fn map(&mut self, pid: i32, area: Range<u64>, offset: u64, file: &str) {
        let file = self.files.get(file).map_or_else(|| Rc::from(file), Rc::clone);
        self.files.insert(Rc::clone(&file));
        let mapped = Mapped { file, shift: offset.wrapping_sub(area.start) };
        // A damaged record may describe an empty area, which the map refuses.
        if !area.is_empty() {
            self.change(pid).mapped.insert(area, mapped);
        }
    }

    /// The number of the present maps of a process.
    pub(crate) fn of(&mut self, pid: i32) -> u32 {
        let maps = self.current.entry(pid).or_insert_with(|| Maps::new(pid));
        if let Some(number) = maps.kept {
            return number;
        }
        let number = self.kept.len() as u32;
        Rc::make_mut(maps).kept = Some(number);
        self.kept.push(Rc::clone(maps));
        number
    }

    /// The place of an address, by the number of the maps at the time of its sample.
    pub(crate) fn find(&self, maps: u32, address: u64) -> Option<Place> {
        let maps = self.kept.get(maps as usize)?;
        let Mapped { file, shift } = maps.mapped.get(&address)?;
        Some(Place { file: file.clone(), offset: address.wrapping_add(*shift), pid: maps.pid })
    }

    /// Drops numbered maps; no sample refers to them any more.
    pub(crate) fn forget_old(&mut self) {
        self.kept.clear();
        for maps in self.current.values_mut() {
            if maps.kept.is_some() {
                Rc::make_mut(maps).kept = None;
            }
        }
    }

    /// Reads the maps of a process that is running already.
    pub(crate) fn read(&mut self, pid: i32) {
        let Ok(text) = fs::read(format!("/proc/{pid}/maps")) else { return };
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(1, Iterator::count);
        self.read_text(pid, &text);
        self.threads.insert(pid, threads);
    }

    /// Replaces the maps of a process by the text of `/proc/PID/maps`.
    pub(crate) fn read_text(&mut self, pid: i32, text: &[u8]) {
        self.current.insert(pid, Maps::new(pid));
        for line in String::from_utf8_lossy(text).lines() {
            if let Some((area, offset, file)) = executable(line) {
                self.map(pid, area, offset, file);
            }
        }
    }
}

/// Area, offset and file of a line of `/proc/PID/maps`, if it maps code.
fn executable(line: &str) -> Option<(Range<u64>, u64, &str)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let area = number(start)?..number(end)?;
    let is_code = words.next()?.as_bytes().get(2) == Some(&b'x');
    let offset = number(words.next()?)?;
    let file = words.nth(2)?.trim_start();
    is_code.then_some((area, offset, if file.is_empty() { "//anon" } else { file }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(spaces: &Spaces, maps: u32, address: u64) -> Option<(String, u64)> {
        spaces.find(maps, address).map(|place| (place.file.to_string(), place.offset))
    }

    #[test]
    fn a_mapping_replaces_the_part_that_it_covers() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000..0x9000, 0x100, "old");
        spaces.map(1, 0x3000..0x4000, 0, "new");
        let maps = spaces.of(1);
        assert_eq!(found(&spaces, maps, 0x2fff), Some(("old".into(), 0x20ff)));
        assert_eq!(found(&spaces, maps, 0x3000), Some(("new".into(), 0)));
        assert_eq!(found(&spaces, maps, 0x4000), Some(("old".into(), 0x3100)));
        assert_eq!(found(&spaces, maps, 0x9000), None);
    }

    #[test]
    fn samples_keep_the_maps_at_their_time() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000..0x2000, 0, "before");
        let before = spaces.of(1);
        assert_eq!(spaces.of(1), before);
        spaces.fork(1, 2);
        assert_eq!(spaces.of(2), before, "a forked process has the same maps");
        spaces.exec(1);
        spaces.map(1, 0x1000..0x2000, 0, "after");
        let after = spaces.of(1);
        assert_eq!(found(&spaces, before, 0x1000).unwrap().0, "before");
        assert_eq!(found(&spaces, after, 0x1000).unwrap().0, "after");
        assert_eq!(spaces.of(2), before);
    }

    #[test]
    fn code_stays_mapped_after_the_first_thread_ends() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000..0x2000, 0, "code");
        spaces.thread(1);
        spaces.exit(1);
        let maps = spaces.of(1);
        assert!(found(&spaces, maps, 0x1000).is_some());
        spaces.exit(1);
        let maps = spaces.of(1);
        assert_eq!(found(&spaces, maps, 0x1000), None);
    }

    #[test]
    fn lines_of_proc_pid_maps_are_parsed() {
        let line = "55d0c8a00000-55d0c8a02000 r-xp 00002000 fe:00 1234   /usr/bin/a program";
        let area = 0x55d0_c8a0_0000..0x55d0_c8a0_2000;
        assert_eq!(executable(line), Some((area, 0x2000, "/usr/bin/a program")));
        assert_eq!(executable("55d0c8a00000-55d0c8a02000 rw-p 00002000 fe:00 1234 /a"), None);
        let (_, _, file) = executable("7f0000000000-7f0000001000 rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!(file, "//anon");
        assert_eq!(executable("what is this"), None);
    }

    #[test]
    fn a_process_that_was_read_lives_until_its_last_thread_ends() {
        let mut spaces = Spaces::default();
        let pid = std::process::id() as i32;
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv());
        spaces.read(pid);
        drop(stop);
        let _ = thread.join().unwrap();
        spaces.exit(pid);
        assert!(spaces.current.contains_key(&pid));
    }

    #[test]
    fn our_own_code_is_found() {
        let mut spaces = Spaces::default();
        let pid = std::process::id() as i32;
        spaces.read(pid);
        let maps = spaces.of(pid);
        let place = spaces.find(maps, our_own_code_is_found as *const () as u64).unwrap();
        assert_eq!(place.file.as_ref(), std::env::current_exe().unwrap().to_str().unwrap());
    }
}
