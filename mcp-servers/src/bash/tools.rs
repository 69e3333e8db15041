//! The tools of the bash server as clients see them.

use gaia_sandbox::Network;
use rmcp::model::{Tool, ToolAnnotations};

use crate::schema::{self, Kind, Presence, Property};

pub(super) const BASH: &str = "bash";
pub(super) const BASH_OUTPUT: &str = "bash_output";
pub(super) const BASH_INPUT: &str = "bash_input";
pub(super) const KILL_SHELL: &str = "kill_shell";
pub(super) const READ_FILE: &str = "read_file";
pub(super) const WRITE_FILE: &str = "write_file";
pub(super) const VIEW_IMAGE: &str = "view_image";

pub(super) fn all(bash_description: &str, network: Network) -> Vec<Tool> {
    vec![
        bash(bash_description, network),
        bash_output(),
        bash_input(),
        kill_shell(),
        read_file(),
        write_file(),
        view_image(),
    ]
}

fn bash(description: &str, network: Network) -> Tool {
    let input = schema::object(&[
        required("command", Kind::Text, "Shell command or script"),
        optional("timeout", Kind::Integer, "Seconds the command may run, 1 to 600"),
        optional(
            "run_in_background",
            Kind::Boolean,
            "Return at once with a task id for bash_output, bash_input and kill_shell; the task cannot change the shell's state",
        ),
        optional("stdin", Kind::Text, "The whole standard input of the command"),
        optional(
            "restart",
            Kind::Boolean,
            "First start a fresh shell: all processes end, directory and variables are reset, files stay. With an empty \
             command nothing else is done",
        ),
    ]);
    let output = schema::object(&[
        required("output", Kind::Text, "What the command printed, and the status line"),
        optional(
            "exit_code",
            Kind::Integer,
            "Exit code, 128 + signal when killed; absent when nothing ran to its end",
        ),
        optional("signal", Kind::Text, "Signal that ended the shell, such as SIGKILL"),
        required("timed_out", Kind::Boolean, "The timeout ended the command"),
        required("oom_killed", Kind::Boolean, "A process was killed for want of memory"),
        required("sandbox_reset", Kind::Boolean, "The container is new: files and state of before are gone"),
        required("duration_ms", Kind::Integer, "Run time in milliseconds"),
        required("total_bytes", Kind::Integer, "Bytes of output"),
        required("truncated", Kind::Boolean, "The text shows only part of the output"),
        optional("output_path", Kind::Text, "File in the container with the whole output"),
        optional("cwd", Kind::Text, "Working directory of the next command"),
        required("background", Kind::List, "Processes left running, each as its pid and name"),
        optional("task_id", Kind::Integer, "The task, when the command runs on"),
    ]);
    Tool::new(BASH, description.to_owned(), input)
        .with_title("Run a shell command")
        .with_raw_output_schema(output)
        .with_annotations(contained(network).read_only(false).idempotent(false))
}

fn bash_output() -> Tool {
    let input = schema::object(&[
        required("task_id", Kind::Integer, "The task"),
        optional("wait", Kind::Integer, "Seconds to wait for new output or the end, 0 to 50"),
        optional("offset", Kind::Integer, "Byte to read from; without it, where the last call ended"),
    ]);
    let output = schema::object(&[
        required("output", Kind::Text, "The new output, and whether it still runs"),
        required("task_id", Kind::Integer, "The task"),
        required("running", Kind::Boolean, "Whether it still runs"),
        optional("exit_code", Kind::Integer, "Exit code, once it has ended"),
        required("next_offset", Kind::Integer, "Byte after the ones shown"),
        required("total_bytes", Kind::Integer, "Bytes of output so far"),
    ]);
    Tool::new(BASH_OUTPUT, "Returns new output of a background task or of a command that was still running, and whether it still runs", input)
        .with_title("Read a background task's output")
        .with_raw_output_schema(output)
        .with_annotations(contained(Network::Off).read_only(true).idempotent(false))
}

