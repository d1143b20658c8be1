#!/bin/sh
# The style, who imports whom, types and docstrings: sh tools/lint.sh (`make lint`)
#
# Types and docstrings are checked in the libraries, whose pages are made from them.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
libraries="helpers/cluster helpers/tracing helpers/torch_mpi helpers/cuda helpers/collectives helpers/data_parallel helpers/autodiff helpers/pipeline helpers/sharded"

"$bin/ruff" check .
"$bin/ruff" format --check .
said=$(mktemp)
trap 'rm -f "$said"' EXIT
# shellcheck disable=SC2086
"$bin/mypy" $libraries & # takes as long as the others, on another core
types=$!
if ! "$bin/lint-imports" --no-cache >"$said" 2>&1; then
    cat "$said"
    status=1
fi
"$bin/python" -m tools.docstrings || status=1
wait "$types" || status=1
exit "${status:-0}"
