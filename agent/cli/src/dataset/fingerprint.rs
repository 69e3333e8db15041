use sha2::{Digest, Sha256};

use crate::dataset::sample::Sample;

/// Over what a run depends on and nothing else: not the order, not how paths are written, not the annotator.
pub(super) fn fingerprint(samples: &[Sample], attachments: &[Option<[u8; 32]>]) -> String {
    let mut rows: Vec<(&Sample, &Option<[u8; 32]>)> = samples.iter().zip(attachments).collect();
    rows.sort_by(|(first, _), (second, _)| first.task_id.cmp(&second.task_id));
    let mut digest = Sha256::new();
    // The version of this recipe; a change of it must not look like a change of the data.
    digest.update(b"gaia-dataset-1");
    for (sample, attachment) in rows {
        // The length in front keeps neighbouring fields apart.
        let mut field = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        field(sample.task_id.as_bytes());
        field(sample.question.as_bytes());
        field(&[sample.level]);
        field(sample.truth.as_deref().unwrap_or("?").as_bytes());
        field(sample.file_name.as_deref().unwrap_or_default().as_bytes());
        field(attachment.as_ref().map(|hash| hash.as_slice()).unwrap_or_default());
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
