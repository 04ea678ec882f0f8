# SPDX-License-Identifier: Apache-2.0
# dax.sh - files are mapped through the window: all of them with -o dax, or those that the server marks.
. /test/lib.sh

ok "the share mounts with -o dax" share_mount share /mnt/share dax
ok "the mount is with dax" sh -c 'grep " /mnt/share virtiofs .*dax" /proc/mounts'
fssuite -D /mnt/share/mapped
rm -f /mnt/share/mapped
ok "the share with dax is unmounted" umount /mnt/share
# The window is smaller than this file: pieces of it are given back for others.
ok "the share mounts whose server marks files" share_mount inode /mnt/inode
ok "a file larger than the window is written" dd if=/dev/urandom of=/mnt/inode/big bs=1M count=20
sum=$(sha256sum </mnt/inode/big)
ok "a file larger than the window reads right" test "$(sha256sum </mnt/inode/big)" = "$sum"
ok "the host reads the same" host sum inode/big "${sum%% *}"
fssuite -p "dax by file: " -n "$(share_lacks inode)" -c map,map_two,map_end,map_append,map_big,map_as_buffer,unlinked_open,renamed_over,model -m 20 -r 100 /mnt/inode
ok "the share is unmounted whose server marks files" umount /mnt/inode
