//! PDF: text where it stands on the page, and pages that are only pictures as pictures.

use hayro_interpret::font::{Glyph as FontGlyph, GlyphRun};
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::kurbo::{Affine, BezPath, Point, Rect};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, RasterImage, SoftMask, interpret_page,
};
use hayro_syntax::{LoadPdfError, Pdf};

use super::pdf_layout::{Glyph, text_of};
use super::picture;
use super::{Document, MAX_TEXT_BYTES, Picture};

/// A page with fewer letters that holds a picture is taken for a scan.
const SCAN_LETTERS: usize = 30;
/// Pictures that are sent along: each costs a model about as much as two pages of text.
const MAX_PICTURES: usize = 6;
/// Letters of one page: far more than paper holds, and what a loop in a file would draw without end.
const MAX_GLYPHS: usize = 400_000;
/// Pages that are read.
const MAX_PAGES: usize = 5_000;
/// A picture that covers less of the page, in percent, is no scan of it.
const MIN_COVERED_PERCENT: f64 = 25.0;

pub(super) fn read(body: Vec<u8>) -> Result<Document, String> {
    let pdf = Pdf::new(body).map_err(|error| match error {
        LoadPdfError::Decryption(_) => "the PDF is encrypted with a password".to_owned(),
        LoadPdfError::Invalid => "the PDF is damaged".to_owned(),
    })?;
    let mut document = Document::default();
    let metadata = pdf.metadata();
    document.title = metadata.title.as_deref().map(plain).filter(|title| !title.trim().is_empty());
    document.date = metadata
        .modification_date
        .or(metadata.creation_date)
        .map(|date| format!("{:04}-{:02}-{:02}", date.year, date.month, date.day));
    let count = pdf.pages().len();
    for (index, page) in pdf.pages().iter().take(MAX_PAGES).enumerate() {
        let (width, height) = page.render_dimensions();
        let cache = InterpreterCache::new();
        let bounds = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
        let mut context = Context::new(
            Affine::new(page.initial_transform(true).as_coeffs()),
            bounds,
            &cache,
            pdf.xref(),
            InterpreterSettings::default(),
        );
        let mut reader = PageReader::new(f64::from(width) * f64::from(height));
        interpret_page(page, &mut context, &mut reader);
        document.text.push_str(&format!("## Page {} of {count}\n\n", index + 1));
        let letters = reader.glyphs.iter().filter(|glyph| !glyph.text.trim().is_empty()).count();
        let text = text_of(std::mem::take(&mut reader.glyphs));
        if !text.is_empty() {
            document.text.push_str(&text);
            document.text.push_str("\n\n");
        }
        if letters < SCAN_LETTERS {
            document.text.push_str(&scan_note(index + 1, reader.scan, &mut document.pictures));
        }
        if document.text.len() > MAX_TEXT_BYTES {
            break;
        }
    }
    document.text.truncate(document.text.trim_end().len());
    Ok(document)
}

/// What is said of a page without text.
fn scan_note(page: usize, scan: Option<Picture>, pictures: &mut Vec<Picture>) -> String {
    match scan {
        Some(picture) if pictures.len() < MAX_PICTURES => {
            pictures.push(picture);
            format!(
                "[page {page} is a picture without text; it is attached to this result as picture {}]\n\n",
                pictures.len()
            )
        }
        Some(_) => {
            format!("[page {page} is a picture without text; it was left out, as others came before it]\n\n")
        }
        None => String::new(),
    }
}

/// Text strings of PDF are UTF-16 with a mark, UTF-8 with a mark, or close to Latin-1.
fn plain(bytes: &[u8]) -> String {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding.decode(bytes).0.into_owned(),
        None => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Collects what is drawn on a page.
struct PageReader {
    area: f64,
    glyphs: Vec<Glyph>,
    scan: Option<Picture>,
    scan_area: f64,
}

impl PageReader {
    fn new(area: f64) -> Self {
        Self { area: area.max(1.0), glyphs: Vec::new(), scan: None, scan_area: 0.0 }
    }

    fn add(&mut self, glyph: &FontGlyph<'_>, transform: Affine) {
        let text = match glyph.as_unicode() {
            Some(BfString::Char(character)) => character.to_string(),
            Some(BfString::String(text)) => text,
            None => return,
        };
        let advance = match glyph {
            FontGlyph::Outline(outline) => outline.advance_width(),
            FontGlyph::Type3(drawn) => drawn.advance_width(),
        };
        let origin = transform * Point::ZERO;
        let up = transform * Point::new(0.0, 1000.0) - origin;
        let along = transform * Point::new(f64::from(advance.unwrap_or(500.0)), 0.0) - origin;
        let size = up.hypot();
        let is_sane = origin.x.is_finite() && origin.y.is_finite() && size.is_finite() && size > 0.01;
        if !is_sane || self.glyphs.len() >= MAX_GLYPHS {
            return;
        }
        let across = transform * Point::new(1000.0, 0.0) - origin;
        self.glyphs.push(Glyph {
            x: origin.x,
            y: origin.y,
            width: along.hypot(),
            size,
            angle: across.y.atan2(across.x),
            text,
        });
    }

    fn add_image(&mut self, image: &RasterImage<'_>, transform: Affine) {
        let [a, b, c, d, _, _] = transform.as_coeffs();
        // The transform maps the pixels of the picture onto the page.
        let pixels = f64::from(image.width()) * f64::from(image.height());
        let covered = (a * d - b * c).abs() * pixels;
        let covered = if covered > self.area * 1.5 { (a * d - b * c).abs() } else { covered };
        if covered * 100.0 < self.area * MIN_COVERED_PERCENT || covered <= self.scan_area {
            return;
        }
        let mut taken = None;
        image.with_rgba(|pixels, _alpha| taken = picture::encode(pixels), Some(picture::TARGET_PIXELS));
        if taken.is_some() {
            self.scan_area = covered;
            self.scan = taken;
        }
    }
}

impl<'a> Device<'a> for PageReader {
    fn draw_path(&mut self, _path: &BezPath, _props: DrawProps<'a>, _mode: &DrawMode) {}

    fn push_clip_path(&mut self, _path: &ClipPath) {}

    fn push_transparency_group(&mut self, _opacity: f32, _mask: Option<SoftMask<'a>>, _mode: BlendMode) {}

    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, _mode: &DrawMode) {
        for glyph in run.glyphs() {
            self.add(glyph, props.transform * glyph.transform());
        }
    }

    fn draw_image(&mut self, image: Image<'a, '_>, props: ImageDrawProps<'a>) {
        if let Image::Raster(image) = image {
            self.add_image(&image, props.transform);
        }
    }

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {}
}
