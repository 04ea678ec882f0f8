#!/bin/bash
# run.sh PROGRAM...: runs test programs, shows what failed, and closes with one line:
#   N passed, N failed, N skipped
# A program speaks TAP (tests/tap.h). One that dies, or prints no plan, has failed once more. With TALLY=FILE the three
# numbers are added to it, for check.sh. The whole output is kept beside the program's name under build/log, where it is
# put when the program has ended: several runs at once do not disturb each other.
set -u
passed=0 failed=0 skipped=0
mkdir -p build/log || exit 1
log=
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM HUP
for p; do
	log=$(mktemp build/log/.run.XXXXXX) || exit 1
	start=$(date +%s.%N)
	"$p" >"$log" 2>&1
	status=$?
	good=$(grep -ac '^ok ' "$log")
	bad=$(grep -ac '^not ok ' "$log")
	skips=$(grep -ac '^ok [0-9]* - # skip ' "$log")
	if [ $status -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1
		echo "not ok - $p ended with status $status" >>"$log"
	elif ! grep -aq '^1\.\.[0-9]' "$log"; then
		bad=$((bad + 1))
		echo "not ok - $p stopped before its end" >>"$log"
	fi
	printf '  %-40s %4d passed %3d failed %3d skipped  %6.1f s\n' "$p" $((good - skips)) "$bad" "$skips" \
		"$(echo "$(date +%s.%N) - $start" | bc)"
	grep -a '^ok [0-9]* - # skip ' "$log" | sed 's/^ok [0-9]* - # skip /    skipped: /'
	if [ "$bad" -gt 0 ]; then
		grep -aA3 '^not ok' "$log" | sed 's/^/    /'
		tail -n 15 "$log" | sed 's/^/    | /'
	fi
	passed=$((passed + good - skips)) failed=$((failed + bad)) skipped=$((skipped + skips))
	chmod 644 "$log" && mv "$log" "build/log/$(echo "$p" | tr / _).log"
done
[ -z "${TALLY:-}" ] || echo "$passed $failed $skipped" >>"$TALLY"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
