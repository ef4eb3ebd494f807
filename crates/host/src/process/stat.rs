//! The processes and threads in `/proc`, and the line of each in its file `stat`.

use std::{fs, io};

/// The numbers of the processes in the directory `/proc`, or of the threads in `/proc/PID/task`.
///
/// # Errors
/// The directory cannot be read.
pub fn numbers(directory: &str) -> io::Result<Vec<i32>> {
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(fs::read_dir(directory)?.filter_map(number).collect())
}

/// All visible processes, with their numbers.
pub fn processes() -> Vec<(i32, Stat)> {
    let pids = numbers("/proc").unwrap_or_default();
    pids.into_iter().filter_map(|pid| Some((pid, Stat::read(pid)?))).collect()
}

/// The fields of a process, by their numbers in proc_pid_stat(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Field 2: the name of its program, without the parentheses. It may contain anything.
    pub name: String,
    /// The fields from number 3 on.
    fields: Vec<String>,
}

impl Stat {
    /// The fields of the process `pid`; `None` if there is no such process.
    pub fn read(pid: i32) -> Option<Self> {
        Self::read_at(&format!("/proc/{pid}/stat"))
    }

    /// The fields of a thread of the process `pid`; `None` if there is no such thread.
    pub fn read_thread(pid: i32, tid: i32) -> Option<Self> {
        Self::read_at(&format!("/proc/{pid}/task/{tid}/stat"))
    }

    fn read_at(path: &str) -> Option<Self> {
        // A process chooses its name, which need not be UTF-8.
        let text = fs::read(path).ok()?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Parses the text of the file.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, fields) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields = fields.split_ascii_whitespace().map(str::to_owned).collect();
        Some(Self { name: name.to_owned(), fields })
    }

    /// Field 3: the state, such as `R` for a thread that runs or waits for a CPU.
    pub fn state(&self) -> Option<&str> {
        self.fields.first().map(String::as_str)
    }

    /// Field 4: the number of its parent; 0 if that is outside the PID namespace.
    pub fn parent(&self) -> Option<i32> {
        i32::try_from(self.number(4)?).ok()
    }

    /// Fields 16 and 17: the CPU time of the children that it has waited for, including theirs, in clock ticks.
    pub fn ticks_of_dead(&self) -> Option<u64> {
        Some(self.number(16)? + self.number(17)?)
    }

    /// The number in the field `number`, which must be greater than 3. `None` if it is missing or
    /// negative.
    pub fn number(&self, number: usize) -> Option<u64> {
        self.fields.get(number - 3)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_may_contain_blanks_and_parentheses() {
        let stat = Stat::parse("7 (a) b (c) R 1 -7").unwrap();
        assert_eq!((stat.name.as_str(), stat.state()), ("a) b (c", Some("R")));
        assert_eq!([4, 5, 6].map(|field| stat.number(field)), [Some(1), None, None]);
        assert_eq!(Stat::parse("7 (a"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn a_thread_whose_name_is_not_utf_8_is_read() {
        let thread = std::thread::spawn(|| {
            rustix::thread::set_name(c"\xffx").unwrap();
            let tid = rustix::thread::gettid().as_raw_pid();
            Stat::read_thread(std::process::id().cast_signed(), tid)
        });
        assert_eq!(thread.join().unwrap().unwrap().name, "\u{fffd}x");
    }

    #[test]
    fn this_process_has_its_parent_in_field_4() {
        let pid = std::process::id().cast_signed();
        let parent = std::os::unix::process::parent_id();
        assert_eq!(Stat::read(pid).unwrap().number(4), Some(parent.into()));
    }
}
