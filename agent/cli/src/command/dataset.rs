use std::path::Path;
use std::time::Duration;

use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::Surroundings;
use super::score::parse_split;
use crate::args::{DatasetArguments, DatasetCommand, PullArguments};
use crate::config::{Hub, Secrets, Split};
use crate::console::{Console, Display};
use crate::dataset::pull::{self, PullError, Site, Step};
use crate::dataset::{self, Dataset, DatasetStats};
use crate::exit_code::{self, CommandError, CommandResult};

pub(super) async fn dataset(command: DatasetCommand, surroundings: &Surroundings) -> CommandResult {
    match command {
        DatasetCommand::Pull(arguments) => pull(&arguments, surroundings).await,
        DatasetCommand::Check(arguments) => check(&arguments, surroundings),
        DatasetCommand::Stats(arguments) => stats(&arguments, surroundings),
    }
}

async fn pull(arguments: &PullArguments, surroundings: &Surroundings) -> CommandResult {
    let (console, environment) = (&surroundings.console, &surroundings.environment);
    let splits = match &arguments.split {
        Some(split) => vec![parse_split(split)?],
        None => vec![Split::Validation, Split::Test],
    };
    let site = |hub: Hub| {
        Site::new(hub, arguments.endpoint.as_deref(), arguments.revision.as_deref(), environment)
            .map_err(|message| CommandError::usage(anyhow::anyhow!(message)))
    };
    let site = match arguments.hub {
        Some(hub) => site(hub)?,
        None => match site(Hub::Huggingface)? {
            with_token if with_token.token.is_some() => with_token,
            _ => site(Hub::Modelscope)?,
        },
    };
    let mut secrets = Secrets::default();
    if let Some(token) = &site.token {
        secrets.insert(token.expose());
    }
    console.hide(&secrets);
    let folder = match &arguments.to {
        Some(folder) => surroundings.working_dir.join(folder),
        None => pull::cache_folder(environment, site.hub, &site.revision).ok_or_else(|| {
            CommandError::usage(anyhow::anyhow!("neither XDG_CACHE_HOME nor HOME is set"))
                .with_hint("name a folder by --to DIR")
        })?,
    };
    console.say(&format!(
        "pulling GAIA from {site}, revision {}, into `{}`",
        site.revision,
        folder.display()
    ));
    let bar = progress_bar(console);
    let pulled = pull::pull(&site, &splits, &folder, &|step| show(step, console, &bar)).await;
    bar.finish_and_clear();
    let pulled = pulled.map_err(classified)?;
    let mut counts = Vec::new();
    for split in &splits {
        let dataset = dataset::load(&folder, *split).map_err(CommandError::usage)?;
        console.say(&format!("{split}: {}", count_line(&dataset)));
        counts.push(dataset.stats());
    }
    let text = if arguments.json {
        serde_json::to_string_pretty(&json!({ "path": folder, "pulled": pulled, "splits": counts }))?
    } else {
        folder.display().to_string()
    };
    console.print(&text)?;
    Ok(exit_code::SUCCESS)
}

fn progress_bar(console: &Console) -> ProgressBar {
    if console.display() != Display::Live {
        return ProgressBar::hidden();
    }
    let bar = console.bars().add(ProgressBar::new(0));
    if let Ok(style) =
        ProgressStyle::with_template("{bytes:>10} of {total_bytes} [{bar:30}] {bytes_per_sec} {msg}")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(step: Step<'_>, console: &Console, bar: &ProgressBar) {
    match step {
        Step::Listed { files, bytes } => {
            bar.set_length(bytes);
            console.say(&format!("{files} files, {:.1} MB", bytes as f64 / 1e6));
        }
        Step::Bytes(bytes) => match u64::try_from(bytes) {
            Ok(more) => bar.inc(more),
            Err(_) => bar.set_position(bar.position().saturating_sub(bytes.unsigned_abs())),
        },
        Step::Finished(path) => bar.set_message(path.to_owned()),
        Step::Waiting { what, seconds } => {
            console.say(&format!("`{what}` did not come through; once more in {} s", seconds.max(1)));
        }
    }
}

fn classified(error: PullError) -> CommandError {
    let hint = error.hint();
    let classified = match &error {
        PullError::NotFound { .. } => CommandError::usage(error),
        PullError::Write(_) => CommandError::from(error),
        _ => CommandError::environment(error),
    };
    CommandError { hint, ..classified }
}

/// Rows of the published splits by level, the placeholder of `test` among them.
const PUBLISHED_LEVELS: [(Split, [usize; 3]); 2] =
    [(Split::Validation, [53, 86, 26]), (Split::Test, [93, 159, 49])];

/// What a split holds, and whether that is what was published.
fn count_line(dataset: &Dataset) -> String {
    let count = |level: u8| dataset.samples.iter().filter(|sample| sample.level == level).count();
    let (counts, attachments) =
        ([1, 2, 3].map(count), dataset.samples.iter().filter(|sample| sample.file.is_some()).count());
    let [first, second, third] = counts;
    let published =
        PUBLISHED_LEVELS.iter().find(|(split, _)| *split == dataset.split).map(|(_, levels)| *levels);
    let remark = match published {
        Some(levels) if levels == counts => "as published".to_owned(),
        Some([first, second, third]) => format!("GAIA as published has {first}/{second}/{third}"),
        None => String::new(),
    };
    let placeholder = if dataset.samples.iter().any(dataset::Sample::is_placeholder) {
        "; the placeholder row of the leaderboard is there"
    } else {
        ""
    };
    format!(
        "{} samples at levels 1/2/3: {first}/{second}/{third} ({remark}), {attachments} attachments{placeholder}",
        dataset.samples.len()
    )
}

/// Loading checks every row and hashes every attachment; what is wrong is the error.
fn check(arguments: &DatasetArguments, surroundings: &Surroundings) -> CommandResult {
    let dataset = load(&arguments.path, &arguments.split)?;
    let attachments = dataset.samples.iter().filter(|sample| sample.file.is_some()).count();
    let text = if arguments.json {
        serde_json::to_string_pretty(&json!({
            "path": dataset.root,
            "split": dataset.split,
            "samples": dataset.samples.len(),
            "attachments": attachments,
            "fingerprint": dataset.fingerprint,
            "sources": dataset.sources,
        }))?
    } else {
        format!(
            "ok: {} samples and {attachments} attachments in the {} split, fingerprint {}\n{}",
            dataset.samples.len(),
            dataset.split,
            dataset.fingerprint,
            count_line(&dataset)
        )
    };
    surroundings.console.print(&text)?;
    Ok(exit_code::SUCCESS)
}

fn stats(arguments: &DatasetArguments, surroundings: &Surroundings) -> CommandResult {
    let stats = load(&arguments.path, &arguments.split)?.stats();
    let text = if arguments.json { serde_json::to_string_pretty(&stats)? } else { table(&stats) };
    surroundings.console.print(&text)?;
    Ok(exit_code::SUCCESS)
}

fn table(stats: &DatasetStats) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(DatasetStats::HEADER);
    for row in stats.rows() {
        table.add_row(row);
    }
    table.to_string()
}

fn load(path: &Path, split: &str) -> CommandResult<Dataset> {
    dataset::load(path, parse_split(split)?).map_err(CommandError::usage)
}
