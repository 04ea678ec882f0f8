# SPDX-License-Identifier: Apache-2.0
# crash.sh - on each disk of wherry.disks files are written and synced, each is named on the console when that is done, and
# the host kills the machine in the midst of it. "@= DISK/FILE SUM" is a file, "@= DISK N" is that the disk's log has N lines.
. /test/lib.sh

synced() { # ID: files, and a log that grows
	i=0
	while :; do
		i=$((i + 1))
		head -c "$((i * 7919 % 200000 + 1))" /dev/urandom >"/tmp/$1"
		dd if="/tmp/$1" of="/mnt/$1/$i" bs=64k conv=fsync 2>/dev/null || break
		echo "@= $1/$i $(sha256sum <"/tmp/$1" | cut -d' ' -f1)"
		echo "$i" | dd of="/mnt/$1/log" oflag=append conv=notrunc,fsync 2>/dev/null || break
		echo "@= $1 $i"
		echo "$i" >"/tmp/$1.synced"
	done
	echo "@@ not ok $1: files are written and synced"
}
loose() { # ID: what nobody syncs, so that the journal and the disk are never at rest
	while :; do
		cp "/tmp/$1" "/mnt/$1/loose.new" && mv "/mnt/$1/loose.new" "/mnt/$1/loose"
		rm -rf "/mnt/$1/loose.dir" && mkdir -p "/mnt/$1/loose.dir/a/b"
	done 2>/dev/null
}
disks=$(word disks | tr , ' ')
for id in $disks; do
	mkdir -p "/mnt/$id"
	ok "$id: the disk mounts" mount -t ext4 "/dev/$(disk "$id")" "/mnt/$id"
	synced "$id" &
	loose "$id" &
done
for id in $disks; do
	until [ "$(cat "/tmp/$id.synced" 2>/dev/null || echo 0)" -ge 30 ]; do sleep 0.1; done
done
host kill
echo "@@ not ok the host kills the machine"
