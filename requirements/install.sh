#!/usr/bin/env bash
# Makes .venv and installs the compiled list that suits this machine. Usage: install.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "Turnout needs Python 3.11 or newer; $python is $("$python" --version)." >&2; exit 1; }
[ -x .venv/bin/python ] || "$python" -m venv .venv
[ -x .venv/bin/uv ] || .venv/bin/pip install --quiet uv

list=cpu
nvidia-smi -L >/dev/null 2>&1 && list=gpu

# uv does not read pip's PIP_FIND_LINKS. The CPU build of torch is in such a wheelhouse or in torch's own index.
torch=(--torch-backend=auto)
for place in ${PIP_FIND_LINKS:-}; do
    compgen -G "$place/torch-*.whl" >/dev/null && torch=(--find-links "$place")
done

# --no-deps: the list is complete, and what the overrides leave out must stay out.
VIRTUAL_ENV=.venv .venv/bin/uv pip install --quiet --no-deps "${torch[@]}" -r "requirements/$list.txt"
VIRTUAL_ENV=.venv .venv/bin/uv pip install --quiet --no-deps -e .
