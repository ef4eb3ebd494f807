//! The code mappings of each process at each time.
//!
//! A process can change its mappings as often as it likes, and samples refer to the mappings at their time. So the
//! memory that they take has limits.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::rc::Rc;

use super::areas::{Areas, CodeFile, FileId, Mapped};

/// The maps of a stack without user space.
pub(super) const NO_MAPS: u32 = u32::MAX;

/// About how many bytes an area takes.
const AREA_BYTES: usize = 64;
/// With so many bytes of kept maps and new paths, stacks get names early, so that the maps can be dropped.
const KEPT_BYTES: usize = 64 << 20;
/// Maximum areas of all maps: 256 MiB. A machine with 10,000 processes of 100 libraries has a million.
const MOST_AREAS: usize = 4 << 20;
/// Maximum bytes of all paths. This and the limit of areas leave room for what is mapped now, besides what is kept.
const MOST_PATHS: usize = 128 << 20;
/// Maximum bytes of `/proc/PID/maps`. By default, a process has at most 65,530 mappings (`vm.max_map_count`), so
/// each of them may take 1,000 bytes.
const MOST_TEXT: usize = 64 << 20;

/// The place of an address in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: Rc<str>,
    pub(crate) id: Option<FileId>,
    pub(crate) offset: u64,
    /// The process that mapped it first. A just-in-time compiler writes its names under this PID.
    pub(crate) pid: i32,
}

/// The code that a process has mapped. A forked process shares its parent's maps until one of them changes.
#[derive(Debug, Clone)]
struct Maps {
    pid: i32,
    /// The number in [`Spaces::kept`], if samples refer to it.
    kept: Cell<Option<u32>>,
    areas: Areas,
}

impl Maps {
    fn new(pid: i32, total: &Rc<Cell<usize>>) -> Rc<Maps> {
        Rc::new(Maps { pid, kept: Cell::new(None), areas: Areas::none(total) })
    }
}

/// The code of all processes.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    current: HashMap<i32, Rc<Maps>>,
    /// Thread counts of processes that have had more than one thread.
    threads: HashMap<i32, usize>,
    /// The maps of samples, by number.
    kept: HashMap<u32, Rc<Maps>>,
    /// The number of the next kept maps.
    next: u32,
    /// All mapped paths, to keep each in memory once.
    files: HashSet<Rc<str>>,
    /// The bytes of these paths.
    path_bytes: usize,
    /// About how many bytes [`Spaces::forget`] frees at most.
    kept_bytes: usize,
    /// The areas of all maps.
    total: Rc<Cell<usize>>,
    /// How many areas were left out because there are too many.
    left_out: u64,
}

impl Spaces {
    /// Whether stacks should get names now, so that maps can be dropped.
    pub(super) fn is_full(&self) -> bool {
        self.kept_bytes >= KEPT_BYTES
    }

    /// How many areas were left out because they take too much memory.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The areas of all maps.
    #[cfg(test)]
    pub(super) fn areas(&self) -> usize {
        self.total.get()
    }

    pub(crate) fn exec(&mut self, pid: i32) {
        // An exec ends all other threads and gives the PID of the process to the remaining one.
        self.threads.remove(&pid);
        self.current.insert(pid, Maps::new(pid, &self.total));
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

    pub(crate) fn map<'f>(
        &mut self,
        pid: i32,
        area: Range<u64>,
        offset: u64,
        file: impl Into<CodeFile<'f>>,
    ) {
        let CodeFile { path: file, id } = file.into();
        // A damaged record may describe an empty area, which the map refuses.
        if area.is_empty() {
            return;
        }
        let maps = self.current.entry(pid).or_insert_with(|| Maps::new(pid, &self.total));
        // A change of shared maps copies them.
        let copied = if Rc::strong_count(maps) > 1 { maps.areas.len() } else { 0 };
        let known = self.files.get(file).map(Rc::clone);
        let new_bytes = if known.is_none() { file.len() + AREA_BYTES } else { 0 };
        if self.total.get() + copied >= MOST_AREAS || self.path_bytes + new_bytes > MOST_PATHS {
            self.left_out += 1;
            return;
        }
        let file = known.unwrap_or_else(|| Rc::from(file));
        if new_bytes > 0 {
            self.files.insert(Rc::clone(&file));
            self.path_bytes += new_bytes;
            self.kept_bytes += new_bytes;
        }
        let mapped = Mapped { file, id, shift: offset.wrapping_sub(area.start) };
        let maps = Rc::make_mut(maps);
        // Earlier samples refer to the maps before this change.
        maps.kept.set(None);
        maps.areas.insert(area, mapped);
    }

