// SPDX-License-Identifier: Apache-2.0
/*
 * blk_test.c - what a disk must do, from the guest's side; every byte that comes back is checked.
 *
 * The image follows the pattern with seed 0. The tests write between AREA and AREA + AREA_LEN only and leave
 * SEED_LEFT there, which the host looks at afterwards. Each form of the ring (indirect or not, EVENT_IDX or not) does
 * the random I/O. Hard cases: A10 (any layout), A11 (used length), F1 and F2 (range), F6 (status), F7 (id), F9
 * (read-only).
 * Spec: virtio 1.2, 5.2.6.
 */
#include "pattern.h"
#include "virtio.h"

#define SECTOR    512u
#define AREA      (1u << 20)
#define AREA_LEN  (1u << 20)
#define SEED_LEFT 42
#define DATA_MAX  (64u << 10)
#define PIECES    16
#define SEGS      (PIECES + 2)

struct request {
	uint32_t type;
	uint64_t sector;
	struct seg data[PIECES];
	uint32_t ndata;
};

/* Its status; *len is what the device says it wrote. */
static uint8_t request(struct vdev *d, const struct request *r, uint32_t *len)
{
	bool out = r->type == VIRTIO_BLK_T_OUT;
	struct virtio_blk_outhdr *h = (void *)hdr_out[0];
	struct seg s[SEGS];

	*h = (struct virtio_blk_outhdr){.type = r->type, .sector = r->sector};
	hdr_in[0][0] = 0xff;
	s[0] = (struct seg){h, sizeof(*h)};
	memcpy(s + 1, r->data, r->ndata * sizeof(*s));
	s[1 + r->ndata] = (struct seg){hdr_in[0], 1};
	*len = vq_call(&d->q[0], s, out ? 1 + r->ndata : 1, out ? 1 : 1 + r->ndata);
	return hdr_in[0][0];
}

/* The plain case: one piece of data in place. */
static uint8_t simple(struct vdev *d, uint32_t type, uint64_t sector, void *p, uint32_t n,
		      uint32_t *len)
{
	return request(
		d,
		&(struct request){.type = type, .sector = sector, .data = {{p, n}}, .ndata = n > 0},
		len);
}

static uint64_t capacity(const struct vdev *d)
{
	return virtio_config(d, offsetof(struct virtio_blk_config, capacity), 8);
}

static void up(struct vdev *d, uint64_t ring)
{
	virtio_up(d, 1ull << VIRTIO_BLK_F_FLUSH | 1ull << VIRTIO_BLK_F_RO | ring, 1);
	vq_depth(&d->q[0], 1, SEGS);
}

static void test_whole_disk(struct vdev *d)
{
	uint64_t bytes = capacity(d) * SECTOR, bad = 0;
	uint32_t len, n;

	for (uint64_t off = 0; off < bytes; off += n) {
		n = (uint32_t)MIN(bytes - off, (uint64_t)SLOT_BYTES);
		memset(pool, 0, n);
		bad += simple(d, VIRTIO_BLK_T_IN, off / SECTOR, pool, n, &len) != VIRTIO_BLK_S_OK ||
		       len != n + 1 || pattern_check(pool, n, 0, off) != n;
	}
	is(bad, 0, "blk: every byte of the %lu MiB disk reads as the host wrote it", bytes >> 20);
}

/* A write and its reading back, both in pieces of any size; true if all is as it must be. */
static bool write_and_read(struct vdev *d, uint32_t seed)
{
	uint32_t n = SECTOR * (1 + random_below(DATA_MAX / SECTOR)), len;
	uint64_t off = AREA + SECTOR * random_below((AREA_LEN - n) / SECTOR + 1);
	struct request r = {.type = VIRTIO_BLK_T_OUT, .sector = off / SECTOR};

	r.ndata = seg_scatter(r.data, pool, n, 1 + random_below(PIECES));
	seg_fill(r.data, r.ndata, seed, off);
	if (request(d, &r, &len) != VIRTIO_BLK_S_OK || len != 1)
		return false;
	r.type = VIRTIO_BLK_T_IN;
	memset(pool, 0, n + 16 * PIECES);
	r.ndata = seg_scatter(r.data, pool, n, 1 + random_below(PIECES));
	if (request(d, &r, &len) != VIRTIO_BLK_S_OK || len != n + 1)
		return false;
	return seg_check(r.data, r.ndata, seed, off);
}

