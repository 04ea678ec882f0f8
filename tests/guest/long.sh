# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# long.sh - the guests of `make check-guest-long`; sourced by driver.sh. Each runs alone, in a machine of its own.
#
# Those with debian have as their root directory the Debian tree of tests/guest/debian.sh, by a share of that name, and run
# scripts of guest/debian in it. That of rootdisk is another one, on a disk (tests/guest/rootdisk.sh), with systemd.

long_guests=(daxcut)
for owner in passthrough squash mapped; do
	for mode in never auto always writeback dax daxinode p9none p9any p9mmap p9loose p9fscache; do long_guests+=("${owner}_$mode"); done
done
for mode in p9none p9mmap p9loose; do long_guests+=("trixie_$mode"); done
long_guests+=(bullseye_p9none bullseye_p9loose)
long_guests+=(locks mapped_qemu trixie trixie_dax bullseye apt_passthrough apt_squash apt_mapped apt_p9 apt_p9_mapped
	databases databases_p9 disk_life disk_fio disk_fio_direct disk_kill rootdisk fio fio_p9{none,mmap,loose,fscache} fio_dax
	stress_{1..4} stress_mapped_{1..4} many rlimit)

# debian [KEY=VALUE...]: the root directory is the Debian tree, on a share with these keys
debian() {
	debian_by share "$@"
	args="$args root=debian rootfstype=virtiofs rw"
}
# debian_p9 OPTIONS [KEY=VALUE...]: the same by 9P, mounted with these options by Debian's kernel with Debian's initramfs
debian_p9() {
	debian_by p9 "${@:2}"
	cpus=1 # of many more requests than by virtio-fs; with two the lab's emulated machine loses an interrupt between them
	args="$args root=debian rootfstype=9p rootflags=trans=virtio,version=9p2000.L,$1 rw" kernel=vmlinuz initrd=initrd-debian.gz
}
debian_by() {
	local tree=${work%/*}/debian
	[ -d "$tree" ] || tree=$top/build/guest/debian/tree
	mem=1024 cpus=2 limit=2400
	"$1" debian "path=$tree" "${@:2}"
	[ -e "$tree/test/lib.sh" ] || unfit="no Debian tree: tests/guest/debian.sh makes one, as root"
	[ -z "$user" ] || own="$tree"
}

guest_daxcut() { # the host truncates what the guest has mapped
	run=daxcut limit=200
	share share dax=8
}

# ---- the file system suite, larger, on every cache mode in every owner mode ----

# One mode to a guest: the longer a guest runs, the likelier the lab's emulated CPU is its end.
mode() { # MODE [KEY=VALUE...]
	local mode=$1
	shift
	run=posix limit=400 many=400 rounds=1000 mem=1024
	case $mode in
	never | auto | always) suite "$mode" "cache=$mode" "$@" ;;
	writeback) suite writeback cache=always writeback=true "$@" ;;
	dax) suite dax cache=auto dax=16 mount=dax "$@" ;;
	daxinode) suite daxinode cache=always dax=8 dax_policy=inode "$@" ;;
	# By 9P it is the guest that says how. The client's own limit of a message is 500 KiB.
	p9none) suite_p9 none mount=cache=none,access=client,posixacl,msize=512000 "$@" ;;
	p9any) suite_p9 any mount=cache=none,access=any,msize=131072 "$@" ;;
	p9mmap) suite_p9 mmap mount=cache=mmap,access=user,msize=8192 "$@" ;;
	p9loose) suite_p9 loose mount=cache=loose,access=client,posixacl,msize=1048576 "$@" ;;
	p9fscache) suite_p9 fscache mount=cache=fscache,access=user,msize=512000 "$@" ;;
	esac
}
owner_passthrough() {
	mode "$1" owner=passthrough posix_acl=true fd_budget=300
}
owner_squash() {
	user=65534
	mode "$1" owner=squash poll_us=0
}
owner_mapped() {
	user=65534
	mode "$1" owner=mapped
}
# Other kernels, by 9P: here its client differs most.
owner_trixie() {
	newer
	mode "$1" posix_acl=true locks=host
	run=posix,coherence tells="$tells wherry.coherent=${1#p9}"
}
owner_bullseye() {
	older
	mode "$1"
}
for name in "${long_guests[@]}"; do
	case $name in
	passthrough_* | squash_* | mapped_* | *_p9*) eval "guest_$name() { owner_${name%%_*} ${name#*_}; }" ;;
	esac
done

guest_locks() { # locks on the host; nothing but files
	run=posix limit=1500 many=200 rounds=500
	suite locks locks=host
	suite nolocks locks=host cache=always submounts=false
	suite plain xattr=false cache=never poll_us=1000
	# An id that the map does not have is refused.
	suite mapped uid_map=0:100000:65536 gid_map=0:100000:65536 without=chown
}

# ---- other kernels ----

newer() { # Linux 6.12: several queues, mappings without a cache, statx, groups
	kernels=kernel-trixie kernel=vmlinuz initrd=initrd-trixie.gz cpus=2 mem=1024 limit=2000 many=200 rounds=500
}
guest_trixie() {
	newer
	run=queues,posix,coherence
	suite queues queues=2 posix_acl=true
	suite never cache=never queues=2
	share auto cache=auto
	share always cache=always queues=2
	share writeback cache=always writeback=true
}
guest_trixie_dax() {
	newer
	run=dax,posix
	suite share dax=8 mount=dax queues=2
	share inode dax=8 dax_policy=inode
}
older() { # Linux 5.10
	kernels=kernel-bullseye kernel=vmlinuz initrd=initrd-bullseye.gz limit=1500 many=200 rounds=500
}
guest_bullseye() {
	older
	run=posix,coherence
	suite auto cache=auto
	suite never cache=never
	suite always cache=always
	share writeback cache=always writeback=true
}

# ---- another server ----

guest_mapped_qemu() { # a directory with mapped owners, served by QEMU and by wherry in turn
	user=65534 run=mapped limit=200
	p9 tree owner=mapped
	share treefs "path=$dir/tree" owner=mapped
	tells="$tells wherry.steps=list:theirs:tree:made,list:theirs:treefs:made-fs,change:theirs:tree,list:theirs:tree:changed,make:ours:tree,list:ours:tree:ours"
	command -v qemu-system-x86_64 >/dev/null || unfit="no qemu-system-x86_64"
}

# ---- programs ----

guest_apt_passthrough() {
	run=apt,git
	debian owner=passthrough posix_acl=true
}
guest_apt_squash() { # as a plain user, whose the tree is
	user=65534 run=apt,git
	debian owner=squash
}
guest_apt_mapped() {
	user=65534 run=apt,git
	debian owner=mapped
}
guest_apt_p9() {
	run=apt,git
	debian_p9 cache=mmap,msize=512000,posixacl posix_acl=true
}
guest_apt_p9_mapped() {
	user=65534 run=apt,git
	debian_p9 cache=loose,msize=512000 owner=mapped
}
guest_databases_p9() {
	run=sqlite,postgres nofile=65536 # the client keeps every file open that it has written and remembers
	debian_p9 cache=loose,msize=512000
}
# One mode to a guest here too.
fio_p9() { # MODE OPTIONS
	run=fio
	debian_p9 cache=mmap,msize=512000
	tells="$tells wherry.fio=$1 wherry.fiosize=4m"
	p9 "$1" "mount=cache=$1,$2"
}
guest_fio_p9none() {
	fio_p9 none msize=131072
}
guest_fio_p9mmap() {
	fio_p9 mmap msize=8192
}
guest_fio_p9loose() {
	fio_p9 loose msize=512000
}
guest_fio_p9fscache() {
	fio_p9 fscache msize=1048576
}
guest_databases() {
	run=sqlite,postgres
	debian cache=always
}
guest_fio() {
	run=fio
	debian
	tells="$tells wherry.fio=never,auto,always,writeback wherry.fiosize=4m"
	share never cache=never
	share auto cache=auto
	share always cache=always
	share writeback cache=always writeback=true
}
guest_fio_dax() {
	run=fio
	debian
	tells="$tells wherry.fio=dax,small wherry.fiosize=8m"
	share dax dax=64 mount=dax
	share small dax=4 mount=dax # less than one file
}
guest_disk_life() {
	run=disklife
	debian cache=always
	tells="$tells wherry.disks=life,direct"
	drive life image_size=16M
	drive direct image_size=16M direct=true
	drive keep image_size=4M discard=false
}
fio_disks() { # [KEY=VALUE...]: of all of them
	run=diskfio
	debian cache=always
	tells="$tells wherry.disks=one,two,sync wherry.fiosize=1m"
	drive one image_size=32M queues=1 "$@"
	drive two image_size=32M queues=2 "$@"
	drive sync image_size=32M queues=2 io_engine=Sync "$@"
}
guest_disk_fio() {
	fio_disks
}
guest_disk_fio_direct() {
	fio_disks direct=true
}
stress() { # PART TAG [KEY=VALUE...]: a quarter of it
	run=stress
	debian
	tells="$tells wherry.stress=$2 wherry.part=$1/4"
	share "${@:2}"
}
for part in 1 2 3 4; do
	eval "guest_stress_$part() { stress $part auto cache=auto; }"
	eval "guest_stress_mapped_$part() { stress $part always cache=always writeback=true owner=mapped; }"
done

guest_disk_kill() { # the machine is killed while its disks are written, and another one goes on with them
	run=diskkill status=137
	debian
	tells="$tells wherry.step=write"
	share state
	drive cached image_size=64M
	drive direct image_size=64M direct=true
}

# ---- systems ----

guest_rootdisk() { # Debian on a disk, to its login
	run=rootdisk login=root:wherry kernel=vmlinuz initrd=initrd-debian.gz mem=1024 limit=2400
	drive rootdisk is_root_device=true
	[ -e "$top/build/guest/rootdisk.ext4" ] || unfit="no root disk: tests/guest/rootdisk.sh makes one, as root"
}

# ---- numbers ----

guest_many() { # 200,000 files in one directory
	run=many limit=2800 mem=1024 cpus=2
	share many cache=always
	tells="$tells wherry.crowd=200000"
}
guest_rlimit() { # a walk of many files by a VMM that may open 1024
	run=budget limit=2800 nofile=1024 files=20000 mem=1024 cpus=2
	share budget
}
