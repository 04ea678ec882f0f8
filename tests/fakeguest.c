// SPDX-License-Identifier: Apache-2.0
/*
 * fakeguest.c - an honest driver with a few lies, in the process of the device under test.
 *
 * Works on the rings as Linux does: release before avail.idx, acquire after used.idx, a full barrier between its own
 * index and the other side's event word in both directions. So it sleeps until it is interrupted and kicks only when it
 * is asked to, and a device that loses a notification makes a test fail by time. Threads: one test thread; the
 * transport's functions are called by the device's iothread.
 */
#include "fakeguest.h"
#include "tap.h"
#include <linux/virtio_ring.h>
#include <time.h>

#define PATIENCE_S 10
#define HEAP_START 0x10000u

/* ---- the transport: counts ---- */

static void interrupted(struct fakeguest *fg, unsigned *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&fg->lock);
	fg->irqs++;
	pthread_cond_broadcast(&fg->irq);
	pthread_mutex_unlock(&fg->lock);
}

static void fake_irq_queue(struct transport *tp, unsigned queue)
{
	struct fakeguest *fg = container_of(tp, struct fakeguest, tp);

	interrupted(fg, &fg->irq_queue[queue]);
}

static void fake_irq_config(struct transport *tp)
{
	struct fakeguest *fg = container_of(tp, struct fakeguest, tp);

	interrupted(fg, &fg->irq_config);
}

static void fake_nothing(struct transport *tp)
{
	(void)tp;
}

static const struct transport_ops fake_transport = {
	.irq_queue = fake_irq_queue,
	.irq_config = fake_irq_config,
	.reset = fake_nothing,
	.destroy = fake_nothing,
};

static unsigned irqs_seen(struct fakeguest *fg)
{
	unsigned n;

	pthread_mutex_lock(&fg->lock);
	n = fg->irqs;
	pthread_mutex_unlock(&fg->lock);
	return n;
}

static struct timespec patience(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += PATIENCE_S;
	return t;
}

/* Sleeps until there was an interrupt after the first seen ones; false at the deadline. */
static bool wait_irq(struct fakeguest *fg, unsigned seen, const struct timespec *deadline)
{
	int r = 0;

	pthread_mutex_lock(&fg->lock);
	while (fg->irqs == seen && !r)
		r = pthread_cond_timedwait(&fg->irq, &fg->lock, deadline);
	pthread_mutex_unlock(&fg->lock);
	return !r;
}

/* ---- memory ---- */

void *fg_ptr(struct fakeguest *fg, uint64_t gpa, uint64_t len)
{
	void *p = mem_span(fg->vm->mem, GPA(gpa), len);

	need(p);
	return p;
}

uint64_t fg_alloc(struct fakeguest *fg, uint64_t size, uint64_t align)
{
	uint64_t gpa = ALIGN_UP(fg->heap, align);

	need(gpa + size <= fg->heap_end);
	fg->heap = gpa + size;
	return gpa;
}

/* ---- life ---- */

struct fakeguest *fg_create(uint64_t mem)
{
	struct fakeguest *fg = calloc(1, sizeof(*fg));
	struct vm_params params = {.mem_size = mem, .pages = MEM_PAGES_SMALL, .ncpus = 1};

	need(fg);
	need(!vm_create_bare(&fg->vm, &params));
	pthread_mutex_init(&fg->lock, NULL);
	pthread_cond_init(&fg->irq, NULL);
	fg->heap = HEAP_START;
	fg->heap_end = fg->vm->mem->region[0].len;
	for (unsigned i = 0; i < ARRAY_LEN(fg->q); i++) {
		fg->q[i].fg = fg;
		fg->q[i].index = i;
	}
	return fg;
}

void fg_attach_only(struct fakeguest *fg, struct virtio_dev *dev)
{
	need(dev->nqueues <= ARRAY_LEN(fg->q));
	fg->dev = dev;
	need(!virtio_attach(dev, fg->vm));
	fg->tp = (struct transport){&fake_transport, dev};
	dev->tp = &fg->tp;
}

void fg_attach(struct fakeguest *fg, struct virtio_dev *dev)
{
	fg_attach_only(fg, dev);
	need(!virtio_run(dev));
}

void fg_reset(struct fakeguest *fg)
{
	virtio_status_write(fg->dev, 0);
	need(virtio_status_read(fg->dev) == 0);
}