static void test_random_io(struct vdev *d)
{
	static const struct {
		uint64_t features;
		const char *name;
	} rings[] = {
		{0, "plain ring"},
		{1ull << VIRTIO_RING_F_EVENT_IDX, "event index"},
		{1ull << VIRTIO_RING_F_INDIRECT_DESC, "indirect"},
		{1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC,
		 "indirect and event index"},
	};
	uint32_t seed = 1;

	for (unsigned i = 0; i < ARRAY_LEN(rings); i++) {
		unsigned bad = 0;

		up(d, rings[i].features);
		for (int round = 0; round < 40; round++)
			bad += !write_and_read(d, seed++);
		is(bad, 0, "blk: what was written in random pieces reads back in others (%s)",
		   rings[i].name);
	}
}

/* The header in two pieces, and the status byte at the end of the data's piece. */
static void test_any_layout(struct vdev *d)
{
	struct virtio_blk_outhdr *h = (void *)hdr_out[0];
	unsigned bad = 0;

	*h = (struct virtio_blk_outhdr){.type = VIRTIO_BLK_T_IN, .sector = 8};
	for (uint32_t cut = 1; cut < sizeof(*h); cut++) {
		struct seg s[] = {{h, cut},
				  {(uint8_t *)h + cut, (uint32_t)sizeof(*h) - cut},
				  {pool, 4096 + 1}};

		memset(pool, 0xff, 4096 + 1);
		bad += vq_call(&d->q[0], s, 2, 1) != 4096 + 1 || pool[4096] != VIRTIO_BLK_S_OK ||
		       pattern_check(pool, 4096, 0, 4096) != 4096;
	}
	is(bad, 0, "blk: a header cut anywhere and a status behind the data are understood");
}

/* Many requests at once over the whole area; answers may come in any order. */
static unsigned storm(struct vdev *d, uint32_t type)
{
	uint32_t blocks = AREA_LEN / PATTERN_BLOCK, qd = vq_depth(&d->q[0], SLOT_MAX, 3), len;
	unsigned bad = 0;

	for (uint32_t first = 0; first < blocks; first += qd) {
		uint32_t n = MIN(qd, blocks - first);

		for (uint32_t slot = 0; slot < n; slot++) {
			struct virtio_blk_outhdr *h = (void *)hdr_out[slot];
			uint64_t off = AREA + (uint64_t)(first + slot) * PATTERN_BLOCK;
			uint8_t *p = pool + slot * SLOT_BYTES;
			struct seg s[] = {{h, sizeof(*h)}, {p, PATTERN_BLOCK}, {hdr_in[slot], 1}};

			pattern_fill(p, PATTERN_BLOCK, type == VIRTIO_BLK_T_OUT ? SEED_LEFT : 0,
				     off);
			*h = (struct virtio_blk_outhdr){.type = type, .sector = off / SECTOR};
			hdr_in[slot][0] = 0xff;
			vq_add(&d->q[0], slot, s, type == VIRTIO_BLK_T_OUT ? 2 : 1,
			       type == VIRTIO_BLK_T_OUT ? 1 : 2);
		}
		vq_kick(&d->q[0]);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t slot = vq_wait(&d->q[0], &len);
			uint64_t off = AREA + (uint64_t)(first + slot) * PATTERN_BLOCK;

			bad += hdr_in[slot][0] != VIRTIO_BLK_S_OK ||
			       pattern_check(pool + slot * SLOT_BYTES, PATTERN_BLOCK, SEED_LEFT,
					     off) != PATTERN_BLOCK;
		}
	}
	vq_depth(&d->q[0], 1, SEGS);
	return bad;
}

static void test_depth(struct vdev *d)
{
	is(storm(d, VIRTIO_BLK_T_OUT), 0, "blk: %u writes in flight at once succeed", SLOT_MAX);
	is(storm(d, VIRTIO_BLK_T_IN), 0, "blk: %u reads in flight at once each get their own data",
	   SLOT_MAX);
}

static void test_id(struct vdev *d, const char *want)
{
	uint8_t id[VIRTIO_BLK_ID_BYTES + 1] = {0}, short_id[8 + 1];
	uint32_t len;

	memset(pool, 0xff, 64);
	is(simple(d, VIRTIO_BLK_T_GET_ID, 0, pool, VIRTIO_BLK_ID_BYTES, &len), VIRTIO_BLK_S_OK,
	   "blk: GET_ID succeeds");
	memcpy(id, want, MIN(strlen(want), (size_t)VIRTIO_BLK_ID_BYTES));
	ok(!memcmp(pool, id, VIRTIO_BLK_ID_BYTES), "blk: the id is %s, padded with zeros", want);
	memset(short_id, 0x77, sizeof(short_id));
	simple(d, VIRTIO_BLK_T_GET_ID, 0, short_id, 8, &len);
	ok(!memcmp(short_id, id, 8) && short_id[8] == 0x77 && len == 9,
	   "blk: a short buffer gets the id's beginning");
}

