//! Writes a record in such a way that at most the test in progress is lost if knee is killed.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use knee_host::lock_file::LOCK_FILE;
use knee_host::text::escape_json;
use knee_host::{LockFile, OwnDirectory, RegularFile, write_atomically};

use rustix::fs::OFlags;

use super::reader::{Allowance, is_absence, is_record, parse_tests, read_check_in};
use super::{CHECK_FILE, Check, FindingsError, TESTS_FILE, TestLine};

/// A record that is being written. It is locked against other writers.
pub struct Writer {
    place: Place,
    check: Check,
    tests: File,
    /// Length of the complete lines in `tests`, in bytes.
    length: u64,
    written: usize,
    /// What may still be written, so that knee can read the record again.
    left: Allowance,
}

impl Writer {
    /// Creates a directory with a record that contains no tests yet.
    ///
    /// # Errors
    /// If the path exists and is neither an empty directory nor a record without tests, or if the
    /// record cannot be written.
    pub fn create(dir: &Path, check: Check) -> Result<Self, FindingsError> {
        OwnDirectory::create(dir).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => FindingsError::Foreign(dir.to_owned()),
            _ => FindingsError::write(dir)(error),
        })?;
        let place = Place::lock(dir)?;
        let is_record = is_record(&place.open.path());
        // A record without tests is left behind if no guest could be started.
        let has_tests = || fs::metadata(place.path(TESTS_FILE)).is_ok_and(|file| file.len() > 0);
        let is_lock = |entry: &DirEntry| entry.file_name() == LOCK_FILE;
        let is_foreign = |entry: io::Result<DirEntry>| !entry.as_ref().is_ok_and(is_lock);
        let mut entries = fs::read_dir(place.open.path()).map_err(FindingsError::read(dir))?;
        if is_record && has_tests() {
            return Err(FindingsError::Exists(dir.to_owned()));
        } else if !is_record && entries.any(is_foreign) {
            return Err(FindingsError::Foreign(dir.to_owned()));
        }
        place.describe(&check)?;
        let tests = place.open_tests()?;
        let left = Allowance::default();
        Ok(Self { place, check, tests, length: 0, written: 0, left })
    }

    /// Continues a record, which must belong to the check and the shard that `check` describes. Also returns
    /// the tests that the record already contains. The record's description still names the versions of QEMU
    /// and of the plugin with which the record began.
    ///
    /// # Errors
    /// If there is no record, if it belongs to another check or shard, if another knee process is
    /// writing it, or if one of its complete lines is invalid.
    pub fn resume(dir: &Path, check: &Check) -> Result<(Self, Vec<TestLine>), FindingsError> {
        let place = Place::lock(dir)?;
        let path = place.path(CHECK_FILE);
        let mut here = read_check_in(RegularFile::at(&path).own().without_links(), dir)?;
        let other_shard = || {
            let [is, not] = [here.shard, check.shard];
            (is != not).then(|| format!("it is shard {is}, not {not}"))
        };
        if let Some(difference) = here.difference(check).or_else(other_shard) {
            return Err(FindingsError::OtherCheck { dir: dir.to_owned(), difference });
        }
        let named = place.named(TESTS_FILE);
        let path = place.path(TESTS_FILE);
        let text = RegularFile::at(&path).own().without_links().read();
        let mut left = Allowance::default();
        let (lines, length) = parse_tests(text, &named, &mut left)?;
        left.take_bytes(length).map_err(too_large(&named))?;
        let tests = place.open_tests()?;
        tests.set_len(length).map_err(FindingsError::write(&named))?;
        here.complete = false;
        here.ended = None;
        let written = lines.len();
        place.describe(&here)?;
        Ok((Self { place, check: here, tests, length, written, left }, lines))
    }

    /// The description of the check.
    pub fn check(&self) -> &Check {
        &self.check
    }

    /// Adds a test.
    ///
    /// # Errors
    /// If the record cannot be written, or would be too large to be read.
    pub fn append(&mut self, line: &TestLine) -> Result<(), FindingsError> {
        let text = line.to_line();
        let path = self.place.named(TESTS_FILE);
        let taken = self.left.take(line).and_then(|()| self.left.take_bytes(text.len() as u64));
        taken.map_err(too_large(&path))?;
        if let Err(error) = self.tests.write_all(text.as_bytes()) {
            // Remove the fragment that a partial write leaves, for example on a full disk. Otherwise,
            // the next line would be appended to this fragment.
            let _ = self.tests.set_len(self.length);
            return Err(FindingsError::write(&path)(error));
        }
        self.length += text.len() as u64;
        self.written += 1;
        Ok(())
    }

    /// Ends the record. `ended` is the current time. The record is complete if every test of the shard
    /// has a line.
    pub fn end(mut self, ended: String) -> Result<(), FindingsError> {
        let path = self.place.named(TESTS_FILE);
        self.tests.sync_data().map_err(FindingsError::write(&path))?;
        self.check.complete = self.written == self.check.expected();
        self.check.ended = Some(ended);
        self.place.describe(&self.check)
    }
}

