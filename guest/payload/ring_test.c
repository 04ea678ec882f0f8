// SPDX-License-Identifier: Apache-2.0
/*
 * ring_test.c - a driver that breaks the rules of the ring, on a disk.
 *
 * Each case writes descriptors by hand, publishes them and rings. The device must say NEEDS_RESET (never crash, spin,
 * or touch what it was not given), must bear more doorbells, and must work again after a reset.
 * Hard cases: A1, A2, A3, A5, A6, A8, A9. Spec: virtio 1.2, 2.7, 2.1.2.
 */
#include "pattern.h"
#include "virtio.h"

#define BREAK_MS 5000
#define BEYOND   0xfe000000ull /* below the IOAPIC: no machine has RAM there */
#define INDIRECT (1ull << VIRTIO_RING_F_INDIRECT_DESC)
#define OUT      0
#define IN       VRING_DESC_F_WRITE
#define NEXT     VRING_DESC_F_NEXT
#define TABLE    VRING_DESC_F_INDIRECT

static struct vring_desc table[8] __attribute__((aligned(16)));

/* One bad chain: what desc[] (and table[] if it is used) hold, and the head that is published. */
struct bad_chain {
	const char *what;
	uint64_t features;
	struct vring_desc desc[3], table[3];
	uint16_t head;
	uint16_t idx; /* of the avail ring; 0: one more, as it should be */
};

/* Addresses below this are offsets into the header buffer, TAB is the table. */
#define HDR 0
#define DAT 1
#define STA 2
#define TAB 3

static const struct bad_chain bad_chains[] = {
	{"a chain that loops", 0, .desc = {{HDR, 16, NEXT | OUT, 1}, {DAT, 512, NEXT | IN, 1}}},
	{"a chain of two that loops to its head", 0,
	 .desc = {{DAT, 512, NEXT | IN, 1}, {STA, 1, NEXT | IN, 0}}},
	{"a head out of range", 0, .desc = {{HDR, 16, OUT, 0}}, .head = QUEUE_MAX},
	{"the largest head", 0, .desc = {{HDR, 16, OUT, 0}}, .head = 0xffff},
	{"a next out of range", 0, .desc = {{HDR, 16, NEXT | OUT, 0x7000}}},
	{"an index 40000 ahead", 0, .desc = {{HDR, 16, OUT, 0}}, .idx = 40000},
	{"a readable part after a writable one", 0,
	 .desc = {{STA, 1, NEXT | IN, 1}, {HDR, 16, OUT, 0}}},
	{"an address without RAM", 0, .desc = {{BEYOND, 16, NEXT | OUT, 1}, {STA, 1, IN, 0}}},
	{"an address that wraps", 0, .desc = {{~0ull - 7, 16, NEXT | OUT, 1}, {STA, 1, IN, 0}}},
	{"an address in the PCI window", 0,
	 .desc = {{0xc0000000, 16, NEXT | OUT, 1}, {STA, 1, IN, 0}}},
	{"a length of 4 GiB", 0, .desc = {{HDR, 16, NEXT | OUT, 1}, {DAT, 0xffffffff, IN, 0}}},
	{"a request without a status byte", 0, .desc = {{HDR, 16, OUT, 0}}},
	{"a table that was not negotiated", 0, .desc = {{TAB, 32, TABLE, 0}},
	 .table = {{HDR, 16, NEXT | OUT, 1}, {STA, 1, IN, 0}}},
	{"a table of odd length", INDIRECT, .desc = {{TAB, 24, TABLE, 0}},
	 .table = {{HDR, 16, NEXT | OUT, 1}, {STA, 1, IN, 0}}},
	{"a table of length 0", INDIRECT, .desc = {{TAB, 0, TABLE, 0}}},
	{"a table in a table", INDIRECT, .desc = {{TAB, 32, TABLE, 0}},
	 .table = {{TAB, 32, TABLE, 0}, {STA, 1, IN, 0}}},
	{"a table with a next beside it", INDIRECT,
	 .desc = {{TAB, 32, TABLE | NEXT, 1}, {STA, 1, IN, 0}},
	 .table = {{HDR, 16, NEXT | OUT, 1}, {STA, 1, IN, 0}}},
	{"a table that loops", INDIRECT, .desc = {{TAB, 48, TABLE, 0}},
	 .table = {{HDR, 16, NEXT | OUT, 1}, {DAT, 512, NEXT | IN, 0}}},
	{"a table without RAM", INDIRECT, .desc = {{BEYOND, 32, TABLE, 0}}},
	{"a table whose next is outside it", INDIRECT, .desc = {{TAB, 32, TABLE, 0}},
	 .table = {{HDR, 16, NEXT | OUT, 2}, {STA, 1, IN, 0}}},
};

