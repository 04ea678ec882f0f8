# SPDX-License-Identifier: Apache-2.0
# demo.sh - what configs/shared-dir.json shows: a directory of the host and a disk, both in use.
. /test/lib.sh

say() { echo "guest: $*"; }

say "Linux $(uname -r), $(nproc) CPU, $(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo) MiB"
if share_mount share /mnt; then
	say "the host's from-host.txt says: $(cat /mnt/from-host.txt)"
	echo "the guest's Linux $(uname -r) read: $(cat /mnt/from-host.txt)" >/mnt/from-guest.txt && say "wrote from-guest.txt"
	umount /mnt
fi
mkdir /tmp/disk
if mount -t ext4 "/dev/$(disk data)" /tmp/disk; then
	dd if=/dev/urandom of=/tmp/random bs=64k count=16 2>/dev/null
	cp /tmp/random /tmp/disk/random && sync
	umount /tmp/disk && mount -t ext4 "/dev/$(disk data)" /tmp/disk
	cmp /tmp/random /tmp/disk/random && say "the disk gave back the MiB that was written to it"
	umount /tmp/disk
fi
say "powering off"