    /// The number of the present maps of a process.
    pub(crate) fn of(&mut self, pid: i32) -> u32 {
        let maps = self.current.entry(pid).or_insert_with(|| Maps::new(pid, &self.total));
        if let Some(number) = maps.kept.get() {
            return number;
        }
        let number = self.next;
        self.next += 1;
        maps.kept.set(Some(number));
        self.kept.insert(number, Rc::clone(maps));
        self.kept_bytes += maps.areas.len() * AREA_BYTES;
        number
    }

    /// The place of an address, by the number of the maps at the time of its sample.
    pub(crate) fn find(&self, maps: u32, address: u64) -> Option<Place> {
        let maps = self.kept.get(&maps)?;
        let Mapped { file, id, shift } = maps.areas.get(address)?;
        let (file, offset) = (file.clone(), address.wrapping_add(*shift));
        Some(Place { file, id: *id, offset, pid: maps.pid })
    }

    /// Drops numbered maps, except those to which samples still refer, and paths that are in no maps any more.
    pub(crate) fn forget(&mut self, is_needed: impl Fn(u32) -> bool) {
        self.kept.retain(|number, _| is_needed(*number));
        for maps in self.current.values() {
            if maps.kept.get().is_some_and(|number| !self.kept.contains_key(&number)) {
                maps.kept.set(None);
            }
        }
        self.files.retain(|file| Rc::strong_count(file) > 1);
        self.path_bytes = self.files.iter().map(|file| file.len() + AREA_BYTES).sum();
        self.kept_bytes = self.kept.values().map(|maps| maps.areas.len() * AREA_BYTES).sum();
    }

    /// Reads the maps of a process that is running already.
    pub(crate) fn read(&mut self, pid: i32) {
        let Ok(text) = read_maps(pid) else { return };
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(1, Iterator::count);
        self.read_text(pid, &text);
        self.threads.insert(pid, threads);
    }

    /// Replaces the maps of a process by the text that [`read_maps`] returns.
    pub(crate) fn read_text(&mut self, pid: i32, mut text: &[u8]) {
        self.current.insert(pid, Maps::new(pid, &self.total));
        if text.len() > MOST_TEXT {
            self.left_out += 1;
            // The last line is incomplete.
            let end = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
            text = &text[..end];
        }
        for line in String::from_utf8_lossy(text).lines() {
            if let Some((area, offset, file)) = executable(line) {
                self.map(pid, area, offset, file);
            }
        }
    }
}

