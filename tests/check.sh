#!/bin/bash
# check.sh: every level of test there is, cheapest first; what one level finds does not stop the next. Closes with one
# line over all of them: N passed, N failed, N skipped.
set -u
cd "$(dirname "$0")/.."
TALLY=$(mktemp)
export TALLY
trap 'rm -f $TALLY' EXIT
one() { # a step that is one test: it passes or fails as a whole
	local start=$SECONDS log=build/log/step-$1.log
	mkdir -p build/log
	if "${@:2}" >"$log" 2>&1; then
		echo "1 0 0" >>"$TALLY"
		echo "  $1: passed, $((SECONDS - start)) s"
	else
		echo "0 1 0" >>"$TALLY"
		echo "  $1: FAILED"
		tail -n 30 "$log" | sed 's/^/    | /'
	fi
}
level() { # a level that counts by itself
	echo "== $1"
	make --no-print-directory "$1" 2>&1 | grep -v -e '^  CC ' -e '^  LD ' -e '^[0-9]* passed, ' -e '^make'
}
jobs=-j$(nproc)
echo "== build"
one gcc make $jobs CC=gcc O=build/release build/release/wherry
one clang make $jobs CC=clang O=build/clang build/clang/wherry
one wherry make wherry
one layers make layers
one format-check make format-check
make $jobs --no-print-directory O=build/release unit-programs >build/log/unit-build.log 2>&1 || cat build/log/unit-build.log
level check-unit
make $jobs --no-print-directory O=build/asan SAN=address,undefined unit-programs >build/log/asan-build.log 2>&1 || cat build/log/asan-build.log
level check-san
level check-cli
level check-kvm
one fuzz make $jobs fuzz
one tidy make tidy
level check-guest
awk '{p += $1; f += $2; s += $3} END {printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0}' "$TALLY"
