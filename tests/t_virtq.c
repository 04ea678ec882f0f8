// SPDX-License-Identifier: Apache-2.0
/*
 * t_virtq.c - the ring alone: what an honest driver gets, and what a lying one does.
 *
 * No iothread: the queue is popped and pushed by the test itself, so that every step is visible. Each rule of virtio
 * 1.2, 2.7 that a driver can break has a sentence here (hard cases A1 to A9, A13, A14, A24, A25).
 */
#include "fakeguest.h"
#include "tap.h"

#define INDIRECT VRING_DESC_F_INDIRECT
#define NEXT     VRING_DESC_F_NEXT
#define WRITE    VRING_DESC_F_WRITE

struct rig {
	struct fakeguest *fg;
	struct fg_queue *q;
	struct virtio_dev dev;
	struct virtq vq;
	struct transport tp;
	unsigned irqs;
	uint64_t buf; /* a page of guest RAM */
};

static void count_irq(struct transport *tp, unsigned queue)
{
	(void)queue;
	container_of(tp, struct rig, tp)->irqs++;
}

static const struct transport_ops rig_transport = {.irq_queue = count_irq};

static struct rig *rig_create(uint64_t mem)
{
	struct rig *r = calloc(1, sizeof(*r));

	need(r);
	r->fg = fg_create(mem);
	r->q = &r->fg->q[0];
	r->dev = (struct virtio_dev){.queue_size = 256, .req_size = sizeof(struct chain) + 8};
	r->tp = (struct transport){&rig_transport, &r->dev};
	r->dev.tp = &r->tp;
	r->fg->dev = &r->dev; /* no queues of its own: kicks go nowhere */
	r->vq = (struct virtq){.dev = &r->dev, .size = 256, .kick_fd = -1};
	r->buf = fg_alloc(r->fg, 4096, 4096);
	return r;
}

static int rig_start(struct rig *r, uint16_t size, bool event_idx, bool indirect)
{
	r->vq.inflight = 0; /* what a test left there goes with the memory */
	virtq_reset(&r->vq);
	fg_ring(r->q, size);
	r->q->event_idx = event_idx;
	r->q->indirect = false;
	r->irqs = 0;
	r->vq.size = size;
	r->vq.desc_addr = r->q->desc;
	r->vq.avail_addr = r->q->avail;
	r->vq.used_addr = r->q->used;
	return virtq_start(&r->vq, r->fg->vm->mem, event_idx, indirect);
}

static void rig_destroy(struct rig *r)
{
	r->vq.inflight = 0;
	virtq_reset(&r->vq);
	r->fg->dev = NULL;
	fg_destroy(r->fg);
	free(r);
}

static struct vring_used *used(struct rig *r)
{
	return fg_ptr(r->fg, r->q->used, 6 + 8ull * r->q->size);
}

static struct vring_avail *avail(struct rig *r)
{
	return fg_ptr(r->fg, r->q->avail, 6 + 2ull * r->q->size);
}

/* The word after the used ring. */
static uint16_t *avail_event(struct rig *r)
{
	return fg_ptr(r->fg, r->q->used + 4 + 8ull * r->q->size, 2);
}

static int pop(struct rig *r)
{
	struct chain *c;

	return virtq_pop(&r->vq, &c);
}

/* Fresh queue of 8, both ring features: the chain at descriptor 0, as the test has written it, is popped. */
static int pop_head(struct rig *r, uint16_t head)
{
	fg_avail_push(r->q, head);
	return pop(r);
}

/* ---- honest ---- */

static void t_chain(struct rig *r)
{
	struct fg_buf rd[] = {{"hello ", 6}, {"world", 5}}, wr[] = {{NULL, 100}, {NULL, 7}};
	struct chain *c;
	char text[12] = "";
	struct cursor cur;
	uint64_t gpa[2];
	uint16_t head;

	need(!rig_start(r, 8, true, true));
	is(pop(r), 0, "an empty ring gives nothing");
	head = fg_add(r->q, rd, 2, wr, 2, gpa);
	is(virtq_pop(&r->vq, &c), 1, "a published chain is taken");
	ok(c->head == head && c->nrd == 2 && c->nwr == 2,
	   "it has its two readable and two writable parts");
	ok(c->rd_len == 11 && c->wr_len == 107, "and their lengths");
	cur = chain_rd(c);
	cursor_get(&cur, text, 11);
	ok(!cur.err && !strcmp(text, "hello world"), "its readable bytes are the driver's");
	cur = chain_wr(c);
	cursor_put(&cur, "answer", 6);
	ok(!memcmp(fg_ptr(r->fg, gpa[0], 6), "answer", 6), "its writable bytes are the driver's");
	virtq_push(c, 6);
	is(used(r)->idx, 0, "a push alone publishes nothing");
	is(r->vq.inflight, 0, "and nothing is in flight after it");
	virtq_notify(&r->vq);
	is(used(r)->idx, 1, "the notify publishes it");
	ok(used(r)->ring[0].id == head && used(r)->ring[0].len == 6,
	   "with its head and the bytes written");
	is(r->irqs, 1, "and interrupts once");
	virtq_notify(&r->vq);
	is(r->irqs, 1, "a notify with nothing new does not interrupt");
}

