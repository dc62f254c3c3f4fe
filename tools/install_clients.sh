#!/usr/bin/env bash
# Installs the real agent clients that `make test-clients` runs, at the versions pinned here and nowhere else, and the
# conformance suites of MCP with the Node that they need; `make lighthouse` asks for its own by name.
#   install_clients.sh [DIR [name ...]]
# DIR is $CLEW_CLIENTS or ~/.cache/clew/clients; each client has a folder of its own below it. Without names: all.
# What is there in its pinned version is left alone, and a second install waits for the first.
set -euo pipefail

pins="
claude-code  @anthropic-ai/claude-code      2.1.325  sha512-OUxCb0sx734zJh9zGTP9oF01gZ44DCGFaw7hgD4byepjRRGyvHzgUOwC7dlCgVIljV6CiEVDjq+anY3GUvKFQw==
codex        @openai/codex                  0.166.0  sha512-2Szlp1l1cz5TX1ccpX4Zok3DZrot9xeZe0km+6/1v8JmqxADwyJxKBJah4dBymkwtS25j/u6dipJusTOI97Z8Q==
opencode     opencode-ai                    1.18.33  sha512-58P1ffLRXiAY4QeoABqUjqf6DEzm1ihpovvn9Ad+oOLbLiwK/rf88wruT9IATJ7AtNjmi8iA7pC8tN4o5y799Q==
gemini-cli   @google/gemini-cli             0.61.0   sha512-dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ==
copilot      @github/copilot                1.0.102  sha512-mv6cTWMhMILxg5ZDgqJ6UsnpPuySCPWOPbZVaO8lL0dpmjY3VD9ZhJr6DFcG7fhUXZv6OmvLdcRCa5MJ6hBI+Q==
pi           @mariozechner/pi-coding-agent  0.73.1   sha512-gXQh3SaZmWTfVMc4Ao5+LGbVeKvzyO7tolok0nLsZgq9nGjZx/EEU3NM8C+qUnB4Nvs2rswG5qOVgLzQkq0fHQ==
qwen-code    @qwen-code/qwen-code           0.15.10  sha512-A1rAUg7TTO62yuwogzEstMWLVxQ4n4JO26k9t6s93Ed14svp7W+7WEAAZhUMmxPf/q9xQQW7LwX48cuQcgKDBQ==
node         node                           22.23.3  sha512-DefCzy9Twv55AA4RQcOnUd6iQtqmnsJ6twWGasZ33F7BKJEMUJ1KVoumiVSRRNVRHKhBtsoPTvNKMxsE1TG0+Q==
conformance  @modelcontextprotocol/conformance  0.1.16  sha512-GI7qiN0r39/MH2srVUR3AXaEN0YLCro20lIBbnvc1frBhszenxvUifBuTzxeVQVagILfBzCIcnungUOma8OrgA==
conformance-next  @modelcontextprotocol/conformance  0.2.0-alpha.12  sha512-eXtZFgmtZiU5SsvXty+RGXGnyIqEVm3GLU/HZmg1wMjtKOocPZZgD9HQKd30oJhio5UB0wFJmsc6r8u48Q+EYA==
lighthouse   lighthouse                     13.5.0   sha512-w/yYIwg7mP9pCwkcbAXRztnvKHua2dJnZaNptPLa1cEw+akr6lbsIDiUOLsQwvaiAUr0xvxdmwvAzl3pj3Np0A==
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

while read -r name package version integrity; do
    [ -n "$name" ] && is_wanted "$name" || continue
    is_there "$name" "$package" "$version" && continue
    need_npm
    # Beside its place and then into it: what is in place is whole, even after an install that was interrupted.
    rm -rf "$dir/.new-$name"
    mkdir "$dir/.new-$name"
    SECONDS=0
    # npm compares what it downloads with what the registry says, so the registry has to say what is pinned here.
    offered=$(npm view "$package@$version" dist.integrity </dev/null)
    [ "$offered" = "$integrity" ] || fail "$package $version is not what was pinned: the registry offers $offered"
    npm install --prefix "$dir/.new-$name" --no-audit --no-fund --loglevel=error "$package@$version" </dev/null >&2
    rm -rf "${dir:?}/$name"
    mv "$dir/.new-$name" "$dir/$name"
    echo "$name $version installed in ${SECONDS} s"
done <<<"$pins"
