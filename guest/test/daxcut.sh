# SPDX-License-Identifier: Apache-2.0
# daxcut.sh - the host truncates files that are mapped here.
. /test/lib.sh

ok "the share mounts with -o dax" share_mount share /mnt/share dax
fssuite -C /mnt/share/mapped
ok "the share with dax is unmounted" umount /mnt/share