void fg_destroy(struct fakeguest *fg)
{
	if (fg->dev) {
		virtio_detach(fg->dev);
		if (fg->dev->base.destroy)
			fg->dev->base.destroy(&fg->dev->base);
	}
	vm_destroy(fg->vm);
	pthread_cond_destroy(&fg->irq);
	pthread_mutex_destroy(&fg->lock);
	free(fg);
}

/* ---- start ---- */

/* Zeroed ring memory: what the last start left there must not look like something the device wrote. */
void fg_ring(struct fg_queue *q, uint16_t size)
{
	struct fakeguest *fg = q->fg;
	uint64_t avail_len = 6 + 2ull * size, used_len = 6 + 8ull * size;

	if (size > q->ring_cap) {
		q->desc = fg_alloc(fg, 16ull * size, 4096);
		q->avail = fg_alloc(fg, avail_len, 64);
		q->used = fg_alloc(fg, used_len, 64);
		q->ring_cap = size;
	}
	q->size = size;
	memset(fg_ptr(fg, q->desc, 16ull * size), 0, 16ull * size);
	memset(fg_ptr(fg, q->avail, avail_len), 0, avail_len);
	memset(fg_ptr(fg, q->used, used_len), 0, used_len);
	q->avail_idx = q->used_seen = q->free_head = 0;
	q->nfree = size;
	for (uint16_t i = 0; i < size; i++) {
		q->next[i] = (uint16_t)(i + 1);
		q->head[i].ndesc = 0;
	}
}

static void queue_init(struct fg_queue *q, uint16_t size)
{
	struct virtio_dev *dev = q->fg->dev;
	unsigned i = q->index;

	fg_ring(q, size);
	q->event_idx = q->fg->features >> VIRTIO_RING_F_EVENT_IDX & 1;
	q->indirect = q->fg->features >> VIRTIO_RING_F_INDIRECT_DESC & 1;
	virtio_queue_write(dev, i, VIRTQ_SIZE, size);
	virtio_queue_write(dev, i, VIRTQ_DESC_LO, (uint32_t)q->desc);
	virtio_queue_write(dev, i, VIRTQ_DESC_HI, (uint32_t)(q->desc >> 32));
	virtio_queue_write(dev, i, VIRTQ_AVAIL_LO, (uint32_t)q->avail);
	virtio_queue_write(dev, i, VIRTQ_AVAIL_HI, (uint32_t)(q->avail >> 32));
	virtio_queue_write(dev, i, VIRTQ_USED_LO, (uint32_t)q->used);
	virtio_queue_write(dev, i, VIRTQ_USED_HI, (uint32_t)(q->used >> 32));
	virtio_queue_write(dev, i, VIRTQ_READY, 1);
}

void fg_start(struct fakeguest *fg, uint64_t want, uint16_t size)
{
	struct virtio_dev *dev = fg->dev;
	uint64_t offered;

	need(size && size <= VIRTQ_MAX_SIZE);
	fg_reset(fg);
	virtio_status_write(dev, VIRTIO_CONFIG_S_ACKNOWLEDGE);
	virtio_status_write(dev, VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER);
	offered = virtio_features_read(dev, 0) | (uint64_t)virtio_features_read(dev, 1) << 32;
	fg->features = offered & (want | 1ull << VIRTIO_F_VERSION_1);
	virtio_driver_features_write(dev, 0, (uint32_t)fg->features);
	virtio_driver_features_write(dev, 1, (uint32_t)(fg->features >> 32));
	virtio_status_write(dev, virtio_status_read(dev) | VIRTIO_CONFIG_S_FEATURES_OK);
	need(virtio_status_read(dev) & VIRTIO_CONFIG_S_FEATURES_OK);
	for (unsigned i = 0; i < dev->nqueues; i++)
		queue_init(&fg->q[i], size);
	virtio_status_write(dev, virtio_status_read(dev) | VIRTIO_CONFIG_S_DRIVER_OK);
}

/* ---- rings ---- */

static struct vring_desc *desc_at(struct fg_queue *q, uint16_t i)
{
	return (struct vring_desc *)fg_ptr(q->fg, q->desc, 16ull * q->size) + i;
}

static struct vring_avail *avail_of(struct fg_queue *q)
{
	return fg_ptr(q->fg, q->avail, 6 + 2ull * q->size);
}

