// SPDX-License-Identifier: Apache-2.0
/*
 * p9_bench.c - benchmarks of a 9p share: what a Linux guest asks for the operations of fs_bench.c.
 *
 *   read write randread randwrite getattr fsync    on job.file, through a fid that is open
 *   lookup (walk, clunk) of job.file   stat (walk, getattr, clunk)  openread (walk, open, read, clunk)    of small files
 *   create (walk to the directory, create, write, clunk)  unlink (walk, unlinkat, clunk)    of new ones
 *   readdir readdirplus    p9_dir_bench.c
 *
 * An operation is the requests of its row, one after the other on one slot, which has a fid of its own. Calls: bench.c,
 * p9.c.
 */
#include "bench.h"
#include "p9.h"
#include <linux/fcntl.h>
#include <linux/stat.h>

static const struct operation {
	const char *name;
	uint8_t stage[4];
	bool small, once;
} operations[] = {
	{"read", {P9_TREAD}, false, false},
	{"randread", {P9_TREAD}, false, false},
	{"write", {P9_TWRITE}, false, false},
	{"randwrite", {P9_TWRITE}, false, false},
	{"getattr", {P9_TGETATTR}, false, false},
	{"fsync", {P9_TFSYNC}, false, false},
	{"lookup", {P9_TWALK, P9_TCLUNK}, false, false},
	{"stat", {P9_TWALK, P9_TGETATTR, P9_TCLUNK}, true, false},
	{"openread", {P9_TWALK, P9_TLOPEN, P9_TREAD, P9_TCLUNK}, true, false},
	{"create", {P9_TWALK, P9_TLCREATE, P9_TWRITE, P9_TCLUNK}, true, true},
	{"unlink", {P9_TWALK, P9_TUNLINKAT, P9_TCLUNK}, true, true},
};

static struct {
	const struct operation *op;
	struct job *job;
} bench;

/* The operation begins with a walk: its requests are about the slot's own fid. */
static uint32_t fid_of(uint32_t slot)
{
	return bench.op->stage[0] == P9_TWALK ? P9_SLOT + slot : P9_FILE;
}

static void put_small_name(uint32_t slot)
{
	uint64_t i = bench_number(slot);
	char name[5] = {bench.op->once ? 'n' : 'f'};

	i = bench.op->once ? i : i * 7919 % bench.job->files;
	for (int d = 4; d; d--, i /= 10)
		name[d] = (char)('0' + i % 10);
	p9_name(slot, name, sizeof(name));
}

static void put_walk(uint32_t slot)
{
	bool clone = text_equal(bench.op->name, "create");

	p9_u32(slot, bench.op->small ? P9_DIR : P9_ROOT);
	p9_u32(slot, fid_of(slot));
	p9_u16(slot, clone ? 0 : 1);
	if (clone)
		return;
	if (bench.op->small)
		put_small_name(slot);
	else
		p9_name(slot, bench.job->file, (uint32_t)strlen(bench.job->file));
}

static void put_body(uint32_t slot, uint32_t type)
{
	if (type == P9_TWALK) {
		put_walk(slot);
		return;
	}
	p9_u32(slot, type == P9_TUNLINKAT ? P9_DIR : fid_of(slot));
	switch (type) {
	case P9_TREAD:
	case P9_TWRITE:
		p9_u64(slot, bench_offset(slot));
		p9_u32(slot, bench.job->bs);
		break;
	case P9_TGETATTR:
		p9_u64(slot, P9_ALL);
		break;
	case P9_TLOPEN:
	case P9_TFSYNC:
		p9_u32(slot, 0);
		break;
	case P9_TLCREATE:
		put_small_name(slot);
		p9_u32(slot, O_WRONLY | O_CREAT | O_TRUNC);
		p9_u32(slot, S_IFREG | 0644);
		p9_u32(slot, 0);
		break;
	case P9_TUNLINKAT:
		put_small_name(slot);
		p9_u32(slot, 0);
		break;
	}
}

