# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2317
# share.sh: who serves the share of the guest that run.sh runs; sourced by bench-lab.sh.
#
# Scaled down, since all of it runs in an emulated machine: FILES (300) small files in directories of 20, 10 KB each on
# average, 1000 random reads, 16 MiB and 4 MB of writes. The share is on tmpfs.

files=${FILES:-300}

# A tar of small files: sizes from 100 bytes to 40 KB, most of them small, the same in every run.
make_tree() { # DIRECTORY
	local i size dir
	for i in $(seq "$files"); do
		dir=$1/tree/d$((i / 100))/d$((i / 20))
		mkdir -p "$dir"
		size=$((100 + i * i * 7919 % 200 * (i * 104729 % 200)))
		head -c "$size" /dev/zero | tr '\0' "$((i % 10))" >"$dir/f$i"
	done
	tar -C "$1" --sort=name --owner=0 --group=0 --mtime=@0 -cf "$1/tree.tar" tree
	rm -r "$1/tree"
}
share_data() {
	share=$work/share
	rm -rf "$share"
	mkdir -p "$share"
	head -c 16M /dev/urandom >"$share/data"
}

# ---- contenders: share_NAME runs the machine; its options in the guest are in $guest ----

share_on_wherry() { # KEYS [SECTION]
	guest_on_wherry "\"${2:-fs}\": [{\"tag\": \"share\", \"path\": \"$share\"$1}]"
}
share_wherry_auto() { share_on_wherry ', "cache": "auto"'; }
# The device looks for 50 us whether the guest's next request comes, which on hardware it mostly does. Here all takes some
# twenty times as long.
share_wherry_auto_poll() { share_on_wherry ', "cache": "auto", "poll_us": 1000'; }
share_wherry_always_poll() { share_on_wherry ', "cache": "always", "poll_us": 1000'; }
share_wherry_plain_always_poll() { share_on_wherry ', "cache": "always", "xattr": false, "poll_us": 1000'; }
share_wherry_9p_none_poll() { share_on_wherry ', "poll_us": 1000' p9; }
# As virtiofsd is by default: without extended attributes, of which Linux asks twice for each file that it writes.
share_wherry_plain() { share_on_wherry ', "cache": "auto", "xattr": false'; }
share_wherry_plain_always() { share_on_wherry ', "cache": "always", "xattr": false'; }
share_wherry_always() { share_on_wherry ', "cache": "always"'; }
share_wherry_never() { share_on_wherry ', "cache": "never"'; }
share_wherry_wb() { share_on_wherry ', "cache": "always", "writeback": true'; }
share_wherry_dax() { share_on_wherry ', "cache": "always", "dax": 64'; }
share_wherry_9p_none() { share_on_wherry "" p9; }
share_wherry_9p_loose() { share_on_wherry "" p9; }
share_on_qemu() { # QEMU_ARGS...
	guest_on_qemu -machine memory-backend=m -object memory-backend-memfd,id=m,size=512M,share=on "$@"
}
share_on_virtiofsd() { # CACHE
	rm -f "$work/sock"
	/usr/lib/qemu/virtiofsd --socket-path="$work/sock" -o source="$share" -o sandbox=chroot -o "$1" >/dev/null 2>&1 &
	echo $! >"$work/helpers"
	until [ -S "$work/sock" ]; do sleep 0.1; done
	share_on_qemu -chardev socket,id=c,path="$work/sock" -device vhost-user-fs-pci,chardev=c,tag=share,queue-size=1024
}
share_qemu_auto() { share_on_virtiofsd cache=auto; }
share_qemu_always() { share_on_virtiofsd cache=always; }
share_qemu_none() { share_on_virtiofsd cache=none; }
share_qemu_wb() { share_on_virtiofsd cache=always,writeback; }
share_on_qemu_9p() {
	share_on_qemu -fsdev local,id=f,path="$share",security_model=none,multidevs=remap \
		-device virtio-9p-pci,fsdev=f,mount_tag=share
}
share_qemu_9p_none() { share_on_qemu_9p; }
share_qemu_9p_loose() { share_on_qemu_9p; }

share_guest() { # WHO: words of the guest's command line
	case $1 in
	*_9p_none*) echo "bench.fs=9p bench.mo=cache=none" ;;
	*_9p_loose) echo "bench.fs=9p bench.mo=cache=loose" ;;
	*_dax) echo "bench.mo=dax" ;;
	esac
	echo "bench.work=$(share_work "$1")"
}
share_work() { # WHO
	case $1 in
	*_wb) echo empty,write1m,write4k ;;
	*_dax) echo empty,randread,mapread ;;
	# Each name is a request or several: a tree of them would take minutes, but for the peers' 9P.
	*_9p_none*) echo empty,randread,untar,write1m,write4k ;;
	*_none | *_never) echo empty,randread,write1m,write4k ;;
	*) echo empty,randread,untar,walk1,walk2,write1m,write4k,remove ;;
	esac
}
share_contenders() {
	echo "wherry_auto wherry_auto_poll wherry_plain wherry_always wherry_always_poll wherry_plain_always
		wherry_plain_always_poll wherry_never wherry_wb wherry_dax wherry_9p_none wherry_9p_none_poll wherry_9p_loose"
	command -v qemu-system-x86_64 >/dev/null || return 0
	[ ! -x /usr/lib/qemu/virtiofsd ] || echo "qemu_auto qemu_always qemu_none qemu_wb"
	echo "qemu_9p_none qemu_9p_loose"
}
