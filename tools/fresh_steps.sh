#!/usr/bin/env bash
# What a newcomer does first, each step by itself: up, tool, pipx, wheel, test. tools/fresh.sh calls it in a new system.
set -euo pipefail
cd "$(dirname "$0")/.."
output="$HOME/output"
session=7d0c5a54-3c0e-4b1e-9a53-0d6f6f1f2a10

mkdir -p "$HOME/.claude/projects/-home-me-shop"
printf '%s\n' \
    '{"type":"user","uuid":"00000000-0000-4000-8000-000000000001","parentUuid":null,"timestamp":"2026-11-15T10:00:01.000Z","cwd":"/home/me/shop","sessionId":"'$session'","version":"2.1.325","isSidechain":false,"message":{"role":"user","content":"why does the test lock?"}}' \
    >"$HOME/.claude/projects/-home-me-shop/$session.jsonl"

# run COMMAND...: its output is shown and kept for `shows`.
run() {
    echo "\$ $*"
    "$@" >"$output" 2>&1 </dev/null || { sed 's/^/    /' "$output"; echo "failed: $*" >&2; exit 1; }
    sed 's/^/    /' "$output"
}

refused() {
    echo "\$ $*"
    if "$@" >"$output" 2>&1 </dev/null; then echo "did not fail: $*" >&2; exit 1; fi
    sed 's/^/    /' "$output"
}

shows() {
    grep -qF -- "$1" "$output" || { echo "the output does not say: $1" >&2; exit 1; }
}

# A home of clew for each step, so that every step captures for the first time.
begin() {
    echo; echo "== $1"
    export CLEW_HOME="$HOME/clew-$1"
}

stays_and_stops() {
    run "$@" up --background
    shows "clew is up at http://127.0.0.1:8519"
    shows "stop it with: clew down"
    run "$@" up --background
    shows "clew runs already at http://127.0.0.1:8519"
    run "$@" down
    shows "is stopped"
}

captures() {
    run "$@" --version
    run "$@" capture
    run "$@" sessions
    shows "why does the test lock?"
}

step_up() {
    run make up
    shows "1 session: claude-code 1"
    shows "clew is up at http://127.0.0.1:8519"
    run make up
    shows "clew runs already at http://127.0.0.1:8519"
    run .venv/bin/clew search lock
    shows "why does the test lock?"
    run make down
    shows "is stopped"
}

get() {
    command -v "$1" >/dev/null || run python3 -m pip install --quiet --user --break-system-packages "$1"
}

step_tool() {
    get uv
    run uv tool install .
    captures clew
    refused clew up --background
    shows "clew[server]"
    run uv tool install --reinstall '.[all]'
    stays_and_stops clew
    run clew doctor
    run uv tool uninstall clew
}

step_pipx() {
    get pipx
    run pipx install '.[all]'
    captures clew
    stays_and_stops clew
    run pipx uninstall clew
}

step_wheel() {
    run python3 -m pip wheel --quiet --no-deps --wheel-dir "$HOME/dist" .
    run sh tools/make_venv.sh "$HOME/plain"
    run "$HOME/plain/bin/python" -m pip install --quiet "$(echo "$HOME"/dist/clew-*.whl)"
    cd "$HOME"
    captures "$HOME/plain/bin/clew"
    refused "$HOME/plain/bin/clew" --store postgresql://127.0.0.1/clew sessions
    shows "clew[postgres]"
    run "$HOME/plain/bin/python" -m pip install --quiet "$(echo "$HOME"/dist/clew-*.whl)[all]"
    stays_and_stops "$HOME/plain/bin/clew"
    cd - >/dev/null
}

step_test() {
    local some="tests/model tests/runtimes/test_claude_code.py tests/cli/test_first_run.py tests/docs"
    if [ "${FRESH_TESTS:-}" = all ]; then
        run make test
    else
        run make test ARGS="-q ${FRESH_TESTS:-$some}"
    fi
}

[ $# -gt 0 ] || set -- up tool pipx wheel test
for step in "$@"; do
    begin "$step"
    "step_$step"
done
echo; echo "every step did what it says: $*"
