#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-cli.sh   wherry's bad input: exit status 125, one clear line that names the object, nothing left behind (TAP)
#
# Each case is a machine that is right but for one thing. What is found only once the machine is being made needs a
# usable /dev/kvm, and is skipped without one. WHERRY and PAYLOAD name another binary and another payload.
# shellcheck disable=SC2317,SC2012 # called by name; names are our own
set -u
cd "$(dirname "$0")/.." || exit
wherry=$(realpath "${WHERRY:-./wherry}") || exit 1
payload=$(realpath "${PAYLOAD:-build/payload}") || exit 1

. tests/tap.sh

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/m"
kvm=
[ -r /dev/kvm ] && [ -w /dev/kvm ] && kvm=1

# ---- the objects, good and bad ----

cd "$work/m" || exit 1
mkdir share dir
mkfifo fifo
truncate -s 1M disk.img
truncate -s 64M huge
truncate -s 0 empty
echo "this is no kernel" >text
cp "$payload/payload.elf" good.elf
cp "$payload/payload.bz" good.bz
head -c 40000 good.bz >short.bz
head -c 40000 good.elf >short.elf
head -c 30 good.elf >tiny.elf
cp good.elf arm64.elf
printf '\xb7\x00' | dd of=arm64.elf bs=1 seek=18 conv=notrunc status=none # e_machine: EM_AARCH64
cp good.bz old.bz
printf '\x00\x02' | dd of=old.bz bs=1 seek=$((0x206)) conv=notrunc status=none # protocol 2.0
cp good.bz big.bz
printf '\x00\x00\x00\x08' | dd of=big.bz bs=1 seek=$((0x260)) conv=notrunc status=none # init_size: 128 MiB
cd "$work" || exit 1

# The good machine, whose parts a case replaces.
kernel='"kernel_image_path": "good.bz"'
args='"boot_args": "end:poweroff"'
machine='"mem_size_mib": 32'
drives='{"drive_id": "disk0", "path_on_host": "disk.img"}'
fs='{"tag": "share", "path": "share"}'
more=

config() {
	cat <<-END
	{
		"boot-source": {$kernel, $args},
		"machine-config": {$machine},
		"drives": [$drives],
		"fs": [$fs]$more
	}
	END
}

# What a directory holds and what it is; a run must leave it so.
inventory() {
	(cd "$work/m" && find . -printf '%p %y %s %T@\n' | sort)
}

as_bad_input() { # STATUS WORDS BEFORE: the last run ended, spoke and left things as bad input must
	[ "$1" = 125 ] && [ "$(wc -l <"$work/stderr")" = 1 ] && grep -qE -e "$2" "$work/stderr" && [ ! -s "$work/stdout" ] &&
		[ "$3" = "$(inventory)" ] && [ -z "$(find /proc/[0-9]*/cwd -lname "$work/m" 2>/dev/null)" ]
}
# Runs a command line in $work/m. What it says is shown: the line is the documentation of the case.
refused() { # NAME WORDS COMMAND...: WORDS is an extended regular expression that the line must match
	local name=$1 words=$2 status before
	shift 2
	before=$(inventory)
	(cd "$work/m" && exec timeout -k 2 20 "$@") </dev/null >"$work/stdout" 2>"$work/stderr"
	status=$?
	as_bad_input $status "$words" "$before"
	ok $? "$name"
	[ $status = 125 ] || echo "#   exit status $status, not 125"
	sed 's/^/#   /' "$work/stderr"
}

# A case: NAME WORDS PART=VALUE...; PART is a variable of the good machine.
case_of() { # also: needs=kvm as the first argument
	local kernel=$kernel args=$args machine=$machine drives=$drives fs=$fs more=$more needs='' name words
	if [ "$1" = needs=kvm ]; then
		needs=1
		shift
	fi
	name=$1 words=$2
	shift 2
	for part; do
		printf -v "${part%%=*}" %s "${part#*=}"
	done
	if [ -n "$needs" ] && [ -z "$kvm" ]; then
		skip "$name" "no usable /dev/kvm"
		return
	fi
	config >"$work/m/config.json"
	refused "$name" "$words" "$wherry" boot config.json -t 10
}

# ---- the good machine is good ----

