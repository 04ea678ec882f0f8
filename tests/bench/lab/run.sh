# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2317,SC2013
# run.sh: how a Linux guest does some work on a share or a disk, and what that costs; sourced by bench-lab.sh.
#
# One boot per contender and round. The guest (tests/bench/lab/init) says when it begins and ends each piece of work;
# at these lines KVM's exit counter, the clock and the CPU time of the serving processes are read, while it waits for a
# key. What that costs by itself is measured as the work "empty" and taken off. CPU: user and system time of the process and its
# helpers that is not guest time.
#
# KIND is share or disk (share.sh, disk.sh): KIND_WHO runs contender WHO's machine, whose kernel's command line is $append;
# KIND_guest WHO says the words for init; KIND_data makes what it works on; KIND_contenders who there are.
# V=1 says how far it is.

guest_kernel_args="console=ttyS0 reboot=k panic=-1 pci=noearly i8042.noaux i8042.nomux i8042.nopnp i8042.dumbkbd
	tsc=reliable no_timer_check quiet mitigations=off"
guest_initrd=$top/build/bench/lab-guest.gz

guest_prepare() {
	local root=$top/build/bench/lab-guest kernel=$top/build/kernel
	# shellcheck source=guest/initramfs.sh
	. guest/initramfs.sh
	initramfs_base "$root" || return
	initramfs_modules "$root" virtio_pci virtio_mmio virtio_blk virtiofs 9p 9pnet_virtio || return
	install -m 755 tests/bench/lab/init "$root/init"
	${CC:-gcc} -std=gnu17 -D_GNU_SOURCE -O2 -static -o "$root/bin/randread" tests/bench/lab/randread.c || return
	make_tree "$root"
	initramfs_pack "$root" "$guest_initrd"
}

# ---- the machine, which is the same for both kinds ----

guest_on_wherry() { # DEVICES, as members of the configuration
	cat >"$work/config.json" <<-END
		{"boot-source": {"kernel_image_path": "$kernel", "initrd_path": "$guest_initrd", "boot_args": "$append"},
		 "machine-config": {"vcpu_count": 1, "mem_size_mib": 512},
		 $1}
	END
	exec ./wherry boot "$work/config.json"
}
guest_on_qemu() { # QEMU_ARGS...
	exec qemu-system-x86_64 -M q35,accel=kvm -cpu host -smp 1 -m 512 -nodefaults -no-user-config -display none -no-reboot \
		-serial stdio -kernel "$kernel" -initrd "$guest_initrd" -append "$append" "$@"
}

# ---- counters ----

guest_helpers() {
	local p
	for p in $(cat "$work/helpers" 2>/dev/null); do
		echo "$p" "$(cat /proc/"$p"/task/*/children 2>/dev/null)"
	done
}
# User and system time of processes, less guest time, in hundredths of a second.
guest_cpu() { # PID...
	local p
	for p in "$@"; do
		sed 's/.*) //' "/proc/$p/stat" 2>/dev/null
	done | awk '{n += $12 + $13 - $41} END {print n + 0}'
}
guest_counters() { # PID: exits hundredths
	# shellcheck disable=SC2046 # words
	echo "$(counter exits) $(guest_cpu "$1" $(guest_helpers))"
}

# ---- a run ----

guest_run() { # KIND WHO: lines of $work/results: work who units seconds/1e6 exits cpu/100 interrupts status
	local kind=$1 who=$2 pid line name units irqs status t0 e0 c0 t e c seen=""
	append="$guest_kernel_args $("${kind}_guest" "$who")"
	append=${append//$'\n'/ }
	append=${append//$'\t'/}
	rm -f "$work/helpers"
	"${kind}_data"
	("${kind}_$who") <"$work/keys" >"$work/console" 2>&1 &
	pid=$!
	exec 4>"$work/keys"
	exec 3<"$work/console"
	while IFS= read -r -t "$guest_limit" line <&3; do
		line=${line%$'\r'}
		case $line in
		*"@@ begin "*)
			read -r e0 c0 <<<"$(guest_counters $pid)"
			t0=${EPOCHREALTIME/./}
			echo >&4
			;;
		*"@@ end"*)
			t=${EPOCHREALTIME/./}
			read -r e c <<<"$(guest_counters $pid)"
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
	kill $(guest_helpers) 2>/dev/null
	exec 3<&- 4>&-
	wait $pid 2>/dev/null
	[ -n "$seen" ] && return
	echo "bench-lab: $who did not come to its end" >&2
	return 1
}

guest_compare() { # KIND
	local kind=$1 who all
	all=${WHO:-$("${kind}_contenders")}
	guest_limit=120 # seconds without a line
	cat ./wherry "$kernel" "$guest_initrd" >/dev/null
	[[ $all != *qemu* ]] || cat "$(command -v qemu-system-x86_64)" /usr/lib/qemu/virtiofsd >/dev/null 2>&1
	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
	: >"$work/results"
	rm -f "$work/console" "$work/keys"
	mkfifo "$work/console" "$work/keys"
	for round in $(seq "$rounds"); do
		for who in $all; do
			declare -F "${kind}_$who" >/dev/null || continue # WHO means the other kind
			guest_run "$kind" "$who" || guest_run "$kind" "$who" # the emulated machine's fault, most likely
			[ -z "${V:-}" ] || echo "# $who: done, round $round of $rounds" >&2
		done
	done
	tests/bench/lab/table.awk tests/bench/lab/goals "$work/results"
}
