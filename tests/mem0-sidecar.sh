#!/usr/bin/env bash
# Makes a Python environment in DIR that runs the mem0 sidecar of drivers/mem0.
#
#   HALOFY_MEM0_PYTHON=$(tests/mem0-sidecar.sh DIR) cargo test -p halofy-gate mem0
#
# Idempotent: an environment made from the same requirements is left alone. Prints the
# path of its python, and nothing else, on standard output. Needs python3 (3.11 or later)
# with venv and pip, and sha256sum.
set -euo pipefail

if [[ $# -ne 1 || -z ${1:-} ]]; then
  echo "usage: $0 DIR" >&2
  exit 2
fi
requirements=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/drivers/mem0/requirements.txt
mkdir -p "$1"
dir=$(cd "$1" && pwd)
made_from=$dir/made-from.sha256
python=$dir/venv/bin/python

digest=$(sha256sum <"$requirements")
if [[ ! -x $python || $(cat "$made_from" 2>/dev/null) != "$digest" ]]; then
  rm -rf "$made_from" "$dir/venv"
  python3 -m venv "$dir/venv" >&2
  "$python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: \
    --requirement "$requirements" >&2
  # Last, so that an interrupted run is done again.
  echo "$digest" >"$made_from"
fi
echo "$python"
