#!/bin/bash
# check.sh: every level of test there is, cheapest first; what one level finds does not stop the next. Closes with one
# line over all of them: N passed, N failed, N skipped. What the steps said is kept in build/log.
set -u
cd "$(dirname "$0")/.." || exit 1
mkdir -p build/log || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export TALLY=$work/tally
: >"$TALLY"
jobs=-j$(nproc)

quiet() { # NAME COMMAND...: what it says goes to build/log/NAME.log, in one piece however many runs there are
	local status=0
	"${@:2}" >"$work/$1" 2>&1 || status=$?
	cp "$work/$1" "build/log/.$1.$$" && mv "build/log/.$1.$$" "build/log/$1.log"
	return $status
}
failed() { # NAME
	echo "0 1 0" >>"$TALLY"
	echo "  $1: FAILED"
	tail -n 30 "$work/$1" | sed 's/^/    | /'
}
one() { # NAME COMMAND...: a step that is one test, which passes or fails as a whole
	local start=$SECONDS
	if quiet "$@"; then
		echo "1 0 0" >>"$TALLY"
		echo "  $1: passed, $((SECONDS - start)) s"
	else
		failed "$1"
	fi
}
level() { # TARGET: a level that counts by itself, unless it does not come to its tests
	local before
	before=$(wc -l <"$TALLY")
	echo "== $1"
	make --no-print-directory "$1" 2>&1 | tee "$work/$1" | grep -av -e '^  CC ' -e '^  LD ' -e '^[0-9]* passed, ' -e '^make'
	[ "$(wc -l <"$TALLY")" -gt "$before" ] || failed "$1"
}

echo "== build"
one gcc make $jobs CC=gcc O=build/release build/release/wherry
one clang make $jobs CC=clang O=build/clang build/clang/wherry
one wherry make wherry
one layers make layers
one format-check make format-check
quiet unit-build make $jobs O=build/release unit-programs
level check-unit
quiet san-build make $jobs san-programs
level check-san
level check-cli
level check-kvm
one fuzz make $jobs fuzz
one tidy make tidy
level check-guest
closing=$(awk '{p += $1; f += $2; s += $3} END {printf "%d passed, %d failed, %d skipped\n", p, f, s}' "$TALLY")
echo "$closing" | tee build/log/closing.log
[[ $closing == *", 0 failed, "* ]]
