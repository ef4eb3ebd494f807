//! Points in time as RFC 3339 text in UTC, whose alphabetical order is the order in time.

use std::time::{SystemTime, UNIX_EPOCH};

/// The present time as `2026-02-28T23:59:59Z`; a clock before 1970 is shown as its first second.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now().max(UNIX_EPOCH)).to_string()
}