static struct vring_used *used_of(struct fg_queue *q)
{
	return fg_ptr(q->fg, q->used, 6 + 8ull * q->size);
}

static void desc_fill(struct vring_desc *d, uint64_t addr, uint32_t len, uint16_t flags,
		      uint16_t next)
{
	*d = (struct vring_desc){htole64(addr), htole32(len), htole16(flags), htole16(next)};
}

void fg_desc(struct fg_queue *q, uint16_t i, uint64_t addr, uint32_t len, uint16_t flags,
	     uint16_t next)
{
	desc_fill(desc_at(q, i), addr, len, flags, next);
}

void fg_avail_idx(struct fg_queue *q, uint16_t idx)
{
	q->avail_idx = idx;
	/* Release: pairs with the acquire in the device's look(). Seq_cst: see device_wants_kick(). */
	__atomic_store_n(&avail_of(q)->idx, htole16(idx), __ATOMIC_SEQ_CST);
}

void fg_avail_push(struct fg_queue *q, uint16_t head)
{
	__virtio16 *entry = &avail_of(q)->ring[q->avail_idx % q->size];

	__atomic_store_n(entry, htole16(head), __ATOMIC_RELAXED);
	fg_avail_idx(q, (uint16_t)(q->avail_idx + 1));
}

void fg_kick(struct fg_queue *q)
{
	virtio_queue_kick(q->fg->dev, q->index);
}

/* After a store of avail.idx: both seq_cst, pairs with the device's arm_and_look(). */
static bool device_wants_kick(struct fg_queue *q)
{
	struct vring_used *used = used_of(q);
	uint16_t event;

	if (!q->event_idx)
		return !(le16toh(__atomic_load_n(&used->flags, __ATOMIC_SEQ_CST)) &
			 VRING_USED_F_NO_NOTIFY);
	event = le16toh(__atomic_load_n((__virtio16 *)&used->ring[q->size], __ATOMIC_SEQ_CST));
	return vring_need_event(event, q->avail_idx, (uint16_t)(q->avail_idx - 1));
}

static uint16_t take_desc(struct fg_queue *q)
{
	uint16_t i = q->free_head;

	need(q->nfree);
	q->nfree--;
	q->free_head = q->next[i];
	return i;
}

/* Room for all buffers of the head's chain, kept for its next one. */
static uint64_t head_buf(struct fg_queue *q, struct fg_head *h, const struct fg_buf *rd,
			 unsigned nrd, const struct fg_buf *wr, unsigned nwr)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < nrd; i++)
		sum += rd[i].len;
	for (unsigned i = 0; i < nwr; i++)
		sum += wr[i].len;
	if (sum > h->buf_len) {
		h->buf = fg_alloc(q->fg, sum, 16);
		h->buf_len = sum;
	}
	return h->buf;
}

/* Fills n descriptors, of the ring (by its list of indices) or of a table. */
struct filler {
	struct fg_queue *q;
	struct vring_desc *table; /* NULL: the ring */
	uint16_t at;
	uint64_t gpa;
	unsigned left;
};

static void fill(struct filler *f, const struct fg_buf *b, uint16_t flags)
{
	struct fg_queue *q = f->q;
	uint16_t next = f->table ? (uint16_t)(f->at + 1) : q->next[f->at];

	if (b->len && !(flags & VRING_DESC_F_WRITE)) {
		void *p = fg_ptr(q->fg, f->gpa, b->len);

		if (b->src)
			memcpy(p, b->src, b->len);
		else
			memset(p, 0, b->len);
	}
	if (--f->left)
		flags |= VRING_DESC_F_NEXT;
	desc_fill(f->table ? f->table + f->at : desc_at(q, f->at), f->gpa, b->len, flags,
		  f->left ? next : 0);
	f->gpa += b->len;
	f->at = next;
}

/* The chain's descriptors: taken from the ring, linked by next[]. */
static uint16_t take_chain(struct fg_queue *q, unsigned n)
{
	uint16_t head = take_desc(q), last = head;

	for (unsigned i = 1; i < n; i++) {
		q->next[last] = take_desc(q);
		last = q->next[last];
	}
	q->head[head].ndesc = (uint16_t)n;
	return head;
}

static void free_chain(struct fg_queue *q, uint16_t head)
{
	uint16_t last = head;

	for (unsigned i = 1; i < q->head[head].ndesc; i++)
		last = q->next[last];
	q->nfree = (uint16_t)(q->nfree + q->head[head].ndesc);
	q->head[head].ndesc = 0;
	q->next[last] = q->free_head;
	q->free_head = head;
}

