#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench-lab.sh   Linux under wherry and its peers
#
#   boot   exec to the first line of the guest's init, and what it cost: exits, port exits and (nested) page faults are
#          counted by KVM up to that line; no device but a serial port
#   fs     a share: random reads, a tar of small files, tree walks, writes (tests/bench/lab/share.sh)
#   disk   random reads by two jobs (tests/bench/lab/disk.sh)
#
# ROWS says which ("boot fs disk"); WHO, which contenders of fs and disk. The same Debian kernel (bzImage), initramfs and command line
# for all, one CPU, 512 MiB. Contenders take turns; medians of ROUNDS (boot: 3, else 1). Runs where KVM runs Linux, else in the
# emulated machine of tests/lab, where only ratios and counts mean something. LKVM names kvmtool's binary, if there is one.
# shellcheck disable=SC2317 # called by name
set -u
cd "$(dirname "$0")/.." || exit
top=$PWD
rows=${ROWS:-boot fs disk}
limit=120 # seconds for a boot
initrd=$top/build/bench/lab.gz
kernel=$top/build/kernel/vmlinuz
args="console=ttyS0 reboot=k panic=-1 pci=noearly i8042.noaux i8042.nomux i8042.nopnp i8042.dumbkbd"
args="$args tsc=reliable no_timer_check quiet"

prepare() {
	guest/kernel.sh
	# shellcheck source=guest/initramfs.sh
	(. guest/initramfs.sh && initramfs_base build/bench/root &&
		printf '#!/bin/sh\necho "bench: init"\nwhile :; do sleep 1000; done\n' >build/bench/root/init &&
		chmod 755 build/bench/root/init && initramfs_pack build/bench/root "$initrd")
}

run_wherry() {
	cat >"$work/config.json" <<-END
		{"boot-source": {"kernel_image_path": "$kernel", "initrd_path": "$initrd", "boot_args": "$args"},
		 "machine-config": {"vcpu_count": 1, "mem_size_mib": 512}}
	END
	exec ./wherry boot "$work/config.json"
}
run_qemu() {
	exec qemu-system-x86_64 -M "$@" -cpu host -smp 1 -m 512 -nodefaults -no-user-config -display none -no-reboot -serial stdio \
		-kernel "$kernel" -initrd "$initrd" -append "$args"
}
run_qemu_q35() { run_qemu q35,accel=kvm; }
run_qemu_microvm() { run_qemu microvm,accel=kvm,rtc=on; }
run_kvmtool() {
	HOME=$work exec "$LKVM" run --name bench -c 1 -m 512 -k "$kernel" -i "$initrd" --console serial --network mode=none -p "$args"
}

counter() { # NAME: of the one machine there is
	cat /sys/kernel/debug/kvm/[0-9]*-[0-9]*/"$1" 2>/dev/null | awk '{n += $1} END {print n + 0}'
}

boot() { # WHO: a line of $work/results: who seconds exits port-exits page-faults
	local pid t0 t1 line seen="" counters
	t0=$EPOCHREALTIME
	("run_$1") </dev/null >"$work/console" 2>&1 & # a pipe by name: the lab has no /dev/fd
	pid=$!
	exec 3<"$work/console"
	while IFS= read -r -t $limit line <&3; do
		case $line in *"bench: init"*)
			t1=$EPOCHREALTIME
			seen=1
			break
			;;
		esac
	done
	counters="$(counter exits) $(counter io_exits) $(counter pf_taken)"
	kill -KILL $pid
	exec 3<&-
	wait $pid 2>/dev/null
	if [ -n "$seen" ]; then
		echo "$1 $((${t1/./} - ${t0/./})) $counters" >>"$work/results"
	else
		echo "bench-lab: $1 did not come to its init" >&2
	fi
}

table() {
	awk '
	function median(s,   v, m, i, j, t) {
		m = split(s, v, " ")
		for (i = 2; i <= m; i++)
			for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
				t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
			}
		return m % 2 ? v[(m + 1) / 2] : (v[m / 2] + v[m / 2 + 1]) / 2
	}
	{
		if (!($1 in seen)) { seen[$1]; names[++n] = $1 }
		for (i = 2; i <= 5; i++) col[$1, i] = col[$1, i] " " $i
	}
	END {
		printf "%-14s %9s %8s %10s %10s %12s\n", "", "s", "ratio", "exits", "port exits", "page faults"
		base = median(col["wherry", 2])
		for (i = 1; i <= n; i++) {
			w = names[i]
			s = median(col[w, 2])
			printf "%-14s %9.2f %8.2f %10d %10d %12d\n", w, s / 1e6, base ? s / base : 0, median(col[w, 3]),
				median(col[w, 4]), median(col[w, 5])
		}
	}' "$work/results"
}

compare() {
	local who contenders="wherry"
	if command -v qemu-system-x86_64 >/dev/null; then
		contenders="$contenders qemu_q35 qemu_microvm"
		cat "$(command -v qemu-system-x86_64)" >/dev/null # read once: the first one is not to pay for it
	fi
	[ -x "${LKVM:=}" ] && contenders="$contenders kvmtool"
	cat ./wherry "$kernel" "$initrd" >/dev/null
	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
	: >"$work/results"
	mkfifo "$work/console"
	for _ in $(seq "$rounds"); do
		for who in $contenders; do
			boot "$who"
		done
	done
	table
}

. tests/bench/lab/run.sh
. tests/bench/lab/share.sh
. tests/bench/lab/disk.sh

case " $rows " in
*" boot "* | *" fs "* | *" disk "*) ;;
*)
	echo "bench-lab: ROWS is of boot, fs and disk" >&2
	exit 2
	;;
esac
all() {
	case " $rows " in *" boot "*)
		rounds=${ROUNDS:-3}
		compare
		;;
	esac
	rounds=${ROUNDS:-1}
	case " $rows " in *" fs "*)
		echo "share: $files small files, 1000 reads, 16 MiB in 1 MiB writes, 4 MB in 4 KiB writes; medians of $rounds"
		guest_compare share
		;;
	esac
	case " $rows " in *" disk "*)
		echo "disk: 4k random reads, two jobs of depth 1; medians of $rounds"
		guest_compare disk
		;;
	esac
}

if [ "${BENCH_IN_LAB:-}" ]; then
	work=/run
	all
	exit
fi
prepare || exit
case " $rows " in *" fs "* | *" disk "*) guest_prepare || exit ;; esac
if ./wherry doctor --quiet; then
	work=$(mktemp -d) || exit 1
	trap 'rm -rf "$work"' EXIT
	all
else
	tests/lab/lab.sh -c 2 -t 3000 -- BENCH_IN_LAB=1 "LKVM=${LKVM:-}" "ROWS='$rows'" "WHO='${WHO:-}'" "ROUNDS=${ROUNDS:-}" "V=${V:-}" \
		"FILES=${FILES:-300}" tests/bench-lab.sh
fi
