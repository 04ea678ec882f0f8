#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh [ROUNDS [MS]]   what wherry costs, side by side with its floor, the host's own calls, and QEMU
#
# The figures are ratios and counts, never a test: contenders take turns within a round, and the median of ROUNDS (5) is
# shown; MS (300) is the time of a measurement. All of them serve guest/payload, which drives the devices from ring 3.
#
#   start    exec to the payload's first line, less what the payload itself took to get there
#   memory   private dirty memory of the process without guest RAM, after the payload has used every device
#   disk     4k random reads of a file in the page cache. floor: tests/bench/floor.c (sleeps when idle); native: plain
#            system calls of one thread
#   share    the same of a file, its attributes, and its name. The peer is QEMU with virtiofsd, where they are installed
#
# kicks: doorbells per operation. cpu: microseconds of the process's threads but the vCPU's, per operation (and of
# virtiofsd). A host whose exits are slow makes depth 1 the same for all: depth 16, kicks and cpu say more.
# WHERRY and PAYLOAD name another binary and another payload; BENCH_DIR another place for the data (256 MiB).
# shellcheck disable=SC2317,SC2013 # called by name
set -u
cd "$(dirname "$0")/.." || exit
rounds=${1:-5}
ms=${2:-300}
wherry=$(realpath "${WHERRY:-./wherry}") || exit 1
payload=$(realpath "${PAYLOAD:-build/payload}") || exit 1
virtiofsd=/usr/lib/qemu/virtiofsd
elf=$payload/payload.elf

if ! [ -r /dev/kvm ] || ! [ -w /dev/kvm ]; then
	echo "bench: no usable /dev/kvm" >&2
	exit 1
fi
mkdir -p "${BENCH_DIR:=build/bench}" || exit 1
dir=$(realpath "$BENCH_DIR") || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"; kill $(jobs -p) 2>/dev/null' EXIT

cc=${CC:-gcc}
$cc -std=gnu17 -O2 -D_GNU_SOURCE -o "$dir/floor" tests/bench/floor.c -lpthread || exit
$cc -std=gnu17 -O2 -D_GNU_SOURCE -o "$dir/native" tests/bench/native.c -luring || exit
mkdir -p "$dir/share/small"
for f in disk.img share/bench.dat; do
	[ -e "$dir/$f" ] || "$payload/pattern" make "$dir/$f" 64M
	cat "$dir/$f" >/dev/null # into the page cache
done

# ---- machines: each function runs one with a payload command line, its console on stdout ----