static void t_indirect_honest(struct rig *r)
{
	struct fg_buf rd[] = {{"ab", 2}, {"cd", 2}}, wr[] = {{NULL, 3}};
	uint64_t table = r->buf + 1; /* 2.7.5.3 asks for no alignment */
	struct vring_desc d[8];
	struct chain *c;

	need(!rig_start(r, 8, true, true));
	r->q->indirect = true;
	fg_add(r->q, rd, 2, wr, 1, NULL);
	is(virtq_pop(&r->vq, &c), 1, "a chain in an indirect table is taken");
	ok(c->nrd == 2 && c->nwr == 1 && c->rd_len == 4 && c->wr_len == 3, "and has all its parts");

	need(!rig_start(r, 8, true, true));
	for (uint16_t i = 0; i < 8; i++)
		d[i] = (struct vring_desc){r->buf, 16, i < 7 ? NEXT : WRITE, (uint16_t)(i + 1)};
	memcpy(fg_ptr(r->fg, table, sizeof(d)), d, sizeof(d));
	fg_desc(r->q, 0, table, sizeof(d), INDIRECT | WRITE, 0);
	is(pop_head(r, 0), 1,
	   "a table at an odd address, as long as the queue, its descriptor marked "
	   "writable, is taken");

	need(!rig_start(r, 8, true, true));
	fg_desc(r->q, 0, r->buf, 16, NEXT, 1);
	fg_desc(r->q, 1, table, 16, INDIRECT, 0);
	d[0] = (struct vring_desc){r->buf, 5, WRITE, 0};
	memcpy(fg_ptr(r->fg, table, 16), d, 16);
	fg_avail_push(r->q, 0);
	is(virtq_pop(&r->vq, &c), 1, "a table at the end of a chain in the ring is taken");
	ok(c->rd_len == 16 && c->wr_len == 5, "with the parts of both");
}

/* Every request is different and goes all the way; the 16-bit indices wrap, the heads come in changing order. */
static void t_wrap(struct rig *r, bool event_idx)
{
	struct fg_buf rd = {NULL, 4}, wr = {NULL, 4};
	unsigned bad = 0, taken = 0;
	uint32_t len, v;

	need(!rig_start(r, 8, event_idx, false));
	for (uint32_t i = 0; i < 70000; i++) {
		unsigned n = i % 4 + 1;
		struct chain *c[4];

		for (unsigned k = 0; k < n; k++) {
			v = i + k;
			rd.src = &v;
			fg_add(r->q, &rd, 1, &wr, 1, NULL);
		}
		for (unsigned k = 0; k < n; k++) {
			bad += virtq_pop(&r->vq, &c[k]) != 1;
			memcpy(&v, c[k]->iov[0].iov_base, 4);
			bad += v != i + k;
			taken++;
		}
		bad += pop(r) != 0;
		for (unsigned k = n; k-- > 0;)
			virtq_push(c[k], 4);
		virtq_notify(&r->vq);
		for (unsigned k = n; k-- > 0;)
			bad += fg_used(r->q, &len) != c[k]->head || len != 4;
	}
	ok(!bad && taken == 175000, "175000 requests pass a ring of 8 %s the event index",
	   event_idx ? "with" : "without");
}

/* ---- notifications ---- */

static void t_event_idx(struct rig *r)
{
	struct fg_buf rd = {"x", 1};
	struct chain *c[3];

	need(!rig_start(r, 8, true, false));
	*avail_event(r) = 0x5555;
	for (int i = 0; i < 3; i++)
		fg_add(r->q, &rd, 1, NULL, 0, NULL);
	for (int i = 0; i < 3; i++)
		is(virtq_pop(&r->vq, &c[i]), 1, "request %d of three is taken", i);
	is(*avail_event(r), 0x5555, "while there is work the event index is not written");
	is(pop(r), 0, "then the ring is empty");
	is(*avail_event(r), 3, "and a kick is asked for at the next request");

	avail(r)->ring[8] = 1; /* used_event: interrupt when the second is used */
	virtq_push(c[0], 0);
	virtq_notify(&r->vq);
	is(r->irqs, 0, "no interrupt before the entry the driver waits for");
	virtq_push(c[1], 0);
	virtq_push(c[2], 0);
	virtq_notify(&r->vq);
	is(r->irqs, 1, "one interrupt when the batch passes it");
	is(used(r)->flags, 0, "used.flags is left alone with the event index");
}

