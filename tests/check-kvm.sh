#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-kvm.sh   guest/payload under ./wherry: exits, doorbells, interrupts, both transports, every device (TAP)
#
# The payload needs only a /dev/kvm that runs ring-3 code. Each row of runs is one machine; the payload's own test lines
# are passed on with new numbers, then the host looks at what the guest has left on its disk and in its share.
# WHERRY and PAYLOAD name another binary and another folder with the payload.
# shellcheck disable=SC2317,SC2012 # called by name; names are our own
set -u
cd "$(dirname "$0")/.." || exit
wherry=$(realpath "${WHERRY:-./wherry}") || exit 1
payload=$(realpath "${PAYLOAD:-build/payload}") || exit 1
limit=60 # seconds for a machine; one takes about 1

# transport, engine, kernel, vCPUs, MiB, request queues of the share, options of the payload
runs="pci uring payload.elf 1 64 1
mmio epoll payload.elf 1 64 3
pci epoll payload.bz 4 5120 4 noindirect noevent
mmio uring payload.bz 2 512 1 noevent"

. tests/tap.sh
try() { # NAME COMMAND...: the test passes if the command does
	local name=$1
	shift
	"$@" >"$work/try" 2>&1
	ok $? "$name"
	sed 's/^/#   /' "$work/try"
}
skip_all() {
	skip check-kvm "$*"
	tap_end
}

[ -e /dev/kvm ] || skip_all "there is no /dev/kvm"
{ [ -r /dev/kvm ] && [ -w /dev/kvm ]; } || skip_all "no right to use /dev/kvm"

work=$(mktemp -d) || exit 1
lease=
trap 'kill $(jobs -p) $lease 2>/dev/null; rm -rf "$work"' EXIT
${CC:-gcc} -std=gnu17 -O2 -D_GNU_SOURCE -o "$work/lease" tests/lease.c || exit 1

prepare() { # the host's side of a machine, in $work/m
	rm -rf "$work/m"
	mkdir -p "$work/m/share" "$work/m/share9" "$work/m/ro" "$work/m/outside"
	"$payload/pattern" make "$work/m/disk.img" 8M
	"$payload/pattern" make "$work/m/ro.img" 4M
	"$payload/pattern" make "$work/m/share/from-host.dat" 300007
	cp "$work/m/share/from-host.dat" "$work/m/ro/"
	cp "$work/m/share/from-host.dat" "$work/m/share9/"
	echo "not for the guest" >"$work/m/outside/secret"
	ln -s ../outside "$work/m/share/outside"
	ln -s ../outside "$work/m/share9/outside"
}

config() { # TRANSPORT KERNEL VCPUS MIB BOOT_ARGS [QUEUES]
	cat >"$work/m/config.json" <<-END
	{
		"boot-source": {"kernel_image_path": "$payload/$2", "boot_args": "$5"},
		"machine-config": {"vcpu_count": $3, "mem_size_mib": $4, "transport": "$1"},
		"entropy": {},
		"drives": [
			{"drive_id": "disk0", "path_on_host": "$work/m/disk.img"},
			{"drive_id": "disk1", "path_on_host": "$work/m/ro.img", "is_read_only": true}
		],
		"fs": [
			{"tag": "share", "path": "$work/m/share", "dax": 4, "queues": ${6:-1}, "locks": "host"},
			{"tag": "ro", "path": "$work/m/ro", "readonly": true, "dax": 2}
		],
		"p9": [
			{"tag": "share9", "path": "$work/m/share9", "locks": "host"},
			{"tag": "ro9", "path": "$work/m/ro", "readonly": true}
		]
	}
	END
}

boot() { # [ENV=VALUE...]: the machine; its console in $work/console, what wherry says in $work/stderr
	env "$@" timeout -k 5 $((limit + 10)) "$wherry" boot "$work/m/config.json" -t $limit \
		</dev/null >"$work/console" 2>"$work/stderr"
}

pass_on() { # PREFIX: the guest's test lines
	local line plan=-1 count=0
	while IFS= read -r line; do
		case $line in
		"ok "*)
			count=$((count + 1))
			ok 0 "$1: ${line#* - }"
			;;
		"not ok "*)
			count=$((count + 1))
			ok 1 "$1: ${line#* - }"
			;;
		"#"*) echo "$line" ;;
		"1.."*) plan=${line#1..} ;;
		"Bail out!"*) ok 1 "$1: $line" ;;
		esac
	done <"$work/console"
	[ "$plan" = "$count" ]
	ok $? "$1: the payload came to its end ($count tests, planned $plan)"
}

