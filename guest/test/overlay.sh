# SPDX-License-Identifier: Apache-2.0
# overlay.sh - overlayfs with its lower and its upper directory on one share, as containers have it.
. /test/lib.sh

mount_overlay() {
	modprobe overlay
	mkdir -p /mnt/merged
	mount -t overlay overlay -o "lowerdir=$s/lower,upperdir=$s/upper,workdir=$s/work" /mnt/merged
}
complaints() { dmesg | grep 'overlayfs:.*\(not support\|falling back\|failed\)'; }
s=/mnt/overlay
ok "the share for overlayfs mounts" share_mount overlay $s
ok "overlayfs mounts on it" mount_overlay
no "overlayfs lacks nothing of its upper file system" complaints
cd /mnt/merged || exit
ok "the lower layer is read" test "$(cat read dir/x)" = "$(printf 'lower\nlower')"
ok "a file is appended to" sh -c 'echo upper >>append'
ok "a file's mode is changed" chmod 600 mode
ok "a file is removed" rm remove
ok "a file of the lower layer is renamed" mv dir/y dir/z
ok "a file and a directory are made" sh -c 'echo new >new && mkdir made && echo deep >made/x'
ok "a directory is removed and made again" sh -c 'rm -r dir && mkdir dir && echo upper >dir/only'
ok "the host finds a whiteout" host whiteout overlay/upper/remove
cd /
umount /mnt/merged
ok "overlayfs mounts on it again" mount_overlay
cd /mnt/merged || exit
ok "all of it is as it was left" sh -c 'test "$(ls -R . | tr "\n" " ")" = ".: append dir made mode new read  ./dir: only  ./made: x "'
ok "what was appended is there" test "$(cat append)" = "$(printf 'lower\nupper')"
ok "the mode is there" test "$(stat -c %a mode)" = 600
# Linux's overlayfs over any upper file system that is asked for names again: a link whose first name is gone is stale;
# set-id bits are left to a server that is not told who writes. Before 6.6 it does not know RWF_APPEND, before 6.3 O_TMPFILE.
lacks=$(share_lacks overlay),whiteout without=link,link_same,threads_same_names,link_kinds,link_by_descriptor,rename_links,dir_times,list_agrees,write_kills_setid
at_least 6 6 || without=$without,rwf_append
at_least 6 3 || lacks=$lacks,tmpfile
fssuite -p "on overlayfs: " -n "$lacks" -x "$without" -m 20 -r 60 /mnt/merged
cd /
ok "overlayfs is unmounted" umount /mnt/merged
ok "the share for overlayfs is unmounted" umount $s
