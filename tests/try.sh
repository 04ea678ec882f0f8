#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# try.sh   what `make try` shows: configs/shared-dir.json, with a file going each way
#
# Runs it where ./wherry stands; on a host whose KVM does not run Linux, in the emulated machine of
# tests/lab. Exit status 0 only when the guest powered off and everything was seen to work.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
try=$top/build/try
export PATH=$PATH:/usr/sbin:/sbin # a plain user may not have them
token="a line from $(uname -n), number $RANDOM$RANDOM"

# Inside the lab the tree is read-only: the same relative paths, in a place that can be written.
if [ "${1:-}" = --in-lab ]; then
	mkdir -p /run/try/build
	cp -r "$try" /run/try/build/
	ln -s "$top/build/kernel" "$top/build/guest" /run/try/build/
	cd /run/try
	"$top/wherry" boot "$top/configs/shared-dir.json" -t 120 || exit
	cp build/try/share/from-guest.txt /run/out/
	exit
fi

guest/initrd.sh
rm -rf "$try"
mkdir -p "$try/share"
echo "$token" >"$try/share/from-host.txt"
truncate -s 64M "$try/disk.ext4"
mke2fs -q -F -t ext4 "$try/disk.ext4"

status=0 kvm=0
log=$try/console.log
./wherry doctor --quiet || kvm=$?
if [ $kvm = 0 ]; then
	echo "== wherry boot configs/shared-dir.json"
	./wherry boot configs/shared-dir.json -t 120 </dev/null 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
else
	case $kvm in
	11) why="This user has no right to open /dev/kvm" ;;
	*) why="This host's KVM does not run Linux" ;;
	esac
	echo "$why (see: ./wherry doctor), so this is done in an emulated machine that has one."
	echo "== wherry boot configs/shared-dir.json"
	tests/lab/lab.sh -o "$try/out" -t 200 -- tests/try.sh --in-lab 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
	cp "$try/out/from-guest.txt" "$try/share/" 2>/dev/null || :
fi

missing() {
	echo "try: $*" >&2
	exit 1
}
[ "$status" = 0 ] || missing "wherry ended with status $status"
grep -aqF "from-host.txt says: $token" "$log" || missing "the guest did not read the host's file"
grep -aq 'the disk gave back' "$log" || missing "the guest did not use the disk"
grep -aqsF "$token" "$try/share/from-guest.txt" || missing "the host does not see the guest's file"
echo "== on the host, build/try/share/from-guest.txt:"
cat "$try/share/from-guest.txt"
