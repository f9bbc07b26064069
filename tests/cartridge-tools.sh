#!/bin/sh
# Installs the pinned tools that build cartridges in C, Python and JavaScript into a folder,
# and prints the variables by which `halofy cartridge build` finds them:
#
#   eval "$(tests/cartridge-tools.sh DIR)"
#
# A folder that already holds them is left as it is.
set -eu
dir=${1:?usage: cartridge-tools.sh DIR}
ziglang=0.15.2
componentize_py=0.25.1
componentize_qjs=0.4.5

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
wanted="ziglang $ziglang, componentize-py $componentize_py, componentize-qjs $componentize_qjs"

if [ "$(cat "$dir/installed" 2>/dev/null)" != "$wanted" ]; then
    python3 -m venv "$dir/venv" >&2
    "$dir/venv/bin/pip" install --quiet --disable-pip-version-check \
        "ziglang==$ziglang" "componentize-py==$componentize_py" >&2
    npm install --prefix "$dir" --no-save --no-audit --no-fund --loglevel=error \
        "componentize-qjs@$componentize_qjs" >&2
    printf '%s' "$wanted" >"$dir/installed"
fi

echo "export HALOFY_ZIG='$dir/venv/bin/python-zig'"
echo "export HALOFY_COMPONENTIZE_PY='$dir/venv/bin/componentize-py'"
echo "export HALOFY_COMPONENTIZE_QJS='$dir/node_modules/.bin/componentize-qjs'"
