//! The IDs and record layouts of tracepoints, from tracefs.
//!
//! If tracefs is not mounted, as in many small guests, knee creates a detached mount. It is invisible to
//! other processes and ends when knee closes it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::access::SampleError;

/// Mount points of tracefs: its own since Linux 4.1, and that below debugfs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The place of a field in a tracepoint's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    /// The field as a number; `None` if the record is too short.
    pub(super) fn read(&self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match bytes.len() {
            1 => bytes[0].into(),
            2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
            4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

/// The format of a tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Format {
    /// The ID, which opens its events and is the first field of its records.
    pub(super) number: u64,
    fields: Vec<(String, Field)>,
}

impl Format {
    /// Reads the text of a `format` file: Documentation/trace/events.rst, "Event formats".
    fn parse(text: &str) -> Option<Format> {
        let number = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Format { number, fields: text.lines().filter_map(field).collect() })
    }

    pub(super) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(of, _)| of == name).map(|(_, field)| *field)
    }
}

/// A line such as `field:unsigned int flags; offset:16; size:4; signed:0;`, with tabs before each part.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim_start().strip_prefix("field:")?.split(';').map(str::trim);
    let declaration = parts.next()?;
    let declaration = declaration.split('[').next().unwrap_or(declaration);
    let name = declaration.rsplit([' ', '*']).next().filter(|name| !name.is_empty())?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    Some((name.to_owned(), Field { offset, size }))
}

/// Tracefs, mounted or detached.
#[derive(Debug)]
pub(super) struct Tracefs {
    directory: OwnedFd,
}

impl Tracefs {
    pub(super) fn open() -> Result<Tracefs, SampleError> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH;
        for place in PLACES {
            match open(format!("{place}/events"), flags, Mode::empty()) {
                Ok(_) => {
                    let directory = open(place, flags, Mode::empty());
                    return directory.map(|directory| Tracefs { directory }).map_err(hidden);
                }
                Err(Errno::ACCESS | Errno::PERM) if place == PLACES[0] => {
                    return Err(hidden(Errno::ACCESS));
                }
                Err(_) => {}
            }
        }
        detached().map(|directory| Tracefs { directory }).map_err(unmounted)
    }

    /// The format of a tracepoint such as `lock/contention_begin`; `None` if it does not exist.
    pub(super) fn format(&self, tracepoint: &str) -> Result<Option<Format>, SampleError> {
        let path = format!("events/{tracepoint}/format");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = match openat(self.directory.as_fd(), path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(hidden(error)),
        };
        let text = io::read_to_string(File::from(file))
            .map_err(|error| hidden(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Ok(Format::parse(&text))
    }
}

/// Creates a detached mount of tracefs: fsopen(2), fsmount(2), Linux 5.2.
fn detached() -> rustix::io::Result<OwnedFd> {
    let tracefs = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(tracefs.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    fsmount(tracefs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn hidden(error: Errno) -> SampleError {
    let remedy = format!(
        "not permitted to read {0}: run knee as root, or, as root, `mount -o remount,mode=755 {0}`",
        PLACES[0]
    );
    SampleError::Tracefs { remedy, error: io::Error::from(error) }
}

fn unmounted(error: Errno) -> SampleError {
    let remedy = match error {
        Errno::NODEV => "this kernel has no tracefs (CONFIG_TRACING)".to_owned(),
        _ => format!(
            "not permitted to mount tracefs: run knee as root, or, as root, `mount -t tracefs -o \
             mode=755 none {}`",
            PLACES[0]
        ),
    };
    SampleError::Tracefs { remedy, error: io::Error::from(error) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// From Linux 6.18.
    const BEGIN: &str = "name: contention_begin\nID: 408\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%p (flags=%s)\", REC->lock_addr, __print_flags(REC->flags)\n";

    #[test]
    fn a_format_gives_the_place_of_each_field() {
        let format = Format::parse(BEGIN).unwrap();
        assert_eq!(format.number, 408);
        assert_eq!(format.field("lock_addr"), Some(Field { offset: 8, size: 8 }));
        assert_eq!(format.field("nothing"), None);
        let mut raw = vec![0; 20];
        raw[16..].copy_from_slice(&0x22_u32.to_ne_bytes());
        assert_eq!(format.field("flags").unwrap().read(&raw), Some(0x22));
        assert_eq!(format.field("flags").unwrap().read(&raw[..19]), None, "it is truncated");
    }

    #[test]
    fn arrays_and_pointers_have_names() {
        let name = |declaration: &str| {
            field(&format!("\tfield:{declaration};\toffset:8;\tsize:16;\tsigned:0;")).unwrap().0
        };
        assert_eq!(name("char comm[16]"), "comm");
        assert_eq!(name("const char *name"), "name");
    }

    #[test]
    fn tracefs_is_readable_mounted_or_detached() {
        let formats =
            [Tracefs::open(), detached().map(|directory| Tracefs { directory }).map_err(unmounted)]
                .map(|tracefs| tracefs.and_then(|tracefs| tracefs.format("sched/sched_switch")));
        match formats {
            [Ok(mounted), Ok(detached)] => assert_eq!(mounted, detached),
            [_, Err(error)] | [Err(error), _] => knee_host::skip::skip("sampling", error),
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(field:|offset:|size:|ID:|[a-z0-9 *;\\[\\]\t\n]){0,60}") {
            if let Some(format) = Format::parse(&text) {
                format.fields.iter().for_each(|(_, field)| {
                    let _ = field.read(&[0; 64]);
                });
            }
        }

        #[test]
        fn every_field_of_a_format_is_read(
            number in any::<u16>(),
            fields in prop::collection::vec(("[a-z_]{1,12}", 0_usize..4000, 0_usize..16), 0..10),
        ) {
            let mut text = format!("name: some\nID: {number}\nformat:\n");
            for (name, offset, size) in &fields {
                text += &format!("\tfield:int {name};\toffset:{offset};\tsize:{size};\tsigned:1;\n");
            }
            let format = Format::parse(&text).unwrap();
            prop_assert_eq!(format.number, u64::from(number));
            let expected: Vec<_> = fields
                .into_iter()
                .map(|(name, offset, size)| (name, Field { offset, size }))
                .collect();
            prop_assert_eq!(format.fields, expected);
        }
    }
}
