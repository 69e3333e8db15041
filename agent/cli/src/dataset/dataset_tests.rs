use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};

use super::*;

/// A snapshot folder; files are written relative to `2023/validation`.
struct Snapshot {
    dir: tempfile::TempDir,
}

impl Snapshot {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(dir.path().join("2023/validation")).unwrap();
        Self { dir }
    }

    /// Three samples, one with an attachment.
    fn jsonl() -> Self {
        let lines: Vec<String> = rows().iter().map(Value::to_string).collect();
        Self::new().file("metadata.jsonl", lines.join("\n").as_bytes()).file("t-2.txt", b"attached")
    }

    fn file(self, name: &str, bytes: &[u8]) -> Self {
        fs_err::write(self.split().join(name), bytes).unwrap();
        self
    }

    fn split(&self) -> PathBuf {
        self.dir.path().join("2023/validation")
    }

    fn load(&self) -> Result<Dataset, DatasetError> {
        load(self.dir.path(), Split::Validation)
    }
}

fn rows() -> Vec<Value> {
    vec![
        json!({"task_id": "t-1", "Question": "How many?", "Level": 1, "Final answer": "17", "file_name": "",
            "Annotator Metadata": {"Steps": "1. Count", "Number of steps": "1", "How long did this take?": "1 minute",
            "Tools": "None", "Number of tools": "0"}}),
        json!({"task_id": "t-2", "Question": "Which?", "Level": 2, "Final answer": "a, b", "file_name": "t-2.txt",
            "Annotator Metadata": {"Steps": "1. Read", "Number of steps": "1", "How long did this take?": "1 minute",
            "Tools": "Reader", "Number of tools": "1"}}),
        json!({"task_id": "t-3", "Question": "Who?", "Level": 3, "Final answer": "Ünal", "file_name": "",
            "Annotator Metadata": {"Steps": "", "Number of steps": "2", "How long did this take?": "",
            "Tools": "", "Number of tools": ""}}),
    ]
}

#[derive(Clone, Copy)]
enum Levels {
    Text,
    Number,
}

/// The columns of the present layout of the Hub.
fn parquet_bytes(rows: &[Value], levels: Levels) -> Vec<u8> {
    let level = match levels {
        Levels::Text => "optional binary Level (UTF8)",
        Levels::Number => "optional int64 Level",
    };
    let schema = format!(
        "message schema {{
            optional binary task_id (UTF8); optional binary Question (UTF8); {level};
            optional binary Final_answer (UTF8); optional binary file_name (UTF8); optional binary file_path (UTF8);
            optional group Annotator_Metadata {{ optional binary Steps (UTF8); }}
        }}"
    );
    let parsed = parse_message_type(&schema).unwrap();
    // The parser of the text form knows no names with blanks.
    let renamed =
        rename(&parsed, &[("Final_answer", "Final answer"), ("Annotator_Metadata", "Annotator Metadata")]);
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut bytes, renamed, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let text = |row: &Value, name: &str| match name {
        "Steps" => row["Annotator Metadata"]["Steps"].as_str().unwrap_or_default().to_owned(),
        "file_path" => match row["file_name"].as_str() {
            Some("") | None => String::new(),
            Some(name) => format!("2023/validation/{name}"),
        },
        "Level" => row["Level"].to_string().replace('"', ""),
        name => row[name].as_str().unwrap_or_default().to_owned(),
    };
    for name in ["task_id", "Question", "Level", "Final answer", "file_name", "file_path", "Steps"] {
        let mut column = group.next_column().unwrap().unwrap();
        let depth = if name == "Steps" { 2 } else { 1 };
        let definitions = vec![depth; rows.len()];
        if let ("Level", Levels::Number) = (name, levels) {
            let values: Vec<i64> = rows.iter().map(|row| row["Level"].as_i64().unwrap()).collect();
            column.typed::<Int64Type>().write_batch(&values, Some(&definitions), None).unwrap();
        } else {
            let values: Vec<ByteArray> = rows.iter().map(|row| text(row, name).into_bytes().into()).collect();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&definitions), None).unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

fn rename(schema: &parquet::schema::types::Type, names: &[(&str, &str)]) -> parquet::schema::types::TypePtr {
    use parquet::schema::types::Type;
    let field = |field: &Arc<Type>| {
        let Some((_, name)) = names.iter().find(|(from, _)| *from == field.name()) else {
            return field.clone();
        };
        let basic = field.get_basic_info();
        Arc::new(if field.is_group() {
            Type::group_type_builder(name)
                .with_repetition(basic.repetition())
                .with_fields(field.get_fields().to_vec())
                .build()
                .unwrap()
        } else {
            Type::primitive_type_builder(name, field.get_physical_type())
                .with_repetition(basic.repetition())
                .with_logical_type(basic.logical_type_ref().cloned())
                .with_converted_type(basic.converted_type())
                .build()
                .unwrap()
        })
    };
    let fields = schema.get_fields().iter().map(field).collect();
    Arc::new(Type::group_type_builder("schema").with_fields(fields).build().unwrap())
}

