// SPDX-License-Identifier: Apache-2.0
/*
 * virtio.c - the registers of a virtio device: features, status, queue set-up, configuration space, reset.
 *
 * They arrive on vCPU threads and are served under dev->lock, which no iothread ever takes. What DRIVER_OK and a reset
 * do to queues and threads is virtio_run.c's; after it has stopped the device, everything the driver ever set goes back
 * to power-on here (hard case A17).
 * Spec: virtio 1.2, 2.1 (status), 2.2 (features), 2.4 (reset), 2.5 (config), 3.1.1 (initialisation). Calls:
 * virtio_run.c, virtq.h, the transport.
 */
#include "virtio.h"
#include "../vmm/log.h"

/* What the ring code honours for every device; nothing is offered that has no test (A29). */
#define CORE_FEATURES                                                       \
	(1ull << VIRTIO_F_VERSION_1 | 1ull << VIRTIO_RING_F_INDIRECT_DESC | \
	 1ull << VIRTIO_RING_F_EVENT_IDX)

/* The bits a driver sets; NEEDS_RESET is ours. */
#define DRIVER_STATUS                                                                         \
	(VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER | VIRTIO_CONFIG_S_FEATURES_OK | \
	 VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_FAILED)

static uint8_t status_of(const struct virtio_dev *dev)
{
	return __atomic_load_n(&dev->status, __ATOMIC_ACQUIRE);
}

static void status_add(struct virtio_dev *dev, uint8_t bits)
{
	__atomic_fetch_or(&dev->status, bits, __ATOMIC_ACQ_REL);
}

/* ---- features ---- */

static uint64_t offered(const struct virtio_dev *dev)
{
	return dev->features | CORE_FEATURES;
}

bool virtio_has(const struct virtio_dev *dev, unsigned feature_bit)
{
	return dev->driver_features >> feature_bit & 1;
}

/* Drivers that know 128 feature bits select words 2 and 3 as well (A21). */
uint32_t virtio_features_read(struct virtio_dev *dev, uint32_t word)
{
	return word > 1 ? 0 : (uint32_t)(offered(dev) >> (32 * word));
}

uint32_t virtio_driver_features_read(struct virtio_dev *dev, uint32_t word)
{
	uint32_t v;

	pthread_mutex_lock(&dev->lock);
	v = word > 1 ? 0 : (uint32_t)(dev->driver_features >> (32 * word));
	pthread_mutex_unlock(&dev->lock);
	return v;
}

void virtio_driver_features_write(struct virtio_dev *dev, uint32_t word, uint32_t v)
{
	pthread_mutex_lock(&dev->lock);
	if (status_of(dev) & VIRTIO_CONFIG_S_FEATURES_OK)
		goto out;
	if (word > 1)
		dev->features_unknown |= v != 0;
	else if (word == 1)
		dev->driver_features = (uint64_t)v << 32 | (uint32_t)dev->driver_features;
	else
		dev->driver_features = (dev->driver_features >> 32 << 32) | v;
out:
	pthread_mutex_unlock(&dev->lock);
}

/* 2.2.2: only bits that were offered, and nothing of before version 1. */
static bool features_acceptable(const struct virtio_dev *dev)
{
	return !dev->features_unknown && !(dev->driver_features & ~offered(dev)) &&
	       virtio_has(dev, VIRTIO_F_VERSION_1);
}

/* ---- status ---- */

uint8_t virtio_status_read(struct virtio_dev *dev)
{
	return status_of(dev);
}

static void reset(struct virtio_dev *dev)
{
	virtio_stop(dev);
	for (unsigned i = 0; i < dev->nqueues; i++)
		virtq_reset(&dev->vq[i]);
	dev->driver_features = 0;
	dev->features_unknown = false;
	dev->tp->ops->reset(dev->tp);
	/* Last: a driver that polls may use its memory again from here on (2.4.1). */
	__atomic_store_n(&dev->status, 0, __ATOMIC_RELEASE);
}

/* Status bits are only ever added (2.1.1); what may not be set is not set and reads back so (A20, A21). */
static void status_set(struct virtio_dev *dev, uint8_t v)
{
	uint8_t old = status_of(dev);
	uint8_t add = v & (uint8_t)~old & DRIVER_STATUS;

	if ((add & VIRTIO_CONFIG_S_FEATURES_OK) && !features_acceptable(dev))
		add &= (uint8_t)~VIRTIO_CONFIG_S_FEATURES_OK;
	/* The driver has to have read FEATURES_OK back first (3.1.1), so it is not enough to set both at once. */
	if (!(old & VIRTIO_CONFIG_S_FEATURES_OK))
		add &= (uint8_t)~VIRTIO_CONFIG_S_DRIVER_OK;
	/* Before the bit can be read back: the driver then finds the configuration as it will be. */
	if ((add & VIRTIO_CONFIG_S_FEATURES_OK) && dev->ops->negotiated)
		dev->ops->negotiated(dev);
	/* Before starting, so that a start that fails finds DRIVER_OK and interrupts. */
	status_add(dev, add);
	if (!(add & VIRTIO_CONFIG_S_DRIVER_OK))
		return;
	virtio_start(dev);
}

void virtio_status_write(struct virtio_dev *dev, uint8_t v)
{
	pthread_mutex_lock(&dev->lock);
	if (v)
		status_set(dev, v);
	else
		reset(dev);
	pthread_mutex_unlock(&dev->lock);
}

/* ---- queues ---- */

