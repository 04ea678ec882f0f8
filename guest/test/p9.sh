# SPDX-License-Identifier: Apache-2.0
# p9.sh - files pass whole through the share "p9", whatever the size of a message; part of it can be mounted.
. /test/lib.sh

sum_is() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$(cat /mnt/p9/big.sum)" ]; }
agreed() { # MSIZE: so /proc/mounts says; more than 500 KiB is more than this client's queue takes
	most=$1
	[ "$most" -le 512000 ] || most=512000
	# 128 KiB is what it asks for by itself, and does not show.
	[ "$most" = 131072 ] || grep -q " /mnt/p9 9p .*,msize=$most," /proc/mounts
}
for msize in 4096 8192 131072 512000 1048576; do
	ok "the share mounts with messages of $msize" share_mount p9 /mnt/p9 "$(share_key p9 mount),msize=$msize"
	ok "messages of $msize are agreed on" agreed $msize
	ok "a file of the host is copied in messages of $msize" cp /mnt/p9/big /mnt/p9/big-$msize
	ok "the share is unmounted after messages of $msize" umount /mnt/p9
done

no "there is no share of another tag" share_mount nowhere /mnt/nowhere
ok "the share mounts" share_mount p9 /mnt/p9
ok "a file of the host reads right" sum_is /mnt/p9/big
no "what is mounted is not mounted again" share_mount p9 /mnt/again
mkdir -p /mnt/p9/below/deeper
echo deep >/mnt/p9/below/deeper/file
ok "the share is unmounted" umount /mnt/p9
ok "a directory below the share mounts by itself" share_mount p9 /mnt/p9 "$(share_key p9 mount),aname=/below/deeper"
ok "its files are there" grep deep /mnt/p9/file
ok "it is unmounted" umount /mnt/p9
no "what is not there does not mount" share_mount p9 /mnt/p9 "$(share_key p9 mount),aname=/below/none"
