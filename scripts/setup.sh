#!/bin/sh
# Makes .venv at the root of the repository and installs the locked dependencies named by $1 (run or dev) into it.
# Debian's own Python refuses installs outside a virtual environment, so nothing is ever installed anywhere else.
set -eu
what=$1
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

find_python() {
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    say "no Python 3.11 to 3.13 found. Install one (on Debian: apt-get install python3) or name it: make PYTHON=/path/to/python3.12"
    exit 2
}

make_venv() {
    "$1" -m venv .venv >/dev/null 2>&1 && return
    rm -rf .venv
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "this Python has no venv: installing Debian's python3-venv"
        { apt-get update && apt-get install -y --no-install-recommends python3-venv; } >&2
        "$1" -m venv .venv && return
    fi
    say "this Python cannot make a virtual environment. Run: sudo apt-get install python3-venv"
    exit 2
}

[ -x .venv/bin/python ] || make_venv "$(find_python)"
say "installing requirements/$what.txt"
# The lock is complete, so nothing is resolved: a resolver asks for extras (coverage[toml]) apart from their pin, and
# refuses the whole lock on the day a newer release is out.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "requirements/$what.txt"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
touch ".venv/.$what"
# dev holds all of run.
[ "$what" = run ] || touch .venv/.run
