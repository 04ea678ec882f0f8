// SPDX-License-Identifier: Apache-2.0
/*
 * virtio.h - what every virtio device shares: status, features, queue set-up, configuration space, reset.
 *
 * A device is a description (struct virtio_dev: data) plus four functions (start, kick, stop, destroy). It sees
 * requests, never rings, registers or interrupts. Modern virtio only (VERSION_1), no legacy.
 *
 * Threads: registers are written by vCPU threads, under dev->lock; everything else runs on the device's iothreads,
 * which never take that lock. Each queue belongs to one of them, vq->io: its requests are popped and pushed there and
 * nowhere else; one that ends on another thread is posted home first. start/stop are carried over by loop_call(), so the
 * vCPU that wrote the register waits until they are done (virtio-mmio drivers do not poll the status after a reset).
 * Reset waits until no request is in flight (hard case A16): completions that arrive meanwhile are counted, not
 * published.
 *
 *   guest writes QueueNotify -ioeventfd-> iothread wakes in its loop -> ops->kick(dev, vq)
 *     while virtq_pop() == 1:  parse (copy out, check all, no effects) -> submit -> now or later: finish -> virtq_push
 *   kick returns, or the turn of the loop ends -> virtq_notify -event idx-> irqfd -> guest
 */
#ifndef DEVICES_VIRTIO_H
#define DEVICES_VIRTIO_H

#include "../vmm/base.h"
#include "../vmm/log.h"
#include "../vmm/loop.h"
#include "device.h"
#include "virtq.h"
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_ring.h>
#include <pthread.h>
#include <semaphore.h>

struct virtio_dev;
struct vm;

struct virtio_ops {
	/* On each iothread, first thing. May be NULL. */
	int (*thread_init)(struct virtio_dev *);
	/*
	 * FEATURES_OK, on the vCPU that set it, under the lock: what the configuration bytes say once the features are known.
	 * May be NULL.
	 */
	void (*negotiated)(struct virtio_dev *);
	/* DRIVER_OK, on the first thread, before any queue is live. May be NULL. A -errno breaks the device (NEEDS_RESET). */
	int (*start)(struct virtio_dev *);
	/* On vq's thread. The driver kicked vq, or it has just been started: pop until it is empty. */
	void (*kick)(struct virtio_dev *, struct virtq *);
	/*
	 * On vq's thread: it was stopped, nothing more is popped. What there waits for it (a timer that would release it) is
	 * cancelled: once all queues rest, they are another thread's to reset. May be NULL; may be called for a queue that did
	 * not run.
	 */
	void (*rest)(struct virtio_dev *, struct virtq *);
	/*
	 * Reset, on the first thread, after every queue has been stopped on its own: drop sessions, cancel what is parked
	 * so that in-flight becomes 0. Only requests of the first thread's queues are pushed here; the others are posted
	 * home, completions still arrive there. May be NULL; may be called twice.
	 */
	void (*stop)(struct virtio_dev *);
};

/* What a transport does for the core: two verbs, any thread, wait-free on MSI and mmio. */
struct transport {
	const struct transport_ops *ops;
	struct virtio_dev *dev;
};
struct transport_ops {
	void (*irq_queue)(struct transport *, unsigned queue);
	void (*irq_config)(struct transport *);
	/* Back to power-on: selectors, vectors, interrupt status. Under dev->lock, after the device has stopped. */
	void (*reset)(struct transport *);
	/* By virtio_detach(), after the iothread has ended, while the kick descriptors are still open. */
	void (*destroy)(struct transport *);
};

struct virtio_dev {
	struct device base;

	/* The description: filled by the device's create(). */
	const struct virtio_ops *ops;
	uint16_t id; /* VIRTIO_ID_* */
	uint16_t nqueues;
	/* Iothreads; 0 means 1. The last nthreads - 1 queues have one each, the others share the first. */
	uint16_t nthreads;
	/* How long a thread looks for requests before it sleeps (loop_poll_limit()); if not 0, kick() empties the queue. */
	uint32_t poll_us;
	enum loop_engine engine; /* of its iothreads */
	struct window *shm;      /* a shared memory region (2.10), or NULL; the device's own */
	uint8_t shm_id;
	uint16_t queue_size; /* maximum, a power of two, at most VIRTQ_MAX_SIZE */
	size_t req_size;     /* of the device's request struct, which begins with struct chain */
	uint64_t features;   /* device bits; the core adds VERSION_1, INDIRECT_DESC, EVENT_IDX */
	void *config;        /* device-specific configuration space, little-endian; may be NULL */
	size_t config_len;
	/*
	 * The bytes of it that the driver may write, from FEATURES_OK on; the device loads them when it needs them (one byte,
	 * relaxed). The rest is read-only. A reset leaves them alone: negotiated() says what the next driver finds.
	 */
	size_t config_rw, config_rw_len;

