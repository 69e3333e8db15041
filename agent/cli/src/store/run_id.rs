use rand::RngExt;
use time::OffsetDateTime;
use time::macros::format_description;

/// UTC time and a short random part: ids sort by time, and two runs of one second differ.
pub fn new_run_id(now: OffsetDateTime) -> String {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let utc = now.to_offset(time::UtcOffset::UTC);
    // The format names only parts that every time has.
    let time = utc.format(format).unwrap_or_else(|_| utc.unix_timestamp().to_string());
    format!("{time}-{:05x}", rand::rng().random_range(0..0x10_0000))
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn sorts_by_time_in_utc() {
        let earlier = new_run_id(datetime!(2025-03-01 23:59:59 +2));
        let later = new_run_id(datetime!(2025-03-01 22:00:00 UTC));
        assert!(earlier.starts_with("20250301T215959Z-"), "{earlier}");
        assert!(earlier < later);
    }
}
