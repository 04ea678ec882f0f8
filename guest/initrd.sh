#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# initrd.sh [-m | -r RELEASE]   build/guest/initrd.gz, the initramfs that the test guests and the first config boot
#
# guest/init, busybox, the modules for wherry's devices, guest/test/*.sh and the file system suite.
#   -m  also build/guest/initrd-mmio.gz: the same with mmio_windows.ko, for guests that have neither
#       ACPI nor PCI (fetches the kernel's headers)
#   -r  build/guest/initrd-RELEASE.gz, with the modules of another release's kernel (guest/kernel.sh -r)
# Nothing is done when nothing has changed.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
out=$top/build/guest
kernel=$top/build/kernel
export PATH=$PATH:/usr/sbin:/sbin # a plain user may not have them
modules=(virtio_pci virtio_mmio virtio_blk virtio-rng virtiofs 9p 9pnet_virtio overlay ext4 crc32c_generic crc32c-intel pvpanic-mmio)
mmio='' release=''
case ${1:-} in
-m) mmio=1 ;;
-r)
	release=$2
	kernel=$kernel-$release
	;;
esac
name=initrd${release:+-$release}.gz

# shellcheck source=guest/initramfs.sh
. "$top/guest/initramfs.sh"

fresh() {
	[ -s "$1" ] && [ -z "$(find "$top/guest" "$kernel/version" -newer "$1" -print -quit)" ]
}

build() {
	local root=$out/root module there=()
	initramfs_base "$root"
	# Other releases have some of them built in, or not at all.
	for module in "${modules[@]}"; do
		[ -n "$release" ] && ! modprobe -C /dev/null -d "$kernel/root" -S "$(cat "$kernel/version")" --show-depends "$module" >/dev/null 2>&1 ||
			there+=("$module")
	done
	initramfs_modules "$root" "${there[@]}"
	install -m 755 "$top/guest/init" "$root/init"
	mkdir "$root/test"
	install -m 644 "$top"/guest/test/*.sh "$root/test/"
	guest_fssuite "$root/bin/fssuite"
	initramfs_pack "$root" "$out/$name"
}

build_mmio() {
	local work=$out/mmio_windows
	"$top/guest/kernel.sh" headers
	rm -rf "$work"
	mkdir "$work"
	cp "$top/guest/module/mmio_windows.c" "$work/"
	echo 'obj-m := mmio_windows.o' >"$work/Makefile"
	make -s -C "$kernel/headers/build" M="$work" modules >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		return 1
	}
	# A second archive after the first: the kernel unpacks them one after the other.
	mkdir -p "$work/root/lib"
	cp "$work/mmio_windows.ko" "$work/root/lib/"
	initramfs_pack "$work/root" "$work/add.gz"
	cat "$out/initrd.gz" "$work/add.gz" >"$out/initrd-mmio.gz"
}

"$top/guest/kernel.sh" ${release:+-r "$release"}
mkdir -p "$out"
exec 9>"$out/lock"
flock 9
fresh "$out/$name" || build
[ -z "$mmio" ] || fresh "$out/initrd-mmio.gz" || build_mmio
