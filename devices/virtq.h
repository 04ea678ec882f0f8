// SPDX-License-Identifier: Apache-2.0
/*
 * virtq.h - split virtqueues, device side (virtio 1.2, 2.7).
 *
 * Turns what the driver published into checked iovecs and back. A queue has one owner, its iothread, between start
 * and stop; nobody else reads it and there are no locks. What the driver wrote is copied once, checked, and only the
 * copy is used. Once a queue is broken it stays so until reset: pops return -EPROTO, completions of requests that
 * were taken before are still published.
 */
#ifndef DEVICES_VIRTQ_H
#define DEVICES_VIRTQ_H

#include "../vmm/base.h"
#include "../vmm/cursor.h"
#include "../vmm/loop.h"
#include "../vmm/mem.h"

#define VIRTQ_MAX_SIZE 1024

struct virtio_dev;

/*
 * One request: device-readable iovecs first, device-writable after. Lives in the queue's slot for its head, at the
 * start of the device's own request struct (virtio_dev.req_size bytes, zeroed when the queue starts, then never
 * again), from virtq_pop() until virtq_push(), which must be called exactly once, also on error.
 */
struct chain {
	struct virtq *vq;
	uint16_t head;
	uint16_t nrd, nwr;       /* readable and writable iovecs; nrd + nwr <= ring size */
	uint32_t rd_len, wr_len; /* their bytes; the sum fits a uint32_t */
	struct iovec *
		iov; /* iov[0..nrd) readable, iov[nrd..nrd+nwr) writable; the device may change them */
};

struct virtq {
	/* As long as the device lives. */
	struct virtio_dev *dev;
	struct iothread *io; /* its owner, borrowed */
	uint16_t index;
	int kick_fd; /* eventfd; written by any thread, also while the queue is being reset */
	struct watch watch;            /* of kick_fd, on the iothread */
	struct poller poller;          /* where dev->poll_us is not 0 */
	struct loop_work drained_work; /* virtio_drained()'s */
	struct loop_work batch_work;   /* the end of a batch that no kick() began */
	bool batch;                    /* one is under way, virtq_notify() will be called */

	/* From here on virtq_reset() clears everything. */

	/* Written by the driver through the transport before DRIVER_OK; frozen afterwards. */
	uint16_t
		size; /* dev->queue_size at power-on; may hold anything until virtq_start() has looked */
	bool ready;
	uint64_t desc_addr, avail_addr, used_addr;

	/* From here on the iothread's, set by virtq_start() before the queue is given to it. */
	const struct mem *mem;
	const void *desc, *avail;
	void *used;
	bool event_idx, indirect;
	bool broken, running;
	bool polled;         /* its thread calls virtq_arm() before it sleeps, so pops need not */
	bool held;           /* virtq_hold() */
	bool draining;       /* stopped: the last of inflight is told of */
	bool quiet;          /* without event_idx: NO_NOTIFY is set */
	uint16_t avail_next; /* next entry of the avail ring to take */
	uint16_t avail_seen; /* avail.idx as last loaded */
	uint16_t used_next;  /* next entry of the used ring to fill */
	uint16_t used_published; /* used.idx as last stored */
	uint16_t used_signalled; /* used.idx at the last interrupt decision */
	uint32_t inflight;
	uint8_t *reqs;      /* size x dev->req_size */
	struct iovec *iovs; /* size x (size + a few): the slots' iovecs (mapped lazily) */
	uint8_t *taken;     /* a byte per head: popped and not yet pushed (hard case A4) */
	size_t reqs_len, iovs_len;
	uint64_t pops, signals; /* statistics */
};

/*
 * Checks size (power of two, 1..max), alignment and that the three areas lie in RAM; allocates the slots and lets
 * requests be taken (running). Any thread, while no other knows the queue. 0, -EINVAL (driver's fault), -ENOMEM.
 */
int virtq_start(struct virtq *, const struct mem *, bool event_idx, bool indirect) must_check;
/*
 * Frees the slots and returns every field the driver or virtq_start() set to its value at power-on. inflight is 0. Any
 * thread, once its own has let go of the queue.
 */
void virtq_reset(struct virtq *);

/*
 * Take the next request into *c (which points into the queue's slot). 1; 0 when the ring is empty: kicks are re-armed
 * and the ring was looked at again, so waiting is safe (of a polled queue: its thread sees to that); -EPROTO when the
 * driver broke 2.7 (index jump, head out of range or already in flight, loop, bad indirect table, readable after
 * writable, address outside RAM, zero length chain, sum over 4 GiB): the caller reports virtio_broken() and stops
 * popping.
 */
int virtq_pop(struct virtq *, struct chain **c) must_check;
/*
 * The chain that the last pop found was not taken after all: the next pop finds it again, as if for the first time.
 * Instead of virtq_push().
 */
void virtq_putback(struct chain *);
/*
 * Pops find nothing, and nobody looks, until virtq_release(): for a device that may not go on yet. Kicks that come
 * meanwhile are forgotten; the caller of virtq_release() pops. A queue that is reset is not held any more.
 */
void virtq_hold(struct virtq *);
void virtq_release(struct virtq *);
/* A pop would find something, if only a fault. A load. */
bool virtq_pending(const struct virtq *);
/* Asks for a kick at the next request, then looks once more: virtq_pending(). */
bool virtq_arm(struct virtq *) must_check;
/*
 * The request is done, written bytes of its writable part were filled (2.7.8). Published and announced with the rest of
 * its batch: when kick() returns, or for what completes by itself, at the end of the turn of the loop; in between only
 * now and then, so that a driver that polls is not kept waiting by a long one. A device need not call virtq_notify().
 * After the queue was stopped the ring is left alone. On the queue's thread, as everything here.
 */
void virtq_push(struct chain *, uint32_t written);
/* Publish what was pushed, and interrupt if the driver wants it (2.7.7, 2.7.10): now, where a batch should not wait. */
void virtq_notify(struct virtq *);

static inline struct cursor chain_rd(const struct chain *c)
{
	return cursor_of(c->iov, c->nrd);
}
static inline struct cursor chain_wr(const struct chain *c)
{
	return cursor_of(c->iov + c->nrd, c->nwr);
}

#endif
