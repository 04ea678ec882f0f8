// SPDX-License-Identifier: Apache-2.0
/*
 * t_disk_direct.c - disk: O_DIRECT, with memory and offsets that it takes and such that it does not (hard case F10).
 *
 * The same on files and block devices, with blocks of 512 and 4096, on both engines. statx is defined here, in place of
 * libc's, so that a file on any host can have large blocks; aligned_alloc, so that there may be no memory.
 */
#include "disk_bed.h"
#include <sys/resource.h>

static unsigned fake_block; /* of files, by statx; 0: the truth */
static bool no_memory;

int statx(int fd, const char *path, int flags, unsigned mask, struct statx *x)
{
	if (!fake_block)
		return (int)syscall(SYS_statx, fd, path, flags, mask, x);
	*x = (struct statx){.stx_mask = STATX_DIOALIGN,
			    .stx_dio_mem_align = 512,
			    .stx_dio_offset_align = fake_block};
	return 0;
}

void *aligned_alloc(size_t align, size_t size)
{
	void *p;

	if (__atomic_load_n(&no_memory, __ATOMIC_RELAXED) || posix_memalign(&p, align, size))
		return NULL;
	return p;
}

#define DISK_LEN MIB(2)
#define PAGE     4096u

static struct disk *open_direct(const char *path, bool readonly)
{
	struct disk *d;
	char log[500];
	int r = direct_logged(&d, path, readonly, log);

	if (r)
		printf("# %s", log);
	need(!r);
	return d;
}

/* Page-aligned, and n bytes more than asked for. */
static uint8_t *memory(size_t n)
{
	void *p;

	need(!posix_memalign(&p, PAGE, ALIGN_UP(n, PAGE) + PAGE));
	return p;
}

/* ---- which way ---- */

/* A write and a read of len bytes at off, their memory being `by` bytes past a page, split at these places (0: no more). */
static bool goes(struct bed *b, struct disk *d, const char *path, size_t by, uint64_t off,
		 size_t len, const size_t split[3])
{
	uint8_t *out = memory(len + by), *in = memory(len + by);
	bool good = true;

	pattern(out + by, len, (unsigned)(by + off + len));
	for (unsigned write = 2; write-- > 0;) {
		struct bed_op o = {.kind = write ? BED_WRITE : BED_READ, .disk = d, .off = off};
		uint8_t *p = (write ? out : in) + by;
		size_t at = 0;

		for (unsigned i = 0; i < 3 && split[i]; at = split[i++])
			o.iov[o.niov++] = (struct iovec){p + at, split[i] - at};
		o.iov[o.niov++] = (struct iovec){p + at, len - at};
		bed_run(b, &o, 1);
		good &= o.res == (int)len;
	}
	good &= !memcmp(in + by, out + by, len) && file_is(path, out + by, len, (off_t)off);
	free(out);
	free(in);
	return good;
}

static void test_ways(struct bed *b, struct disk *d, const char *path, const char *what)
{
	static const size_t whole[3], odd[3] = {511, 1024}, pages[3] = {PAGE, 2 * PAGE, 3 * PAGE},
				      empty[3] = {PAGE, PAGE, PAGE}, one[3] = {1, 2, 3};

	disk_bounce_fini(&b->bounce);
	ok(goes(b, d, path, 0, 0, 16 * PAGE, whole), "%s, %s: whole blocks", b->engine, what);
	ok(goes(b, d, path, 0, 3 * PAGE, 16 * PAGE, pages), "in several pieces");
	ok(goes(b, d, path, 0, DISK_LEN - PAGE, PAGE, whole), "the last of the disk");
	ok(goes(b, d, path, 0, 512, 512, whole), "one sector");
	ok(goes(b, d, path, 0, DISK_LEN - 512, 512, whole), "the last");
	ok(goes(b, d, path, 0, PAGE - 512, PAGE, whole), "two halves of blocks");
	ok(goes(b, d, path, 512, PAGE, PAGE, whole), "memory of sectors");
	ok(!b->bounce.buf, "none of them needed another buffer");
	ok(goes(b, d, path, 0, 0, 1024, odd), "511 bytes and 513");
	ok(goes(b, d, path, 1, 5 * PAGE, 16 * PAGE, whole), "memory that begins anywhere");
	ok(b->bounce.buf, "needs one");
	ok(goes(b, d, path, 3, PAGE, PAGE, odd), "or is cut there");
	ok(goes(b, d, path, 100, DISK_LEN - PAGE, PAGE, one), "at the end of the disk");
	ok(goes(b, d, path, 0, PAGE, 2 * PAGE, empty), "pieces that are empty");
	ok(goes(b, d, path, 7, 512, PAGE, odd), "what is not whole blocks may be anything");
	ok(goes(b, d, path, 7, 0, MIB(1), whole), "four times as much as the buffer");
	ok(goes(b, d, path, 9, 0, MIB(1) + PAGE + 512, one), "and what is left over");
}

