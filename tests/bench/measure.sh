# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2013
# measure.sh: runs a machine and notes each RESULT of its payload; sourced by bench.sh.
#
# $work/results gets a line per measurement, for table.awk:
#   KIND OP BS DEPTH WHO IOPS KICKS N CPU_NS ALL ERRORS
# and $json the same as JSON, a line each.

note() { # KIND OP BS QD WHO IOPS KICKS N CPU_NS ALL ERRORS [P50 P99]
	echo "${*:1:11}" >>"$work/results"
	printf '{"round": %d, "kind": "%s", "op": "%s", "bs": %d, "qd": %d, "who": "%s", "iops": %s, "kicks": %d, "n": %d, "cpu_ns": %d, "all": %d, "errors": %d, "p50_us": %s, "p99_us": %s}\n' \
		"$round" "${@:1:11}" "${12:-null}" "${13:-null}" >>"$json"
}

# CPU nanoseconds so far of the device's side: every thread but the vCPU's (the floor's is its first one; QEMU's has its
# name with debug-threads=on).
device_cpu() { # PID [HELPER...]
	local t name ns sum=0 pid=$1 p
	for p in "$@"; do
		for t in /proc/"$p"/task/*; do
			read -r name 2>/dev/null <"$t/comm" || continue
			case $name in
			vcpu* | "CPU "*) continue ;;
			floor) [ "${t##*/}" = "$pid" ] && continue ;;
			esac
			read -r ns _ 2>/dev/null <"$t/schedstat" && sum=$((sum + ns))
		done
	done
	echo $sum
}

# The processes that $work/helpers names, and their children: virtiofsd serves from one.
helpers() {
	local p
	for p in $(cat "$work/helpers" 2>/dev/null); do
		echo "$p" "$(cat /proc/"$p"/task/*/children 2>/dev/null)"
	done
}

# The kinds of the RESULTs that jobs print, in their order: a kind per operation of each KIND=JOB.
kinds_of() { # KIND=JOB...
	local job ops
	for job in "$@"; do
		ops=${job#*=*:}
		ops=${ops%%:*}
		for _ in ${ops//,/ }; do echo "${job%%=*}"; done
	done
}

measure() { # MACHINE KIND=JOB...: machines.sh
	local machine=$1 who=${1#*_} pid line before=0 after field kinds jobs=""
	shift
	[ $# -gt 0 ] || return 0
	mapfile -t kinds < <(kinds_of "$@")
	for field in "$@"; do jobs="$jobs ${field#*=}"; done
	rm -f "$work/helpers" "$work"/sock* "$dir"/share/small/n* "$ram"/small/n*
	# Before the first job and after each the payload waits for a key, which it gets when the threads have been asked for their time.
	exec 4<>"$work/keys"
	exec 3< <("$machine" "quick step$jobs" <"$work/keys")
	pid=$!
	while IFS= read -r line <&3; do
		case $line in
		RESULT*) ;;
		*"payload: waits"*)
			# shellcheck disable=SC2046
			before=$(device_cpu $pid $(helpers))
			echo >&4
			continue
			;;
		*"Bail out!"*)
			echo "bench: $machine: $line" >&2
			continue
			;;
		*) continue ;;
		esac
		# shellcheck disable=SC2046
		after=$(device_cpu $pid $(helpers))
		declare -A r=()
		for field in ${line#RESULT }; do
			r[${field%%=*}]=${field#*=}
		done
		note "${kinds[0]:-lost}" "${r[op]}" "${r[bs]}" "${r[qd]}" "$who" "${r[iops]}" "${r[kicks]}" "${r[n]}" $((after - before)) \
			"${r[all]}" "${r[err]%$'\r'}" "${r[p50_us]}" "${r[p99_us]}"
		kinds=("${kinds[@]:1}")
		before=$after
		echo >&4
	done
	exec 3<&- 4<&-
	wait $pid # it may have the disk for a moment longer
	for pid in $(helpers); do kill "$pid" 2>/dev/null; done
	[ ${#kinds[@]} = 0 ] || echo "bench: $machine: ${#kinds[@]} results are missing: $(tail -n 1 "$work/stderr" 2>/dev/null)" >&2
}

# The same operation as plain system calls of the host.
native() { # KIND PATH OP BS QD [direct]
	local line field
	declare -A r=()
	line=$("$dir/native" "$2" "$3" "$4" "$5" "$ms" ${6:+"$6"}) || return 0
	for field in $line; do
		r[${field%%=*}]=${field#*=}
	done
	note "$1" "${r[op]}" "${r[bs]}" "$5" native "${r[iops]}" 0 1 0 1 "${r[err]}"
}
