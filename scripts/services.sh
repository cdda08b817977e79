#!/bin/sh
# Installs from Debian what the tests start on loopback (Prometheus, PostgreSQL, Chromium), where it is absent and may be installed.
# Without root nothing is installed, and the tests that need it are skipped with a message.
set -eu
say() { printf 'services: %s\n' "$*" >&2; }

wanted=
command -v promtool >/dev/null || wanted="$wanted prometheus"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$wanted postgresql"
command -v chromium >/dev/null || wanted="$wanted chromium"
[ -n "$wanted" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "not installed:$wanted; the tests that need them are skipped. On Debian: sudo apt-get install$wanted"
    exit 0
fi
say "installing Debian's$wanted"
export DEBIAN_FRONTEND=noninteractive
# Debian would start them as services of the machine; the tests start their own.
policy=/usr/sbin/policy-rc.d
[ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && trap 'rm -f $policy' EXIT; }
# shellcheck disable=SC2086
{ apt-get update && apt-get install -y --no-install-recommends $wanted; } >/dev/null 2>&1 ||
    say "could not install$wanted; the tests that need them are skipped"