#[track_caller]
fn check_error(snapshot: &Snapshot, parts: &[&str]) {
    let error = match snapshot.load() {
        Ok(_) => panic!("accepted, instead of {parts:?}"),
        Err(error) => error.to_string(),
    };
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in:\n{error}");
    }
}

#[test]
fn json_lines_are_read() {
    let snapshot = Snapshot::jsonl();
    let dataset = snapshot.load().unwrap();
    let [first, second, third] = dataset.samples.as_slice() else { panic!("three samples") };
    assert_eq!((first.task_id.as_str(), first.level, first.truth.as_deref()), ("t-1", 1, Some("17")));
    assert_eq!((&first.file, &first.file_name), (&None, &None));
    assert_eq!(second.file, Some(snapshot.split().join("t-2.txt")));
    assert_eq!(second.file_name.as_deref(), Some("t-2.txt"));
    assert_eq!(second.annotator.tools.as_deref(), Some("Reader"));
    assert_eq!(third.truth.as_deref(), Some("Ünal"));
    assert_eq!(dataset.fingerprint.len(), 64);
}

#[test]
fn parquet_says_the_same_as_json_lines() {
    let expected = Snapshot::jsonl().load().unwrap();
    for levels in [Levels::Text, Levels::Number] {
        let snapshot = Snapshot::new()
            .file("metadata.parquet", &parquet_bytes(&rows(), levels))
            .file("t-2.txt", b"attached");
        let dataset = snapshot.load().unwrap();
        assert_eq!(dataset.fingerprint, expected.fingerprint);
        assert_eq!(dataset.samples[0].annotator.steps.as_deref(), Some("1. Count"));
        assert!(dataset.samples[1].file.as_ref().unwrap().is_file());
        assert_eq!(dataset.samples[2].truth.as_deref(), Some("Ünal"));
    }
    let mut snapshot = Snapshot::new().file("t-2.txt", b"attached");
    for (index, row) in rows().iter().enumerate() {
        let bytes = parquet_bytes(std::slice::from_ref(row), Levels::Text);
        snapshot = snapshot.file(&format!("metadata.level{}.parquet", index + 1), &bytes);
    }
    let dataset = snapshot.load().unwrap();
    assert_eq!((dataset.fingerprint, dataset.sources.len()), (expected.fingerprint, 3));
}

#[test]
fn the_fingerprint_follows_the_content_alone() {
    let expected = Snapshot::jsonl().load().unwrap().fingerprint;
    let mut reversed = rows();
    reversed.reverse();
    let lines: Vec<String> = reversed.iter().map(Value::to_string).collect();
    let text = format!("\u{feff}{}\r\n\r\n", lines.join("\r\n"));
    let snapshot = Snapshot::jsonl().file("metadata.jsonl", text.as_bytes());
    assert_eq!(snapshot.load().unwrap().fingerprint, expected);
    let snapshot = Snapshot::jsonl().file("t-2.txt", b"attacheD");
    assert_ne!(snapshot.load().unwrap().fingerprint, expected);
    let text = lines.join("\n").replace("17", "18");
    assert_ne!(
        Snapshot::jsonl().file("metadata.jsonl", text.as_bytes()).load().unwrap().fingerprint,
        expected
    );
}

#[test]
fn every_folder_of_a_snapshot_will_do() {
    let snapshot = Snapshot::new()
        .file("metadata.parquet", &parquet_bytes(&rows(), Levels::Text))
        .file("t-2.txt", b"attached");
    for root in ["", "2023", "2023/validation", "2023/validation/."] {
        let dataset = load(&snapshot.dir.path().join(root), Split::Validation).unwrap();
        assert_eq!(dataset.samples.len(), 3, "{root}");
    }
    let error = load(&snapshot.split(), Split::Test).unwrap_err().to_string();
    assert!(error.contains("no metadata of the test split"), "{error}");
}

#[test]
fn a_folder_without_metadata_is_described() {
    let snapshot = Snapshot::new();
    fs_err::write(snapshot.dir.path().join("README.md"), "x").unwrap();
    check_error(
        &snapshot,
        &[
            "no metadata of the validation split",
            "holds `2023`, `README.md`",
            "2023/validation/metadata.jsonl",
            "hint: ",
        ],
    );
    let error = load(&snapshot.dir.path().join("absent"), Split::Validation).unwrap_err().to_string();
    assert!(error.contains("there is no folder") && error.contains("absent"), "{error}");
}

