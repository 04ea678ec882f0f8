// SPDX-License-Identifier: Apache-2.0
/*
 * fakeguest.h - the driver's side of a device, in-process: RAM, rings, registers, and a way to lie.
 *
 * Every device is driven through a real ring on a vm without KVM. The honest calls do what a Linux driver does; the
 * raw ones write what they are told. Set-up failures end the test program.
 */
#ifndef TESTS_FAKEGUEST_H
#define TESTS_FAKEGUEST_H

#include "../devices/virtio.h"
#include "../vmm/vm.h"
#include <pthread.h>

struct fg_buf {
	const void *src; /* readable part: copied into guest RAM; NULL: zeros */
	uint32_t len;
};

/* What the driver remembers of a head; its memory is used again by the head's next request. */
struct fg_head {
	uint16_t ndesc; /* descriptors of the ring its chain takes; 0: not out */
	uint64_t buf, table;
	uint32_t buf_len;
};

/* One queue as the driver sees it. */
struct fg_queue {
	struct fakeguest *fg;
	unsigned index;
	uint16_t size;
	uint64_t desc, avail, used; /* guest-physical */
	uint16_t avail_idx, used_seen, free_head;
	bool event_idx, indirect;
	uint16_t nfree, ring_cap;
	uint16_t next[VIRTQ_MAX_SIZE]; /* the free list, and the chains that are out */
	struct fg_head head[VIRTQ_MAX_SIZE];
};

struct fakeguest {
	struct vm *vm;
	struct virtio_dev *dev;
	struct fg_queue q[8];
	uint64_t heap, heap_end; /* bump allocator of guest RAM */
	uint64_t features;       /* negotiated */
	unsigned irq_queue[8];   /* interrupts seen, per queue; atomic, counted by the iothread */
	unsigned irq_config;

	struct transport tp;
	pthread_mutex_t lock; /* irqs */
	pthread_cond_t irq;
	unsigned irqs; /* of any kind */
};

/* A vm without KVM with mem bytes of RAM. */
struct fakeguest *fg_create(uint64_t mem);
/* Attaches dev through a transport that only counts interrupts, and starts its iothread. */
void fg_attach(struct fakeguest *, struct virtio_dev *);
/* The same without starting the iothread. */
void fg_attach_only(struct fakeguest *, struct virtio_dev *);
/*
 * Reset, negotiate (offered & want, plus VERSION_1), set up all queues with size entries, DRIVER_OK. The requests that
 * were out are forgotten. An indirect queue uses a table for every chain of more than one buffer.
 */
void fg_start(struct fakeguest *, uint64_t want, uint16_t size);
/* Zeroed ring memory and an empty free list; for tests that write the registers themselves. */
void fg_ring(struct fg_queue *, uint16_t size);
/* Status 0; returns when the device has stopped. */
void fg_reset(struct fakeguest *);
/* Detaches and destroys the device, frees the vm. */
void fg_destroy(struct fakeguest *);

/* size bytes of guest RAM, aligned. */
uint64_t fg_alloc(struct fakeguest *, uint64_t size, uint64_t align);
void *fg_ptr(struct fakeguest *, uint64_t gpa, uint64_t len);

/*
 * Publishes one chain of nrd readable and nwr writable buffers and kicks if the device wants it. Returns the head.
 * wr_gpa (may be NULL) gets the addresses of the nwr writable buffers, good until the head is used again.
 */
uint16_t fg_add(struct fg_queue *, const struct fg_buf *rd, unsigned nrd, const struct fg_buf *wr,
		unsigned nwr, uint64_t *wr_gpa);
/* Waits (bounded, 10 s, then the test fails) for the next used entry: its head, *len gets the written length. */
int fg_used(struct fg_queue *, uint32_t *len);
/* add + wait for a request whose reply goes into one flat buffer, split as given; returns used.len or -1. */
long fg_call(struct fg_queue *, const void *rd, uint32_t rd_len, void *wr, uint32_t wr_len);
/* Waits (bounded) until the device says NEEDS_RESET; false if it does not. */
bool fg_wait_broken(struct fakeguest *);

/* ---- lying ---- */
void fg_desc(struct fg_queue *, uint16_t i, uint64_t addr, uint32_t len, uint16_t flags,
	     uint16_t next);
void fg_avail_push(struct fg_queue *, uint16_t head); /* an entry and the index */
void fg_avail_idx(struct fg_queue *, uint16_t idx);   /* the index alone */
void fg_kick(struct fg_queue *);

#endif
