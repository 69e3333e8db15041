//! Addresses of the Wayback Machine: `/web/20190714000000id_/http://a.example/`, where `id_` asks for the page as it was
//! served, without the archive's own frame.

use url::Url;

use crate::arguments::ArgumentError;

/// Digits of a full time stamp.
const STAMP_DIGITS: usize = 14;

/// A date as the archive writes it. The middle of a year or month stands for all of it.
pub(super) fn stamp(date: &str) -> Result<String, ArgumentError> {
    let digits: String = date.chars().filter(char::is_ascii_digit).collect();
    let is_date = date.chars().all(|character| character.is_ascii_digit() || "-/:. TZ".contains(character));
    let full = match digits.len() {
        4 => format!("{digits}0701"),
        6 => format!("{digits}15"),
        8..=STAMP_DIGITS => digits,
        _ => String::new(),
    };
    if !is_date || full.is_empty() {
        return Err(ArgumentError::new(format!(
            "`date` must be a date such as 2019, 2019-07 or 2019-07-14, not `{date}`"
        )));
    }
    Ok(format!("{full:0<STAMP_DIGITS$}"))
}

pub(super) fn copy_url(archive: &Url, stamp: &str, url: &Url) -> Url {
    let mut copy = archive.clone();
    let base = archive.path().trim_end_matches('/');
    let mut plain = url.clone();
    plain.set_fragment(None);
    let query = plain.query().map(ToOwned::to_owned);
    plain.set_query(None);
    copy.set_path(&format!("{base}/web/{stamp}id_/{plain}"));
    copy.set_query(query.as_deref());
    copy
}

/// The address that a copy was made of.
pub(super) fn original(copy: &Url) -> Option<Url> {
    let (_, rest) = split(copy)?;
    let mut original = Url::parse(rest).ok()?;
    original.set_query(copy.query());
    Some(original)
}

/// The day of a copy.
pub(super) fn date(copy: &Url) -> Option<String> {
    let (stamp, _) = split(copy)?;
    Some(format!("{}-{}-{}", stamp.get(..4)?, stamp.get(4..6)?, stamp.get(6..8)?))
}

fn split(copy: &Url) -> Option<(&str, &str)> {
    let (_, rest) = copy.path().split_once("/web/")?;
    let (stamp, original) = rest.split_once('/')?;
    let digits = stamp.trim_end_matches(|character: char| !character.is_ascii_digit());
    (digits.len() == STAMP_DIGITS).then_some((digits, original))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_addresses_are_the_archives() {
        for (date, expected) in [
            ("2019", "20190701000000"),
            ("2019-07", "20190715000000"),
            ("2019-07-14", "20190714000000"),
            ("2019-07-14T10:20:30Z", "20190714102030"),
        ] {
            assert_eq!(stamp(date).unwrap(), expected);
        }
        for wrong in ["", "19", "July 2019", "201", "123456789012345"] {
            assert!(stamp(wrong).unwrap_err().to_string().contains("must be a date"), "{wrong}");
        }
        let page = Url::parse("http://a.example/x/y?b=c&d=%20#e").unwrap();
        let copy = copy_url(&Url::parse("https://web.archive.org").unwrap(), "20190714000000", &page);
        assert_eq!(
            copy.as_str(),
            "https://web.archive.org/web/20190714000000id_/http://a.example/x/y?b=c&d=%20"
        );
        assert_eq!(original(&copy).unwrap().as_str(), "http://a.example/x/y?b=c&d=%20");
        assert_eq!(date(&copy).unwrap(), "2019-07-14");
        assert_eq!(original(&page), None);
    }
}
