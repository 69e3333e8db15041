use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

/// The look of all pages.
const STYLE: &str = include_str!("page.css");

/// The button that changes between light and dark.
const THEME_SCRIPT: &str = include_str!("theme.js");

/// What a page may ask for once a browser shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// A file: nothing at all.
    Nothing,
    /// A page of a server: what that server itself has.
    Origin,
}

/// A page but for what all pages have.
#[derive(Debug)]
pub struct Shell<'a> {
    pub title: &'a str,
    pub reach: Reach,
    /// JavaScript of the page's own, ours and constant; empty for none.
    pub script: &'static str,
    /// What stands in the bar at the top, left of the button for the theme.
    pub bar: Markup,
    pub body: Markup,
}

/// The whole document. Its policy lets our style and scripts run, by their hashes, and nothing else: a script that came
/// with the text of others stays text by the escaping, and would not run if that failed. There are no `style`
/// attributes, which the policy forbids too.
pub fn document(shell: &Shell<'_>) -> Markup {
    styled_document(shell, "")
}

/// The same with rules of the page's own, ours and constant.
pub fn styled_document(shell: &Shell<'_>, style: &'static str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy(shell, style));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (shell.title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
                @if !style.is_empty() { style { (PreEscaped(style)) } }
                script { (PreEscaped(THEME_SCRIPT)) }
            }
            body {
                header.bar {
                    div.bar-text { (shell.bar) }
                    button #theme type="button" title="Light, dark, or as the system has it" { "◐" }
                }
                main { (shell.body) }
                @if !shell.script.is_empty() { script { (PreEscaped(shell.script)) } }
            }
        }
    }
}

fn policy(shell: &Shell<'_>, style: &str) -> String {
    let style = if style.is_empty() { String::new() } else { format!(" {}", hash(style)) };
    let scripts = match shell.script {
        "" => hash(THEME_SCRIPT),
        script => format!("{} {}", hash(THEME_SCRIPT), hash(script)),
    };
    let reach = match shell.reach {
        Reach::Nothing => "img-src data:; form-action 'none'",
        Reach::Origin => "img-src 'self' data:; media-src 'self'; connect-src 'self'; form-action 'self'",
    };
    format!(
        "default-src 'none'; style-src {}{style}; script-src {scripts}; {reach}; base-uri 'none'",
        hash(STYLE)
    )
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(reach: Reach, script: &'static str) -> String {
        let shell = Shell { title: "<b>&", reach, script, bar: html! {}, body: html! { p { "x" } } };
        document(&shell).into_string()
    }

    #[test]
    fn the_policy_names_what_is_in_the_page_and_nothing_else() {
        let text = page(Reach::Nothing, "'use strict';");
        assert!(text.contains("<title>&lt;b&gt;&amp;</title>"), "{text}");
        for script in [THEME_SCRIPT, "'use strict';"] {
            assert!(text.contains(&hash(script)) && text.contains(&format!("<script>{script}</script>")));
        }
        assert!(text.contains("default-src 'none'") && text.contains("form-action 'none'"), "{text}");
        for word in ["unsafe-", "http:", "https:", "style=\"", "onclick", "src="] {
            assert!(!text.contains(word), "{word} in {text}");
        }
        assert!(page(Reach::Origin, "").contains("connect-src 'self'"));
    }

    #[test]
    fn nothing_in_our_own_text_ends_the_element_it_stands_in() {
        assert!(!STYLE.contains("</") && !THEME_SCRIPT.contains("</"));
    }
}