static void t_flags(struct rig *r)
{
	struct fg_buf rd = {"x", 1};
	struct chain *c[2];

	need(!rig_start(r, 8, false, false));
	*avail_event(r) = 0x5555;
	avail(r)->ring[8] = 0; /* would be a used_event */
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	is(virtq_pop(&r->vq, &c[0]), 1, "without the event index a request is taken");
	is(used(r)->flags, VRING_USED_F_NO_NOTIFY, "kicks are refused while there is work");
	is(virtq_pop(&r->vq, &c[1]), 1, "the second is taken");
	is(pop(r), 0, "then the ring is empty");
	is(used(r)->flags, 0, "and kicks are asked for again");
	is(*avail_event(r), 0x5555,
	   "the word after the ring belongs to the driver and is not written");
	avail(r)->flags = VRING_AVAIL_F_NO_INTERRUPT;
	virtq_push(c[0], 0);
	virtq_notify(&r->vq);
	is(r->irqs, 0, "NO_INTERRUPT is honoured");
	is(used(r)->idx, 1, "and the completion is published all the same");
	avail(r)->flags = 0;
	virtq_push(c[1], 0);
	virtq_notify(&r->vq);
	is(r->irqs, 1, "without it each batch interrupts");
}

/* Polled: its thread arms it before it sleeps, and only then. */
static void t_polled(struct rig *r, bool event_idx)
{
	struct fg_buf rd = {"x", 1};
	struct chain *c;

	need(!rig_start(r, 8, event_idx, false));
	r->vq.polled = true;
	*avail_event(r) = 0x5555;
	ok(!virtq_pending(&r->vq), "polled, %s the event index: nothing is pending",
	   event_idx ? "with" : "without");
	is(pop(r), 0, "nor taken");
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	ok(virtq_pending(&r->vq), "a request is seen without a kick");
	ok(virtq_arm(&r->vq), "and at the last moment before the sleep");
	*avail_event(r) = 0x5555;
	need(virtq_pop(&r->vq, &c) == 1);
	ok(virtq_pending(&r->vq), "as long as one of those that were published is left");
	need(virtq_pop(&r->vq, &c) == 1);
	is(pop(r), 0, "an empty ring");
	ok(*avail_event(r) == 0x5555 && used(r)->flags == (event_idx ? 0 : VRING_USED_F_NO_NOTIFY),
	   "does not ask for kicks");
	ok(!virtq_arm(&r->vq), "until the thread sleeps");
	ok(*avail_event(r) == (event_idx ? 2 : 0x5555) && used(r)->flags == 0,
	   "then for one at the next request");
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	r->dev.halting = true;
	ok(!virtq_pending(&r->vq) && !virtq_arm(&r->vq), "a device that halts has nothing pending");
	r->dev.halting = false;
	fg_avail_idx(r->q, 4000);
	ok(virtq_pending(&r->vq), "a lie is pending too");
	is(pop(r), -EPROTO, "so that it is found out");
	ok(!virtq_pending(&r->vq) && !virtq_arm(&r->vq),
	   "once, a broken queue has nothing pending");
	*avail_event(r) = 0x5555;
	r->vq.broken = r->vq.running = false;
	ok(!virtq_pending(&r->vq) && !virtq_arm(&r->vq) && *avail_event(r) == 0x5555,
	   "and the ring of a stopped one is left alone");
}

