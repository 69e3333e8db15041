//! Numbers for people.

use gaia_scorer::statistics::Interval;

/// `50.0%`.
pub fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// `9.5%–90.5%`.
pub fn percent_range(interval: Interval) -> String {
    format!("{}–{}", percent(interval.low), percent(interval.high))
}

/// Of a probability: `12.3%`, `less than 0.1%`.
pub fn probability(share: f64) -> String {
    if share < 0.001 { "less than 0.1%".to_owned() } else { percent(share) }
}

/// A difference of shares with its sign: `+3.2`, in percentage points.
pub fn points(difference: f64) -> String {
    // A negative zero has a sign of its own.
    let points = (1000.0 * difference).round() / 10.0 + 0.0;
    if points == 0.0 { "±0.0".to_owned() } else { format!("{points:+.1}") }
}

/// `1 234 567`, with narrow spaces that do not break.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// `950`, `12.3k`, `4.56M`.
pub fn short_count(number: f64) -> String {
    let (value, unit) = match number {
        number if number < 999.5 => return format!("{number:.0}"),
        number if number < 999_500.0 => (number / 1e3, "k"),
        number if number < 999_500_000.0 => (number / 1e6, "M"),
        number => (number / 1e9, "G"),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$}{unit}")
}

/// `0.40 s`, `12.3 s`, `4 min 05 s`, `3 h 07 min`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 9.995 => format!("{seconds:.2} s"),
        seconds if seconds < 99.95 => format!("{seconds:.1} s"),
        seconds if seconds.round() < 3600.0 => {
            let whole = seconds.round() as u64;
            format!("{} min {:02} s", whole / 60, whole % 60)
        }
        seconds => {
            let minutes = (seconds / 60.0).round() as u64;
            format!("{} h {:02} min", count(minutes / 60), minutes % 60)
        }
    }
}

/// US dollars with three digits that say something: `$0.00123`, `$0.456`, `$12.30`, `$1 234`.
pub fn money(dollars: f64) -> String {
    match dollars.abs() {
        0.0 => "$0".to_owned(),
        size if size < 1.0 => {
            let digits = (2 - size.log10().floor() as i32).clamp(3, 9);
            format!("${dollars:.*}", digits as usize)
        }
        size if size < 999.995 => format!("${dollars:.2}"),
        _ => format!("${}", count(dollars.round() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_differences() {
        assert_eq!((percent(0.5).as_str(), percent(1.0).as_str()), ("50.0%", "100.0%"));
        assert_eq!((probability(0.0004).as_str(), probability(0.0312).as_str()), ("less than 0.1%", "3.1%"));
        assert_eq!(percent_range(Interval { low: 0.095, high: 0.905 }), "9.5%–90.5%");
        assert_eq!([0.0324, -0.5, 0.0, -0.0001].map(points), ["+3.2", "-50.0", "±0.0", "±0.0"]);
    }

    #[test]
    fn counts() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
        assert_eq!(
            [0.0, 950.0, 999.6, 12_340.0, 123_400.0, 4_560_000.0, 2e9].map(short_count),
            ["0", "950", "1.00k", "12.3k", "123k", "4.56M", "2.00G"]
        );
    }

    #[test]
    fn durations_and_money() {
        assert_eq!(
            [0.4, 12.34, 99.96, 245.0, 3599.7, 11_220.0].map(duration),
            ["0.40 s", "12.3 s", "1 min 40 s", "4 min 05 s", "1 h 00 min", "3 h 07 min"]
        );
        assert_eq!(
            [0.0, 0.00123, 0.456, 12.3, 999.0, 1234.4].map(money),
            ["$0", "$0.00123", "$0.456", "$12.30", "$999.00", "$1\u{202f}234"]
        );
    }
}