/* What is in the page cache could be had at once, of a tmpfs all is. But to ask for it would mean to wait for a disk. */
static void test_engine_asked(struct bed *b)
{
	const char *path = bed_file("hot", (off_t)MIB(1));
	uint8_t *mem = memory(PAGE + 1);
	struct disk *d = open_direct(path, false);
	struct bed_op o = {.disk = d, .iov = {{mem, PAGE}}, .niov = 1};

	need(bed_rw(b, d, true, mem, PAGE, 0) == PAGE && file_is(path, mem, PAGE, 0));
	bed_run(b, &o, 1);
	ok(o.res == PAGE && !o.at_once, "%s: an operation by O_DIRECT is the engine's", b->engine);
	o.iov[0] = (struct iovec){mem + 1, PAGE};
	o.niov = 1;
	bed_run(b, &o, 1);
	ok(o.res == PAGE && !o.at_once, "%s: so are those that are bounced", b->engine);
	disk_put(d);
	free(mem);
}

/* Each piece begins where it should, and ends where it should not: of some hosts that is too much to ask. */
static void test_lengths(struct bed *b, struct disk *d, const char *what)
{
	uint8_t *mem = memory(3 * PAGE), *got = memory(PAGE);
	const size_t first = d->block == 512 ? 500 : 512;
	struct bed_op o = {.kind = BED_WRITE,
			   .disk = d,
			   .iov = {{mem, first}, {mem + PAGE, PAGE - first}},
			   .niov = 2};

	disk_bounce_fini(&b->bounce);
	pattern(mem, 2 * PAGE, 17);
	bed_run(b, &o, 1);
	ok(o.res == PAGE && b->bounce.buf, "%s, %s: pieces that are no whole blocks are bounced",
	   b->engine, what);
	is(bed_rw(b, d, false, got, PAGE, 0), PAGE, "each where it belongs");
	ok(!memcmp(got, mem, first) && !memcmp(got + first, mem + PAGE, PAGE - first),
	   "one behind the other");
	free(mem);
	free(got);
}

/* ---- everything at once ---- */

#define OPS 24

struct model {
	uint8_t *disk, *mem; /* what the disk has; memory for OPS transfers */
	struct bed_op op[OPS];
	uint8_t *at[OPS]; /* within mem */
	size_t len[OPS];
};
#define OP_MAX KIB(80)

/* Cut anywhere, also where it makes nothing. */
static void cut(struct bed_op *o, uint8_t *p, size_t len)
{
	const unsigned unit = dice(3) ? 1 : 512;

	o->niov = 0;
	while (len && o->niov < BED_IOVS - 1) {
		size_t n = dice(4) ? MIN(len, (size_t)dice(12000) / unit * unit) : len;

		o->iov[o->niov++] = (struct iovec){p, n};
		p += n;
		len -= n;
	}
	if (len)
		o->iov[o->niov++] = (struct iovec){p, len};
}

/* The disk is shared out among them, by sectors, so that it does not matter in which order they are done. */
static void model_fill(struct model *m, struct disk *d)
{
	unsigned sector = 0;

	for (unsigned i = 0; i < OPS; i++) {
		struct bed_op *o = &m->op[i];
		uint8_t *p = m->mem + i * (OP_MAX + PAGE) + (dice(3) ? dice(600) : 0);
		const unsigned n = dice(2) ? 1 + dice(20) : 1 + dice(OP_MAX / 512);
		const unsigned first = sector + (dice(2) ? 0 : dice(8));
		const size_t len = MIN(n, (unsigned)(DISK_LEN / 512) - first) * 512;

		sector = first + (unsigned)(len / 512);
		*o = (struct bed_op){
			.kind = dice(2) ? BED_READ : BED_WRITE, .disk = d, .off = first * 512u};
		m->at[i] = p;
		m->len[i] = len;
		cut(o, p, len);
		memset(p, 0xee, len);
		if (o->kind == BED_WRITE) {
			pattern(p, len, dice(1000));
			memcpy(m->disk + o->off, p, len);
		}
	}
}

