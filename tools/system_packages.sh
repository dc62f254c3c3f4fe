#!/bin/sh
# Installs the Debian packages that the tests need, and does nothing when they are there.
# Without the right to install, it prints what is missing and continues: the tests that need it then report it.
set -eu

missing=""
command -v make >/dev/null || missing="$missing make"
command -v strace >/dev/null || missing="$missing strace"
# Debian keeps the server's programs out of PATH.
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
# The pages are looked at in a browser, which shows no letter without a font.
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing="$missing chromium fonts-dejavu-core"
# What drives the browser is a program of Node.js that needs this library.
ls /usr/lib/*/libatomic.so.1 >/dev/null 2>&1 || missing="$missing libatomic1"

[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo -n"
    $as_root true 2>/dev/null || as_root="none"
fi
if [ "$as_root" = "none" ] || ! command -v apt-get >/dev/null; then
    echo "The tests need what is missing here; as root: apt-get install$missing" >&2
    exit 0
fi

$as_root apt-get update -qq </dev/null
# Waits for another apt instead of failing; without a terminal of its own dpkg stays quiet.
# shellcheck disable=SC2086  # Both are lists of words.
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 $missing </dev/null >/dev/null
