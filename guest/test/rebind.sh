# SPDX-License-Identifier: Apache-2.0
# rebind.sh - a driver that leaves and comes back ten times finds its device as new.
. /test/lib.sh
data=$(disk data)

# DEVICE of /sys/devices: away from its driver and back, ten times
rebind() {
	driver=$(readlink -f "$1/driver") name=$(basename "$1")
	for i in 1 2 3 4 5 6 7 8 9 10; do
		echo "$name" >"$driver/unbind" && echo "$name" >"$driver/bind" || return 1
	done
}
virtio=$(readlink -f "/sys/block/$data/device")
ok "the disk's virtio driver unbinds and binds ten times" rebind "$virtio"
data=$(disk data)
ok "the disk mounts after that" mount -t ext4 "/dev/$data" /mnt
ok "the disk reads right after that" sh -c 'cd /mnt && sha256sum -c host.sum'
umount /mnt
ok "the disk's bus driver unbinds and binds ten times" rebind "$(dirname "$virtio")"
data=$(disk data)
ok "the disk mounts after that too" mount -t ext4 "/dev/$data" /mnt
ok "the disk reads right after that too" sh -c 'cd /mnt && sha256sum -c host.sum'
umount /mnt

for device in /sys/bus/virtio/drivers/virtiofs/virtio* /sys/bus/virtio/drivers/9pnet_virtio/virtio*; do
	[ ! -e "$device" ] || ok "the share's driver unbinds and binds ten times" rebind "$(readlink -f "$device")"
done
ok "the share mounts after that" share_mount share /mnt/share
ok "the share reads right after that" sh -c 'cd /mnt/share && sha256sum -c host.sum'
umount /mnt/share
[ ! -e /sys/bus/virtio/drivers/9pnet_virtio ] || {
	ok "the share by 9P mounts after that" share_mount p9 /mnt/p9
	ok "the share by 9P reads right after that" sh -c 'test "$(sha256sum </mnt/p9/big | cut -d" " -f1)" = "$(cat /mnt/p9/big.sum)"'
	umount /mnt/p9
}
