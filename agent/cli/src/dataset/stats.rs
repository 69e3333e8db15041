use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{Dataset, Sample, Split};

/// What a split holds, by level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatasetStats {
    pub split: Split,
    pub fingerprint: String,
    pub levels: BTreeMap<u8, LevelStats>,
    pub total: LevelStats,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LevelStats {
    pub samples: usize,
    /// Samples whose truth is known here.
    pub scorable: usize,
    pub with_attachment: usize,
    /// Attachments by lower-case extension; `-` for none.
    pub attachment_types: BTreeMap<String, usize>,
}

impl Dataset {
    pub fn stats(&self) -> DatasetStats {
        let mut levels: BTreeMap<u8, LevelStats> = BTreeMap::new();
        let mut total = LevelStats::default();
        for sample in &self.samples {
            levels.entry(sample.level).or_default().add(sample);
            total.add(sample);
        }
        DatasetStats { split: self.split, fingerprint: self.fingerprint.clone(), levels, total }
    }
}

impl LevelStats {
    fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        self.scorable += usize::from(sample.truth.is_some());
        if let Some(name) = &sample.file_name {
            self.with_attachment += 1;
            let extension =
                Path::new(name).extension().map(|extension| extension.to_string_lossy().to_lowercase());
            *self.attachment_types.entry(extension.unwrap_or_else(|| "-".to_owned())).or_default() += 1;
        }
    }

    fn row(&self, label: String) -> [String; 5] {
        let mut types: Vec<(&String, &usize)> = self.attachment_types.iter().collect();
        types.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), name.as_str()));
        let types: Vec<String> = types.iter().map(|(name, count)| format!("{name} {count}")).collect();
        [
            label,
            self.samples.to_string(),
            self.scorable.to_string(),
            self.with_attachment.to_string(),
            types.join(", "),
        ]
    }
}

impl DatasetStats {
    pub const HEADER: [&str; 5] = ["Level", "Samples", "With truth", "With attachment", "Attachment types"];

    /// One row for each level and one for all, under [`HEADER`](Self::HEADER).
    pub fn rows(&self) -> Vec<[String; 5]> {
        let levels = self.levels.iter().map(|(level, stats)| stats.row(level.to_string()));
        levels.chain([self.total.row("all".to_owned())]).collect()
    }
}
