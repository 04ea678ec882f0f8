// SPDX-License-Identifier: Apache-2.0
/*
 * virtq.c - split virtqueues, device side.
 *
 * Turns what the driver published into checked iovecs and back. Nothing here trusts a value it has not just copied
 * and bounded: ring indices are single atomic loads, descriptors are copied and only the copy is looked at (hard
 * case A7), addresses go through mem_span(). Runs on the owner's iothread only; takes no locks. Every barrier stands
 * here and names the line of the driver it pairs with (A12, A13): the words are those of Linux's virtio_ring.c.
 * Spec: virtio 1.2, 2.7 (split), 2.7.5.3 (indirect), 2.7.7 and 2.7.10 (notification). Calls: mem.h, the transport.
 */
#include "virtq.h"
#include "virtio.h"
#include <assert.h>
#include <sys/mman.h>

/*
 * How many completions may wait for virtq_notify(). Eight used elements are one cache line of the used ring: the
 * driver is handed whole lines that are not written any more, and can work on them while the batch goes on. After 64
 * it is also interrupted: it need not idle through a batch of a thousand, and the 16-bit arithmetic of the event
 * index never sees a distance that wraps.
 */
#define PUBLISH_EVERY 8
#define SIGNAL_EVERY  64

/* The slots' iovecs would all begin in the same set of the L1 cache if a row were exactly size entries. */
#define IOV_PAD 4

/* ---- words of the ring ---- */

static inline uint16_t load_relaxed(const __virtio16 *p)
{
	return le16toh(__atomic_load_n(p, __ATOMIC_RELAXED));
}

static inline uint16_t load_acquire(const __virtio16 *p)
{
	return le16toh(__atomic_load_n(p, __ATOMIC_ACQUIRE));
}

static inline uint16_t load_seq_cst(const __virtio16 *p)
{
	return le16toh(__atomic_load_n(p, __ATOMIC_SEQ_CST));
}

static inline void store_relaxed(__virtio16 *p, uint16_t v)
{
	__atomic_store_n(p, htole16(v), __ATOMIC_RELAXED);
}

static inline void store_release(__virtio16 *p, uint16_t v)
{
	__atomic_store_n(p, htole16(v), __ATOMIC_RELEASE);
}

static inline void store_seq_cst(__virtio16 *p, uint16_t v)
{
	__atomic_store_n(p, htole16(v), __ATOMIC_SEQ_CST);
}

/* The word after the used ring: the driver kicks when its avail.idx passes it. Only with EVENT_IDX (A14). */
static inline __virtio16 *avail_event(const struct virtq *vq)
{
	struct vring_used *used = vq->used;

	return (__virtio16 *)&used->ring[vq->size];
}

/* The word after the avail ring: we interrupt when used.idx passes it. Only with EVENT_IDX. */
static inline const __virtio16 *used_event(const struct virtq *vq)
{
	const struct vring_avail *avail = vq->avail;

	return &avail->ring[vq->size];
}

/* ---- life ---- */

static size_t req_stride(const struct virtq *vq)
{
	return ALIGN_UP(vq->dev->req_size, _Alignof(max_align_t));
}

static struct chain *req_at(const struct virtq *vq, uint16_t head)
{
	return (struct chain *)(vq->reqs + head * req_stride(vq));
}

/* The areas lie in RAM, which never moves: the pointers are good for as long as the queue runs. */
static int map_areas(struct virtq *vq)
{
	uint64_t n = vq->size, event = vq->event_idx ? sizeof(__virtio16) : 0;

	if (!is_pow2(n) || n > vq->dev->queue_size)
		return -EINVAL;
	if (!IS_ALIGNED(vq->desc_addr, VRING_DESC_ALIGN_SIZE) ||
	    !IS_ALIGNED(vq->avail_addr, VRING_AVAIL_ALIGN_SIZE) ||
	    !IS_ALIGNED(vq->used_addr, VRING_USED_ALIGN_SIZE))
		return -EINVAL;
	vq->desc = mem_span(vq->mem, GPA(vq->desc_addr), n * sizeof(struct vring_desc));
	vq->avail = mem_span(vq->mem, GPA(vq->avail_addr),
			     sizeof(struct vring_avail) + n * sizeof(__virtio16) + event);
	vq->used = mem_span(vq->mem, GPA(vq->used_addr),
			    sizeof(struct vring_used) + n * sizeof(struct vring_used_elem) + event);
	return vq->desc && vq->avail && vq->used ? 0 : -EINVAL;
}

