//! Documents and servers that want to take the fetch server down. Each ends with a clear error or a bounded result, and
//! the server answers the next request.

use std::io::Write;
use std::time::{Duration, Instant};

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, FlushCompress};
use serde_json::json;

use crate::site::{Reply, Site, html, page, with_headers};
use crate::web_support::{Web, all_text};

/// A raw deflate stream of so many megabytes of one byte, without computing them all.
fn deflate_bomb(byte: u8, megabytes: usize) -> Vec<u8> {
    let mut compress = flate2::Compress::new(Compression::best(), false);
    let chunk = vec![byte; 1024 * 1024];
    let mut block = Vec::with_capacity(64 * 1024);
    compress.compress_vec(&chunk, &mut block, FlushCompress::Full).unwrap();
    let mut bomb = block.repeat(megabytes);
    // An empty last block.
    bomb.extend([0x03, 0x00]);
    bomb
}

/// A zip file with one member whose packed form and declared size are given.
fn zip_around(name: &str, packed: &[u8], declared: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let common = |file: &mut Vec<u8>| {
        // Version, flags, deflate, time, date, checksum.
        file.extend([20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        file.extend((packed.len() as u32).to_le_bytes());
        file.extend(declared.to_le_bytes());
        file.extend((name.len() as u16).to_le_bytes());
        file.extend([0, 0]);
    };
    file.extend(b"PK\x03\x04");
    common(&mut file);
    file.extend(name.as_bytes());
    file.extend(packed);
    let directory = file.len() as u32;
    file.extend(b"PK\x01\x02\x14\0");
    common(&mut file);
    file.extend([0; 10]);
    file.extend(0u32.to_le_bytes());
    file.extend(name.as_bytes());
    let size = file.len() as u32 - directory;
    file.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    file.extend(size.to_le_bytes());
    file.extend(directory.to_le_bytes());
    file.extend([0, 0]);
    file
}

fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn docx(document: &str) -> Vec<u8> {
    zip_of(&[("word/document.xml", document.as_bytes())])
}

fn word(body: &str) -> String {
    format!("<w:document xmlns:w='w'><w:body>{body}</w:body></w:document>")
}

/// Objects, numbered from 1, as a PDF without a table of them.
fn pdf(objects: &[&str]) -> Vec<u8> {
    let mut file = b"%PDF-1.7\n".to_vec();
    for (index, object) in objects.iter().enumerate() {
        file.extend(format!("{} 0 obj\n{object}\nendobj\n", index + 1).as_bytes());
    }
    file.extend(b"trailer\n<< /Root 1 0 R /Size 9 >>\nstartxref\n0\n%%EOF\n");
    file
}

const CATALOG: &str = "<< /Type /Catalog /Pages 2 0 R >>";

fn pdf_page(content: &str) -> Vec<u8> {
    let stream = format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len());
    pdf(&[
        CATALOG,
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] /Contents 4 0 R /Resources << /XObject << /X 5 0 R >> \
         /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        &stream,
        "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 5 0 R >> >> /Length 12 >>\n\
         stream\n/X Do /X Do \nendstream",
    ])
}

/// Most that the server itself may hold at any time: a page of the largest size, twice, and its text. What its readers of
/// documents may hold is bounded by the kernel.
const MAX_SERVER_BYTES: u64 = 400 * 1024 * 1024;
/// No document takes longer, however long it could go on; the readers give up after 45 s.
const MAX_TIME: Duration = Duration::from_secs(80);

/// Serves one body, fetches it, and sees that time and memory were bounded and that the server lives on. Gives back
/// whether it was an error, and the text.
async fn fetch(reply: Reply, extra: &[&str]) -> (bool, String) {
    let site =
        Site::start(move |asked| if asked.target == "/next" { html("<p>alive") } else { reply.clone() })
            .await;
    let web = Web::fetch(&[&["--ignore-robots-txt"], extra].concat()).await;
    let start = Instant::now();
    let result = web.call("fetch", json!({ "url": site.url("/hostile"), "max_length": 5_000 })).await;
    assert!(start.elapsed() < MAX_TIME, "{:?}", start.elapsed());
    assert!(web.peak_bytes() < MAX_SERVER_BYTES, "{} bytes", web.peak_bytes());
    assert!(web.page(&site.url("/next")).await.contains("alive"));
    (result.is_error == Some(true), all_text(&result))
}

