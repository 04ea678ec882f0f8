#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# prep.sh   everything lab.sh needs, in $LAB_DIR (default build/lab): l1.gz, the initramfs of the
#           emulated machine, and scratch.ext4, its empty disk. What is up to date is left alone.
# Needs qemu-system-x86 busybox-static cpio kmod e2fsprogs; the kernel comes by guest/kernel.sh.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
lab=${LAB_DIR:-$top/build/lab}
kernel=$top/build/kernel
export PATH=$PATH:/usr/sbin:/sbin # a plain user may not have them

# shellcheck source=guest/initramfs.sh
. "$top/guest/initramfs.sh"

for program in qemu-system-x86_64 busybox cpio modprobe mke2fs; do
	command -v "$program" >/dev/null || {
		echo "prep.sh: no $program: apt-get install qemu-system-x86 busybox-static cpio kmod e2fsprogs" >&2
		exit 1
	}
done
"$top/guest/kernel.sh"
mkdir -p "$lab"
exec 8>"$lab/prep.lock"
flock 8

if [ -z "$(find "$lab/l1.gz" -newer "$top/tests/lab/l1-init" -newer "$0" -newer "$kernel/version" 2>/dev/null)" ]; then
	initramfs_base "$lab/l1"
	initramfs_modules "$lab/l1" virtio_pci virtio_blk virtio_console 9p 9pnet_virtio \
		ext4 crc32c_generic crc32c-intel kvm-amd
	install -m 755 "$top/tests/lab/l1-init" "$lab/l1/init"
	initramfs_pack "$lab/l1" "$lab/l1.gz"
fi
# Room for the guest with 200,000 files. Without metadata checksums: they would be computed by an emulated CPU.
if [ ! -s "$lab/scratch.ext4" ]; then
	truncate -s 3G "$lab/scratch.tmp"
	mke2fs -q -F -t ext4 -N 600000 -O ^metadata_csum "$lab/scratch.tmp"
	mv "$lab/scratch.tmp" "$lab/scratch.ext4"
fi
