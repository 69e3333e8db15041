//! Bytes as text: byte order mark, header, declaration in the document, and a guess when all else is silent or wrong.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};

/// A declaration stands at the beginning; HTML asks for the first 1024 bytes, and real pages are later.
const DECLARED_WITHIN_BYTES: usize = 4_096;
/// Enough to tell languages apart.
const GUESS_BYTES: usize = 64 * 1024;

/// The text, and the name of the encoding it was in. Text in UTF-8 is not copied.
pub fn decode<'a>(body: &'a [u8], content_type: Option<&str>) -> (Cow<'a, str>, &'static str) {
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return decoded(encoding, body);
    }
    let declared = content_type
        .and_then(charset_of)
        .or_else(|| declared(&body[..body.len().min(DECLARED_WITHIN_BYTES)]));
    match declared {
        // Many pages say UTF-8 because their template does.
        Some(encoding) if encoding == UTF_8 => match std::str::from_utf8(body) {
            Ok(text) => (Cow::Borrowed(text), UTF_8.name()),
            Err(_) => decoded(if is_nearly_utf8(body) { UTF_8 } else { guess(body) }, body),
        },
        Some(encoding) => decoded(encoding, body),
        None => decoded(guess(body), body),
    }
}

fn decoded<'a>(encoding: &'static Encoding, body: &'a [u8]) -> (Cow<'a, str>, &'static str) {
    let (text, used, _) = encoding.decode(body);
    (text, used.name())
}

fn guess(body: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(body).is_ok() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&body[..body.len().min(GUESS_BYTES)], true);
    detector.guess(None, Utf8Detection::Allow)
}

/// A cut or damaged character in a long text is no reason to take all of it for something else.
fn is_nearly_utf8(body: &[u8]) -> bool {
    let (mut bad, mut good) = (0usize, 0usize);
    for chunk in body.utf8_chunks() {
        good += chunk.valid().bytes().filter(|byte| !byte.is_ascii()).count();
        bad += chunk.invalid().len();
    }
    good > bad * 20 || (good == 0 && bad < 4 && body.len() > 4_000)
}

fn charset_of(content_type: &str) -> Option<&'static Encoding> {
    let start = content_type.to_ascii_lowercase().find("charset=")? + "charset=".len();
    let label = content_type[start..].trim_start().trim_matches(['"', '\'']);
    let end = label.find([';', '"', '\'', ' ']).unwrap_or(label.len());
    Encoding::for_label(&label.as_bytes()[..end])
}

/// `<meta charset>`, the older `<meta http-equiv>`, and the declaration of XML.
fn declared(start: &[u8]) -> Option<&'static Encoding> {
    let text = String::from_utf8_lossy(start).to_ascii_lowercase();
    let label_after = |mark: &str, text: &str| {
        let rest = &text[text.find(mark)? + mark.len()..];
        let rest = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let end = rest.find(['"', '\'', ' ', ';', '>', '/', '?']).unwrap_or(rest.len());
        Encoding::for_label(&rest.as_bytes()[..end])
    };
    let in_meta = text.match_indices("<meta").find_map(|(at, _)| {
        let tag = &text[at..];
        label_after("charset", &tag[..tag.find('>').unwrap_or(tag.len())])
    });
    let in_xml = || text.trim_start().starts_with("<?xml").then(|| label_after("encoding", &text))?;
    in_meta.or_else(in_xml).map(|encoding| if is_utf16(encoding) { UTF_8 } else { encoding })
}

/// What could be read as ASCII so far is not UTF-16, whatever it says (HTML says so, too).
fn is_utf16(encoding: &'static Encoding) -> bool {
    encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_that_names_an_encoding_is_read() {
        let latin = b"caf\xe9";
        let page = |head: &str| [head.as_bytes(), latin].concat();
        for (body, content_type, expected, name) in [
            (latin.to_vec(), Some("text/html; charset=iso-8859-1"), "café", "windows-1252"),
            (latin.to_vec(), Some("text/html;Charset=\"ISO-8859-15\"; x=y"), "café", "ISO-8859-15"),
            (page("<meta charset=latin1>"), None, "<meta charset=latin1>café", "windows-1252"),
            (
                page("<META http-equiv='Content-Type' content='text/html; charset=iso-8859-2'>"),
                Some("text/html"),
                "<META http-equiv='Content-Type' content='text/html; charset=iso-8859-2'>café",
                "ISO-8859-2",
            ),
            (
                page("<?xml version='1.0' encoding='windows-1252'?>"),
                None,
                "<?xml version='1.0' encoding='windows-1252'?>café",
                "windows-1252",
            ),
            (b"\xef\xbb\xbfcaf\xc3\xa9".to_vec(), Some("text/html; charset=latin1"), "café", "UTF-8"),
            (b"\xff\xfec\x00a\x00".to_vec(), None, "ca", "UTF-16LE"),
            ("café".as_bytes().to_vec(), None, "café", "UTF-8"),
            (b"\x93\xfa\x96\x7b".to_vec(), Some("text/plain; charset=shift_jis"), "日本", "Shift_JIS"),
            (page("<meta charset=utf-16>"), None, "<meta charset=utf-16>café", "windows-1252"),
        ] {
            assert_eq!(decode(&body, content_type), (expected.into(), name), "{content_type:?} {body:?}");
        }
    }

    #[test]
    fn a_wrong_or_missing_name_is_made_up_for() {
        let russian = "Маяк порта был построен в тысяча девятьсот одиннадцатом году на мысу.";
        let (bytes, _, _) = encoding_rs::WINDOWS_1251.encode(russian);
        for content_type in [None, Some("text/html; charset=utf-8"), Some("text/html; charset=nonsense")] {
            assert_eq!(decode(&bytes, content_type).0, russian, "{content_type:?}");
        }
        let mut damaged = "é".repeat(100).into_bytes();
        damaged[100] = 0xff;
        assert_eq!(decode(&damaged, Some("text/plain; charset=utf-8")).1, "UTF-8");
    }
}