async fn document(body: Vec<u8>) -> (bool, String) {
    fetch(page("application/octet-stream", body), &[]).await
}

async fn refused(body: Vec<u8>, parts: &[&str]) {
    let (is_error, text) = document(body).await;
    assert!(is_error, "{text}");
    assert!(parts.iter().any(|part| text.contains(part)), "{text}");
}

/// What it unpacks to is bounded; what is shown of it may be anything.
async fn survived(body: Vec<u8>) -> String {
    let (is_error, text) = document(body).await;
    assert!(text.len() < 10_000, "{}", text.len());
    // Either it was read, or it is said why not.
    assert!(text.contains(if is_error { "Failed to read http" } else { "Contents of http" }), "{text}");
    text
}

#[tokio::test]
async fn a_word_document_that_unpacks_to_a_gigabyte() {
    let bomb = zip_around("word/document.xml", &deflate_bomb(b' ', 1_000), 1_000 * 1024 * 1024);
    refused(bomb, &["unpacks to more than"]).await;
}

#[tokio::test]
async fn a_word_document_that_lies_about_its_size() {
    refused(
        zip_around("word/document.xml", &deflate_bomb(b' ', 1_000), 10),
        &["unpacks to more than", "damaged"],
    )
    .await;
}

#[tokio::test]
async fn a_workbook_that_unpacks_to_a_gigabyte() {
    let bomb = zip_around("xl/workbook.xml", &deflate_bomb(b'a', 3_000), 10);
    let (is_error, text) = document(bomb).await;
    assert!(is_error || text.len() < 1_000, "{text}");
}

#[tokio::test]
async fn an_archive_whose_member_is_a_bomb() {
    // One that lies about its size, and one that does not.
    let text = survived(zip_around("x.txt", &deflate_bomb(b'a', 500), 1_000)).await;
    let lie = "[cannot be read: `x.txt` in the file is damaged: File is larger than its declared uncompressed size]";
    assert!(text.contains("x.txt (1000 bytes)") && text.contains(lie), "{text}");
    let text = survived(zip_around("x.txt", &deflate_bomb(b'a', 500), 500 * 1024 * 1024)).await;
    assert!(text.contains("x.txt (524288000 bytes, too long to be shown)"), "{text}");
}

#[tokio::test]
async fn archives_in_archives() {
    let mut archive = zip_of(&[("x.txt", b"deep")]);
    for _ in 0..20 {
        archive = zip_of(&[("inner.zip", &archive)]);
    }
    assert!(survived(archive).await.contains("an archive in the archive: not opened"));
}

