# SPDX-License-Identifier: Apache-2.0
# disklife.sh - a disk's life: what is discarded is the host's again, zeroes are zeros, a file system is made on it, gives room
# back, and grows with it. On each disk of wherry.disks, of 16 MiB; "keep" is one of 4 MiB that does not discard.
. /test/lib.sh

K=1024 M=1048576
part() { # OFFSET LENGTH: of the disk, past the page cache
	dd if="$dev" bs=256k iflag=direct,skip_bytes,count_bytes skip="$1" count="$2" status=none
}
sum_of() { part "$@" | sha256sum | cut -d' ' -f1; }
zeros() { part "$@" | cmp -n "$2" - /dev/zero; }
filled() { # MIB: the disk, with what cannot be guessed
	dd if=/dev/urandom of="$dev" bs=1M count="$1" iflag=fullblock oflag=direct status=none
}
# emptied SENTENCE OFFSET LENGTH COMMAND...: it makes zeros of that, here and on the host, and of nothing around it
emptied() {
	what=$1 off=$2 len=$3
	shift 3
	around=$(sum_of $((off - 64 * K)) $((64 * K))),$(sum_of $((off + len)) $((64 * K)))
	ok "$id: $what" "$@" -o "$off" -l "$len" "$dev"
	ok "$id: it reads as zeros" zeros "$off" "$len"
	ok "$id: on the host too" host zeros "$id.img" "$off" "$len"
	ok "$id: what is around it is as it was" test "$(sum_of $((off - 64 * K)) $((64 * K))),$(sum_of $((off + len)) $((64 * K)))" = "$around"
}
resized() { # SECTORS: soon
	for _ in $(seq 300); do
		[ "$(cat "/sys/block/${dev#/dev/}/size")" != "$1" ] || return 0
		sleep 0.1
	done
	cat "/sys/block/${dev#/dev/}/size"
	return 1
}
written() { # FILE MIB
	dd if=/dev/urandom of="$1" bs=1M count="$2" iflag=fullblock conv=fsync status=none
}

# Rooms are in KiB. The host's file system needs a few of its own, the guest's some more.
for id in $(word disks | tr , ' '); do
	dev=/dev/$(disk "$id")
	ok "$id: the disk is filled" filled 16
	ok "$id: it takes its whole room on the host" host room "$id.img" 16384 17000
	emptied "a part of it is discarded" $((4 * M)) $((8 * M)) blkdiscard
	ok "$id: that room is the host's again" host room "$id.img" 8192 8800
	emptied "three sectors are discarded" $((M + 512)) 1536 blkdiscard
	ok "$id: all of it is discarded" blkdiscard "$dev"
	ok "$id: it reads as zeros" zeros 0 $((16 * M))
	ok "$id: it takes no room on the host" host room "$id.img" 0 64

	ok "$id: the disk is filled again" filled 16
	emptied "a part of it is zeroed" $((4 * M)) $((8 * M)) blkdiscard -z
	emptied "three sectors are zeroed" $((M + 512)) 1536 blkdiscard -z
	ok "$id: it keeps its room" host room "$id.img" 16384 17000
	emptied "a hole is punched" $((2 * M)) $((4 * M)) fallocate -p
	ok "$id: that room is the host's again" host room "$id.img" 12288 12900

	ok "$id: a file system is made" mkfs.ext4 -q -F "$dev"
	ok "$id: what was there is given back" host room "$id.img" 64 6000
	ok "$id: it mounts" mount "$dev" /mnt
	ok "$id: a file is written" written /mnt/file 8
	ok "$id: it takes room on the host" host room "$id.img" 8192 17000
	rm /mnt/file
	sync # ext4 trims what its journal has let go
	ok "$id: the file is removed and trimmed away" fstrim /mnt
	ok "$id: its room is the host's again" host room "$id.img" 64 6000
	ok "$id: it mounts with discard" mount -o remount,discard /mnt
	ok "$id: a file is written there" written /mnt/file 8
	ok "$id: it takes room again" host room "$id.img" 8192 17000
	rm /mnt/file
	sync
	ok "$id: the file is removed, and its room is the host's again" host room "$id.img" 64 6000

	ok "$id: the host makes it larger" host resize "$id.img" 48M
	ok "$id: the guest sees that" resized 98304
	ok "$id: the file system grows while it is mounted" resize2fs "$dev"
	ok "$id: it has the new room" test "$(df -k --output=avail /mnt | tail -n 1)" -gt 32768
	ok "$id: a file is written that needs the new room" written /mnt/big 24
	sha256sum </mnt/big | cut -d' ' -f1 >/mnt/big.sum
	ok "$id: it unmounts" umount /mnt
	ok "$id: it mounts again" mount "$dev" /mnt
	ok "$id: that file reads right" test "$(sha256sum </mnt/big | cut -d' ' -f1)" = "$(cat /mnt/big.sum)"
	ok "$id: it unmounts for the host" umount /mnt
done

id=keep dev=/dev/$(disk keep)
ok "$id: the disk is filled" filled 4
ok "$id: it says that it does not discard" test "$(cat "/sys/block/${dev#/dev/}/queue/discard_max_bytes")" = 0
no "$id: it does not" blkdiscard "$dev"
emptied "a part of it is zeroed" $((M)) $((M)) blkdiscard -z
emptied "a hole is punched" $((2 * M)) $((M)) fallocate -p
ok "$id: it keeps its room" host room "$id.img" 4096 4700
ok "$id: the host makes it larger by three sectors and a bit" host resize "$id.img" $((4 * M + 1600))
ok "$id: the guest sees the sectors" resized 8195
printf '%-512s' "the last sector" >/tmp/sector
ok "$id: the last one is written" dd if=/tmp/sector of="$dev" bs=512 seek=8194 oflag=direct status=none
ok "$id: it is where it belongs" host holds "$id.img" $((8194 * 512)) "the last sector"
no "$id: there is none behind it" dd if=/tmp/sector of="$dev" bs=512 seek=8195 oflag=direct status=none
ok "$id: the host makes it smaller" host resize "$id.img" 2M
ok "$id: the guest sees that too" resized 4096
no "$id: there is no sector where some were" dd if=/tmp/sector of="$dev" bs=512 seek=4096 oflag=direct status=none
