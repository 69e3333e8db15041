//! The program that becomes PID 1 of every container.

/// The guest, statically linked.
pub(crate) const PROGRAM: &[u8] = include_bytes!(env!("GAIA_GUEST_PROGRAM"));

/// Machine it was built for, in Rust's words.
pub(crate) const ARCHITECTURE: &str = env!("GAIA_GUEST_ARCHITECTURE");

/// Where it is in the container.
pub(crate) const PATH: &str = "/.gaia/guest";

/// An archive with the program at [`PATH`], to be unpacked at the root of a container.
pub(crate) fn archive() -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::with_capacity(PROGRAM.len() + 4096));
    let mut header = tar::Header::new_gnu();
    header.set_size(PROGRAM.len() as u64);
    header.set_mode(0o555);
    archive.append_data(&mut header, PATH.trim_start_matches('/'), PROGRAM)?;
    archive.into_inner()
}

/// The same machine in the words of container engines.
pub(crate) fn engine_architecture() -> &'static str {
    match ARCHITECTURE {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
