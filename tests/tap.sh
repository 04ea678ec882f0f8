# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# tap.sh: the words of test scripts, as tap.h is for programs; sourced. A script ends with `tap_end`.
n=0
failed=0
ok() { # STATUS NAME...: as a test's result
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - ${*:2}"
	else
		echo "not ok $n - ${*:2}"
		failed=1
	fi
}
skip() { # NAME WHY: it cannot be tested here
	n=$((n + 1))
	echo "ok $n - # skip $1: $2"
}
tap_end() {
	echo "1..$n"
	exit $failed
}
