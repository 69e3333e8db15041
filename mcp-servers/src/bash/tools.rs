//! The tools of the bash server as clients see them.

use gaia_sandbox::Network;
use rmcp::model::{Tool, ToolAnnotations};

use crate::schema::{self, Kind, Presence, Property};

pub(super) const BASH: &str = "bash";

pub(super) fn all(bash_description: &str, network: Network) -> Vec<Tool> {
    vec![bash(bash_description, network)]
}

fn bash(description: &str, network: Network) -> Tool {
    let input = schema::object(&[
        required("command", Kind::Text, "Shell command or script"),
        optional("timeout", Kind::Integer, "Seconds the command may run, 1 to 600"),
        optional("stdin", Kind::Text, "Standard input of the command"),
        optional(
            "restart",
            Kind::Boolean,
            "First start a fresh shell: all processes end, directory and variables are reset, files stay. With an empty \
             command nothing else is done",
        ),
    ]);
    let output = schema::object(&[
        optional(
            "exit_code",
            Kind::Integer,
            "Exit code, 128 + signal when killed; absent after a bare restart",
        ),
        optional("signal", Kind::Text, "Signal that ended the shell, such as SIGKILL"),
        required("timed_out", Kind::Boolean, "The timeout ended the command"),
        required("oom_killed", Kind::Boolean, "A process was killed for want of memory"),
        required("sandbox_reset", Kind::Boolean, "The container is new: files and state of before are gone"),
        required("duration_ms", Kind::Integer, "Run time in milliseconds"),
        required("total_bytes", Kind::Integer, "Bytes of output"),
        required("truncated", Kind::Boolean, "The text shows only part of the output"),
        optional("output_path", Kind::Text, "File in the container with the whole output"),
        optional("cwd", Kind::Text, "Working directory of the next command; absent after a bare restart"),
        required("background", Kind::List, "Processes left running, each as its pid and name"),
    ]);
    Tool::new(BASH, description.to_owned(), input)
        .with_title("Run a shell command")
        .with_raw_output_schema(output)
        .with_annotations(contained(network).read_only(false).idempotent(false))
}

/// What is destroyed is the container's own, so nothing is destructive to the user.
fn contained(network: Network) -> ToolAnnotations {
    ToolAnnotations::new().destructive(false).open_world(network == Network::On)
}

fn required(name: &'static str, kind: Kind, description: &'static str) -> Property {
    Property { name, kind, presence: Presence::Required, description }
}

fn optional(name: &'static str, kind: Kind, description: &'static str) -> Property {
    Property { name, kind, presence: Presence::Optional, description }
}
