//! Documents with known answers: each answer is worked out from what the tool returns and nothing else.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::site::{Asked, Reply, Site, page, status};
use crate::web_support::{Web, all_text, sample_files};

fn document(asked: &Asked) -> Reply {
    let name = asked.target.trim_start_matches('/');
    let kind = match name.rsplit('.').next().unwrap() {
        "csv" => "text/csv",
        "xml" => "application/xml",
        "jsonld" => "application/ld+json",
        "txt" | "py" | "pdb" => "text/plain; charset=utf-8",
        // What many servers say of everything else.
        _ => "application/octet-stream",
    };
    for folder in [concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents").into(), sample_files()] {
        if let Ok(body) = fs_err::read(folder.join(name)) {
            return page(kind, body);
        }
    }
    status(404)
}

async fn read(name: &str, extra: Value) -> String {
    let site = Site::start(document).await;
    let web = Web::fetch(&[]).await;
    let mut arguments = json!({ "url": site.url(&format!("/{name}")), "max_length": 100_000 });
    arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let result = web.call("fetch", arguments).await;
    assert_ne!(result.is_error, Some(true), "{name}: {}", all_text(&result));
    all_text(&result)
}

/// Rows of the Markdown tables in a text.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.contains("---"));
    lines
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

#[tokio::test]
async fn a_workbook_shows_its_colors_on_request() {
    let plain = read("plots.xlsx", json!({})).await;
    assert!(!plain.contains("{green") && plain.contains("ask with cells=\"colors\""), "{plain}");
    let text = read("plots.xlsx", json!({ "cells": "colors" })).await;
    let rows = rows(&text);
    // Row 0 has the letters of the columns, column 0 the numbers of the rows.
    let cells = || {
        rows[1..].iter().enumerate().flat_map(|(row, cells)| {
            cells[1..].iter().enumerate().map(move |(column, cell)| (row, column, cell))
        })
    };
    let green = cells().filter(|(_, _, cell)| cell.contains("{green"));
    let rent: u32 = green.map(|(_, _, cell)| cell.split(' ').next().unwrap().parse::<u32>().unwrap()).sum();
    assert_eq!(rent, 847);
    let (last_row, last_column) = (rows.len() - 2, rows[1].len() - 2);
    let on_edge =
        |row: usize, column: usize| row == 0 || column == 0 || row == last_row || column == last_column;
    let blue = cells().filter(|(row, column, cell)| cell.contains("{blue") && on_edge(*row, *column)).count();
    assert_eq!(blue, 14);
}

#[tokio::test]
async fn a_workbook_shows_all_sheets_values_and_formulas() {
    let text = read("sales.xlsx", json!({ "cells": "formulas" })).await;
    assert!(text.contains("## Sheet 4 of 4: notes (hidden)"), "{text}");
    assert!(text.contains("19028 [=SUM(B2:E2)-F2]"), "{text}");
    let net = |sheet: &str, region: &str| -> i64 {
        let part = text.split("## Sheet ").find(|part| part.contains(&format!(": {sheet}\n"))).unwrap();
        let row = rows(part).into_iter().find(|row| row[1] == region).unwrap();
        row[7].split(' ').next().unwrap().parse().unwrap()
    };
    let growth =
        ["North", "East", "South", "West"].map(|region| (net("2023", region) - net("2021", region), region));
    assert_eq!(growth.into_iter().max(), Some((14_692, "East")));
}

#[tokio::test]
async fn a_text_document_keeps_its_table_and_its_order() {
    let text = read("minutes.docx", json!({})).await;
    let due = rows(&text).into_iter().find(|row| row[2] == "30 April").unwrap();
    assert_eq!(due[1], "Petra Novak");
    let correction = "Petra Novak's item goes to Owen Lloyd, same due date.";
    assert!(text.find(correction).unwrap() > text.find("30 April").unwrap());
    assert!(text.contains("# Minutes of the harbour committee"));
}

#[tokio::test]
async fn slides_and_their_notes_are_apart() {
    let text = read("talk.pptx", json!({})).await;
    let with_otters = text
        .split("## Slide ")
        .skip(1)
        .filter(|slide| slide.split("Speaker notes").next().unwrap().to_lowercase().contains("otter"))
        .count();
    assert_eq!(with_otters, 2);
    assert!(text.contains("Speaker notes of slide 5: Say here that herons and otters"));
}

