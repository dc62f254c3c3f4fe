#!/bin/sh
# Makes a virtual environment with pip in the folder given; PYTHON names the interpreter.
set -eu

folder="$1"
python="${PYTHON:-python3}"

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "clew needs Python 3.11 or newer as '$python'; name another one: make PYTHON=python3.12 ..." >&2
    exit 1
}
if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    exec "$python" -m venv "$folder"
fi
# Debian without python3-venv lacks ensurepip only, so the pip that is there can put itself into a bare environment.
"$python" -m venv --without-pip "$folder" && "$python" -m pip --python "$folder/bin/python" install --quiet pip || {
    echo "'$python' can make no virtual environment; as root: apt-get install python3-venv" >&2
    exit 1
}
