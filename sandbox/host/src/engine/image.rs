//! Images of the engine: what is there, and getting what is not.

use std::collections::{BTreeMap, HashMap};

use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;

use super::{Engine, chain, request, status_of};
use crate::error::EngineError;

impl Engine {
    /// Facts about an image the engine has.
    pub async fn image(&self, name: &str) -> Result<ImageInfo, EngineError> {
        match self.docker.inspect_image(name).await {
            Ok(image) => Ok(ImageInfo {
                id: image.id.unwrap_or_default(),
                size_bytes: image.size.unwrap_or(0).max(0) as u64,
                labels: image
                    .config
                    .and_then(|config| config.labels)
                    .unwrap_or_default()
                    .into_iter()
                    .collect(),
            }),
            Err(error) if status_of(&error) == Some(404) => {
                Err(EngineError::ImageAbsent { name: name.to_owned() })
            }
            Err(error) => Err(request(format!("inspect image `{name}`"), &error)),
        }
    }

    /// Has the engine pull an image from its registry, and says how far it is whenever that changes. Without a tag or
    /// a digest it is `latest`, as for the `docker` command. Registries that want a login are the `docker` command's
    /// business: this sends no credentials.
    pub async fn pull(
        &self,
        name: &str,
        mut progress: impl FnMut(PullProgress) + Send,
    ) -> Result<ImageInfo, EngineError> {
        let options = CreateImageOptionsBuilder::default().from_image(&with_tag(name)).build();
        let mut layers = Layers::default();
        let mut messages = Box::pin(self.docker.create_image(Some(options), None, None));
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| EngineError::Pull {
                name: name.to_owned(),
                reason: match &error {
                    bollard::errors::Error::DockerResponseServerError { message, .. } => message.clone(),
                    bollard::errors::Error::DockerStreamError { error } => error.clone(),
                    other => chain(other),
                },
            })?;
            if layers.note(message) {
                progress(layers.progress());
            }
        }
        self.image(name).await
    }
}

/// Facts about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// Content id, `sha256:…`.
    pub id: String,
    /// Size on disk in bytes.
    pub size_bytes: u64,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// How far a pull is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// Layers known so far.
    pub layers: usize,
    /// Layers that are unpacked or were there before.
    pub layers_done: usize,
    /// Bytes of the known layers that have arrived, compressed.
    pub bytes: u64,
    /// Bytes of the known layers, compressed. Grows while layers become known.
    pub total_bytes: u64,
}

#[derive(Default)]
struct Layers(HashMap<String, Layer>);

#[derive(Default, Clone, Copy)]
struct Layer {
    is_done: bool,
    bytes: u64,
    total_bytes: u64,
}

impl Layers {
    /// Takes in what the engine says; whether it says something of a layer.
    fn note(&mut self, message: CreateImageInfo) -> bool {
        let (Some(id), Some(status)) = (message.id, message.status) else { return false };
        // The first message names the tag where a layer's id would be.
        if status.starts_with("Pulling from") {
            return false;
        }
        let layer = self.0.entry(id).or_default();
        let number = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        match status.as_str() {
            "Downloading" => {
                if let Some(detail) = message.progress_detail {
                    layer.bytes = number(detail.current).unwrap_or(layer.bytes);
                    layer.total_bytes = number(detail.total).unwrap_or(layer.total_bytes).max(layer.bytes);
                }
            }
            "Verifying Checksum" | "Download complete" => layer.bytes = layer.total_bytes,
            "Pull complete" | "Already exists" => {
                layer.bytes = layer.total_bytes;
                layer.is_done = true;
            }
            _ => {}
        }
        true
    }

    fn progress(&self) -> PullProgress {
        PullProgress {
            layers: self.0.len(),
            layers_done: self.0.values().filter(|layer| layer.is_done).count(),
            bytes: self.0.values().map(|layer| layer.bytes).sum(),
            total_bytes: self.0.values().map(|layer| layer.total_bytes).sum(),
        }
    }
}

/// Without a tag the engine would pull every tag there is.
fn with_tag(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    #[test]
    fn a_name_without_tag_means_the_latest() {
        for (name, full) in [
            ("python", "python:latest"),
            ("python:3.11", "python:3.11"),
            ("127.0.0.1:5000/a/b", "127.0.0.1:5000/a/b:latest"),
            ("127.0.0.1:5000/a/b:1", "127.0.0.1:5000/a/b:1"),
            ("a@sha256:00", "a@sha256:00"),
        ] {
            assert_eq!(with_tag(name), full);
        }
    }

    #[test]
    fn progress_adds_the_layers_up() {
        let mut layers = Layers::default();
        let mut say = |id: &str, status: &str, current: i64, total: i64| {
            let detail = ProgressDetail { current: Some(current), total: Some(total) };
            layers.note(CreateImageInfo {
                id: Some(id.to_owned()),
                status: Some(status.to_owned()),
                progress_detail: Some(detail),
                ..Default::default()
            })
        };
        assert!(!say("3.11", "Pulling from library/python", 0, 0));
        assert!(say("a", "Pulling fs layer", 0, 0) && say("b", "Already exists", 0, 0));
        assert!(say("a", "Downloading", 30, 100));
        let progress = layers.progress();
        assert_eq!(progress, PullProgress { layers: 2, layers_done: 1, bytes: 30, total_bytes: 100 });
        let mut say = |status: &str| {
            layers.note(CreateImageInfo {
                id: Some("a".to_owned()),
                status: Some(status.to_owned()),
                ..Default::default()
            })
        };
        assert!(say("Download complete") && say("Pull complete"));
        let progress = layers.progress();
        assert_eq!(progress, PullProgress { layers: 2, layers_done: 2, bytes: 100, total_bytes: 100 });
    }
}
