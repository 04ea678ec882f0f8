# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# machines.sh: who is measured; sourced by bench.sh. Each KIND_WHO "JOBS" runs one machine with guest/payload, its
# console on stdout: disk_ ones have the disk $dir/disk.img, direct_ ones $dir/direct.img with O_DIRECT, share_ ones the
# share fs $dir/share (the host's file system) and fs1 $ram (tmpfs), or the same two by 9P.
# Peers run at what is best for them: QEMU's virtiofsd with both cache modes, its disk with io_uring and an iothread (which
# polls too, by default up to 32 us). V=1 says how each is started. What serves beside the machine's process is named in
# $work/helpers.

say_command() { [ -z "${V:-}" ] || printf '%q ' "$@" | sed 's/^/+ /; s/$/\n/' >&2; }

# ---- wherry ----

config() { # TRANSPORT MIB ARGS SECTIONS
	cat <<-END
	{"boot-source": {"kernel_image_path": "$elf", "boot_args": "$3"},
	 "machine-config": {"mem_size_mib": $2, "transport": "$1"},
	 $4}
	END
}
# Sections; KEYS from a comma.
drive() { # PATH [KEYS]
	echo "\"drives\": [{\"drive_id\": \"bench\", \"path_on_host\": \"$1\"${2:-}}]"
}
shares() { # SECTION PATH [PATH2] [KEYS]
	echo "\"$1\": [{\"tag\": \"bench\", \"path\": \"$2\"${4:-}}${3:+, {\"tag\": \"ram\", \"path\": \"$3\"${4:-}\}}]"
}
wherry_on() { # as config
	config "$@" >"$work/config.json"
	say_command "$wherry" boot "$work/config.json"
	[ -z "${V:-}" ] || cat "$work/config.json" >&2
	exec "$wherry" boot "$work/config.json" 2>"$work/stderr"
}
# _sleep: sleeps as soon as it has nothing to do.
disk_wherry() { wherry_on pci 64 "$1" "$(drive "$dir/disk.img")"; }
disk_wherry_mmio() { wherry_on mmio 64 "$1" "$(drive "$dir/disk.img")"; }
disk_wherry_sleep() { wherry_on pci 64 "$1" "$(drive "$dir/disk.img" ', "poll_us": 0')"; }
direct_wherry() { wherry_on pci 64 "$1" "$(drive "$dir/direct.img" ', "direct": true')"; }
direct_wherry_sleep() { wherry_on pci 64 "$1" "$(drive "$dir/direct.img" ', "direct": true, "poll_us": 0')"; }
shares_on_wherry() { # TRANSPORT ARGS [KEYS]: both by both protocols
	wherry_on "$1" 64 "$2" "$(shares fs "$dir/share" "$ram" "${3:-}"), $(shares p9 "$dir/share" "$ram" "${3:-}")"
}
share_wherry() { shares_on_wherry pci "$1"; }
share_wherry_mmio() { shares_on_wherry mmio "$1"; }
share_wherry_sleep() { shares_on_wherry pci "$1" ', "poll_us": 0'; }
share_wherry_dax() { wherry_on pci 64 "$1" "$(shares fs "$dir/share" "" ', "dax": 64')"; }

# ---- the floor: tests/bench/floor.c, a disk and nothing else ----

floor() { # POLL_US ARGS DISK [direct]
	set -- "$dir/floor" "$1" "$elf" "${@:2}"
	say_command "$@"
	exec "$@"
}
disk_floor_sleep() { floor 0 "$1" "$dir/disk.img"; }
disk_floor_poll() { floor 50 "$1" "$dir/disk.img"; }
direct_floor_sleep() { floor 0 "$1" "$dir/direct.img" direct; }
direct_floor_poll() { floor 50 "$1" "$dir/direct.img" direct; }

# ---- QEMU ----

qemu() { # ARGS QEMU_ARGS...
	local args=$1
	shift
	set -- qemu-system-x86_64 -name bench,debug-threads=on -M pc,accel=kvm -cpu host,-arch-capabilities -m 64M -nodefaults -no-user-config -no-reboot \
		-display none -serial stdio -kernel "$elf" -append "$args" "$@"
	say_command "$@"
	exec "$@" 2>"$work/stderr"
}
qemu_drive() { # ARGS BLOCKDEV
	qemu "$1" -object iothread,id=io -device virtio-blk-pci,drive=d,iothread=io \
		-blockdev "driver=file,node-name=d,aio=io_uring,filename=$2"
}
disk_qemu() { qemu_drive "$1" "$dir/disk.img"; }
direct_qemu() { qemu_drive "$1" "$dir/direct.img,cache.direct=on"; }
virtiofsd() { # NAME DIRECTORY CACHE
	say_command "$virtiofsd" --socket-path="$work/$1" -o source="$2" -o cache="$3"
	"$virtiofsd" --socket-path="$work/$1" -o source="$2" -o cache="$3" >/dev/null 2>&1 &
	echo $! >>"$work/helpers"
	for _ in $(seq 500); do
		[ -S "$work/$1" ] && break
		sleep 0.02
	done
}
qemu_virtiofsd() { # JOBS CACHE
	virtiofsd sock0 "$dir/share" "$2"
	virtiofsd sock1 "$ram" "$2"
	qemu "$1" -object memory-backend-memfd,id=m,size=64M,share=on -numa node,memdev=m \
		-chardev socket,id=c0,path="$work/sock0" -device vhost-user-fs-pci,chardev=c0,tag=bench,queue-size=1024 \
		-chardev socket,id=c1,path="$work/sock1" -device vhost-user-fs-pci,chardev=c1,tag=ram,queue-size=1024
}
share_qemu_auto() { qemu_virtiofsd "$1" auto; }
share_qemu_none() { qemu_virtiofsd "$1" none; }
share_qemu_9p() {
	qemu "$1" -fsdev "local,id=f0,path=$dir/share,security_model=none" -device virtio-9p-pci,fsdev=f0,mount_tag=bench \
		-fsdev "local,id=f1,path=$ram,security_model=none" -device virtio-9p-pci,fsdev=f1,mount_tag=ram
}
