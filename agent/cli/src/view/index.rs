//! What was read of the samples, kept until their files change: a list of samples asks for the same each time.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use gaia_agent::AgentEvent;

use crate::report::class_of;
use crate::store::{
    PlannedSample, RunDirectory, RunRecord, SampleDirectory, SampleEntry, SampleKey, SampleResult,
};
use crate::trajectory::{EventLine, EventLines, question_of};

/// Some kilobytes each; beyond it everything is read anew.
const MAX_SAMPLES: usize = 20_000;

/// Lines before the first event of an attempt: words of servers at most.
const MAX_LINES_BEFORE_START: usize = 100;

/// Of files by their paths.
#[derive(Debug, Default)]
pub(super) struct Index {
    samples: Mutex<HashMap<PathBuf, (Stamp, Arc<Facts>)>>,
    classes: Mutex<HashMap<PathBuf, (Stamp, Option<String>)>>,
    /// A thread reads classes.
    is_reading: AtomicBool,
}

/// Changes when the result of a sample or its log does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp([Option<(SystemTime, u64)>; 2]);

/// One sample of a list.
#[derive(Debug, Clone)]
pub(super) struct SampleRow {
    pub(super) planned: PlannedSample,
    pub(super) epoch: u32,
    pub(super) facts: Arc<Facts>,
    pub(super) class: Class,
}

#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) result: Option<SampleResult>,
    /// Why the result cannot be read.
    pub(super) damage: Option<String>,
    /// What was asked; absent before the first attempt.
    pub(super) question: Option<String>,
    /// There is a log.
    pub(super) is_begun: bool,
}

/// Why a sample is not right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Class {
    /// It is, or nobody can know.
    None,
    Known(String),
    /// Its trajectory has not been read yet.
    Unread,
}

impl SampleRow {
    fn entry(&self) -> SampleEntry {
        SampleEntry { planned: self.planned.clone(), epoch: self.epoch, result: self.facts.result.clone() }
    }

    pub(super) fn correct(&self) -> Option<bool> {
        self.facts.result.as_ref()?.score.as_ref().map(|score| score.correct)
    }
}

impl Index {
    /// Every requested sample, epoch by epoch.
    pub(super) fn rows(&self, run: &RunDirectory, record: &RunRecord) -> Vec<SampleRow> {
        (1..=record.epochs)
            .flat_map(|epoch| record.dataset.samples.iter().map(move |planned| (epoch, planned)))
            .map(|(epoch, planned)| {
                let sample = run.sample(&SampleKey { task_id: planned.task_id.clone(), epoch });
                let stamp = Stamp::of(&sample);
                let facts = self.facts(&sample, stamp);
                let mut row = SampleRow { planned: planned.clone(), epoch, facts, class: Class::None };
                // Right ones, and those that say it themselves, need no reading.
                if row.correct() != Some(true) && row.facts.result.is_some() {
                    row.class = self.known_class(sample.path(), stamp);
                }
                row
            })
            .collect()
    }

    /// Finds the classes of those that are not right. What takes longer than `patience` is left to a thread, for the
    /// next time.
    pub(super) fn add_classes(
        self: &Arc<Self>,
        run: &RunDirectory,
        rows: &mut [SampleRow],
        patience: Duration,
    ) {
        let until = Instant::now() + patience;
        let mut unread = Vec::new();
        for row in rows.iter_mut().filter(|row| row.class == Class::Unread) {
            match Instant::now() < until {
                true => row.class = self.read_class(run, row),
                false => unread.push(row.clone()),
            }
        }
        self.read_later(run, unread);
    }

    fn facts(&self, sample: &SampleDirectory, stamp: Stamp) -> Arc<Facts> {
        let known = self.samples.lock().unwrap_or_else(PoisonError::into_inner).get(sample.path()).cloned();
        if let Some((known_stamp, facts)) = known
            && known_stamp == stamp
        {
            return facts;
        }
        let (result, damage) = match sample.result() {
            Ok(result) => (result, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let facts = Arc::new(Facts {
            result,
            damage,
            question: question(&sample.events_path()),
            is_begun: stamp.0[1].is_some(),
        });
        keep(&self.samples, sample.path(), (stamp, facts.clone()));
        facts
    }

    fn known_class(&self, sample: &Path, stamp: Stamp) -> Class {
        let classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        match classes.get(sample) {
            Some((known, class)) if *known == stamp => class.clone().map_or(Class::None, Class::Known),
            _ => Class::Unread,
        }
    }

    fn read_class(&self, run: &RunDirectory, row: &SampleRow) -> Class {
        let sample = run.sample(&SampleKey { task_id: row.planned.task_id.clone(), epoch: row.epoch });
        let stamp = Stamp::of(&sample);
        let class = class_of(run, &row.entry());
        keep(&self.classes, sample.path(), (stamp, class.clone()));
        class.map_or(Class::None, Class::Known)
    }

    fn read_later(self: &Arc<Self>, run: &RunDirectory, rows: Vec<SampleRow>) {
        // One at a time: a page that is looked at asks again.
        if rows.is_empty() || self.is_reading.swap(true, Ordering::AcqRel) {
            return;
        }
        let (index, run) = (self.clone(), run.clone());
        std::thread::spawn(move || {
            for row in rows {
                index.read_class(&run, &row);
            }
            index.is_reading.store(false, Ordering::Release);
        });
    }
}

fn keep<V>(cache: &Mutex<HashMap<PathBuf, V>>, path: &Path, value: V) {
    let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= MAX_SAMPLES {
        cache.clear();
    }
    cache.insert(path.to_owned(), value);
}

impl Stamp {
    fn of(sample: &SampleDirectory) -> Self {
        let stamp = |metadata: Metadata| Some((metadata.modified().ok()?, metadata.len()));
        let of_file = |path: PathBuf| fs_err::metadata(path).ok().and_then(stamp);
        Self([of_file(sample.result_path()), of_file(sample.events_path())])
    }
}

/// What the sample was asked, from the first event of its first attempt.
fn question(events: &Path) -> Option<String> {
    let lines = EventLines::new(fs_err::File::open(events).ok()?);
    let messages = lines.take(MAX_LINES_BEFORE_START).find_map(|line| match line.ok()? {
        EventLine::Event { event, .. } => match *event {
            AgentEvent::Started { messages, .. } => Some(messages),
            _ => None,
        },
        _ => None,
    })?;
    question_of(&messages)
}
