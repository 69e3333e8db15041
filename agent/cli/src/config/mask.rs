use std::ops::Range;

use super::secret::{is_ordinary_variable_name, looks_secret, names_a_variable};

/// The line as an error may show it. When a name on it looks like that of a secret, all quoted values are blanked out
/// but for variables and for what the caret points at as a name: error texts end up in logs. So is what stands in the
/// place of the name of a variable and looks like none. The line keeps its width.
///
/// `marked` is counted in characters.
pub(super) fn mask(line: &str, marked: Range<usize>) -> String {
    let characters: Vec<char> = line.chars().collect();
    let words = line.split(|character: char| !(character.is_alphanumeric() || "_-".contains(character)));
    let suspicious = words.clone().filter(|word| !word.is_empty()).any(looks_secret);
    let naming = words.clone().any(names_a_variable);
    if !suspicious && !naming {
        return line.to_owned();
    }
    let mut masked = characters.clone();
    let mut index = 0;
    while index < characters.len() {
        let quote = characters[index];
        if quote != '"' && quote != '\'' {
            index += 1;
            continue;
        }
        let end = (index + 1..characters.len())
            .find(|&at| characters[at] == quote && (quote == '\'' || characters[at - 1] != '\\'))
            .unwrap_or(characters.len());
        let after = characters[(end + 1).min(characters.len())..].iter().find(|after| !after.is_whitespace());
        let is_key = matches!(after, Some(':' | '='));
        let value: String = characters[index + 1..end].iter().collect();
        if !is_key && naming && !is_ordinary_variable_name(&value) {
            masked[index + 1..end].fill('*');
        } else if !is_key && suspicious {
            blank(&characters, &mut masked, index + 1..end, &marked);
        }
        index = end + 1;
    }
    masked.into_iter().collect()
}

/// Blanks a quoted value, except the variables in it.
fn blank(characters: &[char], masked: &mut [char], value: Range<usize>, marked: &Range<usize>) {
    let mut index = value.start;
    while index < value.end {
        let is_variable = characters[index] == '$' && characters.get(index + 1) == Some(&'{');
        let close = (index..value.end).find(|&at| characters[at] == '}');
        match close.filter(|_| is_variable) {
            // A default inside it may be a secret too.
            Some(close) => {
                let has_default = characters[index..close].windows(2).any(|pair| pair == [':', '-']);
                if has_default && *marked != (index..close + 1) {
                    masked[index..=close].fill('*');
                }
                index = close + 1;
            }
            None => {
                masked[index] = '*';
                index += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let masked = mask(line, 0..0);
        assert_eq!(masked, expected);
        assert_eq!(masked.chars().count(), line.chars().count());
    }

    #[test]
    fn values_beside_a_secret_name_are_blanked_and_names_and_variables_stay() {
        check("command = \"npx\"", "command = \"npx\"");
        check("API_KEY = \"sk-1\"", "API_KEY = \"****\"");
        check(
            r#"  "env": { "API_KEY": "sk-1", "B": "${NOT_SET}" }, "comand": "x""#,
            r#"  "env": { "API_KEY": "****", "B": "${NOT_SET}" }, "comand": "*""#,
        );
        check("env = { A_TOKEN = 'it\\', B = \"${X:-d}\" }", "env = { A_TOKEN = '***', B = \"*******\" }");
        check(r#"args = ["--api-key", "s\"k"]"#, r#"args = ["*********", "****"]"#);
        check("API_KEY = \"open", "API_KEY = \"****");
        check("api_key_env = \"NAME\"", "api_key_env = \"NAME\"");
        check("api_key_env = \"sk-live-1\"", "api_key_env = \"*********\"");
        check("api_key_env = 'abcdef0123456789abcdef'", "api_key_env = '**********************'");
        check(r#"env_vars = ["HOME", "sk-1"]"#, r#"env_vars = ["HOME", "****"]"#);
        check(r#""bearerTokenEnvVar": "a b""#, r#""bearerTokenEnvVar": "***""#);
    }
}