/// The text of `/proc/PID/maps`. If it is too long, it has a byte more than the limit.
pub(crate) fn read_maps(pid: i32) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(format!("/proc/{pid}/maps"))?;
    file.take(MOST_TEXT as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Area, offset and file of a line of `/proc/PID/maps`, if it maps code.
fn executable(line: &str) -> Option<(Range<u64>, u64, CodeFile<'_>)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let area = number(start)?..number(end)?;
    let is_code = words.next()?.as_bytes().get(2) == Some(&b'x');
    let offset = number(words.next()?)?;
    let (device, inode) = (words.next()?, words.next()?);
    let path = words.next()?.trim_start();
    let path = if path.is_empty() { "//anon" } else { path };
    let file_id = || {
        let (major, minor) = device.split_once(':')?;
        let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
        Some(FileId { device, inode: inode.parse().ok()? })
    };
    is_code.then(|| (area, offset, CodeFile { path, id: file_id() }))
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
        let (area, offset, file) = executable(line).unwrap();
        assert_eq!((area, offset), (0x55d0_c8a0_0000..0x55d0_c8a0_2000, 0x2000));
        assert_eq!(file.path, "/usr/bin/a program");
        assert_eq!(file.id, Some(FileId { device: (0xfe, 0), inode: 1234 }));
        let data = "55d0c8a00000-55d0c8a02000 rw-p 00002000 fe:00 1234 /a";
        assert!(executable(data).is_none());
        let (_, _, file) = executable("7f0000000000-7f0000001000 rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!(file.path, "//anon");
        assert!(executable("what is this").is_none());
    }

    #[test]
    fn maps_are_dropped_except_those_to_which_samples_refer() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000..0x2000, 0, "first");
        let first = spaces.of(1);
        spaces.map(1, 0x1000..0x2000, 0, "second");
        let second = spaces.of(1);
        spaces.map(1, 0x1000..0x2000, 0, "third");
        spaces.forget(|number| number == second);
        assert_eq!(found(&spaces, first, 0x1000), None);
        assert_eq!(found(&spaces, second, 0x1000).unwrap().0, "second");
        assert_eq!(spaces.areas(), 2, "those of the second and the third maps");
        assert_eq!(spaces.files.len(), 2);
        let third = spaces.of(1);
        assert_eq!(found(&spaces, third, 0x1000).unwrap().0, "third");
        assert_eq!(spaces.of(1), third);
    }

    #[test]
    fn forked_processes_share_maps_after_their_samples_too() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000..0x2000, 0, "code");
        for child in 2..100 {
            spaces.fork(1, child);
            spaces.of(child);
        }
        spaces.forget(|_| false);
        for child in 2..100 {
            spaces.of(child);
        }
        assert_eq!(spaces.areas(), 1);
    }

    #[test]
    fn areas_beyond_the_limit_are_left_out_and_counted() {
        let mut spaces = Spaces::default();
        let areas = MOST_AREAS as u64 / 16;
        let area = |number: u64| number * 0x2000..number * 0x2000 + 0x1000;
        for number in 0..areas {
            spaces.map(1, area(number), 0, "code");
        }
        // Each child changes one area, and so has maps of its own.
        for child in 2..40 {
            spaces.fork(1, child);
            spaces.map(child, area(areas), 0, "code");
        }
        assert!((MOST_AREAS - areas as usize - 1..=MOST_AREAS).contains(&spaces.areas()));
        assert_eq!(spaces.left_out(), 38 - 14);
        let maps = spaces.of(39);
        assert!(found(&spaces, maps, 0x10).is_some(), "it still has the maps of its parent");
        spaces.current.clear();
        spaces.forget(|_| false);
        assert_eq!(spaces.areas(), 0);
    }

    #[test]
    fn paths_beyond_the_limit_are_left_out_and_unused_ones_are_dropped() {
        let mut spaces = Spaces::default();
        let map = |spaces: &mut Spaces, number: usize| {
            spaces.map(1, 0x1000..0x2000, 0, &*format!("{number}{}", "/".repeat(1 << 20)));
        };
        for number in 0..150 {
            map(&mut spaces, number);
        }
        assert!(spaces.is_full());
        assert!(spaces.path_bytes <= MOST_PATHS && spaces.left_out() > 0);
        spaces.forget(|_| false);
        assert_eq!(spaces.files.len(), 1, "the other files are not mapped any more");
        let left_out = spaces.left_out();
        map(&mut spaces, 150);
        assert_eq!(spaces.left_out(), left_out);
    }

    #[test]
    fn a_list_of_mappings_that_is_too_long_is_cut_and_counted() {
        let mut spaces = Spaces::default();
        let mut text =
            b"1000-2000 r-xp 00000000 fe:00 1 /code\n3000-4000 r-xp 0 fe:00 1 /".to_vec();
        spaces.read_text(1, &text);
        assert_eq!((spaces.areas(), spaces.left_out()), (2, 0));
        text.resize(MOST_TEXT + 1, b'x');
        spaces.read_text(1, &text);
        assert_eq!((spaces.areas(), spaces.left_out()), (1, 1));
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
