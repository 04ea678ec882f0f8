#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lab.sh [-o OUT] [-t SEC] [-c CPUS] [-x] [-i IMAGE] -- COMMAND...   run COMMAND on an emulated machine with a real /dev/kvm
#
# For hosts whose own KVM is missing or cannot run Linux. The machine is QEMU emulating a CPU with AMD
# SVM and nested paging: one CPU, 4 GiB. The host's / is its root, read-only; /run is a tmpfs (TMPDIR),
# and /tmp is the host's, so read-only too. COMMAND is read by bash, in the same directory as here, with
# stdin from /dev/null; its output is streamed and its exit status is lab.sh's.
#   -o OUT   the host's directory OUT is /run/out, read-write
#   -t SEC   give up after SEC seconds (default 600), or when the machine has stood still for 90 (its emulated interrupts
#            get stuck now and then): status 124
#   -i IMAGE a copy of that ext4 image of 3 GiB at /run/scratch
#   -x       a fresh ext4 of 3 GiB at /run/scratch. Files under test belong there or in /run, not on the
#            root, which is QEMU's 9p
# 125: the lab itself failed. The first call boots the machine and keeps a snapshot in $LAB_DIR (default
# build/lab); later ones resume it in about a second.
# shellcheck disable=SC2317,SC2054 # called by trap and by wait_for; commas are QEMU's
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
lab=${LAB_DIR:-$top/build/lab}
# QEMU's SVM does not let KVM see XSETBV, so a guest's XSAVE state would not be what KVM takes it for.
# And MWAIT does not wait: an idle CPU would take one of the host's. One CPU, since with two the emulator is not faultless:
# whenever one of them stops the other to do something alone (CMPXCHG16B does, which the kernel's allocator would use), and
# that one is between two worlds, the guest gets an interrupt twice, or the kernel a world switch, and dies. What two CPUs
# would save is less than what their deaths cost.
cpu=max,+svm,-la57,-xsave,-monitor,-cx16
accel=tcg,thread=multi,tb-size=2048
append="console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check nokaslr audit=0 apparmor=0 random.trust_cpu=on"
memory=4096M cpus=1
limit=600 out='' scratch='' pids=''

die() {
	echo "lab: $*" >&2
	exit 125
}

cleanup() {
	local pid
	for pid in $pids; do kill "$pid" 2>/dev/null || :; done
	wait 2>/dev/null || :
	rm -rf "$run"
}

# Sets qemu to the machine's command line: $1 is its memory, $2 the directory for OUT, $3 the disk.
machine() {
	qemu=(qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot
		-M "q35,memory-backend=m,hpet=off,vmport=off" -accel "$accel" -cpu "$cpu" -smp "$cpus" -m "$memory"
		-object "$1" -kernel "$top/build/kernel/vmlinuz" -initrd "$lab/l1.gz" -append "$append"
		-chardev "file,id=ser,path=$run/serial" -serial chardev:ser
		-chardev stdio,id=port,signal=off -device virtio-serial-pci -device virtserialport,chardev=port,name=lab
		-fsdev "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"
		-device virtio-9p-pci,fsdev=host,mount_tag=host
		-fsdev "local,id=ctl,path=$run/ctl,security_model=none" -device virtio-9p-pci,fsdev=ctl,mount_tag=ctl
		-fsdev "local,id=out,path=$2,security_model=none,multidevs=remap"
		-device virtio-9p-pci,fsdev=out,mount_tag=out
		-drive "if=none,id=disk,format=raw,file=$3,cache=unsafe" -device virtio-blk-pci,drive=disk
		-device isa-debug-exit,iobase=0xf4,iosize=4
		-chardev "pipe,id=mon,path=$run/mon" -mon chardev=mon)
}

# The monitor's two pipes: commands go to descriptor 9, answers into $run/mon.log.
monitor_open() {
	cat "$run/mon.out" >"$run/mon.log" &
	pids="$pids $!"
	exec 9<>"$run/mon.in"
}

monitor() { printf '%s\n' "$@" >&9; }

# wait_for SEC COMMAND...: until COMMAND succeeds; fails at once when the machine has ended
wait_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] && kill -0 "$machine" 2>/dev/null || return 1
		sleep 0.1
	done
}

migrated() {
	monitor "info migrate"
	grep -aq 'status: \(completed\|failed\)' "$run/mon.log"
}

