# SPDX-License-Identifier: Apache-2.0
# fio.sh - what is written on each share of wherry.fio is verified by fio: random, mixed, mapped, direct, four jobs.
. /test/lib.sh

size=$(word fiosize)
verified() { # NAME OPTIONS...
	name=$1
	shift
	ok "$tag: fio verifies $name" fio --name="$name" --directory="/mnt/$tag" --size="${size:-4m}" --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --verify_state_save=0 --randrepeat=0 --unlink=1 --bs=4k "$@"
}
for tag in $(word fio | tr , ' '); do
	mkdir -p "/mnt/$tag"
	ok "$tag: the share mounts" share_mount "$tag" "/mnt/$tag"
	verified "random writes" --rw=randwrite --ioengine=psync
	verified "sequential writes of 64k" --rw=write --bs=64k --ioengine=psync
	verified "random reads and writes" --rw=randrw --ioengine=psync --fsync=32
	verified "odd sizes" --rw=randwrite --bsrange=512-9000 --bs_unaligned --ioengine=psync
	verified "direct writes" --rw=randwrite --direct=1 --ioengine=libaio --iodepth=8
	verified "direct reads and writes" --rw=randrw --direct=1 --ioengine=psync
	verified "four jobs" --rw=randwrite --ioengine=libaio --iodepth=4 --numjobs=4 --direct=1
	verified "four jobs, buffered" --rw=randrw --ioengine=psync --numjobs=4
	! share_maps "$tag" || verified "a mapping" --rw=randwrite --ioengine=mmap
	verified "appended writes" --rw=write --ioengine=sync --file_append=1
	umount "/mnt/$tag"
done
