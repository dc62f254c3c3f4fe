#!/usr/bin/env bash
# Installs the real agent clients that `make test-clients` runs, at the versions pinned here and nowhere else, and the
# conformance suites of MCP, and the Node that they need.
#   install_clients.sh [--latest] [DIR [name ...]]
# DIR is $CLEW_CLIENTS or ~/.cache/clew/clients; each client has a folder of its own below it. Without names: all.
# With --latest, DIR gets the newest version of each client that the registry can install; the rest stays as pinned.
# What is there in its version is left alone, and a second install waits for the first. Lighthouse, which is no client,
# is installed only when it is named.
set -euo pipefail

pins="
node              node                               22.23.3         sha512-DefCzy9Twv55AA4RQcOnUd6iQtqmnsJ6twWGasZ33F7BKJEMUJ1KVoumiVSRRNVRHKhBtsoPTvNKMxsE1TG0+Q==
claude-code       @anthropic-ai/claude-code          2.1.328         sha512-QJTDDUhzx2Wtnoone+TULvhtxqX9KhUpgt4S96Y2eyohtZK41LWXwe7fWXcR1JnT0Ujs3AfpPTk5BZgwCyZ8pw==
codex             @openai/codex                      0.169.0         sha512-KhzYlkKPxoNssR8CEm45IjqnFWn7UtlF4CiD3tOJPea51xBs7MaHy0UQG9GSbCqk6Lrjn5QdJDV0QD1/FgWlGw==
opencode          opencode-ai                        1.18.33         sha512-58P1ffLRXiAY4QeoABqUjqf6DEzm1ihpovvn9Ad+oOLbLiwK/rf88wruT9IATJ7AtNjmi8iA7pC8tN4o5y799Q==
gemini-cli        @google/gemini-cli                 0.61.0          sha512-dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ==
copilot           @github/copilot                    1.0.102         sha512-mv6cTWMhMILxg5ZDgqJ6UsnpPuySCPWOPbZVaO8lL0dpmjY3VD9ZhJr6DFcG7fhUXZv6OmvLdcRCa5MJ6hBI+Q==
pi                @earendil-works/pi-coding-agent    1.5.2           sha512-mUWI04rqF1Vd/m1q+Ps1XeWsTXEVvRUnsmRa83I3Dzua0Tx5bYS93imeqtIfrXf7PkkaR6ERz+AuQhIJlom5yA==
qwen-code         @qwen-code/qwen-code               0.24.4          sha512-pmexy/Nj+BKd3Un1ogqGQE8V4GJn5B6N9PQOrU1GH+lMR29kn6Bgf6YdbZa8hNIoTmAKT1LTPK+P8TibZRPPVg==
conformance       @modelcontextprotocol/conformance  0.1.16          sha512-GI7qiN0r39/MH2srVUR3AXaEN0YLCro20lIBbnvc1frBhszenxvUifBuTzxeVQVagILfBzCIcnungUOma8OrgA==
conformance-next  @modelcontextprotocol/conformance  0.2.0-alpha.12  sha512-eXtZFgmtZiU5SsvXty+RGXGnyIqEVm3GLU/HZmg1wMjtKOocPZZgD9HQKd30oJhio5UB0wFJmsc6r8u48Q+EYA==
lighthouse        lighthouse                         13.5.0          sha512-w/yYIwg7mP9pCwkcbAXRztnvKHua2dJnZaNptPLa1cEw+akr6lbsIDiUOLsQwvaiAUr0xvxdmwvAzl3pj3Np0A==
"

latest=
if [ "${1:-}" = --latest ]; then
    latest=yes
    shift