static unsigned model_wrong(const struct model *m)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < OPS; i++)
		wrong += m->op[i].res != (int)m->len[i] ||
			 memcmp(m->at[i], m->disk + m->op[i].off, m->len[i]);
	return wrong;
}

static void test_all(struct bed *b, struct disk *d, const char *path, const char *what)
{
	struct model *m = calloc(1, sizeof(*m));
	auto_fd fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned wrong = 0;

	need(m && fd >= 0);
	m->disk = memory(DISK_LEN);
	m->mem = memory(OPS * (OP_MAX + PAGE));
	pattern(m->disk, DISK_LEN, 3);
	need(pwrite(fd, m->disk, DISK_LEN, 0) == (ssize_t)DISK_LEN && !fsync(fd));
	for (unsigned round = 0; round < 40; round++) {
		model_fill(m, d);
		bed_run(b, m->op, OPS);
		wrong += model_wrong(m);
	}
	is(wrong, 0, "%s, %s: transfers of any size and place, many at a time", b->engine, what);
	is(bed_flush(b, d), 0, "and a flush");
	ok(file_is(path, m->disk, DISK_LEN, 0), "leave the disk as it should be");
	free(m->disk);
	free(m->mem);
	free(m);
}

/* ---- the line ---- */

static void test_line(struct bed *b, struct disk *d, const char *what)
{
	enum { N = 200 };
	struct bed_op *o = calloc(N, sizeof(*o));
	uint8_t *mem = memory(N * 2 * PAGE + 1);
	unsigned turn = 0, wrong = 0;

	need(o);
	for (unsigned i = 0; i < N; i++) {
		uint8_t *p = mem + 1 + i * PAGE;

		o[i] = (struct bed_op){.kind = BED_WRITE,
				       .disk = d,
				       .iov = {{p, PAGE}},
				       .niov = 1,
				       .off = i * PAGE,
				       .turn = &turn};
		pattern(p, PAGE, i);
	}
	bed_run(b, o, N);
	for (unsigned i = 0; i < N; i++) {
		wrong += o[i].res != PAGE || o[i].ended != i + 1;
		o[i].kind = BED_READ;
		o[i].iov[0] = (struct iovec){mem + 1 + (N + i) * PAGE, PAGE};
		o[i].niov = 1;
	}
	is(wrong, 0, "%s, %s: many wait for the buffer, and get it in the order they came",
	   b->engine, what);
	bed_run(b, o, N);
	for (unsigned i = 0; i < N; i++)
		wrong += o[i].res != PAGE || o[i].ended != N + i + 1 ||
			 memcmp(mem + 1 + i * PAGE, mem + 1 + (N + i) * PAGE, PAGE);
	is(wrong, 0, "each with its own data");
	free(mem);
	free(o);
}

/*
 * One that is under way, and thousands behind it that are over as soon as they begin: at an offset where no file can have
 * anything. The stack of the thread has room for hundreds of calls.
 */
static void test_deep(struct bed *b, struct disk *d)
{
	enum { N = 20000 };
	struct bed_op *o = calloc(N, sizeof(*o));
	uint8_t *mem = memory(PAGE + 1);
	unsigned wrong = 0, turn = 0;

	need(o);
	for (unsigned i = 0; i < N; i++)
		o[i] = (struct bed_op){.kind = BED_READ,
				       .disk = d,
				       .iov = {{mem + 1, PAGE}},
				       .niov = 1,
				       .off = i % (N - 1) ? INT64_MAX - (PAGE - 1) : 0,
				       .turn = &turn};
	bed_run(b, o, N);
	for (unsigned i = 0; i < N; i++)
		wrong += o[i].res != (i % (N - 1) ? -EINVAL : (int)PAGE) || o[i].ended != i + 1;
	is(wrong, 0, "%s: a line of operations that fail at once is not a deep stack", b->engine);
	o[1].niov = 1;
	o[1].iov[0] = (struct iovec){mem + 1, PAGE};
	bed_run(b, &o[1], 1);
	is(o[1].res, -EINVAL, "%s: one that fails at once, alone, says so at once", b->engine);
	is(bed_rw(b, d, false, mem + 1, PAGE, 0), PAGE, "%s: and nobody waits for it", b->engine);
	free(mem);
	free(o);
}