#[tokio::test]
async fn an_archive_of_very_many_members_with_bad_names() {
    let names: Vec<String> = (0..20_000).map(|number| format!("../../etc/{number}\u{1b}[2J")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    assert!(survived(zip_of(&members)).await.contains("Archive with 20000 members"));
}

#[tokio::test]
async fn a_truncated_archive() {
    let whole = zip_of(&[("word/document.xml", &[b'a'; 10_000])]);
    refused(whole[..whole.len() / 2].to_vec(), &["the file is damaged"]).await;
}

#[tokio::test]
async fn entities_that_multiply() {
    let mut entities = "<!ENTITY a0 'ha'>".to_owned();
    for level in 1..40 {
        entities.push_str(&format!("<!ENTITY a{level} '&a{0};&a{0};&a{0};&a{0};'>", level - 1));
    }
    let bomb =
        format!("<!DOCTYPE x [{entities}]>{}", word("<w:p><w:r><w:t>before &a39; after</w:t></w:r></w:p>"));
    let text = survived(docx(&bomb)).await;
    assert!(text.contains("before &a39; after"), "{text}");
}

#[tokio::test]
async fn entities_from_files_and_addresses() {
    let secret = "<!DOCTYPE x [<!ENTITY s SYSTEM 'file:///etc/passwd'>]>";
    let text =
        survived(docx(&format!("{secret}{}", word("<w:p><w:r><w:t>it says &s;</w:t></w:r></w:p>")))).await;
    assert!(text.contains("it says &s;") && !text.contains("root:"), "{text}");
}

#[tokio::test]
async fn tables_in_tables_without_end() {
    let body = format!("{}deep", "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p>".repeat(50_000));
    survived(docx(&word(&body))).await;
}

#[tokio::test]
async fn a_workbook_with_a_cell_at_the_far_corner() {
    let sheet = "<worksheet xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'><dimension \
                 ref='A1:XFD1048576'/><sheetData><row r='1'><c r='A1'><v>1</v></c></row><row r='1048576'>\
                 <c r='XFD1048576'><v>2</v></c></row></sheetData></worksheet>";
    let workbook = "<workbook xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main' \
                    xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/relationships'><sheets>\
                    <sheet name='S' sheetId='1' r:id='r1'/></sheets></workbook>";
    let relations = "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'>\
                     <Relationship Id='r1' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet' \
                     Target='worksheets/sheet1.xml'/></Relationships>";
    let root = "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'><Relationship Id='r1' \
                Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument' \
                Target='xl/workbook.xml'/></Relationships>";
    let body = zip_of(&[
        ("_rels/.rels", root.as_bytes()),
        ("xl/workbook.xml", workbook.as_bytes()),
        ("xl/_rels/workbook.xml.rels", relations.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ]);
    let text = survived(body).await;
    assert!(text.contains("A1: 1") && text.contains("XFD1048576: 2"), "{text}");
}

#[tokio::test]
async fn an_old_workbook_of_nonsense() {
    let mut body = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec();
    body.extend([0xff; 4096]);
    let (is_error, text) = fetch(page("application/vnd.ms-excel", body), &[]).await;
    assert!(is_error && text.contains("Failed to read"), "{text}");
}

#[tokio::test]
async fn a_pdf_whose_pages_contain_themselves() {
    survived(pdf(&[CATALOG, "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"])).await;
}

#[tokio::test]
async fn a_pdf_whose_drawing_draws_itself() {
    survived(pdf_page("/X Do BT /F 12 Tf 10 50 Td (still here) Tj ET")).await;
}

#[tokio::test]
async fn a_pdf_whose_table_points_to_itself() {
    let mut body = pdf(&[CATALOG, "<< /Type /Pages /Kids [] /Count 0 >>"]);
    let at = body.len();
    body.extend(format!("xref\n0 1\n0000000000 65535 f \ntrailer\n<< /Root 1 0 R /Size 3 /Prev {at} >>\nstartxref\n{at}\n%%EOF\n").as_bytes());
    survived(body).await;
}

#[tokio::test]
async fn a_pdf_that_claims_a_billion_pages() {
    survived(pdf(&[
        CATALOG,
        "<< /Type /Pages /Kids [3 0 R] /Count 1000000000 >>",
        "<< /Type /Page /Parent 2 0 R >>",
    ]))
    .await;
}

#[tokio::test]
async fn a_pdf_with_a_stream_that_unpacks_to_gigabytes() {
    let mut packed = vec![0x78, 0x9c];
    packed.extend(deflate_bomb(b' ', 3_000));
    let mut body = b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] \
        /Count 1 >>\nendobj\n3 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>\nendobj\n"
        .to_vec();
    body.extend(format!("4 0 obj\n<< /Filter /FlateDecode /Length {} >>\nstream\n", packed.len()).as_bytes());
    body.extend(packed);
    body.extend(b"\nendstream\nendobj\ntrailer\n<< /Root 1 0 R /Size 5 >>\nstartxref\n0\n%%EOF\n");
    survived(body).await;
}

#[tokio::test]
async fn a_pdf_of_nonsense_and_a_pdf_that_is_cut() {
    let (is_error, text) = document([b"%PDF-1.7\n".to_vec(), vec![0xaa; 100_000]].concat()).await;
    assert!(is_error && text.contains("the PDF is damaged"), "{text}");
    let whole = fs_err::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents/tariff.pdf")).unwrap();
    survived(whole[..whole.len() * 2 / 3].to_vec()).await;
}

#[tokio::test]
async fn a_picture_of_ten_gigapixels() {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend(100_000u32.to_be_bytes());
    png.extend(100_000u32.to_be_bytes());
    png.extend([8, 6, 0, 0, 0]);
    let crc = flate2_crc(&png[12..]);
    png.extend(crc.to_be_bytes());
    png.extend(b"\0\0\0\0IDAT\x35\xaf\x06\x1e");
    refused(png, &["the picture cannot be"]).await;
}

fn flate2_crc(data: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(data);
    crc.sum()
}

#[tokio::test]
async fn a_body_of_ten_declared_gigabytes() {
    let reply = Reply::ThenSilence(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\nstart".to_vec());
    let (is_error, text) = fetch(reply, &[]).await;
    assert!(is_error && text.contains("more than 52428800 bytes"), "{text}");
}

#[tokio::test]
async fn a_body_without_end() {
    let first = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec();
    let (is_error, text) =
        fetch(Reply::Endless(first, vec![b'a'; 64 * 1024]), &["--max-bytes", "5000000"]).await;
    assert!(is_error && text.contains("more than 5000000 bytes"), "{text}");
}

#[tokio::test]
async fn a_body_that_stops_in_the_middle() {
    let reply = Reply::ThenSilence(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nstart".to_vec());
    let (is_error, text) = fetch(reply, &["--timeout-sec", "2"]).await;
    assert!(is_error && text.contains("no complete answer within 2 s"), "{text}");
}

#[tokio::test]
async fn headers_without_end() {
    let reply =
        Reply::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-More: and more and more and more\r\n".to_vec());
    let (is_error, text) = fetch(reply, &["--timeout-sec", "20"]).await;
    assert!(is_error && text.contains("Failed to fetch"), "{text}");
}

#[tokio::test]
async fn one_header_without_end() {
    let reply = Reply::Endless(b"HTTP/1.1 200 OK\r\nX-Long: ".to_vec(), vec![b'a'; 16 * 1024]);
    let (is_error, text) = fetch(reply, &["--timeout-sec", "20"]).await;
    assert!(is_error && text.contains("Failed to fetch"), "{text}");
}

#[tokio::test]
async fn a_server_that_says_nothing() {
    let (is_error, text) = fetch(Reply::ThenSilence(Vec::new()), &["--timeout-sec", "2"]).await;
    assert!(is_error && text.contains("no complete answer within 2 s"), "{text}");
}

#[tokio::test]
async fn a_page_that_unpacks_to_gigabytes() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"<html>").unwrap();
    let start = packed.finish().unwrap();
    // The header of the format, then the bomb.
    let bomb = [&start[..10], &deflate_bomb(b'a', 3_000)].concat();
    let headers = [("Content-Type", "text/html"), ("Content-Encoding", "gzip")];
    let (is_error, text) = fetch(with_headers(200, &headers, bomb), &[]).await;
    assert!(is_error && text.contains("more than 52428800 bytes"), "{text}");
}

#[tokio::test]
async fn a_body_that_is_not_packed_as_it_says() {
    let headers = [("Content-Type", "text/html"), ("Content-Encoding", "br")];
    let (is_error, text) = fetch(with_headers(200, &headers, "<p>not brotli"), &[]).await;
    assert!(is_error && text.contains("Failed to fetch"), "{text}");
}

#[tokio::test]
async fn a_page_of_two_hundred_thousand_nested_elements() {
    let (is_error, text) = fetch(html(&format!("{}the text", "<div>".repeat(200_000))), &[]).await;
    assert!(!is_error && text.contains("the text"), "{text}");
}

#[tokio::test]
async fn a_raw_stream_as_deflate() {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"<p>raw or not, it is read").unwrap();
    let headers = [("Content-Type", "text/html"), ("Content-Encoding", "deflate")];
    let (is_error, text) = fetch(with_headers(200, &headers, packed.finish().unwrap()), &[]).await;
    assert!(is_error || text.contains("it is read"), "{text}");
}
