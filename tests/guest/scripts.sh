# shellcheck shell=bash disable=SC2154,SC2317
# SPDX-License-Identifier: Apache-2.0
# scripts.sh - the host's side of the scripts of guest/test; sourced by driver.sh.
#
# prepare_SCRIPT makes what the guest will find, check_SCRIPT looks at what it left behind; both in the guest's directory.

tree_sum() { # DIR: everything about it that a guest must not change
	(cd "$1" && find . -printf '%p %y %m %U %G %s %T@ %n %l\n' | sort && find . -type f -exec sha256sum {} + | sort) | sha256sum
}

prepare_share() {
	[[ "${shares[*]}" == *'"tag": "share"'* ]] || share share
	cp -r "$fixtures/seed" share
	cp -r "$fixtures/seed" readonly
	share readonly readonly=true
}
check_share() {
	(cd share && sha256sum --status -c host.sum from-guest.sum)
	say $? "the host reads right what the guest wrote to the share"
	diff -r "$fixtures/seed" readonly >/dev/null
	say $? "the read-only share is as it was"
}

prepare_disk() {
	cp --sparse=always "$fixtures"/{data.ext4,fixed.img} .
	drive data "path_on_host=$dir/data.ext4"
	drive fixed is_read_only=true
}
check_disk() {
	e2fsck -fn data.ext4 >e2fsck 2>&1
	say $? "the host's e2fsck finds the disk clean"
	debugfs -R "dump /from-guest.bin from-guest.bin" data.ext4 2>/dev/null
	debugfs -R "dump /from-guest.sum from-guest.sum" data.ext4 2>/dev/null
	[ -s from-guest.sum ] && [ "$(sha256sum <from-guest.bin | cut -d' ' -f1)" = "$(cat from-guest.sum)" ]
	say $? "the host reads right what the guest wrote to the disk"
	cmp -s "$fixtures/fixed.img" fixed.img
	say $? "the read-only disk is as it was"
}

check_disklife() {
	local id
	for id in life direct; do
		e2fsck -fn "$id.img" >"$id.e2fsck" 2>&1
		say $? "the host's e2fsck finds the disk $id clean"
		[ "$(dumpe2fs -h "$id.img" 2>/dev/null | awk '/^Block count:/ { n = $3 } /^Block size:/ { print n * $3 }')" = "$(stat -c %s "$id.img")" ]
		say $? "its file system is as large as the image"
		debugfs -R "dump /big big" "$id.img" 2>/dev/null
		debugfs -R "dump /big.sum big.sum" "$id.img" 2>/dev/null
		[ -s big.sum ] && [ "$(sha256sum <big | cut -d' ' -f1)" = "$(cat big.sum)" ]
		say $? "the host reads right what is in the part that is new"
		rm -f big big.sum
	done
}

prepare_crash() {
	local id
	for id in cached direct; do mke2fs -q -F -t ext4 "$id.img" 64M || return 1; done
}
check_crash() { # what was synced outlives the machine
	local id last status
	for id in cached direct; do
		dumpe2fs -h "$id.img" 2>/dev/null | grep -q '^Filesystem features:.* needs_recovery'
		say $? "the file system on the disk $id was cut off"
		e2fsck -fy "$id.img" >"$id.e2fsck" 2>&1
		status=$?
		[ $status -le 1 ]
		say $? "e2fsck recovers it (its status is $status)"
		e2fsck -fn "$id.img" >>"$id.e2fsck" 2>&1
		say $? "then it is clean"
		mkdir "$id"
		debugfs -R "rdump / $id" "$id.img" >>"$id.e2fsck" 2>&1
		sed -n "s/.*@= \\($id\/[0-9]*\\) \\([0-9a-f]*\\)\$/\\2  \\1/p" console >"$id.sums"
		[ "$(wc -l <"$id.sums")" -ge 30 ] && sha256sum --status -c "$id.sums" 2>>"$id.e2fsck"
		say $? "all of its files that were synced are there ($(wc -l <"$id.sums"))"
		last=$(sed -n "s/.*@= $id \\([0-9]*\\)\$/\\1/p" console | tail -n 1)
		[ "${last:-0}" -ge 30 ] && [ "$(head -n "$last" "$id/log")" = "$(seq "$last")" ]
		say $? "and all lines of its log that were ($last)"
	done
}