config() { # TRANSPORT MIB ARGS DISK SHARE
	cat <<-END
	{"boot-source": {"kernel_image_path": "$elf", "boot_args": "$3"},
	 "machine-config": {"mem_size_mib": $2, "transport": "$1"},
	 "drives": [${4:+{\"drive_id\": \"bench\", \"path_on_host\": \"$4\"\}}],
	 "fs": [${5:+{\"tag\": \"bench\", \"path\": \"$5\"\}}]}
	END
}
wherry_on() { # TRANSPORT MIB ARGS DISK SHARE
	config "$@" >"$work/config.json"
	exec "$wherry" boot "$work/config.json" </dev/null 2>/dev/null
}
qemu() { # ARGS QEMU_ARGS...
	local args=$1
	shift
	exec qemu-system-x86_64 -M pc,accel=kvm -cpu host,-arch-capabilities -m 64M -nodefaults -no-user-config -no-reboot \
		-display none -serial stdio -kernel "$elf" -append "$args" "$@" </dev/null 2>/dev/null
}
disk_floor() { exec "$dir/floor" 0 "$elf" "$1" "$dir/disk.img"; }
disk_wherry_pci() { wherry_on pci 64 "$1" "$dir/disk.img" ""; }
disk_wherry_mmio() { wherry_on mmio 64 "$1" "$dir/disk.img" ""; }
disk_qemu() {
	qemu "$1" -object iothread,id=io -device virtio-blk-pci,drive=d,iothread=io \
		-blockdev "driver=file,node-name=d,filename=$dir/disk.img,aio=io_uring"
}
share_wherry_pci() { wherry_on pci 64 "$1" "" "$dir/share"; }
share_wherry_mmio() { wherry_on mmio 64 "$1" "" "$dir/share"; }
share_qemu() {
	"$virtiofsd" --socket-path="$work/sock" -o source="$dir/share" -o cache=auto >/dev/null 2>&1 &
	echo $! >"$work/helper"
	for _ in $(seq 100); do
		[ -S "$work/sock" ] && break
		sleep 0.02
	done
	qemu "$1" -object memory-backend-memfd,id=m,size=64M,share=on -numa node,memdev=m \
		-chardev socket,id=c,path="$work/sock" -device vhost-user-fs-pci,chardev=c,tag=bench
}

# ---- reading them ----

# CPU nanoseconds so far of the device's side: every thread but the vCPU's (the floor's is its first one).
device_cpu() { # PID [HELPER]
	local t name ns sum=0
	for t in /proc/"$1"/task/* ${2:+/proc/"$2"/task/*}; do
		read -r name 2>/dev/null <"$t/comm" || continue
		case $name in
		vcpu* | "CPU "*) continue ;;
		floor) [ "${t##*/}" = "$1" ] && continue ;;
		esac
		read -r ns _ 2>/dev/null <"$t/schedstat" && sum=$((sum + ns))
	done
	# virtiofsd serves from a child.
	[ -z "${2:-}" ] || for t in $(cat /proc/"$2"/task/*/children 2>/dev/null); do
		sum=$((sum + $(device_cpu "$t")))
	done
	echo $sum
}

# Runs one machine; each RESULT becomes a line of $work/results: kind who op qd iops kicks n cpu_ns all err
measure() { # KIND WHO ARGS
	local kind=$1 who=$2 pid helper="" line before=0 after field
	rm -f "$work/helper" "$work/sock"
	# The last job keeps the threads there until they have been asked for their time.
	exec 3< <("${kind}_$who" "$3 host:cpuid:n=1000")
	pid=$!
	while IFS= read -r line <&3; do
		case $line in
		*dev=host*) continue ;;
		RESULT*) ;;
		*)
			helper=$(cat "$work/helper" 2>/dev/null)
			before=$(device_cpu $pid "$helper")
			continue
			;;
		esac
		after=$(device_cpu $pid "$helper")
		declare -A r=()
		for field in ${line#RESULT }; do
			r[${field%%=*}]=${field#*=}
		done
		echo "$kind $who ${r[op]} ${r[qd]} ${r[iops]} ${r[kicks]} ${r[n]} $((after - before)) ${r[all]} ${r[err]%$'\r'}" \
			>>"$work/results"
		before=$after
	done
	exec 3<&-
	[ -z "$helper" ] || kill "$helper" 2>/dev/null
}

native() { # KIND PATH OP QD
	local line field
	line=$("$dir/native" "$2" "$3" 4096 "$4" "$ms")
	for field in $line; do
		case $field in iops=*) echo "$1 native $3 $4 ${field#iops=} 0 1 0 1 0" >>"$work/results" ;; esac
	done
}

# Rows: contenders; the ratio is to REFERENCE.
table() { # KIND REFERENCE
	sort "$work/results" | awk -v kind="$1" -v ref="$2" '
	function median(s,   v, m, i, j, t) {
		m = split(s, v, " ")
		for (i = 2; i <= m; i++)
			for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
				t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
			}
		return m % 2 ? v[(m + 1) / 2] : (v[m / 2] + v[m / 2 + 1]) / 2
	}
	$1 == kind {
		job = $3 " " $4
		if (!(job in jobs)) { jobs[job]; order[++njobs] = job }
		if (!($2 in whos)) { whos[$2]; names[++nwhos] = $2 }
		iops[job, $2] = iops[job, $2] " " $5
		kicks[job, $2] = kicks[job, $2] " " ($7 ? $6 / $7 : 0)
		cpu[job, $2] = cpu[job, $2] " " ($9 ? $8 / $9 / 1000 : 0)
		errors[$2] += $10
	}
	END {
		for (i = 1; i <= njobs; i++) {
			split(order[i], part, " ")
			printf "\n%s, %s, depth %s\n", kind, part[1], part[2]
			base = ((order[i] SUBSEP ref) in iops) ? median(iops[order[i], ref]) : 0
			for (w = 1; w <= nwhos; w++) {
				key = order[i] SUBSEP names[w]
				if (!(key in iops)) continue
				m = median(iops[key])
				printf "  %-12s %9d /s", names[w], m
				if (base) printf "  %6.2f of %s", m / base, ref
				if (names[w] != "native")
					printf "   kicks %.2f  cpu %.2f us", median(kicks[key]), median(cpu[key])
				print ""
			}
		}
		for (w in errors) if (errors[w]) printf "\nWRONG: %s gave %d wrong answers\n", w, errors[w]
	}'
}

# ---- start ----

bench_start() {
	local t0 line t1 all=()
	for _ in $(seq $((rounds * 2))); do
		exec 3< <(echo "$EPOCHREALTIME"; wherry_on pci 512 "end:poweroff" "$dir/disk.img" "$dir/share")
		read -r t0 <&3
		read -r line <&3
		t1=$EPOCHREALTIME
		cat <&3 >/dev/null
		exec 3<&-
		line=${line//[!0-9]/}
		all+=($((${t1/./} - ${t0/./} - ${line:-0})))
	done
	printf 'start: exec to first instruction of the guest, 512 MiB, a disk and a share\n'
	printf '%s\n' "${all[@]}" | sort -n | awk '
		{v[NR] = $1} END {printf "  median %.1f ms, best %.1f, worst %.1f\n", v[int((NR + 1) / 2)] / 1000, v[1] / 1000, v[NR] / 1000}'
}

# ---- memory ----

bench_memory() {
	local pid line
	exec 3< <(wherry_on pci 512 "quick blk:randread:qd=16:t=$ms fs:randread:qd=16:t=$ms fs:getattr,lookup:qd=8:t=$ms end:hang" \
		"$dir/disk.img" "$dir/share")
	pid=$!
	while IFS= read -r line <&3; do
		case $line in *"end by hang"*) break ;; esac
	done
	printf '\nmemory: private and dirty, without guest RAM (the largest mapping)\n'
	awk '/^[0-9a-f]+-/ {n++} /^Size:/ {size[n] = $2} /^Private_Dirty:/ {dirty[n] = $2; all += $2}
	     END {for (i in size) if (size[i] > size[big]) big = i
		  printf "  %d KiB\n", all - dirty[big]}' "/proc/$pid/smaps"
	kill "$pid"
	exec 3<&-
}

# ---- all ----

: >"$work/results"
bench_start
bench_memory
disks="floor wherry_pci wherry_mmio"
shares="wherry_pci wherry_mmio"
if command -v qemu-system-x86_64 >/dev/null; then
	disks="$disks qemu"
	[ -x $virtiofsd ] && shares="$shares qemu"
fi
for _ in $(seq "$rounds"); do
	for who in $disks; do
		measure disk "$who" "quick blk:randread:bs=4k:qd=1,16:t=$ms"
	done
	for who in $shares; do
		measure share "$who" "quick fs:randread:bs=4k:qd=1,16:t=$ms fs:getattr,lookup:qd=1,8:t=$ms"
	done
	for qd in 1 16; do
		native disk "$dir/disk.img" randread $qd
		native share "$dir/share/bench.dat" randread $qd
	done
	native share "$dir/share/bench.dat" getattr 1
	native share "$dir/share/bench.dat" lookup 1
done
table disk floor
table share qemu