/* Taken, and then not after all: as if there had been no pop, whatever the driver does to the ring meanwhile. */
static void t_putback(struct rig *r, bool event_idx)
{
	struct fg_buf rd = {"ab", 2};
	struct chain *c, *again;
	uint16_t head;

	need(!rig_start(r, 8, event_idx, true));
	head = fg_add(r->q, &rd, 1, NULL, 0, NULL);
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	need(virtq_pop(&r->vq, &c) == 1);
	virtq_putback(c);
	ok(!r->vq.inflight && !r->vq.pops && !r->vq.taken[head] && virtq_pending(&r->vq),
	   "a request that is put back was never taken");
	is(used(r)->flags, event_idx ? 0 : VRING_USED_F_NO_NOTIFY,
	   "and kicks stay as they are while there is work");
	fg_desc(r->q, head, r->buf, 77, WRITE, 0);
	is(virtq_pop(&r->vq, &again), 1, "it is found again");
	ok(again == c && again->head == head && again->nrd == 0 && again->wr_len == 77,
	   "as it is now, not as it was");
	virtq_push(again, 0);
	need(virtq_pop(&r->vq, &c) == 1);
	*avail_event(r) = 0x5555;
	virtq_putback(c);
	need(virtq_pop(&r->vq, &c) == 1);
	is(*avail_event(r), 0x5555, "the last one of the ring too, with no word to the driver");
	is(pop(r), 0, "and then the ring is empty");
	is(r->vq.pops, 2, "two were taken in all");
	virtq_push(c, 0);
	virtq_notify(&r->vq);
	ok(used(r)->idx == 2 && used(r)->ring[0].id == head && used(r)->ring[0].len == 0,
	   "and two are done");

	need(!rig_start(r, 8, event_idx, true));
	fg_desc(r->q, 3, r->buf, 16, 0, 0);
	fg_desc(r->q, 5, r->buf, 32, 0, 0);
	fg_avail_push(r->q, 3);
	need(virtq_pop(&r->vq, &c) == 1);
	virtq_putback(c);
	avail(r)->ring[0] = 5;
	fg_avail_push(r->q, 3);
	ok(virtq_pop(&r->vq, &c) == 1 && c->head == 5 && virtq_pop(&r->vq, &c) == 1 && c->head == 3,
	   "a driver that changes the entry finds its heads free");
	is(r->vq.broken, 0, "and breaks nothing");
}

/* Each request is put back once, on both sides of where the indices wrap. */
static void t_putback_wrap(struct rig *r)
{
	struct fg_buf rd = {NULL, 4};
	unsigned bad = 0;
	uint32_t len, v;

	need(!rig_start(r, 8, true, false));
	for (uint32_t i = 0; i < 70000; i++) {
		struct chain *c;

		rd.src = &i;
		fg_add(r->q, &rd, 1, NULL, 0, NULL);
		bad += virtq_pop(&r->vq, &c) != 1;
		virtq_putback(c);
		bad += virtq_pop(&r->vq, &c) != 1;
		memcpy(&v, c->iov[0].iov_base, 4);
		bad += v != i;
		virtq_push(c, 0);
		bad += pop(r) != 0;
		virtq_notify(&r->vq);
		bad += fg_used(r->q, &len) < 0;
	}
	ok(!bad && r->vq.pops == 70000, "70000 requests, each of them put back once");
}

static void t_hold(struct rig *r, bool event_idx, bool polled)
{
	struct fg_buf rd = {"x", 1};
	struct chain *c, *first;

	need(!rig_start(r, 8, event_idx, false));
	r->vq.polled = polled;
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	need(virtq_pop(&r->vq, &first) == 1);
	need(pop(r) == 0);
	is(polled ? virtq_arm(&r->vq) : virtq_pending(&r->vq), 0,
	   "%s, %s the event index: kicks are asked for", polled ? "polled" : "not polled",
	   event_idx ? "with" : "without");
	ok(*avail_event(r) == 1 || !event_idx, "at the next request");
	virtq_hold(&r->vq);
	is(used(r)->flags, event_idx ? 0 : VRING_USED_F_NO_NOTIFY,
	   "a queue that is held wants none");
	*avail_event(r) = 0x5555;
	for (int i = 0; i < 3; i++)
		fg_add(r->q, &rd, 1, NULL, 0, NULL);
	ok(pop(r) == 0 && !virtq_pending(&r->vq) && !virtq_arm(&r->vq),
	   "it has nothing, whoever looks");
	ok(*avail_event(r) == 0x5555 && used(r)->flags == (event_idx ? 0 : VRING_USED_F_NO_NOTIFY),
	   "and looking does not ask for kicks");
	virtq_push(first, 0);
	virtq_notify(&r->vq);
	ok(used(r)->idx == 1 && r->irqs == 1, "what it has taken before is completed");
	virtq_release(&r->vq);
	ok(virtq_pending(&r->vq), "when it is released all is there");
	for (int i = 0; i < 3; i++)
		need(virtq_pop(&r->vq, &c) == 1);
	is(pop(r), 0, "to the last");
	ok(!polled || !virtq_arm(&r->vq), "and nothing more");
	ok(event_idx ? *avail_event(r) == 4 : used(r)->flags == 0, "kicks are asked for again");
	virtq_hold(&r->vq);
	fg_avail_idx(r->q, 4000);
	is(pop(r), 0, "a lie is not met while the queue is held");
	virtq_release(&r->vq);
	is(pop(r), -EPROTO, "but then");
	virtq_hold(&r->vq);
	is(pop(r), -EPROTO, "a broken queue is broken, held or not");

	r->vq.inflight = 0;
	virtq_reset(&r->vq);
	is(r->vq.held, 0, "a reset releases");
	virtq_hold(&r->vq);
	ok(!virtq_pending(&r->vq), "a queue that does not run may be held, its ring is left alone");
	need(!rig_start(r, 8, event_idx, false));
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	is(pop(r), 1, "the next driver is not");
}

