#!/bin/sh
# Build the virtual environment: torch first (its build depends on the machine), then the lock.
# uv does not read pip's find-links setting, so it is handed over; without uv, plain pip does the same.
set -eu
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
py="$VENV/bin/python"
if "$py" -m pip install --quiet "uv==$UV_VERSION" 2>/dev/null; then
    export UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}"
    [ -n "$UV_FIND_LINKS" ] || unset UV_FIND_LINKS
    install() { "$VENV/bin/uv" pip install --quiet --python "$py" "$@"; }
    check() { "$VENV/bin/uv" pip check --quiet --python "$py"; }
    torch_args="$TORCH_ARGS"
else
    echo "uv is not available here; installing with pip."
    install() { "$py" -m pip install --quiet "$@"; }
    check() { "$py" -m pip check; }
    torch_args=""
fi
# shellcheck disable=SC2086  # TORCH_ARGS is a list of words on purpose
install "torch==$TORCH_VERSION" $torch_args
install --no-deps -r requirements.lock
install --no-deps --no-build-isolation -e .
check
