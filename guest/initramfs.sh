# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# initramfs.sh - how an initramfs is made of busybox and Debian's kernel modules; sourced.
#
# Three use it: the guest's (guest/initrd.sh), the lab machine's (tests/lab/prep.sh), and the suite's own test
# (tests/check-fssuite.sh). Needs busybox-static, cpio, kmod and what guest/kernel.sh unpacks. $kernel is that directory,
# $top this tree.

# initramfs_base DIR: busybox with a link per applet, and the mount points
initramfs_base() {
	local busybox applet
	busybox=$(command -v busybox) || {
		echo "no busybox: apt-get install busybox-static" >&2
		return 1
	}
	rm -rf "${1:?}"
	mkdir -p "$1"/{bin,dev,etc,proc,sys,tmp,run,mnt}
	ln -s bin "$1/sbin"
	cp "$busybox" "$1/bin/busybox"
	for applet in $("$busybox" --list); do
		[ "$applet" = busybox ] || ln -s busybox "$1/bin/$applet"
	done
}

# initramfs_modules DIR NAME...: the modules and all they depend on, for modprobe
initramfs_modules() {
	local dir=$1 version list file
	version=$(cat "$kernel/version")
	shift
	list=$(modprobe -C /dev/null -d "$kernel/root" -S "$version" --show-depends -a "$@") || return 1
	sed -n 's/^insmod \(.*[^ ]\) *$/\1/p' <<<"$list" | sort -u | while read -r file; do
		install -D -m 644 "$file" "$dir/lib/modules/$version/${file#*"/$version/"}"
	done
	find "$dir/lib/modules" -name '*.ko.xz' -exec xz -d {} + # busybox takes them plain
	cp "$kernel/modules"/modules.{builtin,builtin.modinfo,order} "$dir/lib/modules/$version/"
	depmod -b "$dir" "$version"
}

# guest_fssuite OUT: the file system suite, statically: guests have no libraries
guest_fssuite() {
	cc -std=gnu17 -O2 -Wall -Wextra -static -pthread -o "$1" "$top"/guest/fssuite/*.c
}

# initramfs_pack DIR OUT
initramfs_pack() {
	(cd "$1" && find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet | gzip -n -6) >"$2.tmp"
	mv "$2.tmp" "$2"
}
