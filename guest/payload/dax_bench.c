// SPDX-License-Identifier: Apache-2.0
/*
 * dax_bench.c - daxread: job.bs bytes of job.file at random places, copied out of the window. No request is made.
 *
 * As much of the file as the window holds is mapped, and read once before the time begins: what counts is a file in use,
 * not the first touch of each page. Calls: dax.c.
 */
#include "bench.h"
#include "dax.h"
#include "pattern.h"

static uint64_t map_file(const struct dax *x, const struct job *j, const struct fuse_entry_out *e)
{
	uint64_t len = MIN(e->attr.size, x->size);

	if (j->size)
		len = MIN(len, j->size);
	len -= len % MAX(x->unit, j->bs);
	if (!len || dax_map(e->nodeid, 0, 0, len, false) < 0)
		give_up("fs: %s: cannot map it", j->file);
	for (uint64_t at = 0; at < len; at += PATTERN_BLOCK)
		if (!pattern_check_quick(x->window + at, PATTERN_BLOCK, 0, at))
			give_up("fs: %s: wrong data in the window at %lx", j->file, at);
	return len;
}

/* Copied, as a guest's read() is, then looked at as much as the others look. */
static bool read_block(const struct dax *x, uint64_t off, uint32_t bs)
{
	memcpy(pool, x->window + off, bs);
	return options.quick ? pattern_check_quick(pool, bs, 0, off)
			     : pattern_check(pool, bs, 0, off) == bs;
}

void dax_job(struct vdev *d, struct job *j)
{
	struct dax x = dax_up(d);
	struct fuse_entry_out e;
	struct tally t = {0};
	uint64_t len, t0, now;

	if (!x.window)
		give_up("fs:daxread: the device has no window");
	if (fs_lookup(FUSE_ROOT_ID, j->file, &e) < 0)
		give_up("fs: %s: there is no such file", j->file);
	len = map_file(&x, j, &e);
	stat_begin();
	t0 = now = cpu_tsc();
	while (now - t0 < clock_tsc_khz * j->ms) {
		uint64_t begun = now;

		if (!read_block(&x, random_below((uint32_t)(len / j->bs)) * (uint64_t)j->bs, j->bs))
			t.errs++, t.first_err = BENCH_WRONG_DATA;
		now = cpu_tsc();
		stat_add(now - begun);
		t.all++;
	}
	t.cycles = now - t0;
	t.bytes = t.all * j->bs;
	dax_unmap(0, len);
	fs_forget(e.nodeid, 1);
	j->qd = 1;
	stat_print("fs", j, &t);
}
