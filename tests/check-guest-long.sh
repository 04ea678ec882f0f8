#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-guest-long.sh [GUEST...]   the guests that take too long for every day (TAP; tests/guest/long.sh), one by one
#
# Or those that the variable GUEST names: make check-guest-long GUEST="many locks".
# Half an hour to an hour and a half in the emulated machine of tests/lab. What each guest said is kept in
# build/log/long/GUEST.tap; one that passed is not run again until wherry or the guests' files change, so that this can be
# stopped and called again. Named guests run always.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
. tests/tap.sh
log=build/log/long
mkdir -p "$log"
again=''
read -r -a names <<<"$(tests/guest/driver.sh --list-long)"
# shellcheck disable=SC2086 # words
[ $# -gt 0 ] || set -- ${GUEST:-}
[ $# -eq 0 ] || names=("$@") again=1

for release in trixie bullseye; do
	guest/kernel.sh -r $release && guest/initrd.sh -r $release || skip "guests with the kernel of $release" "it could not be fetched"
done
if ! tests/guest/debian.sh; then
	skip "guests with a Debian root directory" "it could not be made"
fi
tests/guest/rootdisk.sh || skip "the guest with a root disk" "it could not be made"
image=$top/build/guest/debian.ext4

fresh() { # it passed, and with what is here now
	[ -z "$again" ] && grep -qs '^1\.\.' "$log/$1.tap" && ! grep -q '^not ok' "$log/$1.tap" &&
		[ -z "$(find wherry guest tests/guest -newer "$log/$1.tap" -type f -print -quit)" ]
}

for name in "${names[@]}"; do
	if fresh "$name"; then
		echo "# $name: passed before"
	else
		GUEST_SECONDS=3000 GUEST_IMAGE=$image tests/check-guest.sh "$name" >"$log/$name.tmp" 2>&1 || :
		mv "$log/$name.tmp" "$log/$name.tap"
	fi
	while IFS= read -r line; do
		case $line in
		'ok '*'# skip '*) skip "$name" "${line#*# skip }" ;;
		'ok '*) ok 0 "${line#* - }" ;;
		'not ok '*) ok 1 "${line#* - }" ;;
		'1..'*) ;;
		*) echo "$line" ;;
		esac
	done <"$log/$name.tap"
	grep -q '^1\.\.' "$log/$name.tap" || ok 1 "$name came to an end"
done
tap_end