	/* Filled by virtio_attach(). */
	struct vm *vm;       /* borrowed */
	struct iothread *io; /* the first of nthreads */
	struct iothread **threads;
	struct virtq *vq; /* nqueues; each knows its thread */
	struct transport *tp;

	/* The core's. */
	pthread_mutex_t
		lock; /* registers and config bytes; a leaf but for the transports' interrupt lock */
	uint8_t status; /* atomic: the iothread sets NEEDS_RESET */
	uint64_t driver_features;
	bool features_unknown; /* the driver asked for a bit above 63 */
	uint32_t generation;   /* of config; atomic */
	unsigned nrunning;     /* threads[] that run: all, or none yet */
	bool started;          /* DRIVER_OK was acted on; the next reset stops the device */
	bool halting; /* atomic: a stop is wanted, pops find nothing; also ends a batch that feeds itself */
	/* Atomic: queues with requests out, and the stop itself, see virtio_stop(); who brings it to 0 posts drained. */
	unsigned undrained;
	sem_t drained;
	struct syscall_rule *rules; /* what an iothread may call: the type's and the interrupts' */
	struct syscalls syscalls;
	struct log_once said_broken;
};

/* Binds the description to a machine: queues, kick descriptors, iothreads (not yet running). -errno (logged). */
int virtio_attach(struct virtio_dev *, struct vm *) must_check;
/* Starts the iothreads, the first one first. -errno (logged): the caller detaches. */
int virtio_run(struct virtio_dev *) must_check;
/*
 * Stops queues and iothreads; called before destroy(), after the vCPUs have ended. The first thread, which has the
 * device's session, ends last: nothing may be posted to the others once all requests have drained. Half-attached is
 * fine.
 */
void virtio_detach(struct virtio_dev *);

/*
 * The driver broke the rules: log once, NEEDS_RESET, config interrupt (2.1.2). On vq's thread; the other queues go on.
 * vq NULL: all of them rest, only from start().
 */
void virtio_broken(struct virtio_dev *, struct virtq *, const char *what);
/* The feature was negotiated. */
bool virtio_has(const struct virtio_dev *, unsigned feature_bit);
/*
 * The device changed its configuration bytes: new generation, and an interrupt if the driver is up. change() runs
 * under the lock, so this may be called on any thread but the iothread.
 */
void virtio_config_changed(struct virtio_dev *, void (*change)(struct virtio_dev *, void *),
			   void *arg);
/* For virtq_push(): a request of a queue that was stopped has come back. On its thread. */
void virtio_drained(struct virtq *);
/* For the status register, under dev->lock. */
void virtio_start(struct virtio_dev *);
/* Returns when the device owns nothing of the driver's any more. */
void virtio_stop(struct virtio_dev *);

/* ---- for the transports; all may be called with any value the guest can write ---- */

uint32_t virtio_features_read(struct virtio_dev *, uint32_t word); /* offered; 0 for word > 1 */
uint32_t virtio_driver_features_read(struct virtio_dev *, uint32_t word);
void virtio_driver_features_write(struct virtio_dev *, uint32_t word, uint32_t v);
uint8_t virtio_status_read(struct virtio_dev *);
void virtio_status_write(struct virtio_dev *,
			 uint8_t v); /* 0 resets; may wait for requests in flight */

enum virtq_reg {
	VIRTQ_SIZE,
	VIRTQ_READY,
	VIRTQ_DESC_LO,
	VIRTQ_DESC_HI,
	VIRTQ_AVAIL_LO,
	VIRTQ_AVAIL_HI,
	VIRTQ_USED_LO,
	VIRTQ_USED_HI,
	VIRTQ_SIZE_MAX
};
/*
 * queue out of range: reads 0, writes are dropped (hard case B1). Writes before FEATURES_OK and after DRIVER_OK are
 * dropped (A20). Values are kept as they come and judged when the queue is started.
 */
uint32_t virtio_queue_read(struct virtio_dev *, uint32_t queue, enum virtq_reg);
void virtio_queue_write(struct virtio_dev *, uint32_t queue, enum virtq_reg, uint32_t v);
/* A notify write that exited: signals the queue's eventfd. */
void virtio_queue_kick(struct virtio_dev *, uint32_t queue);

/* Any offset and length; bytes past the end read 0 (A28). */
void virtio_config_read(struct virtio_dev *, uint64_t off, void *data, unsigned len);
/* Any offset and length; what is not config_rw's, or comes before FEATURES_OK, is dropped. No interrupt, no new generation. */
void virtio_config_write(struct virtio_dev *, uint64_t off, const void *data, unsigned len);
uint32_t virtio_config_generation(struct virtio_dev *);

/* ---- transports ---- */

struct pci_host;
/* Window, ioeventfds, edge interrupt, and an LNRO0005 platform entry. dev is attached. -errno (logged). */
int virtio_mmio_create(struct virtio_dev *, struct vm *) must_check;
/* Next free slot of the bus, BARs assigned. -errno (logged). */
int virtio_pci_create(struct virtio_dev *, struct vm *, struct pci_host *) must_check;

#endif
