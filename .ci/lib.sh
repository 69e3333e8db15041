# What the scripts of this repository share. Sourced, not run.
# shellcheck shell=bash

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export ROOT
export HOME=${HOME:-/root}
# Where rustup and `cargo install` put programs; a login shell may not have been started since.
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
# Scripts do not start daemons or compilers with a terminal or a pipe as their input.
exec </dev/null

say() { printf 'gaia: %s\n' "$*" >&2; }

# fail TEXT [HINT]...
fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  if (($#)); then printf 'hint: %s\n' "$@" >&2; fi
  exit 1
}

may_be_root() { ((EUID == 0)) || sudo -n true 2>/dev/null; }

# as_root COMMAND...: never asks for a password.
as_root() {
  if ((EUID == 0)); then
    "$@"
    return
  fi
  local keep=() name
  for name in http_proxy https_proxy no_proxy GAIA_DEBIAN_MIRROR; do
    if [[ -n ${!name:-} ]]; then keep+=("--preserve-env=$name"); fi
  done
  sudo -n "${keep[@]}" -- "$@"
}

# The oldest compiler that builds the workspace.
RUST_VERSION=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")

rust_is_current() {
  local version
  version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) && [[ -n $version ]] &&
    printf '%s\n' "$RUST_VERSION" "$version" | sort -V -C
}

# use_current_rust: takes rustup's stable toolchain for this script when the default one is too old.
use_current_rust() {
  if ! rust_is_current && [[ $(rustup toolchain list 2>/dev/null) == *stable* ]]; then export RUSTUP_TOOLCHAIN=stable; fi
  rust_is_current || return 1
}

# One of: ready, denied (an engine runs, this user may not speak to it), down (no engine answers), absent (no client).
docker_state() {
  local answer
  if ! command -v docker >/dev/null; then
    echo absent
  elif answer=$(timeout 30 docker version --format '{{.Server.Version}}' 2>&1); then
    echo ready
  elif [[ ${answer,,} == *"permission denied"* ]]; then
    echo denied
  else
    echo down
  fi
}

# in_docker_group USER: whether the user database has them in the group `docker`; a session that is older than that does not show it.
in_docker_group() { [[ " $(id -nG "$1") " == *" docker "* ]]; }

# run_in_docker_group COMMAND...: does not return when this session must first gain the group it was given.
run_in_docker_group() {
  if [[ -z ${GAIA_IN_DOCKER_GROUP:-} && $(docker_state) == denied ]] && in_docker_group "$(id -un)" && command -v sg >/dev/null; then
    export GAIA_IN_DOCKER_GROUP=1
    exec sg docker -c "$(printf '%q ' "$@")"
  fi
}

# require_docker: ends the script when this user cannot speak to an engine.
require_docker() {
  case $(docker_state) in
    ready) ;;
    denied) fail "this user may not speak to the Docker engine" "\`.ci/setup docker\` says what is needed for that" ;;
    *) fail "no Docker engine answers" "\`.ci/setup docker\` installs and starts one" ;;
  esac
}

# The name of the sandbox image, obtained when it is not there. To be called after `.ci/setup docker`.
sandbox_image() { "$ROOT/configs/sandbox/image"; }

# build_programs: builds what the tests and presets start, in $GAIA_PROFILE.
# The development profile is the default: it shares its output with the tests, builds in a fraction of the time, and
# a run waits for models and containers, not for this code.
build_programs() {
  use_current_rust || fail "no \`cargo\` of $RUST_VERSION or later" "run \`.ci/setup rust\`, without sudo"
  say "building the programs (profile ${GAIA_PROFILE:-dev}); the first time takes some minutes"
  (cd "$ROOT" && cargo build --locked --workspace --bins --profile "${GAIA_PROFILE:-dev}")
}

# The folder that build_programs puts the programs into.
programs_folder() {
  local target profile=${GAIA_PROFILE:-dev}
  target=$(cd "$ROOT" && cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
  if [[ $profile == dev ]]; then profile=debug; fi
  printf '%s\n' "$target/$profile"
}
