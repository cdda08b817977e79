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
