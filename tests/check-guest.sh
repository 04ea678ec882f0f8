#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-guest.sh [GUEST...]   the guest level: stock Debian kernels under ./wherry (TAP; tests/guest/driver.sh)
#
# On a host whose KVM runs Linux directly, else in the emulated machine of tests/lab; that takes minutes.
set -eu
cd "$(dirname "$0")/.."
guest/kernel.sh vmlinux
guest/initrd.sh -m
tests/guest/fixtures.sh

if ./wherry doctor --quiet; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	tests/guest/driver.sh "$work/guests" "$@"
else
	echo "# this host's KVM does not run Linux (see: wherry doctor): the guests run in tests/lab"
	tests/lab/lab.sh -x -t 900 -- tests/guest/driver.sh /run/scratch/guests "$@"
fi
