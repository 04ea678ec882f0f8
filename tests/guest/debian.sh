#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# debian.sh   a Debian root directory for the guests of `make check-guest-long`, in build/guest/debian.ext4
#
# Made once by debootstrap, as root, with the packages that the guests of tests/guest/long.sh use; on an ext4 image of the
# size of the lab's disk, as /debian. In it, beside Debian: /sbin/init and /test (guest/debian), a package to install
# (/srv/hello.deb) and a repository to clone (/srv/repo.git). And build/guest/initrd-debian.gz: the initramfs that Debian's
# own tools make for its kernel, with the modules added that a root directory by 9P takes.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
out=$top/build/guest
tree=$out/debian/tree
packages=fio,git,sqlite3,stress-ng,postgresql,attr,acl,e2fsprogs,procps,initramfs-tools
export PATH=$PATH:/usr/sbin:/sbin

die() {
	echo "debian.sh: $*" >&2
	exit 1
}

# With what dpkg has to be able to do: owners, set-id bits, links of both kinds, a configuration file, a script.
package() {
	local d=$out/debian/hello
	rm -rf "$d"
	mkdir -p "$d"/{DEBIAN,usr/bin,usr/share/hello,etc,var/lib/hello}
	cat >"$d/DEBIAN/control" <<-END
		Package: hello-share
		Version: 1.0
		Architecture: all
		Maintainer: nobody <nobody@localhost>
		Depends: base-files
		Description: a package to install on a share
	END
	echo /etc/hello.conf >"$d/DEBIAN/conffiles"
	printf '#!/bin/sh\nset -e\necho configured >/var/lib/hello/state\n' >"$d/DEBIAN/postinst"
	printf '#!/bin/sh\nset -e\nrm -f /var/lib/hello/state\n' >"$d/DEBIAN/prerm"
	chmod 755 "$d"/DEBIAN/{postinst,prerm}
	printf '#!/bin/sh\necho hello from a share\n' >"$d/usr/bin/hello-share"
	chmod 4755 "$d/usr/bin/hello-share"
	ln "$d/usr/bin/hello-share" "$d/usr/bin/hello-linked"
	ln -s hello-share "$d/usr/bin/hello-symlink"
	echo setting=1 >"$d/etc/hello.conf"
	chmod 2775 "$d/var/lib/hello"
	for i in $(seq 100); do echo "$i" >"$d/usr/share/hello/file-$i"; done
	dpkg-deb --root-owner-group -b "$d" "$tree/srv/hello.deb" >/dev/null
}

repository() {
	local d=$out/debian/repo i k
	rm -rf "$d" "$tree/srv/repo.git"
	git init -q -b main "$d"
	git -C "$d" config user.email nobody@localhost
	git -C "$d" config user.name nobody
	for ((i = 0; i < 20; i++)); do
		mkdir -p "$d/dir-$((i % 7))"
		for ((k = 0; k < 12; k++)); do head -c "$((i * 97 + k * 501 + 10))" /dev/urandom | base64 >"$d/dir-$((i % 7))/file-$i-$k"; done
		git -C "$d" add -A
		git -C "$d" commit -qm "commit $i"
	done
	git clone -q --bare "$d" "$tree/srv/repo.git"
}

# As where the kernel is installed, but that the tree does not keep it.
initramfs() {
	local version
	"$top/guest/kernel.sh"
	version=$(cat "$top/build/kernel/version")
	mkdir -p "$tree/lib/modules"
	cp -a "$top/build/kernel/root/lib/modules/$version" "$tree/lib/modules/"
	cp "$top/build/kernel/root/boot/config-$version" "$tree/boot/"
	printf '%s\n' 9p 9pnet_virtio >"$tree/etc/initramfs-tools/modules"
	echo FSTYPE=ext4 >"$tree/etc/initramfs-tools/conf.d/fsck" # it has no fstab, by which the tools go
	chroot "$tree" mkinitramfs -o /initrd "$version" >>"$out/debian/log" 2>&1 || die "mkinitramfs failed: see $out/debian/log"
	rm -rf "$tree/lib/modules/$version" "$tree/boot/config-$version"
	mv "$tree/initrd" "$out/initrd-debian.gz"
}

stamp=$out/debian.ext4
[ -z "$(find "$stamp" -newer "$0" 2>/dev/null)" ] || [ -n "$(find "$top/guest/debian" -newer "$stamp" -print -quit)" ] || exit 0
[ "$(id -u)" -eq 0 ] || die "debootstrap needs root"
command -v debootstrap >/dev/null || die "no debootstrap: apt-get install debootstrap"
mkdir -p "$out/debian"
if [ "$(cat "$out/debian/done" 2>/dev/null)" != "$packages" ]; then
	rm -rf "$tree"
	debootstrap --variant=minbase --include="$packages" bookworm "$tree" http://deb.debian.org/debian >"$out/debian/log" 2>&1 ||
		die "debootstrap failed: see $out/debian/log"
	rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/usr/share/{doc,man,locale}/*
	echo "$packages" >"$out/debian/done"
fi
mkdir -p "$tree/test"
package
repository
initramfs
rm -f "$tree/sbin/init"
install -m 755 "$top/guest/debian/init" "$tree/sbin/init"
install -m 644 "$top"/guest/debian/*.sh "$tree/test/"
cp "$top/guest/test/lib.sh" "$tree/test/"
rm -f "$stamp.tmp"
truncate -s 3G "$stamp.tmp"
mkdir -p "$out/debian/image"
# One directory deeper: the disk's own root is the tests'.
rm -rf "$out/debian/image"
mkdir "$out/debian/image"
mv "$tree" "$out/debian/image/debian"
status=0
mke2fs -q -F -t ext4 -N 600000 -O ^metadata_csum -d "$out/debian/image" "$stamp.tmp" || status=$?
mv "$out/debian/image/debian" "$tree"
[ $status -eq 0 ] || die "no image"
mv "$stamp.tmp" "$stamp"
