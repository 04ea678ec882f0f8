#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# count.sh [TOP]   instructions and system calls of a device's thread per request, for a share and a disk,, counted by valgrind's callgrind
#
# Unlike times these figures hardly change from run to run, or with what else the machine does: they show what a change
# costs. Instructions are ours, not the kernel's. TOP: so many of the most expensive functions follow each line.
# readdir, readdirplus and forget are per entry. CC and O as for make.
set -u
cd "$(dirname "$0")/../.." || exit
top=${1:-0}
cc=${CC:-gcc}
out=${O:-build/release}
command -v valgrind >/dev/null || {
	echo "count: no valgrind (apt-get install valgrind)" >&2
	exit 0
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
make --no-print-directory CC="$cc" O="$out" "$out/libwherry.a" "$out/tests/fakeguest.o" >/dev/null || exit

count() { # DEVICE
	mkdir "$work/$1"
	# shellcheck disable=SC2046 # words
	$cc -std=gnu17 -D_GNU_SOURCE -O2 -g -I"$out" -o "$work/count_$1" "tests/bench/count_$1.c" "$out/tests/fakeguest.o" "$out/libwherry.a" \
		$(pkg-config --libs libseccomp liburing json-c) -lpthread || exit
	# A filter would not let valgrind's own calls pass, and it runs one thread at a time, which a ring may wait for without end;
	# requests are made the same way in both engines.
	WHERRY_SECCOMP=off WHERRY_ENGINE=epoll valgrind --tool=callgrind --separate-threads=yes \
		--collect-systime=nsec --callgrind-out-file="$work/$1.out" "$work/count_$1" "$work/$1" >"$work/log" 2>&1 || {
		tail -n 20 "$work/log" >&2
		exit 1
	}
}

show() { # DEVICE
	local f name n=
	printf 'count: per request on the %s'"'"'s thread\n  %-20s %12s %12s\n' "$1" "" instructions "system calls"
	for f in $(printf "%s\n" "$work/$1".out.* | sort -V); do
		read -r name n < <(sed -n 's/^desc: Trigger: .*count \([^ ]*\) \([0-9]*\)$/\1 \2/p' "$f")
		[ "${n:-}" ] || continue
		awk -v name="$name" -v n="$n" '
			/^events:/ {for (i = 2; i <= NF; i++) {if ($i == "Ir") ir = i; if ($i == "sysCount") sys = i}}
			/^(summary|totals):/ {total = $ir; calls = sys ? $sys : 0}
			END {printf "  %-20s %12.0f %12.2f\n", name, total / n, calls / n}' "$f"
		[ "$top" = 0 ] || callgrind_annotate --threshold=100 --show=Ir --show-percs=no "$f" 2>/dev/null |
			sed -n 's/^ *\([0-9,]*\)  \([^ ]*:[^ ]*\).*/\1 \2/p' | grep -Ev 'clone.S:|:start_thread|PROGRAM' | head -n "$top" |
			awk -v n="$n" '{gsub(",", "", $1); printf "      %8.0f  %s\n", $1 / n, $2}'
		n=
	done
}

for device in share disk; do
	count "$device"
	show "$device"
done
