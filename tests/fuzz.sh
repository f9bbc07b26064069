#!/usr/bin/env bash
# Fuzzes what meets a stranger's bytes first: admission of components, and signature files.
# Bounded; ends with 0 when nothing panicked. Fetches from the package registries only.
#
#   tests/fuzz.sh [SECONDS]     for each target (default: 60)
#
# Environment
#   CARGO_TARGET_DIR  where to build (default: a folder beside the fuzzers)
#   HALOFY_FUZZ_TOOLS where cargo-fuzz is installed if it is missing
#                     (default: ${XDG_CACHE_HOME:-~/.cache}/halofy/fuzz-tools)
#
# What a crash left behind lies in kernel/cartridge/fuzz/artifacts; to run it again:
#   cd kernel/cartridge && RUSTC_BOOTSTRAP=1 cargo fuzz run -s none TARGET FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../kernel/cartridge"

seconds="${1:-60}"
tools="${HALOFY_FUZZ_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/halofy/fuzz-tools}"
export PATH="$tools/bin:$PATH"
if ! cargo fuzz --version >/dev/null 2>&1; then
    cargo install cargo-fuzz --version 0.13.2 --locked --root "$tools"
fi

# The coverage that steers libFuzzer is a nightly option of the stable compiler. Without the
# address sanitizer: the crate has no unsafe code on these paths, and it doubles the build.
export RUSTC_BOOTSTRAP=1
corpus="$(mktemp -d)"
trap 'rm -rf "$corpus"' EXIT

for target in admit signature; do
    mkdir "$corpus/$target"
    echo "fuzzing $target for $seconds s"
    cargo fuzz run -s none "$target" "$corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
        -verbosity=0 -print_final_stats=1
done
