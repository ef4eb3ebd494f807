//! Files of numbers.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use knee_host::regular_file::{read_named, read_whole};
use knee_host::text::one_line;
use knee_stats::ministat::{DataSet, MIN_VALUES, Reader, Value};

use crate::exit::{ensure_usage, usage};
use crate::stderr::tell;

/// The numbers of one file.
pub(super) struct Numbers {
    /// The file name as the user wrote it, or `<stdin>`, ministat's name for standard input.
    pub(super) name: OsString,
    pub(super) set: DataSet,
    /// The first number that is infinite or NaN.
    pub(super) not_finite: Option<Value>,
}

impl Numbers {
    /// Returns an error if a number is infinite or NaN, because it cannot be a measurement.
    pub(super) fn require_finite(&self) -> anyhow::Result<()> {
        match self.not_finite {
            None => Ok(()),
            Some(Value { line, number }) => {
                let name = self.name.display();
                bail!("{name}: line {line}: {number} is not a finite number")
            }
        }
    }
}

/// Reads the files, or standard input if there are none.
pub(super) fn read_all(files: &[PathBuf], reader: &Reader<'_>) -> anyhow::Result<Vec<Numbers>> {
    let standard_input = [PathBuf::from("-")];
    let files = if files.is_empty() { &standard_input } else { files };
    ensure_usage!(
        files.iter().filter(|file| is_standard_input(file)).count() <= 1,
        "standard input (-) can be read only once"
    );
    files.iter().map(|file| read(file, reader)).collect()
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn read(file: &Path, reader: &Reader<'_>) -> anyhow::Result<Numbers> {
    let (name, text) = if is_standard_input(file) {
        if std::io::stdin().is_terminal() {
            tell!("knee: reading numbers from the terminal, one per line; Ctrl-D ends the input");
        }
        let text = read_whole(std::io::stdin()).context("cannot read standard input")?;
        (OsStr::new("<stdin>"), text)
    } else {
        let text = read_named(file);
        (file.as_os_str(), text.with_context(|| format!("cannot read {}", file.display()))?)
    };
    let values = reader.values(&text).map_err(|bad| anyhow!("{}: {bad}", name.display()))?;
    let numbers: Vec<f64> = values.iter().map(|value| value.number).collect();
    let set = DataSet::new(&numbers).ok_or_else(|| {
        let n = numbers.len();
        let found = if n == 1 { "1 number".to_owned() } else { format!("{n} numbers") };
        usage(format!(
            "{}: {found} in column {}; at least {MIN_VALUES} are required",
            name.display(),
            reader.column
        ))
    })?;
    let not_finite = values.into_iter().find(|value| !value.number.is_finite());
    let name = one_line(&name.to_string_lossy()).into_owned().into();
    Ok(Numbers { name, set, not_finite })
}