/* Zeroed pages that exist once they are touched: a driver that keeps to few heads costs few pages. */
static void *map_zeroed(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* Where huge pages are given to everyone, one touched slot would cost 2 MiB. Not fatal. */
	madvise(p, len, MADV_NOHUGEPAGE);
	return p;
}

static int alloc_slots(struct virtq *vq)
{
	vq->reqs_len = vq->size * req_stride(vq);
	vq->iovs_len = (size_t)vq->size * (vq->size + IOV_PAD) * sizeof(struct iovec);
	vq->reqs = map_zeroed(vq->reqs_len);
	vq->iovs = map_zeroed(vq->iovs_len);
	vq->taken = calloc(vq->size, 1);
	return vq->reqs && vq->iovs && vq->taken ? 0 : -ENOMEM;
}

static void free_slots(struct virtq *vq)
{
	if (vq->reqs)
		munmap(vq->reqs, vq->reqs_len);
	if (vq->iovs)
		munmap(vq->iovs, vq->iovs_len);
	free(vq->taken);
	vq->reqs = NULL;
	vq->iovs = NULL;
	vq->taken = NULL;
}

int virtq_start(struct virtq *vq, const struct mem *mem, bool event_idx, bool indirect)
{
	int r;

	assert(!vq->running && !vq->reqs && vq->dev->queue_size <= VIRTQ_MAX_SIZE);
	assert(vq->dev->req_size >= sizeof(struct chain));
	vq->mem = mem;
	vq->event_idx = event_idx;
	vq->indirect = indirect;
	r = map_areas(vq);
	if (!r)
		r = alloc_slots(vq);
	if (r) {
		free_slots(vq);
		return r;
	}
	vq->running = true;
	return 0;
}

void virtq_reset(struct virtq *vq)
{
	assert(vq->inflight == 0);
	free_slots(vq);
	/* By place and not by name, so that a field added later cannot be forgotten here (A17). */
	memset((uint8_t *)vq + offsetof(struct virtq, size), 0,
	       sizeof(*vq) - offsetof(struct virtq, size));
	vq->size = vq->dev->queue_size;
}

/* ---- pop ---- */

/* A descriptor as numbers of ours. */
struct desc {
	uint64_t addr;
	uint32_t len;
	uint32_t flags; /* in its low half */
	uint32_t next;
};

/* Where in which table the walk is, and what it has found. */
struct walk {
	const struct vring_desc *table;
	uint32_t entries;
	uint32_t
		left; /* descriptors this chain may still have: the ring size, also over an indirect table (A1) */
	uint32_t next;
	bool indirect;
	uint32_t kind;     /* of buffers now: 0, then VRING_DESC_F_WRITE */
	struct iovec *iov; /* where the next one goes */
	struct iovec *wr;  /* with that kind: the first writable one */
	uint64_t rd_len,
		len; /* of what is before wr; of all. No ring is long enough to make it wrap */
};

/*
 * One descriptor, copied once: the driver may rewrite the original at any moment. The empty asm makes the copy opaque,
 * or the compiler would be free to load a part again after it was checked.
 */