config >"$work/m/config.json"
(cd "$work/m" && "$wherry" check config.json) >"$work/effective.json" 2>&1
ok $? "the machine that the cases spoil is accepted by check"
cp "$work/effective.json" "$work/m/again.json"
(cd "$work/m" && "$wherry" check again.json) 2>&1 | cmp -s - "$work/effective.json"
ok $? "and what check prints loads again to the same"
rm "$work/m/again.json"
if [ -n "$kvm" ]; then
	(cd "$work/m" && timeout 20 "$wherry" boot config.json -t 10 </dev/null) >"$work/stdout" 2>&1
	ok $? "and boots"
else
	skip "and boots" "no usable /dev/kvm"
fi

# ---- kernels ----

case_of "a kernel that is missing" 'nowhere.*[Nn]o such file' kernel='"kernel_image_path": "nowhere"'
case_of "no kernel at all" 'kernel_image_path' kernel='"initrd_path": "text"'
case_of needs=kvm "a kernel that is a directory" 'kernel dir' kernel='"kernel_image_path": "dir"'
case_of needs=kvm "a kernel that is a fifo" 'kernel fifo' kernel='"kernel_image_path": "fifo"'
case_of needs=kvm "an initrd that is a fifo" 'initrd fifo' kernel='"kernel_image_path": "good.bz", "initrd_path": "fifo"'
case_of needs=kvm "a kernel that is a text" 'kernel text' kernel='"kernel_image_path": "text"'
case_of needs=kvm "a kernel that is empty" 'kernel empty' kernel='"kernel_image_path": "empty"'
case_of needs=kvm "a bzImage that is cut off" 'short.bz' kernel='"kernel_image_path": "short.bz"'
case_of needs=kvm "an ELF kernel that is cut off" 'short.elf' kernel='"kernel_image_path": "short.elf"'
case_of needs=kvm "an ELF kernel cut in its header" 'tiny.elf' kernel='"kernel_image_path": "tiny.elf"'
case_of needs=kvm "a kernel for another architecture" 'arm64.elf.*arm64' kernel='"kernel_image_path": "arm64.elf"'
case_of needs=kvm "a bzImage of an old protocol" 'old.bz' kernel='"kernel_image_path": "old.bz"'
case_of needs=kvm "a kernel that does not fit into memory" 'big.bz.*MiB|mem_size_mib' kernel='"kernel_image_path": "big.bz"'
case_of "an initrd that is missing" 'nowhere' kernel='"kernel_image_path": "good.bz", "initrd_path": "nowhere"'
case_of needs=kvm "an initrd that does not fit into memory" 'huge' machine='"mem_size_mib": 16' \
	kernel='"kernel_image_path": "good.bz", "initrd_path": "huge"'
case_of needs=kvm "a command line too long for the kernel" 'boot_args|command line' \
	args="\"boot_args\": \"$(head -c 3000 /dev/zero | tr '\0' x)\""
case_of "a command line too long for any" 'boot_args' \
	args="\"boot_args\": \"$(head -c 5000 /dev/zero | tr '\0' x)\""

# ---- disks and shares ----

root_drive() { # ID
	echo "{\"drive_id\": \"$1\", \"path_on_host\": \"disk.img\", \"is_root_device\": true}"
}

case_of needs=kvm "a disk that is missing" 'gone.img' drives='{"drive_id": "d", "path_on_host": "gone.img"}'
case_of needs=kvm "a disk that is a directory" 'dir' drives='{"drive_id": "d", "path_on_host": "dir"}'
case_of "two disks with one id" 'd1.*used|used.*d1' \
	drives='{"drive_id": "d1", "path_on_host": "disk.img"}, {"drive_id": "d1", "path_on_host": "disk.img"}'
case_of "two root disks" 'root' \
	drives="$(root_drive a), $(root_drive b)"
case_of needs=kvm "one disk used twice" 'disk.img' \
	drives='{"drive_id": "a", "path_on_host": "disk.img"}, {"drive_id": "b", "path_on_host": "disk.img"}'
