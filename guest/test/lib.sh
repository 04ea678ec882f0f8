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

# at_least MAJOR MINOR: this kernel is that new
at_least() {
	uname -r | awk -F'[.-]' -v a="$1" -v b="$2" '{ exit !($1 > a || $1 == a && $2 + 0 >= b) }'
}

# share_key SHARE KEY DEFAULT: a key of "TAG:KEY=VALUE:KEY=VALUE.."
share_key() {
	value=$(echo "$1:" | sed -n "s/.*:$2=\([^:]*\):.*/\1/p")
	echo "${value:-$3}"
}

# What a share of this guest and this kernel lacks by its nature, as fssuite -n takes it.
share_lacks() {
	# Linux passes on only these modes of fallocate.
	lacks=collapse,$(word lacks)
	case $(share_key "$1" owner passthrough) in
	squash) lacks=$lacks,users,chown,devices,trusted,whiteout ;;
	mapped) lacks=$lacks,trusted ;;
	esac
	[ "$(share_key "$1" xattr true)" = true ] || lacks=$lacks,xattr,trusted
	[ "$(share_key "$1" posix_acl false)" = true ] || lacks=$lacks,acl
	# virtio-fs has no way to end a request that waits on the host.
	[ "$(share_key "$1" locks guest)" = guest ] || lacks=$lacks,lockintr
	# Shared mappings without a cache, or with the server's own.
	[ "$(share_key "$1" cache auto)" != never ] || at_least 6 6 || [ "$(share_key "$1" mount)" != "" ] || lacks=$lacks,mmap,tail
	at_least 6 1 || lacks=$lacks,tmpfile
	at_least 6 6 || lacks=$lacks,btime
	echo "$lacks"
}

# share_run_suite SHARE: the file system suite on it, mounted for that
share_run_suite() {
	tag=${1%%:*}
	ok "the share $tag mounts for the suite" share_mount "$tag" "/mnt/$tag" "$(share_key "$1" mount | tr '+' ,)"
	fssuite -n "$(share_lacks "$1")" -m "$(word many)" -r "$(word rounds)" "/mnt/$tag" | sed "s/^\(@@ [a-z ]*ok\|@@ skip\) /\1 $tag: /"
	ok "the share $tag is unmounted after the suite" umount "/mnt/$tag"
}

share_mount() { # TAG DIR [OPTIONS]
	mkdir -p "$2" && mount -t virtiofs ${3:+-o "$3"} "$1" "$2"
}