static inline struct desc copy_desc(const struct walk *w)
{
	const uint8_t *at = (const uint8_t *)w->table + w->next * sizeof(struct vring_desc);
	uint64_t addr, rest;

	/* By memcpy, as an indirect table may lie at any address. */
	memcpy(&addr, at, sizeof(addr));
	memcpy(&rest, at + sizeof(addr), sizeof(rest));
	__asm__ volatile("" : "+r"(addr), "+r"(rest));
	rest = le64toh(rest);
	return (struct desc){.addr = le64toh(addr),
			     .len = (uint32_t)rest,
			     .flags = (uint32_t)(rest >> 32),
			     .next = (uint32_t)(rest >> 48)};
}

/* 2.7.5.3: a table ends the chain in the ring; it does not nest; its own descriptor's WRITE flag means nothing. */
static int enter_table(const struct virtq *vq, struct walk *w, const struct desc *d)
{
	uint32_t n = d->len / (uint32_t)sizeof(struct vring_desc);

	if (!vq->indirect || w->indirect || (d->flags & VRING_DESC_F_NEXT))
		return -EPROTO;
	if (!n || d->len % sizeof(struct vring_desc) || n > vq->size)
		return -EPROTO;
	w->table = mem_span(vq->mem, GPA(d->addr), d->len);
	if (!w->table)
		return -EPROTO;
	w->entries = n;
	w->next = 0;
	w->left++; /* the table's descriptor is not one of the chain; this happens once per chain */
	w->indirect = true;
	return 0;
}

/* The readable ones are over. 2.7.4.2: they do not come again (A9). */
static int begin_writable(struct walk *w)
{
	if (w->kind)
		return -EPROTO;
	w->kind = VRING_DESC_F_WRITE;
	w->wr = w->iov;
	w->rd_len = w->len;
	return 0;
}

/* A buffer of no bytes is legal and nothing: it gets no iovec (A5). */
static inline int add_buffer(const struct virtq *vq, struct walk *w, const struct desc *d)
{
	void *p;

	if ((d->flags ^ w->kind) & VRING_DESC_F_WRITE && begin_writable(w))
		return -EPROTO;
	if (!d->len)
		return 0;
	/* All in one region of RAM, or in one window, or nothing: no device memory, no wrap, no seam (A6, A25). */
	p = mem_buffer(vq->mem, GPA(d->addr), d->len);
	if (!p)
		return -EPROTO;
	*w->iov++ = (struct iovec){.iov_base = p, .iov_len = d->len};
	w->len += d->len;
	return 0;
}

static inline int walk_on(const struct virtq *vq, struct walk *w)
{
	struct desc d;
	int r;

	do {
		if (w->next >= w->entries || !w->left--)
			return -EPROTO;
		d = copy_desc(w);
		if (d.flags & VRING_DESC_F_INDIRECT) {
			r = enter_table(vq, w, &d);
			d.flags = VRING_DESC_F_NEXT;
		} else {
			r = add_buffer(vq, w, &d);
			w->next = d.next;
		}
		if (r)
			return r;
	} while (d.flags & VRING_DESC_F_NEXT);
	return 0;
}

static int walk_chain(const struct virtq *vq, struct chain *c)
{
	struct walk w = {.table = vq->desc,
			 .entries = vq->size,
			 .left = vq->size,
			 .next = c->head,
			 .iov = c->iov};
	int r = walk_on(vq, &w);

	if (r)
		return r;
	if (!w.len || w.len > UINT32_MAX)
		return -EPROTO;
	if (!w.kind)
		(void)begin_writable(&w);
	c->nrd = (uint16_t)(w.wr - c->iov);
	c->nwr = (uint16_t)(w.iov - w.wr);
	c->rd_len = (uint32_t)w.rd_len;
	c->wr_len = (uint32_t)(w.len - w.rd_len);
	return 0;
}

/* 1: avail_seen is ahead of avail_next; 0: nothing new; -EPROTO: further ahead than there are descriptors (A3). */
static int check_avail(struct virtq *vq, uint16_t idx)
{
	uint16_t n = (uint16_t)(idx - vq->avail_next);

	if (n > vq->size)
		return -EPROTO;
	vq->avail_seen = idx;
	return n > 0;
}