/// The error for a record that knee could not read again.
fn too_large(path: &Path) -> impl FnOnce(String) -> FindingsError + '_ {
    |reason| FindingsError::write(path)(io::Error::other(reason))
}

/// The locked directory of a record.
struct Place {
    /// Its path, for messages.
    dir: PathBuf,
    /// Declared before `open`, so that it is dropped first: the lock file is removed through the open
    /// directory.
    _lock: LockFile,
    open: OwnDirectory,
}

impl Place {
    /// Locks a record. Refuses a directory in which another user could replace the files of the record.
    fn lock(dir: &Path) -> Result<Self, FindingsError> {
        let open = OwnDirectory::open(dir).map_err(|error| match is_absence(&error) {
            true => FindingsError::NoRecord(dir.to_owned()),
            false => FindingsError::write(dir)(error.into()),
        })?;
        let lock = LockFile::take(&open.path()).map_err(FindingsError::write(dir))?;
        let lock = lock.ok_or_else(|| FindingsError::InUse(dir.to_owned()))?;
        Ok(Self { dir: dir.to_owned(), _lock: lock, open })
    }

    /// A path to a file in the open directory. It stays valid even if the directory is moved or replaced.
    fn path(&self, name: &str) -> PathBuf {
        self.open.path().join(name)
    }

