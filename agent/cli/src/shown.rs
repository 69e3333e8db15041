use gaia_agent::Part;
use gaia_agent::tools::bound;

/// The content of a result as a model gets it that sees images: all text first and bounded, then the rest.
pub(crate) fn shown(content: &[Part], limit_bytes: usize) -> Vec<Part> {
    let texts: Vec<&str> = content.iter().filter_map(Part::text).collect();
    let media = content.iter().filter(|part| part.text().is_none()).cloned();
    let text = bound(&texts.join("\n"), limit_bytes, None).text;
    let text = (!text.is_empty()).then_some(Part::Text { text });
    text.into_iter().chain(media).collect()
}
