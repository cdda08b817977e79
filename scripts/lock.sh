#!/bin/sh
# Pins every dependency with its hashes for all supported Pythons, without the name of any download host.
set -eu
cd "$(dirname "$0")/.."
compile() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header pyproject.toml "$@"
}
compile --group build --output-file requirements/run.txt
compile --group build --extra serve --extra postgres --constraints requirements/run.txt \
    --output-file requirements/serve.txt
compile --group build --group dev --constraints requirements/run.txt --output-file requirements/dev.txt
# The page's packages: by version and hash; page/.npmrc leaves out where they were fetched from.
cd page
npm install --package-lock-only --silent
node -e '
const fs = require("fs"), lock = JSON.parse(fs.readFileSync("package-lock.json"));
for (const each of Object.values(lock.packages)) { delete each.funding; delete each.resolved; }
fs.writeFileSync("package-lock.json", JSON.stringify(lock, null, 2) + "\n");'