#[test]
fn bad_rows_are_named_by_file_line_and_task() {
    let good = rows()[0].to_string();
    let with = |key: &str, value: Value| {
        let mut row = rows()[0].clone();
        row["task_id"] = json!("bad");
        row[key] = value;
        row.to_string()
    };
    let without = |key: &str| {
        let mut row = rows()[0].clone();
        row["task_id"] = json!("bad");
        row.as_object_mut().unwrap().remove(key);
        row.to_string()
    };
    let long = "x".repeat(201);
    let cases: &[(String, &str)] = &[
        ("{broken".to_owned(), "metadata.jsonl`, line 2: not valid JSON: key must be a string at column 2"),
        ("[1]".to_owned(), "line 2: not a JSON object but a list"),
        (without("task_id"), "line 2: `task_id` is missing; the row has `"),
        (without("Question"), "line 2, task `bad`: `Question` is missing"),
        (without("Level"), "task `bad`: `Level` is missing"),
        (without("Final answer"), "task `bad`: `Final answer` is missing"),
        (with("Question", json!(" ")), "task `bad`: `Question` is empty"),
        (with("Question", json!(1)), "`Question` must be text, not a number"),
        (with("Final answer", json!(17)), "`Final answer` must be text, not a number"),
        (with("Final answer", json!("")), "`Final answer` is empty"),
        (with("Level", json!(4)), "`Level` must be 1, 2 or 3, not `4`"),
        (with("Level", json!("hard")), "`Level` must be 1, 2 or 3, not `\"hard\"`"),
        (with("Level", json!(null)), "`Level` must be 1, 2 or 3, not `null`"),
        (with("task_id", json!("")), "cannot be a folder name: it is empty"),
        (with("task_id", json!("a/b")), "it holds a slash"),
        (with("task_id", json!("..")), "it starts with a dot"),
        (with("task_id", json!("a\0b")), "it holds a control character"),
        (with("task_id", json!(long)), "longer than 200 bytes"),
        (with("task_id", json!("t-1")), "line 2, task `t-1`: duplicate `task_id`: first in line 1"),
        (with("file_name", json!("../x")), "`file_name` `../x` is not the name of a file"),
        (with("file_name", json!(7)), "`file_name` must be text"),
        (with("file_name", json!("no.txt")), "task `bad`: attachment `no.txt` is missing: looked for `"),
        (with("file_path", json!("2023/../../x")), "`file_path` `2023/../../x` leaves the dataset"),
    ];
    for (line, expected) in cases {
        let snapshot = Snapshot::new().file("metadata.jsonl", format!("{good}\n{line}\n").as_bytes());
        check_error(&snapshot, &[expected, "metadata.jsonl"]);
    }
    let mut bytes = good.into_bytes();
    bytes.extend(b"\n{\"task_id\": \"\xff\"}\n{\n");
    let snapshot = Snapshot::new().file("metadata.jsonl", &bytes);
    check_error(&snapshot, &["line 2: not UTF-8 after column 13", "line 3: not valid JSON"]);
}

#[test]
fn errors_never_show_a_truth() {
    let mut row = rows()[0].clone();
    row["Final answer"] = json!(["the-truth"]);
    let error = Snapshot::new().file("metadata.jsonl", row.to_string().as_bytes()).load().unwrap_err();
    assert!(!error.to_string().contains("the-truth"), "{error}");
}

#[test]
fn bad_files_are_named() {
    let parquet = parquet_bytes(&rows(), Levels::Text);
    let cases: &[(&str, &[u8], &str)] = &[
        ("metadata.jsonl", b"\n \n", "metadata.jsonl`: no rows"),
        ("metadata.parquet", b"PAR1 no", "metadata.parquet`: not a Parquet file"),
        ("metadata.parquet", &parquet[..parquet.len() / 2], "not a Parquet file"),
        ("metadata.parquet", b"version https://git-lfs.github.com/spec/v1\noid x", "run `git lfs pull`"),
        ("metadata.level2.parquet", &parquet, "metadata.level1.parquet`: not there"),
    ];
    for (name, bytes, expected) in cases {
        check_error(&Snapshot::new().file(name, bytes), &[expected]);
    }
    let pointer = Snapshot::jsonl().file("t-2.txt", b"version https://git-lfs.github.com/spec/v1\noid x");
    check_error(&pointer, &["task `t-2`: attachment", "Git LFS pointer"]);
}

