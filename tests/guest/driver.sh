#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# driver.sh WORK [GUEST...]   boots the test guests, two at a time, and speaks TAP; --list names them
#
# Runs where /dev/kvm runs Linux: on a good host, or inside the lab. WORK is an empty directory on a
# real file system. Each guest below is a machine, the scripts of guest/test it runs, and how it must
# end; many things are tried in one boot, since a boot is what costs here. What guests wrote to their
# share and disks is checked afterwards with the host's own tools.
# The lab's emulated CPU sometimes kills a guest by a double fault: such a guest is started once more,
# which is said and counted. One that dies so again has come to no end, and needs another machine: status 75.
# shellcheck disable=SC2317 # the guests are called by name
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(realpath -m -- "${1:?driver.sh WORK [GUEST...]}")
fixtures=$top/build/guest/fixtures
export PATH=$PATH:/usr/sbin:/sbin # a plain user may not have them
base="console=ttyS0 panic=-1 pci=noearly i8042.noaux i8042.nomux i8042.nopnp i8042.dumbkbd tsc=reliable no_timer_check quiet mitigations=off"

# shellcheck source=tests/guest/guests.sh
. "$top/tests/guest/guests.sh"
# shellcheck source=tests/guest/long.sh
. "$top/tests/guest/long.sh"
# shellcheck source=tests/guest/host.sh
. "$top/tests/guest/host.sh"
# shellcheck source=tests/guest/scripts.sh
. "$top/tests/guest/scripts.sh"
case $1 in
--list)
	echo "${guests[*]}"
	exit 0
	;;
--list-long)
	echo "${long_guests[*]}"
	exit 0
	;;
esac

shift

# ---- a guest's configuration ----

guest_defaults() {
	kernel=vmlinux kernels=kernel initrd=initrd.gz cpus=1 mem=512 transport=pci args='' run=none end=poweroff irq='' limit=600 tty=''
	status=0 said='powered off' user='' root='' many=100 rounds=150
	nofile='' own='' unfit='' login='' shares=() p9s=() drives=() images=() suites='' tells='' lacks='' files=1000
}

# share TAG [KEY=VALUE...]: by virtio-fs; p9: by virtio-9p. With path=, not a directory of this guest's; mount= (options)
# and without= (checks of the suite, with +) are for the guest alone, which is told all of them by
# wherry.TAG=:KEY=VALUE:..., and type=9p. Numbers and truths are written so.
share() {
	described shares tag "$1" "path=$dir/$1" "${@:2}"
}
p9() {
	described p9s tag "$1" "path=$dir/$1" "${@:2}" type=9p
}
# drive ID [KEY=VALUE...]: a disk, whose image is ID.img in the guest's directory; with image_size= it is made, empty.
drive() {
	described drives drive_id "$1" "path_on_host=$dir/$1.img" is_root_device=false "${@:2}"
}

described() { # LIST KEY NAME [KEY=VALUE...]: its configuration goes to the list; of two of a key the last counts
	local -n list=$1
	local name=$3 told='' all='' key value
	local -A keys=()
	for key in "${@:4}"; do
		value=${key#*=} key=${key%%=*}
		[[ $key == @(*path*|?id_map|is_root_device) ]] || told="$told$key=$value:"
		case $key in
		mount | without | type) continue ;;
		image_size)
			images+=("$value $name.img")
			continue
			;;
		esac
		[[ $value =~ ^([0-9]+|true|false)$ ]] || value="\"$value\""
		keys[$key]=$value
	done
	for key in "${!keys[@]}"; do all="$all, \"$key\": ${keys[$key]}"; done
	list+=("{\"$2\": \"$name\"$all}")
	tells="$tells wherry.$name=:$told"
}

# The same, and the file system suite runs on it.
suite() {
	share "$@"
	suites="$suites${suites:+,}$1"
}
suite_p9() {
	p9 "$@"
	suites="$suites${suites:+,}$1"
}

config() {
	cat <<-END
		{"boot-source": {"kernel_image_path": "$top/build/$kernels/$kernel",
			"initrd_path": "$top/build/guest/$initrd",
			"boot_args": "$base $args wherry.run=$run wherry.end=$end wherry.irq=$irq wherry.cpus=$cpus wherry.mem=$mem wherry.fixedsum=$(cat "$fixtures/fixed.sum") wherry.many=$many wherry.rounds=$rounds wherry.lacks=$lacks wherry.suite=$suites$tells"},
		"machine-config": {"vcpu_count": $cpus, "mem_size_mib": $mem, "transport": "$transport"},
		"drives": [$(IFS=, && echo "${drives[*]}")],
		"fs": [$(IFS=, && echo "${shares[*]}")],
		"p9": [$(IFS=, && echo "${p9s[*]}")],
		"entropy": {}}
	END
}

