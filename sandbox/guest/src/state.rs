//! The shell's state between two commands.
//!
//! Each command runs in a shell of its own. On its way out the shell writes a snapshot (working directory, variables,
//! functions, aliases, options) into a memory file; the next shell evaluates what is made of it here. A shell that
//! takes too long over it (bash needs a minute for 100 000 variables), or ends without a complete snapshot (`exec`, SIGKILL, an EXIT trap of its own followed by `exit`) leaves the previous
//! state in place.

use std::collections::{BTreeMap, BTreeSet};

use gaia_sandbox_protocol::Shell;

/// Where commands start, and where they go on when their directory has vanished. An empty folder: a model that lists
/// or searches "here" must not walk the whole system.
pub(crate) const HOME_DIRECTORY: &str = "/workspace";

/// Longest variable that is kept: longer ones (whole files in a variable) would be read again by every command.
const MAX_VARIABLE_BYTES: usize = 128 << 10;

/// Longest state that is kept, for the same reason.
const MAX_STATE_BYTES: usize = 1 << 20;

/// Longest snapshot that is looked at.
pub(crate) const MAX_SNAPSHOT_BYTES: u64 = 8 << 20;

/// Ends a complete snapshot.
const END_MARK: &[u8] = b"gaia-end";

/// Descriptor the snapshot is written to. High, so that scripts do not meet it.
pub(crate) const SNAPSHOT_FD: i32 = 197;

/// Makes the shell write its snapshot at the end, whatever ends it. Everything it calls is called as a builtin, since
/// a command may have defined functions of the same names, and it keeps the status as its argument, since variables
/// may be read-only. Tracing and traps of the command must not see it.
/// It leaves a function that does nothing in its place, since the trap calls it again, and bash would start a process to
/// say that there is no such command.
const SAVE_FROM_BASH: &str = r#"__gaia_save() {
builtin set -- $?
builtin trap - DEBUG ERR RETURN
builtin set +eux
builtin unset -f __gaia_save
{ builtin printf '%d\0' "$1"
builtin pwd; builtin printf '\0'
builtin declare -p; builtin printf '\0'
builtin shopt -p; builtin printf '\0'
builtin declare -fp; builtin printf '\0'
builtin alias -p; builtin printf '\0'
builtin set +o; builtin umask -p; builtin printf '\0gaia-end'
} >&197
__gaia_save() { :; }
builtin return "$1"
}
builtin trap '{ __gaia_save; } >/dev/null 2>&1' EXIT
"#;

/// The same for a plain shell, which has no way to list functions.
const SAVE_FROM_SH: &str = r"__gaia_save() {
{ printf '%d\000' $?; pwd; printf '\000'; export -p; printf '\000gaia-end'; } >/proc/self/fd/197
}
trap '{ __gaia_save; } 2>/dev/null' EXIT
";

/// Variables that bash sets itself, or whose old value would be wrong in a new shell.
const INTERNAL_VARIABLES: [&str; 36] = [
    "BASH",
    "BASHOPTS",
    "BASHPID",
    "BASH_ALIASES",
    "BASH_ARGC",
    "BASH_ARGV",
    "BASH_ARGV0",
    "BASH_CMDS",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_LINENO",
    "BASH_MONOSECONDS",
    "BASH_REMATCH",
    "BASH_SOURCE",
    "BASH_SUBSHELL",
    "BASH_TRAPSIG",
    "BASH_VERSINFO",
    "BASH_VERSION",
    "COMP_WORDBREAKS",
    "DIRSTACK",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "LINENO",
    "OPTIND",
    "PIPESTATUS",
    "PPID",
    "PWD",
    "RANDOM",
    "REPLY",
    "SHELLOPTS",
    "SHLVL",
    "UID",
];

/// Options that end or drown later commands if they outlive the one that set them.
const DROPPED_OPTIONS: [&str; 6] = ["errexit", "nounset", "xtrace", "noexec", "verbose", "onecmd"];

pub(crate) struct ShellState {
    pub(crate) cwd: String,
    /// Shell text that brings back everything but the working directory.
    restore: Vec<u8>,
    /// What a shell has before any command: variables by name, and the lines that set its options. Not restored, since
    /// every shell has it anyway; what a command unset of it is unset again. Until it is known, everything is restored.
    baseline: Baseline,
}

#[derive(Default)]
struct Baseline {
    variables: BTreeMap<String, Vec<u8>>,
    lines: BTreeSet<Vec<u8>>,
}