/* Its done() begins it again, from inside the line. */
struct again {
	struct bed *bed;
	struct disk *disk;
	struct disk_op op;
	struct iovec iov;
	uint8_t *mem;
	unsigned left, *all;
	bool wrong;
	sem_t *over;
};

static void again_submit(struct again *a)
{
	int r;

	a->iov = (struct iovec){a->mem, PAGE};
	r = disk_readv(a->disk, a->bed->io, &a->bed->bounce, &a->op, &a->iov, 1, 0);
	a->wrong |= r != -EINPROGRESS;
}

static void again_done(struct io_op *io, int res)
{
	struct again *a = container_of(io, struct again, op.io);

	a->wrong |= res != PAGE;
	if (--a->left)
		again_submit(a);
	else if (!--*a->all)
		sem_post(a->over);
}

static void again_begin(void *arg)
{
	struct again *a = arg;

	for (unsigned i = 0; i < 3; i++) {
		a[i].op.io.done = again_done;
		again_submit(&a[i]);
	}
}

static void test_again(struct bed *b, struct disk *d)
{
	struct again a[3] = {0};
	uint8_t *mem = memory(4 * PAGE);
	unsigned all = 3;
	sem_t over;

	sem_init(&over, 0, 0);
	for (unsigned i = 0; i < 3; i++)
		a[i] = (struct again){.bed = b,
				      .disk = d,
				      .mem = mem + i * PAGE + 8,
				      .left = 100,
				      .all = &all,
				      .over = &over};
	loop_call(b->io, again_begin, a);
	while (sem_wait(&over))
		;
	ok(!a[0].wrong && !a[1].wrong && !a[2].wrong,
	   "%s: what is done may join the line again, from there", b->engine);
	sem_destroy(&over);
	free(mem);
}

/* ---- as much as there can be ---- */

static void test_huge(struct bed *b)
{
	enum { N = 2047 };
	const char *path = bed_file("huge", (off_t)GIB(3));
	struct iovec *iov = calloc(N + 2, sizeof(*iov));
	uint8_t *mem = memory(MIB(1) + 1);
	struct disk *d = open_direct(path, false);
	struct bed_op o = {.kind = BED_READ, .disk = d, .iovs = iov, .niov = N + 1};
	uint8_t mark[512];
	auto_fd fd = open(path, O_RDWR | O_CLOEXEC);

	need(iov && fd >= 0);
	pattern(mark, sizeof(mark), 5);
	need(pwrite(fd, mark, 512, (off_t)GIB(2) - 1024) == 512);
	/* All of it into the same MiB: only the last is looked at. */
	for (unsigned i = 0; i < N; i++)
		iov[i] = (struct iovec){mem + 1, MIB(1)};
	iov[N] = (struct iovec){mem + 1, MIB(1) - d->block};
	o.off = d->block == 512 ? 0 : d->block;
	bed_run(b, &o, 1);
	is(o.res, (int)(GIB(2) - d->block), "%s: 2 GiB go through the buffer", b->engine);
	ok(!memcmp(mem + 1 + MIB(1) - 1024 - o.off, mark, 512), "to their end");
	for (unsigned i = 0; i < N + 1; i++)
		iov[i] = (struct iovec){mem + 1, MIB(1)};
	bed_run(b, &o, 1);
	is(o.res, -EINVAL, "a sector more is refused");
	iov[0] = (struct iovec){mem + 1, SIZE_MAX};
	iov[1] = (struct iovec){mem + 1, PAGE + 1};
	o.niov = 2;
	bed_run(b, &o, 1);
	is(o.res, -EINVAL, "and what would come round");
	o.niov = 0;
	bed_run(b, &o, 1);
	is(o.res, 0, "nothing is nothing");
	disk_put(d);
	free(mem);
	free(iov);
}

/* ---- stopped short ---- */

