// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_run.c - the threads of a virtio device: attached, started, kicked, stopped, drained, taken away.
 *
 * Each queue belongs to one iothread; the first few share the first thread, which also runs the device's start and
 * stop. All that the core wants of them is carried there by loop_call() while the vCPU holds dev->lock, and no iothread
 * takes that, so that cannot deadlock (hard case A19). Before virtio_run() there is no thread to carry anything to: then
 * the caller does it himself, which loop.h allows. A stop ends when nothing of any queue is in flight (A16).
 * Spec: virtio 1.2, 2.1.2, 2.4, 3.1.1. Calls: virtq.h, loop.h, the transport.
 */
#include "virtio.h"
#include "../vmm/irq.h"
#include "../vmm/log.h"
#include "../vmm/vm.h"
#include <assert.h>
#include <stdio.h>
#include <sys/eventfd.h>

/* More than this many operations are submitted all the same, only not all at once. */
#define LOOP_DEPTH_MAX 256u

/* ---- on a queue's own thread ---- */

/* One interrupt for all that the kick completes at once. */
static void queue_serve(struct virtq *vq)
{
	bool batch = vq->batch;

	vq->batch = true;
	vq->dev->ops->kick(vq->dev, vq);
	vq->batch = batch;
	virtq_notify(vq);
}

/* And one for all that completes by itself in a turn of the loop: work that is posted there runs at its end. */
static void batch_run(struct loop_work *w)
{
	struct virtq *vq = container_of(w, struct virtq, batch_work);

	vq->batch = false;
	virtq_notify(vq);
}

static void kick_ready(struct watch *w)
{
	struct virtq *vq = container_of(w, struct virtq, watch);

	/* A kick may be older than the last reset, or meant for a queue that rests or is held: it is only a hint. */
	if (vq->running && !vq->broken && !vq->held)
		queue_serve(vq);
}

static bool queue_poll(struct poller *p)
{
	struct virtq *vq = container_of(p, struct virtq, poller);

	if (!virtq_pending(vq))
		return false;
	queue_serve(vq);
	return true;
}

static bool queue_arm(struct poller *p)
{
	return virtq_arm(container_of(p, struct virtq, poller));
}

void virtio_broken(struct virtio_dev *dev, struct virtq *vq, const char *what)
{
	uint8_t old;

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
	old = __atomic_fetch_or(&dev->status, VIRTIO_CONFIG_S_NEEDS_RESET, __ATOMIC_ACQ_REL);
	if (old & VIRTIO_CONFIG_S_DRIVER_OK)
		dev->tp->ops->irq_config(dev->tp);
}

/* ---- errands: what a vCPU has done on one of the threads ---- */

struct errand {
	struct virtio_dev *dev;
	struct iothread *io;
	int err;
};

/* On threads[i], or here if it does not run yet. */
static int errand(struct virtio_dev *dev, unsigned i, void (*fn)(void *))
{
	struct errand e = {.dev = dev, .io = dev->threads[i]};

	if (i < dev->nrunning)
		loop_call(e.io, fn, &e);
	else
		fn(&e);
	return e.err;
}

static int errand_everywhere(struct virtio_dev *dev, void (*fn)(void *))
{
	int r = 0;

	for (unsigned i = 0; i < dev->nthreads && !r; i++)
		r = errand(dev, i, fn);
	return r;
}

/* The thread's next queue after vq (NULL: its first). */
static struct virtq *queue_after(const struct errand *e, struct virtq *vq)
{
	struct virtio_dev *dev = e->dev;

	for (vq = vq ? vq + 1 : dev->vq; vq < dev->vq + dev->nqueues; vq++)
		if (vq->io == e->io)
			return vq;
	return NULL;
}

static void device_start(void *arg)
{
	struct errand *e = arg;

	if (e->dev->ops->start)
		e->err = e->dev->ops->start(e->dev);
}

static void device_stop(void *arg)
{
	struct errand *e = arg;

	if (e->dev->ops->stop)
		e->dev->ops->stop(e->dev);
}