static void t_long_batch(struct rig *r)
{
	struct fg_buf rd = {"x", 1};
	struct chain *c[80];

	need(!rig_start(r, 128, true, false));
	avail(r)->ring[128] = 70;
	for (int i = 0; i < 80; i++) {
		fg_add(r->q, &rd, 1, NULL, 0, NULL);
		need(virtq_pop(&r->vq, &c[i]) == 1);
	}
	for (int i = 0; i < 7; i++)
		virtq_push(c[i], 0);
	is(used(r)->idx, 0, "a short batch waits for its notify");
	virtq_push(c[7], 0);
	is(used(r)->idx, 8, "a longer one is published by the cache line, for drivers that poll");
	for (int i = 8; i < 80; i++)
		virtq_push(c[i], 0);
	is(r->irqs, 0, "which does not interrupt before the entry the driver waits for");
	virtq_notify(&r->vq);
	is(r->irqs, 1, "an entry passed after an early publication still interrupts");

	need(!rig_start(r, 128, false, false));
	for (int i = 0; i < 64; i++) {
		fg_add(r->q, &rd, 1, NULL, 0, NULL);
		need(virtq_pop(&r->vq, &c[i]) == 1);
	}
	for (int i = 0; i < 64; i++)
		virtq_push(c[i], 0);
	is(r->irqs, 1, "a driver that sleeps is woken in the middle of a very long batch");
}

/* ---- lies about indices ---- */

static void t_avail(struct rig *r)
{
	struct fg_buf rd = {"x", 1};
	struct chain *first;

	need(!rig_start(r, 8, true, true));
	for (int i = 0; i < 8; i++)
		fg_add(r->q, &rd, 1, NULL, 0, NULL);
	is(pop(r), 1, "an avail index a whole ring ahead is legal");

	need(!rig_start(r, 8, true, true));
	fg_avail_idx(r->q, 9);
	is(pop(r), -EPROTO, "an avail index further ahead than the ring is refused");
	need(!rig_start(r, 8, true, true));
	fg_avail_idx(r->q, 40000);
	is(pop(r), -EPROTO, "so is a jump by 40000");
	need(!rig_start(r, 8, true, true));
	fg_avail_idx(r->q, 0xffff);
	is(pop(r), -EPROTO, "and a step back");

	need(!rig_start(r, 8, true, true));
	is(pop_head(r, 8), -EPROTO, "a head out of range is refused");
	need(!rig_start(r, 8, true, true));
	is(pop_head(r, 0xffff), -EPROTO, "the largest head too");

	need(!rig_start(r, 8, true, true));
	fg_desc(r->q, 3, r->buf, 16, 0, 0);
	fg_avail_push(r->q, 3);
	need(virtq_pop(&r->vq, &first) == 1);
	is(pop_head(r, 3), -EPROTO, "a head that is in flight is not taken twice");
	is(pop(r), -EPROTO, "the queue stays broken");
	fg_desc(r->q, 4, r->buf, 16, 0, 0);
	is(pop_head(r, 4), -EPROTO, "even for a good chain");
	virtq_push(first, 0);
	virtq_notify(&r->vq);
	ok(used(r)->idx == 1 && used(r)->ring[0].id == 3 && r->irqs == 1,
	   "what was taken before is still completed");
}

/* ---- lies about chains ---- */

struct lie {
	const char *what;
	struct vring_desc ring[4]; /* descriptors 0.. of the ring; the head is 0 */
	struct vring_desc table[4];
	int want;
};

#define TABLE 0x1000000000ull /* stands for the address of table[], BUF for a page of RAM */
#define BUF   0x2000000000ull

