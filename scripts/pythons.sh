#!/bin/sh
# Every Python that the package is made for, as far as it is on this machine: each file compiles, each module imports,
# and where the test tools are installed for it the quick tests of the rim pass; those of .venv run with all the others.
# Nothing is installed, nothing fetched.
set -eu
cd "$(dirname "$0")/.."

find_python() {
    for each in "python$1" "$HOME/.pyenv/versions/$1"*/bin/python; do
        if "$each" -c "import sys; sys.exit(sys.version_info[:2] != tuple(map(int, '$1'.split('.'))))" 2>/dev/null; then
            echo "$each"
            return
        fi
    done
}

for version in 3.11 3.12 3.13; do
    if [ -x .venv/bin/python ] && .venv/bin/python --version | grep -q "Python $version\."; then
        python=.venv/bin/python
    else
        python=$(find_python "$version")
    fi
    if [ -z "$python" ]; then
        echo "Python $version: not on this machine, skipped"
        continue
    fi
    PYTHONPATH=src "$python" -B scripts/import_all.py
    if [ "$python" != .venv/bin/python ] && "$python" -c "import pytest, hypothesis, xdist, numpy, pydantic" 2>/dev/null; then
        PYTHONPATH=src:tests "$python" -B -m pytest -q -n 0 -m "not slow" tests/rim
    fi
done
