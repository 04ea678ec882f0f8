# SPDX-License-Identifier: Apache-2.0
# lib.sh - the words of the guest's test scripts (busybox sh); each begins with ". /test/lib.sh".

# ok SENTENCE COMMAND...: is it so?
ok() {
	sentence=$1
	shift
	if "$@" >/tmp/out 2>&1; then
		echo "@@ ok $sentence"
	else
		echo "@@ not ok $sentence ($*: status $?: $(head -c 200 /tmp/out | tr '\n' ' '))"
	fi
}

# no SENTENCE COMMAND...: it is so if the command fails
no() {
	sentence=$1
	shift
	if "$@" >/tmp/out 2>&1; then
		echo "@@ not ok $sentence ($* did not fail: $(head -c 200 /tmp/out | tr '\n' ' '))"
	else
		echo "@@ ok $sentence"
	fi
}

# The value of wherry.NAME=VALUE on the command line
word() {
	sed -n "s/.*wherry\.$1=\([^ ]*\).*/\1/p" /proc/cmdline
}

# The device whose serial number is $1: the order of discovery is the guest's business
disk() {
	for serial in /sys/block/vd*/serial; do
		[ "$(cat "$serial")" = "$1" ] && basename "$(dirname "$serial")" && return
	done
	return 1
}

share_mount() { # TAG DIR [OPTIONS]
	mkdir -p "$2" && mount -t virtiofs ${3:+-o "$3"} "$1" "$2"
}
