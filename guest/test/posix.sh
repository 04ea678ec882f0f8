# SPDX-License-Identifier: Apache-2.0
# posix.sh - the share behaves as a file system does.
. /test/lib.sh

ok "the share mounts for the file system checks" share_mount share /mnt/share
fscheck /mnt/share
ok "the share is unmounted after the checks" umount /mnt/share
