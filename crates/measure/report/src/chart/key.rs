//! Samples of the elements of charts, for legends.

use maud::Markup;

use super::drawing::{Drawing, MARKER_COUNT, Path};

const SIZE: (f64, f64) = (26.0, 12.0);

/// The markers that all drawings of a page refer to.
pub(crate) fn markers() -> Markup {
    let mut drawing = Drawing::decoration("markers", (0.0, 0.0));
    drawing.define_markers();
    drawing.finish()
}

/// The class that gives a drawing the colour, dash and marker of a run.
pub(crate) fn run_class(run: usize) -> String {
    format!("r{}", run % MARKER_COUNT)
}

/// The line and the marker of a run, to show beside its name.
pub(crate) fn swatch(run: usize) -> Markup {
    let mut line = Path::default();
    line.move_to(0.0, SIZE.1 / 2.0).horizontal_to(SIZE.0 / 2.0).horizontal_to(SIZE.0);
    let mut drawing = Drawing::decoration("key", SIZE);
    drawing.group(&run_class(run), &[("line", &line)]);
    drawing.finish()
}

/// A sample of the chart element with `class`.
pub(crate) fn sample(class: &str) -> Markup {
    let (width, height) = SIZE;
    let (x, y) = (width / 2.0, height / 2.0);
    let mut drawing = Drawing::decoration("key", SIZE);
    let mut path = Path::default();
    match class {
        "median" => {
            let mut interval = Path::default();
            interval.move_to(x, 0.0).vertical_to(height);
            drawing.path("interval", &interval);
            path.marker(0, x, y);
        }
        "rounds" => {
            path.dot(x - 6.0, y).dot(x, y - 2.0).dot(x + 6.0, y + 1.0);
        }
        "knee" => {
            path.move_to(x, 0.0).vertical_to(height);
        }
        "gap" => {
            path.cross(x, y, 4.0);
        }
        "disturbed" => {
            path.disturbed(x, y);
        }
        "implausible" => {
            let mut marker = Path::default();
            marker.marker(0, x, y);
            drawing.path("median", &marker);
            path.ring(x, y);
        }
        "band" => {
            path.move_to(2.0, 1.0).horizontal_to(width - 2.0).vertical_to(height - 1.0);
            path.horizontal_to(2.0).close();
        }
        "bound" => {
            path.move_to(x - 5.0, 1.5).horizontal_to(x + 5.0).move_to(x, 1.5).vertical_to(10.5);
            path.move_to(x - 3.0, 7.5).line_to(x, 10.5).line_to(x + 3.0, 7.5);
        }
        "user" | "system" | "idle" => {
            path.move_to(x, 0.0).vertical_to(height);
            drawing.open_group("cpu");
            drawing.wide_path(class, height, &path);
            drawing.close_group();
            return drawing.finish();
        }
        _ => {
            path.move_to(0.0, y).horizontal_to(width);
        }
    }
    drawing.path(class, &path);
    drawing.finish()
}
