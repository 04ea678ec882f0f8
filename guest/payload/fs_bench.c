// SPDX-License-Identifier: Apache-2.0
/*
 * fs_bench.c - benchmarks of a share.
 *
 *   read write randread randwrite getattr lookup fsync    on job.file
 *   stat (lookup, getattr)  openread (lookup, open, read, release)    of the small files f0000.. in job.dir
 *   create (create, write, release)  unlink (lookup, unlink: a guest has always looked before)    of job.files new
 *   ones, n0000..
 *   readdir readdirplus    dir_bench.c          daxread    dax_bench.c
 *
 * An operation is the requests of its row, one after the other on one slot; with queues= the slots are dealt out to so
 * many request queues. Calls: bench.c, fs.c.
 */
#include "bench.h"
#include "fs.h"

#define SMALL_MAX 4096

static const struct operation {
	const char *name;
	uint8_t stage[4];
	bool small, once;
} operations[] = {
	{"read", {FUSE_READ}, false, false},
	{"randread", {FUSE_READ}, false, false},
	{"write", {FUSE_WRITE}, false, false},
	{"randwrite", {FUSE_WRITE}, false, false},
	{"getattr", {FUSE_GETATTR}, false, false},
	{"lookup", {FUSE_LOOKUP}, false, false},
	{"fsync", {FUSE_FSYNC}, false, false},
	{"stat", {FUSE_LOOKUP, FUSE_GETATTR}, true, false},
	{"openread", {FUSE_LOOKUP, FUSE_OPEN, FUSE_READ, FUSE_RELEASE}, true, false},
	{"create", {FUSE_CREATE, FUSE_WRITE, FUSE_RELEASE}, true, true},
	{"unlink", {FUSE_LOOKUP, FUSE_UNLINK}, true, true},
};

static struct {
	const struct operation *op;
	struct job *job;
	uint64_t dir, file, file_fh, file_lookups;
	uint64_t node[SLOT_MAX], fh[SLOT_MAX];
	/* What is to be forgotten at the end, per small file. */
	uint64_t small_node[SMALL_MAX];
	uint32_t small_lookups[SMALL_MAX];
} bench;

/* ---- one request: its argument behind the header in hdr_out, its reply in hdr_in ---- */

/* Which small file the slot's operation is about; reading ones jump about. */
static uint64_t small_number(uint32_t slot)
{
	uint64_t i = bench_number(slot);

	return bench.op->once ? i : i * 7919 % bench.job->files;
}

static uint32_t put_name(uint8_t *p, uint32_t slot)
{
	uint64_t i = small_number(slot);

	if (!bench.op->small) {
		memcpy(p, bench.job->file, strlen(bench.job->file) + 1);
		return (uint32_t)strlen(bench.job->file) + 1;
	}
	p[0] = bench.op->once ? 'n' : 'f';
	for (int d = 4; d; d--, i /= 10)
		p[d] = (uint8_t)('0' + i % 10);
	p[5] = 0;
	return 6;
}

#define ARG(type, ...) (*(type *)arg = (type){__VA_ARGS__}, (uint32_t)sizeof(type))

/* Length of the argument that is put at arg, and of the reply's own struct. */
static uint32_t put_argument(uint32_t slot, uint32_t op, uint8_t *arg, uint32_t *reply)
{
	uint64_t fh = bench.fh[slot], off = bench_offset(slot);
	uint32_t bs = bench.job->bs, n;

	*reply = 0;
	switch (op) {
	case FUSE_READ:
		return ARG(struct fuse_read_in, .fh = fh, .offset = off, .size = bs);
	case FUSE_WRITE:
		*reply = sizeof(struct fuse_write_out);
		return ARG(struct fuse_write_in, .fh = fh, .offset = off, .size = bs);
	case FUSE_GETATTR:
		*reply = sizeof(struct fuse_attr_out);
		return ARG(struct fuse_getattr_in, 0);
	case FUSE_FSYNC:
		return ARG(struct fuse_fsync_in, .fh = fh);
	case FUSE_OPEN:
		*reply = sizeof(struct fuse_open_out);
		return ARG(struct fuse_open_in, 0);
	case FUSE_RELEASE:
		return ARG(struct fuse_release_in, .fh = fh);
	case FUSE_CREATE:
		*reply = sizeof(struct fuse_entry_out) + sizeof(struct fuse_open_out);
		n = ARG(struct fuse_create_in, .flags = O_WRONLY | O_CREAT | O_TRUNC,
			.mode = S_IFREG | 0644);
		return n + put_name(arg + n, slot);
	case FUSE_LOOKUP:
		*reply = sizeof(struct fuse_entry_out);
		return put_name(arg, slot);
	default:
		return put_name(arg, slot);
	}
}

static uint64_t node_of(uint32_t slot, uint32_t op)
{
	if (op == FUSE_LOOKUP || op == FUSE_CREATE || op == FUSE_UNLINK)
		return bench.op->small ? bench.dir : FUSE_ROOT_ID;
	return bench.op->small ? bench.node[slot] : bench.file;
}

static void prep(uint32_t slot, uint32_t stage, struct seg *s, uint32_t *nout, uint32_t *nin)
{
	uint32_t op = bench.op->stage[stage], data = bench.job->bs, reply, n = 2;
	uint8_t *arg = hdr_out[slot] + sizeof(struct fuse_in_header);
	uint8_t *answer = hdr_in[slot] + sizeof(struct fuse_out_header);
	uint32_t len = put_argument(slot, op, arg, &reply);

	s[0] = (struct seg){
		fs_header(slot, op, node_of(slot, op), len + (op == FUSE_WRITE ? data : 0)),
		sizeof(struct fuse_in_header)};
	s[1] = (struct seg){arg, len};
	if (op == FUSE_WRITE)
		n += seg_data(s + n, bench_data(slot), data);
	*nout = n;
	s[n++] = (struct seg){hdr_in[slot], sizeof(struct fuse_out_header)};
	if (op == FUSE_READ)
		n += seg_data(s + n, bench_data(slot), data);
	else if (reply)
		s[n++] = (struct seg){answer, reply};
	*nin = n - *nout;
	memset(hdr_in[slot], 0, sizeof(struct fuse_out_header));
}

