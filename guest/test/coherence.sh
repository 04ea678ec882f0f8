# SPDX-License-Identifier: Apache-2.0
# coherence.sh - what the host changes is seen within the time that the cache mode promises, and the other way.
#
# never: at once. auto: within a second. always: when the guest gives up what it remembers. What the guest writes, the
# host sees at once; with writeback, when the file is closed or synced. By 9P it is the guest that says so when it mounts:
# cache=none and mmap are as never; loose and fscache as always, and what is written comes when it is synced, with mmap
# too from Linux 6.4 on.
. /test/lib.sh

cache() { # of $tag
	if ! by_9p "$tag"; then
		share_key "$tag" cache auto
	else
		case $(mount_option "$tag" cache none) in
		none | mmap) echo never ;;
		*) echo always ;;
		esac
	fi
}
delayed() { # what is written comes later
	if ! by_9p "$tag"; then
		[ "$(share_key "$tag" writeback false)" = true ]
	else
		case $(mount_option "$tag" cache none) in
		none) return 1 ;;
		mmap) at_least 6 4 ;;
		esac
	fi
}
promised() {
	case $(cache) in
	never) ;;
	auto) usleep 1300000 ;;
	always)
		echo 3 >/proc/sys/vm/drop_caches
		echo 3 >/proc/sys/vm/drop_caches
		;;
	esac
}
holds() { [ "$(cat "$1")" = "$2" ]; }
size_is() { [ "$(stat -c %s "$1")" = "$2" ]; }
never_torn() { # FILE: a name that the host replaces all the time is always there, with one version
	for i in $(seq 40); do
		case $(cat "$1") in
		version*file | first) ;;
		*) return 1 ;;
		esac
		[ "$i" != 20 ] || promised
	done
}

# Mappings that keep up with reads and writes.
mapped() { share_maps "$tag" && ! { by_9p "$tag" && [ "$(cache)" = never ]; }; }

sees_host() {
	host write "$tag/f" first && host mkdir "$tag/d" && host write "$tag/d/x" deep
	ok "$tag: a file of the host reads right" holds f first
	no "$tag: a name that is not there is missing" stat new
	ls >/dev/null
	host write "$tag/f" second && host write "$tag/new" here && host chmod 640 "$tag/f" && host remove "$tag/d/x"
	promised
	ok "$tag: what the host wrote over is read" holds f second
	ok "$tag: what the host made is found" holds new here
	ok "$tag: what the host made is listed" sh -c 'ls | grep -x new'
	ok "$tag: the mode the host gave is shown" test "$(stat -c %a f)" = 640
	no "$tag: what the host removed is gone" stat d/x
	host append "$tag/f" -and-third
	promised
	ok "$tag: what the host appended counts" size_is f 16
	ok "$tag: what the host appended is read" holds f second-and-third
	exec 3<f
	host replace "$tag/f" "another file" && host rename "$tag/new" "$tag/newer"
	ok "$tag: a file replaced on the host is read on where it is open" test "$(head -c 6 <&3)" = second
	exec 3<&-
	promised
	ok "$tag: the file in its place is read" holds f "another file"
	no "$tag: what the host renamed is not at its old name" stat new
	ok "$tag: what the host renamed is at its new name" holds newer here
	host write "$tag/busy" first && promised
	host churn "$tag/busy"
	ok "$tag: a file that the host replaces all the time is never missing or torn" never_torn busy
	ok "$tag: the host stops" host still
}

seen_by_host() {
	echo written >g
	by_9p "$tag" && delayed && sync
	ok "$tag: the host reads what was written and closed" host is "$tag/g" written
	exec 3>g
	echo more >&3
	! delayed || sync
	ok "$tag: the host reads what was written and is open" host is "$tag/g" more
	echo "and more" >&3
	exec 3>&-
	by_9p "$tag" && delayed && sync
	ok "$tag: the host reads what was added" host holds "$tag/g" 5 "and more"
	mkdir e && mv g e/g && chmod 600 e/g && ln -s e/g s && rm newer
	ok "$tag: the host finds what was renamed" host holds "$tag/s" 0 more
	ok "$tag: the host misses what was removed" host absent "$tag/newer"
}

there() { # FILE: soon
	for i in $(seq 100); do
		[ ! -e "$1" ] || return 0
		usleep 100000
	done
	return 1
}
shares_locks() { # HERE ON_HOST: each by flock (L) or by fcntl (P)
	: >lock
	exec 3<>lock
	ok "$tag: the host locks a file ($*)" host lock "$tag/lock" "$2"
	no "$tag: what the host has locked is not locked here ($*)" fssuite "-$1" 3
	ok "$tag: the host unlocks it ($*)" host unlock "$tag/lock"
	fssuite "-$1" 3 sh -c 'echo >/tmp/locked; exec sleep 600' &
	ok "$tag: what is free is locked here ($*)" there /tmp/locked
	ok "$tag: the host cannot lock what is locked here ($*)" host locked "$tag/lock" "$2"
	kill $!
	wait $!
	exec 3>&-
	rm -f /tmp/locked
	ok "$tag: it can when it is closed ($*)" host free "$tag/lock" "$2"
}
# 9P has one kind of lock, and guests ask for both by it.
shares_all_locks() {
	if by_9p "$tag"; then shares_locks L P; else shares_locks L L; fi
	shares_locks P P
}

tags=$(word coherent | tr , ' ')
for tag in ${tags:-never auto always writeback}; do
	ok "$tag: the share mounts" share_mount "$tag" "/mnt/$tag"
	cd "/mnt/$tag" || exit
	[ "$(share_key "$tag" writeback false)" = true ] || sees_host
	touch newer
	seen_by_host
	[ "$(share_key "$tag" locks guest)" = guest ] || shares_all_locks
	! mapped || fssuite -M "/mnt/$tag/mapped"
	cd /
	ok "$tag: the share is unmounted" umount "/mnt/$tag"
done
