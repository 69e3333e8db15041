use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;

use super::{Surroundings, open_run};
use crate::args::ViewArguments;
use crate::exit_code::{self, CommandError, CommandResult};
use crate::signals::ends;
use crate::store::run_ids;
use crate::view::{View, Visitors};

/// The same each time, so that links to turns stay good; where it is taken, another.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7979);

pub(super) async fn view(arguments: ViewArguments, surroundings: &Surroundings) -> CommandResult {
    let (runs, page) = what_to_show(&arguments)?;
    let address = arguments.listen.unwrap_or(USUAL);
    let visitors =
        Visitors::new(address, &arguments, &surroundings.environment).map_err(CommandError::usage)?;
    let stop = ends()?;
    let bound = match TcpListener::bind(address).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && arguments.listen.is_none() => {
            TcpListener::bind(SocketAddr::new(USUAL.ip(), 0)).await
        }
        bound => bound,
    };
    let listener = bound.map_err(|error| {
        CommandError::environment(
            anyhow::Error::from(error).context(format!("failed to listen on `{address}`")),
        )
    })?;
    let address = listener.local_addr()?;
    let number = run_ids(&runs)?.len();
    surroundings.console.say(&format!(
        "{number} run{} in `{}`: http://{address}{page}  (Ctrl-C ends it)",
        if number == 1 { "" } else { "s" },
        runs.display()
    ));
    if arguments.token_env.is_some() {
        surroundings.console.say("add ?token=… with the token to the address once");
    }
    View::new(runs).serve(listener, visitors.bound(address), &stop).await?;
    Ok(exit_code::SUCCESS)
}

/// The folder of runs, and the page to begin with.
fn what_to_show(arguments: &ViewArguments) -> CommandResult<(PathBuf, String)> {
    let Some(what) = &arguments.what else {
        let runs = arguments.out.clone();
        return match runs.is_dir() {
            true => Ok((runs, "/".to_owned())),
            false => Err(CommandError::usage(anyhow::anyhow!("there is no folder `{}`", runs.display()))
                .with_hint("`gaia run` makes it; or name another folder")),
        };
    };
    let path = Path::new(what);
    if path.is_dir() && !path.join("run.json").is_file() {
        return Ok((path.to_owned(), "/".to_owned()));
    }
    let (run, record) = open_run(what, &arguments.out)?;
    // A path such as `.` names its folder only when it is whole.
    let path = run.path().canonicalize()?;
    let (Some(runs), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(CommandError::usage(anyhow::anyhow!("run `{}` is in no folder", record.id)));
    };
    Ok((runs.to_owned(), format!("/run/{}", name.to_string_lossy())))
}
