#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-guest.sh [GUEST...]   the guest level: stock Debian kernels under ./wherry (TAP; tests/guest/driver.sh)
#
# On a host whose KVM runs Linux directly, else in the emulated machine of tests/lab; that takes ten minutes. The
# emulator is not faultless: its machine may die or stand still under the tests, which says nothing of them. What has
# finished by then counts, the rest runs in a fresh machine; each such end is a line among the skipped ones. Six in a row
# in which not one guest came to its end are a failure.
# GUEST_SECONDS: how long that machine may take; GUEST_IMAGE: what its disk begins as.
set -eu
cd "$(dirname "$0")/.."
guest/kernel.sh vmlinux
guest/initrd.sh -m
tests/guest/fixtures.sh

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

kvm=0
./wherry doctor --quiet || kvm=$?
if [ $kvm = 0 ]; then
	tests/guest/driver.sh "$work/guests" "$@"
	exit
fi
case $kvm in
11) why="no right to open /dev/kvm" ;;
*) why="this host's KVM does not run Linux" ;;
esac
echo "# $why (see: wherry doctor): the guests run in tests/lab"

lives=6 left_lives=6 count=0 failed=0
disk=(-x)
[ ! -s "${GUEST_IMAGE:-}" ] || disk=(-i "$GUEST_IMAGE")
[ $# -gt 0 ] || read -r -a names <<<"$(tests/guest/driver.sh --list)"
[ $# -eq 0 ] || names=("$@")

# The driver's lines of one guest, with what it says after them where something failed.
lines_of() {
	awk -v name="$1" '/^(not )?ok [0-9]+ - / { mine = index($0, " - " name ": ") || index($0, " - # skip " name ": ") } /^1\.\./ { next } mine' "$2"
}

# Lines numbered anew. A guest has come to its end when there is a line "# NAME: N s".
give() {
	local line
	while IFS= read -r line; do
		case $line in
		"ok "*) line="ok $((count += 1)) - ${line#* - }" ;;
		"not ok "*)
			failed=1
			line="not ok $((count += 1)) - ${line#* - }"
			;;
		esac
		printf '%s\n' "$line"
	done
}

while [ ${#names[@]} -gt 0 ]; do
	status=0
	tests/lab/lab.sh "${disk[@]}" -t "${GUEST_SECONDS:-1500}" -- tests/guest/driver.sh /run/scratch/guests "${names[@]}" >"$work/log" 2>&1 || status=$?
	left=()
	for name in "${names[@]}"; do
		if grep -qaE "^# $name: [0-9]+ s" "$work/log"; then
			lines_of "$name" "$work/log" >"$work/one"
			give <"$work/one"
		else
			left+=("$name")
		fi
	done
	grep -a '^ok [0-9]* - # skip counting' "$work/log" >"$work/one" && give <"$work/one"
	[ ${#left[@]} -gt 0 ] || break
	[ ${#left[@]} -eq ${#names[@]} ] || left_lives=$lives
	names=("${left[@]}")
	# 125: it died; 124: it stood still; 75: it killed them. Any other end without these guests is the tests' own.
	if [[ $status != @(125|124|75) ]] || [ $((--left_lives)) -eq 0 ]; then
		tail -n 40 "$work/log" | sed 's/^/# /'
		echo "not ok $((count += 1)) - these guests came to an end: ${names[*]} (the lab's status is $status)"
		failed=1
		break
	fi
	tail -n 5 "$work/log" | sed 's/^/# /'
	echo "ok $((count += 1)) - # skip the lab's machine lived: it ended with $status before these guests did, which run again: ${names[*]}"
done
echo "1..$count"
exit $failed
