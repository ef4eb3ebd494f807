//! A text plot of data sets as dots, with a bar from mean − deviation to mean + deviation.
//!
//! Every value falls into one of `width` columns; values of one set in one column are stacked.
//! Where dots of several sets coincide, the numbers of the sets are combined bitwise, so that sets
//! 1 and 2 give the symbol of set 3. Below the dots, the bars mark the ends of the deviation (`|`),
//! the median (`M`) and the mean (`A`). A later set overwrites an earlier one.

use super::DataSet;

/// Maximum number of data sets, limited by the number of symbols.
pub const MAX_DATA_SETS: usize = 7;

/// The symbols of the data sets; number 0 is an empty cell.
pub const SYMBOLS: [char; MAX_DATA_SETS + 1] = [' ', 'x', '+', '*', '%', '#', '@', 'O'];

/// Initial bound of the range. ministat begins here instead of at infinity, which affects plots of
/// greater values.
const FARTHEST: f64 = 999e99;

/// ministat counts the cells of a plot in a C `int`.
const MAX_CELLS: usize = i32::MAX as usize;

/// Why there is no plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlotError {
    /// A value, a mean or a deviation is infinite or NaN, or the range is.
    #[error("the range of the values does not fit a plot of width {0}")]
    NoRange(u16),
    /// Too many values in one column for a plot of this width.
    #[error("too many values fall into one column; the plot would exceed 2 GiB")]
    TooHigh,
}

/// The plot of up to [`MAX_DATA_SETS`] sets, `width` columns wide. If `separate`, the bar of each
/// set is on a separate line. If all values are equal, the text says that there is no plot.
///
/// # Errors
/// In the cases in which ministat crashes.
///
/// # Panics
/// If there are too many sets.
pub fn plot(sets: &[&DataSet], width: u16, separate: bool) -> Result<String, PlotError> {
    assert!(sets.len() <= MAX_DATA_SETS, "no symbol for set {}", sets.len());
    let axis = Axis::new(sets, width);
    if axis.span == 0.0 {
        return Ok("[no plot, span is zero width]\n".to_owned());
    }
    let mut dots = Dots { width: usize::from(width), height: 0, cells: Vec::new() };
    let mut bars = vec![vec![b' '; dots.width]; if separate { sets.len() } else { 1 }];
    for (index, set) in sets.iter().enumerate() {
        dots.add(set, index as u8 + 1, &axis)?;
        draw_bar(&mut bars[if separate { index } else { 0 }], set, &axis)?;
    }
    let border = format!("+{}+\n", "-".repeat(dots.width));
    let mut text = border.clone();
    for row in dots.rows() {
        text.push('|');
        text.extend(row.iter().map(|&number| SYMBOLS[usize::from(number)]));
        text.push_str("|\n");
    }
    for bar in &bars {
        text.push('|');
        text.extend(bar.iter().map(|&mark| char::from(mark)));
        text.push_str("|\n");
    }
    Ok(text + &border)
}

/// The horizontal axis.
struct Axis {
    width: u16,
    /// The greatest minus the least value to show.
    span: f64,
    /// The left edge of the first column, whose middle is the least value.
    origin: f64,
    /// The width of a column.
    step: f64,
}

impl Axis {
    fn new(sets: &[&DataSet], width: u16) -> Self {
        let (mut least, mut greatest) = (FARTHEST, -FARTHEST);
        for set in sets {
            let (mean, deviation) = (set.mean(), set.deviation());
            for end in [set.min(), set.max(), mean - deviation, mean + deviation] {
                // NaN changes neither.
                least = least.min(end);
                greatest = greatest.max(end);
            }
        }
        let span = greatest - least;
        let step = span / (f64::from(width) - 1.0);
        Self { width, span, origin: least - 0.5 * step, step }
    }

    /// The column of a value. Rounding can put a value beyond the border if the range is only a few
    /// units in the last place wide, and the mean in other cases too.
    fn column(&self, value: f64) -> Result<i32, PlotError> {
        let column = (value - self.origin) / self.step;
        if column.abs() < f64::from(i32::MAX) {
            Ok(column as i32)
        } else {
            Err(PlotError::NoRange(self.width))
        }
    }
}

