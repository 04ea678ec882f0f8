#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-fssuite.sh   the file system suite on this host's own file systems, where it must find nothing (TAP)
#
# The guests run it on their shares (guest/test/posix.sh); what it says there is worth as much as what is shown here. As
# root and as a plain user, on a directory of this tree and on a tmpfs, where these are file systems it knows.
set -u
cd "$(dirname "$0")/.." || exit 1
top=$PWD
. tests/tap.sh
# shellcheck source=guest/initramfs.sh
. guest/initramfs.sh
work=$(mktemp -d) || exit 1
mkdir -p build || exit 1
tree=$(mktemp -d build/fssuite.XXXXXX) shm=$(mktemp -d /dev/shm/fssuite.XXXXXX)
trap 'rm -rf "$work" "$tree" "$shm"' EXIT
suite=$work/fssuite
guest_fssuite "$suite"
ok $? "the suite builds without a warning"
chmod 755 "$work"
chmod 777 "$tree" "$shm"

number() { # PREFIX: the suite's lines, with numbers
	local line
	while IFS= read -r line; do
		case $line in
		'@@ ok '*) ok 0 "$1: ${line#@@ ok }" ;;
		'@@ not ok '*) ok 1 "$1: ${line#@@ not ok }" ;;
		'@@ skip '*) skip "$1" "${line#@@ skip }" ;;
		*) echo "# $line" ;;
		esac
	done <"$work/log"
}

# CAP_LINUX_IMMUTABLE and CAP_SYS_ADMIN, which root of a container often has not
all_powers() {
	local has
	has=$(awk '/^CapEff/ { print $2 }' /proc/self/status)
	[ $((0x$has >> 9 & 0x$has >> 21 & 1)) = 1 ]
}

can_mknod() {
	mknod "$1/device" c 1 3 2>/dev/null && rm "$1/device"
}

run() { # NAME DIR LACKS COMMAND...
	local name=$1 dir=$2 lacks=$3 status=0
	shift 3
	can_mknod "$dir" || lacks=$lacks,devices,whiteout
	"$@" "$suite" -n "$lacks" "$dir" >"$work/log" 2>&1 || status=$?
	number "$name"
	ok $status "$name: nothing was found"
}

on() { # NAME DIR LACKS
	local user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	if [ "$(id -u)" -ne 0 ]; then
		run "$1" "$2" "$3"
		skip "the suite as root on $1" "not root"
		return
	fi
	if all_powers; then run "$1" "$2" "$3"; else run "$1" "$2" "$3,trusted"; fi
	run "$1, plain user" "$2" "$3" "${user[@]}"
}

case $(stat -f -c %T "$tree") in
ext2/ext3) on ext4 "$tree" "" ;;
xfs) on xfs "$tree" "flags" ;;
*) skip "the suite in this tree" "it is on $(stat -f -c %T "$tree"), which the suite was not proven on" ;;
esac
if [ "$(stat -f -c %T "$shm")" = tmpfs ]; then
	on tmpfs "$shm" zero,collapse,tail
else
	skip "the suite on a tmpfs" "/dev/shm is none"
fi

# A suite that cannot say no would say yes to everything.
"$suite" -n xattr,tmpfile,copy -c xattr_refused,tmpfile_refused,many,copy "$tree" >"$work/log"
[ $? -eq 1 ] && [ "$(grep -c '^@@ not ok' "$work/log")" -ge 1 ] && grep -q '^@@ ok a large directory' "$work/log" &&
	grep -q '^@@ skip 1 checks' "$work/log"
ok $? "what is there against all announcements is found"
[ -z "$(ls -A "$tree")$(ls -A "$shm")" ]
ok $? "nothing is left behind"
tap_end
