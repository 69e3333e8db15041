//! What the model is told about its shell.

use std::fmt::Write;

use gaia_sandbox::{Network, SandboxOptions};

use super::{BashArgs, MAX_TIMEOUT};

/// More names than this say nothing more; the model can list the folder.
const MAX_NAMES: usize = 20;

pub(super) fn bash(args: &BashArgs, options: &SandboxOptions, attachments: &[String]) -> String {
    let mut text = format!(
        "Runs a bash command in a Linux container (image {}) and returns its output and exit code. The working \
         directory, exported variables and shell functions persist between calls, and so do files. A command gets no \
         input unless `stdin` is given; it ends after {} s unless `timeout` says otherwise (at most {} s). Of long \
         output the first and the last 8 KiB are shown, and the whole is in a file that the result names.",
        options.image,
        args.timeout_sec,
        MAX_TIMEOUT.as_secs(),
    );
    text.push_str(match options.network {
        Network::Off => " There is no network.",
        Network::On => {
            " The network is the internet, by HTTP and HTTPS only, through the proxy that http_proxy and https_proxy \
             name (curl, wget, pip, apt, git and Python's libraries use it by themselves)."
        }
        Network::Allow => {
            " Of the network only some hosts are allowed, by HTTP and HTTPS, through the proxy that http_proxy and \
             https_proxy name; it says which."
        }
        Network::Bridge => " The network is the internet.",
    });
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        " Limits: {} of memory, {} processors, {} processes.",
        size(options.limits.memory_bytes),
        options.limits.cpus,
        options.limits.processes
    );
    if !attachments.is_empty() {
        let _ = write!(
            text,
            " Attached files (read-only): {}",
            attachments[..attachments.len().min(MAX_NAMES)].join(", ")
        );
        if attachments.len() > MAX_NAMES {
            let _ = write!(text, " and {} more in /shared_files", attachments.len() - MAX_NAMES);
        }
        text.push('.');
    }
    text
}

/// A size for people: `2 GiB`, `512 MiB`.
pub(super) fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift {
            let tenths = (bytes * 10) >> shift;
            return if tenths.is_multiple_of(10) {
                format!("{} {unit}", tenths / 10)
            } else {
                format!("{}.{} {unit}", tenths / 10, tenths % 10)
            };
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn it_names_limits_network_and_attachments() {
        let args =
            BashArgs::try_parse_from(["gaia-mcp-bash", "--image", "python:3.11", "--network", "on"]).unwrap();
        let options = args.options().unwrap();
        let text =
            bash(&args, &options, &["/shared_files/a.xlsx".to_owned(), "/shared_files/b.pdf".to_owned()]);
        for part in [
            "image python:3.11",
            "after 120 s",
            "at most 600 s",
            "The network is the internet, by HTTP and HTTPS only",
            "2 GiB of memory, 2 processors, 512 processes",
            "Attached files (read-only): /shared_files/a.xlsx, /shared_files/b.pdf.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!bash(&args, &options, &[]).contains("Attached"));
        let many: Vec<String> = (0..30).map(|number| format!("/shared_files/{number}")).collect();
        assert!(bash(&args, &options, &many).ends_with("and 10 more in /shared_files."));
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(size(2 << 30), "2 GiB");
        assert_eq!(size(1536 << 20), "1.5 GiB");
        assert_eq!(size(512), "512 bytes");
    }
}