static void test_refusals(struct vdev *d)
{
	uint64_t end = capacity(d);
	const struct {
		const char *what;
		uint32_t type;
		uint64_t sector;
		uint32_t len;
		uint8_t status;
	} cases[] = {
		{"a read that runs past the end", VIRTIO_BLK_T_IN, end - 1, 1024,
		 VIRTIO_BLK_S_IOERR},
		{"a read behind the end", VIRTIO_BLK_T_IN, end, 512, VIRTIO_BLK_S_IOERR},
		{"a write that runs past the end", VIRTIO_BLK_T_OUT, end - 1, 1024,
		 VIRTIO_BLK_S_IOERR},
		{"a read of the last possible sector number", VIRTIO_BLK_T_IN, ~0ull, 512,
		 VIRTIO_BLK_S_IOERR},
		{"a sector number that overflows", VIRTIO_BLK_T_OUT, 1ull << 55, 512,
		 VIRTIO_BLK_S_IOERR},
		{"a length that is not of whole sectors", VIRTIO_BLK_T_IN, 0, 700,
		 VIRTIO_BLK_S_IOERR},
		{"an unknown type", 77, 0, 512, VIRTIO_BLK_S_UNSUPP},
	};

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		uint32_t len;
		uint8_t status =
			simple(d, cases[i].type, cases[i].sector, pool, cases[i].len, &len);

		ok(status == cases[i].status && len == 1, "blk: %s is answered with %s",
		   cases[i].what,
		   cases[i].status == VIRTIO_BLK_S_IOERR ? "an I/O error" : "unsupported");
	}
}

/* The sum counts, not each descriptor by itself (F1). */
static void test_sum_past_end(struct vdev *d)
{
	struct request r = {.type = VIRTIO_BLK_T_OUT, .sector = capacity(d) - 1, .ndata = 8};
	uint32_t len;

	for (uint32_t i = 0; i < r.ndata; i++)
		r.data[i] = (struct seg){pool + i * SECTOR, SECTOR};
	is(request(d, &r, &len), VIRTIO_BLK_S_IOERR,
	   "blk: descriptors that only together pass the end are refused");
}

static void test_short_header(struct vdev *d)
{
	struct seg s[] = {{hdr_out[0], 8}, {hdr_in[0], 1}};

	hdr_in[0][0] = 0xff;
	vq_call(&d->q[0], s, 1, 1);
	is(hdr_in[0][0], VIRTIO_BLK_S_IOERR, "blk: half a header is an I/O error");
}

void blk_test(struct vdev *d, const struct job *j)
{
	uint32_t len;

	up(d, virtio_ring_features());
	test_whole_disk(d);
	test_random_io(d);
	test_any_layout(d);
	test_id(d, j->id);
	test_refusals(d);
	test_sum_past_end(d);
	test_short_header(d);
	test_depth(d);
	ok(virtio_has(d, VIRTIO_BLK_F_FLUSH), "blk: a flush is offered");
	is(simple(d, VIRTIO_BLK_T_FLUSH, 0, NULL, 0, &len), VIRTIO_BLK_S_OK,
	   "blk: a flush succeeds");
}

void blk_test_readonly(struct vdev *d)
{
	uint32_t len;

	up(d, virtio_ring_features());
	ok(virtio_has(d, VIRTIO_BLK_F_RO), "blk, read-only: the device says so");
	ok(!virtio_has(d, VIRTIO_BLK_F_FLUSH), "blk, read-only: no flush is offered");
	test_whole_disk(d);
	pattern_fill(pool, 4096, 9, 0);
	is(simple(d, VIRTIO_BLK_T_OUT, 0, pool, 4096, &len), VIRTIO_BLK_S_IOERR,
	   "blk, read-only: a write is refused");
	is(simple(d, VIRTIO_BLK_T_IN, 0, pool, 4096, &len), VIRTIO_BLK_S_OK,
	   "blk, read-only: a read still succeeds");
	is(pattern_check(pool, 4096, 0, 0), 4096, "blk, read-only: and nothing was written");
}