#[tokio::test]
async fn a_pdf_has_its_table_and_its_scan() {
    let site = Site::start(document).await;
    let web = Web::fetch(&[]).await;
    let result = web.call("fetch", json!({ "url": site.url("/tariff.pdf") })).await;
    let text = all_text(&result);
    let rows = rows(&text);
    let zone_3 = rows[0].iter().position(|cell| cell == "Zone 3").unwrap();
    let row = rows[1..].iter().find(|row| row[0].parse::<f64>().unwrap() >= 2.4).unwrap();
    assert_eq!(row[zone_3], "14.11");
    assert!(text.contains("## Page 2 of 2\n\n[page 2 is a picture without text; it is attached"), "{text}");
    let picture = result.content[1].as_image().expect("the scan is attached");
    let bytes = STANDARD.decode(&picture.data).unwrap();
    let seen = image_size(&bytes);
    assert!(picture.mime_type == "image/jpeg" && seen.0 > 500 && seen.1 > 500, "{seen:?}");
    assert_eq!(result.structured_content, None, "hosts would show it instead of the picture");
    let facts = &result.meta.unwrap()["gaia/page"];
    assert_eq!(facts["title"], "Parcel tariff");
    let found = web.call("find", json!({ "url": site.url("/tariff.pdf"), "pattern": "14.11" })).await;
    assert_eq!(found.structured_content.unwrap()["total"], 1);
}

/// Of a JPEG: the frame header.
fn image_size(bytes: &[u8]) -> (u16, u16) {
    let at = bytes.windows(2).position(|pair| pair[0] == 0xff && matches!(pair[1], 0xc0 | 0xc2)).unwrap();
    let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    (number(at + 7), number(at + 5))
}

#[tokio::test]
async fn an_archive_lists_and_shows_its_members() {
    let text = read("bundle.zip", json!({})).await;
    assert!(text.contains("Archive with 3 members:\n\n- readme.txt (89 bytes)"), "{text}");
    let part = |name: &str| text.split("## ").find(|part| part.starts_with(name)).unwrap().to_owned();
    let prices = part("data/prices.json");
    let prices: Value =
        serde_json::from_str(&prices[prices.find('{').unwrap()..=prices.rfind('}').unwrap()]).unwrap();
    let mut bills = std::collections::BTreeMap::<String, u64>::new();
    for line in part("data/loans.csv").lines().filter(|line| line.matches(',').count() == 2).skip(1) {
        let loan: Vec<&str> = line.split(',').collect();
        *bills.entry(loan[0].to_owned()).or_default() +=
            prices[loan[1]].as_u64().unwrap() * loan[2].parse::<u64>().unwrap();
    }
    let (name, cents) = bills.into_iter().max_by_key(|(_, cents)| *cents).unwrap();
    assert_eq!((name.as_str(), cents), ("Jonas", 1_360));
}

#[tokio::test]
async fn text_of_any_kind_comes_as_it_is() {
    let csv = read("stations.csv", json!({})).await;
    let readings: Vec<Vec<&str>> = csv
        .lines()
        .skip_while(|line| !line.starts_with("date,"))
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(readings.len(), 112);
    let missing =
        readings.iter().filter(|reading| reading.last().unwrap().trim().parse::<f64>().is_err()).count();
    assert_eq!(missing, 9);
    let mut by_station = std::collections::BTreeMap::<&str, Vec<f64>>::new();
    for reading in &readings {
        by_station.entry(reading[1]).or_default().extend(reading[2].trim().parse::<f64>());
    }
    let means = by_station.iter().map(|(name, all)| (all.iter().sum::<f64>() / all.len() as f64, *name));
    let (mean, warmest) = means.max_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
    assert_eq!((warmest, format!("{mean:.2}").as_str()), ("Birch", "12.23"));

    let notes = read("notes.txt", json!({})).await;
    let body = notes.split_once(":\nContents of ").unwrap().1.split_once('\n').unwrap().1;
    let word: String = body.lines().skip(1).take(4).filter_map(|line| line.chars().next()).collect();
    assert_eq!(word, "KELP");

    let atoms = read("peptide.pdb", json!({})).await;
    let places: Vec<[f64; 3]> = atoms
        .lines()
        .filter(|line| line.starts_with("ATOM"))
        .map(|line| [30..38, 38..46, 46..54].map(|columns| line[columns].trim().parse().unwrap()))
        .collect();
    let distance = (0..3).map(|axis| (places[0][axis] - places[1][axis]).powi(2)).sum::<f64>().sqrt();
    assert_eq!(format!("{distance:.3}"), "1.474");

    let catalog = read("catalog.xml", json!({})).await;
    let between = |text: &str, before: &str, after: &str| -> String {
        text.split(before)
            .nth(1)
            .unwrap()
            .split(after)
            .next()
            .unwrap()
            .split('>')
            .next_back()
            .unwrap()
            .to_owned()
    };
    let mut novels: Vec<(String, String)> = catalog
        .split("<book ")
        .filter(|book| book.starts_with("kind=\"novel\""))
        .map(|book| (between(book, "<year>", "</year>"), between(book, "<title", "</title>")))
        .collect();
    novels.sort_by(|one, other| other.0.cmp(&one.0));
    let titles: Vec<String> = novels.into_iter().map(|(_, title)| title).collect();
    assert_eq!(titles.join(", "), "Salt, North Wind, Blue Lantern");

    let people = read("people.jsonld", json!({})).await;
    let graph: Value = serde_json::from_str(&people[people.find("{\n").unwrap()..]).unwrap();
    let persons: Vec<&Value> =
        graph["@graph"].as_array().unwrap().iter().filter(|node| node["@type"] == "Person").collect();
    let articles = persons.iter().flat_map(|person| person["workExample"].as_array().into_iter().flatten());
    let articles = articles.filter(|work| work["@type"] == "ScholarlyArticle").count();
    assert_eq!(format!("{:.2}", articles as f64 / persons.len() as f64), "2.25");

    let puzzle = read("puzzle.py", json!({})).await;
    let code = &puzzle[puzzle.find("import itertools").unwrap()..];
    let ran = std::process::Command::new("python3").args(["-c", code]).output().unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap().trim(), "6391");
}