fn bash_input() -> Tool {
    let input = schema::object(&[
        required("task_id", Kind::Integer, "Task started with run_in_background and without stdin"),
        optional("chars", Kind::Text, "Text to write; a line ends with \\n"),
        optional("eof", Kind::Boolean, "Then close the input"),
    ]);
    let output = schema::object(&[
        required("task_id", Kind::Integer, "The task"),
        required("bytes", Kind::Integer, "Bytes written"),
    ]);
    Tool::new(BASH_INPUT, "Writes to the standard input of a background task", input)
        .with_title("Write to a background task")
        .with_raw_output_schema(output)
        .with_annotations(contained(Network::Off).read_only(false).idempotent(false))
}

fn kill_shell() -> Tool {
    let input = schema::object(&[required("task_id", Kind::Integer, "The task")]);
    let output = schema::object(&[
        required("task_id", Kind::Integer, "The task"),
        required("exit_code", Kind::Integer, "Its exit code"),
    ]);
    Tool::new(KILL_SHELL, "Kills a task with everything it started", input)
        .with_title("Kill a background task")
        .with_raw_output_schema(output)
        .with_annotations(contained(Network::Off).read_only(false).idempotent(true))
}

fn read_file() -> Tool {
    let input = schema::object(&[
        required("path", Kind::Text, "Path in the container; a relative one starts at the working directory"),
        optional("offset", Kind::Integer, "First line, from 1"),
        optional("limit", Kind::Integer, "Lines, at most 2000"),
    ]);
    let output = schema::object(&[
        required("output", Kind::Text, "The lines, and which they are"),
        required("file_bytes", Kind::Integer, "Size of the file"),
        required("first_line", Kind::Integer, "First line shown"),
        required("last_line", Kind::Integer, "Last line shown"),
        required("end_of_file", Kind::Boolean, "Whether the file ends with it"),
    ]);
    Tool::new(READ_FILE, "Reads lines of a text file, at most 16 KiB at a time", input)
        .with_title("Read a file")
        .with_raw_output_schema(output)
        .with_annotations(contained(Network::Off).read_only(true).idempotent(true))
}

fn write_file() -> Tool {
    let input = schema::object(&[
        required("path", Kind::Text, "Path in the container; a relative one starts at the working directory"),
        required("content", Kind::Text, "The text to write"),
        optional("append", Kind::Boolean, "Add to the end of the file in place of replacing it"),
    ]);
    let output = schema::object(&[required("bytes", Kind::Integer, "Bytes written")]);
    Tool::new(WRITE_FILE, "Writes a text file, making its folders", input)
        .with_title("Write a file")
        .with_raw_output_schema(output)
        .with_annotations(contained(Network::Off).read_only(false).idempotent(false))
}

/// Without an output schema: hosts that get structured content show a model nothing else.
fn view_image() -> Tool {
    let input = schema::object(&[
        required("path", Kind::Text, "Path in the container; a relative one starts at the working directory"),
        optional("max_side", Kind::Integer, "Pixels of the longer side to show, 64 to 2048; 1568 without it"),
    ]);
    let description = "Shows a picture file (PNG, JPEG, GIF, WebP, BMP, TIFF; at most 32 MiB), scaled down to fit. Of an \
                       animation it shows the first frame, of a TIFF the first page. To see a detail, crop it into a file \
                       first";
    Tool::new(VIEW_IMAGE, description, input)
        .with_title("View a picture")
        .with_annotations(contained(Network::Off).read_only(true).idempotent(true))
}

/// What is destroyed is the container's own, so nothing is destructive to the user.
fn contained(network: Network) -> ToolAnnotations {
    ToolAnnotations::new().destructive(false).open_world(network != Network::Off)
}

fn required(name: &'static str, kind: Kind, description: &'static str) -> Property {
    Property { name, kind, presence: Presence::Required, description }
}

fn optional(name: &'static str, kind: Kind, description: &'static str) -> Property {
    Property { name, kind, presence: Presence::Optional, description }
}