left_on_disk() {
	[ "$(stat -c %s "$work/m/disk.img")" = $((8 << 20)) ] &&
		"$payload/pattern" check "$work/m/disk.img" 0 1M &&
		"$payload/pattern" check "$work/m/disk.img" 1M 1M 42 &&
		"$payload/pattern" check "$work/m/disk.img" 2M 6M
}
left_in() { # SHARE
	local g=$work/m/$1/guest
	[ "$(ls -A "$g" | tr '\n' ' ')" = "dir hard kept.dat moved.dat soft " ] && [ -z "$(ls -A "$g/dir")" ] &&
		[ "$(stat -c '%s %a %h' "$g/kept.dat")" = "200123 600 2" ] && [ "$g/hard" -ef "$g/kept.dat" ] &&
		[ "$(readlink "$g/soft")" = kept.dat ] && [ "$(stat -c %s "$g/moved.dat")" = 8192 ] &&
		"$payload/pattern" check "$g/kept.dat" 0 200123 7 && "$payload/pattern" check "$g/moved.dat" 0 8k 8
}
untouched() {
	"$payload/pattern" check "$work/m/ro.img" && "$payload/pattern" check "$work/m/share/from-host.dat" &&
		cmp "$work/m/ro/from-host.dat" "$work/m/share/from-host.dat" &&
		cmp "$work/m/share9/from-host.dat" "$work/m/share/from-host.dat" &&
		[ "$(ls -A "$work/m/ro")" = from-host.dat ] && [ "$(ls -A "$work/m/outside")" = secret ]
}
# The only words are those about the driver that breaks the rules, once per device, and about the end of a mapped file.
said_little() {
	! grep -Ev '(blk0|fs0|9p0): queue [0-9]+: the driver broke the rules|fs0: a file was cut short' "$work/stderr" &&
		[ "$(wc -l <"$work/stderr")" -le 4 ] && [ "$(grep -c 'broke the rules' "$work/stderr")" = 3 ]
}

everything() { # TRANSPORT ENGINE KERNEL VCPUS MIB QUEUES OPTIONS...
	local name="$1 $2 $3" status jobs
	jobs="rng:test blk:test:id=disk0 blk1:testro fs:test fs1:testro fs:more fs:queues:queues=$6 fs:dax fs1:daxro 9p:test 9p1:testro blk:ring,reset,registers,irq host:test"
	prepare
	config "$1" "$3" "$4" "$5" "${*:7} $jobs" "$6"
	boot WHERRY_ENGINE="$2"
	status=$?
	pass_on "$name"
	ok $status "$name: wherry's exit status is 0 ($status)"
	try "$name: wherry says what it must and no more" said_little
	try "$name: the host finds on the disk what the guest wrote" left_on_disk
	try "$name: the host finds in the share what the guest left" left_in share
	try "$name: and in the one by 9p" left_in share9
	try "$name: nothing else was touched" untouched
}

ends() { # STATUS HOW [FLAGS]: one way for a machine to end
	local status
	config "${3:-pci}" payload.elf 1 32 "end:$2"
	boot -- >/dev/null
	status=$?
	[ $status = "$1" ]
	ok $? "end by $2: the exit status is $1 ($status)"
}

while read -r row; do
	# shellcheck disable=SC2086
	everything $row
done <<<"$runs"

prepare
ends 0 poweroff
ends 0 acpi-reset
ends 0 pci-reset
ends 0 i8042-reset mmio
ends 120 panic
ends 121 triple-fault
limit=1
ends 124 hang

# Ended from outside.
config pci payload.elf 1 32 end:hang
rm -f "$work/console" # what the last machine said must not be taken for this one's
"$wherry" boot "$work/m/config.json" -v </dev/null >"$work/console" 2>"$work/stderr" &
pid=$!
says() { # FILE WORDS: within some seconds
	for _ in $(seq 100); do
		grep -qs "$2" "$work/$1" && return
		sleep 0.05
	done
	return 1
}
says console 'end by hang'
truncate -s 9M "$work/m/disk.img"
kill -USR1 $pid
says stderr 'drive "disk0" has 9437184 bytes now'
ok $? "a machine that is sent SIGUSR1 looks at its drives again"
kill -TERM $pid
wait $pid
status=$?
[ $status = 143 ]
ok $? "a machine that is sent SIGTERM ends with status 143 ($status)"

# The guest's open of a host's file that does not come back, as on a hung network share: tests/lease.c holds it for 45 s.
name="a share that hangs"
prepare
config pci payload.elf 1 32 fs:test
exec 7< <(exec "$work/lease" "$work/m/share/from-host.dat" 2>&1)
lease=$!
read -r word <&7
if [ "$word" = held ]; then
	"$wherry" boot "$work/m/config.json" </dev/null >"$work/console" 2>"$work/stderr" &
	pid=$!
	read -r -t 20 word <&7
	[ "$word" = wanted ]
	ok $? "$name: the guest waits for it"
	start=$SECONDS
	kill -TERM $pid
	wait $pid
	status=$?
	[ $status = 143 ] && [ $((SECONDS - start)) -lt 25 ]
	ok $? "$name: the machine ends with its own status all the same ($status)"
	grep -q 'did not stop' "$work/stderr"
	ok $? "$name: and says why that took so long"
else
	n=$((n + 1))
	echo "ok $n - # skip $name: no lease there: $word"
fi

tap_end
