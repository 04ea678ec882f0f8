#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh   what wherry costs, side by side with its floor, the host's own calls, and QEMU
#
# The figures are ratios and counts, never a test: contenders take turns within a round, and the median of ROUNDS (3) is
# shown; MS (200) is the time of a measurement. All of them serve guest/payload, which drives the devices from ring 3.
#
#   start    exec to the payload's first line, less what the payload itself took to get there
#   memory   private dirty memory of the process without guest RAM, after the payload has used every device
#   disk     a file in the page cache: reads and writes in order, and at random (randrw: 75 reads to 25 writes)
#   direct   the same by O_DIRECT
#   share    a directory of the host's file system
#   tmpfs    the same of one in /dev/shm: creating without a journal
#   count    instructions per request (tests/bench/count.sh), where valgrind is
#
# Goals (tests/bench/goals) are said with each row. ROWS selects, a regular expression on "start", "memory", "count" and
# KIND/OP/BYTES/DEPTH (share/randread/4096/16).
# floor: tests/bench/floor.c, a disk; sleeping when idle, and polling 50 us. native: plain system calls of one thread.
# What bounds disk rows is memory, and for writes the host's file system; what bounds direct rows is its disk. If that is
# a virtual one its figures wander, from a second to the next and with what was written before (caches and limits of its
# own): so all contenders do the same few rows one after the other, once what the last one wrote is on the disk, and
# another one is first in each round. The files are written in full before, and only overwritten.
# A host whose exits are slow makes depth 1 the same for all who sleep: depth 16, kicks and cpu say more.
# Contenders and their command lines: tests/bench/machines.sh (V=1 prints them). Every measurement is also a line of
# $BENCH_DIR/results.jsonl. WHERRY and PAYLOAD name another binary and another payload; BENCH_DIR another place for the
# data (200 MiB).
set -u
cd "$(dirname "$0")/.." || exit
rounds=${ROUNDS:-3}
ms=${MS:-200}
rows=${ROWS:-.}
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
ram=$(mktemp -d -p /dev/shm wherry-bench.XXXXXX) || exit 1
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work" "$ram"' EXIT
json=$dir/results.jsonl
round=0
. tests/bench/machines.sh
. tests/bench/measure.sh

# ---- data ----

cc=${CC:-gcc}
$cc -std=gnu17 -O2 -D_GNU_SOURCE -o "$dir/floor" tests/bench/floor.c -lpthread -luring || exit
$cc -std=gnu17 -O2 -D_GNU_SOURCE -o "$dir/native" tests/bench/native.c -luring || exit
mkdir -p "$dir/share/small" "$ram/small"
for f in disk.img direct.img share/bench.dat; do
	[ -e "$dir/$f" ] && continue
	"$payload/pattern" make "$dir/$f.new" 64M && mv "$dir/$f.new" "$dir/$f" || exit
done
cat "$dir/disk.img" "$dir/share/bench.dat" >/dev/null # into the page cache
dd of="$dir/direct.img" oflag=nocache conv=notrunc,fdatasync count=0 status=none # out of it
# What a transfer by O_DIRECT may be: where 512 bytes are less than a block of the host's disk, there is no such row.
direct_sizes=""
for n in 512 4k 64k 128k; do
	dd if="$dir/direct.img" of=/dev/null iflag=direct bs=$n count=1 status=none 2>/dev/null && direct_sizes="$direct_sizes $n"
done
[ "$direct_sizes" = " 512 4k 64k 128k" ] || echo "bench: O_DIRECT in $dir:${direct_sizes:- no sizes}: no other rows of direct"
if ! [ -s "$dir/share/small/f0999" ]; then
	"$payload/pattern" make "$dir/share/small/f0000" 4k
	for i in $(seq -f %04g 999); do cp "$dir/share/small/f0000" "$dir/share/small/f$i"; done
fi

# ---- rows: KIND=JOB of the payload; time is added to what has no number of its own ----

