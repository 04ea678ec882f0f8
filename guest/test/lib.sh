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

# share_key TAG KEY DEFAULT: what the share was made with, by wherry.TAG=:KEY=VALUE:KEY=VALUE:
share_key() {
	value=$(word "$1" | sed -n "s/.*:$2=\([^:]*\):.*/\1/p")
	echo "${value:-$3}"
}

# What a share of this guest and this kernel lacks by its nature, as fssuite -n takes it.
share_lacks() {
	# Linux passes on few modes of fallocate, and not who may see what is listed.
	lacks=collapse,hidden,$(word lacks)
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
	[ "$(share_key "$1" dax 0)" = 0 ] || lacks=$lacks,dated
	at_least 6 3 || lacks=$lacks,groups
	at_least 6 1 || lacks=$lacks,tmpfile
	at_least 6 6 || lacks=$lacks,btime
	echo "$lacks"
}

# The checks that a share cannot pass, by its nature.
share_without() {
	share_key "$1" without | tr + '\n'
	# Where Linux stores through the window itself it leaves set-id bits to a server that sees no write.
	[ "$(share_key "$1" dax 0)" = 0 ] || echo write_kills_setid
}

# share_run_suite TAG: the file system suite on it, mounted for that
share_run_suite() {
	ok "the share $1 mounts for the suite" share_mount "$1" "/mnt/$1" "$(share_key "$1" mount)"
	without=$(share_without "$1" | paste -s -d,)
	fssuite -n "$(share_lacks "$1")" ${without:+-x "$without"} -m "$(word many)" -r "$(word rounds)" -p "$1: " "/mnt/$1"
	ok "the share $1 is unmounted after the suite" umount "/mnt/$1"
}

# host WORDS: the host does it (tests/guest/host.sh); false if it could not
host() {
	echo "@@ host $*" >/dev/console # not where ok keeps what its commands say
	read -r -t 60 answer </dev/console
	[ "$answer" = "host: done" ]
}

share_mount() { # TAG DIR [OPTIONS]
	mkdir -p "$2" && mount -t virtiofs ${3:+-o "$3"} "$1" "$2"
}
