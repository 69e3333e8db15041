//! Agents that are not the loop: a program that is started for each sample, or a person.
//!
//! They get the question, the attachment and the tools; limits, trajectory, answer and score are ours.

mod command;
mod door;
mod human;
mod output;

pub use command::{CommandAgent, Room};
pub use human::{Human, Lines};

/// Who works on the samples, as `external.agent` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agent {
    /// A program and its arguments.
    Command(Vec<String>),
    Human,
}

/// The text names no agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    #[error("must be `command:PROGRAM ARGS`, `human` or `loop`")]
    Unknown,
    #[error("names no program after `command:`")]
    NoProgram,
    #[error("has a quote that is not closed")]
    Quotes,
}

impl Agent {
    /// Words are split as a shell would split them; nothing else of a shell is done.
    pub fn read(text: &str) -> Result<Self, AgentError> {
        if text == "human" {
            return Ok(Self::Human);
        }
        let line = text.strip_prefix("command:").ok_or(AgentError::Unknown)?;
        let words = shlex::split(line).ok_or(AgentError::Quotes)?;
        if words.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(AgentError::NoProgram);
        }
        Ok(Self::Command(words))
    }

    /// For tables and reports. Arguments may hold what is nobody's business.
    pub fn label(&self) -> String {
        match self {
            Self::Command(words) => {
                let program = words.first().map_or("", String::as_str);
                format!("command {}", program.rsplit('/').next().unwrap_or(program))
            }
            Self::Human => "human".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_would() {
        let agent = Agent::read(r#"command:/opt/x/agent -p '{question}' --config "{mcp_config}""#).unwrap();
        let words = ["/opt/x/agent", "-p", "{question}", "--config", "{mcp_config}"].map(str::to_owned);
        assert_eq!(agent, Agent::Command(words.to_vec()));
        assert_eq!(agent.label(), "command agent");
        assert_eq!(Agent::read("human"), Ok(Agent::Human));
    }

    #[test]
    fn what_is_no_agent_is_told() {
        for (text, error) in [
            ("claude -p", AgentError::Unknown),
            ("", AgentError::Unknown),
            ("command:", AgentError::NoProgram),
            ("command:  ", AgentError::NoProgram),
            ("command:a 'b", AgentError::Quotes),
        ] {
            assert_eq!(Agent::read(text), Err(error), "{text}");
        }
    }
}
