// SPDX-License-Identifier: Apache-2.0
/*
 * register_test.c - a disk's registers with values a good driver never writes, on either transport.
 *
 * Hard cases: A17 (power-on values), A20 (status machine, writes after DRIVER_OK), A21 (feature words), A28 and
 * B13 (configuration space), B1 (queue numbers), B11 and B12 (PCI configuration).
 * Spec: virtio 1.2, 2.1, 2.2, 2.5, 4.1, 4.2.
 */
#include "pattern.h"
#include "virtio.h"
#include <linux/pci_regs.h>

#define PAST_CONFIG 0x400
#define NO_QUEUE    500

static bool works(struct vdev *d)
{
	struct virtio_blk_outhdr *h = (void *)hdr_out[0];
	struct seg s[] = {{h, sizeof(*h)}, {pool, 4096}, {hdr_in[0], 1}};

	*h = (struct virtio_blk_outhdr){.type = VIRTIO_BLK_T_IN};
	hdr_in[0][0] = 0xff;
	return vq_call(&d->q[0], s, 1, 2) == 4097 && !hdr_in[0][0] &&
	       pattern_check(pool, 4096, 0, 0) == 4096;
}

static void test_status(struct vdev *d)
{
	ok(virtio_reset(d), "registers: a reset device has status 0");
	virtio_set_status(d, VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER |
				     VIRTIO_CONFIG_S_DRIVER_OK);
	ok(!(virtio_status(d) & VIRTIO_CONFIG_S_DRIVER_OK),
	   "registers: DRIVER_OK without FEATURES_OK is not taken");
	virtio_reset(d);
	virtio_set_status(d, STATUS_FEATURES_OK);
	ok(!(virtio_status(d) & VIRTIO_CONFIG_S_FEATURES_OK),
	   "registers: nor FEATURES_OK without VERSION_1");
	ok(virtio_offered(d) >> VIRTIO_F_VERSION_1 & 1, "registers: which is offered");
	is(virtio_offered_word(d, 2) | virtio_offered_word(d, ~0u), 0,
	   "registers: no features beyond 64 are");
}