static void queues_go_live(void *arg)
{
	struct errand *e = arg;

	for (struct virtq *vq = queue_after(e, NULL); vq; vq = queue_after(e, vq)) {
		if (!vq->running)
			continue;
		e->err = loop_watch(e->io, &vq->watch);
		if (e->err)
			break;
		vq->polled = e->dev->poll_us > 0;
		if (vq->polled)
			loop_poll_add(e->io, &vq->poller);
		/* What the driver published before its queue was live is found now (A15). */
		virtio_queue_kick(e->dev, vq->index);
	}
}

static void queues_rest(void *arg)
{
	struct errand *e = arg;

	for (struct virtq *vq = queue_after(e, NULL); vq; vq = queue_after(e, vq)) {
		loop_unwatch(e->io, &vq->watch);
		loop_poll_del(e->io, &vq->poller);
		vq->running = vq->polled = false;
		if (e->dev->ops->rest)
			e->dev->ops->rest(e->dev, vq);
	}
}

static void queues_drain(void *arg)
{
	struct errand *e = arg;

	queues_rest(e);
	for (struct virtq *vq = queue_after(e, NULL); vq; vq = queue_after(e, vq)) {
		vq->draining = true;
		virtio_drained(vq);
	}
}

/* ---- start and stop, under dev->lock ---- */

/* No thread knows a queue of a device that has not been started. */
static int queues_start(struct virtio_dev *dev)
{
	bool event_idx = virtio_has(dev, VIRTIO_RING_F_EVENT_IDX);
	bool indirect = virtio_has(dev, VIRTIO_RING_F_INDIRECT_DESC);
	int r = 0;

	for (unsigned i = 0; i < dev->nqueues && !r; i++)
		if (dev->vq[i].ready)
			r = virtq_start(&dev->vq[i], dev->vm->mem, event_idx, indirect);
	return r;
}

/* A failure is the driver's to see: the machine goes on (A22). */
void virtio_start(struct virtio_dev *dev)
{
	int r = queues_start(dev);

	dev->started = true;
	if (!r)
		r = errand(dev, 0, device_start);
	if (!r)
		r = errand_everywhere(dev, queues_go_live);
	if (!r)
		return;
	(void)errand_everywhere(dev, queues_rest);
	virtio_broken(dev, NULL, r == -EINVAL ? "size or address of a queue" : strerror(-r));
}

/* One of what virtio_stop() waits for is over; true for the last. Acquire and release: all have let go of their queues. */
static bool drained_one(struct virtio_dev *dev)
{
	return !__atomic_sub_fetch(&dev->undrained, 1, __ATOMIC_ACQ_REL);
}

static void drained_run(struct loop_work *w)
{
	struct virtio_dev *dev = container_of(w, struct virtq, drained_work)->dev;

	if (drained_one(dev))
		sem_post(&dev->drained);
}

/*
 * Posted, not done at once: whoever pushed the last request is still on the stack and may look at it or at its queue
 * until he returns to the loop. For the same reason a queue with nothing in flight does it too: work that it posted
 * before it was stopped has then run.
 */
void virtio_drained(struct virtq *vq)
{
	if (!vq->draining || vq->inflight)
		return;
	vq->draining = false;
	if (iothread_current(vq->io))
		loop_post(vq->io, &vq->drained_work);
	else
		(void)drained_one(vq->dev); /* No thread yet: virtio_stop() itself is the last. */
}

/*
 * inflight of each queue belongs to its thread, so nobody adds them up: each queue reports once, from its own thread,
 * when it has been stopped and nothing of it is out. undrained counts those that have not, and one for ops->stop(), so
 * that the stop is over only after it has returned.
 */
