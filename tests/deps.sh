#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deps.sh [try|long]: installs the Debian packages that are missing: those for building and running guests (try), those that
# the long guests take too (long), and without an argument those of make check. Root or sudo.
set -eu
need="gcc libc6-dev linux-libc-dev make pkg-config libseccomp-dev liburing-dev libjson-c-dev
	qemu-system-x86 busybox-static cpio kmod e2fsprogs xz-utils binutils bc"
case ${1:-} in
try) ;;
long) need="$need debootstrap" ;;
*) need="$need clang clang-format clang-tidy cppcheck libclang-rt-14-dev acpica-tools libelf1" ;;
esac
missing=
for p in $need; do
	dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null | grep -q '^installed$' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
sudo=
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "missing packages, and neither root nor sudo to install them:$missing" >&2
		exit 1
	fi
	sudo=sudo
fi
echo "installing:$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
