//! Points in time as RFC 3339 text in UTC, whose alphabetical order is the order in time.

use std::time::{SystemTime, UNIX_EPOCH};

/// `time` as `2026-02-28T23:59:59Z`; times before 1970 are shown as its first second.
pub fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil_date(seconds / 86_400);
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date of a day counted from 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last of its year, and in eras of
/// 400 years, which all have 146097 days. Source: Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", `civil_from_days`.
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month = (months_since_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn text(seconds: u64) -> String {
        rfc3339(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn known_times_are_written_as_date_writes_them() {
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(text(1_709_164_800), "2024-02-29T00:00:00Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(text(1_767_225_599), "2025-12-31T23:59:59Z");
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let length = |year, month| match month {
            2 => 28 + u64::from(leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..146_097 {
            assert_eq!(civil_date(days), (year, month, day));
            day += 1;
            if day > length(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
