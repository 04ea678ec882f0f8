// SPDX-License-Identifier: Apache-2.0
/*
 * blk.c - benchmarks of a disk: read write randread randwrite flush, randrw (75 reads to 25 writes), doorbell and exit.
 * With queues= the slots are dealt out to so many queues.
 * Spec: virtio 1.2, 5.2.6.
 */
#include "bench.h"

static const struct operation {
	const char *name;
	uint32_t writes; /* of 100 */
	bool flush;
} operations[] = {
	{"read", 0, false},        {"randread", 0, false}, {"write", 100, false},
	{"randwrite", 100, false}, {"randrw", 25, false},  {"flush", 0, true},
};

static struct {
	struct vdev *dev;
	unsigned queues;
	const struct operation *op; /* of the benchmark that runs */
	uint32_t bs;
} blk;

static uint32_t type_of(uint32_t slot)
{
	if (blk.op->flush)
		return VIRTIO_BLK_T_FLUSH;
	return bench_writes(slot) ? VIRTIO_BLK_T_OUT : VIRTIO_BLK_T_IN;
}

static void prep(uint32_t slot, uint32_t stage, struct seg *s, uint32_t *nout, uint32_t *nin)
{
	struct virtio_blk_outhdr *h = (void *)hdr_out[slot];
	uint32_t n = blk.bs ? seg_data(s + 1, bench_data(slot), blk.bs) : 0;

	(void)stage;
	*h = (struct virtio_blk_outhdr){.type = type_of(slot), .sector = bench_offset(slot) / 512};
	hdr_in[slot][0] = 0xff;
	s[0] = (struct seg){h, sizeof(*h)};
	s[1 + n] = (struct seg){hdr_in[slot], 1};
	*nout = 1 + (bench_writes(slot) ? n : 0);
	*nin = 2 + n - *nout;
}

static int done(uint32_t slot, uint32_t stage, uint32_t len)
{
	(void)stage;
	if (hdr_in[slot][0])
		return hdr_in[slot][0];
	if (type_of(slot) != VIRTIO_BLK_T_IN)
		return 0;
	if (len != blk.bs + 1)
		return BENCH_SHORT_READ;
	return bench_data_good(slot, blk.bs) ? 0 : BENCH_WRONG_DATA;
}

static const struct operation *find_operation(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(operations); i++)
		if (text_equal(name, operations[i].name))
			return &operations[i];
	give_up("blk:%s: unknown", name);
}

static unsigned queues_of(struct vdev *d)
{
	if (!(virtio_offered(d) >> VIRTIO_BLK_F_MQ & 1))
		return 1;
	return (unsigned)virtio_config(d, offsetof(struct virtio_blk_config, num_queues), 2);
}

/* A test before may have reset it, or a job had other queues. */
static void up(struct vdev *d, unsigned queues)
{
	uint64_t want =
		1ull << VIRTIO_BLK_F_FLUSH | 1ull << VIRTIO_BLK_F_SEG_MAX | virtio_ring_features();

	queues = MIN(MAX(queues, 1u), VDEV_QUEUES);
	if (queues > 1)
		queues = MIN(queues, queues_of(d));
	if (blk.dev == d && blk.queues == queues &&
	    virtio_has(d, VIRTIO_BLK_F_MQ) == (queues > 1) && virtio_status(d) == STATUS_DRIVER_OK)
		return;
	virtio_up(d, want | (queues > 1 ? 1ull << VIRTIO_BLK_F_MQ : 0), queues);
	blk.dev = d;
	blk.queues = queues;
}

void blk_job(struct vdev *d, struct job *j)
{
	struct bench b = {.dev = "blk", .stages = 1, .prep = prep, .done = done};
	uint64_t bytes;

	up(d, j->queues);
	bytes = virtio_config(d, offsetof(struct virtio_blk_config, capacity), 8) * 512;
	b.q = &d->q[0];
	b.nq = blk.queues;
	if (text_equal(j->op, "doorbell") || text_equal(j->op, "exit")) {
		bench_exits("blk", j, b.q);
		return;
	}
	blk.op = find_operation(j->op);
	if (blk.op->flush)
		j->bs = 0;
	blk.bs = j->bs;
	b.maxseg = 2 + (options.sg ? (j->bs + options.sg - 1) / options.sg : 1);
	b.span = j->bs ? bytes : 0;
	b.writes = blk.op->writes;
	bench_run(&b, j);
}
