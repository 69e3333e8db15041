use crate::model::SchemaProfile;

/// What a provider takes as one picture in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// The longer side in pixels. More is scaled down by the provider, and paid for on the way.
    pub longest_side_px: u32,
    /// Bytes of the file, before base64.
    pub file_bytes: usize,
    /// Formats that go out as they are; everything else is made PNG or JPEG.
    pub formats: &'static [image::ImageFormat],
}

const COMMON: &[image::ImageFormat] = &[image::ImageFormat::Png, image::ImageFormat::Jpeg];

const WITH_WEBP: &[image::ImageFormat] =
    &[image::ImageFormat::Png, image::ImageFormat::Jpeg, image::ImageFormat::WebP];

impl ImageLimits {
    /// By the documentation of each vendor, as of November 2026; a GIF is sent as its first frame everywhere, as OpenAI
    /// takes no moving one and Gemini none at all.
    pub fn of(base_url: &str, model: &str) -> Self {
        match SchemaProfile::Auto.resolve(base_url, model) {
            // platform.openai.com/docs/guides/images-vision: fitted into 2048 px; png, jpeg, webp; 50 MB a request.
            SchemaProfile::Openai | SchemaProfile::OpenaiStrict => {
                Self { longest_side_px: 2_048, file_bytes: 10 << 20, formats: WITH_WEBP }
            }
            // docs.anthropic.com/en/docs/build-with-claude/vision: fitted into 1568 px; 5 MB of base64 a picture.
            SchemaProfile::Anthropic => {
                Self { longest_side_px: 1_568, file_bytes: 3_700_000, formats: WITH_WEBP }
            }
            // ai.google.dev/gemini-api/docs/image-understanding: tiles of 768 px; png, jpeg, webp, heic; 20 MB a request.
            SchemaProfile::Gemini => Self { longest_side_px: 3_072, file_bytes: 4 << 20, formats: WITH_WEBP },
            // platform.moonshot.ai/docs/guide/use-kimi-vision-model: png, jpeg, webp, gif; 4k at most recommended.
            SchemaProfile::Moonshot => {
                Self { longest_side_px: 2_048, file_bytes: 10 << 20, formats: WITH_WEBP }
            }
            _ => Self::default(),
        }
    }
}

impl Default for ImageLimits {
    /// What every server takes: llama.cpp reads neither WebP nor TIFF.
    fn default() -> Self {
        Self { longest_side_px: 2_048, file_bytes: 3_700_000, formats: COMMON }
    }
}