file_jobs() { # DEVICE
	local d=$1
	echo "$d:randread:qd=1 $d:randread:qd=16 $d:randwrite:qd=1 $d:randwrite:qd=16 $d:read:bs=128k:qd=1 $d:read:bs=128k:qd=8"
}
name_jobs="fs:getattr:qd=1 fs:getattr:qd=8 fs:lookup:qd=1 fs:lookup:qd=8 fs:stat:qd=1 fs:stat:qd=8 fs:openread:qd=1
	fs:openread:qd=8 fs:readdir:bs=32k fs:readdirplus:bs=4k fs:readdirplus:bs=32k"
# Created and unlinked in one job: virtiofsd dies when a file that is to be created is there.
create_jobs="fs:create,unlink:qd=1:files=1000 fs:create,unlink:qd=8:files=1000"
create_ram_jobs="fs1:create,unlink:qd=1:files=4000 fs1:create,unlink:qd=8:files=4000"

# KIND/OP/BYTES/DEPTH of a job's first operation, as ROWS sees it.
row_name() { # KIND JOB
	local op=${2#*:} bs=4096 qd=1 field
	for field in ${2//:/ }; do
		case $field in
		bs=*k) bs=$((${field//[!0-9]/} * 1024)) ;;
		bs=*) bs=${field#bs=} ;;
		qd=*) qd=${field#qd=} ;;
		esac
	done
	op=${op%%:*}
	case $op in getattr | lookup | stat) bs=0 ;; esac
	echo "$1/${op%%,*}/$bs/$qd"
}
select_jobs() { # KIND JOB...
	local job
	for job in "${@:2}"; do
		[[ $(row_name "$1" "$job") =~ $rows ]] || continue
		case $job in
		*files=*) echo "$1=$job" ;;
		*) echo "$1=$job:t=$ms" ;;
		esac
	done
}
# shellcheck disable=SC2046,SC2086 # words
{
	share_jobs=$(select_jobs share $(file_jobs fs) $name_jobs $create_jobs)
	tmpfs_jobs=$(select_jobs tmpfs $create_ram_jobs)
	floor_jobs=$(select_jobs share $(file_jobs blk))
	mmio_jobs=$(select_jobs share fs:randread:qd=16 fs:getattr:qd=8)
	# The same by 9P: rows of their own, 9p/... and 9ptmpfs/...
	p9_jobs=$(sed 's/share=fs/9p=9p/g; s/tmpfs=fs/9ptmpfs=9p/g' <<<"$share_jobs $tmpfs_jobs")
	dax_jobs=$(select_jobs share fs:daxread)
}

# The calls of the host that do what jobs do.
native_jobs() { # KIND=JOB...
	local job kind path op bs qd direct
	for job in "$@"; do
		direct=""
		kind=${job%%=*}
		IFS=/ read -r _ op bs qd < <(row_name "$kind" "${job#*=}")
		case $kind/$op in
		disk/*) path=$dir/disk.img ;;
		direct/*) path=$dir/direct.img direct=direct ;;
		share/stat | share/openread | share/create | share/readdir*) path=$dir/share/small ;;
		tmpfs/*) path=$ram/small ;;
		*) path=$dir/share/bench.dat ;;
		esac
		# Without data more depth is more threads, which this is not about; the table has the row of depth 1 above.
		[ "$qd" = 1 ] || [[ $op =~ ^(rand)?(read|write|rw)$ ]] || continue
		native "$kind" "$path" "$op" "$bs" "$qd" $direct
		[ "$op" != create ] || native "$kind" "$path" unlink 0 "$qd"
	done
}

# ---- disks: blocks of rows that contenders take turns in ----

block_jobs() { # KIND BLOCK
	local op bs qd sizes="512 4k 64k 128k"
	[ "$1" = disk ] || sizes=$direct_sizes
	case $2 in
	random)
		[[ " $sizes " == *" 4k "* ]] || return 0
		for op in randread randwrite randrw; do for qd in 1 16 64; do echo "blk:$op:qd=$qd"; done; done
		;;
	*) for bs in $sizes; do for qd in 1 2 3; do echo "blk:$2:bs=$bs:qd=$qd"; done; done ;;
	esac
}
disk_block() { # KIND BLOCK WHO...
	local kind=$1 block=$2 jobs who n
	shift 2
	# shellcheck disable=SC2046
	mapfile -t jobs < <(select_jobs "$kind" $(block_jobs "$kind" "$block"))
	[ ${#jobs[@]} -gt 0 ] || return 0
	for n in $(seq $#); do
		n=$(((n + round - 2) % $# + 1)) # in their order in the first round
		who=${!n}
		sync "$dir/$kind.img"
		case $who in
		native) native_jobs "${jobs[@]}" ;;
		qemu) [ -z "$have_qemu" ] || measure "${kind}_$who" "${jobs[@]}" ;;
		*) measure "${kind}_$who" "${jobs[@]}" ;;
		esac
	done
}
disk_round() {
	local kind block
	for kind in disk direct; do
		for block in read write; do
			disk_block $kind $block wherry qemu native
		done
	done
	disk_block disk random wherry wherry_sleep wherry_mmio floor_sleep floor_poll qemu native
	disk_block direct random wherry wherry_sleep floor_sleep floor_poll qemu native
}

# ---- start ----

bench_start() {
	local t0 line t1 all=()
	for _ in $(seq $((rounds * 3))); do
		exec 3< <(echo "$EPOCHREALTIME"; wherry_on pci 512 "end:poweroff" "$(drive "$dir/disk.img"), $(shares fs "$dir/share")" </dev/null)
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
		"$(drive "$dir/disk.img"), $(shares fs "$dir/share")" </dev/null)
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

# How much of the machine others take, in percent: nothing of ours runs. They take it from those first who want two CPUs.
others() {
	local a b
	a=$(sed -n 1p /proc/stat)
	sleep 1
	b=$(sed -n 1p /proc/stat)
	awk '{for (i = 2; i <= 9; i++) {d = $i - was[i]; was[i] = $i; all += d; if (i == 5 || i == 6) idle += d}
		if (NR == 1) all = idle = 0} END {print all ? int(100 - 100 * idle / all) : 0}' <<<"$a"$'\n'"$b"
}

have_qemu='' have_virtiofsd=''
command -v qemu-system-x86_64 >/dev/null && have_qemu=1
[ "$have_qemu" ] && [ -x $virtiofsd ] && have_virtiofsd=1
[ "$have_qemu" ] || echo "bench: no qemu-system-x86_64: no ratios to it"

mkfifo "$work/keys" || exit
: >"$work/results"
: >"$json"
[[ start =~ $rows ]] && bench_start
[[ memory =~ $rows ]] && bench_memory
busy=""
# shellcheck disable=SC2086 # words
for round in $(seq "$rounds"); do
	busy="$busy $(others)%"
	disk_round
	measure share_wherry $share_jobs $tmpfs_jobs $p9_jobs
	measure share_wherry_mmio $mmio_jobs
	measure share_wherry_sleep $share_jobs $tmpfs_jobs $p9_jobs
	measure share_wherry_dax $dax_jobs
	measure disk_floor_sleep $floor_jobs
	measure disk_floor_poll $floor_jobs
	[ "$have_virtiofsd" ] && measure share_qemu_auto $share_jobs $tmpfs_jobs
	[ "$have_virtiofsd" ] && measure share_qemu_none $share_jobs $tmpfs_jobs
	[ "$have_qemu" ] && measure share_qemu_9p $p9_jobs
	native_jobs $share_jobs $tmpfs_jobs
done
for f in disk.img direct.img share/bench.dat; do
	"$payload/pattern" check "$dir/$f" || echo "WRONG: $f is not what was written to it"
done
tests/bench/table.awk tests/bench/goals "$work/results"
printf '\nof the CPUs others took, before each round:%s\n' "$busy"
[[ count =~ $rows ]] && tests/bench/count.sh
exit 0