config_firecracker() {
	cat <<-END
		{"boot-source": {"kernel_image_path": "$top/build/kernel/vmlinux",
			"boot_args": "console=ttyS0 reboot=k panic=1 pci=off quiet mitigations=off",
			"initrd_path": "$top/build/guest/initrd.gz"},
		"drives": [{"drive_id": "rootfs", "partuuid": null, "is_root_device": true, "cache_type": "Unsafe",
			"is_read_only": false, "path_on_host": "$dir/rootfs.ext4", "io_engine": "Sync", "rate_limiter": null, "socket": null}],
		"machine-config": {"vcpu_count": 2, "mem_size_mib": 256, "smt": false, "track_dirty_pages": false, "huge_pages": "None"},
		"cpu-config": null, "balloon": null, "network-interfaces": [], "vsock": null, "logger": null, "metrics": null,
		"mmds-config": null, "entropy": null, "pmem": []}
	END
}

# ---- running one ----

guest_settings() {
	dir=$work/$1
	guest_defaults
	"guest_$1"
}

# Makes its files afresh: a directory for each share, with what its scripts need.
guest_prepare() {
	local tag image script
	guest_settings "$1"
	cd / || return 1
	guest_clean
	rm -rf "$dir"
	mkdir -p "$dir"
	cd "$dir" || return 1
	for script in ${run//,/ }; do
		! declare -F "prepare_$script" >/dev/null || "prepare_$script" || return 1
	done
	for tag in "${shares[@]}" "${p9s[@]}"; do
		tag=${tag#*\"path\": \"} && mkdir -p "${tag%%\"*}"
	done
	for image in "${images[@]}"; do truncate -s "${image% *}" "${image#* }"; done
	if [ "$1" = firecracker ]; then config_firecracker; else config; fi >"$dir/config.json"
	[ -z "$user" ] || chown -R "$user:$user" "$dir" "${own:-$dir}"
}

# Nothing of an earlier or ended run is mounted or going on below this guest's directory.
guest_clean() {
	local at
	rm -f "$dir/churning"
	awk -v dir="$dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | tac | while IFS= read -r at; do umount -l "$at"; done
}

# exec, as the guest's user
as_user() { # COMMAND...
	[ -z "$user" ] || [ "$(id -u)" -ne 0 ] || set -- setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
	exec "$@"
}

wherry() {
	(
		[ -z "$nofile" ] || ulimit -n "$nofile"
		echo "$BASHPID" >"$dir/pid"
		as_user "$top/wherry" boot "$dir/config.json" -v -t "$limit" 2>"$dir/stderr"
	)
}

# The same with a terminal of its own, whose settings are noted before and after.
wherry_on_terminal() {
	script -qfec "stty -g >'$dir/stty.before'; '$top/wherry' boot '$dir/config.json' -v -t $limit 2>'$dir/stderr'
		status=\$?; stty -g >'$dir/stty.after'; exit \$status" /dev/null
}

# Sets line to the console's next one. A prompt has no end: what there is of a line after a moment is looked at too, and
# answered by the guest's login=USER:PASSWORD.
console_line() {
	local part answered=''
	line=''
	until IFS= read -r -t 0.5 part; do
		[ $? -gt 128 ] || return 1
		line=$line$part
		[ -n "$login" ] && [ -z "$answered" ] || continue
		case $line in
		*' login: ') answered=${login%%:*} ;;
		*'Password: ') answered=${login#*:} ;;
		*) continue ;;
		esac
		# shellcheck disable=SC2128 # a number
		echo "$answered" >&"$keys"
	done
	line=$line${part%$'\r'}
}

# The guest's console goes to $dir/console, a line at a time; what it waits for is typed.
guest_boot() {
	local line ended
	mkfifo "$dir/keys"
	exec {keys}<>"$dir/keys"
	"wherry${tty:+_on_terminal}" <"$dir/keys" |
		while console_line; do
			printf '%s\n' "$line"
			# shellcheck disable=SC2016
			case $tty$line in
			*'@@ type'*) echo 'a typed line with $PATH & more' >&"$keys" ;;
			*'@@ host '*) host_act "${line#*@@ host }" >&"$keys" ;;
			1*'@@ end input'*) printf '\001x' >&"$keys" ;;
			esac
		done >"$dir/console"
	ended=${PIPESTATUS[0]}
	exec {keys}>&-
	rm "$dir/keys"
	return "$ended"
}