void virtio_stop(struct virtio_dev *dev)
{
	if (!dev->started)
		return;
	dev->started = false;
	__atomic_store_n(&dev->undrained, dev->nqueues + 1u, __ATOMIC_RELAXED);
	/* A ring that what it reads keeps filling (or another vCPU) would never let its thread get to the errand. */
	__atomic_store_n(&dev->halting, true, __ATOMIC_RELAXED);
	(void)errand_everywhere(dev, queues_drain);
	(void)errand(dev, 0, device_stop);
	/* vCPU threads are kicked by signals. */
	if (!drained_one(dev))
		while (sem_wait(&dev->drained) && errno == EINTR)
			;
	__atomic_store_n(&dev->halting, false, __ATOMIC_RELAXED);
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
		vq->poller = (struct poller){.poll = queue_poll, .arm = queue_arm};
		vq->drained_work.fn = drained_run;
		vq->batch_work.fn = batch_run;
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

/* How many queues share the first thread: what the others, with one each, leave. */
static unsigned shared_queues(const struct virtio_dev *dev)
{
	return dev->nqueues - (dev->nthreads - 1u);
}

/* fs0, fs0-1, fs0-2: by these the administrator knows them in top(1). */
static int thread_create(struct virtio_dev *dev, unsigned i)
{
	unsigned queues = i ? 1 : shared_queues(dev);
	unsigned depth = MIN(queues * dev->queue_size, LOOP_DEPTH_MAX);
	char name[sizeof(dev->base.name) + 12];
	int r;

	snprintf(name, sizeof(name), i ? "%s-%u" : "%s", dev->base.name, i);
	r = iothread_create(&dev->threads[i], name, dev->engine, depth, &dev->syscalls);
	if (!r)
		loop_poll_limit(dev->threads[i], dev->poll_us);
	return r;
}

static int threads_create(struct virtio_dev *dev)
{
	unsigned shared = shared_queues(dev);
	int r = 0;

	for (unsigned i = 0; i < dev->nthreads && !r; i++)
		r = thread_create(dev, i);
	dev->io = dev->threads[0];
	for (unsigned i = 0; i < dev->nqueues; i++)
		dev->vq[i].io = dev->threads[i < shared ? 0 : i - shared + 1];
	return r;
}

int virtio_attach(struct virtio_dev *dev, struct vm *vm)
{
	int r;

	if (!dev->nthreads)
		dev->nthreads = 1;
	assert(dev->nqueues && is_pow2(dev->queue_size) && dev->queue_size <= VIRTQ_MAX_SIZE);
	assert(dev->nthreads <= dev->nqueues);
	assert(dev->config || !dev->config_len);
	assert(dev->config_rw <= dev->config_len &&
	       dev->config_rw_len <= dev->config_len - dev->config_rw);
	dev->vm = vm;
	pthread_mutex_init(&dev->lock, NULL);
	sem_init(&dev->drained, 0, 0);
	dev->threads = calloc(dev->nthreads, sizeof(struct iothread *));
	r = dev->threads ? queues_create(dev) : -ENOMEM;
	if (!r)
		r = syscalls_create(dev);
	if (r) {
		log_err("%s: queues: %s (raise ulimit -n, or free memory)", dev->base.name,
			strerror(-r));
		goto fail;
	}
	r = threads_create(dev);
	if (r)
		goto fail;
	return 0;
fail:
	virtio_detach(dev);
	return r;
}

static int thread_init(void *arg)
{
	struct virtio_dev *dev = arg;

	return dev->ops->thread_init ? dev->ops->thread_init(dev) : 0;
}

int virtio_run(struct virtio_dev *dev)
{
	int r = 0;

	pthread_mutex_lock(&dev->lock);
	while (dev->nrunning < dev->nthreads && !r) {
		r = iothread_start(dev->threads[dev->nrunning], thread_init, dev);
		dev->nrunning += !r;
	}
	pthread_mutex_unlock(&dev->lock);
	return r;
}

/* The first, which has the session that the others refer to, last. */
static void threads_destroy(struct virtio_dev *dev)
{
	for (unsigned i = dev->nthreads; dev->threads && i--;)
		iothread_destroy(dev->threads[i]);
	free(dev->threads);
	dev->threads = NULL;
	dev->io = NULL;
	dev->nrunning = 0;
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
	virtio_stop(dev);
	pthread_mutex_unlock(&dev->lock);
	threads_destroy(dev);
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
