#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# driver.sh WORK [GUEST...]   boots the test guests, two at a time, and speaks TAP; --list names them
#
# Runs where /dev/kvm runs Linux: on a good host, or inside the lab. WORK is an empty directory on a
# real file system. Each guest below is a machine, the scripts of guest/test it runs, and how it must
# end; many things are tried in one boot, since a boot is what costs here. What guests wrote to their
# share and disks is checked afterwards with the host's own tools.
# The lab's emulated CPU sometimes kills a guest by a double fault: such a guest is started once more,
# which is said and counted.
# shellcheck disable=SC2317 # the guests are called by name
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:?driver.sh WORK [GUEST...]}
shift
fixtures=$top/build/guest/fixtures
export PATH=$PATH:/usr/sbin:/sbin # a plain user may not have them
base="console=ttyS0 panic=-1 pci=noearly i8042.noaux i8042.nomux i8042.nopnp i8042.dumbkbd tsc=reliable no_timer_check quiet mitigations=off"

# ---- the guests. Defaults: see guest() ----

guests=(limit pci mmio big bare intx terminal firecracker)
[ "$work" != --list ] || {
	echo "${guests[*]}"
	exit 0
}

guest_limit() { # nothing to do, and no end: idle CPUs must be ended too
	run=none end=hang limit=20 status=124 said='time limit'
}
guest_pci() { # the usual machine, and most of the tests
	cpus=2 run=machine,irq,share,posix,disk,rng,rebind,input irq=msix
	status=0 said='powered off'
}
guest_mmio() { # the other transport, the 64-bit entry, the least memory, the reset register
	kernel=vmlinux-nonote mem=128 transport=mmio run=machine,irq,share,posix,disk,rng,rebind irq=mmio cache=always
	args=reboot=a end=reboot status=0 said='rebooted'
}
guest_big() { # Debian's bzImage, memory above 4 GiB, a panic
	kernel=vmlinuz cpus=4 mem=5120 run=machine,share,disk end=panic status=120 said='panicked'
}
guest_bare() { # neither ACPI nor PCI: MP table, windows on the command line
	cpus=2 transport=mmio initrd=initrd-mmio.gz args='acpi=off pci=off reboot=k' run=machine,irq,share,disk irq=mmio
	end=reboot status=0 said='rebooted'
}
guest_intx() { # no MSI; reboot=t is a triple fault
	args='pci=nomsi reboot=t' run=irq,share,disk irq=intx end=reboot status=121 said='triple fault'
}
guest_terminal() { # the console on a terminal; Ctrl-A x ends the machine and gives the terminal back
	tty=1 run=input end=hang status=0 said='ended by'
}
guest_firecracker() { # a configuration as Firecracker's users have it; the root device is a disk
	status=0 said='rebooted' run=rootfs
}

# ---- a guest's configuration ----

