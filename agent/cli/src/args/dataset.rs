use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::config::Hub;

#[derive(Debug, Subcommand)]
pub enum DatasetCommand {
    /// Download a GAIA snapshot; print the folder it is in
    Pull(PullArguments),
    /// Read every row and every attachment and say what is wrong
    Check(DatasetArguments),
    /// Count samples by level and attachments by kind
    Stats(DatasetArguments),
}

#[derive(Debug, Args)]
pub struct PullArguments {
    /// Where from: `huggingface` wants a token in HF_TOKEN of an account that accepted GAIA's terms, `modelscope` none.
    /// Without it the first when there is a token, else the second
    #[arg(long, value_name = "HUB")]
    pub hub: Option<Hub>,

    /// Only this split: validation or test; both without it
    #[arg(long, value_name = "SPLIT")]
    pub split: Option<String>,

    /// Folder for the snapshot; the cache folder of gaia without it, where `dataset.hub` of a config finds it
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,

    /// Another revision than the one that everybody compares with
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,

    /// Address of a mirror; also HF_ENDPOINT and MODELSCOPE_ENDPOINT
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,

    /// Print JSON instead of the folder
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DatasetArguments {
    /// Folder of a GAIA snapshot
    pub path: PathBuf,

    /// Split of the dataset: validation or test
    #[arg(long, value_name = "SPLIT", default_value = "validation")]
    pub split: String,

    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}