static uint64_t address(uint64_t a)
{
	switch (a) {
	case HDR:
		return (uint64_t)hdr_out[0];
	case DAT:
		return (uint64_t)pool;
	case STA:
		return (uint64_t)hdr_in[0];
	case TAB:
		return (uint64_t)table;
	default:
		return a;
	}
}

static void put_descs(struct vring_desc *to, const struct vring_desc *from, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		to[i] = from[i];
		to[i].addr = address(from[i].addr);
	}
}

static bool wait_broken(struct vdev *d)
{
	uint64_t t0 = cpu_tsc();

	while (!(virtio_status(d) & VIRTIO_CONFIG_S_NEEDS_RESET))
		if (clock_passed(t0, BREAK_MS))
			return false;
	return true;
}

static bool works(struct vdev *d)
{
	struct virtio_blk_outhdr *h = (void *)hdr_out[0];
	struct seg s[] = {{h, sizeof(*h)}, {pool, 4096}, {hdr_in[0], 1}};

	virtio_up(d, virtio_ring_features(), 1);
	*h = (struct virtio_blk_outhdr){.type = VIRTIO_BLK_T_IN};
	hdr_in[0][0] = 0xff;
	memset(pool, 0, 4096);
	return vq_call(&d->q[0], s, 1, 2) == 4097 && !hdr_in[0][0] &&
	       pattern_check(pool, 4096, 0, 0) == 4096;
}

/* By hand: what vq_add() and vq_kick() would never do. */
static void publish(struct vq *q, uint16_t head, uint16_t idx)
{
	q->avail->ring[q->avail_next % q->size] = head;
	q->avail_next++;
	cpu_barrier(); /* the entry before the index, as in vq_kick() */
	*(volatile uint16_t *)&q->avail->idx = idx ? idx : q->avail_next;
	virtio_doorbell(q);
}

static void try_chain(struct vdev *d, const struct bad_chain *c)
{
	struct vq *q = &d->q[0];
	bool broken;

	virtio_up(d, c->features, 1);
	memset(hdr_out[0], 0, HDR_BYTES);
	put_descs(q->desc, c->desc, ARRAY_LEN(c->desc));
	put_descs(table, c->table, ARRAY_LEN(c->table));
	publish(q, c->head, c->idx);
	broken = wait_broken(d);
	for (int i = 0; i < 3; i++)
		virtio_doorbell(q);
	ok(broken && works(d), "ring: %s: NEEDS_RESET, and all is well after a reset", c->what);
}

/* What DRIVER_OK finds in the queue's registers. */
static void try_queue(struct vdev *d, const char *what, uint16_t size, uint64_t desc)
{
	struct vq *q = &d->q[0];
	bool broken;

	virtio_negotiate(d, 0);
	virtio_queue_up(d, 0);
	virtio_set_queue(d, size ? size : q->size, desc ? desc : (uint64_t)q->desc);
	virtio_set_status(d, STATUS_DRIVER_OK);
	virtio_doorbell(q);
	broken = wait_broken(d);
	ok(broken && works(d), "ring: %s: NEEDS_RESET, and all is well after a reset", what);
}

void ring_test(struct vdev *d)
{
	for (unsigned i = 0; i < ARRAY_LEN(bad_chains); i++)
		try_chain(d, &bad_chains[i]);
	try_queue(d, "a queue size that is no power of two", 100, 0);
	try_queue(d, "a queue size over the maximum", 0x8000, 0);
	try_queue(d, "a ring without RAM", 0, BEYOND);
	try_queue(d, "a ring that is not aligned", 0, (uint64_t)d->q[0].desc + 8);
	try_queue(d, "a ring at the end of the address space", 0, ~0xfull);
}