/// The dots of all sets so far.
struct Dots {
    width: usize,
    height: usize,
    /// Row by row from the bottom, with a hidden row below the first. A dot beyond the border lies
    /// in the previous or the next row, as in ministat.
    cells: Vec<u8>,
}

impl Dots {
    fn add(&mut self, set: &DataSet, number: u8, axis: &Axis) -> Result<(), PlotError> {
        let columns: Vec<i32> =
            set.sorted().iter().map(|&value| axis.column(value)).collect::<Result<_, _>>()?;
        let stacks = || columns.chunk_by(|a, b| a == b);
        // As in ministat, the last set determines the height, which can hide dots of earlier sets.
        self.height = stacks().map(<[i32]>::len).max().unwrap_or(0);
        let cells = (self.height + 1) * self.width;
        if cells > MAX_CELLS {
            return Err(PlotError::TooHigh);
        }
        self.cells.resize(cells, 0);
        for stack in stacks() {
            for (below, &column) in stack.iter().enumerate() {
                let cell = ((below + 1) * self.width).checked_add_signed(column as isize);
                if let Some(cell) = cell.and_then(|cell| self.cells.get_mut(cell)) {
                    *cell |= number;
                }
            }
        }
        Ok(())
    }

    /// The rows from the top.
    fn rows(&self) -> impl Iterator<Item = &[u8]> {
        (1..=self.height).rev().map(|row| &self.cells[row * self.width..][..self.width])
    }
}

fn draw_bar(bar: &mut [u8], set: &DataSet, axis: &Axis) -> Result<(), PlotError> {
    let (mean, deviation) = (set.mean(), set.deviation());
    if !deviation.is_nan() {
        let (left, right) = (axis.column(mean - deviation)?, axis.column(mean + deviation)?);
        put(bar, right, b'|');
        put(bar, left, b'|');
        for (column, mark) in (0..).zip(bar.iter_mut()) {
            if left < column && column < right && *mark == b' ' {
                *mark = b'_';
            }
        }
    }
    put(bar, axis.column(set.upper_median())?, b'M');
    put(bar, axis.column(mean)?, b'A');
    Ok(())
}

/// Writes a mark, unless it is beyond the border.
fn put(bar: &mut [u8], column: i32, mark: u8) {
    if let Some(place) = usize::try_from(column).ok().and_then(|column| bar.get_mut(column)) {
        *place = mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(values: &[f64]) -> DataSet {
        DataSet::new(values).unwrap()
    }

    #[test]
    fn dots_of_several_sets_are_combined() {
        let sets = [set(&[1.0, 1.0, 2.0, 4.0]), set(&[1.0, 3.0, 4.0])];
        let expected = "\
+----------+
| *  x +  *|
|||__AAM|_||
+----------+
";
        assert_eq!(plot(&[&sets[0], &sets[1]], 10, false).unwrap(), expected);
    }

    #[test]
    fn a_low_set_after_a_high_one_hides_its_upper_dots() {
        let high = set(&[1.0, 1.0, 1.0, 2.0]);
        let low = set(&[1.0, 1.5, 2.0]);
        let lines = |sets: &[&DataSet]| plot(sets, 20, false).unwrap().lines().count();
        assert_eq!(lines(&[&low, &high]), 3 + 3);
        assert_eq!(lines(&[&high, &low]), 3 + 1);
    }

    #[test]
    fn equal_values_have_no_plot() {
        let text = plot(&[&set(&[2.0; 4])], 40, false).unwrap();
        assert_eq!(text, "[no plot, span is zero width]\n");
    }

    #[test]
    fn values_that_span_no_finite_range_are_refused() {
        for values in [[1.0, 2.0, f64::INFINITY], [3.0, f64::NAN, 1.0], [-1e308, 0.0, 1e308]] {
            assert_eq!(
                plot(&[&set(&values)], 40, false),
                Err(PlotError::NoRange(40)),
                "{values:?}"
            );
        }
        assert_eq!(plot(&[&set(&[1.0, 2.0, 3.0])], 1, false), Err(PlotError::NoRange(1)));
    }

    #[test]
    fn a_plot_may_have_no_columns() {
        assert_eq!(plot(&[&set(&[1.0, 2.0, 3.0])], 0, false).unwrap(), "++\n||\n||\n||\n||\n++\n");
    }
}