    /// The path of a file, for messages.
    fn named(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn describe(&self, check: &Check) -> Result<(), FindingsError> {
        let text = serde_json::to_string_pretty(check).expect("it is plain data") + "\n";
        write_atomically(&self.path(CHECK_FILE), escape_json(&text).as_bytes())
            .map_err(FindingsError::write(&self.named(CHECK_FILE)))
    }

    /// Opens the file of tests. Creates the file if it is missing, because knee may have been killed
    /// before it created the file.
    fn open_tests(&self) -> Result<File, FindingsError> {
        let mut options = OpenOptions::new();
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        options.create(true).append(true).mode(0o644).custom_flags(flags);
        options.open(self.path(TESTS_FILE)).map_err(FindingsError::write(&self.named(TESTS_FILE)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use knee_host::skip::skip;
    use rustix::fs::{FlockOperation, flock};
    use rustix::process::geteuid;

    use super::super::samples::{check, free, kernel};
    use super::super::{Findings, Shard};
    use super::*;

    const IDS: [&str; 3] = ["a,b/0", "a,b/1", "a,b/2"];

    fn resume(dir: &Path, check: &Check) -> Result<Vec<String>, String> {
        let resumed = Writer::resume(dir, check);
        let ids = |lines: Vec<TestLine>| lines.into_iter().map(|line| line.test).collect();
        resumed.map(|(_, done)| ids(done)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_record_that_would_be_too_large_to_be_read_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("record");
        let mut writer = Writer::create(&dir, check(Shard { index: 1, of: 1 }, &IDS)).unwrap();
        let line = free(IDS[0]);
        let length = line.to_line().len() as u64;
        writer.left = Allowance::of_bytes(2 * length - 1);
        writer.append(&line).unwrap();
        let error = writer.append(&free(IDS[1])).unwrap_err().to_string();
        assert!(
            error.ends_with("larger than 512 MiB, the maximum that knee reads; check fewer tests"),
            "{error}"
        );
        assert_eq!(Findings::open(&dir).unwrap().tests, [line]);
    }

    #[test]
    fn a_record_is_read_as_written_and_is_complete_after_its_last_test() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("new/record");
        let check = check(Shard { index: 1, of: 2 }, &IDS);
        let mut writer = Writer::create(&dir, check.clone()).unwrap();
        writer.append(&free(IDS[0])).unwrap();
        assert_eq!(Findings::open(&dir).unwrap().check, check);
        writer.append(&free(IDS[2])).unwrap();
        writer.end("2026-11-21T10:00:00Z".to_owned()).unwrap();
        let findings = Findings::open(&dir).unwrap();
        assert_eq!(findings.tests, [free(IDS[0]), free(IDS[2])]);
        assert!(findings.check.complete && findings.check.ended.is_some());
    }

    #[test]
    fn the_record_of_a_killed_knee_continues_after_its_last_complete_line() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("record");
        let check = check(Shard::WHOLE, &IDS);
        let mut writer = Writer::create(&dir, check.clone()).unwrap();
        writer.append(&free(IDS[0])).unwrap();
        drop(writer);
        let torn = free(IDS[1]).to_line();
        let mut tests = OpenOptions::new().append(true).open(dir.join(TESTS_FILE)).unwrap();
        tests.write_all(&torn.as_bytes()[..20]).unwrap();
        let (mut writer, done) = Writer::resume(&dir, &check).unwrap();
        assert_eq!(done, [free(IDS[0])]);
        for id in &IDS[1..] {
            writer.append(&free(id)).unwrap();
        }
        writer.end("later".to_owned()).unwrap();
        let findings = Findings::open(&dir).unwrap();
        assert_eq!(findings.tests, IDS.map(free));
        assert!(findings.check.complete);
    }

    #[test]
    fn a_record_of_another_check_is_not_resumed() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("record");
        let one = check(Shard::WHOLE, &IDS);
        drop(Writer::create(&dir, one.clone()).unwrap());
        let message = resume(&dir, &check(Shard::WHOLE, &IDS[..2])).unwrap_err();
        assert!(
            message.contains("cannot be resumed: the number of tests is 3, not 2"),
            "{message}"
        );
        let mut other = one.clone();
        other.tested = kernel("6.12");
        let message = resume(&dir, &other).unwrap_err();
        assert!(message.contains("the kernel is 6.1.0-test, not 6.12"), "{message}");
        assert_eq!(resume(&dir, &one), Ok(vec![]));
        let halves = [1, 2].map(|index| check(Shard { index, of: 2 }, &IDS));
        drop(Writer::create(&scratch.path().join("half"), halves[0].clone()).unwrap());
        let message = resume(&scratch.path().join("half"), &halves[1]).unwrap_err();
        assert!(message.contains("it is shard 1/2, not 2/2"), "{message}");
    }

    #[test]
    fn no_record_begins_in_a_directory_that_others_can_change_or_behind_their_link() {
        let scratch = tempfile::tempdir().unwrap();
        let [own, link] = ["own", "link"].map(|name| scratch.path().join(name));
        let refusal = |dir: &Path| match Writer::create(dir, check(Shard::WHOLE, &IDS)) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("a record begins in {}", dir.display()),
        };
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
        assert!(refusal(&own).contains("other users can write to it"));
        fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
        if !geteuid().is_root() {
            return skip("root", "only root can give a link to another user");
        }
        symlink(&own, &link).unwrap();
        lchown(&link, Some(65534), None).unwrap();
        assert!(refusal(&link).contains("it belongs to user 65534"));
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
    }

    #[test]
    fn a_record_is_written_where_it_was_locked_even_if_another_directory_takes_its_place() {
        let scratch = tempfile::tempdir().unwrap();
        let [dir, moved] = ["record", "moved"].map(|name| scratch.path().join(name));
        let mut writer = Writer::create(&dir, check(Shard::WHOLE, &IDS[..1])).unwrap();
        fs::rename(&dir, &moved).unwrap();
        fs::create_dir(&dir).unwrap();
        writer.append(&free(IDS[0])).unwrap();
        writer.end("later".to_owned()).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        assert!(Findings::open(&moved).unwrap().check.complete);
        assert!(!moved.join(LOCK_FILE).exists());
    }

    #[test]
    fn a_user_who_may_read_a_record_cannot_keep_it_locked() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("record");
        let check = check(Shard::WHOLE, &IDS);
        drop(Writer::create(&dir, check.clone()).unwrap());
        let files = [dir.clone(), dir.join(TESTS_FILE)].map(|path| File::open(path).unwrap());
        for file in &files {
            flock(file, FlockOperation::NonBlockingLockShared).unwrap();
        }
        assert_eq!(resume(&dir, &check), Ok(vec![]));
    }

    #[test]
    fn nothing_is_overwritten_and_only_one_writer_is_allowed() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("record");
        let check = check(Shard::WHOLE, &IDS);
        let create = |dir: &Path| Writer::create(dir, check.clone()).map(drop);
        let open = Writer::create(&dir, check.clone()).unwrap();
        let message = resume(&dir, &check).unwrap_err();
        assert!(message.starts_with("another knee is writing"), "{message}");
        drop(open);
        create(&dir).expect("it has no test yet");
        let (mut open, _) = Writer::resume(&dir, &check).unwrap();
        open.append(&free(IDS[0])).unwrap();
        drop(open);
        let message = create(&dir).unwrap_err().to_string();
        assert!(message.contains("already exists; continue it with --resume"), "{message}");
        let file = scratch.path().join("file");
        fs::write(&file, "mine").unwrap();
        assert!(create(&file).unwrap_err().to_string().contains("and is not a record"));
        fs::create_dir(scratch.path().join("other")).unwrap();
        fs::write(scratch.path().join("other/file"), "mine").unwrap();
        assert!(create(&scratch.path().join("other")).is_err());
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        let message = resume(&scratch.path().join("none"), &check).unwrap_err();
        assert!(message.contains("is not a record of knee commute check"), "{message}");
    }
}
