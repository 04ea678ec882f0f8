// SPDX-License-Identifier: Apache-2.0
/*
 * virtio.c - the life of a virtio device: features, status, queue set-up, start, reset.
 *
 * Registers arrive on vCPU threads and are served under dev->lock. Queues and the device's own functions belong to
 * the iothread; start and stop are carried there by loop_call() while the vCPU holds the lock, and the iothread never
 * takes it, so that cannot deadlock (hard case A19). A reset ends when nothing is in flight, then everything the
 * driver ever set is back at power-on (A16, A17). Before virtio_run() there is no thread to carry anything to: then
 * the caller does it himself, which loop.h allows.
 * Spec: virtio 1.2, 2.1 (status), 2.2 (features), 2.4 (reset), 2.5 (config), 3.1.1 (initialisation). Calls: virtq.h,
 * loop.h, the transport.
 */
#include "virtio.h"
#include "../vmm/irq.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include <assert.h>
#include <sys/eventfd.h>

/* What the ring code honours for every device; nothing is offered that has no test (A29). */
#define CORE_FEATURES                                                       \
	(1ull << VIRTIO_F_VERSION_1 | 1ull << VIRTIO_RING_F_INDIRECT_DESC | \
	 1ull << VIRTIO_RING_F_EVENT_IDX)

/* The bits a driver sets; NEEDS_RESET is ours. */
#define DRIVER_STATUS                                                                         \
	(VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER | VIRTIO_CONFIG_S_FEATURES_OK | \
	 VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_FAILED)

/* More than this many operations are submitted all the same, only not all at once. */
#define LOOP_DEPTH_MAX 256u

static uint8_t status_of(const struct virtio_dev *dev)
{
	return __atomic_load_n(&dev->status, __ATOMIC_ACQUIRE);
}

static void status_add(struct virtio_dev *dev, uint8_t bits)
{
	__atomic_fetch_or(&dev->status, bits, __ATOMIC_ACQ_REL);
}

/* ---- on the iothread ---- */

static void queue_kicked(struct virtio_dev *dev, struct virtq *vq)
{
	/* A kick may be older than the last reset, or meant for a queue that rests: it is only a hint. */
	if (vq->running && !vq->broken)
		dev->ops->kick(dev, vq);
}

static void kick_ready(struct watch *w)
{
	struct virtq *vq = container_of(w, struct virtq, watch);
	struct virtio_dev *dev = vq->dev;

	queue_kicked(dev, vq);
}

static void queues_stop(struct virtio_dev *dev)
{
	for (unsigned i = 0; i < dev->nqueues; i++) {
		loop_unwatch(dev->io, &dev->vq[i].watch);
		dev->vq[i].running = false;
	}
}

static int queues_start(struct virtio_dev *dev)
{
	bool event_idx = virtio_has(dev, VIRTIO_RING_F_EVENT_IDX);
	bool indirect = virtio_has(dev, VIRTIO_RING_F_INDIRECT_DESC);

	for (unsigned i = 0; i < dev->nqueues; i++) {
		struct virtq *vq = &dev->vq[i];
		int r;

		if (!vq->ready)
			continue;
		r = virtq_start(vq, dev->vm->mem, event_idx, indirect);
		if (!r)
			r = loop_watch(dev->io, &vq->watch);
		if (r)
			return r;
	}
	return 0;
}

/* A failure is the driver's to see: the machine goes on (A22). */
static void start_on_loop(void *arg)
{
	struct virtio_dev *dev = arg;
	int r = queues_start(dev);

	if (!r && dev->ops->start)
		r = dev->ops->start(dev);
	if (r) {
		queues_stop(dev);
		virtio_broken(dev, NULL,
			      r == -EINVAL ? "size or address of a queue" : strerror(-r));
		return;
	}
	/* What the driver published before its queue was live is found now (A15). */
	for (unsigned i = 0; i < dev->nqueues; i++)
		if (dev->vq[i].running)
			virtio_queue_kick(dev, i);
}

static bool requests_out(const struct virtio_dev *dev)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < dev->nqueues; i++)
		n += dev->vq[i].inflight;
	return n > 0;
}

static void drained_on_loop(struct loop_work *w)
{
	struct virtio_dev *dev = container_of(w, struct virtio_dev, drained_work);

	sem_post(&dev->drained);
}

/*
 * Posted, not done at once: whoever pushed the last request is still on the stack and may look at it or at its queue
 * until he returns to the loop.
 */
void virtio_drained(struct virtio_dev *dev)
{
	if (!dev->stopping || requests_out(dev))
		return;
	dev->stopping = false;
	if (dev->running)
		loop_post(dev->io, &dev->drained_work);
}

static void stop_on_loop(void *arg)
{
	struct virtio_dev *dev = arg;

	queues_stop(dev);
	if (dev->ops->stop)
		dev->ops->stop(dev);
	/* From here on: what ops->stop() itself gave back is counted already. */
	dev->stopping = true;
	virtio_drained(dev);
}

void virtio_broken(struct virtio_dev *dev, struct virtq *vq, const char *what)
{
	if (vq)
		vq->broken = true;
	for (unsigned i = 0; i < dev->nqueues && !vq; i++)
		dev->vq[i].broken = true;
	if (vq)
		log_once(&dev->said_broken, LOG_WARN,
			 "%s: queue %u: the driver broke the rules (%s); resting until reset",
			 dev->base.name, vq->index, what);
	else
		log_once(&dev->said_broken, LOG_WARN, "%s: cannot go on (%s); resting until reset",
			 dev->base.name, what);
	status_add(dev, VIRTIO_CONFIG_S_NEEDS_RESET);
	if (status_of(dev) & VIRTIO_CONFIG_S_DRIVER_OK)
		dev->tp->ops->irq_config(dev->tp);
}

