#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernel.sh [-r RELEASE] [vmlinux] [headers]   Debian's own kernel, unpacked under build/kernel
#
# RELEASE is another release of Debian's, such as trixie or bullseye: its kernel is kept under build/kernel-RELEASE. apt is
# asked with a list and a state of its own there, and the signatures are checked with this system's keyring.
# Fetches the package that linux-image-amd64 depends on (apt-get download) and unpacks it there;
# nothing is installed on this machine. What is there already is kept: a second call needs no network.
#   build/kernel/vmlinuz    the bzImage             build/kernel/modules   its module tree
#   build/kernel/version    6.1.0-NN-amd64
#   vmlinux: build/kernel/vmlinux (the ELF image in the bzImage) and build/kernel/vmlinux-nonote (the same
#            without its PVH note, so that it is entered at the 64-bit entry point)
#   headers: build/kernel/headers (for building a module for this kernel)
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
dir=$top/build/kernel
release=''
if [ "${1:-}" = -r ]; then
	release=$2
	dir=$dir-$release
	shift 2
fi
apt=()
export PATH=$PATH:/usr/sbin:/sbin # a plain user may not have them

die() {
	echo "kernel.sh: $*" >&2
	exit 1
}

# fetch DEST PACKAGE...: download (unless there) and unpack into DEST
fetch() {
	local dest=$1 package
	shift
	mkdir -p "$dir/deb"
	for package; do
		if ! compgen -G "$dir/deb/${package}_*.deb" >/dev/null; then
			echo "fetching $package"
			(cd "$dir/deb" && apt-get -q "${apt[@]}" -o APT::Sandbox::User=root download "$package" >/dev/null) ||
				die "cannot download $package: try apt-get update, look at the network"
		fi
		dpkg-deb -x "$(compgen -G "$dir/deb/${package}_*.deb" | tail -1)" "$dest"
	done
}

# The package lists of the other release.
lists() {
	local a=$dir/apt
	mkdir -p "$a/lists/partial" "$a/cache/archives/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $release main" >"$a/sources"
	: >"$a/status"
	apt=(-o "Dir::Etc::sourcelist=$a/sources" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State=$a" -o "Dir::State::lists=$a/lists"
		-o "Dir::State::status=$a/status" -o "Dir::Cache=$a/cache" -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User=root)
	apt-get -q "${apt[@]}" update >"$a/log" 2>&1 || die "cannot fetch the package lists of $release: see $a/log"
}

image() {
	local version package
	[ -s "$dir/version" ] && return
	[ -z "$release" ] || lists
	package=$(apt-cache "${apt[@]}" depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -1)
	[ -n "$package" ] || die "apt knows no linux-image-amd64: apt-get update first (Debian, amd64)"
	version=${package#linux-image-}
	rm -rf "$dir/root"
	fetch "$dir/root" "$package"
	[ -e "$dir/root/lib" ] || ln -s usr/lib "$dir/root/lib" # where /usr is merged
	depmod -b "$dir/root" "$version"
	ln -sfn "root/boot/vmlinuz-$version" "$dir/vmlinuz"
	ln -sfn "root/lib/modules/$version" "$dir/modules"
	echo "$version" >"$dir/version"
}

# word OFFSET SIZE: a little-endian number of the bzImage's setup header
word() {
	od -An -j "$(($1))" -N "$2" -t "u$2" --endian=little "$dir/vmlinuz" | tr -d ' '
}

# The boot protocol's payload_offset counts from the protected-mode part, which follows the
# boot sector and setup_sects sectors. Debian's payload is xz, closed by 4 bytes of length that
# --single-stream leaves alone.
vmlinux() {
	local start length
	[ "$dir/vmlinux" -nt "$dir/version" ] && [ -s "$dir/vmlinux-nonote" ] && return
	start=$((($(word 0x1f1 1) + 1) * 512 + $(word 0x248 4)))
	length=$(word 0x24c 4)
	tail -c "+$((start + 1))" "$dir/vmlinuz" | head -c "$length" | xz -dc --single-stream >"$dir/vmlinux.tmp" 2>/dev/null || :
	[ "$(head -c 4 "$dir/vmlinux.tmp" | tail -c 3)" = ELF ] || die "$dir/vmlinuz holds no xz-compressed ELF image"
	objcopy --remove-section .notes "$dir/vmlinux.tmp" "$dir/vmlinux-nonote"
	mv "$dir/vmlinux.tmp" "$dir/vmlinux"
}

headers() {
	local version kbuild h=$dir/headers
	version=$(cat "$dir/version")
	case $h in *[[:space:]]*) die "$h: the kernel's own Makefiles take no path with a space: move this tree to build a module" ;; esac
	# Its Makefile holds this tree's path: made again when the tree has moved.
	[ -s "$h/version" ] && [ "$(cat "$h/version")" = "$version $h" ] && return
	rm -rf "$h"
	kbuild=$(apt-cache "${apt[@]}" depends "linux-headers-$version" | sed -n 's/.*Depends: \(linux-kbuild-[^ ]*\).*/\1/p' | head -1)
	[ -n "$kbuild" ] || die "apt knows no linux-headers-$version: apt-get update first"
	fetch "$h" "linux-headers-$version" "linux-headers-${version%-*}-common" "$kbuild"
	# The packaged Makefile names its other half by the absolute path of an installed system.
	sed -i "s|/usr/src/|$h/usr/src/|" "$h/usr/src/linux-headers-$version/Makefile"
	ln -sfn "usr/src/linux-headers-$version" "$h/build"
	echo "$version $h" >"$h/version"
}

mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
image
for what; do
	case $what in
	vmlinux | headers) $what ;;
	*) die "unknown word $what (vmlinux, headers)" ;;
	esac
done