prepare_readonly() {
	mkdir -p readonly/{d,empty}
	echo text >readonly/f
	echo inside >readonly/d/g
	ln -s f readonly/s
	tree_sum readonly >readonly.sum
	[[ "${p9s[*]}" == *'"tag": "readonly"'* ]] || share readonly readonly=true
}
check_readonly() {
	[ "$(tree_sum readonly)" = "$(cat readonly.sum)" ]
	say $? "the read-only tree is the same in every way afterwards"
}

prepare_p9() {
	mkdir -p p9
	head -c 3000003 /dev/urandom >p9/big
	sha256sum <p9/big | cut -d' ' -f1 >p9/big.sum
}
check_p9() {
	local msize
	for msize in 4096 8192 131072 512000 1048576; do
		cmp -s p9/big "p9/big-$msize"
		say $? "the host reads right what was copied in messages of $msize"
	done
}

prepare_posix() {
	local tag
	for tag in ${suites//,/ }; do mkdir -p "$tag"; done
}
check_posix() { # what was removed in the guest is gone here
	[ -z "$(find . -maxdepth 2 -name 'fssuite-*')" ]
	say $? "the suite left nothing on the host"
}

# A tree with mapped owners, served by QEMU and by wherry in turn: "theirs" is made there and changed here, "ours" the other
# way, and each is listed by both after that.
mapped_done() { # LOG: all of its steps were done
	grep -q '@@ end mapped' "$1" && ! grep '@@ not ok' "$1"
}
mapped_qemu() { # STEPS LOG: QEMU's guest does them. It may die of the emulated machine once, and find all as it was
	local try tells=" wherry.run=mapped wherry.tree=:owner=mapped:type=9p: wherry.steps=$1"
	cp -a tree tree.before
	for try in 1 2; do
		(as_user timeout -k 5 300 qemu-system-x86_64 -M q35,accel=kvm -cpu host -smp 1 -m 512 -nodefaults -no-user-config \
			-display none -no-reboot -serial stdio -kernel "$top/build/kernel/vmlinuz" -initrd "$top/build/guest/initrd.gz" \
			-append "$base$tells" -fsdev "local,id=tree,path=$dir/tree,security_model=mapped-xattr,multidevs=remap" \
			-device virtio-9p-pci,fsdev=tree,mount_tag=tree) </dev/null 2>&1 | tr -d '\r' >"$2"
		! mapped_done "$2" || break
		[ $try = 1 ] && rm -rf tree && cp -a tree.before tree
	done
	rm -rf tree.before
	mapped_done "$2"
}
mapped_same() { # LISTING LOG LISTING LOG SENTENCE: they are the same
	tr -d '\r' <"$2" | sed -n "s/^@= $1: //p" >first
	tr -d '\r' <"$4" | sed -n "s/^@= $3: //p" >second
	diff first second >differ && [ "$(wc -l <first)" -gt 20 ]
	say $? "$5"
	head -n 20 differ | sed 's/^/# /'
}
prepare_mapped() {
	mkdir tree
	[ -z "$user" ] || chown "$user:$user" tree
	mapped_qemu make:theirs:tree,list:theirs:tree:made qemu.1
}
check_mapped() {
	mapped_same made qemu.1 made console "what QEMU's guest made is here as it was there"
	mapped_same made qemu.1 made-fs console "by virtio-fs too"
	mapped_qemu list:theirs:tree:changed,list:ours:tree:ours,change:ours:tree,list:ours:tree:ours-changed qemu.2
	say $? "QEMU's guest lists both trees and changes one"
	mapped_same changed console changed qemu.2 "what was changed here is there as it was here"
	mapped_same ours console ours qemu.2 "and what was made here"
	sed 's/wherry.steps=[^ "]*/wherry.steps=list:ours:tree:ours-changed/' config.json >config.again
	[ -z "$user" ] || chown "$user:$user" config.again
	(as_user "$top/wherry" boot "$dir/config.again" -t "$limit") </dev/null >again.log 2>&1
	mapped_same ours-changed qemu.2 ours-changed again.log "what was changed there is here as it was there"
}

prepare_submounts() {
	local share
	mkdir -p outside submounts/{rw,ro,tmp,late,dir} flat/{rw,ro,tmp}
	echo "one file" >outside/f
	for share in submounts flat; do
		mount --bind outside $share/rw && mount --bind outside $share/ro && mount -o remount,bind,ro $share/ro &&
			mount -t tmpfs -o size=1M,nr_inodes=100 tmpfs $share/tmp && echo "on tmpfs" >$share/tmp/f || return 1
	done
}
check_submounts() {
	[ "$(cat outside/by-guest)" = "through rw" ] && [ ! -e outside/through-ro ]
	say $? "the guest wrote through the writable mount alone"
}

prepare_budget() {
	local i k
	mkdir budget
	for ((i = 0; i < files / 100; i++)); do
		mkdir -p "budget/$((i % 7))/$i"
		for ((k = 0; k < 100; k++)); do echo "file $k of $i" >"budget/$((i % 7))/$i/f$k"; done
	done
	find budget -type f -exec cat {} + | sort | sha256sum | cut -d' ' -f1 >budget.sum
	tells="$tells wherry.files=$(find budget | wc -l) wherry.filessum=$(cat budget.sum)"
}
check_budget() {
	[ "$(find budget -type f -exec cat {} + | sort | sha256sum | cut -d' ' -f1)" = "$(cat budget.sum)" ]
	say $? "the many files are as they were"
}

prepare_many() {
	mkdir -p many/dir
	(cd many/dir && seq -f f%.0f "$(sed 's/.*wherry.crowd=\([0-9]*\).*/\1/' <<<"$tells")" | xargs touch)
}

prepare_overlay() {
	mkdir -p overlay/{lower,upper,work} overlay/lower/dir
	echo lower >overlay/lower/read
	echo lower >overlay/lower/append
	echo lower >overlay/lower/remove
	echo lower >overlay/lower/mode
	echo lower >overlay/lower/dir/x
	echo lower >overlay/lower/dir/y
	tree_sum overlay/lower >overlay.sum
}
check_overlay() {
	[ "$(tree_sum overlay/lower)" = "$(cat overlay.sum)" ]
	say $? "the lower layer is as it was"
}

prepare_rootfs() {
	if [ "${#shares[@]}${#p9s[@]}" = 00 ]; then
		cp --sparse=always "$fixtures/rootfs.ext4" .
	else
		cp -r "$fixtures/root" rootfs
	fi
}
check_rootfs() {
	if [ -d rootfs ]; then
		grep -q written rootfs/written
		say $? "the host sees what was written in the root directory"
	fi
}

prepare_rootdisk() {
	cp --sparse=always "$top/build/guest/rootdisk.ext4" rootdisk.img
}
check_rootdisk() {
	grep -q 'rootdisk login: root' console && grep -q 'Password: ' console
	say $? "it asked who logs in, and for the password"
	! dumpe2fs -h rootdisk.img 2>/dev/null | grep -q needs_recovery
	say $? "the root file system was taken away in order"
	e2fsck -fn rootdisk.img >e2fsck 2>&1
	say $? "the host's e2fsck finds it clean"
	debugfs -R "dump /srv/big big" rootdisk.img 2>/dev/null
	debugfs -R "dump /srv/big.sum big.sum" rootdisk.img 2>/dev/null
	[ -s big.sum ] && [ "$(sha256sum <big)" = "$(cat big.sum)" ]
	say $? "the host reads right what the guest wrote"
}

check_diskkill() { # by a second machine, which changes nothing and so may be tried again
	local try
	sed 's/wherry.step=write/wherry.step=verify/' config.json >config.again
	for try in 1 2; do
		"$top/wherry" boot "$dir/config.again" -t "$limit" </dev/null 2>&1 | tr -d '\r' >again.log
		! grep -q '@@ end diskkill ' again.log || break
	done
	sed -n "s/.*@@ \(\(not \)\?ok\) /\1 $name: after that: /p" again.log
	grep -q '@@ end diskkill ' again.log
	say $? "the second machine comes to its end (attempt $try)"
	grep 'verify: \|issued rwts' again.log | sed 's/^/# /'
}