/*
 * The ring is empty: ask for a kick, and what is its index now? The store and the load that follows are both seq_cst:
 * the full barrier between them pairs with virtio_mb() in virtqueue_kick_prepare(), which stands between the driver's
 * store of avail.idx and its load of avail_event or used.flags. One of the two sides sees the other (A13).
 */
static uint16_t arm_and_look(struct virtq *vq)
{
	const struct vring_avail *avail = vq->avail;
	struct vring_used *used = vq->used;

	if (vq->event_idx)
		store_seq_cst(avail_event(vq), vq->avail_next);
	else
		store_seq_cst(&used->flags, 0);
	vq->quiet = false;
	return load_seq_cst(&avail->idx);
}

/* Nothing is taken from a queue that rests or is held, whoever looks. */
static bool may_pop(const struct virtq *vq)
{
	return vq->running && !vq->held && !__atomic_load_n(&vq->dev->halting, __ATOMIC_RELAXED);
}

/* Only a look: look() loads the index again, with acquire, before anything is read that it covers. */
bool virtq_pending(const struct virtq *vq)
{
	const struct vring_avail *avail = vq->avail;

	if (!may_pop(vq) || vq->broken)
		return false;
	return vq->avail_next != vq->avail_seen || load_relaxed(&avail->idx) != vq->avail_next;
}

bool virtq_arm(struct virtq *vq)
{
	if (!may_pop(vq) || vq->broken)
		return false;
	return vq->avail_next != vq->avail_seen || arm_and_look(vq) != vq->avail_next;
}

/*
 * With EVENT_IDX nothing needs to be done to have peace while requests come in: avail_event stays behind, where the
 * driver's index has passed it already.
 */
static void disarm(struct virtq *vq)
{
	struct vring_used *used = vq->used;

	if (vq->event_idx || vq->quiet)
		return;
	/* A hint (2.7.10): when the driver sees it does not matter, so no order is needed. */
	store_relaxed(&used->flags, VRING_USED_F_NO_NOTIFY);
	vq->quiet = true;
}

/* One load of avail.idx serves all requests the driver had published by then. */
static int look(struct virtq *vq)
{
	const struct vring_avail *avail = vq->avail;
	int r;

	/*
	 * Acquire: pairs with virtio_wmb() in virtqueue_add_split(), between the driver's stores of descriptors and
	 * ring entry and its store of avail.idx. Entries up to idx may be read after this (A12).
	 */
	r = check_avail(vq, load_acquire(&avail->idx));
	if (!r && !vq->polled)
		r = check_avail(vq, arm_and_look(vq));
	if (r > 0)
		disarm(vq);
	return r;
}

static int take(struct virtq *vq, struct chain **out)
{
	const struct vring_avail *avail = vq->avail;
	uint16_t head = load_relaxed(&avail->ring[vq->avail_next & (vq->size - 1)]);
	struct chain *c;

	/* A head that is out already would have two owners of one slot (A4). */
	if (head >= vq->size || vq->taken[head])
		return -EPROTO;
	c = req_at(vq, head);
	c->vq = vq;
	c->head = head;
	c->iov = vq->iovs + (size_t)head * (vq->size + IOV_PAD);
	if (walk_chain(vq, c))
		return -EPROTO;
	vq->taken[head] = 1;
	vq->inflight++;
	vq->avail_next++;
	vq->pops++;
	*out = c;
	return 1;
}

int virtq_pop(struct virtq *vq, struct chain **c)
{
	int r = 1;

	if (vq->broken)
		return -EPROTO;
	if (!may_pop(vq))
		return 0;
	if (vq->avail_next == vq->avail_seen)
		r = look(vq);
	if (r > 0)
		r = take(vq, c);
	/* It stays broken, or the chain that cannot be read would be met again at every kick (A2). */
	if (r < 0)
		vq->broken = true;
	return r;
}

