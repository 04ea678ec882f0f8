# SPDX-License-Identifier: Apache-2.0
# submounts.sh - file systems that are mounted below a share: each file is itself, however it is reached.
#
# rw and ro are one directory, bound twice; tmp is a tmpfs of 1 MiB; late is mounted while we run. The share "flat" has
# the same without telling the guest that they are mounts.
. /test/lib.sh

device() { stat -c %d "$1"; }
id() { stat -c %d:%i "$1"; }
blocks() { stat -f -c %b "$1"; }
refuses() { # TEXT COMMAND...
	text=$1
	shift
	! "$@" 2>/tmp/refusal && grep -q "$text" /tmp/refusal
}
all_differ() { [ "$(for f; do id "$f"; done | sort -u | wc -l)" = $# ]; }
fill() { dd if=/dev/zero of="$1" bs=64k count=32; }

same_files() { # TAG
	cd "/mnt/$1" || exit
	ok "$1: files below both mounts of a directory are read" test "$(cat rw/f ro/f)" = "$(printf 'one file\none file')"
	ok "$1: no two files below look like one" all_differ rw/f ro/f tmp/f rw ro tmp .
	ok "$1: the writable mount is written" sh -c 'echo "through rw" >rw/by-guest'
	ok "$1: what was written is seen through the other" test "$(cat ro/by-guest)" = "through rw"
	ok "$1: the read-only mount refuses a new file" refuses 'Read-only file system' sh -c 'echo x >ro/through-ro'
	ok "$1: the read-only mount refuses a change" refuses 'Read-only file system' chmod 777 ro/f
	ok "$1: each file system tells its own size" test "$(blocks tmp)" = 256 -a "$(blocks .)" != 256
	ok "$1: a mount point is not removed" refuses 'busy' rmdir tmp
	ok "$1: a link across mounts is refused" refuses 'ross-device' ln tmp/f f
	ok "$1: a move across mounts copies" sh -c 'cp tmp/f tmp/m && mv tmp/m moved && test "$(cat moved)" = "on tmpfs" && rm moved'
	ok "$1: a full file system says so" refuses 'No space left' fill tmp/big
	ok "$1: and takes files again when there is room" sh -c 'rm tmp/big && echo again >tmp/again && grep again tmp/again && rm tmp/again'
	ok "$1: the listing has every mount" test "$(ls rw tmp | tr '\n' ' ')" = "rw: by-guest f  tmp: f "
}

ok "the share with mounts below mounts" share_mount submounts /mnt/submounts
ok "the share that is flat mounts" share_mount flat /mnt/flat
same_files submounts
ok "mounts below are such in here" test "$(device rw)" != "$(device .)" -a "$(device tmp)" != "$(device .)" -a "$(device rw)" != "$(device ro)"
ok "a directory is none" test "$(device dir)" = "$(device .)"
no "a mount still to come is not there" stat late/late
ok "the host mounts another" host tmpfs submounts/late
usleep 1300000
ok "what the host mounts meanwhile is found" test "$(cat late/late)" = late
same_files flat
ok "the flat share is one device" test "$(device rw)" = "$(device .)" -a "$(device tmp)" = "$(device .)"
cd /
umount /mnt/submounts/* 2>/dev/null
ok "the share with mounts is unmounted" umount /mnt/submounts
ok "the host may take away what nothing uses" host umount submounts/late
ok "the flat share is unmounted" umount /mnt/flat
