# SPDX-License-Identifier: Apache-2.0
# irq.sh - the virtio devices interrupt in the way this machine should (wherry.irq: msix, intx, mmio).
. /test/lib.sh

case $(word irq) in
msix) pattern='PCI-MSI.*virtio' ;;
intx) pattern='IO-APIC.*virtio' ;;
mmio) pattern='IO-APIC.*virtio' ;;
esac
# Some count of the lines that name virtio must not be 0: the disk was read when it was found.
interrupts_seen() {
	grep -E "$pattern" /proc/interrupts | awk '{ for (i = 2; i <= NF && $i ~ /^[0-9]+$/; i++) n += $i } END { exit !n }'
}
case $(word irq) in
mmio) ok "the devices are on virtio-mmio" sh -c 'ls -d /sys/bus/platform/drivers/virtio-mmio/*/virtio*' ;;
*) ok "the devices are on virtio-pci" sh -c 'ls -d /sys/bus/pci/drivers/virtio-pci/*/virtio*' ;;
esac
ok "virtio interrupts come by $(word irq)" interrupts_seen