#[tokio::test]
async fn pictures_come_as_pictures() {
    let site = Site::start(document).await;
    let web = Web::fetch(&[]).await;
    for name in ["sign.png", "chart.png"] {
        let original =
            fs_err::read(format!("{}/tests/documents/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let result = web.call("fetch", json!({ "url": site.url(&format!("/{name}")) })).await;
        assert!(all_text(&result).contains("[a picture: image/png, "), "{}", all_text(&result));
        let picture = result.content[1].as_image().unwrap();
        assert_eq!(picture.mime_type, "image/png");
        // What a model that sees needs for the answer is all there.
        assert_eq!(STANDARD.decode(&picture.data).unwrap(), original);
    }
}

#[tokio::test]
async fn recordings_are_described_and_saved_for_other_tools() {
    let mut wav =
        b"RIFF\x24\x7d\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data".to_vec();
    wav.extend(32_000u32.to_le_bytes());
    wav.extend(vec![0; 32_000]);
    let site = Site::of(&[
        ("/a/call.wav", page("audio/wav", wav.clone())),
        ("/film.mp4", page("video/mp4", b"\0\0\0\x18ftypmp42".to_vec())),
    ])
    .await;
    let folder = tempfile::tempdir().unwrap();
    let web = Web::fetch(&["--files-dir", folder.path().to_str().unwrap()]).await;
    let text = web.page(&site.url("/a/call.wav")).await;
    assert!(text.contains("[a sound recording, 32044 bytes, 2.0 s, 1 channels, 8000 Hz; saved as /shared_files/fetched/call-"), "{text}");
    let saved: Vec<_> = fs_err::read_dir(folder.path().join("fetched")).unwrap().collect();
    assert_eq!(fs_err::read(saved[0].as_ref().unwrap().path()).unwrap(), wav);
    let video = web.page(&site.url("/film.mp4")).await;
    assert!(video.contains("[a video, 12 bytes; saved as /shared_files/fetched/film-"), "{video}");
}

/// Who hears answers from a recording needs it as it is, under a name that other tools find.
#[tokio::test]
async fn recordings_are_saved_byte_by_byte() {
    let site = Site::start(document).await;
    let wav = fs_err::read_dir(sample_files()).unwrap().map(|entry| entry.unwrap().path());
    let wav = wav.filter(|path| path.extension().is_some_and(|name| name == "wav")).last().unwrap();
    let mp3 = format!("{}/tests/documents/voicemail.mp3", env!("CARGO_MANIFEST_DIR"));
    for path in [wav, mp3.into()] {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let web = Web::fetch(&["--save-dir", folder.path().to_str().unwrap()]).await;
        let text = web.page(&site.url(&format!("/{name}"))).await;
        let saved = text.split("saved as ").nth(1).unwrap().split(", for other tools").next().unwrap();
        assert!(
            text.contains("[a sound recording, ") && saved.starts_with(folder.path().to_str().unwrap()),
            "{text}"
        );
        assert_eq!(fs_err::read(saved).unwrap(), fs_err::read(&path).unwrap(), "{name}");
    }
}
