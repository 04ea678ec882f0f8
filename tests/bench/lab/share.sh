# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2317
# share.sh: what the same Linux guest costs on the same share under wherry and its peers; sourced by bench-lab.sh.
#
# One boot per contender and round. The guest (tests/bench/lab/init) says when it begins and ends each piece of work;
# at these lines KVM's exit counter, the clock and the CPU time of the serving processes are read, while it waits for a
# key. What that costs by itself is measured as the work "empty" and taken off. CPU: user and system time of the process and its
# helpers that is not guest time.
#
# Scaled down, since all of it runs in an emulated machine: FILES (300) small files in directories of 20, 10 KB each on
# average, 1000 random reads, 16 MiB and 4 MB of writes. The share is on tmpfs. V=1 says how far it is.

share_kernel_args="console=ttyS0 reboot=k panic=-1 pci=noearly i8042.noaux i8042.nomux i8042.nopnp i8042.dumbkbd
	tsc=reliable no_timer_check quiet mitigations=off"
share_initrd=$top/build/bench/lab-share.gz
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
share_prepare() {
	local root=$top/build/bench/lab-share kernel=$top/build/kernel
	# shellcheck source=guest/initramfs.sh
	. guest/initramfs.sh
	initramfs_base "$root" || return
	initramfs_modules "$root" virtio_pci virtio_mmio virtiofs 9p 9pnet_virtio || return
	install -m 755 tests/bench/lab/init "$root/init"
	${CC:-gcc} -std=gnu17 -D_GNU_SOURCE -O2 -static -o "$root/bin/randread" tests/bench/lab/randread.c || return
	make_tree "$root"
	initramfs_pack "$root" "$share_initrd"
}

# ---- contenders: share_NAME runs the machine; its options in the guest are in $guest ----

share_on_wherry() { # KEYS [SECTION]
	cat >"$work/config.json" <<-END
		{"boot-source": {"kernel_image_path": "$kernel", "initrd_path": "$share_initrd", "boot_args": "$append"},
		 "machine-config": {"vcpu_count": 1, "mem_size_mib": 512},
		 "${2:-fs}": [{"tag": "share", "path": "$share"$1}]}
	END
	exec ./wherry boot "$work/config.json"
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
	exec qemu-system-x86_64 -M q35,accel=kvm,memory-backend=m -cpu host -smp 1 -m 512 -nodefaults -no-user-config \
		-display none -no-reboot -serial stdio -object memory-backend-memfd,id=m,size=512M,share=on \
		-kernel "$kernel" -initrd "$share_initrd" -append "$append" "$@"
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

# ---- counters ----

share_helpers() {
	local p
	for p in $(cat "$work/helpers" 2>/dev/null); do
		echo "$p" "$(cat /proc/"$p"/task/*/children 2>/dev/null)"
	done
}
# User and system time of processes, less guest time, in hundredths of a second.
share_cpu() { # PID...
	local p
	for p in "$@"; do
		sed 's/.*) //' "/proc/$p/stat" 2>/dev/null
	done | awk '{n += $12 + $13 - $41} END {print n + 0}'
}
share_counters() { # PID: exits hundredths
	# shellcheck disable=SC2046 # words
	echo "$(counter exits) $(share_cpu "$1" $(share_helpers))"
}

# ---- a run ----

share_run() { # WHO: lines of $work/results: work who units seconds/1e6 exits cpu/100 interrupts status
	local who=$1 pid line name units irqs status t0 e0 c0 t e c seen=""
	share=$work/share
	append="$share_kernel_args $(share_guest "$who") bench.work=$(share_work "$who")"
	append=${append//$'\n'/ }
	append=${append//$'\t'/}
	rm -rf "$share" "$work/helpers"
	mkdir -p "$share"
	head -c 16M /dev/urandom >"$share/data"
	("share_$who") <"$work/keys" >"$work/console" 2>&1 &
	pid=$!
	exec 4>"$work/keys"
	exec 3<"$work/console"
	while IFS= read -r -t "$share_limit" line <&3; do
		line=${line%$'\r'}
		case $line in
		*"@@ begin "*)
			read -r e0 c0 <<<"$(share_counters $pid)"
			t0=${EPOCHREALTIME/./}
			echo >&4
			;;
		*"@@ end"*)
			t=${EPOCHREALTIME/./}
			read -r e c <<<"$(share_counters $pid)"
			echo >&4
			;;
		*"@@ did "*)
			read -r name units irqs status <<<"${line#*@@ did }"
			echo "$name $who $units $((t - t0)) $((e - e0)) $((c - c0)) $irqs $status" >>"$work/results"
			;;
		*"@@ over"*)
			seen=1
			break
			;;
		*"@@"*) echo "bench-lab: $who: $line" >&2 ;;
		esac
	done
	kill -KILL $pid
	# shellcheck disable=SC2046 # words
	kill $(share_helpers) 2>/dev/null
	exec 3<&- 4>&-
	wait $pid 2>/dev/null
	[ -n "$seen" ] && return
	echo "bench-lab: $who did not come to its end" >&2
	return 1
}

share_compare() {
	local who contenders="wherry_auto wherry_auto_poll wherry_plain wherry_always wherry_always_poll wherry_plain_always
		wherry_plain_always_poll wherry_never wherry_wb wherry_dax wherry_9p_none wherry_9p_none_poll wherry_9p_loose"
	if command -v qemu-system-x86_64 >/dev/null; then
		[ -x /usr/lib/qemu/virtiofsd ] && contenders="$contenders qemu_auto qemu_always qemu_none qemu_wb"
		contenders="$contenders qemu_9p_none qemu_9p_loose"
		cat "$(command -v qemu-system-x86_64)" /usr/lib/qemu/virtiofsd >/dev/null 2>&1
	fi
	contenders=${WHO:-$contenders}
	share_limit=120 # seconds without a line
	cat ./wherry "$kernel" "$share_initrd" >/dev/null
	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
	: >"$work/results"
	mkfifo "$work/console" "$work/keys"
	for round in $(seq "$rounds"); do
		for who in $contenders; do
			share_run "$who" || share_run "$who" # the emulated machine's fault, most likely
			[ -z "${V:-}" ] || echo "# $who: done, round $round of $rounds" >&2
		done
	done
	echo "share: $files small files, 1000 reads, 16 MiB in 1 MiB writes, 4 MB in 4 KiB writes; medians of $rounds"
	tests/bench/lab/table.awk tests/bench/lab/goals "$work/results"
}
