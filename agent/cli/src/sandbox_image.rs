//! Which image a server of the config starts its containers from, and what is left of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use gaia_agent::tools::{ServerSpec, TransportSpec};
use gaia_sandbox::Engine;

use crate::config::Loaded;

/// The image that the bash server uses when nothing names another.
pub(crate) const DEFAULT_IMAGE: &str = "python:3.11";

/// Time for the engine to say what is left; a run is not held up by an engine that is gone.
const REAP_LIMIT: Duration = Duration::from_secs(20);

/// The images of the servers that start containers, by the server's name.
pub(crate) fn sandbox_images(loaded: &Loaded) -> BTreeMap<String, String> {
    loaded.servers.iter().filter_map(|spec| Some((spec.name.clone(), sandbox_image(spec)?))).collect()
}

/// The image of a server that starts containers; `None` for one that starts none.
fn sandbox_image(server: &ServerSpec) -> Option<String> {
    bash_arguments(server).map(|arguments| named_image(arguments).unwrap_or_else(|| DEFAULT_IMAGE.to_owned()))
}

/// The arguments of the server that runs commands in containers.
pub(crate) fn bash_arguments(server: &ServerSpec) -> Option<&[String]> {
    match &server.transport {
        TransportSpec::Stdio { command, args, .. }
            if Path::new(command).file_name().is_some_and(|name| name == "gaia-mcp-bash") =>
        {
            Some(args)
        }
        _ => None,
    }
}

pub(crate) fn named_image(arguments: &[String]) -> Option<String> {
    arguments.iter().enumerate().find_map(|(position, argument)| match argument.strip_prefix("--image") {
        Some("") => arguments.get(position + 1).cloned(),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    })
}

/// Version of the engine that the containers of this machine run on; `None` when none answers.
pub(crate) async fn engine_version() -> Option<String> {
    let connecting = tokio::time::timeout(REAP_LIMIT, Engine::connect());
    Some(connecting.await.ok()?.ok()?.version())
}

/// Removes what servers that were killed have left behind. Those of other living runs are not touched.
pub(crate) async fn reap() {
    let reaped = tokio::time::timeout(REAP_LIMIT, async { Engine::connect().await?.reap().await }).await;
    match reaped {
        Ok(Ok(reaped)) if !reaped.removed.is_empty() => {
            tracing::warn!("removed {} containers whose server was killed", reaped.removed.len());
        }
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(%error, "failed to look for abandoned containers"),
        Err(_elapsed) => tracing::debug!("the engine did not say in time which containers are abandoned"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_read_from_both_forms_of_the_flag() {
        let arguments = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(named_image(&arguments("--network on --image a:1")), Some("a:1".to_owned()));
        assert_eq!(named_image(&arguments("--image=a:2")), Some("a:2".to_owned()));
        assert_eq!(named_image(&arguments("--network on")), None);
    }
}
