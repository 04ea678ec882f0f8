#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fixtures.sh   the files that the test guests get, in build/guest/fixtures; made once
#   seed/       host.bin and its sum: in every share, and on the data disk
#   data.ext4   the disk "data"        fixed.img, fixed.sum   the read-only disk "fixed"
#   rootfs.ext4 a root disk with guest/rootfs-init
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
out=$top/build/guest/fixtures
export PATH=$PATH:/usr/sbin:/sbin # a plain user may not have them

if [ -s "$out/rootfs.ext4" ] && [ "$out/rootfs.ext4" -nt "$0" ] && [ "$out/rootfs.ext4" -nt "$top/guest/rootfs-init" ]; then
	exit 0
fi
rm -rf "$out"
mkdir -p "$out/seed" "$out/root"/{bin,sbin,dev,proc}
head -c 2000003 /dev/urandom >"$out/seed/host.bin"
(cd "$out/seed" && sha256sum host.bin >host.sum)
truncate -s 64M "$out/data.ext4"
mke2fs -q -F -t ext4 -d "$out/seed" "$out/data.ext4"
head -c 4M /dev/urandom >"$out/fixed.img"
sha256sum <"$out/fixed.img" | cut -d' ' -f1 >"$out/fixed.sum"

cp "$(command -v busybox)" "$out/root/bin/busybox"
for applet in sh mount grep stat sync reboot cut; do ln -s busybox "$out/root/bin/$applet"; done
install -m 755 "$top/guest/rootfs-init" "$out/root/sbin/init"
truncate -s 32M "$out/rootfs.tmp"
mke2fs -q -F -t ext4 -d "$out/root" "$out/rootfs.tmp"
mv "$out/rootfs.tmp" "$out/rootfs.ext4"
