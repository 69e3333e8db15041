use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::settings::ModelConfig;

/// How a sample is worked on. All roles of a strategy draw on the limits of the one sample together: `agent.max_steps`,
/// `agent.budget` and `agent.sample_timeout`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct StrategyConfig {
    pub name: StrategyName,
    /// `vote`: runs of a sample, each with an equal share of its limits.
    #[schemars(range(min = 1))]
    pub runs: u32,
    /// `plan`: turns between two plans.
    #[schemars(range(min = 1))]
    pub replan_every: u32,
    /// `delegate`: turns of one helper, its last call for a result included.
    #[schemars(range(min = 2))]
    pub helper_steps: u32,
    /// The model that plans. In this and the other tables of roles may stand whatever may stand in `[model]`, whose
    /// values count for what is absent. A role with a `base_url` of its own is sent no key but its own. At the same endpoint
    /// it shares the pace of `[model]`, unless it has limits of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ModelConfig>")]
    pub planner: Option<Table>,
    /// The model that judges between the answers of a tied vote.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ModelConfig>")]
    pub judge: Option<Table>,
    /// The model that takes a second look.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ModelConfig>")]
    pub verifier: Option<Table>,
    /// The model of the helpers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ModelConfig>")]
    pub helper: Option<Table>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StrategyName {
    /// One run of the loop.
    #[default]
    React,
    /// Facts and a plan before the first turn, brought up to date every few turns.
    Plan,
    /// Independent runs, of whose answers the most frequent wins; a judge decides a tie.
    Vote,
    /// A second look at the answer with a fresh context, which may send it back once.
    Verify,
    /// A manager who may hand questions to helpers.
    Delegate,
}

/// Somebody in a strategy who may have a model of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleName {
    Planner,
    Judge,
    Verifier,
    Helper,
}

impl Default for StrategyConfig {
    fn default() -> Self {
        Self {
            name: StrategyName::React,
            runs: 3,
            // As often as smolagents' open deep research plans, whose managers have about as many turns.
            replan_every: 5,
            helper_steps: 20,
            planner: None,
            judge: None,
            verifier: None,
            helper: None,
        }
    }
}

impl StrategyName {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::React => "react",
            Self::Plan => "plan",
            Self::Vote => "vote",
            Self::Verify => "verify",
            Self::Delegate => "delegate",
        }
    }

    /// Who takes part beside the one who answers.
    pub fn role(self) -> Option<RoleName> {
        match self {
            Self::React => None,
            Self::Plan => Some(RoleName::Planner),
            Self::Vote => Some(RoleName::Judge),
            Self::Verify => Some(RoleName::Verifier),
            Self::Delegate => Some(RoleName::Helper),
        }
    }
}

impl RoleName {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Judge => "judge",
            Self::Verifier => "verifier",
            Self::Helper => "helper",
        }
    }
}

impl StrategyConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn tables(&self) -> [(RoleName, Option<&Table>); 4] {
        [
            (RoleName::Planner, self.planner.as_ref()),
            (RoleName::Judge, self.judge.as_ref()),
            (RoleName::Verifier, self.verifier.as_ref()),
            (RoleName::Helper, self.helper.as_ref()),
        ]
    }

    /// The model of the role that the strategy has, when it is not `model`.
    ///
    /// # Errors
    /// What is wrong with the table, in words.
    pub(super) fn model_of_role(&self, model: &ModelConfig) -> Result<Option<ModelConfig>, String> {
        let Some(role) = self.name.role() else { return Ok(None) };
        let Some((_, Some(own))) = self.tables().into_iter().find(|(name, _)| *name == role) else {
            return Ok(None);
        };
        let mut merged = match Value::try_from(model) {
            Ok(Value::Table(table)) => table,
            Ok(_) => Table::new(),
            Err(error) => return Err(error.to_string()),
        };
        merged.remove("server");
        // A key goes to the endpoint it was given for, and a price belongs to a model.
        if own.contains_key("base_url") {
            merged.remove("api_key_env");
        }
        if own.contains_key("base_url") || own.contains_key("name") {
            merged.remove("price");
            merged.remove("context_window");
        }
        merged.extend(own.clone());
        Value::Table(merged).try_into().map(Some).map_err(|error: toml::de::Error| error.message().to_owned())
    }
}

/// Who works on the samples instead of gaia's own loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ExternalConfig {
    /// `"command:PROGRAM ARGS"`: a program that is started for each sample and gets its tools over MCP; `"human"`: the
    /// questions are shown in the terminal. Absent or `"loop"`: gaia's own loop, with `[model]`.
    ///
    /// In ARGS are replaced: `{question}`, `{files_dir}`, `{file}`, `{mcp_url}`, `{mcp_config}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Variables that the program gets from gaia's environment, such as the key of its own model. Without them it gets
    /// what every server gets, and what gaia tells it about the sample.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_vars: Vec<String>,
}

impl ExternalConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether somebody other than the loop works.
    pub fn is_wanted(&self) -> bool {
        self.agent.as_deref().is_some_and(|agent| agent != "loop")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strategy(own: Table) -> StrategyConfig {
        StrategyConfig { name: StrategyName::Verify, verifier: Some(own), ..StrategyConfig::default() }
    }

    fn model() -> ModelConfig {
        ModelConfig {
            name: Some("big".to_owned()),
            base_url: Some("https://a.invalid/v1".to_owned()),
            api_key_env: Some("A_KEY".to_owned()),
            stream: false,
            context_window: Some(1_000),
            ..ModelConfig::default()
        }
    }

    #[test]
    fn a_role_has_what_it_says_and_the_rest_from_the_model() {
        let own = toml::toml! { name = "small" };
        let role = strategy(own).model_of_role(&model()).unwrap().unwrap();
        assert_eq!((role.name.as_deref(), role.stream), (Some("small"), false));
        assert_eq!(role.base_url, model().base_url);
        assert_eq!(role.api_key_env.as_deref(), Some("A_KEY"));
        assert_eq!(role.context_window, None, "the window of another model");
    }

    #[test]
    fn a_key_does_not_go_to_another_endpoint() {
        let own = toml::toml! { base_url = "https://b.invalid/v1" };
        let role = strategy(own).model_of_role(&model()).unwrap().unwrap();
        assert_eq!((role.api_key_env, role.name.as_deref()), (None, Some("big")));
    }

    #[test]
    fn only_the_role_of_the_strategy_counts() {
        let own = toml::toml! { name = "small" };
        let other = StrategyConfig { name: StrategyName::Plan, ..strategy(own) };
        assert_eq!(other.model_of_role(&model()), Ok(None));
        let wrong = toml::toml! { stream = "yes" };
        assert!(strategy(wrong).model_of_role(&model()).unwrap_err().contains("boolean"));
    }
}
