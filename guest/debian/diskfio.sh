# SPDX-License-Identifier: Apache-2.0
# diskfio.sh - what is written to each disk of wherry.disks, of 32 MiB, is verified by fio: at any depth, by one job and by
# four, in blocks of one size and of many, through all of its queues, with discards among it. The host sees the same.
. /test/lib.sh

fio_on() { # OPTIONS...
	fio --filename="/dev/$dev" --thread --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randrepeat=0 "$@"
}
# Stages one after the other, each in a quarter of the disk of its own; four jobs have a quarter of that each.
stages() { # OPTIONS...: of all
	quarter=0
	for depth in 1 4 16 64; do
		for jobs in 1 4; do
			set -- "$@" --name="$jobs jobs at depth $depth" --stonewall --iodepth=$depth --numjobs=$jobs --offset=$((quarter * 8))m
		done
		quarter=$((quarter + 1))
	done
	fio_on --ioengine=libaio --direct=1 --size="$(word fiosize)" --offset_increment=2m --do_verify=1 "$@"
}
again() { # OPTIONS...: written by four jobs and, with nothing of it in memory, read by the same four
	set -- --ioengine=psync --size="$(word fiosize)" --offset_increment=8m --numjobs=4 --randseed=4711 "$@"
	fio_on --name=write --do_verify=0 "$@" && echo 3 >/proc/sys/vm/drop_caches && fio_on --name=verify --direct=1 --verify_only "$@"
}
used() { # by how many queues requests of the disk have come
	virtio=$(basename "$(realpath "/sys/block/$dev/device")")
	awk -v name="$virtio-req." 'index($NF, name) == 1 { sum = 0; for (i = 2; $i ~ /^[0-9]+$/; i++) sum += $i; used += sum > 100 }
		END { print used + 0 }' /proc/interrupts
}
for id in $(word disks | tr , ' '); do
	dev=$(disk "$id") queues=$(share_key "$id" queues)
	ok "$id: it has as many queues as it was given" test "$(find "/sys/block/$dev/mq" -mindepth 1 -maxdepth 1 | wc -l)" = "$queues"
	ok "$id: fio verifies writes of 4k, by 1 and 4 jobs at depths from 1 to 64" stages --rw=randwrite --bs=4k
	ok "$id: and of 512 to 64k" stages --rw=randwrite --bsrange=512-64k
	ok "$id: and reads among writes of 4k" stages --rw=randrw --bs=4k --verify_backlog=64
	ok "$id: and of 512 to 64k" stages --rw=randrw --bsrange=512-64k --verify_backlog=64
	ok "$id: fio verifies what it wrote through the page cache, synced now and then" again --rw=randwrite --bs=4k --fsync=64
	ok "$id: and in blocks of 512 to 64k" again --rw=randrw --bsrange=512-64k --fdatasync=64
	ok "$id: fio verifies what it writes where it has just discarded" stages --rw=randtrimwrite --bs=4k --size=256k
	ok "$id: all of its queues were used" test "$(used)" = "$queues"
	ok "$id: the host reads the same" host sum "$id.img" "$(dd if="/dev/$dev" bs=1M iflag=direct status=none | sha256sum | cut -d' ' -f1)"
done