fi
dir=${1:-${CLEW_CLIENTS:-$HOME/.cache/clew/clients}}
shift $(($# > 0))
wanted=("$@")

fail() {
    echo "install_clients.sh: $*" >&2
    exit 1
}

is_wanted() {
    if [ ${#wanted[@]} -eq 0 ]; then [ "$1" != lighthouse ]; else [[ " ${wanted[*]} " == *" $1 "* ]]; fi
}

# Whether the client $1 is there, as package $2 in version $3, with what its bundle needs.
is_there() {
    local needed
    for needed in $(needed_by_bundle "$2"); do
        [ -d "$dir/$1/node_modules/$needed" ] || return 1
    done
    grep -qs "\"version\": *\"$3\"" "$dir/$1/node_modules/$2/package.json"
}

# The newest version of package $1, and what the registry says of its bytes.
newest() {
    npm view "$1" version dist.integrity --json </dev/null 2>/dev/null |
        awk -F '"' '/"version"/ { version = $4 } /"dist.integrity"/ { integrity = $4 } END { print version, integrity }'
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

# Put package $1 in version $2 into folder $3, if the registry offers what $4 says.
install() {
    # npm compares what it downloads with what the registry says, so the registry has to say what is pinned here.
    local offered needed
    offered=$(npm view "$1@$2" dist.integrity </dev/null)
    [ "$offered" = "$4" ] || fail "$1 $2 is not what was pinned: the registry offers $offered"
    needed=$(needed_by_bundle "$1")
    if [ -z "$needed" ]; then npm_install "$3" "$1@$2"; else install_bundle "$1" "$2" "$3" "$needed"; fi
}

npm_install() {
    local place=$1
    shift
    PATH="$dir/node/node_modules/node/bin:$PATH" npm install --prefix "$place" --no-audit --no-fund --loglevel=error "$@" \
        </dev/null >&2
}

# What the package $1 loads that is not in it, if its program is a bundle; empty if it is none. The other packages that a
# bundle names are inside it, and a mirror can lack them.
needed_by_bundle() {
    # It loads extensions, such as that of clew, with jiti.
    if [ "$1" = @earendil-works/pi-coding-agent ]; then echo @silvia-odwyer/photon-node jiti; fi
}

# Put the bundle of package $1 in version $2 into folder $3, with the packages $4 in the versions that it names.
install_bundle() {
    local place="$3/node_modules/$1" bundle needed
    bundle=$(npm pack "$1@$2" --pack-destination "$3" --loglevel=error </dev/null | tail -n 1) &&
        tar -xzf "$3/$bundle" -C "$3" &&
        needed=$(node -p 'const [file, names] = process.argv.slice(1)
            names.split(" ").map(name => `${name}@${require(file).dependencies[name]}`).join(" ")' \
            "$3/package/package.json" "$4") &&
        npm_install "$3" $needed &&
        mkdir -p "${place%/*}" "$3/node_modules/.bin" &&
        mv "$3/package" "$place" &&
        node -e 'const [name, modules] = process.argv.slice(1)
            for (const [program, file] of Object.entries(require(`${modules}/${name}/package.json`).bin))
                require("fs").symlinkSync(`../${name}/${file}`, `${modules}/.bin/${program}`)' "$1" "$3/node_modules"
}

mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9

while read -r name package version integrity; do
    [ -n "$name" ] && is_wanted "$name" || continue
    pinned=$version pinned_integrity=$integrity
    if [ -n "$latest" ] && [[ "$name" != node && "$name" != conformance* ]]; then
        need_npm
        read -r version integrity < <(newest "$package") || fail "the registry does not answer for $package"
    fi
    is_there "$name" "$package" "$version" && continue
    need_npm
    # Beside its place and then into it: what is in place is whole, even after an install that was interrupted.
    rm -rf "$dir/.new-$name"
    mkdir "$dir/.new-$name"
    SECONDS=0
    if ! install "$package" "$version" "$dir/.new-$name" "$integrity"; then
        [ -n "$latest" ] || fail "$package $version cannot be installed"
        # A mirror can have a package without what it needs; the pinned version is tried then, and the report says so.
        echo "$name $version cannot be installed from this registry; $pinned is taken" >&2
        version=$pinned
        is_there "$name" "$package" "$version" && continue
        install "$package" "$version" "$dir/.new-$name" "$pinned_integrity"
    fi
    rm -rf "${dir:?}/$name"
    mv "$dir/.new-$name" "$dir/$name"
    echo "$name $version installed in ${SECONDS} s"
done <<<"$pins"
