//! What the model is told before the question.

use sha2::{Digest, Sha256};

/// Enough to tell prompts apart, short enough to be read.
const FINGERPRINT_BYTES: usize = 8;

/// The system prompt of the GAIA paper (figure 2), word for word.
const GAIA_SYSTEM_PROMPT: &str = "\
You are a general AI assistant. I will ask you a question. Report your thoughts, and finish your answer with the \
following template: FINAL ANSWER: [YOUR FINAL ANSWER].
YOUR FINAL ANSWER should be a number OR as few words as possible OR a comma separated list of numbers and/or strings.
If you are asked for a number, don't use comma to write your number neither use units such as $ or percent sign \
unless specified otherwise.
If you are asked for a string, don't use articles, neither abbreviations (e.g. for cities), and write the digits in \
plain text unless specified otherwise.
If you are asked for a comma separated list, apply the above rules depending of whether the element to be put in the \
list is a number or a string.";

/// The official text plus how to hand in the answer with the tool that the model sees as `answer_tool`.
pub fn system_prompt(answer_tool: &str) -> String {
    format!(
        "{GAIA_SYSTEM_PROMPT}\n\n\
         You have tools. Use them to look things up, to read the attached file if there is one, and to compute rather \
         than to guess. When you have the answer, call the tool `{answer_tool}` with nothing but YOUR FINAL ANSWER: \
         without the words FINAL ANSWER and without brackets. This ends the task. Always give your best answer, even \
         if you are not sure."
    )
}

/// Tells two prompts apart without holding them.
pub fn fingerprint(prompt: &str) -> String {
    let digest = Sha256::digest(prompt.as_bytes());
    let text: String = digest.iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_with_the_official_text_and_names_the_tool() {
        let prompt = system_prompt("hand_in");
        assert!(prompt.starts_with("You are a general AI assistant. I will ask you a question."));
        assert!(prompt.contains("FINAL ANSWER: [YOUR FINAL ANSWER].\nYOUR FINAL ANSWER should be"));
        assert!(prompt.contains("call the tool `hand_in`"));
    }
}