static const struct lie lies[] = {
	{"a chain that loops to its start", {{BUF, 8, NEXT, 1}, {BUF, 8, NEXT, 0}}, {{0}}, -EPROTO},
	{"a descriptor that is its own next", {{BUF, 8, NEXT, 0}}, {{0}}, -EPROTO},
	{"a loop of empty buffers", {{BUF, 0, NEXT, 1}, {BUF, 0, NEXT, 0}}, {{0}}, -EPROTO},
	{"a next out of range", {{BUF, 8, NEXT, 8}}, {{0}}, -EPROTO},
	{"a next far out of range", {{BUF, 8, NEXT, 0xffff}}, {{0}}, -EPROTO},
	{"readable after writable", {{BUF, 8, NEXT | WRITE, 1}, {BUF, 8, 0, 0}}, {{0}}, -EPROTO},
	{"readable after a writable one of no bytes",
	 {{BUF, 0, NEXT | WRITE, 1}, {BUF, 8, 0, 0}},
	 {{0}},
	 -EPROTO},
	{"one of no bytes that is readable, after a writable one",
	 {{BUF, 8, NEXT | WRITE, 1}, {BUF, 0, 0, 0}},
	 {{0}},
	 -EPROTO},
	{"a chain of no bytes", {{BUF, 0, NEXT, 1}, {BUF, 0, WRITE, 0}}, {{0}}, -EPROTO},
	{"an empty buffer at an address that is none, beside a real one",
	 {{UINT64_MAX, 0, NEXT, 1}, {BUF, 8, WRITE, 0}},
	 {{0}},
	 1},
	{"an unknown flag", {{BUF, 8, 0x8000, 0}}, {{0}}, 1},
	{"an indirect table of no length", {{TABLE, 0, INDIRECT, 0}}, {{BUF, 8, 0, 0}}, -EPROTO},
	{"an indirect table of odd length", {{TABLE, 17, INDIRECT, 0}}, {{BUF, 8, 0, 0}}, -EPROTO},
	{"an indirect table shorter than an entry",
	 {{TABLE, 15, INDIRECT, 0}},
	 {{BUF, 8, 0, 0}},
	 -EPROTO},
	{"an indirect table longer than the queue",
	 {{TABLE, 16 * 9, INDIRECT, 0}},
	 {{BUF, 8, 0, 0}},
	 -EPROTO},
	{"an indirect table of 4 GiB",
	 {{TABLE, 0xfffffff0, INDIRECT, 0}},
	 {{BUF, 8, 0, 0}},
	 -EPROTO},
	{"an indirect table outside RAM", {{0xf0000000, 16, INDIRECT, 0}}, {{0}}, -EPROTO},
	{"an indirect table that wraps", {{UINT64_MAX - 15, 32, INDIRECT, 0}}, {{0}}, -EPROTO},
	{"INDIRECT and NEXT together",
	 {{TABLE, 16, INDIRECT | NEXT, 1}, {BUF, 8, 0, 0}},
	 {{BUF, 8, 0, 0}},
	 -EPROTO},
	{"a table inside a table", {{TABLE, 16, INDIRECT, 0}}, {{TABLE, 16, INDIRECT, 0}}, -EPROTO},
	{"a table that loops",
	 {{TABLE, 32, INDIRECT, 0}},
	 {{BUF, 8, NEXT, 1}, {BUF, 8, NEXT, 0}},
	 -EPROTO},
	{"a next out of the table", {{TABLE, 32, INDIRECT, 0}}, {{BUF, 8, NEXT, 2}}, -EPROTO},
	{"readable in the table after writable in the ring",
	 {{BUF, 8, NEXT | WRITE, 1}, {TABLE, 16, INDIRECT, 0}},
	 {{BUF, 8, 0, 0}},
	 -EPROTO},
	{"a chain longer than the queue by its table",
	 {{BUF, 8, NEXT, 1}, {BUF, 8, NEXT, 2}, {TABLE, 16 * 8, INDIRECT, 0}},
	 {{BUF, 8, NEXT, 1}, {BUF, 8, NEXT, 2}, {BUF, 8, NEXT, 3}, {BUF, 8, NEXT, 0}},
	 -EPROTO},
	{"an address in the MMIO hole", {{0xf0000000, 8, WRITE, 0}}, {{0}}, -EPROTO},
	{"an address past the end of RAM", {{1ull << 40, 8, 0, 0}}, {{0}}, -EPROTO},
	{"a range that wraps", {{UINT64_MAX - 3, 8, 0, 0}}, {{0}}, -EPROTO},
	{"a range that wraps to RAM", {{UINT64_MAX, 0x20000, 0, 0}}, {{0}}, -EPROTO},
};

