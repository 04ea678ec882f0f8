# SPDX-License-Identifier: Apache-2.0
# check.sh - what root does after login on the serial console of a Debian whose root directory is a disk.
. /test/lib.sh

booted() { # or which units failed
	state=$(systemctl is-system-running --wait)
	[ "$state" = running ] || { echo "$state" && systemctl --failed --plain --no-legend; }
	[ "$state" = running ]
}
root_is() { # FIELD VALUE: as findmnt has it
	[ "$(findmnt -no "$1" /)" = "$2" ]
}
ok "systemd has started all there is" booted
ok "systemd is the first process" test "$(cat /proc/1/comm)" = systemd
ok "root has logged in at the serial console" sh -c 'who | grep -q "^root *ttyS0"'
ok "which is a session of the system" sh -c 'loginctl list-sessions --no-legend | grep -q "root.*ttyS0"'
ok "the kernel was told the root device by the machine" grep -q ' root=/dev/vda rw' /proc/cmdline
ok "the root directory is on it" root_is SOURCE /dev/vda
ok "in a file system of ext4" root_is FSTYPE ext4
ok "that can be written" sh -c 'findmnt -no OPTIONS / | grep -q "^rw,"'
ok "and was checked before" sh -c 'test -e /run/initramfs/fsck-root && grep -q "/dev/vda: clean" /run/initramfs/fsck.log'
ok "the disk has the name of the drive" test "$(disk rootdisk)" = vda
ok "udev has found it by that name" test "$(readlink -f /dev/disk/by-id/virtio-rootdisk)" = /dev/vda
ok "a big file is written and synced" sh -c 'head -c 20000000 /dev/urandom >/srv/big && sha256sum </srv/big >/srv/big.sum && sync'
ok "it reads right past the page cache" sh -c 'echo 3 >/proc/sys/vm/drop_caches && [ "$(sha256sum </srv/big)" = "$(cat /srv/big.sum)" ]'
ok "the programs of the packages are as they were" sh -c 'dpkg --verify >/tmp/differ; grep -q /etc/login.defs /tmp/differ && ! grep "^..5......   /" /tmp/differ'
ok "room that is free goes back to the host" fstrim -v /
ok "the journal is on the disk" sh -c 'mkdir -p /var/log/journal && journalctl --flush && journalctl --sync && ls /var/log/journal/*/system.journal'
echo "@@ end rootdisk $(cut -d' ' -f1 /proc/uptime)"
systemctl poweroff
# The terminal is the session's until that ends it.
exec sleep infinity
