// SPDX-License-Identifier: Apache-2.0
/*
 * rng_test.c - the entropy device: bytes come, they differ, and only so many are written as the device says.
 * Spec: virtio 1.2, 5.4. Hard case: A11.
 */
#include "virtio.h"

#define ASKED 4096u
#define MARK  0x77

/* How many of the first n bytes are equal to the one before them. */
static uint32_t repeats(const uint8_t *p, uint32_t n)
{
	uint32_t same = 0;

	for (uint32_t i = 1; i < n; i++)
		same += p[i] == p[i - 1];
	return same;
}

void rng_test(struct vdev *d)
{
	uint8_t *a = pool, *b = pool + 2 * ASKED;
	struct seg s[] = {{a, ASKED}, {b, 100}};
	uint32_t n;

	virtio_up(d, virtio_ring_features(), 1);
	memset(pool, MARK, 4 * ASKED);
	n = vq_call(&d->q[0], s, 0, 1);
	ok(n && n <= ASKED, "rng: %u bytes come", n);
	/* One in 256 repeats by chance. */
	ok(repeats(a, n) < n / 32, "rng: they are not all equal");
	ok(a[ASKED] == MARK && (n == ASKED || a[n] == MARK),
	   "rng: and nothing behind them was written");
	n = vq_call(&d->q[0], s + 1, 0, 1);
	ok(n && memcmp(a, b, MIN(n, 16u)), "rng: other ones come the next time");
	for (int i = 0; i < 200; i++)
		n = MIN(n, vq_call(&d->q[0], s, 0, 2));
	ok(n, "rng: 200 more requests are answered");
}
