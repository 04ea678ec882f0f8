#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh PROGRAM...: runs each fuzzer for FUZZ_SECONDS (default 10) from the kept corpus (tests/fuzz/corpus/NAME, which is
# never written to), with the words of tests/fuzz/NAME.options, if there are any. What is new goes to
# build/fuzz/NAME.found, a crash to build/fuzz/NAME.crash-*: it can be run again with `build/fuzz/NAME FILE`.
set -u
cd "$(dirname "$0")/.." || exit 1
failed=0
for p; do
	name=$(basename "$p")
	mkdir -p "build/fuzz/$name.found" "tests/fuzz/corpus/$name"
	echo "== $name"
	log=build/fuzz/$name.log
	options=()
	[ ! -f "tests/fuzz/$name.options" ] || read -ra options <"tests/fuzz/$name.options"
	if ! WHERRY_SECCOMP=off "$p" "${options[@]}" -max_total_time="${FUZZ_SECONDS:-10}" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
		-artifact_prefix="build/fuzz/$name." "build/fuzz/$name.found" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
		tail -n 40 "$log"
		failed=1
	fi
	grep -a -e number_of_executed_units -e 'stat::average_exec' "$log"
done
exit $failed
