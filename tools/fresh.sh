#!/usr/bin/env bash
# Tries clew where nobody has installed anything: a new Debian with Python, pip and make, and a person whose home holds
# nothing but a session of Claude Code. Needs root and debootstrap; without them the person has an empty home here.
#
#   tools/fresh.sh                 all steps of tools/fresh_steps.sh
#   tools/fresh.sh up wheel        some of them
#   FRESH_TESTS=all tools/fresh.sh test     the whole suite, not only a part of it; or name the part: tests/web
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${FRESH_WORK:-}" ]; then
    FRESH_WORK="$(mktemp -d "${TMPDIR:-/tmp}/clew-fresh.XXXXXX")"
    export FRESH_WORK
    trap 'rm -rf --one-file-system "$FRESH_WORK"' EXIT
    # In namespaces of their own the mounts and all processes end with the script.
    if [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null; then
        unshare --mount --pid --fork --kill-child bash "$0" "$@"
    else
        bash "$0" "$@"
    fi
    exit
fi

# What is here, committed or not, as a clone would have it.
copy_tree() {
    mkdir -p "$1"
    git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read |
        tar --extract --no-same-owner --directory "$1"
}

# How this machine reaches its package indexes, for pip and for uv, which does not read pip's settings.
index_settings() {
    env | grep -E '^(PIP|UV|SSL)_[A-Z_]+=' || true
    [ -n "${SSL_CERT_FILE:-}" ] || [ ! -e /etc/ssl/certs/ca-certificates.crt ] || echo "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"
    local url
    if url="$(python3 -m pip config get global.index-url 2>/dev/null)"; then echo "UV_DEFAULT_INDEX=$url PIP_INDEX_URL=$url" | tr ' ' '\n'; fi
    if url="$(python3 -m pip config get global.extra-index-url 2>/dev/null)"; then
        # shellcheck disable=SC2086,SC2116  # A list may stand on several lines.
        printf 'UV_INDEX=%s\nPIP_EXTRA_INDEX_URL=%s\n' "$(echo $url)" "$(echo $url)"
        echo UV_INDEX_STRATEGY=unsafe-best-match  # As pip chooses from several indexes.
    fi
}

mapfile -t settings < <(index_settings)

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "no root or no debootstrap: an empty home on this system instead of a new one"
    copy_tree "$FRESH_WORK/home/clew"
    exec env -i HOME="$FRESH_WORK/home" USER="$(id -un)" PATH="$FRESH_WORK/home/.local/bin:/usr/local/bin:/usr/bin:/bin" \
        LANG=C.UTF-8 FRESH_TESTS="${FRESH_TESTS:-}" "${settings[@]}" bash "$FRESH_WORK/home/clew/tools/fresh_steps.sh" "$@"
fi

root="$FRESH_WORK/root"
mirror="$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -1)"
# shellcheck disable=SC1091  # Debian's own file.
suite="$(. /etc/os-release && echo "$VERSION_CODENAME")"
echo "a new Debian $suite with Python, pip and make"
debootstrap --variant=minbase --include=python3,python3-pip,make,ca-certificates "$suite" "$root" "$mirror" >"$FRESH_WORK/debootstrap.log" 2>&1 || {
    tail -20 "$FRESH_WORK/debootstrap.log" >&2
    exit 1
}
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
# The name server, the authorities and the local indexes of this machine.
cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
for folder in $(printf '%s\n' "${settings[@]}" | grep -oE '(file://|FIND_LINKS=)/[^ ]+' | sed -E 's#^(file://|FIND_LINKS=)##; s#/simple/?$##' | sort -u); do
    [ -d "$folder" ] || continue
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
done
# The person may install no packages of the system; the tests need PostgreSQL, a browser and strace.
if [ $# -eq 0 ] || [[ " $* " == *" test "* ]]; then
    copy_tree "$root/root/clew"
    chroot "$root" sh /root/clew/tools/system_packages.sh
fi
chroot "$root" useradd --create-home --shell /bin/bash newcomer
copy_tree "$root/home/newcomer/clew"
chroot "$root" chown -R newcomer: /home/newcomer
exec chroot --userspec=newcomer:newcomer "$root" env -i HOME=/home/newcomer USER=newcomer LANG=C.UTF-8 \
    PATH=/home/newcomer/.local/bin:/usr/local/bin:/usr/bin:/bin FRESH_TESTS="${FRESH_TESTS:-}" "${settings[@]}" \
    bash /home/newcomer/clew/tools/fresh_steps.sh "$@"
