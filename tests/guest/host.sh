# shellcheck shell=bash disable=SC2154,SC2317
# SPDX-License-Identifier: Apache-2.0
# host.sh - the host's half of the dialogues that guests hold on their console; sourced by driver.sh.
#
# "@@ host WORD ARGUMENTS" on the console runs host_WORD in the guest's directory, whose subdirectories are the shares;
# "host: done" or "host: failed" is typed back when it has ended. TEXT is the rest of the line.

host_write() { # FILE TEXT
	printf '%s' "${*:2}" >"$1"
}
host_append() { # FILE TEXT
	printf '%s' "${*:2}" >>"$1"
}
host_replace() { # FILE TEXT: as an editor does
	printf '%s' "${*:2}" >"$1.new" && mv "$1.new" "$1"
}
host_remove() { # FILE
	rm -r "$1"
}
host_rename() { # FROM TO
	mv "$1" "$2"
}
host_chmod() { # MODE FILE
	chmod "$1" "$2"
}
host_mkdir() { # DIR
	mkdir "$1"
}
host_is() { # FILE TEXT: exactly that is in it
	[ "$(cat "$1")" = "${*:2}" ]
}
host_absent() { # FILE
	[ ! -e "$1" ]
}
host_holds() { # FILE OFFSET TEXT
	[ "$(tail -c "+$(($2 + 1))" "$1" | head -c "$(printf '%s' "${*:3}" | wc -c)")" = "${*:3}" ]
}
host_patch() { # FILE OFFSET TEXT
	printf '%s' "${*:3}" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
host_sum() { # FILE SHA256
	[ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}
host_cut() { # FILE
	truncate -s 0 "$1"
}
host_churn() { # FILE: replaces it over and over until host_still
	touch churning
	while [ -e churning ]; do
		host_replace "$1" version "$((++churned))" of the file
		sleep 0.02
	done >/dev/null 2>&1 &
}
host_still() {
	rm churning
}
lock() { # FD KIND: by flock, or by fcntl (P). By a program that the guests have too: flock(1) knows but the one
	"$top/build/guest/root/bin/fssuite" "-${2:-L}" "$1"
}
host_lock() { # FILE [P]: held until host_unlock
	(
		exec 9<>"$1"
		lock 9 "$2" && touch "$1.held"
		while [ -e "$1.held" ]; do sleep 0.1; done
		touch "$1.free"
	) >/dev/null 2>&1 &
	for _ in {1..50}; do
		[ ! -e "$1.held" ] || return 0
		sleep 0.1
	done
	return 1
}
host_unlock() { # FILE
	rm "$1.held"
	until [ -e "$1.free" ]; do sleep 0.1; done
	rm "$1.free"
}
host_locked() { # FILE [P]: someone else has it
	! lock 9 "$2" 9<>"$1"
}
host_free() { # FILE [P]: nobody has it, soon: a close is told to the host in the background
	for _ in {1..200}; do
		host_locked "$@" || return 0
		sleep 0.1
	done
	return 1
}
host_tmpfs() { # DIR: a file system mounted while the machine runs
	mount -t tmpfs -o size=1M tmpfs "$1" && echo late >"$1/late"
}
host_umount() { # DIR
	umount "$1"
}
host_resize() { # IMAGE SIZE: and wherry is to look at it
	truncate -s "$2" "$1" && kill -USR1 "$(cat pid)"
}
host_room() { # IMAGE LEAST MOST: KiB that it takes of the host's disk, soon: Linux may discard in the background
	local room
	for _ in {1..100}; do
		room=$(($(stat -c %b "$1") / 2))
		[ "$room" -lt "$2" ] || [ "$room" -gt "$3" ] || return 0
		sleep 0.1
	done
	echo "$1 takes $room KiB"
	return 1
}
host_zeros() { # FILE OFFSET LENGTH
	cmp -n "$3" -i "$2:0" "$1" /dev/zero
}
host_kill() { # the machine, in the midst of what it does
	kill -KILL "$(cat pid)"
}
host_kill_at() { # FILE...: once there is something in all of them
	while kill -0 "$(cat pid)"; do
		[ "$(find "$@" -size +100c | wc -l)" -lt $# ] || host_kill
		sleep 0.01
	done >/dev/null 2>&1 &
}
host_whiteout() { # FILE: as overlayfs marks what was removed
	[ "$(stat -c '%F %t,%T' "$1")" = "character special file 0,0" ]
}

# Runs what a line of the console asks for, and says how it went.
host_act() { # WORDS
	local words
	read -r -a words <<<"$1"
	if declare -F "host_${words[0]}" >/dev/null && (cd "$dir" && "host_${words[0]}" "${words[@]:1}") >>"$dir/host.log" 2>&1; then
		echo "host: done"
	else
		echo "failed: $1" >>"$dir/host.log"
		echo "host: failed"
	fi
}
