//! Text and tables: how knee prints results.

#[cfg(feature = "prove")]
pub(crate) mod commute;
pub(crate) mod compared;
mod csv;
pub(crate) mod enumeration;
mod failures;
pub(crate) mod fit;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod json;
pub(crate) mod left_running;
pub(crate) mod load;
#[cfg(feature = "explain")]
pub(crate) mod machine;
pub(crate) mod notes;
pub(crate) mod page;
pub(crate) mod predict;
#[cfg(feature = "explain")]
pub(crate) mod profile;
pub(crate) mod progress;
mod sparkline;
pub(crate) mod style;
pub(crate) mod table;
mod view;
pub(crate) mod warnings;
pub(crate) mod will_it_scale;

use std::io::Write;

use knee_run::record::Record;

use self::csv::Separator;

pub(crate) use self::view::{Format, View};

/// Prints `record` as `view` specifies.
///
/// # Errors
/// If rounds are missing from the record. The remaining rounds are printed first.
pub(crate) fn render(record: &Record, view: &View<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let finished = record.rounds_left()?;
    let curves = record.run.curves(&finished);
    match view.format {
        Format::Human => out.write_all(table::render(record, &curves, view).as_bytes())?,
        Format::Json => json::render(record, &curves, view.knee, out)?,
        Format::Csv | Format::Tsv => {
            let comma = view.format == Format::Csv;
            let separator = if comma { Separator::Comma } else { Separator::Tab };
            let table = match view.by_round {
                true => csv::rounds(&curves, &finished, separator),
                false => csv::points(&curves, separator),
            };
            out.write_all(table.as_bytes())?;
        }
        Format::WillItScaleCsv => {
            out.write_all(will_it_scale::csv::render(&curves).as_bytes())?;
        }
        Format::WillItScale => will_it_scale::render(record, &finished, out)?,
    }
    match record.lacking(&finished) {
        None => Ok(()),
        Some(lacking) => {
            out.flush()?;
            Err(lacking.into())
        }
    }
}

#[cfg(test)]
mod tests;