snapshot_make() {
	find "$lab" -name 'snap.*' -delete
	truncate -s 3G "$run/disk"
	machine "memory-backend-file,id=m,size=$memory,mem-path=$snap.ram,share=on" "$run/ctl" "$run/disk"
	monitor_open
	timeout 180 "${qemu[@]}" <>"$run/in" >"$run/port" 2>"$run/qemu.err" &
	machine=$! pids="$pids $!"
	wait_for 170 grep -aqs LABREADY "$run/port" || {
		tail -n 20 "$run/serial" "$run/qemu.err" >&2 || :
		die "the machine did not come up"
	}
	grep -av LABREADY "$run/port" >&2 && die "the machine is not fit"
	# RAM stays in its file; only the devices' state is written.
	monitor "migrate_set_capability x-ignore-shared on" "migrate \"exec:cat > '$snap.tmp'\""
	wait_for 60 migrated || die "no snapshot: $(tail -n 3 "$run/mon.log")"
	grep -aq 'status: completed' "$run/mon.log" || die "no snapshot: $(tail -n 3 "$run/mon.log")"
	monitor quit
	wait "$machine" || :
	mv "$snap.tmp" "$snap.state"
}

# A word sent to a port that is just being restored can be lost: repeat until it was heard.
say_go() {
	local i
	for i in $(seq 150); do
		[ -e "$run/ctl/heard" ] && return
		echo "go $(date +%s) $i" >&8
		sleep 0.2
	done
}

# Ends a machine whose heart has stopped.
watch_beat() {
	while sleep 5; do
		[ -e "$run/ctl/beat" ] && [ $(($(date +%s) - $(stat -c %Y "$run/ctl/beat"))) -gt 90 ] || continue
		echo "lab: the machine stands still" >&2
		touch "$run/still"
		kill -KILL "$machine" $(pgrep -P "$machine")
		return
	done
}

while getopts o:t:c:xi: option; do
	case $option in
	o) out=$OPTARG ;;
	t) limit=$OPTARG ;;
	c) cpus=$OPTARG ;;
	x) scratch=$lab/scratch.ext4 ;;
	i) scratch=$OPTARG ;;
	*) die "usage: lab.sh [-o OUT] [-t SEC] [-c CPUS] [-x] [-i IMAGE] -- COMMAND..." ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || die "usage: lab.sh [-o OUT] [-t SEC] [-c CPUS] [-x] [-i IMAGE] -- COMMAND..."
case $PWD/ in /run/* | /proc/* | /sys/* | /dev/*) die "$PWD is not seen inside: call it from elsewhere" ;; esac

"$top/tests/lab/prep.sh" || die "cannot prepare $lab"
run=$(mktemp -d "$lab/run.XXXXXX") || die "cannot make a directory in $lab"
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
mkdir "$run/ctl"
mkfifo "$run/mon.in" "$run/mon.out" "$run/in" "$run/out"
if [ -n "$out" ]; then mkdir -p "$out" && out=$(cd "$out" && pwd); else out=$run/ctl; fi

snap=$lab/snap.$(echo "$(qemu-system-x86_64 --version) $cpu $cpus $accel $append $memory $(cat "$lab/l1.gz" "$0" | cksum)" | cksum | cut -d' ' -f1)
exec 7>"$lab/lock"
flock 7 # one snapshot at a time
[ -s "$snap.state" ] || snapshot_make
exec 7>&-

printf 'cd %q\n%s\n' "$PWD" "$*" >"$run/ctl/command"
if [ -n "$scratch" ]; then
	touch "$run/ctl/want-scratch"
	cp --sparse=always "$scratch" "$run/disk"
else
	truncate -s 3G "$run/disk"
fi
machine "memory-backend-file,id=m,size=$memory,mem-path=$snap.ram,share=off" "$out" "$run/disk"
monitor_open
monitor "migrate_set_capability x-ignore-shared on" "migrate_incoming \"exec:cat '$snap.state'\""
exec 8<>"$run/in" # stays open: the port closes at the end of its input
say_go &
pids="$pids $!"
grep -a --line-buffered -v '^LABREADY' <"$run/out" &
reader=$!
# In the background, so that a signal to this script ends the machine at once.
timeout -k 5 "$limit" "${qemu[@]}" -incoming defer <&8 >"$run/out" 2>"$run/qemu.err" &
machine=$! pids="$pids $!"
watch_beat &
pids="$pids $!"
status=0
wait "$machine" || status=$?
wait "$reader" || :
[ ! -e "$run/still" ] || exit 124
[ -s "$run/ctl/status" ] && exit "$(cat "$run/ctl/status")"
[ "$status" = 124 ] && { echo "lab: the command had not ended after $limit seconds" >&2; exit 124; }
tail -n 20 "$run/serial" "$run/qemu.err" >&2 || :
die "the machine ended without a status (QEMU's: $status)"
