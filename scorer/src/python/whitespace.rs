/// Whether `\s` (and `str.isspace`, `str.split`, `str.strip`) takes the character for whitespace.
///
/// Rust's set and the four ASCII separators U+001C to U+001F. Zero-width characters (U+200B, U+2060, U+FEFF) are
/// whitespace in neither.
pub fn is_whitespace(character: char) -> bool {
    character.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&character)
}
