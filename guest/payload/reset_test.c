// SPDX-License-Identifier: Apache-2.0
/*
 * reset_test.c - a disk is reset while it works.
 *
 * Once the status reads 0 the memory is the driver's again: nothing may be written into buffers or rings any more, and
 * the device starts anew. Hard cases: A16 (requests in flight), A17 (power-on values). Spec: virtio 1.2, 2.4.1.
 */
#include "pattern.h"
#include "virtio.h"

#define ROUNDS 20
#define DEPTH  32
#define MARK   0x5a

static void fill_queue(struct vdev *d)
{
	vq_depth(&d->q[0], DEPTH, 3);
	for (uint32_t slot = 0; slot < DEPTH; slot++) {
		struct virtio_blk_outhdr *h = (void *)hdr_out[slot];
		struct seg s[] = {
			{h, sizeof(*h)}, {pool + slot * SLOT_BYTES, SLOT_BYTES}, {hdr_in[slot], 1}};

		*h = (struct virtio_blk_outhdr){.type = VIRTIO_BLK_T_IN, .sector = slot};
		vq_add(&d->q[0], slot, s, 1, 2);
	}
	vq_kick(&d->q[0]);
}

/* All of it is MARK. */
static bool untouched(const uint8_t *p, size_t n)
{
	return p[0] == MARK && !memcmp(p, p + 1, n - 1);
}

static bool quiet_after_reset(struct vdev *d)
{
	const struct vring_used *used = d->q[0].used;
	uint16_t idx;
	uint64_t t0;

	memset(pool, MARK, DEPTH * SLOT_BYTES);
	memset(hdr_in, MARK, sizeof(hdr_in));
	idx = *(const volatile uint16_t *)&used->idx;
	t0 = cpu_tsc();
	while (!clock_passed(t0, 3))
		cpu_pause();
	return untouched(pool, DEPTH * SLOT_BYTES) && untouched(hdr_in[0], sizeof(hdr_in)) &&
	       idx == *(const volatile uint16_t *)&used->idx;
}

static bool works(struct vdev *d)
{
	struct virtio_blk_outhdr *h = (void *)hdr_out[0];
	struct seg s[] = {{h, sizeof(*h)}, {pool, 4096}, {hdr_in[0], 1}};

	virtio_up(d, virtio_ring_features(), 1);
	*h = (struct virtio_blk_outhdr){.type = VIRTIO_BLK_T_IN, .sector = 16};
	return vq_call(&d->q[0], s, 1, 2) == 4097 && !hdr_in[0][0] &&
	       pattern_check(pool, 4096, 0, 8192) == 4096;
}

void reset_test(struct vdev *d)
{
	unsigned late = 0, dead = 0, slow = 0;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t t0 = cpu_tsc(),
			 wait = random_below((uint32_t)(clock_tsc_khz / 2)); /* up to 500 us */

		virtio_up(d, virtio_ring_features(), 1);
		fill_queue(d);
		while (cpu_tsc() - t0 < wait)
			cpu_pause();
		slow += !virtio_reset(d);
		late += !quiet_after_reset(d);
		dead += !works(d);
	}
	is(slow, 0, "reset: the status reads 0 within a second, %u requests in flight", DEPTH);
	is(late, 0, "reset: after that nothing is written to the guest's memory");
	is(dead, 0, "reset: and the device works again, every one of %u times", ROUNDS);
}