static uint64_t lie_addr(struct rig *r, uint64_t addr)
{
	return addr == TABLE ? r->buf + 2048 : addr == BUF ? r->buf : addr;
}

static void t_lies(struct rig *r)
{
	for (unsigned i = 0; i < ARRAY_LEN(lies); i++) {
		const struct lie *l = &lies[i];
		struct vring_desc *table = fg_ptr(r->fg, r->buf + 2048, 64);

		need(!rig_start(r, 8, true, true));
		for (uint16_t k = 0; k < 4; k++) {
			fg_desc(r->q, k, lie_addr(r, l->ring[k].addr), l->ring[k].len,
				l->ring[k].flags, l->ring[k].next);
			table[k] = l->table[k];
			table[k].addr = lie_addr(r, table[k].addr);
		}
		is(pop_head(r, 0), l->want, "%s: %s", l->what, l->want < 0 ? "refused" : "taken");
	}
	need(!rig_start(r, 8, true, false));
	fg_desc(r->q, 0, r->buf + 2048, 16, INDIRECT, 0);
	is(pop_head(r, 0), -EPROTO, "an indirect table that was not negotiated: refused");
}

/* n times all of RAM, less a few bytes. */
static void add_sum(struct rig *r, uint64_t mem, unsigned n, uint32_t less)
{
	need(!rig_start(r, 128, true, true));
	for (uint16_t i = 0; i < n; i++)
		fg_desc(r->q, i, 0, (uint32_t)mem - (i == n - 1 ? less : 0),
			(uint16_t)((i < n - 1 ? NEXT : 0) | (i < 32 ? 0 : WRITE)),
			(uint16_t)(i + 1));
	fg_avail_push(r->q, 0);
}

/* RAM is 64 MiB: 64 times all of it is 4 GiB, and a byte less is the largest sum. */
static void t_sum(struct rig *r, uint64_t mem)
{
	struct chain *c;

	add_sum(r, mem, 65, 0);
	is(virtq_pop(&r->vq, &c), -EPROTO, "a sum that 32 bits would find small is refused");
	for (uint32_t less = 0; less < 2; less++) {
		add_sum(r, mem, 64, less);
		if (!less) {
			is(virtq_pop(&r->vq, &c), -EPROTO, "so is one of 4 GiB");
			continue;
		}
		is(virtq_pop(&r->vq, &c), 1, "a byte less is taken");
		ok((uint64_t)c->rd_len + c->wr_len == UINT32_MAX && c->nrd + c->nwr == 64,
		   "with its true sum");
	}
}

static void t_ends_of_ram(struct rig *r, uint64_t mem)
{
	need(!rig_start(r, 8, true, true));
	fg_desc(r->q, 0, mem - 4096, 4096, WRITE, 0);
	is(pop_head(r, 0), 1, "the last page of RAM is a legal buffer");
	need(!rig_start(r, 8, true, true));
	fg_desc(r->q, 0, mem - 1, 4096, WRITE, 0);
	is(pop_head(r, 0), -EPROTO, "a page that begins with its last byte is not");
}

/* RAM on both sides of the hole below 4 GiB lies side by side on the host: a range must not run across. */
static void t_seam(void)
{
	struct rig *r = rig_create(GIB(5));

	need(!rig_start(r, 8, true, true));
	fg_desc(r->q, 0, MEM_LOW_END - 8, 16, WRITE, 0);
	is(pop_head(r, 0), -EPROTO, "a buffer across the end of low RAM is refused");
	need(!rig_start(r, 8, true, true));
	fg_desc(r->q, 0, MEM_HIGH, 4096, WRITE, 0);
	is(pop_head(r, 0), 1, "a buffer above 4 GiB is taken");
	need(!rig_start(r, 8, true, true));
	fg_desc(r->q, 0, MEM_HIGH - 8, 16, WRITE, 0);
	is(pop_head(r, 0), -EPROTO, "a buffer from the hole into high RAM is refused");
	rig_destroy(r);
}

