# SPDX-License-Identifier: Apache-2.0
# disk.sh - the ext4 disk "data" keeps what is written, the raw disk "fixed" reads right and cannot be written.
. /test/lib.sh
data=$(disk data) fixed=$(disk fixed)

sum_of() { sha256sum "$@" | cut -d' ' -f1; }
holds() { # FILE SUM [dd options]: read past the page cache
	file=$1 sum=$2
	shift 2
	[ "$(dd if="$file" bs=64k iflag=direct "$@" 2>/dev/null | sum_of)" = "$sum" ]
}
ok "the disks are found by their serial numbers" test -n "$data" -a -n "$fixed"
ok "the ext4 disk mounts" mount -t ext4 "/dev/$data" /mnt
cd /mnt || exit
ok "the host's files on the disk read right" sha256sum -c host.sum
head -c 3000000 /dev/urandom >from-guest.bin
sum_of from-guest.bin >from-guest.sum
ok "a file on the disk is synced" dd if=/dev/zero of=synced bs=4k count=16 conv=fsync
cd /
ok "the disk unmounts" umount /mnt
ok "the disk mounts again" mount -t ext4 "/dev/$data" /mnt
ok "what was written is on the disk" holds /mnt/from-guest.bin "$(cat /mnt/from-guest.sum)"
ok "the disk unmounts again" umount /mnt

ok "the read-only disk says so" test "$(cat "/sys/block/$fixed/ro")" = 1
ok "the read-only disk reads right" holds "/dev/$fixed" "$(word fixedsum)"
no "the read-only disk refuses to be written" dd if=/dev/zero of="/dev/$fixed" bs=512 count=1 conv=notrunc
ok "the read-only disk reads the same afterwards" holds "/dev/$fixed" "$(word fixedsum)"