#[test]
fn a_level_file_holds_its_own_level() {
    let mut snapshot = Snapshot::new().file("t-2.txt", b"attached");
    for (index, row) in [1, 0, 2].iter().map(|index| rows()[*index].clone()).enumerate() {
        let bytes = parquet_bytes(&[row], Levels::Text);
        snapshot = snapshot.file(&format!("metadata.level{}.parquet", index + 1), &bytes);
    }
    check_error(&snapshot, &["metadata.level1.parquet`, row 1, task `t-2`: level 2 in the file of level 1"]);
}

#[test]
fn two_forms_must_agree() {
    let snapshot = Snapshot::jsonl().file("metadata.parquet", &parquet_bytes(&rows(), Levels::Text));
    assert_eq!(snapshot.load().unwrap().sources.len(), 2);
    let mut other = rows();
    other[2]["Question"] = json!("Why?");
    let snapshot = snapshot.file("metadata.parquet", &parquet_bytes(&other, Levels::Text));
    check_error(&snapshot, &["disagree: `Question` of task `t-3`", "hint: remove the older"]);
    let snapshot = snapshot.file("metadata.parquet", &parquet_bytes(&rows()[..2], Levels::Text));
    check_error(&snapshot, &["only the second holds task `t-3`"]);
}

#[test]
fn hidden_truths_of_the_test_split() {
    let dir = tempfile::tempdir().unwrap();
    fs_err::create_dir_all(dir.path().join("test")).unwrap();
    let lines = [
        json!({"task_id": "a", "Question": "Q", "Level": "2023_level1", "Final answer": "?"}),
        json!({"task_id": "b", "Question": "Q", "Level": "2"}),
        json!({"task_id": PLACEHOLDER_TASK_ID, "Question": "Q", "Level": "3", "Final answer": "?"}),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs_err::write(dir.path().join("test/metadata.jsonl"), lines.join("\n")).unwrap();
    let dataset = load(dir.path(), Split::Test).unwrap();
    assert!(dataset.samples.iter().all(|sample| sample.truth.is_none()));
    let placeholders: Vec<bool> = dataset.samples.iter().map(Sample::is_placeholder).collect();
    assert_eq!(placeholders, [false, false, true]);
    // Nobody is asked what is no question; the submission holds it all the same.
    let selected = dataset.clone().select(&Selection::default()).unwrap();
    assert_eq!(ids(&selected), ["a", "b"]);
    assert_eq!(selected.unselected[0].task_id, PLACEHOLDER_TASK_ID);
    let only = Selection { task_ids: vec![PLACEHOLDER_TASK_ID.to_owned()], ..Selection::default() };
    assert!(matches!(dataset.clone().select(&only), Err(DatasetError::NothingSelected { .. })));
    assert_eq!(dataset.stats().total.scorable, 0);
}

#[test]
fn links_may_not_leave_the_dataset() {
    let outside = tempfile::tempdir().unwrap();
    fs_err::write(outside.path().join("secret"), "x").unwrap();
    let snapshot = Snapshot::jsonl();
    fs_err::remove_file(snapshot.split().join("t-2.txt")).unwrap();
    symlink(outside.path().join("secret"), snapshot.split().join("t-2.txt")).unwrap();
    check_error(&snapshot, &["task `t-2`", "is a link that leaves the dataset"]);
}

#[test]
fn the_links_of_a_hub_cache_are_followed() {
    let cache = tempfile::tempdir().unwrap();
    let split = cache.path().join("snapshots/abc/2023/validation");
    fs_err::create_dir_all(&split).unwrap();
    fs_err::create_dir_all(cache.path().join("blobs")).unwrap();
    fs_err::write(cache.path().join("blobs/h1"), "attached").unwrap();
    symlink("../../../../blobs/h1", split.join("t-2.txt")).unwrap();
    fs_err::write(cache.path().join("blobs/h2"), parquet_bytes(&rows(), Levels::Text)).unwrap();
    symlink("../../../../blobs/h2", split.join("metadata.parquet")).unwrap();
    let expected = Snapshot::jsonl().load().unwrap().fingerprint;
    for root in [cache.path().join("snapshots/abc"), split] {
        assert_eq!(load(&root, Split::Validation).unwrap().fingerprint, expected);
    }
}

#[test]
fn only_the_samples_own_attachment_is_staged() {
    let snapshot = Snapshot::jsonl();
    let dataset = snapshot.load().unwrap();
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(stage_attachment(&dataset.samples[0], dir.path()).unwrap(), None);
    let staged = stage_attachment(&dataset.samples[1], dir.path()).unwrap().unwrap();
    assert_eq!(staged, dir.path().join("t-2.txt"));
    assert_eq!(fs_err::read(&staged).unwrap(), b"attached");
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(fs_err::metadata(&staged).unwrap().permissions().mode() & 0o777, 0o444);
    let original = fs_err::metadata(snapshot.split().join("t-2.txt")).unwrap();
    assert_ne!(original.permissions().mode() & 0o200, 0, "the dataset's own file was changed");
    assert!(stage_attachment(&dataset.samples[1], dir.path()).is_err(), "overwrote what was there");
}

fn ids(dataset: &Dataset) -> Vec<&str> {
    dataset.samples.iter().map(|sample| sample.task_id.as_str()).collect()
}

#[test]
fn selection_by_level_task_limit_and_seed() {
    let dataset = Snapshot::jsonl().load().unwrap();
    let select = |selection: Selection| dataset.clone().select(&selection).unwrap();
    assert_eq!(ids(&select(Selection::default())), ["t-1", "t-2", "t-3"]);
    assert_eq!(ids(&select(Selection { levels: vec![3, 1], ..Selection::default() })), ["t-1", "t-3"]);
    assert_eq!(ids(&select(Selection { limit: Some(2), ..Selection::default() })), ["t-1", "t-2"]);
    let tasks = vec!["t-3".to_owned(), "t-2".to_owned()];
    let chosen = select(Selection { task_ids: tasks, ..Selection::default() });
    assert_eq!(ids(&chosen), ["t-2", "t-3"]);
    assert_eq!(chosen.fingerprint, dataset.fingerprint);
    // Fixed: a seed must give the same order in every version.
    let shuffled = |seed| select(Selection { shuffle_seed: Some(seed), ..Selection::default() });
    let orders: Vec<String> = (0..20).map(|seed| ids(&shuffled(seed)).join(" ")).collect();
    assert_eq!(orders[..3], SHUFFLES, "{orders:?}");
    let first = select(Selection { shuffle_seed: Some(2), limit: Some(1), ..Selection::default() });
    assert_eq!(ids(&first), [SHUFFLES[2].split(' ').next().unwrap()]);
    // Whatever is chosen, every row is on one side.
    for selection in [
        Selection { levels: vec![2], ..Selection::default() },
        Selection { limit: Some(1), shuffle_seed: Some(3), ..Selection::default() },
        Selection::default(),
    ] {
        let chosen = select(selection);
        let mut all: Vec<String> =
            chosen.samples.iter().chain(&chosen.unselected).map(|sample| sample.task_id.clone()).collect();
        all.sort();
        assert_eq!(all, ["t-1", "t-2", "t-3"]);
    }
}

/// By seed, computed apart: tasks in the order of SHA-256 over the seed (8 bytes, big-endian) and the id.
const SHUFFLES: [&str; 3] = ["t-1 t-3 t-2", "t-1 t-3 t-2", "t-2 t-3 t-1"];

#[test]
fn a_selection_that_finds_nothing_is_an_error() {
    let dataset = Snapshot::jsonl().load().unwrap();
    let error = |selection: Selection| dataset.clone().select(&selection).unwrap_err().to_string();
    let unknown = |id: &str| error(Selection { task_ids: vec![id.to_owned()], ..Selection::default() });
    assert_eq!(
        unknown("t-"),
        "failed to select samples: no task `t-` in the validation split, did you mean `t-1`?"
    );
    assert_eq!(unknown("zzz"), "failed to select samples: no task `zzz` in the validation split");
    let selection = Selection { levels: vec![1], task_ids: vec!["t-2".into()], ..Selection::default() };
    assert_eq!(
        error(selection),
        "failed to select samples: of 3 samples none is left with levels [1], tasks [\"t-2\"]"
    );
}

#[test]
fn statistics_by_level() {
    let stats = Snapshot::jsonl().load().unwrap().stats();
    assert_eq!(stats.levels[&2].attachment_types["txt"], 1);
    assert_eq!(
        stats.rows(),
        [
            ["1", "1", "1", "0", ""],
            ["2", "1", "1", "1", "txt 1"],
            ["3", "1", "1", "0", ""],
            ["all", "3", "3", "1", "txt 1"]
        ]
    );
    assert_eq!(serde_json::to_value(&stats).unwrap()["total"]["samples"], 3);
}

#[test]
fn the_bundled_samples_load() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/samples");
    let dataset = load(&root, Split::Validation).unwrap();
    assert!(dataset.samples.len() >= 24, "{}", dataset.samples.len());
    assert_eq!(dataset.stats().levels.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
}