config() {
	cat <<-END
		{"boot-source": {"kernel_image_path": "$top/build/kernel/$kernel",
			"initrd_path": "$top/build/guest/$initrd",
			"boot_args": "$base $args wherry.run=$run wherry.end=$end wherry.irq=$irq wherry.cpus=$cpus wherry.mem=$mem wherry.fixedsum=$(cat "$fixtures/fixed.sum")"},
		"machine-config": {"vcpu_count": $cpus, "mem_size_mib": $mem, "transport": "$transport"},
		"drives": [{"drive_id": "data", "path_on_host": "$dir/data.ext4", "is_root_device": false},
			{"drive_id": "fixed", "path_on_host": "$dir/fixed.img", "is_root_device": false, "is_read_only": true}],
		"fs": [{"tag": "share", "path": "$dir/share", "cache": "$cache"}, {"tag": "readonly", "path": "$dir/readonly", "readonly": true}],
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

# Sets the variables of guest $1 and makes its files afresh.
guest_prepare() {
	kernel=vmlinux initrd=initrd.gz cpus=1 mem=512 transport=pci args='' run=none end=poweroff irq='' limit=150 cache=auto tty=''
	dir=$work/$1
	"guest_$1"
	rm -rf "$dir"
	mkdir -p "$dir"
	cp -r "$fixtures/seed" "$dir/share"
	cp -r "$fixtures/seed" "$dir/readonly"
	cp --sparse=always "$fixtures"/{data.ext4,rootfs.ext4,fixed.img} "$dir/"
	if [ "$1" = firecracker ]; then config_firecracker; else config; fi >"$dir/config.json"
}

wherry() { "$top/wherry" boot "$dir/config.json" -v -t "$limit" 2>"$dir/stderr"; }

# The same with a terminal of its own, whose settings are noted before and after.
wherry_on_terminal() {
	script -qfec "stty -g >'$dir/stty.before'; '$top/wherry' boot '$dir/config.json' -v -t $limit 2>'$dir/stderr'
		status=\$?; stty -g >'$dir/stty.after'; exit \$status" /dev/null
}

# The guest's console goes to $dir/console, a line at a time; what it waits for is typed.
guest_boot() {
	local line ended
	mkfifo "$dir/keys"
	exec {keys}<>"$dir/keys"
	"wherry${tty:+_on_terminal}" <"$dir/keys" |
		while IFS= read -r line; do
			printf '%s\n' "${line%$'\r'}"
			# shellcheck disable=SC2016
			case $tty$line in
			*'@@ type'*) echo 'a typed line with $PATH & more' >&"$keys" ;;
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

check_share() {
	(cd "$dir/share" && sha256sum --status -c host.sum from-guest.sum)
	say $? "the host reads right what the guest wrote to the share"
	diff -r "$fixtures/seed" "$dir/readonly" >/dev/null
	say $? "the read-only share is as it was"
}

check_disk() {
	e2fsck -fn "$dir/data.ext4" >"$dir/e2fsck" 2>&1
	say $? "the host's e2fsck finds the disk clean"
	debugfs -R "dump /from-guest.bin $dir/from-guest.bin" "$dir/data.ext4" 2>/dev/null
	debugfs -R "dump /from-guest.sum $dir/from-guest.sum" "$dir/data.ext4" 2>/dev/null
	[ -s "$dir/from-guest.sum" ] && [ "$(sha256sum <"$dir/from-guest.bin" | cut -d' ' -f1)" = "$(cat "$dir/from-guest.sum")" ]
	say $? "the host reads right what the guest wrote to the disk"
	cmp -s "$fixtures/fixed.img" "$dir/fixed.img"
	say $? "the read-only disk is as it was"
}

# A double fault the guest could report, or could not (a triple fault: 121); on hardware it is never excused.
emulator_fault() {
	[ -n "${LAB:-}" ] && { [ "$1" = 121 ] || grep -q 'double fault' "$dir/console"; }
}

# Everything about guest $1, as TAP without numbers.
guest() {
	local name=$1 got=0 start=$SECONDS
	guest_prepare "$name"
	guest_boot || got=$?
	if [ "$got" != "$status" ] && emulator_fault "$got"; then
		mv "$dir/console" "$work/$name.first"
		got=0
		guest_prepare "$name"
		guest_boot || got=$?
		touch "$dir/again"
	fi
	sed -n "s/.*@@ \(\(not \)\?ok\) /\1 $name: /p" "$dir/console"
	scripts_ended
	say $? "its scripts ran to their end"
	[ "$got" = "$status" ]
	say $? "it ends with status $status (it was $got)"
	grep -q "$said" "$dir/stderr"
	say $? "the log says: $said"
	if [ -n "$tty" ]; then
		[ -s "$dir/stty.before" ] && cmp -s "$dir/stty.before" "$dir/stty.after"
		say $? "the terminal is as it was"
	fi
	case ",$run," in *,share,*) check_share ;; esac
	case ",$run," in *,disk,*) check_disk ;; esac
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
exit "$failed"
