// SPDX-License-Identifier: Apache-2.0
/*
 * fs_queue_test.c - a share with several request queues (queues=N): each answers, all at once, one broken, all reset.
 *
 * One session is behind all of them: what one queue opens the others read. Uses the host's from-host.dat (pattern, seed
 * 0). The host is told of the broken queue, once. Hard cases: A16 (reset with requests in flight), A18, D1 (forgets
 * have a queue of their own). Spec: virtio 1.2, 5.11.2, 5.11.6.1.
 */
#include "fs.h"
#include "pattern.h"

#define DEPTH      16u /* in flight on each queue */
#define BLOCK      4096u
#define ROUNDS     10
#define MARK       0x5a
#define FAR        (1ull << 45) /* no memory is there */
#define QUIET_MS   3
#define PATIENT_MS 1000

static uint64_t node, fh;
static uint32_t file_blocks;

/* Small enough that every slot of every queue has its place. */
static uint8_t *data_of(uint32_t slot)
{
	return pool + (uint64_t)slot * BLOCK;
}

static struct vq *queue(struct vdev *d, unsigned i)
{
	return &d->q[1 + i];
}

static uint32_t block_of(uint32_t slot)
{
	return slot * 7 % file_blocks;
}

static void open_file(void)
{
	struct fuse_entry_out e;

	if (fs_lookup(FUSE_ROOT_ID, "from-host.dat", &e) < 0 ||
	    fs_open(FUSE_OPEN, e.nodeid, O_RDONLY, &fh) < 0)
		give_up("fs: from-host.dat: cannot open it");
	node = e.nodeid;
	file_blocks = (uint32_t)(e.attr.size / BLOCK);
}

static void add_read(struct vq *q, uint32_t slot)
{
	struct fuse_read_in *in = (void *)(hdr_out[slot] + sizeof(struct fuse_in_header));
	struct fuse_in_header *h = fs_header(slot, FUSE_READ, node, sizeof(*in));
	struct seg s[] = {{h, sizeof(*h) + sizeof(*in)},
			  {hdr_in[slot], sizeof(struct fuse_out_header)},
			  {data_of(slot), BLOCK}};

	*in = (struct fuse_read_in){
		.fh = fh, .offset = (uint64_t)block_of(slot) * BLOCK, .size = BLOCK};
	vq_add(q, slot, s, 1, 2);
}

static uint32_t per_queue(void)
{
	return MIN(DEPTH, SLOT_MAX / fs_queues());
}

static void fill_all(struct vdev *d)
{
	uint32_t each = per_queue();

	for (unsigned i = 0; i < fs_queues(); i++) {
		vq_depth(queue(d, i), SLOT_MAX, 3);
		for (uint32_t k = 0; k < each; k++)
			add_read(queue(d, i), i * each + k);
	}
	for (unsigned i = 0; i < fs_queues(); i++)
		vq_kick(queue(d, i));
}

static bool answer_good(uint32_t slot, uint32_t len)
{
	const struct fuse_out_header *o = (void *)hdr_in[slot];
	const struct fuse_in_header *h = (void *)hdr_out[slot];

	return !o->error && o->unique == h->unique && o->len == len && len == sizeof(*o) + BLOCK &&
	       pattern_check(data_of(slot), BLOCK, 0, (uint64_t)block_of(slot) * BLOCK) == BLOCK;
}

/* What was filled comes back, each on the queue it went to; how many answers were wrong. */
static unsigned drain_all(struct vdev *d)
{
	uint32_t each = per_queue(), len;
	unsigned bad = 0;

	for (unsigned i = 0; i < fs_queues(); i++)
		for (uint32_t k = 0; k < each; k++) {
			uint32_t slot = vq_wait(queue(d, i), &len);

			bad += slot / each != i || !answer_good(slot, len);
		}
	return bad;
}

static void back_to_one(struct vdev *d)
{
	for (unsigned i = 0; i < fs_queues(); i++)
		vq_depth(queue(d, i), 1, 2 * FS_SEGS);
}

