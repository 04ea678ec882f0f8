// SPDX-License-Identifier: Apache-2.0
/*
 * virtio.c - a device's registers, whichever the transport, and the way from reset to DRIVER_OK.
 *
 * Queue memory is handed out once per queue and used again after each reset.
 * Spec: virtio 1.2, 3.1.1, 4.1.4.3 (common configuration), 4.2.2 (mmio registers).
 */
#include "virtio.h"

#define QUEUES_ALL 32

struct queue_memory {
	struct vring_desc desc[QUEUE_MAX];
	uint8_t avail[6 + 2 * QUEUE_MAX] __attribute__((aligned(4096)));
	uint8_t used[6 + 8 * QUEUE_MAX] __attribute__((aligned(4096)));
};
static struct queue_memory memory[QUEUES_ALL] POOL;
static unsigned memory_used;

#define COMMON(d, field) ((d)->common + offsetof(struct virtio_pci_common_cfg, field))

uint8_t virtio_status(const struct vdev *d)
{
	return d->pci ? mmio_read8(COMMON(d, device_status))
		      : (uint8_t)mmio_read32(d->base + VIRTIO_MMIO_STATUS);
}

void virtio_set_status(struct vdev *d, uint8_t v)
{
	if (d->pci)
		mmio_write8(COMMON(d, device_status), v);
	else
		mmio_write32(d->base + VIRTIO_MMIO_STATUS, v);
}

bool virtio_reset(struct vdev *d)
{
	uint64_t t0 = cpu_tsc();

	virtio_set_status(d, 0);
	while (virtio_status(d))
		if (clock_passed(t0, 1000))
			return false;
	return true;
}

uint32_t virtio_offered_word(struct vdev *d, uint32_t word)
{
	if (d->pci) {
		mmio_write32(COMMON(d, device_feature_select), word);
		return mmio_read32(COMMON(d, device_feature));
	}
	mmio_write32(d->base + VIRTIO_MMIO_DEVICE_FEATURES_SEL, word);
	return mmio_read32(d->base + VIRTIO_MMIO_DEVICE_FEATURES);
}

static void take_word(struct vdev *d, uint32_t word, uint32_t v)
{
	if (d->pci) {
		mmio_write32(COMMON(d, guest_feature_select), word);
		mmio_write32(COMMON(d, guest_feature), v);
	} else {
		mmio_write32(d->base + VIRTIO_MMIO_DRIVER_FEATURES_SEL, word);
		mmio_write32(d->base + VIRTIO_MMIO_DRIVER_FEATURES, v);
	}
}

uint64_t virtio_offered(struct vdev *d)
{
	uint64_t low = virtio_offered_word(d, 0);

	return low | (uint64_t)virtio_offered_word(d, 1) << 32;
}

bool virtio_has(const struct vdev *d, unsigned bit)
{
	return d->features >> bit & 1;
}

uint64_t virtio_ring_features(void)
{
	return (options.indirect ? 1ull << VIRTIO_RING_F_INDIRECT_DESC : 0) |
	       (options.event_idx ? 1ull << VIRTIO_RING_F_EVENT_IDX : 0);
}

