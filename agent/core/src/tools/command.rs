use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::TransportSpec;

/// What a child inherits. Codex and the SDK clients pass the same names; the two last ones keep TLS and temporary
/// files working. Everything else, keys of model providers above all, stays with us.
pub const INHERITED_VARIABLES: [&str; 12] = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "USER",
    "LANG",
    "LC_ALL",
    "TERM",
    "TMPDIR",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The program of a stdio server, found. `environment` is added to the minimal one, over what `env` says.
pub(super) fn find(command: &str, env: &BTreeMap<String, String>) -> Result<PathBuf, String> {
    if command.contains('/') {
        // Made absolute here: a relative program with a working folder of its own means different things to
        // different systems.
        let path =
            std::path::absolute(command).map_err(|error| format!("bad command `{command}`: {error}"))?;
        return if is_program(&path) {
            Ok(path)
        } else {
            Err(format!("command `{command}` not found: there is no program at `{}`", path.display()))
        };
    }
    let beside = folder_of_this_program();
    let search = env.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    beside
        .iter()
        .cloned()
        .chain(std::env::split_paths(&search))
        .map(|folder| folder.join(command))
        .find(|path| is_program(path))
        .ok_or_else(|| {
            let beside = beside.first().map_or_else(|| "?".to_owned(), |folder| folder.display().to_string());
            format!(
                "command `{command}` not found: neither beside this program in `{beside}` nor on PATH (`{}`)",
                search.to_string_lossy()
            )
        })
}

/// The whole environment of the child.
pub(super) fn environment(
    transport_env: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
) -> BTreeMap<OsString, OsString> {
    let inherited = INHERITED_VARIABLES
        .iter()
        .filter_map(|name| std::env::var_os(name).map(|value| (OsString::from(name), value)));
    let listed =
        transport_env.iter().chain(ours).map(|(name, value)| (OsString::from(name), OsString::from(value)));
    inherited.chain(listed).collect()
}

/// The URL or command of a server, for people; no secret in it.
pub(super) fn describe(transport: &TransportSpec) -> String {
    match transport {
        TransportSpec::Stdio { command, .. } => format!("`{command}`"),
        TransportSpec::Http { url, .. } => format!("`{}`", super::spec::without_secrets(url)),
    }
}

/// The folder of the running program; for a test binary in `deps` also the one above, where the programs are.
fn folder_of_this_program() -> Vec<PathBuf> {
    let Some(folder) = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_path_buf))
    else {
        return Vec::new();
    };
    match folder.parent() {
        Some(parent) if folder.ends_with("deps") => vec![parent.to_path_buf(), folder],
        _ => vec![folder],
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_exist_names_both_places() {
        let env = BTreeMap::from([("PATH".to_owned(), "/nowhere/bin".to_owned())]);
        let error = find("no-such-program", &env).unwrap_err();
        assert!(
            error.contains("beside this program in `/") && error.contains("PATH (`/nowhere/bin`)"),
            "{error}"
        );
        let error = find("./no-such-program", &env).unwrap_err();
        assert!(error.contains("there is no program at `/"), "{error}");
    }

    #[test]
    fn a_program_beside_this_one_comes_before_path() {
        let own = std::env::current_exe().unwrap();
        let name = own.file_name().unwrap().to_str().unwrap();
        assert_eq!(find(name, &BTreeMap::new()).unwrap(), own);
        assert!(find("sh", &BTreeMap::new()).unwrap().is_absolute());
    }

    #[test]
    fn nothing_but_the_listed_is_inherited() {
        let env = environment(
            &BTreeMap::from([("KEY".to_owned(), "a".to_owned()), ("GAIA_RUN_ID".to_owned(), "b".to_owned())]),
            &BTreeMap::from([("GAIA_RUN_ID".to_owned(), "c".to_owned())]),
        );
        // Cargo sets this for every test.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        assert!(!env.contains_key(&OsString::from("CARGO_MANIFEST_DIR")));
        assert_eq!(env[&OsString::from("KEY")], "a");
        assert_eq!(env[&OsString::from("GAIA_RUN_ID")], "c");
    }
}
