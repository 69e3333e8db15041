# What the scripts of the sandbox images share. Sourced, not run.
# shellcheck shell=bash source-path=SCRIPTDIR source=../../.ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../.ci/lib.sh"

STOCK=python:3.11
EQUIVALENT=gaia-sandbox:python3.11
FULL=gaia-sandbox:full
# Seconds for a pull, of about 400 MB. An engine without a network gives up long before.
PULL_SECONDS=${GAIA_PULL_SECONDS:-900}
SANDBOX=$ROOT/configs/sandbox
ENV_FILE=$ROOT/.env
export STOCK EQUIVALENT FULL PULL_SECONDS SANDBOX ENV_FILE

exists() { docker image inspect "$1" >/dev/null 2>&1; }

# recipe FILE...: the version of what they make; a change in one of them makes the image stale.
recipe() { cat "$@" | sha256sum | cut -d ' ' -f 1; }

# was_built_by IMAGE RECIPE: whether the image is there and not stale.
was_built_by() {
  [[ $(docker image inspect --format '{{index .Config.Labels "org.gaia.recipe"}}' "$1" 2>/dev/null) == "$2" ]]
}

recorded() {
  if [[ -f $ENV_FILE ]]; then sed -n 's/^GAIA_SANDBOX_IMAGE=//p' "$ENV_FILE" | tail -n 1 | tr -d "\"'"; fi
}

# record [IMAGE]: writes the line, or takes it away; the other lines stay as they are.
record() {
  if [[ $(recorded) == "${1:-}" ]]; then return; fi
  local new
  new=$(mktemp "$ENV_FILE.XXXXXX")
  if [[ -f $ENV_FILE ]]; then
    # It may hold keys: keep its owner and mode.
    cp --preserve=mode,ownership "$ENV_FILE" "$new"
    sed '/^GAIA_SANDBOX_IMAGE=/d' "$ENV_FILE" >"$new"
    # A last line without an end would swallow ours.
    if [[ -s $new && -n $(tail -c 1 "$new") ]]; then echo >>"$new"; fi
  elif ((EUID == 0)); then
    chown --reference="$ROOT" "$new"
  fi
  if [[ -n ${1:-} ]]; then printf 'GAIA_SANDBOX_IMAGE=%s\n' "$1" >>"$new"; fi
  mv "$new" "$ENV_FILE"
}

# Prints why it failed.
# shellcheck disable=SC2069 # only what goes to stderr is wanted
pull() { timeout "$PULL_SECONDS" docker pull --quiet "$1" 2>&1 >/dev/null; }

# install_packages PACKAGE...: for a script that builds, of the distribution.
install_packages() {
  say "installing the distribution's packages: $*"
  command -v apt-get >/dev/null || return 1
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  { as_root "${apt[@]}" update && as_root "${apt[@]}" install -y --no-install-recommends "$@"; } >&2
}