static void prep(uint32_t slot, uint32_t stage, struct seg *s, uint32_t *nout, uint32_t *nin)
{
	uint32_t type = bench.op->stage[stage], data = bench.job->bs, n = 1;

	p9_begin(slot, type);
	put_body(slot, type);
	s[0] = (struct seg){hdr_out[slot], p9_end(slot, type == P9_TWRITE ? data : 0)};
	if (type == P9_TWRITE)
		n += seg_data(s + n, bench_data(slot), data);
	*nout = n;
	s[n++] = (struct seg){hdr_in[slot], type == P9_TREAD ? P9_IO : P9_REPLY};
	if (type == P9_TREAD)
		n += seg_data(s + n, bench_data(slot), data);
	*nin = n - *nout;
}

static int done(uint32_t slot, uint32_t stage, uint32_t len)
{
	uint32_t type = bench.op->stage[stage], count;
	int e = p9_error(slot, len);

	if (e)
		return e < 0 ? BENCH_NO_REPLY : e;
	memcpy(&count, hdr_in[slot] + P9_HEADER, sizeof(count));
	if (type == P9_TWRITE)
		return count == bench.job->bs ? 0 : BENCH_SHORT_WRITE;
	if (type != P9_TREAD)
		return 0;
	if (count != bench.job->bs)
		return BENCH_SHORT_READ;
	return bench_data_good(slot, bench.job->bs) ? 0 : BENCH_WRONG_DATA;
}

/* Its size, from Rgetattr: valid[8] qid[13] mode[4] uid[4] gid[4] nlink[8] rdev[8] size[8]. */
static uint64_t open_file(void)
{
	uint64_t size;

	p9_walk(P9_ROOT, P9_FILE, bench.job->file);
	p9_begin(0, P9_TGETATTR);
	p9_u32(0, P9_FILE);
	p9_u64(0, P9_ALL);
	p9_call(NULL, 0);
	memcpy(&size, hdr_in[0] + P9_HEADER + 49, sizeof(size));
	p9_open(P9_FILE, O_RDWR);
	return size;
}

static bool has_stage(uint8_t type)
{
	for (unsigned i = 0; i < ARRAY_LEN(bench.op->stage); i++)
		if (bench.op->stage[i] == type)
			return true;
	return false;
}

static void requests_job(struct job *j)
{
	struct bench b = {.dev = "9p", .q = p9_queue(), .nq = 1, .prep = prep, .done = done};
	uint64_t size = 0;
	bool data;

	for (unsigned i = 0; i < ARRAY_LEN(operations); i++)
		if (text_equal(j->op, operations[i].name))
			bench.op = &operations[i];
	bench.job = j;
	b.writes = has_stage(P9_TWRITE) ? 100 : 0;
	data = b.writes || has_stage(P9_TREAD);
	b.once = bench.op->once;
	while (b.stages < ARRAY_LEN(bench.op->stage) && bench.op->stage[b.stages])
		b.stages++;
	if (bench.op->small)
		p9_walk(P9_ROOT, P9_DIR, j->dir);
	else
		size = open_file();
	j->n = b.once ? j->files : j->n;
	if (!data)
		j->bs = 0;
	b.span = data && !bench.op->small ? size : 0;
	b.maxseg = 4 + (options.sg ? (j->bs + options.sg - 1) / options.sg : 1);
	bench_run(&b, j);
	p9_clunk(bench.op->small ? P9_DIR : P9_FILE);
}

static bool known(const char *op)
{
	for (unsigned i = 0; i < ARRAY_LEN(operations); i++)
		if (text_equal(op, operations[i].name))
			return true;
	return false;
}

void p9_job(struct vdev *d, struct job *j)
{
	p9_up(d);
	if (text_equal(j->op, "doorbell") || text_equal(j->op, "exit"))
		bench_exits("9p", j, p9_queue());
	else if (text_equal(j->op, "readdir") || text_equal(j->op, "readdirplus"))
		p9_dir_job(j, text_equal(j->op, "readdirplus"));
	else if (known(j->op))
		requests_job(j);
	else
		give_up("9p:%s: unknown", j->op);
}