impl ShellState {
    /// `initial_names` are those of the environment every shell is started with.
    pub(crate) fn fresh(initial_names: Vec<String>) -> Self {
        let variables = initial_names.into_iter().map(|name| (name, Vec::new())).collect();
        let baseline = Baseline { variables, lines: BTreeSet::new() };
        Self { cwd: HOME_DIRECTORY.to_owned(), restore: Vec::new(), baseline }
    }

    /// Takes the snapshot of a bash that ran nothing.
    pub(crate) fn learn_baseline(&mut self, snapshot: &[u8]) {
        let Some(sections) = sections(snapshot) else { return };
        let [_, _, variables, switches, _, _, options] = sections.as_slice() else { return };
        let Some(records) = declarations(variables) else { return };
        self.baseline = Baseline {
            variables: records
                .into_iter()
                .filter(|record| !is_internal(record.name))
                .map(|record| (record.name.to_owned(), record.text.to_vec()))
                .collect(),
            lines: lines(switches).chain(lines(options)).map(<[u8]>::to_vec).collect(),
        };
    }

    pub(crate) fn forget(&mut self) {
        self.cwd = HOME_DIRECTORY.to_owned();
        self.restore.clear();
    }

    /// What a new shell that was started in `shell_cwd` has to evaluate before the command.
    pub(crate) fn restore_script(&self, shell: Shell, shell_cwd: &str) -> Vec<u8> {
        let mut script = Vec::with_capacity(self.restore.len() + 1024);
        if shell_cwd != self.cwd {
            script.extend_from_slice(format!("cd -- {}\n", quoted(&self.cwd)).as_bytes());
        }
        let save = if shell == Shell::Bash { SAVE_FROM_BASH } else { SAVE_FROM_SH };
        script.extend_from_slice(save.as_bytes());
        script.extend_from_slice(&self.restore);
        script
    }

    /// Takes over a snapshot. Returns notes for the reader; an incomplete snapshot changes nothing.
    pub(crate) fn adopt(&mut self, shell: Shell, snapshot: &[u8]) -> Vec<String> {
        let Some(sections) = sections(snapshot) else { return Vec::new() };
        let mut notes = Vec::new();
        let restore = match (shell, sections.as_slice()) {
            (Shell::Bash, [_, _, variables, switches, functions, aliases, options]) => {
                self.restore_bash(variables, switches, functions, aliases, options, &mut notes)
            }
            (Shell::Sh, [_, _, exports]) => Some(self.restore_sh(exports)),
            _ => None,
        };
        let Some(restore) = restore else { return notes };
        let cwd = sections[1].strip_suffix(b"\n").unwrap_or(sections[1]);
        if let Ok(cwd) = std::str::from_utf8(cwd)
            && cwd.starts_with('/')
        {
            cwd.clone_into(&mut self.cwd);
        }
        if restore.len() > MAX_STATE_BYTES {
            notes.push(
                "variables and functions take more than 1 MiB: those of this command were not kept"
                    .to_owned(),
            );
        } else {
            self.restore = restore;
        }
        notes
    }

    fn restore_bash(
        &self,
        variables: &[u8],
        switches: &[u8],
        functions: &[u8],
        aliases: &[u8],
        options: &[u8],
        notes: &mut Vec<String>,
    ) -> Option<Vec<u8>> {
        let records = declarations(variables)?;
        let mut restore = self.unset_missing(records.iter().map(|record| record.name));
        // Switches first: `extglob` changes how functions are read. Aliases last: functions are already expanded.
        let is_changed = |line: &&[u8]| !self.baseline.lines.contains(*line);
        let (late, early): (Vec<&[u8]>, Vec<&[u8]>) =
            lines(switches).filter(is_changed).partition(|line| line.ends_with(b" expand_aliases\n"));
        early.iter().for_each(|line| restore.extend_from_slice(line));
        for record in records {
            let is_known = self.baseline.variables.get(record.name).is_some_and(|text| text == record.text);
            if is_known || is_internal(record.name) {
                continue;
            }
            if record.text.len() > MAX_VARIABLE_BYTES {
                notes.push(format!("variable `{}` is longer than 128 KiB and was not kept", record.name));
                continue;
            }
            restore.extend_from_slice(record.text);
        }
        restore.extend_from_slice(functions);
        restore.extend_from_slice(aliases);
        late.iter().for_each(|line| restore.extend_from_slice(line));
        for line in lines(options).filter(is_changed) {
            let name = line.trim_ascii_end().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            if !DROPPED_OPTIONS.iter().any(|option| option.as_bytes() == name) {
                restore.extend_from_slice(line);
            }
        }
        Some(restore)
    }

