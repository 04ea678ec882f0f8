# SPDX-License-Identifier: Apache-2.0
# share.sh - files pass both ways through the shares "share" and "readonly"; the host checks what is written here.
. /test/lib.sh

refused() { # COMMAND...: it fails, and with "Read-only file system"
	! "$@" 2>/tmp/refused && grep -q 'Read-only file system' /tmp/refused
}
ok "the share mounts" share_mount share /mnt/share
cd /mnt/share || exit
ok "the host's files read right" sha256sum -c host.sum
head -c 1500000 /dev/urandom >from-guest.bin
ok "a file for the host is written" sh -c 'sha256sum from-guest.bin >from-guest.sum && sync'

# Not mounted with -o ro: the refusal must be the server's, not the guest's own.
ok "the read-only share mounts" share_mount readonly /mnt/readonly
cd /mnt/readonly || exit
ok "the read-only share reads right" sha256sum -c host.sum
ok "the read-only share refuses a new file" refused touch new
ok "the read-only share refuses a write" refused sh -c 'echo x >>host.bin'
ok "the read-only share refuses a removal" refused rm host.bin
ok "the read-only share refuses a rename" refused mv host.bin other
ok "the read-only share refuses a directory" refused mkdir new
ok "the read-only share refuses a change of mode" refused chmod 777 host.bin
cd /
ok "the read-only share is unmounted" umount /mnt/readonly
ok "the share is unmounted" umount /mnt/share
