// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_find.c - the devices there are: PCI functions, and windows that the command line names.
 *
 * virtio_mmio.device=SIZE@ADDRESS:IRQ is Linux's own word for a window (its module parameter).
 */
#include "virtio.h"

#define DEVICES_MAX 8
#define MAGIC       0x74726976u /* "virt" */

static struct vdev devices[DEVICES_MAX];
static unsigned ndevices;

struct vdev *virtio_found_next(void)
{
	return ndevices < DEVICES_MAX ? &devices[ndevices] : NULL;
}

void virtio_found_keep(void)
{
	struct vdev *d = &devices[ndevices++];

	if (d->pci)
		print("payload: virtio type %u at pci %x\n", d->type, d->bdf);
	else
		print("payload: virtio type %u at mmio %lx\n", d->type, d->base);
}

/* Region 0, all this program knows devices to have. A length of all ones says there is none (4.2.2). */
static void read_shared_memory(struct vdev *d)
{
	uint64_t len;

	mmio_write32(d->base + VIRTIO_MMIO_SHM_SEL, 0);
	len = mmio_read32(d->base + VIRTIO_MMIO_SHM_LEN_LOW) |
	      (uint64_t)mmio_read32(d->base + VIRTIO_MMIO_SHM_LEN_HIGH) << 32;
	if (!len || len == UINT64_MAX)
		return;
	d->shm_len = len;
	d->shm = mmio_read32(d->base + VIRTIO_MMIO_SHM_BASE_LOW) |
		 (uint64_t)mmio_read32(d->base + VIRTIO_MMIO_SHM_BASE_HIGH) << 32;
}

static void add_window(uint64_t base, uint32_t gsi)
{
	struct vdev *d = virtio_found_next();

	if (!d || base >> 32 || mmio_read32(base) != MAGIC ||
	    mmio_read32(base + VIRTIO_MMIO_VERSION) != 2)
		return;
	*d = (struct vdev){.base = base,
			   .gsi = gsi,
			   .config = base + VIRTIO_MMIO_CONFIG,
			   .type = (uint16_t)mmio_read32(base + VIRTIO_MMIO_DEVICE_ID)};
	read_shared_memory(d);
	if (d->type)
		virtio_found_keep();
}

static void find_windows(void)
{
	static const char key[] = "virtio_mmio.device=";

	for (const char *p = cmdline; *p; p++) {
		uint64_t base;

		if (!text_begins(p, key))
			continue;
		text_number(p + sizeof(key) - 1, &p);
		if (*p != '@')
			continue;
		base = text_number(p + 1, &p);
		add_window(base, *p == ':' ? (uint32_t)text_number(p + 1, &p) : 0);
	}
}

void virtio_find_all(void)
{
	if (pci_is_there())
		pci_scan();
	find_windows();
}

struct vdev *virtio_find(uint16_t type, unsigned nth)
{
	for (unsigned i = 0; i < ndevices; i++)
		if (devices[i].type == type && !nth--)
			return &devices[i];
	return NULL;
}
