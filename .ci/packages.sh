# How `.ci/clients`, `.ci/servers` and `.ci/inspect` install packages for this user. Sourced after lib.sh, not run.
# shellcheck shell=bash

ATTEMPTS=3

# cache_folder NAME FILE...: the folder for NAME at the versions pinned in the files. The tests look for the same one:
# `tests/src/installed.rs`.
cache_folder() {
  local name=$1 version
  shift
  version=$(cat "$@" | sha256sum)
  printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/gaia-tests/$name-${version:0:16}"
}

# attempt COMMAND...: again when it fails, as a network does at times.
attempt() {
  local trial
  for ((trial = 1; trial <= ATTEMPTS; trial++)); do
    if "$@" >&2; then return; fi
    say "\`$1\` failed ($trial of $ATTEMPTS)"
    sleep $((trial * 2))
  done
  fail "could not install the packages of the tests" "see the messages above; is there a network?"
}

# python_environment FOLDER FILE: a Python environment with the packages of the file and no others.
python_environment() {
  python3 -m venv "$1" >&2 || fail "\`python3 -m venv\` failed" "\`.ci/setup clients\` installs python3-venv"
  attempt "$1/bin/python" -m pip --quiet --disable-pip-version-check install --no-deps --only-binary :all: \
    --requirement "$2"
}

# npm_packages NODE PINS FOLDER: what PINS/package-lock.json says, with the npm of the Node in that folder.
npm_packages() {
  local node=$1 folder=$3
  mkdir "$folder"
  cp "$2/package.json" "$2/package-lock.json" "$folder"
  (cd "$folder" && attempt env PATH="$node/bin:$PATH" "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci \
    --ignore-scripts --no-audit --no-fund --loglevel=error)
}