static struct vring_desc *head_table(struct fg_queue *q, uint16_t head, unsigned n)
{
	struct fg_head *h = &q->head[head];

	if (!h->table)
		h->table = fg_alloc(q->fg, 16ull * VIRTQ_MAX_SIZE, 16);
	fg_desc(q, head, h->table, 16 * n, VRING_DESC_F_INDIRECT, 0);
	return fg_ptr(q->fg, h->table, 16ull * n);
}

uint16_t fg_add(struct fg_queue *q, const struct fg_buf *rd, unsigned nrd, const struct fg_buf *wr,
		unsigned nwr, uint64_t *wr_gpa)
{
	unsigned n = nrd + nwr;
	bool table = q->indirect && n > 1;
	uint16_t head = take_chain(q, table ? 1 : n);
	struct filler f = {.q = q, .at = head, .left = n};

	f.gpa = head_buf(q, &q->head[head], rd, nrd, wr, nwr);
	if (table) {
		f.table = head_table(q, head, n);
		f.at = 0;
	}
	for (unsigned i = 0; i < nrd; i++)
		fill(&f, &rd[i], 0);
	for (unsigned i = 0; i < nwr; i++) {
		if (wr_gpa)
			wr_gpa[i] = f.gpa;
		fill(&f, &wr[i], VRING_DESC_F_WRITE);
	}
	fg_avail_push(q, head);
	if (device_wants_kick(q))
		fg_kick(q);
	return head;
}

/* The next used entry, if there is one. */
static int take_used(struct fg_queue *q, uint32_t *len)
{
	struct vring_used *used = used_of(q);
	struct vring_used_elem *e = &used->ring[q->used_seen % q->size];
	uint16_t head;

	/* Acquire: pairs with the release of publish() and virtq_notify(). */
	if (le16toh(__atomic_load_n(&used->idx, __ATOMIC_ACQUIRE)) == q->used_seen)
		return -1;
	head = (uint16_t)le32toh(e->id);
	need(head < q->size);
	if (len)
		*len = le32toh(e->len);
	if (q->head[head].ndesc)
		free_chain(q, head);
	q->used_seen++;
	return head;
}

/* Asks for an interrupt at the next used entry, then looks again: pairs with virtq_notify(). */
static int arm_and_take(struct fg_queue *q, uint32_t *len)
{
	struct vring_used *used = used_of(q);

	if (q->event_idx)
		__atomic_store_n(&avail_of(q)->ring[q->size], htole16(q->used_seen),
				 __ATOMIC_SEQ_CST);
	else
		__atomic_store_n(&avail_of(q)->flags, 0, __ATOMIC_SEQ_CST);
	if (le16toh(__atomic_load_n(&used->idx, __ATOMIC_SEQ_CST)) == q->used_seen)
		return -1;
	return take_used(q, len);
}

int fg_used(struct fg_queue *q, uint32_t *len)
{
	struct timespec deadline = patience();

	for (;;) {
		unsigned seen = irqs_seen(q->fg);
		int head = take_used(q, len);

		if (head < 0)
			head = arm_and_take(q, len);
		if (head >= 0)
			return head;
		if (wait_irq(q->fg, seen, &deadline))
			continue;
		ok(0, "the device uses a request of queue %u within %d s", q->index, PATIENCE_S);
		return -1;
	}
}

long fg_call(struct fg_queue *q, const void *rd, uint32_t rd_len, void *wr, uint32_t wr_len)
{
	struct fg_buf r = {rd, rd_len}, w = {NULL, wr_len};
	uint64_t gpa = 0;
	uint16_t head = fg_add(q, &r, rd_len > 0, &w, wr_len > 0, &gpa);
	uint32_t len = 0;

	if (fg_used(q, &len) != head || len > wr_len)
		return -1;
	if (len)
		memcpy(wr, fg_ptr(q->fg, gpa, len), len);
	return len;
}

bool fg_wait_broken(struct fakeguest *fg)
{
	struct timespec deadline = patience();

	for (;;) {
		unsigned seen = irqs_seen(fg);

		if (virtio_status_read(fg->dev) & VIRTIO_CONFIG_S_NEEDS_RESET)
			return true;
		if (!wait_irq(fg, seen, &deadline))
			return false;
	}
}