static void test_live_queue(struct vdev *d)
{
	virtio_up(d, virtio_ring_features(), 1);
	virtio_select(d, 0);
	virtio_set_queue(d, 3, 0x1230);
	ok(works(d), "registers: a live queue cannot be moved");
	virtio_set_status(d, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	is(virtio_status(d), STATUS_DRIVER_OK,
	   "registers: single status bits cannot be taken back");
	ok(works(d), "registers: and it goes on");
}

static void test_queue_numbers(struct vdev *d)
{
	uint32_t size;

	virtio_select(d, 0);
	size = virtio_queue_size(d);
	virtio_select(d, NO_QUEUE);
	is(virtio_queue_size(d), 0, "registers: a queue that does not exist has size 0");
	ok(!virtio_queue_enabled(d), "registers: and is not enabled");
	virtio_set_queue(d, 8, 0x1000);
	virtio_notify_at(d, NO_QUEUE, 0);
	if (d->pci)
		virtio_notify_at(d, 1, NO_QUEUE);
	virtio_select(d, 0);
	is(virtio_queue_size(d), size, "registers: writes to it touch no other");
	ok(works(d), "registers: and neither does a doorbell");
}

static void test_config(struct vdev *d)
{
	uint64_t whole = virtio_config(d, 0, 8), bytes = 0;

	for (unsigned i = 0; i < 8; i++)
		bytes |= virtio_config(d, i, 1) << 8 * i;
	is(bytes, whole, "registers: the configuration is the same in every width");
	is(virtio_config(d, PAST_CONFIG, 1) | virtio_config(d, PAST_CONFIG, 2) |
		   virtio_config(d, PAST_CONFIG, 4),
	   0, "registers: past its end it reads 0");
	mmio_write32(d->config, 0x12345678);
	mmio_write8(d->config + PAST_CONFIG, 1);
	is(virtio_config(d, 0, 8), whole, "registers: and it cannot be written");
}

static void test_power_on(struct vdev *d)
{
	uint32_t size;

	virtio_reset(d);
	virtio_select(d, 0);
	size = virtio_queue_size(d);
	ok(!virtio_queue_enabled(d), "registers: after a reset the queue is not enabled");
	ok(size && !(size & (size - 1)), "registers: its size is the maximum again (%u)", size);
	virtio_doorbell(&d->q[0]);
	virtio_up(d, virtio_ring_features(), 1);
	ok(works(d), "registers: a doorbell before DRIVER_OK does no harm");
}

/* ---- only on one of them ---- */

static void test_window(struct vdev *d)
{
	ok(!mmio_read8(d->base) || mmio_read8(d->base) == 'v',
	   "registers: a byte of a register is 0 or right");
	mmio_write8(d->base + VIRTIO_MMIO_STATUS, 0);
	mmio_write16(d->base + VIRTIO_MMIO_STATUS, 0);
	is(virtio_status(d), STATUS_DRIVER_OK, "registers: half a register cannot be written");
	is(mmio_read32(d->base + VIRTIO_MMIO_SHM_LEN_LOW), ~0u,
	   "registers: there is no shared memory");
	is(mmio_read32(d->base + 0xfc) & 0x7fffffff, mmio_read32(d->base + 0xfc),
	   "registers: a generation can be read");
}

static void test_bars(struct vdev *d)
{
	uint32_t old = pci_read(d->bdf, PCI_BASE_ADDRESS_0, 4), size;

	pci_write(d->bdf, PCI_BASE_ADDRESS_0, 4, ~0u);
	size = -(pci_read(d->bdf, PCI_BASE_ADDRESS_0, 4) & ~15u);
	pci_write(d->bdf, PCI_BASE_ADDRESS_0, 4, old);
	ok(size >= 4096 && !(size & (size - 1)), "registers: a BAR tells its size (%u)", size);
	is(pci_read(d->bdf, PCI_BASE_ADDRESS_0, 4), old, "registers: and takes its address back");
	ok(works(d), "registers: where the device answers again");
	pci_write(d->bdf, PCI_BASE_ADDRESS_0, 4, old + 0x1000000);
	ok(mmio_read8(d->common + 0x1000000 +
		      offsetof(struct virtio_pci_common_cfg, device_status)) == STATUS_DRIVER_OK,
	   "registers: moved, it answers there");
	is(virtio_status(d), 0xff, "registers: and no longer here");
	pci_write(d->bdf, PCI_BASE_ADDRESS_0, 4, old);
	pci_write(d->bdf, PCI_COMMAND, 2, 0);
	is(virtio_status(d), 0xff, "registers: without memory decoding it answers nowhere");
	pci_write(d->bdf, PCI_COMMAND, 2, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	ok(works(d), "registers: with it, it does, doorbell and all");
}

static void test_function(struct vdev *d)
{
	uint32_t id = pci_read(d->bdf, PCI_VENDOR_ID, 4);

	pci_write(d->bdf, PCI_VENDOR_ID, 4, 0);
	is(pci_read(d->bdf, PCI_VENDOR_ID, 4), id, "registers: the ids cannot be written");
	is(pci_read(d->bdf, PCI_VENDOR_ID, 1) | pci_read(d->bdf, PCI_VENDOR_ID + 1, 1) << 8 |
		   pci_read(d->bdf, PCI_DEVICE_ID, 2) << 16,
	   id, "registers: configuration space is the same in every width");
	ok(pci_capability(d->bdf, PCI_CAP_ID_MSIX, 0), "registers: MSI-X is there");
}

void register_test(struct vdev *d)
{
	test_status(d);
	test_live_queue(d);
	test_queue_numbers(d);
	test_config(d);
	test_power_on(d);
	if (d->pci) {
		test_function(d);
		test_bars(d);
	} else {
		test_window(d);
	}
}