/* ---- attach, run, detach ---- */

static int queues_create(struct virtio_dev *dev)
{
	dev->vq = calloc(dev->nqueues, sizeof(*dev->vq));
	if (!dev->vq)
		return -ENOMEM;
	for (unsigned i = 0; i < dev->nqueues; i++)
		dev->vq[i].kick_fd = -1;
	for (unsigned i = 0; i < dev->nqueues; i++) {
		struct virtq *vq = &dev->vq[i];

		vq->dev = dev;
		vq->index = (uint16_t)i;
		vq->size = dev->queue_size;
		vq->kick_fd = eventfd(0, EFD_CLOEXEC);
		if (vq->kick_fd < 0)
			return -errno;
		vq->watch = (struct watch){
			.fd = vq->kick_fd, .kind = WATCH_EVENTFD, .ready = kick_ready};
	}
	return 0;
}

/* The device's calls, and lowering or raising a pin where interrupts are not by message. */
static int syscalls_create(struct virtio_dev *dev)
{
	struct syscalls own = {0};

	if (dev->base.type && dev->base.type->syscalls)
		own = *dev->base.type->syscalls;
	dev->rules = calloc(own.n + irq_syscalls.n, sizeof(*dev->rules));
	if (!dev->rules)
		return -ENOMEM;
	for (unsigned i = 0; i < own.n; i++)
		dev->rules[i] = own.rules[i];
	for (unsigned i = 0; i < irq_syscalls.n; i++)
		dev->rules[own.n + i] = irq_syscalls.rules[i];
	dev->syscalls = (struct syscalls){dev->rules, own.n + irq_syscalls.n};
	return 0;
}

int virtio_attach(struct virtio_dev *dev, struct vm *vm)
{
	unsigned depth = MIN((unsigned)dev->nqueues * dev->queue_size, LOOP_DEPTH_MAX);
	int r;

	assert(dev->nqueues && dev->queue_size && dev->queue_size <= VIRTQ_MAX_SIZE);
	assert(!(dev->queue_size & (dev->queue_size - 1)));
	assert(dev->config || !dev->config_len);
	dev->vm = vm;
	pthread_mutex_init(&dev->lock, NULL);
	sem_init(&dev->drained, 0, 0);
	dev->drained_work.fn = drained_on_loop;
	r = queues_create(dev);
	if (!r)
		r = syscalls_create(dev);
	if (r) {
		log_err("%s: queues: %s (raise ulimit -n, or free memory)", dev->base.name,
			strerror(-r));
		goto fail;
	}
	r = iothread_create(&dev->io, dev->base.name, LOOP_AUTO, depth, &dev->syscalls);
	if (r)
		goto fail;
	return 0;
fail:
	virtio_detach(dev);
	return r;
}

int virtio_run(struct virtio_dev *dev)
{
	int r;

	pthread_mutex_lock(&dev->lock);
	r = iothread_start(dev->io, NULL, NULL);
	dev->running = !r;
	pthread_mutex_unlock(&dev->lock);
	return r;
}

/* Returns when the device owns nothing of the driver's any more. Under dev->lock. */
static void stop(struct virtio_dev *dev)
{
	if (!dev->started)
		return;
	dev->started = false;
	if (!dev->running) {
		stop_on_loop(dev);
		return;
	}
	/* A ring that what it reads keeps filling (or another vCPU) would never let the iothread get to the call. */
	__atomic_store_n(&dev->halting, true, __ATOMIC_RELAXED);
	loop_call(dev->io, stop_on_loop, dev);
	/* vCPU threads are kicked by signals. */
	while (sem_wait(&dev->drained) && errno == EINTR)
		;
	__atomic_store_n(&dev->halting, false, __ATOMIC_RELAXED);
}

static void queues_destroy(struct virtio_dev *dev)
{
	for (unsigned i = 0; dev->vq && i < dev->nqueues; i++) {
		if (dev->vq[i].dev)
			virtq_reset(&dev->vq[i]);
		close_fd(&dev->vq[i].kick_fd);
	}
	free(dev->vq);
	dev->vq = NULL;
}

void virtio_detach(struct virtio_dev *dev)
{
	if (!dev->vm)
		return;
	pthread_mutex_lock(&dev->lock);
	stop(dev);
	pthread_mutex_unlock(&dev->lock);
	iothread_destroy(dev->io);
	dev->io = NULL;
	dev->running = false;
	if (dev->tp)
		dev->tp->ops->destroy(dev->tp);
	dev->tp = NULL;
	queues_destroy(dev);
	free(dev->rules);
	dev->rules = NULL;
	sem_destroy(&dev->drained);
	pthread_mutex_destroy(&dev->lock);
	dev->vm = NULL;
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
	stop(dev);
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
	/* Before starting, so that a start that fails finds DRIVER_OK and interrupts. */
	status_add(dev, add);
	if (!(add & VIRTIO_CONFIG_S_DRIVER_OK))
		return;
	dev->started = true;
	if (dev->running)
		loop_call(dev->io, start_on_loop, dev);
	else
		start_on_loop(dev);
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