static void test_each(struct vdev *d)
{
	struct seg s = {pool, BLOCK};
	struct fuse_attr a;
	unsigned dead = 0, bad = 0;

	for (unsigned i = 0; i < fs_queues(); i++) {
		fs_use_queue(i);
		dead += fs_getattr(node, &a) < 0;
		bad += fs_read(FUSE_READ, node, fh, 0, &s, 1) != BLOCK ||
		       pattern_check(pool, BLOCK, 0, 0) != BLOCK;
	}
	fs_use_queue(0);
	is(dead, 0, "fs, queues: each of %u request queues answers", fs_queues());
	is(bad, 0, "fs, queues: and reads through the handle that the first one opened");
	for (int round = bad = 0; round < ROUNDS; round++) {
		fill_all(d);
		bad += drain_all(d);
	}
	back_to_one(d);
	is(bad, 0, "fs, queues: with %u reads in flight on each, each gets its own data",
	   per_queue());
}

static bool untouched(const uint8_t *p, size_t n)
{
	return p[0] == MARK && !memcmp(p, p + 1, n - 1);
}

static bool quiet(struct vdev *d)
{
	uint16_t idx[VDEV_QUEUES];
	uint64_t t0 = cpu_tsc();
	bool still = true;

	for (unsigned i = 0; i < fs_queues(); i++)
		idx[i] = *(const volatile uint16_t *)&queue(d, i)->used->idx;
	memset(pool, MARK, (size_t)SLOT_MAX * BLOCK);
	memset(hdr_in, MARK, sizeof(hdr_in));
	while (!clock_passed(t0, QUIET_MS))
		cpu_pause();
	for (unsigned i = 0; i < fs_queues(); i++)
		still &= idx[i] == *(const volatile uint16_t *)&queue(d, i)->used->idx;
	return still && untouched(pool, (size_t)SLOT_MAX * BLOCK) &&
	       untouched(hdr_in[0], sizeof(hdr_in));
}

static void test_reset(struct vdev *d, unsigned queues)
{
	unsigned slow = 0, late = 0, bad = 0;
	struct fuse_attr a;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t t0 = cpu_tsc(), wait = random_below((uint32_t)(clock_tsc_khz / 2));
		uint64_t old = node;

		fill_all(d);
		while (cpu_tsc() - t0 < wait)
			cpu_pause();
		slow += !virtio_reset(d);
		late += !quiet(d);
		fs_down();
		fs_up_as(d, queues, 0);
		bad += fs_getattr(old, &a) >= 0;
		open_file();
		fill_all(d);
		bad += drain_all(d) > 0;
		back_to_one(d);
	}
	is(slow, 0, "fs, queues: a reset with all of them busy is done within a second");
	is(late, 0, "fs, queues: after it nothing is written to the guest's memory");
	is(bad, 0, "fs, queues: and a new session works on all of them, every one of %u times",
	   ROUNDS);
}

static bool needs_reset(struct vdev *d)
{
	uint64_t t0 = cpu_tsc();

	while (!(virtio_status(d) & VIRTIO_CONFIG_S_NEEDS_RESET))
		if (clock_passed(t0, PATIENT_MS))
			return false;
	return true;
}

/* The last queue, or with a single one the queue of forgets, gets a chain outside of memory; the others go on. */
static void test_broken(struct vdev *d, unsigned queues)
{
	unsigned victim = fs_queues() > 1 ? fs_queues() - 1 : 0, dead = 0;
	struct vq *q = fs_queues() > 1 ? queue(d, victim) : &d->q[0];
	unsigned others = fs_queues() > 1 ? victim : 1;
	struct seg far = {(void *)FAR, 64};
	struct fuse_attr a;

	vq_add(q, 0, &far, 1, 0);
	vq_kick(q);
	ok(needs_reset(d), "fs, queues: a chain outside of memory breaks its queue");
	for (unsigned i = 0; i < others; i++) {
		fs_use_queue(i);
		dead += fs_getattr(node, &a) < 0;
	}
	is(dead, 0, "fs, queues: the others answer all the same");
	fs_down();
	fs_up_as(d, queues, 0);
	open_file();
	fs_use_queue(victim);
	ok(fs_getattr(node, &a) > 0, "fs, queues: after a reset the broken one does too");
	fs_use_queue(0);
}

void fs_queue_test(struct vdev *d, const struct job *j)
{
	fs_up_as(d, j->queues, 0);
	is(fs_queues(), MAX(j->queues, 1u), "fs, queues: the device has as many as were asked for");
	open_file();
	test_each(d);
	test_reset(d, j->queues);
	test_broken(d, j->queues);
	is(fs_faults(), 0, "fs, queues: every reply had the right number and length");
	fs_release(FUSE_RELEASE, node, fh);
	fs_forget(node, 1);
}
