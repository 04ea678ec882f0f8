# SPDX-License-Identifier: Apache-2.0
# readonly.sh - a share that the host has made read-only refuses every change, though it is mounted read-write here.
. /test/lib.sh

ok "the read-only share mounts read-write" share_mount readonly /mnt/readonly
ok "it can be remounted read-write" mount -o remount,rw /mnt/readonly
fssuite -R /mnt/readonly
ok "it is read all the same" test "$(cat /mnt/readonly/f /mnt/readonly/d/g | wc -l)" = 2
ok "it is unmounted" umount /mnt/readonly
