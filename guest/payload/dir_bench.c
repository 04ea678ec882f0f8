// SPDX-License-Identifier: Apache-2.0
/*
 * dir_bench.c - readdir and readdirplus: how fast entries come. An operation is one entry of job.dir.
 *
 * The directory is opened, read to its end in requests of job.bs bytes and closed, over and over. Readdirplus makes the
 * guest know every entry, so each round is followed by forgetting them, as a guest would that walks a tree once; that is
 * not counted in the time (it is in the device's CPU time). Calls: fs.c.
 */
#include "bench.h"
#include "fs.h"

#define NODES_MAX  8192
#define FORGET_MAX 256 /* in one BATCH_FORGET */

struct pass {
	uint64_t entries, cycles;
	long err;
};
static uint64_t nodes[NODES_MAX];
static uint32_t nnodes;

static uint32_t entry_bytes(uint32_t op, const uint8_t *at, uint64_t *off)
{
	const struct fuse_direntplus *plus = (const void *)at;
	const struct fuse_dirent *e = op == FUSE_READDIRPLUS ? &plus->dirent : (const void *)at;

	*off = e->off;
	if (op == FUSE_READDIR)
		return (uint32_t)FUSE_DIRENT_SIZE(e);
	if (plus->entry_out.nodeid && nnodes < NODES_MAX)
		nodes[nnodes++] = plus->entry_out.nodeid;
	return (uint32_t)FUSE_DIRENTPLUS_SIZE(plus);
}

static void read_once(uint32_t op, uint64_t dir, uint32_t bs, struct pass *p)
{
	const struct seg s = {pool, bs};
	uint64_t fh, off = 0, t0 = cpu_tsc();
	long n;

	p->entries = 0;
	p->err = fs_open(FUSE_OPENDIR, dir, O_RDONLY | O_DIRECTORY, &fh);
	if (p->err < 0)
		return;
	while ((n = fs_read(op, dir, fh, off, &s, 1)) > 0)
		for (long at = 0; at < n; p->entries++)
			at += entry_bytes(op, pool + at, &off);
	p->err = n;
	fs_release(FUSE_RELEASEDIR, dir, fh);
	p->cycles = cpu_tsc() - t0;
}

static void forget_nodes(void)
{
	static struct fuse_forget_one ones[FORGET_MAX];
	uint32_t n;

	for (; nnodes; nnodes -= n) {
		n = MIN(nnodes, FORGET_MAX);
		for (uint32_t i = 0; i < n; i++)
			ones[i] = (struct fuse_forget_one){nodes[nnodes - 1 - i], 1};
		fs_forget_many(ones, n);
	}
}

static void count(struct tally *t, const struct pass *p)
{
	t->cycles += p->cycles;
	t->all += p->entries;
	if (p->err < 0 && !t->errs++)
		t->first_err = (uint64_t)-p->err;
	for (uint64_t i = 0; i < p->entries; i++)
		stat_add(p->cycles / p->entries);
}

void dir_job(uint32_t op, struct job *j)
{
	struct vq *q = fs_queue();
	uint64_t t0 = cpu_tsc(), kicks = q->kicks, kick_cycles = q->kick_cycles;
	struct tally t = {0};
	struct fuse_entry_out e;

	if (fs_lookup(FUSE_ROOT_ID, j->dir, &e) < 0)
		give_up("fs: %s: there is no such directory", j->dir);
	stat_begin();
	do {
		struct pass p = {0};

		read_once(op, e.nodeid, j->bs, &p);
		count(&t, &p);
		forget_nodes();
	} while (!t.errs && !clock_passed(t0, j->ms));
	fs_forget(e.nodeid, 1);
	t.kicks = q->kicks - kicks;
	t.kick_cycles = q->kick_cycles - kick_cycles;
	j->qd = 1;
	stat_print("fs", j, &t);
}
