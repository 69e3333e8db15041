//! What keeps a score honest: the block-list and the search for copies of the question, with their switches.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::block_list::{BlockList, BlockListError, BuiltIn};
use super::contamination::Detector;

/// Holds the question of a sample, for servers that are started for one sample.
pub const QUESTION_VARIABLE: &str = "GAIA_QUESTION";

/// Flags of the fetch and of the search server.
#[derive(Debug, Clone, Args)]
pub struct IntegrityArgs {
    /// File with further places that are neither opened nor shown; adds to the built-in list (repeatable)
    #[arg(long, value_name = "FILE")]
    pub block_list: Vec<PathBuf>,

    /// Do without the built-in list of places that hold the benchmark's answers
    #[arg(long)]
    pub no_block_list: bool,
}

/// The rules that a server goes by.
#[derive(Debug, Clone, Default)]
pub struct Integrity {
    pub block_list: Arc<BlockList>,
    /// Absent when no question is known, or it is too short to be looked for.
    pub detector: Option<Arc<Detector>>,
}

impl Integrity {
    pub fn new(args: &IntegrityArgs, question: Option<&str>) -> Result<Self, BlockListError> {
        let built_in = if args.no_block_list { BuiltIn::Off } else { BuiltIn::On };
        let block_list = Arc::new(BlockList::load(built_in, &args.block_list)?);
        Ok(Self { block_list, detector: question.and_then(Detector::new).map(Arc::new) })
    }

    /// For the instructions of the server and for the first line of its log.
    pub fn description(&self) -> String {
        let detector = if self.detector.is_some() { "on" } else { "off (no question was given)" };
        format!(
            "block-list: {}; detector of copies of the question: {detector}",
            self.block_list.description()
        )
    }

    /// The part of the question that a text holds.
    pub fn contamination(&self, text: &str) -> Option<String> {
        self.detector.as_ref()?.find(text)
    }
}
