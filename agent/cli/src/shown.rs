use gaia_agent::Part;
use gaia_agent::tools::bound;

/// The content of a result as a model gets it that sees images: all text first and bounded, then the images.
pub(crate) fn shown(content: &[Part], limit_bytes: usize) -> Vec<Part> {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Image(_) => None,
        })
        .collect();
    let images = content.iter().filter(|part| matches!(part, Part::Image(_))).cloned();
    let text = bound(&texts.join("\n"), limit_bytes, None).text;
    let text = (!text.is_empty()).then_some(Part::Text { text });
    text.into_iter().chain(images).collect()
}
