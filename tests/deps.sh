#!/bin/bash
# deps.sh: installs the Debian packages that building and testing need and that are missing. Root or sudo.
set -eu
build="gcc clang make pkg-config libc6-dev linux-libc-dev libseccomp-dev liburing-dev libjson-c-dev"
tests="qemu-system-x86 busybox-static cpio kmod e2fsprogs xz-utils binutils acpica-tools clang-format clang-tidy
	cppcheck libclang-rt-14-dev bc libelf1"
missing=
for p in $build $tests; do
	dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null | grep -q '^installed$' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
sudo=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "these packages are missing, and there is neither root nor sudo to install them:$missing" >&2; exit 1; }
	sudo=sudo
fi
echo "installing:$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $sudo env DEBIAN_FRONTEND=noninteractive \
	apt-get install -y -qq --no-install-recommends $missing >/dev/null