case_of "a disk without a path" 'drives\[0\].*path_on_host' drives='{"drive_id": "d"}'
case_of needs=kvm "a share that is missing" 'gone' fs='{"tag": "share", "path": "gone"}'
case_of needs=kvm "a share that is not a directory" 'text' fs='{"tag": "share", "path": "text"}'
case_of needs=kvm "a share of procfs" 'procfs.*choose' fs='{"tag": "share", "path": "/proc"}'
case_of "a tag that is too long" 'tag' fs="{\"tag\": \"$(printf 'x%.0s' $(seq 37))\", \"path\": \"share\"}"
case_of "a tag that is empty" 'tag' fs='{"tag": "", "path": "share"}'
case_of "a tag that is used twice" 'share.*used|used.*share' fs='{"tag": "share", "path": "share"}, {"tag": "share", "path": "dir"}'

# ---- the file ----

case_of "an unknown key" 'config.json:[0-9]+:[0-9]+: .*speed' machine='"speed": 9'
case_of "an unknown key of a drive" 'config.json:[0-9]+:[0-9]+: drives\[0\].colour' \
	drives='{"drive_id": "d", "path_on_host": "disk.img", "colour": "red"}'
case_of "an unknown section" 'config.json:[0-9]+:[0-9]+: gadgets' more=', "gadgets": {"a": 1}'
case_of "a section that is not built yet" 'vsock' more=', "vsock": {"guest_cid": 3}'
case_of "a number that is too small" 'config.json:[0-9]+:[0-9]+: machine-config.vcpu_count' machine='"vcpu_count": 0'
case_of "a number that is too large" 'config.json:[0-9]+:[0-9]+: machine-config.vcpu_count' machine='"vcpu_count": 33'
case_of "a number that is negative" 'machine-config.mem_size_mib' machine='"mem_size_mib": -1'
case_of "a number that is not whole" 'machine-config.mem_size_mib' machine='"mem_size_mib": 12.5'
case_of "a number that is a text" 'machine-config.mem_size_mib' machine='"mem_size_mib": "64"'
case_of "a text that is a number" 'boot-source.kernel_image_path' kernel='"kernel_image_path": 7'
case_of "a choice that is none" 'machine-config.transport.*pci' machine='"transport": "bus"'
case_of "a section that is there twice" 'drives.*twice' more=', "drives": []'
case_of "an entry that is no object" 'drives\[0\].*object' drives='7'
case_of "a comma too many" 'config.json:[0-9]+:[0-9]+' machine='"mem_size_mib": 64,,'
case_of "a brace too few" 'config.json:[0-9]+:[0-9]+' more=', "entropy": {'
case_of "a text after the end" 'config.json:[0-9]+:[0-9]+' more='} {'

refused "a configuration that is missing" 'nowhere.json' "$wherry" boot nowhere.json
refused "a configuration that is a directory" 'dir' "$wherry" boot dir
refused "a configuration that is empty" 'empty' "$wherry" boot empty

# ---- the command line ----

config >"$work/m/config.json"
refused "a verb that is none" 'fly' "$wherry" fly
refused "a flag that is none" '--speed' "$wherry" boot config.json --speed 9
refused "a flag without its value" '--fs' "$wherry" boot config.json --fs
refused "a flag with an unknown key" '--fs.*colour' "$wherry" boot config.json --fs tag=a,path=share,colour=red
refused "a flag with a key missing" '--fs.*path' "$wherry" boot config.json --fs tag=a
refused "a time limit of 0" '-t' "$wherry" boot config.json -t 0
refused "a time limit that is no number" '-t' "$wherry" boot config.json -t soon
refused "two configurations" 'config.json' "$wherry" boot config.json config.json

# ---- the host ----

without_kvm() { # in a mount namespace whose /dev has no kvm
	# shellcheck disable=SC2016
	unshare -m sh -c 'mount -t tmpfs none /dev && mknod /dev/null c 1 3 && cd "$1" && exec "$2" boot config.json -t 5' \
		- "$work/m" "$wherry"
}
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	export -f without_kvm
	export work wherry
	refused "no /dev/kvm" '/dev/kvm' bash -c without_kvm
else
	skip "no /dev/kvm" "needs root"
fi
if [ "$(id -u)" = 0 ] && [ -e /dev/kvm ] && ! setpriv --reuid=65534 --regid=65534 --clear-groups test -w /dev/kvm; then
	chmod 755 "$work" "$work/m"
	cp "$wherry" "$work/wherry" # where everyone can run it
	refused "no right to use /dev/kvm" '/dev/kvm' \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$work/wherry" boot config.json -t 5
else
	skip "no right to use /dev/kvm" "needs root, and a /dev/kvm that is not everyone's"
fi

tap_end