say() { # STATUS SENTENCE: a result, still without its number
	if [ "$1" = 0 ]; then echo "ok $name: $2"; else echo "not ok $name: $2"; fi
}

scripts_ended() {
	local script
	for script in ${run//,/ }; do
		[ "$script" = none ] || grep -q "@@ end $script " "$dir/console" || return 1
	done
}

# A double fault the guest could report, or could not (a triple fault: 121); on hardware it is never excused.
emulator_fault() {
	[ -n "${LAB:-}" ] && { [ "$1" = 121 ] || grep -q 'double fault' "$dir/console"; }
}

# What this host lacks for the guest; said as a skipped test.
guest_unfit() {
	local why=$unfit
	[ -z "$root" ] || [ "$(id -u)" -eq 0 ] || why="it needs root on the host"
	if [ -n "$user" ] && [ "$(id -u)" -eq 0 ]; then
		[ -z "${LAB:-}" ] || chmod 666 /dev/kvm
		setpriv --reuid "$user" --regid "$user" --clear-groups sh -c "test -w /dev/kvm -a -x '$top/wherry' -a -x '$work'" ||
			why="user $user may not open /dev/kvm, or not come to these files"
	fi
	[ -e "$top/build/$kernels/$kernel" ] || why="no build/$kernels/$kernel"
	[ -n "$why" ] || return 1
	echo "ok # skip $name: the guest: $why"
	echo "# $name: 0 s"
}

# Everything about guest $1, as TAP without numbers.
guest() {
	local name=$1 got=0 start=$SECONDS script
	guest_settings "$name"
	guest_unfit && return
	guest_prepare "$name" || {
		say 1 "its files are made"
		return
	}
	guest_boot || got=$?
	if [ "$got" != "$status" ] && emulator_fault "$got"; then
		mv "$dir/console" "$work/$name.first"
		got=0
		guest_prepare "$name"
		guest_boot || got=$?
		touch "$dir/again"
		if [ "$got" != "$status" ] && emulator_fault "$got"; then
			touch "$dir/undone"
			guest_clean
			echo "# $name: killed twice by the emulated machine"
			return
		fi
	fi
	sed -n "s/.*@@ \(\(not \)\?ok\) /\1 $name: /p; s/.*@@ skip /ok # skip $name: /p" "$dir/console"
	[ "$got" = "$status" ]
	say $? "it ends with status $status (it was $got)"
	if [ "$status" != 137 ]; then # who is killed in the midst of them has no last words
		scripts_ended
		say $? "its scripts ran to their end"
		grep -q "$said" "$dir/stderr"
		say $? "the log says: $said"
	fi
	if [ -n "$tty" ]; then
		[ -s "$dir/stty.before" ] && cmp -s "$dir/stty.before" "$dir/stty.after"
		say $? "the terminal is as it was"
	fi
	for script in ${run//,/ }; do
		! declare -F "check_$script" >/dev/null || "check_$script"
	done
	guest_clean
	echo "# $name: $((SECONDS - start)) s"
}

# Numbers the lines of a finished guest; where something failed its last words follow.
number() {
	local line bad=''
	while IFS= read -r line; do
		case $line in
		'ok '*) echo "ok $((++count)) - ${line#ok }" ;;
		'not ok '*) echo "not ok $((++count)) - ${line#not ok }" && bad=1 ;;
		*) echo "$line" ;;
		esac
	done <"$work/$1.tap"
	[ -z "$bad" ] && return
	failed=1
	sed 's/^/# console: /' "$work/$1/console" | tail -n 25
	sed 's/^/# stderr: /' "$work/$1/stderr" | tail -n 10
}

# ---- all of them, two at a time ----

count=0 failed=0
mkdir -p "$work"
[ $# -eq 0 ] || guests=("$@")
running=()
finish_one() { # waits for the oldest
	wait "${running[0]%:*}"
	number "${running[0]#*:}"
	running=("${running[@]:1}")
}
for g in "${guests[@]}"; do
	[ "${#running[@]}" -lt 2 ] || finish_one
	guest "$g" >"$work/$g.tap" 2>&1 &
	running+=("$!:$g")
done
while [ "${#running[@]}" -gt 0 ]; do finish_one; done
again=$(find "$work" -name again -printf '%h ' | sed "s|$work/||g")
[ -z "$again" ] || echo "ok $((++count)) - # skip counting these guests, started again after a double fault of the emulated machine: $again"
echo "1..$count"
[ -z "$(find "$work" -name undone)" ] || exit 75
exit "$failed"