/* ---- its answer ---- */

static void entry_came(uint32_t slot, const struct fuse_entry_out *e)
{
	uint64_t i = small_number(slot);

	if (!bench.op->small) {
		bench.file_lookups++;
		return;
	}
	bench.node[slot] = bench.small_node[i] = e->nodeid;
	bench.small_lookups[i]++;
}

static int done(uint32_t slot, uint32_t stage, uint32_t len)
{
	const struct fuse_out_header *o = (void *)hdr_in[slot];
	const struct fuse_in_header *h = (void *)hdr_out[slot];
	const struct fuse_entry_out *e = (void *)(o + 1);

	if (o->error)
		return -o->error;
	if (o->unique != h->unique || o->len != len)
		return BENCH_NO_REPLY;
	switch (bench.op->stage[stage]) {
	case FUSE_CREATE:
		bench.fh[slot] = ((const struct fuse_open_out *)(e + 1))->fh;
		entry_came(slot, e);
		return 0;
	case FUSE_LOOKUP:
		entry_came(slot, e);
		return 0;
	case FUSE_OPEN:
		bench.fh[slot] = ((const struct fuse_open_out *)(o + 1))->fh;
		return 0;
	case FUSE_WRITE:
		return ((const struct fuse_write_out *)(o + 1))->size == bench.job->bs
			       ? 0
			       : BENCH_SHORT_WRITE;
	case FUSE_READ:
		if (o->len != sizeof(*o) + bench.job->bs)
			return BENCH_SHORT_READ;
		return bench_data_good(slot, bench.job->bs) ? 0 : BENCH_WRONG_DATA;
	default:
		return 0;
	}
}

/* ---- the job ---- */

static uint64_t open_file(const struct job *j)
{
	struct fuse_entry_out e;

	if (fs_lookup(FUSE_ROOT_ID, j->file, &e) < 0 ||
	    fs_open(FUSE_OPEN, e.nodeid, O_RDWR, &bench.file_fh) < 0)
		give_up("fs: %s: cannot open it", j->file);
	bench.file = e.nodeid;
	bench.file_lookups = 1;
	for (uint32_t i = 0; i < SLOT_MAX; i++)
		bench.fh[i] = bench.file_fh;
	return e.attr.size;
}

static void open_dir(struct job *j)
{
	struct fuse_entry_out e;

	if (fs_lookup(FUSE_ROOT_ID, j->dir, &e) < 0)
		give_up("fs: %s: there is no such directory", j->dir);
	bench.dir = e.nodeid;
	j->files = MIN(j->files, SMALL_MAX);
	j->n = bench.op->once ? j->files : j->n;
}

static void forget_all(void)
{
	for (uint32_t i = 0; i < SMALL_MAX; i++) {
		if (bench.small_lookups[i])
			fs_forget(bench.small_node[i], bench.small_lookups[i]);
		bench.small_lookups[i] = 0;
	}
	if (bench.op->small) {
		fs_forget(bench.dir, 1);
		return;
	}
	fs_release(FUSE_RELEASE, bench.file, bench.file_fh);
	fs_forget(bench.file, bench.file_lookups);
}

static const struct operation *find_operation(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(operations); i++)
		if (text_equal(name, operations[i].name))
			return &operations[i];
	give_up("fs:%s: unknown", name);
}

static bool has_stage(const struct operation *op, uint8_t what)
{
	for (unsigned i = 0; i < ARRAY_LEN(op->stage); i++)
		if (op->stage[i] == what)
			return true;
	return false;
}

static void requests_job(struct job *j)
{
	struct bench b = {.dev = "fs", .prep = prep, .done = done};
	uint64_t size = 0;
	bool data;

	bench.op = find_operation(j->op);
	bench.job = j;
	b.writes = has_stage(bench.op, FUSE_WRITE) ? 100 : 0;
	data = b.writes || has_stage(bench.op, FUSE_READ);
	while (b.stages < ARRAY_LEN(bench.op->stage) && bench.op->stage[b.stages])
		b.stages++;
	if (bench.op->small)
		open_dir(j);
	else
		size = open_file(j);
	if (!data)
		j->bs = 0;
	b.span = data && !bench.op->small ? size : 0;
	b.once = bench.op->once;
	b.maxseg = 4 + (options.sg ? (j->bs + options.sg - 1) / options.sg : 1);
	b.q = fs_queue();
	b.nq = fs_queues();
	bench_run(&b, j);
	vq_depth(b.q, 1, 2 * FS_SEGS);
	forget_all();
}

void fs_job(struct vdev *d, struct job *j)
{
	if (text_equal(j->op, "daxread")) {
		dax_job(d, j);
		return;
	}
	fs_up_as(d, j->queues, 0);
	if (text_equal(j->op, "doorbell") || text_equal(j->op, "exit"))
		bench_exits("fs", j, fs_queue());
	else if (text_equal(j->op, "readdir"))
		dir_job(FUSE_READDIR, j);
	else if (text_equal(j->op, "readdirplus"))
		dir_job(FUSE_READDIRPLUS, j);
	else
		requests_job(j);
}