    fn restore_sh(&self, exports: &[u8]) -> Vec<u8> {
        let names: Vec<&str> = exports
            .split(|byte| *byte == b'\n')
            .filter_map(|line| std::str::from_utf8(line.strip_prefix(b"export ")?).ok())
            .map(|line| line.split('=').next().unwrap_or(line))
            .collect();
        let mut restore = self.unset_missing(names.into_iter());
        restore.extend_from_slice(exports);
        restore
    }

    fn unset_missing<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<u8> {
        let names: BTreeSet<&str> = names.collect();
        self.baseline
            .variables
            .keys()
            .filter(|name| !names.contains(name.as_str()))
            .flat_map(|name| format!("unset -v {name}\n").into_bytes())
            .collect()
    }
}

/// The parts of a complete snapshot.
fn sections(snapshot: &[u8]) -> Option<Vec<&[u8]>> {
    let snapshot = snapshot.strip_suffix(END_MARK)?.strip_suffix(b"\0")?;
    Some(snapshot.split(|byte| *byte == 0).collect())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

fn is_internal(name: &str) -> bool {
    INTERNAL_VARIABLES.contains(&name) || name == "_" || name.starts_with("__gaia_")
}

struct Declaration<'a> {
    name: &'a str,
    /// The whole statement with its newline.
    text: &'a [u8],
}

/// Cuts the output of `declare -p` into statements. Values may hold newlines inside quotes; `None` when the text is
/// not what bash writes, for then nothing of it can be trusted.
fn declarations(mut rest: &[u8]) -> Option<Vec<Declaration<'_>>> {
    let mut records = Vec::new();
    while !rest.is_empty() {
        let length = statement_length(rest)?;
        let (text, following) = rest.split_at(length);
        let after_flags = text.strip_prefix(b"declare -")?.iter().position(|byte| *byte == b' ')? + 10;
        let name = text.get(after_flags..)?.split(|byte| matches!(byte, b'=' | b'\n')).next()?;
        let name = std::str::from_utf8(name).ok()?;
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !name.starts_with(|first: char| first.is_ascii_digit());
        if !is_name {
            return None;
        }
        records.push(Declaration { name, text });
        rest = following;
    }
    Some(records)
}

/// Bytes up to and with the first newline outside quotes.
fn statement_length(text: &[u8]) -> Option<usize> {
    #[derive(PartialEq)]
    enum Quote {
        None,
        Single,
        Double,
        Escaped,
    }
    let mut quote = Quote::None;
    let mut bytes = text.iter().enumerate();
    let mut previous = 0;
    while let Some((index, byte)) = bytes.next() {
        match (&quote, byte) {
            (Quote::None, b'\n') => return Some(index + 1),
            (Quote::None, b'"') => quote = Quote::Double,
            (Quote::None, b'\'') if previous == b'$' => quote = Quote::Escaped,
            (Quote::None, b'\'') => quote = Quote::Single,
            (Quote::Double, b'"') | (Quote::Single | Quote::Escaped, b'\'') => quote = Quote::None,
            (Quote::None | Quote::Double | Quote::Escaped, b'\\') => {
                bytes.next();
            }
            _ => {}
        }
        previous = *byte;
    }
    None
}

/// Exit status at the head of a snapshot, complete or not.
pub(crate) fn status_of(snapshot: &[u8]) -> Option<i32> {
    let (status, _) = snapshot.split_at(snapshot.iter().position(|byte| *byte == 0)?);
    std::str::from_utf8(status).ok()?.parse().ok()
}

