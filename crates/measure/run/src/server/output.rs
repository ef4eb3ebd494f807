//! What a load on another host prints.

/// The line that the load prints when it begins.
pub const BEGUN: &str = "knee-load begun";
/// The line before the CPU times of the load.
const ENDED: &str = "knee-load ended";

/// The most characters of a quoted text: about three lines of a thousand.
pub(super) const LONGEST_QUOTED: usize = 3000;

/// A text of another host: cut, and in quotation marks, so that it is not taken for a text of knee.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(LONGEST_QUOTED).collect::<String>())
}

/// CPU seconds of a load that has ended, from its output. `None` if the output does not contain them.
pub(super) fn cpu_seconds(output: &[u8]) -> Option<f64> {
    let text = String::from_utf8_lossy(output);
    let (_, times) = text.rsplit_once(&format!("{ENDED}\n"))?;
    let (user, system) = times.lines().nth(1)?.split_once(' ')?;
    Some(seconds(user)? + seconds(system)?)
}

/// The seconds of a time such as `1m2.500000s`. A shell may print a decimal comma.
fn seconds(time: &str) -> Option<f64> {
    let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
    let seconds: f64 = seconds.replace(',', ".").parse().ok()?;
    let total = f64::from(minutes.parse::<u32>().ok()?) * 60.0 + seconds;
    (total >= 0.0 && total.is_finite()).then_some(total)
}

/// What a load printed itself. `None` if it has not begun. If `has_lost_beginning`, the beginning of the output is
/// missing, and the load began in it.
pub(super) fn of_load(printed: &[u8], has_lost_beginning: bool) -> Option<&[u8]> {
    let lines = printed.split_inclusive(|&byte| byte == b'\n');
    let mut length = 0;
    let mut after = lines.map(|line| {
        length += line.len();
        (line, length)
    });
    let begun = after.find(|(line, _)| line.strip_suffix(b"\n") == Some(BEGUN.as_bytes()));
    let begin = begun.map(|(_, begin)| begin).or(has_lost_beginning.then_some(0))?;
    let rest = &printed[begin..];
    let ended = format!("\n{ENDED}\n");
    let end = rest.windows(ended.len()).rposition(|window| window == ended.as_bytes());
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_before_the_load_does_not_count() {
        let complete = |printed| of_load(printed, false);
        assert_eq!(complete(b"tps = 1\nknee-load begun\ntps = 2"), Some(&b"tps = 2"[..]));
        assert_eq!(complete(b"tps = 1\n"), None);
        assert_eq!(complete(b"knee-load begun"), None);
    }

    #[test]
    fn a_load_whose_beginning_is_lost_has_begun() {
        let printed = b"tps = 2\n\nknee-load ended\n0m0s 0m0s\n0m1s 0m1s\n";
        assert_eq!(of_load(printed, true), Some(&b"tps = 2\n"[..]));
    }

    #[test]
    fn cpu_times_have_minutes_and_seconds() {
        let times =
            |second: &str| cpu_seconds(format!("{ENDED}\n0m0s 0m0s\n{second}\n").as_bytes());
        assert_eq!(times("1m2.500000s 0m0.25s"), Some(62.75));
        assert_eq!(times("0m0,500s 0m0,000s"), Some(0.5));
        for wrong in ["", "1m-90s 0m0s", "1 2", "0mNaNs 0m0s", "0minfs 0m0s"] {
            assert_eq!(times(wrong), None, "{wrong}");
        }
    }
}
