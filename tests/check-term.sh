#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-term.sh   ./wherry on a terminal: who may end it or change its mode, and that it is given back (TAP)
#
# The terminal is script(1)'s; in it runs a shell with job control as a user's does, which starts wherry with a guest
# that does nothing. Needs a /dev/kvm that runs ring-3 code. WHERRY and PAYLOAD name another binary and another payload.
# shellcheck disable=SC2016,SC2317 # quoted for later; called by name
set -u
cd "$(dirname "$0")/.." || exit 1
wherry=$(realpath "${WHERRY:-./wherry}") || exit 1
payload=$(realpath "${PAYLOAD:-build/payload}") || exit 1

. tests/tap.sh
if ! [ -r /dev/kvm ] || ! [ -w /dev/kvm ]; then
	skip check-term "no usable /dev/kvm"
	tap_end
fi

work=$(mktemp -d) || exit 1
trap 'exec 8>&-; kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
mkfifo "$work/keys"
cat >"$work/config.json" <<-END
	{"boot-source": {"kernel_image_path": "$payload/payload.elf", "boot_args": "end:hang"},
	 "machine-config": {"mem_size_mib": 32}}
END

# The user's shell, whoever runs this test and with SIGHUP ignored. A job that was stopped is continued, after the shell has set its own modes, as shells do.
cat >"$work/shell" <<'END'
set -m
cd "$work" || exit
tty >tty
stty -g >before
env --default-signal=HUP bash -c 'trap "$ignore" HUP; echo $$ >pid; exec "$@"' - "$wherry" boot config.json -t 30 $flags 2>stderr
status=$?
if [ -n "$(jobs -s)" ]; then
	stty -g >stopped.new
	mv stopped.new stopped
	fg >/dev/null
	status=$?
fi
echo $status >status
stty -g >after
END
export work wherry flags ignore

wait_for() { # COMMAND...: until it succeeds, for 20 s at most
	local end=$((SECONDS + 20))
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.02
	done
}
mode() { # WORD: the terminal's settings have it, as stty -a says
	[[ " $(stty -F "$tty" -a | tr ';\n' '  ') " == *" $1 "* ]]
}
begin() { # NAME [FLAGS [IGNORE]]: returns when the guest has come to its end, which is none
	name="$WHERRY_ENGINE: $1" flags=${2:-}
	if [ -n "${3:-}" ]; then ignore=''; else ignore=-; fi
	rm -f "$work"/{tty,pid,before,after,stopped,status,stderr,console}
	exec 8<>"$work/keys"
	# Without job control here, what runs behind has the keys' signals ignored.
	env --default-signal=INT,QUIT script -qfec 'bash "$work/shell"' /dev/null <&8 >"$work/console" 2>&1 &
	script=$!
	wait_for grep -aqs 'end by hang' "$work/console"
	tty=$(cat "$work/tty") pid=$(cat "$work/pid")
}
escape() { printf '\001x' >&8; }
ends() { # STATUS: it has been asked to, and does
	local status
	wait $script
	exec 8>&-
	status=$(cat "$work/status" 2>/dev/null)
	[ "$status" = "$1" ]
	ok $? "$name: it ends with status $1 (${status:-none})"
	[ -s "$work/before" ] && cmp -s "$work/before" "$work/after"
	ok $? "$name: the terminal is as it was"
}
as_before() { [ "$(stty -F "$tty" -g)" = "$(cat "$work/before")" ]; }

for WHERRY_ENGINE in uring epoll; do
	export WHERRY_ENGINE

	begin "Ctrl-A x"
	mode -icanon && mode -echo && mode -isig
	ok $? "$name: the terminal is raw while the guest has it"
	escape
	ends 0

	begin "a mode that somebody else changes"
	for _ in $(seq 20); do
		stty -F "$tty" echo icanon
		stty -F "$tty" -echo -icanon
	done
	kill -0 "$pid"
	ok $? "$name: the machine goes on"
	escape
	ends 0

	begin SIGTERM
	kill -TERM "$pid"
	ends 143

	begin SIGHUP
	kill -HUP "$pid"
	ends 129

	# Of two signals that are pending SIGHUP would be the first.
	begin "SIGHUP ignored, as nohup has it" "" ignored
	kill -HUP "$pid"
	kill -TERM "$pid"
	ends 143

	begin "--serial input=off" "--serial input=off"
	as_before
	ok $? "$name: the terminal keeps its own mode"
	printf '\003' >&8
	ends 130

	begin "stop and continue"
	kill -TSTP "$pid"
	wait_for [ -e "$work/stopped" ]
	ok $? "$name: it stops"
	cmp -s "$work/before" "$work/stopped"
	ok $? "$name: the terminal is as it was while it is stopped"
	wait_for mode -icanon
	ok $? "$name: and raw again afterwards"
	escape
	ends 0
done

tap_end
