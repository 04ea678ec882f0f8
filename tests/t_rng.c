// SPDX-License-Identifier: Apache-2.0
/*
 * t_rng.c - virtio-rng through a real ring.
 */
#include "fakeguest.h"
#include "tap.h"
#include "../devices/table.h"

static struct fakeguest *start(uint64_t features, uint16_t size)
{
	struct fakeguest *fg = fg_create(MIB(4));
	struct device *d;

	need(!rng_device.create(fg->vm, NULL, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg, features, size);
	return fg;
}

static unsigned zeros(const uint8_t *p, uint32_t n)
{
	unsigned z = 0;

	for (uint32_t i = 0; i < n; i++)
		z += !p[i];
	return z;
}

static void test_fill(struct fakeguest *fg)
{
	uint8_t a[256] = {0}, b[256] = {0};
	uint8_t one = 0;
	unsigned changed = 0;

	is(fg_call(&fg->q[0], NULL, 0, a, sizeof(a)), sizeof(a), "a buffer is filled to its end");
	is(fg_call(&fg->q[0], NULL, 0, b, sizeof(b)), sizeof(b), "and the next one too");
	ok(memcmp(a, b, sizeof(a)), "with something else");
	ok(zeros(a, sizeof(a)) < 20, "it does not look like zeros");
	for (unsigned i = 0; i < 64; i++) {
		need(fg_call(&fg->q[0], NULL, 0, &one, 1) == 1);
		changed += one != a[0];
	}
	ok(changed, "single bytes are random as well");
}

static void test_pieces(struct fakeguest *fg)
{
	const struct fg_buf wr[] = {{.len = 1}, {.len = 511}, {.len = 4096}, {.len = 3}};
	uint64_t gpa[4];
	uint32_t len = 0;

	fg_add(&fg->q[0], NULL, 0, wr, 4, gpa);
	need(fg_used(&fg->q[0], &len) >= 0);
	is(len, 1 + 511 + 4096 + 3, "several buffers are filled, and all of it is counted");
	ok(zeros(fg_ptr(fg, gpa[2], 4096), 4096) < 100, "the third one really was written");
}

static void test_limit(struct fakeguest *fg)
{
	const struct fg_buf wr[] = {{.len = KIB(48)}, {.len = KIB(48)}};
	uint64_t gpa[2];
	uint32_t len = 0;

	fg_add(&fg->q[0], NULL, 0, wr, 2, gpa);
	need(fg_used(&fg->q[0], &len) >= 0);
	is(len, KIB(64), "a request gets 64 KiB at most");
	/* The next request gets the same memory. */
	memset(fg_ptr(fg, gpa[0], KIB(96)), 0, KIB(96));
	fg_add(&fg->q[0], NULL, 0, wr, 2, gpa);
	need(fg_used(&fg->q[0], &len) >= 0);
	is(zeros(fg_ptr(fg, gpa[1] + KIB(16), KIB(32)), KIB(32)), KIB(32),
	   "and nothing is written beyond");
}

static void test_odd(struct fakeguest *fg)
{
	char rd[8] = "ignored";
	uint8_t wr[8];

	is(fg_call(&fg->q[0], rd, sizeof(rd), NULL, 0), 0,
	   "a request with nothing to fill is given back");
	is(fg_call(&fg->q[0], rd, sizeof(rd), wr, sizeof(wr)), sizeof(wr),
	   "readable buffers are ignored");
}

static void test_batch(struct fakeguest *fg)
{
	const struct fg_buf wr = {.len = 64};
	uint32_t len, sum = 0;

	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < 8; i++)
			fg_add(&fg->q[0], NULL, 0, &wr, 1, NULL);
		for (unsigned i = 0; i < 8; i++) {
			need(fg_used(&fg->q[0], &len) >= 0);
			sum += len;
		}
	}
	is(sum, 50 * 8 * 64, "hundreds of requests in batches are all answered");
}

static void test_rules(struct fakeguest *fg)
{
	uint8_t b[16];

	fg_avail_push(&fg->q[0], 999);
	fg_kick(&fg->q[0]);
	ok(fg_wait_broken(fg), "a head out of range breaks the device");
	fg_start(fg, 0, 8);
	is(fg_call(&fg->q[0], NULL, 0, b, sizeof(b)), sizeof(b), "and a reset repairs it");
}

int main(void)
{
	const uint64_t both = 1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC;
	struct fakeguest *fg = start(0, 8);

	is(fg->dev->id, VIRTIO_ID_RNG, "it is an entropy device");
	test_fill(fg);
	test_pieces(fg);
	test_limit(fg);
	test_odd(fg);
	test_batch(fg);
	test_rules(fg);
	fg_start(fg, both, 64);
	test_pieces(fg);
	test_batch(fg);
	fg_destroy(fg);
	return done();
}
