// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_virtq.c - the ring under a driver that is nothing but bytes.
 *
 * The input is what lies in guest memory and what is done, in turn: first the shape of the queue, then steps of one
 * byte each with their operands: pop, push, put back, hold, release, notify, and the driver's part, which is any write
 * anywhere. Whatever the bytes are, a request that is handed out lies in RAM, is no longer than the queue and adds up, the
 * count of requests in flight is right, a queue that is held has none, and a broken queue stays broken.
 */
#include "input.h"
#include "../../devices/virtio.h"
#include "../../vmm/log.h"
#include <linux/virtio_ring.h>

#define RAM       MIB(1)
#define DESC      0x0000u /* 64 x 16 */
#define AVAIL     0x0400u
#define USED      0x0800u
#define TABLES    0x1000u /* where indirect tables would lie; the writes below reach up to 0x2000 */
#define REACH     0x2000u
#define MAX_QUEUE 64u

struct target {
	struct mem *mem;
	struct virtio_dev dev;
	struct transport tp;
	struct virtq vq;
	struct chain *held[MAX_QUEUE];
	unsigned nheld;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_irq(struct transport *tp, unsigned queue)
{
	(void)tp;
	(void)queue;
}

static const struct transport_ops no_transport = {.irq_queue = no_irq};

/* ---- what must hold for every request ---- */

static void check_iov(const struct target *t, const struct iovec *iov)
{
	const uint8_t *base = t->mem->region[0].host, *p = iov->iov_base;

	must(iov->iov_len > 0 && p >= base && p < base + RAM);
	must(iov->iov_len <= (size_t)(base + RAM - p));
}

static void check_chain(const struct target *t, const struct chain *c)
{
	uint64_t rd = 0, wr = 0;

	must(c->nrd + c->nwr > 0 && c->nrd + c->nwr <= t->vq.size && c->head < t->vq.size);
	for (unsigned i = 0; i < c->nrd + c->nwr; i++) {
		check_iov(t, &c->iov[i]);
		*(i < c->nrd ? &rd : &wr) += c->iov[i].iov_len;
	}
	must(rd == c->rd_len && wr == c->wr_len && rd + wr <= UINT32_MAX);
	for (unsigned i = 0; i < t->nheld; i++)
		must(t->held[i]->head != c->head);
}

/* ---- steps ---- */

static void step_pop(struct target *t)
{
	bool was_broken = t->vq.broken;
	struct chain *c = NULL;
	int r = virtq_pop(&t->vq, &c);

	must(r == 1 || r == 0 || r == -EPROTO);
	must(!was_broken || r == -EPROTO);
	must(!t->vq.held || (r == 0 || was_broken));
	must((r == -EPROTO) == t->vq.broken);
	if (r != 1)
		return;
	must(t->nheld < t->vq.size);
	check_chain(t, c);
	t->held[t->nheld++] = c;
}

/* Pop, and back with it: what comes next is the same entry, as the driver has it by then. */
static void step_putback(struct target *t)
{
	struct chain *c = NULL;
	uint64_t pops = t->vq.pops;

	if (virtq_pop(&t->vq, &c) != 1)
		return;
	check_chain(t, c);
	virtq_putback(c);
	must(t->vq.pops == pops && !t->vq.taken[c->head] && virtq_pending(&t->vq));
}

/* And what a thread does that is about to sleep; from then on it may be one that polls. */
static void step_hold(struct target *t, uint8_t how)
{
	if (how & 1)
		virtq_hold(&t->vq);
	else
		virtq_release(&t->vq);
	if (how & 2)
		must(!virtq_arm(&t->vq) || !(t->vq.held || t->vq.broken));
	t->vq.polled = how & 4;
}

static void step_push(struct target *t, unsigned which)
{
	struct chain *c;

	if (!t->nheld)
		return;
	which %= t->nheld;
	c = t->held[which];
	t->held[which] = t->held[--t->nheld];
	virtq_push(c, c->wr_len);
}

/* What a driver does to make a chain available, with any head. */
static void step_avail(struct target *t, uint16_t head)
{
	struct vring_avail *a = mem_span(t->mem, GPA(AVAIL), 4 + 2 * MAX_QUEUE);

	a->ring[a->idx & (t->vq.size - 1)] = head;
	a->idx++;
}

/* A descriptor near the truth: real chains would hardly ever come from random bytes. */
static void step_desc(struct target *t, struct input *in)
{
	struct vring_desc *d = mem_span(t->mem, GPA(DESC), REACH);
	unsigned i = (unsigned)take(in, 2) % (REACH / sizeof(*d));
	uint8_t kind = (uint8_t)take(in, 1);

	/* The rings themselves may be hit: they are the driver's memory too. */
	d[i] = (struct vring_desc){.addr = kind & 0x80 ? take(in, 8) : TABLES + (take(in, 1) << 4),
				   .len = kind & 0x40 ? (uint32_t)take(in, 4)
						      : (uint32_t)take(in, 1) << 2,
				   .flags = kind & 7,
				   .next = (uint16_t)take(in, 1)};
}

static void step_write(struct target *t, struct input *in)
{
	uint64_t at = take(in, 2) % REACH;
	uint8_t v = (uint8_t)take(in, 1);

	if (mem_write(t->mem, GPA(at), &v, 1))
		abort();
}

static void step(struct target *t, struct input *in)
{
	uint8_t op = (uint8_t)take(in, 1);

	switch (op < 0xf0 ? op % 8 : 8 + op % 2) {
	case 0:
	case 1:
		step_pop(t);
		break;
	case 2:
		step_push(t, (unsigned)take(in, 1));
		break;
	case 3:
		virtq_notify(&t->vq);
		break;
	case 4:
		step_avail(t, (uint16_t)take(in, 1));
		break;
	case 5:
	case 6:
		step_desc(t, in);
		break;
	case 7:
		step_write(t, in);
		break;
	case 8:
		step_putback(t);
		break;
	case 9:
		step_hold(t, (uint8_t)take(in, 1));
		break;
	}
	must(t->vq.inflight == t->nheld);
}

static void run(struct target *t, struct input *in)
{
	uint8_t shape = (uint8_t)take(in, 1);

	t->vq.size = (uint16_t)(1u << shape % 8); /* 128 is over the maximum */
	t->vq.desc_addr = shape == 0xff ? take(in, 8) : DESC;
	t->vq.avail_addr = shape == 0xfe ? take(in, 8) : AVAIL;
	t->vq.used_addr = shape == 0xfd ? take(in, 8) : USED;
	if (virtq_start(&t->vq, t->mem, shape & 0x10, shape & 0x20))
		return;
	while (in->left)
		step(t, in);
	while (t->nheld)
		step_push(t, 0);
	virtq_notify(&t->vq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target t = {.dev = {.queue_size = MAX_QUEUE, .req_size = sizeof(struct chain)}};
	struct input in = {data, size};

	/* Fresh RAM each time, so that a finding does not depend on the inputs before it. */
	if (mem_create(&t.mem, RAM, MEM_PAGES_SMALL))
		abort();
	t.tp = (struct transport){&no_transport, &t.dev};
	t.dev.tp = &t.tp;
	t.vq = (struct virtq){.dev = &t.dev, .kick_fd = -1};
	run(&t, &in);
	virtq_reset(&t.vq);
	mem_destroy(t.mem);
	return 0;
}
