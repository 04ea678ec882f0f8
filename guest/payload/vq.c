// SPDX-License-Identifier: Apache-2.0
/*
 * vq.c - split queues from the driver's side, and requests' data in segments.
 *
 * The device runs on other CPUs of the host: what it reads and writes is loaded and stored once, in this order.
 * Spec: virtio 1.2, 2.7.13 (supplying buffers), 2.7.14 (receiving them), 2.7.10 (notifying the device).
 */
#include "pattern.h"
#include "virtio.h"

#define ANSWER_MS 20000
#define GAP       0xee

uint8_t pool[POOL_BYTES] POOL;
uint8_t hdr_out[SLOT_MAX][HDR_BYTES] POOL, hdr_in[SLOT_MAX][HDR_BYTES] POOL;
static struct vring_desc tables[SLOT_MAX][QUEUE_MAX] POOL;

static uint16_t load16(const uint16_t *p)
{
	return *(const volatile uint16_t *)p;
}

static void store16(uint16_t *p, uint16_t v)
{
	*(volatile uint16_t *)p = v;
}

uint32_t vq_depth(struct vq *q, uint32_t qd, uint32_t nseg)
{
	if (nseg > q->size)
		return 0;
	q->stride = virtio_has(q->dev, VIRTIO_RING_F_INDIRECT_DESC) ? 1 : (uint16_t)nseg;
	return MIN(MIN(qd, SLOT_MAX), (uint32_t)q->size / q->stride);
}

void vq_add(struct vq *q, uint32_t slot, const struct seg *s, uint32_t nout, uint32_t nin)
{
	bool indirect = virtio_has(q->dev, VIRTIO_RING_F_INDIRECT_DESC);
	uint16_t head = (uint16_t)(slot * q->stride), first = indirect ? 0 : head;
	struct vring_desc *t = indirect ? tables[slot] : q->desc + head;
	uint32_t n = nout + nin;

	if (!indirect && n > q->stride)
		give_up("a request of %u segments, room for %u", n, q->stride);
	for (uint32_t i = 0; i < n; i++)
		t[i] = (struct vring_desc){.addr = (uint64_t)s[i].p,
					   .len = s[i].len,
					   .flags =
						   (uint16_t)((i >= nout ? VRING_DESC_F_WRITE : 0) |
							      (i + 1 < n ? VRING_DESC_F_NEXT : 0)),
					   .next = (uint16_t)(first + i + 1)};
	if (indirect)
		q->desc[head] = (struct vring_desc){.addr = (uint64_t)t,
						    .len = n * (uint32_t)sizeof(*t),
						    .flags = VRING_DESC_F_INDIRECT};
	q->avail->ring[q->avail_next++ % q->size] = head;
}

/* avail_event, which the device keeps behind the used ring. */
static uint16_t avail_event(const struct vq *q)
{
	return load16((const uint16_t *)&q->used->ring[q->size]);
}

void vq_kick(struct vq *q)
{
	uint16_t old = q->kicked, new = q->avail_next;
	bool wanted;

	if (old == new)
		return;
	cpu_barrier(); /* entries before the index; the device's acquiring load of it is the partner */
	store16(&q->avail->idx, new);
	cpu_fence(); /* the index before avail_event; the device stores that and looks at the index again */
	q->kicked = new;
	if (virtio_has(q->dev, VIRTIO_RING_F_EVENT_IDX))
		wanted = (uint16_t)(new - avail_event(q) - 1) < (uint16_t)(new - old);
	else
		wanted = !(load16(&q->used->flags) & VRING_USED_F_NO_NOTIFY);
	if (wanted)
		virtio_doorbell(q);
}

void vq_want_interrupt(struct vq *q, bool on)
{
	q->interrupts = on;
	if (virtio_has(q->dev, VIRTIO_RING_F_EVENT_IDX))
		/* Half the index space away is never reached, as long as it is moved along. */
		store16(&q->avail->ring[q->size],
			on ? q->used_next : (uint16_t)(q->used_next - 0x8000));
	else
		store16(&q->avail->flags, on ? 0 : VRING_AVAIL_F_NO_INTERRUPT);
}

int vq_poll(struct vq *q, uint32_t *len)
{
	const struct vring_used_elem *e = &q->used->ring[q->used_next % q->size];
	int slot;

	if (load16(&q->used->idx) == q->used_next)
		return -1;
	cpu_barrier(); /* the index before the entry; the device's releasing store of it is the partner */
	*len = e->len;
	slot = (int)(e->id / q->stride);
	q->used_next++;
	if (virtio_has(q->dev, VIRTIO_RING_F_EVENT_IDX) && !q->interrupts)
		vq_want_interrupt(q, false);
	return slot;
}

void vq_check_patience(const struct vq *q, uint64_t since_tsc)
{
	if (clock_passed(since_tsc, ANSWER_MS))
		give_up("virtio type %u: no answer on queue %u (avail %u, used %u, status %x)",
			q->dev->type, q->index, q->avail_next, q->used_next, virtio_status(q->dev));
}

uint32_t vq_wait(struct vq *q, uint32_t *len)
{
	uint64_t t0 = cpu_tsc();
	int slot;

	while ((slot = vq_poll(q, len)) < 0) {
		cpu_pause();
		vq_check_patience(q, t0);
	}
	return (uint32_t)slot;
}

uint32_t vq_call(struct vq *q, const struct seg *s, uint32_t nout, uint32_t nin)
{
	uint32_t len;

	vq_add(q, 0, s, nout, nin);
	vq_kick(q);
	vq_wait(q, &len);
	return len;
}

/* ---- data ---- */

uint32_t seg_data(struct seg *s, const void *p, uint32_t len)
{
	const uint8_t *b = p;
	uint32_t step = options.sg ? options.sg : len, n = 0;

	for (; len; b += s[n].len, len -= s[n].len, n++)
		s[n] = (struct seg){b, MIN(step, len)};
	return n;
}

uint32_t seg_scatter(struct seg *s, uint8_t *p, uint32_t len, uint32_t max)
{
	uint32_t n = 0;

	for (; len; n++) {
		uint32_t part = n + 1 == max ? len : 1 + random_below(len),
			 gap = 1 + random_below(15);

		s[n] = (struct seg){p, part};
		memset(p + part, GAP, gap);
		p += part + gap;
		len -= part;
	}
	return n;
}

void seg_fill(const struct seg *s, uint32_t n, uint32_t seed, uint64_t off)
{
	for (uint32_t i = 0; i < n; off += s[i++].len)
		pattern_fill((uint8_t *)s[i].p, s[i].len, seed, off);
}

bool seg_check(const struct seg *s, uint32_t n, uint32_t seed, uint64_t off)
{
	for (uint32_t i = 0; i < n; off += s[i++].len) {
		const uint8_t *p = s[i].p;

		if (pattern_check(p, s[i].len, seed, off) != s[i].len || p[s[i].len] != GAP)
			return false;
	}
	return true;
}
