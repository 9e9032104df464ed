#!/usr/bin/env bash
# Compiles the .in files to the lists that install.sh reads. Run after changing a .in file.
set -euo pipefail
cd "$(dirname "$0")"
links=()
for place in ${PIP_FIND_LINKS:-}; do links+=(--find-links "$place"); done
common=(--override overrides.txt --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet)
uv=../.venv/bin/uv

if [ ${#links[@]} -gt 0 ]; then
    "$uv" pip compile cpu.in "${common[@]}" "${links[@]}" -o cpu.txt
else
    "$uv" pip compile cpu.in "${common[@]}" --torch-backend=cpu -o cpu.txt
fi
"$uv" pip compile gpu.in "${common[@]}" --python-platform x86_64-manylinux_2_28 -o gpu.txt
