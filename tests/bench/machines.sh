# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# machines.sh: who is measured; sourced by bench.sh. Each run_WHO "JOBS" runs one machine with guest/payload, its
# console on stdout: the disk is $dir/disk.img, share fs $dir/share (the host's file system), fs1 $ram (tmpfs).
# Peers run at what is best for them: QEMU's virtiofsd with both cache modes, its disk with io_uring. V=1 says how
# each is started. What serves beside the machine's process is named in $work/helpers.

say_command() { [ -z "${V:-}" ] || printf '%q ' "$@" | sed 's/^/+ /; s/$/\n/' >&2; }

# ---- wherry ----

config() { # TRANSPORT MIB ARGS DISK SHARE [SHARE2] [KEYS]: KEYS of each share, from a comma; two shares by both protocols
	cat <<-END
	{"boot-source": {"kernel_image_path": "$elf", "boot_args": "$3"},
	 "machine-config": {"mem_size_mib": $2, "transport": "$1"},
	 "drives": [${4:+{\"drive_id\": \"bench\", \"path_on_host\": \"$4\"\}}],
	 "fs": [${5:+{\"tag\": \"bench\", \"path\": \"$5\"${7:-}\}}${6:+, {\"tag\": \"ram\", \"path\": \"$6\"${7:-}\}}],
	 "p9": [${6:+{\"tag\": \"bench\", \"path\": \"$5\"${7:-}\}, {\"tag\": \"ram\", \"path\": \"$6\"${7:-}\}}]}
	END
}
wherry_on() { # as config
	config "$@" >"$work/config.json"
	say_command "$wherry" boot "$work/config.json"
	[ -z "${V:-}" ] || cat "$work/config.json" >&2
	exec "$wherry" boot "$work/config.json" 2>"$work/stderr"
}
run_wherry() { wherry_on pci 64 "$1" "$dir/disk.img" "$dir/share" "$ram"; }
run_wherry_mmio() { wherry_on mmio 64 "$1" "$dir/disk.img" "$dir/share" "$ram"; }
# Sleeps as soon as it has nothing to do.
run_wherry_sleep() { wherry_on pci 64 "$1" "" "$dir/share" "$ram" ", \"poll_us\": 0"; }
run_wherry_dax() { wherry_on pci 64 "$1" "" "$dir/share" "" ', "dax": 64'; }

# ---- the floor: tests/bench/floor.c, a disk and nothing else ----

floor() {
	say_command "$dir/floor" "$1" "$elf" "$2" "$dir/disk.img"
	exec "$dir/floor" "$1" "$elf" "$2" "$dir/disk.img"
}
run_floor() { floor 0 "$1"; }
run_floor_poll() { floor 50 "$1"; }

# ---- QEMU ----

qemu() { # ARGS QEMU_ARGS...
	local args=$1
	shift
	set -- qemu-system-x86_64 -name bench,debug-threads=on -M pc,accel=kvm -cpu host,-arch-capabilities -m 64M -nodefaults -no-user-config -no-reboot \
		-display none -serial stdio -kernel "$elf" -append "$args" "$@"
	say_command "$@"
	exec "$@" 2>"$work/stderr"
}
run_qemu_disk() {
	qemu "$1" -object iothread,id=io -device virtio-blk-pci,drive=d,iothread=io \
		-blockdev "driver=file,node-name=d,filename=$dir/disk.img,aio=io_uring"
}
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
run_qemu_auto() { qemu_virtiofsd "$1" auto; }
run_qemu_none() { qemu_virtiofsd "$1" none; }
run_qemu_9p() {
	qemu "$1" -fsdev "local,id=f0,path=$dir/share,security_model=none" -device virtio-9p-pci,fsdev=f0,mount_tag=bench \
		-fsdev "local,id=f1,path=$ram,security_model=none" -device virtio-9p-pci,fsdev=f1,mount_tag=ram
}