static void test_short(struct bed *b)
{
	const char *path = bed_file("short", (off_t)MIB(2));
	struct disk *d = open_direct(path, false);
	uint8_t *want = memory(MIB(2)), *got = memory(MIB(2) + 1), more = 0;
	auto_fd fd = open(path, O_RDWR | O_CLOEXEC);

	pattern(want, MIB(2), 9);
	need(fd >= 0 && pwrite(fd, want, MIB(2), 0) == (ssize_t)MIB(2));
	need(!ftruncate(fd, (off_t)MIB(1) + 1000));
	memset(got, 0xee, MIB(2) + 1);
	is(bed_rw(b, d, false, got + 1, MIB(2), 0), MIB(1) + 1000,
	   "%s: a file that shrank gives what is left, through the buffer", b->engine);
	ok(!memcmp(got + 1, want, MIB(1) + 1000), "as it is");
	for (size_t i = MIB(1) + 1001; i < MIB(2) + 1; i++)
		more |= got[i] ^ 0xee;
	ok(!more, "and no byte more");
	is(bed_rw(b, d, false, got, MIB(2), 0), MIB(1) + 1000, "also without it");
	ok(!memcmp(got, want, MIB(1) + 1000), "as it is");
	is(bed_rw(b, d, false, got + 1, MIB(1) - 512, MIB(1) + 512), 488,
	   "and not in whole blocks");
	ok(!memcmp(got + 1, want + MIB(1) + 512, 488), "as it is");
	is(bed_rw(b, d, false, got + 1, PAGE, MIB(1) + 4 * PAGE), 0, "behind it there is nothing");
	is(bed_rw(b, d, false, got, PAGE, MIB(1) + 4 * PAGE), 0, "for none");
	disk_put(d);
	d = open_direct(path, true);
	is(bed_rw(b, d, true, got + 1, PAGE, 0), -EBADF, "what is only read cannot be written");
	is(bed_rw(b, d, true, got, PAGE, 0), -EBADF, "by any way");
	is(bed_rw(b, d, true, got, 512, 512), -EBADF, "at all");
	disk_put(d);
	free(want);
	free(got);
}

/* No file of this process is written behind that. */
static void limit_files(rlim_t size)
{
	struct rlimit l;

	need(!getrlimit(RLIMIT_FSIZE, &l));
	l.rlim_cur = MIN(size, l.rlim_max);
	need(!setrlimit(RLIMIT_FSIZE, &l));
}

/* A file that finds no room for more than a MiB: in a tmpfs, or else for this process. What writing more says. */
static int full_begin(const char **path, off_t size)
{
	if (bed_mount("small", "tmpfs", "size=1m")) {
		*path = bed_file("small/image", size);
		return -ENOSPC;
	}
	*path = bed_file("image", size);
	limit_files(MIB(1));
	return -EFBIG;
}

static void full_end(const char *path, int err)
{
	need(!unlink(path));
	if (err == -ENOSPC)
		bed_unmount("small");
	else
		limit_files(RLIM_INFINITY);
}

static void test_full(struct bed *b)
{
	uint8_t *mem = memory(MIB(4) + 1);
	const char *path;
	const int err = full_begin(&path, (off_t)MIB(4));
	struct disk *d = open_direct(path, false);
	int n;

	pattern(mem, MIB(4) + 1, 2);
	n = bed_rw(b, d, true, mem + 1, MIB(4), 0);
	ok(n >= (int)KIB(512) && n <= (int)MIB(1), "%s: a host that is full takes what it can",
	   b->engine);
	ok(file_is(path, mem + 1, (size_t)n, 0), "as it is");
	is(bed_rw(b, d, true, mem + 1, MIB(1), MIB(2)), err, "and then says that it is");
	is(bed_rw(b, d, true, mem, MIB(1), MIB(2)), err, "by every way");
	is(bed_rw(b, d, true, mem, PAGE + 512, MIB(2) + 512), err, "there is");
	is(bed_rw(b, d, false, mem + 1, PAGE, MIB(3)), PAGE, "it can still be read");
	disk_put(d);
	full_end(path, err);
	free(mem);
}