/// A text as one word of any shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Option<Vec<&str>> {
        declarations(text.as_bytes()).map(|records| records.into_iter().map(|record| record.name).collect())
    }

    #[test]
    fn declarations_with_newlines_and_quotes_in_values_are_cut_right() {
        let text = "declare -- a=\"one\ndeclare -- not=\\\"x\\\"\"\n\
                    declare -x B=$'it\\'s\\n'\n\
                    declare -a c=([0]=\"x y\" [1]=$'\\n')\n\
                    declare -A d=([\"k k\"]=\"v\" )\n\
                    declare -ir E=\"5\"\n\
                    declare -x F\n";
        assert_eq!(names(text).unwrap(), ["a", "B", "c", "d", "E", "F"]);
    }

    #[test]
    fn what_bash_would_not_write_is_refused() {
        for text in
            ["rm -rf /\n", "declare -- a=\"open\n", "declare -- a=1", "declare -- 1a=\"x\"\n", "declare\n"]
        {
            assert_eq!(names(text), None, "{text:?}");
        }
    }

    fn snapshot(variables: &str, options: &str) -> Vec<u8> {
        format!("0\0/tmp/x\n\0{variables}\0shopt -u a\n\0f () \n{{ \n    :\n}}\n\0\0{options}\0gaia-end")
            .into_bytes()
    }

    fn restored(state: &ShellState) -> String {
        String::from_utf8(state.restore.clone()).unwrap()
    }

    #[test]
    fn a_snapshot_is_kept_without_what_the_shell_owns() {
        let mut state = ShellState::fresh(vec!["PATH".to_owned(), "GONE".to_owned()]);
        let notes = state.adopt(
            Shell::Bash,
            &snapshot(
                "declare -x PATH=\"/bin\"\ndeclare -ir PPID=\"1\"\ndeclare -- REPLY=\"x\"\ndeclare -- mine=\"1\"\n",
                "set +o errexit\nset -o pipefail\nset -o xtrace\numask 0027\n",
            ),
        );
        assert_eq!(notes, Vec::<String>::new());
        assert_eq!(state.cwd, "/tmp/x");
        assert_eq!(
            restored(&state),
            "unset -v GONE\nshopt -u a\ndeclare -x PATH=\"/bin\"\ndeclare -- mine=\"1\"\nf () \n{ \n    :\n}\n\
             set -o pipefail\numask 0027\n"
        );
    }

    #[test]
    fn what_every_shell_has_is_not_restored_unless_it_changed() {
        let mut state = ShellState::fresh(vec!["PATH".to_owned()]);
        let before = "declare -x PATH=\"/bin\"\ndeclare -- IFS=\" \"\ndeclare -- PS4=\"+ \"\n";
        state.learn_baseline(&snapshot(before, "set +o pipefail\nset +o noglob\numask 0022\n"));
        state.adopt(Shell::Bash, &snapshot(before, "set +o pipefail\nset +o noglob\numask 0022\n"));
        assert_eq!(restored(&state), "f () \n{ \n    :\n}\n");
        let after = "declare -x PATH=\"/usr/bin\"\ndeclare -- PS4=\"+ \"\n";
        state.adopt(Shell::Bash, &snapshot(after, "set -o pipefail\nset +o noglob\numask 0027\n"));
        assert_eq!(
            restored(&state),
            "unset -v IFS\ndeclare -x PATH=\"/usr/bin\"\nf () \n{ \n    :\n}\nset -o pipefail\numask 0027\n"
        );
    }

    #[test]
    fn an_incomplete_snapshot_changes_nothing() {
        let mut state = ShellState::fresh(Vec::new());
        state.adopt(Shell::Bash, &snapshot("declare -- kept=\"1\"\n", ""));
        let before = restored(&state);
        let whole = snapshot("declare -- other=\"2\"\n", "");
        for length in 0..whole.len() {
            state.adopt(Shell::Bash, &whole[..length]);
            assert_eq!(restored(&state), before, "cut at {length}");
        }
    }

    #[test]
    fn long_variables_are_left_out_and_named() {
        let mut state = ShellState::fresh(Vec::new());
        let text =
            format!("declare -- long=\"{}\"\ndeclare -- short=\"1\"\n", "x".repeat(MAX_VARIABLE_BYTES));
        let notes = state.adopt(Shell::Bash, &snapshot(&text, ""));
        assert_eq!(notes, ["variable `long` is longer than 128 KiB and was not kept"]);
        assert!(restored(&state).contains("short") && !restored(&state).contains("long"));
    }

    #[test]
    fn too_much_state_keeps_the_previous_one_but_follows_the_directory() {
        let mut state = ShellState::fresh(Vec::new());
        let text: String =
            (0..20).map(|index| format!("declare -- v{index}=\"{}\"\n", "x".repeat(100_000))).collect();
        let notes = state.adopt(Shell::Bash, &snapshot(&text, ""));
        assert_eq!(notes.len(), 1);
        assert_eq!((state.cwd.as_str(), restored(&state).as_str()), ("/tmp/x", ""));
    }

    #[test]
    fn a_plain_shell_keeps_directory_and_exports() {
        let mut state = ShellState::fresh(vec!["GONE".to_owned()]);
        state.adopt(Shell::Sh, b"0\0/usr\n\0export A='1'\nexport B\n\0gaia-end");
        assert_eq!(state.cwd, "/usr");
        assert_eq!(restored(&state), "unset -v GONE\nexport A='1'\nexport B\n");
    }

    #[test]
    fn the_status_stands_at_the_head_of_a_snapshot() {
        assert_eq!(status_of(b"7\0/tmp\n\0decl"), Some(7));
        assert_eq!(status_of(b"7"), None);
        assert_eq!(status_of(b"x\0"), None);
    }

    #[test]
    fn a_directory_with_a_quote_is_one_word() {
        assert_eq!(quoted("/a'b c"), r"'/a'\''b c'");
    }
}
