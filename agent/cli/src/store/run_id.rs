use rand::RngExt;
use time::OffsetDateTime;
use time::macros::format_description;

/// A 256th of a second, rounded up so that the last step of a second is the 255th.
const NANOSECONDS_PER_STEP: u32 = 1_000_000_000 / 256 + 1;

/// UTC time to a 256th of a second and a random part, both in base 16 behind the seconds: ids sort by time also when a run
/// takes less than a second, and two runs that begin at once differ.
pub fn new_run_id(now: OffsetDateTime) -> String {
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let utc = now.to_offset(time::UtcOffset::UTC);
    // The format names only parts that every time has.
    let time = utc.format(format).unwrap_or_else(|_| utc.unix_timestamp().to_string());
    let fraction = utc.nanosecond() / NANOSECONDS_PER_STEP;
    format!("{time}-{fraction:02x}{:04x}", rand::rng().random_range(0..0x1_0000))
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
        // Within a second too, to its last moment.
        let ids = [0, 10, 500, 990, 999].map(|milliseconds| {
            new_run_id(datetime!(2025-03-01 22:00:00 UTC) + time::Duration::milliseconds(milliseconds))
        });
        assert!(ids.is_sorted() && ids.iter().all(|id| id.len() == later.len()), "{ids:?}");
    }
}
