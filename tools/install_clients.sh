#!/usr/bin/env bash
# Installs the real agent clients that `make test-clients` runs, at the versions pinned here and nowhere else, and the
# conformance suites of MCP with the Node that they need.
#   install_clients.sh [DIR [name ...]]
# DIR is $CLEW_CLIENTS or ~/.cache/clew/clients; each client has a folder of its own below it. Without names: all.
# What is there in its pinned version is left alone, and a second install waits for the first.
set -euo pipefail

pins="
claude-code  @anthropic-ai/claude-code      2.1.325
codex        @openai/codex                  0.166.0
opencode     opencode-ai                    1.18.33
gemini-cli   @google/gemini-cli             0.61.0
copilot      @github/copilot                1.0.102
pi           @mariozechner/pi-coding-agent  0.73.1
qwen-code    @qwen-code/qwen-code           0.15.10
node         node                           22.23.3
conformance  @modelcontextprotocol/conformance  0.1.16
conformance-next  @modelcontextprotocol/conformance  0.2.0-alpha.12
"

dir=${1:-${CLEW_CLIENTS:-$HOME/.cache/clew/clients}}
shift $(($# > 0))
wanted=("$@")

fail() {
    echo "install_clients.sh: $*" >&2
    exit 1
}

is_wanted() {
    [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]
}

# Whether the client $1 is there, as package $2 in version $3.
is_there() {
    grep -qs "\"version\": *\"$3\"" "$dir/$1/node_modules/$2/package.json"
}

need_npm() {
    command -v node >/dev/null && command -v npm >/dev/null && return
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        fail "node and npm are missing and cannot be installed from here; install node 20 or newer with npm"
    fi
    apt-get update -qq </dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 nodejs npm </dev/null >/dev/null
}

names=$(awk 'NF { print $1 }' <<<"$pins" | xargs)
for name in ${wanted[@]+"${wanted[@]}"}; do
    [[ " $names " == *" $name "* ]] || fail "no client is called $name; there are: $names"
done

mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9

while read -r name package version; do
    [ -n "$name" ] && is_wanted "$name" || continue
    is_there "$name" "$package" "$version" && continue
    need_npm
    # Beside its place and then into it: what is in place is whole, even after an install that was interrupted.
    rm -rf "$dir/.new-$name"
    mkdir "$dir/.new-$name"
    SECONDS=0
    npm install --prefix "$dir/.new-$name" --no-audit --no-fund --loglevel=error "$package@$version" </dev/null >&2
    rm -rf "${dir:?}/$name"
    mv "$dir/.new-$name" "$dir/$name"
    echo "$name $version installed in ${SECONDS} s"
done <<<"$pins"