/* Everything about a request comes from the copy: a driver that edits the ring afterwards changes nothing (A7). */
static void t_edited(struct rig *r)
{
	struct chain *c;

	need(!rig_start(r, 8, true, true));
	fg_desc(r->q, 0, r->buf, 16, NEXT, 1);
	fg_desc(r->q, 1, r->buf + 16, 32, WRITE, 0);
	fg_avail_push(r->q, 0);
	need(virtq_pop(&r->vq, &c) == 1);
	fg_desc(r->q, 0, 0xf0000000, UINT32_MAX, NEXT, 0);
	fg_desc(r->q, 1, 0xf0000000, UINT32_MAX, WRITE | NEXT, 0);
	avail(r)->ring[0] = 7;
	ok(c->iov[0].iov_base == fg_ptr(r->fg, r->buf, 16) && c->iov[0].iov_len == 16 &&
		   c->iov[1].iov_len == 32 && c->head == 0,
	   "a descriptor changed after publishing does not change the request");
	virtq_push(c, 32);
	virtq_notify(&r->vq);
	ok(used(r)->ring[0].id == 0 && used(r)->ring[0].len == 32, "nor its completion");
	is(r->vq.broken, 0, "and the queue lives");
}

/* ---- geometry ---- */

static int start_at(struct rig *r, uint32_t size, uint64_t desc, uint64_t av, uint64_t us)
{
	virtq_reset(&r->vq);
	r->vq.size = (uint16_t)size;
	r->vq.desc_addr = desc;
	r->vq.avail_addr = av;
	r->vq.used_addr = us;
	return virtq_start(&r->vq, r->fg->vm->mem, true, true);
}

static void t_geometry(struct rig *r, uint64_t mem)
{
	uint64_t d, a, u;

	need(!rig_start(r, 256, true, true));
	d = r->q->desc;
	a = r->q->avail;
	u = r->q->used;
	is(start_at(r, 0, d, a, u), -EINVAL, "a queue of size 0 does not start");
	is(start_at(r, 3, d, a, u), -EINVAL, "nor one whose size is not a power of two");
	is(start_at(r, 512, d, a, u), -EINVAL, "nor one over the maximum");
	is(start_at(r, 256, d + 8, a, u), -EINVAL, "nor a misaligned descriptor table");
	is(start_at(r, 256, d, a + 1, u), -EINVAL, "nor a misaligned avail ring");
	is(start_at(r, 256, d, a, u + 2), -EINVAL, "nor a misaligned used ring");
	is(start_at(r, 256, 0xf0000000, a, u), -EINVAL, "nor descriptors in the MMIO hole");
	is(start_at(r, 256, mem - 16, a, u), -EINVAL, "nor descriptors that run out of RAM");
	is(start_at(r, 256, d, mem - 516, u), -EINVAL,
	   "nor an avail ring without room for its event index");
	is(start_at(r, 256, d, a, mem - 2052), -EINVAL,
	   "nor a used ring without room for its event index");
	is(start_at(r, 256, d, a, UINT64_MAX - 3), -EINVAL, "nor a used ring that wraps");
	is(r->vq.running, 0, "and then nothing runs");
	is(start_at(r, 1, d, a, u), 0, "a queue of one entry starts");
	is(start_at(r, 256, d, a, u), 0, "and one of the maximum");
}

static void t_stop(struct rig *r)
{
	struct fg_buf rd = {"x", 1};
	struct chain *c;

	need(!rig_start(r, 8, true, true));
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	fg_add(r->q, &rd, 1, NULL, 0, NULL);
	need(virtq_pop(&r->vq, &c) == 1);
	r->vq.running = false;
	is(pop(r), 0, "a stopped queue gives nothing");
	virtq_push(c, 0);
	virtq_notify(&r->vq);
	ok(used(r)->idx == 0 && r->irqs == 0, "a completion after the stop is not published");
	is(r->vq.inflight, 0, "but counted");
	virtq_reset(&r->vq);
	ok(r->vq.size == 256 && !r->vq.ready && !r->vq.desc_addr && !r->vq.avail_addr &&
		   !r->vq.used_addr && !r->vq.avail_next && !r->vq.used_next && !r->vq.reqs &&
		   !r->vq.iovs && !r->vq.taken,
	   "a reset returns everything to power-on");
}

int main(void)
{
	uint64_t mem = MIB(64);
	struct rig *r = rig_create(mem);

	t_chain(r);
	t_indirect_honest(r);
	t_wrap(r, true);
	t_wrap(r, false);
	t_event_idx(r);
	t_flags(r);
	t_polled(r, true);
	t_polled(r, false);
	for (unsigned i = 0; i < 4; i++)
		t_hold(r, i & 1, i & 2);
	t_putback(r, true);
	t_putback(r, false);
	t_putback_wrap(r);
	t_long_batch(r);
	t_avail(r);
	t_lies(r);
	t_sum(r, mem);
	t_ends_of_ram(r, mem);
	t_seam();
	t_edited(r);
	t_geometry(r, mem);
	t_stop(r);
	rig_destroy(r);
	return done();
}