void virtio_negotiate(struct vdev *d, uint64_t want)
{
	if (!virtio_reset(d))
		give_up("virtio type %u: no reset", d->type);
	virtio_set_status(d, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	virtio_set_status(d, VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER);
	d->features = virtio_offered(d) & (want | 1ull << VIRTIO_F_VERSION_1);
	take_word(d, 0, (uint32_t)d->features);
	take_word(d, 1, (uint32_t)(d->features >> 32));
	virtio_set_status(d, STATUS_FEATURES_OK);
	if (!(virtio_status(d) & VIRTIO_CONFIG_S_FEATURES_OK))
		give_up("virtio type %u: features %lx refused", d->type, d->features);
}

void virtio_select(struct vdev *d, uint16_t queue)
{
	if (d->pci)
		mmio_write16(COMMON(d, queue_select), queue);
	else
		mmio_write32(d->base + VIRTIO_MMIO_QUEUE_SEL, queue);
}

uint32_t virtio_queue_size(const struct vdev *d)
{
	return d->pci ? mmio_read16(COMMON(d, queue_size))
		      : mmio_read32(d->base + VIRTIO_MMIO_QUEUE_NUM_MAX);
}

void virtio_set_queue_size(struct vdev *d, uint16_t n)
{
	if (d->pci)
		mmio_write16(COMMON(d, queue_size), n);
	else
		mmio_write32(d->base + VIRTIO_MMIO_QUEUE_NUM, n);
}

bool virtio_queue_enabled(const struct vdev *d)
{
	return d->pci ? mmio_read16(COMMON(d, queue_enable))
		      : mmio_read32(d->base + VIRTIO_MMIO_QUEUE_READY);
}

static void write64(uint64_t a, uint64_t v)
{
	mmio_write32(a, (uint32_t)v);
	mmio_write32(a + 4, (uint32_t)(v >> 32));
}

void virtio_set_queue(struct vdev *d, uint16_t size, uint64_t desc)
{
	virtio_set_queue_size(d, size);
	write64(d->pci ? COMMON(d, queue_desc_lo) : d->base + VIRTIO_MMIO_QUEUE_DESC_LOW, desc);
}

static void queue_place(struct vdev *d, struct vq *q)
{
	virtio_set_queue(d, q->size, (uint64_t)q->desc);
	if (d->pci) {
		mmio_write16(COMMON(d, queue_msix_vector), VIRTIO_MSI_NO_VECTOR);
		write64(COMMON(d, queue_avail_lo), (uint64_t)q->avail);
		write64(COMMON(d, queue_used_lo), (uint64_t)q->used);
		q->notify_off = mmio_read16(COMMON(d, queue_notify_off));
		mmio_write16(COMMON(d, queue_enable), 1);
	} else {
		write64(d->base + VIRTIO_MMIO_QUEUE_AVAIL_LOW, (uint64_t)q->avail);
		write64(d->base + VIRTIO_MMIO_QUEUE_USED_LOW, (uint64_t)q->used);
		mmio_write32(d->base + VIRTIO_MMIO_QUEUE_READY, 1);
	}
}

static struct queue_memory *memory_of(const struct vq *q)
{
	if (q->desc)
		return (struct queue_memory *)q->desc;
	if (memory_used == QUEUES_ALL)
		give_up("more than %u queues", QUEUES_ALL);
	return &memory[memory_used++];
}

void virtio_queue_up(struct vdev *d, uint16_t index)
{
	struct vq *q = &d->q[index];
	struct queue_memory *m = memory_of(q);
	uint64_t kicks = q->kicks, cycles = q->kick_cycles;

	memset(m, 0, sizeof(*m));
	*q = (struct vq){.dev = d,
			 .index = index,
			 .desc = m->desc,
			 .avail = (struct vring_avail *)m->avail,
			 .used = (struct vring_used *)m->used,
			 .kicks = kicks,
			 .kick_cycles = cycles};
	virtio_select(d, index);
	q->size = (uint16_t)MIN(virtio_queue_size(d), QUEUE_MAX);
	if (!q->size)
		give_up("virtio type %u: queue %u is missing", d->type, index);
	vq_want_interrupt(q, false);
	queue_place(d, q);
	vq_depth(q, 1, 8);
}

void virtio_up(struct vdev *d, uint64_t want, unsigned nqueues)
{
	virtio_negotiate(d, want);
	for (unsigned i = 0; i < nqueues; i++)
		virtio_queue_up(d, (uint16_t)i);
	virtio_set_status(d, STATUS_DRIVER_OK);
}

uint64_t virtio_config(const struct vdev *d, uint32_t off, unsigned len)
{
	uint64_t a = d->config + off;

	if (len == 1)
		return mmio_read8(a);
	if (len == 2)
		return mmio_read16(a);
	if (len == 4)
		return mmio_read32(a);
	return mmio_read32(a) | (uint64_t)mmio_read32(a + 4) << 32;
}

void virtio_notify_at(struct vdev *d, uint16_t queue, uint32_t notify_off)
{
	if (d->pci)
		mmio_write16(d->notify + notify_off * d->notify_mult, queue);
	else
		mmio_write32(d->base + VIRTIO_MMIO_QUEUE_NOTIFY, queue);
}

void virtio_doorbell(struct vq *q)
{
	uint64_t t0 = cpu_tsc();

	virtio_notify_at(q->dev, q->index, q->notify_off);
	q->kicks++;
	q->kick_cycles += cpu_tsc() - t0;
}
