// SPDX-License-Identifier: Apache-2.0
/*
 * blk.c - benchmarks of a disk: read write randread randwrite flush, and doorbell exit.
 * Spec: virtio 1.2, 5.2.6.
 */
#include "bench.h"

static struct {
	struct vdev *dev;
	uint64_t bytes;
	uint32_t type, bs; /* of the benchmark that runs */
} blk;

static void prep(uint32_t slot, uint32_t stage, struct seg *s, uint32_t *nout, uint32_t *nin)
{
	struct virtio_blk_outhdr *h = (void *)hdr_out[slot];
	uint32_t n = blk.bs ? seg_data(s + 1, bench_data(slot), blk.bs) : 0;

	(void)stage;
	*h = (struct virtio_blk_outhdr){.type = blk.type, .sector = bench_offset(slot) / 512};
	hdr_in[slot][0] = 0xff;
	s[0] = (struct seg){h, sizeof(*h)};
	s[1 + n] = (struct seg){hdr_in[slot], 1};
	*nout = 1 + (blk.type == VIRTIO_BLK_T_OUT ? n : 0);
	*nin = 2 + n - *nout;
}

static int done(uint32_t slot, uint32_t stage, uint32_t len)
{
	(void)stage;
	if (hdr_in[slot][0])
		return hdr_in[slot][0];
	if (blk.type != VIRTIO_BLK_T_IN)
		return 0;
	if (len != blk.bs + 1)
		return BENCH_SHORT_READ;
	return bench_data_good(slot, blk.bs) ? 0 : BENCH_WRONG_DATA;
}

static uint32_t type_of(const char *op)
{
	if (text_equal(op, "read") || text_equal(op, "randread"))
		return VIRTIO_BLK_T_IN;
	if (text_equal(op, "write") || text_equal(op, "randwrite"))
		return VIRTIO_BLK_T_OUT;
	if (!text_equal(op, "flush"))
		give_up("blk:%s: unknown", op);
	return VIRTIO_BLK_T_FLUSH;
}

void blk_job(struct vdev *d, struct job *j)
{
	struct bench b = {
		.dev = "blk", .q = &d->q[0], .nq = 1, .stages = 1, .prep = prep, .done = done};

	/* A test before may have reset it. */
	if (blk.dev != d || virtio_status(d) != STATUS_DRIVER_OK)
		virtio_up(d,
			  1ull << VIRTIO_BLK_F_FLUSH | 1ull << VIRTIO_BLK_F_SEG_MAX |
				  virtio_ring_features(),
			  1);
	blk.dev = d;
	blk.bytes = virtio_config(d, offsetof(struct virtio_blk_config, capacity), 8) * 512;
	if (text_equal(j->op, "doorbell") || text_equal(j->op, "exit")) {
		bench_exits("blk", j, b.q);
		return;
	}
	blk.type = type_of(j->op);
	if (blk.type == VIRTIO_BLK_T_FLUSH)
		j->bs = 0;
	blk.bs = j->bs;
	b.maxseg = 2 + (options.sg ? (j->bs + options.sg - 1) / options.sg : 1);
	b.span = j->bs ? blk.bytes : 0;
	b.write = blk.type == VIRTIO_BLK_T_OUT;
	bench_run(&b, j);
}
