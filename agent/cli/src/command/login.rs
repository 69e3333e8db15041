use gaia_agent::tools::TransportSpec;
use gaia_agent::tools::oauth::{self, Login, LoginError, RegisteredClient};

use super::Surroundings;
use crate::args::LoginArguments;
use crate::config::{Loaded, Purpose, token_store};
use crate::exit_code::{self, CommandError, CommandResult};

/// The tokens end up in a file that only its owner can read; runs take them from there and renew them.
pub(super) async fn login(arguments: LoginArguments, surroundings: &Surroundings) -> CommandResult {
    let console = &surroundings.console;
    let (url, environment) = if arguments.server.contains("://") {
        (arguments.server.clone(), surroundings.environment.clone())
    } else {
        let loaded = surroundings.load(&arguments.config, Vec::new(), Purpose::Tools)?;
        (address(&loaded, &arguments.server)?, loaded.environment)
    };
    let store = token_store(&environment).ok_or_else(|| {
        CommandError::environment(anyhow::anyhow!("there is no folder for the tokens of logins"))
            .with_hint("set `HOME` or `XDG_STATE_HOME`")
    })?;
    if arguments.forget {
        let forgotten =
            store.forget(&url).map_err(|error| CommandError::environment(anyhow::anyhow!(error)))?;
        console.say(if forgotten { "the login is forgotten" } else { "there was no login" });
        return Ok(exit_code::SUCCESS);
    }
    let secret = match &arguments.client_secret_env {
        Some(name) => Some(environment.get_filled(name).map(str::to_owned).ok_or_else(|| {
            let text = format!("environment variable `{name}`, which --client-secret-env names, is not set");
            CommandError::usage(anyhow::anyhow!(text))
        })?),
        None => None,
    };
    let wanted = Login {
        scopes: arguments.scopes,
        client: arguments.client_id.map(|id| RegisteredClient { id, secret }),
        redirect_port: arguments.port,
        ..Login::new(&arguments.server, &url)
    };
    let show = |address: &str| {
        console.warn(&format!("open this address in a browser on this machine:\n\n  {address}\n"));
    };
    let granted = oauth::login(&wanted, &store, show).await.map_err(|error| match error {
        LoginError::NotOffered(_) => CommandError::usage(error),
        _ => CommandError::environment(error),
    })?;
    let scopes = if granted.scopes.is_empty() { "no scopes".to_owned() } else { granted.scopes.join(" ") };
    let lifetime = match (granted.renewable, granted.expires_in) {
        (true, _) => "renewed when it expires".to_owned(),
        (false, Some(time)) => format!("valid for {}", humantime::format_duration(time)),
        (false, None) => "without an end".to_owned(),
    };
    console.say(&format!(
        "logged in to `{}` ({scopes}); the token is {lifetime} and kept in `{}`",
        arguments.server,
        store.path().display()
    ));
    Ok(exit_code::SUCCESS)
}

fn address(loaded: &Loaded, name: &str) -> CommandResult<String> {
    let server = loaded.servers.iter().find(|server| server.name == name);
    match server.map(|server| &server.transport) {
        Some(TransportSpec::Http { url, .. }) => Ok(url.clone()),
        Some(TransportSpec::Stdio { .. }) => Err(CommandError::usage(anyhow::anyhow!(
            "MCP server `{name}` is a program; a login is for servers with a `url`"
        ))),
        None => {
            let names: Vec<&str> = loaded.servers.iter().map(|server| server.name.as_str()).collect();
            Err(CommandError::usage(anyhow::anyhow!(
                "the config has no MCP server `{name}`; it has {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            )))
        }
    }
}
