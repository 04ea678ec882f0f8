#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rootdisk.sh   a Debian root file system in an ext4 image, with systemd, for the guest rootdisk: build/guest/rootdisk.ext4
#
# Made once by debootstrap, as root. Nothing in it is the tests' but what root does after login on the serial console (/test)
# and that nothing gives up waiting: the lab is slow. Its kernel and initramfs are those of tests/guest/debian.sh.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
out=$top/build/guest
tree=$out/rootdisk/tree
packages=systemd-sysv,libpam-systemd,udev,dbus,e2fsprogs,kmod,procps,iproute2
export PATH=$PATH:/usr/sbin:/sbin

die() {
	echo "rootdisk.sh: $*" >&2
	exit 1
}

image=$out/rootdisk.ext4
scripts=("$top/guest/rootdisk/check.sh" "$top/guest/test/lib.sh")
fresh=1
for file in "$0" "${scripts[@]}"; do [ "$image" -nt "$file" ] || fresh=''; done
[ -z "$fresh" ] || exit 0
[ "$(id -u)" -eq 0 ] || die "debootstrap needs root"
command -v debootstrap >/dev/null || die "no debootstrap: apt-get install debootstrap"
mkdir -p "$out/rootdisk"
if [ "$(cat "$out/rootdisk/done" 2>/dev/null)" != "$packages" ]; then
	rm -rf "$tree"
	debootstrap --variant=minbase --include="$packages" bookworm "$tree" http://deb.debian.org/debian >"$out/rootdisk/log" 2>&1 ||
		die "debootstrap failed: see $out/rootdisk/log"
	rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,man,locale}/*
	echo "$packages" >"$out/rootdisk/done"
fi
echo "/dev/vda / ext4 errors=remount-ro 0 1" >"$tree/etc/fstab"
echo rootdisk >"$tree/etc/hostname"
chroot "$tree" systemd-machine-id-setup >/dev/null 2>&1 # or the first boot asks who it is
# Few rounds: the lab's machine would take long to compare it.
echo root:wherry | chroot "$tree" chpasswd -c SHA256 -s 1000
sed -i 's/^\(LOGIN_TIMEOUT\s*\).*/\1600/' "$tree/etc/login.defs"
mkdir -p "$tree/etc/systemd/system.conf.d" "$tree/test"
printf '[Manager]\nDefaultTimeoutStartSec=900\nDefaultTimeoutStopSec=900\nDefaultDeviceTimeoutSec=900\n' >"$tree/etc/systemd/system.conf.d/slow.conf"
install -m 644 "${scripts[@]}" "$tree/test/"
# shellcheck disable=SC2016 # there
echo '[ "$(tty)" != /dev/ttyS0 ] || exec sh /test/check.sh' >"$tree/root/.profile"
rm -f "$image.tmp"
truncate -s 512M "$image.tmp"
mke2fs -q -F -t ext4 -d "$tree" "$image.tmp" || die "no image"
mv "$image.tmp" "$image"
