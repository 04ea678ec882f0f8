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
	! by_9p "$1" || lacks=$lacks,$(p9_lacks "$1")
	at_least 5 14 || lacks=$lacks,zero
	at_least 6 3 || lacks=$lacks,groups
	at_least 6 1 || lacks=$lacks,tmpfile
	at_least 6 6 || lacks=$lacks,btime
	echo "$lacks"
}

by_9p() { [ "$(share_key "$1" type)" = 9p ]; } # TAG

# TAG: this kernel asks its access lists who may
by_acl() {
	case $(share_key "$1" posix_acl false),$(share_key "$1" mount), in
	true,*access=client,*posixacl,*) return 0 ;;
	esac
	return 1
}

# What Linux's own client of 9P lacks, whoever serves it: calls that the protocol has no words for; times finer than a
# second and before 1970; flock apart from fcntl, as it asks for both in one way. It never clears a page behind a file's end.
p9_lacks() {
	lacking=tmpfile,alloc,punch,zero,flags,btime,renames,whiteout,apart,fine,tail
	by_acl "$1" || lacking=$lacking,acl
	[ "$(mount_option "$1" cache none)" != none ] || lacking=$lacking,mmap
	[ "$(mount_option "$1" access client)" != any ] || lacking=$lacking,users,devices # all are one user to us, and not root
	echo "$lacking"
}

# The checks that a share cannot pass, by its nature.
share_without() {
	share_key "$1" without | tr + '\n'
	# Where Linux stores through the window itself it leaves set-id bits to a server that sees no write.
	[ "$(share_key "$1" dax 0)" = 0 ] || echo write_kills_setid
	! by_9p "$1" || p9_without "$1"
}

# The same of Linux's client of 9P, whose data goes through netfs since 6.8.
p9_without() {
	# A name that goes takes along what a path descriptor would ask by.
	echo unlinked_path
	if [ "$(share_key "$1" posix_acl false)" = false ]; then
		# It sets the mode before it asks.
		[ "$(mount_option "$1" access client)" != client ] || echo acl_refused
	elif by_acl "$1"; then
		echo acl_errors # EINVAL for EACCES
	else
		echo acl_refused # it passes lists on, and does not look at them
	fi
	# All are one user to us, so root's writes do not come as root's.
	[ "$(mount_option "$1" access client)" != any ] || echo write_setid
	# That a write was refused is said by a later sync, if at all.
	! at_least 6 8 || echo offsets
	case $(mount_option "$1" cache none) in
	none | mmap)
		# Each time that a name is looked up it is a new file to the kernel: to its locks and to its watches.
		echo link_same inotify
		# It finds the end to append to and writes there, and nothing keeps others from doing so meanwhile.
		at_least 6 8 || echo crowd_append
		;;
	*)
		# What is written comes to us much later: errors come then, times are of then, and blocks are guessed.
		echo offsets chmod_ctime times_of_changes sparse
		# It opens what it has made once more, to have its pages written: a plain user's host asks the mode.
		[ "$(share_key "$1" owner passthrough)" != squash ] || echo truncate_0444 umask create_mode
		# It does not forget a list that says no more than the mode, or see its own write behind what is mapped.
		! at_least 6 8 || echo blocks acl_mode model
		;;
	esac
	[ "$(mount_option "$1" cache none)" = mmap ] || return
	if at_least 6 8; then
		echo rwf_append # the end is not where the pages are
	else
		echo map map_as_buffer model # reads and writes go to the server, past what is mapped
	fi
}

# share_maps TAG: it has shared mappings. Without a cache virtio-fs has them from Linux 6.6 on, 9P never.
share_maps() {
	if by_9p "$1"; then
		[ "$(mount_option "$1" cache none)" != none ]
	else
		[ "$(share_key "$1" cache auto)" != never ] || at_least 6 6
	fi
}

# share_run_suite TAG: the file system suite on it, mounted for that
share_run_suite() {
	ok "the share $1 mounts for the suite" share_mount "$1" "/mnt/$1" "$(share_key "$1" mount)"
	without=$(share_without "$1" | tr '\n ' ,, | sed 's/^,*//; s/,*$//')
	fssuite -n "$(share_lacks "$1")" ${without:+-x "$without"} -m "$(word many)" -r "$(word rounds)" -p "$1: " "/mnt/$1"
	ok "the share $1 is unmounted after the suite" umount "/mnt/$1"
}

# host WORDS: the host does it (tests/guest/host.sh); false if it could not
host() {
	echo "@@ host $*" >/dev/console # not where ok keeps what its commands say
	read -r -t 60 answer </dev/console
	[ "$answer" = "host: done" ]
}

# mount_option TAG NAME DEFAULT: of the share's mount options
mount_option() {
	value=$(share_key "$1" mount | tr , '\n' | sed -n "s/^$2=//p")
	echo "${value:-$3}"
}

share_mount() { # TAG DIR [OPTIONS]: with the options of its own, if none are given
	type=$(share_key "$1" type virtiofs) options=${3:-$(share_key "$1" mount)}
	if [ "$type" = 9p ]; then
		modprobe -a 9p 9pnet_virtio # Linux 5.10 does not find the transport by itself
		options=trans=virtio,version=9p2000.L${options:+,$options}
	fi
	mkdir -p "$2" && mount -t "$type" ${options:+-o "$options"} "$1" "$2"
}
