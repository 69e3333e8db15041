//! What stands in the query of an address.

use serde::Deserialize;

/// Of the list of samples. Fields that were left empty in the form say nothing.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunQuery {
    pub(super) level: String,
    pub(super) status: String,
    pub(super) correct: String,
    pub(super) class: String,
    /// In the question, the id or the answer.
    pub(super) find: String,
    pub(super) sort: String,
    /// `down` for largest first.
    pub(super) order: String,
}

/// Of a trajectory.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct SampleQuery {
    pub(super) attempt: Option<u32>,
    pub(super) branch: Option<String>,
    /// The turn that the page must hold.
    pub(super) turn: Option<u32>,
    /// `shown` when the truth was asked for.
    pub(super) truth: String,
}

/// Of a list that is read in pages.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    pub(super) page: usize,
}

/// Of a search.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchQuery {
    pub(super) q: String,
    /// Samples that were searched before.
    pub(super) from: usize,
}

impl RunQuery {
    /// The query of an address, with these fields changed.
    pub(super) fn with(&self, changes: &[(&str, &str)]) -> String {
        let fields = [
            ("level", &self.level),
            ("status", &self.status),
            ("correct", &self.correct),
            ("class", &self.class),
            ("find", &self.find),
            ("sort", &self.sort),
            ("order", &self.order),
        ];
        let fields = fields.into_iter().map(|(name, value)| {
            let changed = changes.iter().find(|(changed, _)| *changed == name);
            (name, changed.map_or(value.as_str(), |(_, value)| value))
        });
        let pairs: Vec<String> = fields
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}", super::text::in_address(value)))
            .collect();
        format!("?{}", pairs.join("&"))
    }
}

impl SampleQuery {
    /// As above.
    pub(super) fn with(&self, changes: &[(&str, Option<String>)]) -> String {
        let fields = [
            ("attempt", self.attempt.map(|attempt| attempt.to_string())),
            ("branch", self.branch.clone()),
            ("turn", None),
            ("truth", (!self.truth.is_empty()).then(|| self.truth.clone())),
        ];
        let pairs: Vec<String> = fields
            .into_iter()
            .filter_map(|(name, value)| {
                let changed = changes.iter().find(|(changed, _)| *changed == name);
                let value = changed.map_or(value, |(_, value)| value.clone())?;
                Some(format!("{name}={}", super::text::in_address(&value)))
            })
            .collect();
        format!("?{}", pairs.join("&"))
    }
}