/*
 * What take() did, undone. Of the ring a pop writes only that kicks are off, and so they stay while there is something to
 * take; avail_event is never ahead of an entry that was taken.
 */
void virtq_putback(struct chain *c)
{
	struct virtq *vq = c->vq;

	assert(vq->running && vq->inflight && vq->taken[c->head]);
	vq->taken[c->head] = 0;
	vq->inflight--;
	vq->avail_next--;
	vq->pops--;
}

/* The driver's kicks would be for nothing: without EVENT_IDX it is told so, with it one may come (see disarm()). */
void virtq_hold(struct virtq *vq)
{
	if (vq->running)
		disarm(vq);
	vq->held = true;
}

/* Kicks stay off: who then finds the ring empty, a pop or the poller's arm, asks for them and looks once more (A13). */
void virtq_release(struct virtq *vq)
{
	vq->held = false;
}

/* ---- push ---- */

/*
 * Release: pairs with virtio_rmb() in virtqueue_get_buf_ctx_split(), between the driver's load of used.idx and its
 * loads of the used elements and of what we wrote into its buffers (A12).
 */
static void publish(struct virtq *vq)
{
	struct vring_used *used = vq->used;

	store_release(&used->idx, vq->used_next);
	vq->used_published = vq->used_next;
}

void virtq_push(struct chain *c, uint32_t written)
{
	struct virtq *vq = c->vq;
	struct vring_used *used = vq->used;
	struct vring_used_elem *e;

	assert(vq->taken[c->head] && written <= c->wr_len);
	/* inflight and the ring have no lock: a request that ended on another thread comes home first. */
	assert(!vq->io || iothread_current(vq->io));
	vq->taken[c->head] = 0;
	vq->inflight--;
	if (!vq->running) {
		/* Reset waits for this one; its memory is the driver's again, the ring may be too (A16). */
		virtio_drained(vq);
		return;
	}
	e = &used->ring[vq->used_next & (vq->size - 1)];
	/* Atomic, as every word of a ring: a driver may have laid another queue's over it. */
	__atomic_store_n(&e->id, htole32(c->head), __ATOMIC_RELAXED);
	__atomic_store_n(&e->len, htole32(written), __ATOMIC_RELAXED);
	vq->used_next++;
	if ((uint16_t)(vq->used_next - vq->used_signalled) >= SIGNAL_EVERY)
		virtq_notify(vq);
	else if ((uint16_t)(vq->used_next - vq->used_published) >= PUBLISH_EVERY)
		publish(vq);
	/* Without a thread (a test of the ring alone) the caller ends his batches himself. */
	if (vq->batch || !vq->io)
		return;
	vq->batch = true;
	loop_post(vq->io, &vq->batch_work);
}

static bool wants_interrupt(const struct virtq *vq)
{
	const struct vring_avail *avail = vq->avail;

	if (vq->event_idx)
		return vring_need_event(load_seq_cst(used_event(vq)), vq->used_next,
					vq->used_signalled);
	return !(load_seq_cst(&avail->flags) & VRING_AVAIL_F_NO_INTERRUPT);
}

void virtq_notify(struct virtq *vq)
{
	struct vring_used *used = vq->used;

	if (!vq->running || vq->used_next == vq->used_signalled)
		return;
	/*
	 * Store used.idx, then load used_event or avail.flags, both seq_cst: the full barrier between them pairs with
	 * virtio_store_mb() in virtqueue_enable_cb(), which stands between the driver's store of used_event and its
	 * last look at used.idx. Without it both could miss each other and the driver would sleep for ever (A13).
	 * Stored again even if publish() already did: the barrier is what counts. It is a release too, as there.
	 */
	store_seq_cst(&used->idx, vq->used_next);
	vq->used_published = vq->used_next;
	if (wants_interrupt(vq)) {
		vq->signals++;
		vq->dev->tp->ops->irq_queue(vq->dev->tp, vq->index);
	}
	vq->used_signalled = vq->used_next;
}