static uint32_t queue_get(const struct virtio_dev *dev, const struct virtq *vq, enum virtq_reg reg)
{
	switch (reg) {
	case VIRTQ_SIZE:
		return vq->size;
	case VIRTQ_SIZE_MAX:
		return dev->queue_size;
	case VIRTQ_READY:
		return vq->ready;
	case VIRTQ_DESC_LO:
		return (uint32_t)vq->desc_addr;
	case VIRTQ_DESC_HI:
		return (uint32_t)(vq->desc_addr >> 32);
	case VIRTQ_AVAIL_LO:
		return (uint32_t)vq->avail_addr;
	case VIRTQ_AVAIL_HI:
		return (uint32_t)(vq->avail_addr >> 32);
	case VIRTQ_USED_LO:
		return (uint32_t)vq->used_addr;
	case VIRTQ_USED_HI:
		return (uint32_t)(vq->used_addr >> 32);
	}
	return 0;
}

uint32_t virtio_queue_read(struct virtio_dev *dev, uint32_t queue, enum virtq_reg reg)
{
	uint32_t v;

	if (queue >= dev->nqueues)
		return 0;
	pthread_mutex_lock(&dev->lock);
	v = queue_get(dev, &dev->vq[queue], reg);
	pthread_mutex_unlock(&dev->lock);
	return v;
}

static void set_lo(uint64_t *addr, uint32_t v)
{
	*addr = (*addr >> 32 << 32) | v;
}

static void set_hi(uint64_t *addr, uint32_t v)
{
	*addr = (uint64_t)v << 32 | (uint32_t)*addr;
}

static void queue_set(struct virtq *vq, enum virtq_reg reg, uint32_t v)
{
	switch (reg) {
	case VIRTQ_SIZE:
		/* What does not fit is as wrong as 0, which virtq_start() refuses. */
		vq->size = v > UINT16_MAX ? 0 : (uint16_t)v;
		break;
	case VIRTQ_READY:
		vq->ready = v == 1;
		break;
	case VIRTQ_DESC_LO:
		set_lo(&vq->desc_addr, v);
		break;
	case VIRTQ_DESC_HI:
		set_hi(&vq->desc_addr, v);
		break;
	case VIRTQ_AVAIL_LO:
		set_lo(&vq->avail_addr, v);
		break;
	case VIRTQ_AVAIL_HI:
		set_hi(&vq->avail_addr, v);
		break;
	case VIRTQ_USED_LO:
		set_lo(&vq->used_addr, v);
		break;
	case VIRTQ_USED_HI:
		set_hi(&vq->used_addr, v);
		break;
	case VIRTQ_SIZE_MAX:
		break;
	}
}

void virtio_queue_write(struct virtio_dev *dev, uint32_t queue, enum virtq_reg reg, uint32_t v)
{
	uint8_t window = VIRTIO_CONFIG_S_FEATURES_OK | VIRTIO_CONFIG_S_DRIVER_OK;

	if (queue >= dev->nqueues)
		return;
	pthread_mutex_lock(&dev->lock);
	/* Once the queue is live its addresses were checked: they must not change any more (A20). */
	if ((status_of(dev) & window) == VIRTIO_CONFIG_S_FEATURES_OK)
		queue_set(&dev->vq[queue], reg, v);
	pthread_mutex_unlock(&dev->lock);
}

void virtio_queue_kick(struct virtio_dev *dev, uint32_t queue)
{
	uint64_t one = 1;

	if (queue >= dev->nqueues)
		return;
	/* Cannot fail but for a counter at its maximum, and then the queue is kicked already. */
	if (write(dev->vq[queue].kick_fd, &one, sizeof(one)) != sizeof(one))
		log_debug("%s: kick of queue %u: %m", dev->base.name, queue);
}

/* ---- configuration space ---- */

void virtio_config_read(struct virtio_dev *dev, uint64_t off, void *data, unsigned len)
{
	size_t n = 0;

	memset(data, 0, len);
	pthread_mutex_lock(&dev->lock);
	if (off < dev->config_len)
		n = MIN((size_t)len, dev->config_len - (size_t)off);
	if (n)
		memcpy(data, (const uint8_t *)dev->config + off, n);
	pthread_mutex_unlock(&dev->lock);
}

/* What lies before them is, unsigned, far behind them. */
static bool config_writable(const struct virtio_dev *dev, uint64_t at)
{
	return at - dev->config_rw < dev->config_rw_len;
}

/*
 * Byte by byte, and each by one store: the device's threads load them without the lock. An offset past the end is
 * nothing, one before it cannot wrap on its way up.
 */
void virtio_config_write(struct virtio_dev *dev, uint64_t off, const void *data, unsigned len)
{
	uint8_t *config = dev->config;
	const uint8_t *from = data;

	pthread_mutex_lock(&dev->lock);
	if ((status_of(dev) & VIRTIO_CONFIG_S_FEATURES_OK) && off < dev->config_len)
		for (unsigned i = 0; i < len; i++)
			if (config_writable(dev, off + i))
				__atomic_store_n(config + off + i, from[i], __ATOMIC_RELAXED);
	pthread_mutex_unlock(&dev->lock);
}

uint32_t virtio_config_generation(struct virtio_dev *dev)
{
	return __atomic_load_n(&dev->generation, __ATOMIC_ACQUIRE);
}

void virtio_config_changed(struct virtio_dev *dev, void (*change)(struct virtio_dev *, void *),
			   void *arg)
{
	bool up;

	pthread_mutex_lock(&dev->lock);
	change(dev, arg);
	__atomic_fetch_add(&dev->generation, 1, __ATOMIC_RELEASE);
	up = status_of(dev) & VIRTIO_CONFIG_S_DRIVER_OK;
	pthread_mutex_unlock(&dev->lock);
	if (up)
		dev->tp->ops->irq_config(dev->tp);
}
