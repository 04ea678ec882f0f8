// SPDX-License-Identifier: Apache-2.0
/*
 * pci.c - configuration space through ports 0xcf8 and 0xcfc, and the virtio functions of bus 0.
 *
 * BARs are used as they were assigned; one that was not, or has registers above the identity map, is left alone.
 * Spec: PCI Local Bus 3.0, 3.2.2.3.2 and 6; virtio 1.2, 4.1.4, 4.1.4.7 (shared memory).
 */
#include "virtio.h"
#include <linux/pci_regs.h>

#define PORT_ADDRESS 0xcf8
#define PORT_DATA    0xcfc
#define ENABLE       0x80000000u
#define VENDOR       0x1af4
#define MODERN       0x1040 /* device id of type 0 */
#define SLOTS        32
#define CAPS_MAX     48

uint32_t pci_read(uint32_t bdf, unsigned reg, unsigned len)
{
	uint16_t port = (uint16_t)(PORT_DATA + (reg & 3));

	port_out32(PORT_ADDRESS, ENABLE | bdf << 8 | (reg & 0xfc));
	if (len == 1)
		return port_in8(port);
	return len == 2 ? port_in16(port) : port_in32(port);
}

void pci_write(uint32_t bdf, unsigned reg, unsigned len, uint32_t v)
{
	uint16_t port = (uint16_t)(PORT_DATA + (reg & 3));

	port_out32(PORT_ADDRESS, ENABLE | bdf << 8 | (reg & 0xfc));
	if (len == 1)
		port_out8(port, (uint8_t)v);
	else if (len == 2)
		port_out16(port, (uint16_t)v);
	else
		port_out32(port, v);
}

bool pci_is_there(void)
{
	port_out32(PORT_ADDRESS, ENABLE);
	return port_in32(PORT_ADDRESS) == ENABLE;
}

unsigned pci_capability(uint32_t bdf, uint8_t id, unsigned nth)
{
	unsigned off = pci_read(bdf, PCI_CAPABILITY_LIST, 1) & 0xfc;

	for (unsigned i = 0; off && i < CAPS_MAX; i++) {
		if (pci_read(bdf, off, 1) == id && !nth--)
			return off;
		off = pci_read(bdf, off + PCI_CAP_LIST_NEXT, 1) & 0xfc;
	}
	return 0;
}

uint64_t pci_bar(uint32_t bdf, unsigned n)
{
	unsigned reg = PCI_BASE_ADDRESS_0 + 4 * n;
	uint32_t v = pci_read(bdf, reg, 4);
	uint64_t a = v & ~15u;

	if (v & PCI_BASE_ADDRESS_SPACE_IO)
		return 0;
	if ((v & PCI_BASE_ADDRESS_MEM_TYPE_MASK) == PCI_BASE_ADDRESS_MEM_TYPE_64)
		a |= (uint64_t)pci_read(bdf, reg + 4, 4) << 32;
	return a;
}

/* Where a virtio capability points, 0 if that cannot be reached. */
static uint64_t cap_address(uint32_t bdf, unsigned cap)
{
	unsigned n = pci_read(bdf, cap + offsetof(struct virtio_pci_cap, bar), 1);
	uint64_t a = n < PCI_STD_NUM_BARS ? pci_bar(bdf, n) : 0;

	if (!a || a >> 32)
		return 0;
	return a + pci_read(bdf, cap + offsetof(struct virtio_pci_cap, offset), 4);
}

/* The only kind of address that may lie above the identity map: map.c makes it reachable. */
static void read_shared_memory(struct vdev *d, unsigned cap)
{
	unsigned n = pci_read(d->bdf, cap + offsetof(struct virtio_pci_cap, bar), 1);
	uint64_t a = n < PCI_STD_NUM_BARS ? pci_bar(d->bdf, n) : 0;

	if (!a)
		return;
	d->shm = a + pci_read(d->bdf, cap + offsetof(struct virtio_pci_cap, offset), 4) +
		 ((uint64_t)pci_read(d->bdf, cap + offsetof(struct virtio_pci_cap64, offset_hi), 4)
		  << 32);
	d->shm_len =
		pci_read(d->bdf, cap + offsetof(struct virtio_pci_cap, length), 4) |
		(uint64_t)pci_read(d->bdf, cap + offsetof(struct virtio_pci_cap64, length_hi), 4)
			<< 32;
	d->shm_id = (uint8_t)pci_read(d->bdf, cap + offsetof(struct virtio_pci_cap, id), 1);
}

static void read_caps(struct vdev *d)
{
	unsigned cap;

	for (unsigned i = 0; (cap = pci_capability(d->bdf, PCI_CAP_ID_VNDR, i)); i++) {
		uint64_t a = cap_address(d->bdf, cap);

		switch (pci_read(d->bdf, cap + offsetof(struct virtio_pci_cap, cfg_type), 1)) {
		case VIRTIO_PCI_CAP_COMMON_CFG:
			d->common = a;
			break;
		case VIRTIO_PCI_CAP_ISR_CFG:
			d->isr = a;
			break;
		case VIRTIO_PCI_CAP_DEVICE_CFG:
			d->config = a;
			break;
		case VIRTIO_PCI_CAP_NOTIFY_CFG:
			d->notify = a;
			d->notify_mult = pci_read(d->bdf, cap + sizeof(struct virtio_pci_cap), 4);
			break;
		case VIRTIO_PCI_CAP_SHARED_MEMORY_CFG:
			read_shared_memory(d, cap);
			break;
		}
	}
}

static void add_function(uint32_t bdf)
{
	struct vdev *d = virtio_found_next();
	uint32_t id = pci_read(bdf, PCI_VENDOR_ID, 4);

	if (!d || (id & 0xffff) != VENDOR || id >> 16 < 0x1000 || id >> 16 >= MODERN + 0x40)
		return;
	*d = (struct vdev){.pci = true, .bdf = bdf};
	/* A transitional function (QEMU's) has its type in the subsystem id. */
	d->type = (uint16_t)(id >> 16 >= MODERN ? (id >> 16) - MODERN
						: pci_read(bdf, PCI_SUBSYSTEM_ID, 2));
	read_caps(d);
	pci_write(bdf, PCI_COMMAND, 2,
		  pci_read(bdf, PCI_COMMAND, 2) | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	if (d->common && d->notify)
		virtio_found_keep();
}

void pci_scan(void)
{
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		add_function(slot << 3);
}
