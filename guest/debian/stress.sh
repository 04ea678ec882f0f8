# SPDX-License-Identifier: Apache-2.0
# stress.sh - stress-ng's file system stressors, on each share of wherry.stress; what they verify themselves counts. Of
# wherry.part parts it runs one, as PART/OF.
. /test/lib.sh

stressed() { # NAME OPTIONS...: for a few seconds, verifying
	name=$1
	shift
	stress-ng --temp-path "/mnt/$tag" --verify --timeout 5 --no-rand-seed "--$name" 2 "$@" >/tmp/stress 2>&1
	status=$?
	grep -i 'fail' /tmp/stress | grep -v 'failed: 0' | head -n 3
	[ $status = 3 ] && echo "not implemented here" && return 0
	return $status
}
part=$(word part)
n=0
for tag in $(word stress | tr , ' '); do
	mkdir -p "/mnt/$tag"
	ok "$tag: the share mounts" mount -t virtiofs "$tag" "/mnt/$tag"
	for one in access chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dup fallocate fcntl fiemap file-ioctl filename \
		flock fpunch fstat getdent handle hdd inotify io iomix lease link locka lockf lockofd mknod open readahead rename \
		revio seek sendfile splice sync-file symlink touch utime verity xattr; do
		n=$((n + 1))
		[ $((n % ${part#*/})) = $((${part%/*} - 1)) ] || continue
		case $one in
		mknod | chown) [ "$(share_key "$tag" owner passthrough)" = squash ] && continue ;;
		esac
		case $one in
		hdd | iomix) set -- "--$one-bytes" 1m ;;
		seek) set -- --seek-size 1m ;;
		dirdeep) set -- --dirdeep-inodes 200 ;;
		dentry) set -- --dentries 100 ;;
		*) set -- ;;
		esac
		ok "$tag: stress-ng finds nothing by $one" stressed "$one" "$@"
	done
	umount "/mnt/$tag"
done