static void test_no_memory(struct bed *b)
{
	struct disk *d = open_direct(bed_file("poor", (off_t)MIB(1)), false);
	uint8_t *mem = memory(PAGE + 1);

	disk_bounce_fini(&b->bounce);
	__atomic_store_n(&no_memory, true, __ATOMIC_RELAXED);
	is(bed_rw(b, d, true, mem + 1, PAGE, 0), -ENOMEM,
	   "%s: without memory for it nothing is bounced", b->engine);
	is(bed_rw(b, d, true, mem, PAGE, 0), PAGE, "but the rest goes on");
	__atomic_store_n(&no_memory, false, __ATOMIC_RELAXED);
	is(bed_rw(b, d, true, mem + 1, PAGE, 0), PAGE, "and all of it when there is some");
	disk_bounce_fini(&b->bounce);
	disk_bounce_fini(&b->bounce);
	disk_put(d);
	free(mem);
}

/* ---- where ---- */

static void test_disk(struct bed *b, const char *path, uint32_t block, const char *what)
{
	struct disk *d = open_direct(path, false);

	need(d->size == DISK_LEN && (d->block == 512) == (block == 512));
	test_ways(b, d, path, what);
	test_lengths(b, d, what);
	test_all(b, d, path, what);
	test_line(b, d, what);
	disk_put(d);
}

static void test_loop_device(struct bed *b, uint32_t block)
{
	struct bed_loop l;
	char what[60];

	snprintf(what, sizeof(what), "block device with blocks of %u", block);
	if (!bed_loop(&l, bed_file("backing", (off_t)DISK_LEN), block)) {
		skip(strerror(errno), "%s", what);
		return;
	}
	test_disk(b, l.path, block, what);
	bed_loop_end(&l);
}

static void test_file_4kn(struct bed *b)
{
	struct bed_loop l;

	if (!bed_4kn(&l, MIB(16)))
		return;
	test_disk(b, bed_file("mnt/image", (off_t)DISK_LEN), 4096, "file on blocks of 4096");
	bed_4kn_end(&l);
}

/* What is cut off the last block of a disk is reached too. */
static void test_last_block(struct bed *b)
{
	const char *path = bed_file("uneven", 4096 * 3 + 1536);
	struct disk *d = open_direct(path, false);
	uint8_t *mem = memory(4 * PAGE), *got = memory(4 * PAGE);
	const int len = 4096 * 3 + 1536;

	pattern(mem, (size_t)len, 7);
	is(bed_rw(b, d, true, mem, (size_t)len, 0), len, "%s: a disk of uneven size is written",
	   b->engine);
	is(bed_rw(b, d, false, got + 3, (size_t)len, 0), len, "and read");
	ok(!memcmp(got + 3, mem, (size_t)len) && file_is(path, mem, (size_t)len, 0), "to its end");
	is(bed_rw(b, d, false, got, 512, 4096 * 3 + 1024), 512, "of which the last sector is one");
	ok(!memcmp(got, mem + 4096 * 3 + 1024, 512), "of those");
	disk_put(d);
	free(mem);
	free(got);
}

static void test_bed(struct bed *b, const char *base)
{
	static const unsigned blocks[] = {512, 4096};

	for (unsigned i = 0; i < ARRAY_LEN(blocks); i++) {
		char what[60];

		snprintf(what, sizeof(what), "file in %s with blocks of %u", base, blocks[i]);
		fake_block = blocks[i];
		test_disk(b, bed_file("image", (off_t)DISK_LEN), blocks[i], what);
		test_last_block(b);
		test_short(b);
		test_full(b);
		fake_block = 0;
	}
}

static void test_engine(enum loop_engine engine)
{
	struct bed b;

	if (!bed_start(&b, engine))
		return;
	for (unsigned i = 0; bed_base(i); i++) {
		struct disk *d;

		bed_make(bed_base(i));
		test_bed(&b, bed_base(i));
		d = open_direct(bed_file("image", (off_t)DISK_LEN), false);
		test_deep(&b, d);
		test_again(&b, d);
		disk_put(d);
		test_no_memory(&b);
		test_engine_asked(&b);
		bed_end();
	}
	bed_make(bed_base(0));
	test_loop_device(&b, 512);
	test_loop_device(&b, 4096);
	test_file_4kn(&b);
	bed_end();
	bed_make(bed_base(1));
	test_huge(&b);
	bed_end();
	bed_stop(&b);
}

int main(void)
{
	need(!sandbox_init());
	test_engine(LOOP_URING);
	test_engine(LOOP_EPOLL);
	return done();
}
