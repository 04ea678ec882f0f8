// SPDX-License-Identifier: Apache-2.0
/*
 * t_disk_range.c - disk: discard and zeroes, whatever the host can or cannot (hard case F4).
 *
 * The same on files and block devices, by O_DIRECT and not. fallocate, pwrite and ioctl are defined here, in place of libc's,
 * so that the host may refuse, be interrupted or do half of it.
 */
#include "disk_bed.h"
#include <linux/fs.h>
#include <stdarg.h>

enum { PUNCH, ZERO, ALLOCATE, DISCARD, WRITE, CALLS };

/* Written by the test while nothing is under way. */
static struct {
	int err[CALLS];      /* 0: the call is made */
	unsigned interrupts; /* so many calls end with EINTR, before those of err do */
	size_t write_max;    /* no more than that is written by one; 0: any */
	unsigned n[CALLS];   /* made */
} host;

/* -1 with errno, or 0: make it. */
static int host_refuses(unsigned call)
{
	__atomic_add_fetch(&host.n[call], 1, __ATOMIC_RELAXED);
	if (host.interrupts) {
		host.interrupts--;
		errno = EINTR;
		return -1;
	}
	errno = host.err[call];
	return host.err[call] ? -1 : 0;
}

int fallocate(int fd, int mode, off_t off, off_t len)
{
	unsigned call = mode & FALLOC_FL_PUNCH_HOLE   ? PUNCH
			: mode & FALLOC_FL_ZERO_RANGE ? ZERO
						      : ALLOCATE;

	if (!(mode & FALLOC_FL_KEEP_SIZE))
		abort();
	return host_refuses(call) ? -1 : (int)syscall(SYS_fallocate, fd, mode, off, len);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
	if (host_refuses(WRITE))
		return -1;
	n = host.write_max ? MIN(n, host.write_max) : n;
	return syscall(SYS_pwrite64, fd, buf, n, off);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (request == BLKDISCARD && host_refuses(DISCARD))
		return -1;
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

static void host_is(int punch, int zero, int allocate, int discard)
{
	memset(&host, 0, sizeof(host));
	host.err[PUNCH] = punch;
	host.err[ZERO] = zero;
	host.err[ALLOCATE] = allocate;
	host.err[DISCARD] = discard;
}

#define DISK_LEN (KIB(600) + 1536) /* the last block is not whole */

static uint8_t *model; /* what the disk has */

static struct disk *open_it(const char *path, bool direct, bool readonly)
{
	struct disk *d;
	char log[500];
	int r = direct ? direct_logged(&d, path, readonly, log)
		       : open_logged(&d, path, readonly, log);

	if (r)
		printf("# %s", log);
	need(!r);
	return d;
}

/* All of it written, so that there is something to be taken away. */
static void fill(const char *path, size_t len)
{
	auto_fd fd = open(path, O_RDWR | O_CLOEXEC);

	pattern(model, len, dice(250));
	for (size_t i = 0; i < len; i++)
		model[i] |= 1;
	need(fd >= 0 && write(fd, model, len) == (ssize_t)len);
}

static int ranges(struct bed *b, struct disk *d, int kind, const struct disk_range *r, unsigned n)
{
	struct bed_op o = {.kind = (__typeof__(o.kind))kind, .disk = d, .op.nranges = n};

	memcpy(o.op.ranges, r, n * sizeof(*r));
	bed_run(b, &o, 1);
	return o.res;
}

static int range(struct bed *b, struct disk *d, int kind, uint64_t off, uint64_t len)
{
	const struct disk_range r = {off, len};

	return ranges(b, d, kind, &r, 1);
}

/* Zeroes r, also of the model; true: so it is, and all else is as it was. */
static bool zeroes(struct bed *b, struct disk *d, int kind, const char *path, uint64_t off,
		   uint64_t len)
{
	int r = range(b, d, kind, off, len);

	if (r)
		printf("# zeroes of %llu at %llu: %d\n", (unsigned long long)len,
		       (unsigned long long)off, r);
	memset(model + off, 0, len);
	return !r && file_is(path, model, d->size, 0);
}

/* ---- zeroes ---- */

static unsigned zeroes_wrong(struct bed *b, struct disk *d, int kind, const char *path)
{
	const uint64_t len = d->size;
	const struct disk_range some[] = {{0, 512},           {512, 512},
					  {3584, 1024},       {4096, 4096},
					  {8192 - 512, 5120}, {12800, 3 * 4096},
					  {len - 512, 512},   {len - 4096, 4096},
					  {len - 5120, 5120}, {65536, 300 * 1024 + 512}};
	unsigned wrong = 0;

	fill(path, len);
	for (size_t i = 0; i < ARRAY_LEN(some); i++)
		wrong += !zeroes(b, d, kind, path, some[i].off, some[i].len);
	fill(path, len);
	for (unsigned i = 0; i < 12; i++) {
		const uint64_t off = dice((unsigned)(len / 512)) * 512ull;
		const uint64_t max = (len - off) / 512, n = 1 + dice((unsigned)MIN(max, 200ull));

		wrong += !zeroes(b, d, kind, path, off, MIN(n, max) * 512);
	}
	wrong += !zeroes(b, d, kind, path, 0, len);
	return wrong;
}

static void test_zeroes(struct bed *b, const char *path, bool direct, const char *what)
{
	static const struct {
		int punch, zero, allocate;
		const char *what;
	} hosts[] = {
		{0, 0, 0, "can do all"},
		{EOPNOTSUPP, 0, 0, "has no holes"},
		{0, EOPNOTSUPP, 0, "has no unwritten room"},
		{0, EOPNOTSUPP, EOPNOTSUPP, "sets no room aside"},
		{EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP, "can do nothing"},
		{ENOSYS, ENOSYS, ENOSYS, "has not heard of it"},
		{EIO, EPERM, EINVAL, "does not like to"},
	};
	unsigned wrong;

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		struct disk *d = open_it(path, direct, false);

		host_is(hosts[i].punch, hosts[i].zero, hosts[i].allocate, 0);
		wrong = zeroes_wrong(b, d, BED_ZERO, path);
		is(wrong, 0, "%s, %s%s: zeroes of any place on a host that %s", b->engine, what,
		   direct ? " by O_DIRECT" : "", hosts[i].what);
		wrong = zeroes_wrong(b, d, BED_UNMAP, path);
		is(wrong, 0, "and that may take the room back");
		host.write_max = direct ? MAX(d->block, 4096u) : 1000;
		host.interrupts = 5;
		fill(path, d->size);
		ok(zeroes(b, d, BED_ZERO, path, 512, KIB(300)) && !host.interrupts,
		   "whatever the number of calls it takes");
		host.interrupts = 5;
		ok(zeroes(b, d, BED_UNMAP, path, KIB(350), KIB(200)) && !host.interrupts,
		   "for either");
		host_is(0, 0, 0, 0);
		disk_put(d);
	}
}

/* ---- room ---- */

static long room(const char *path)
{
	struct stat st;
	auto_fd fd = open(path, O_RDWR | O_CLOEXEC);

	need(fd >= 0 && !fsync(fd) && !fstat(fd, &st));
	return (long)st.st_blocks;
}

static bool is_hole(const char *path, off_t off, off_t len)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t data;

	need(fd >= 0);
	data = lseek(fd, off, SEEK_DATA);
	return (data < 0 && errno == ENXIO) || data >= off + len;
}

static void test_room(struct bed *b, const char *base, bool direct, bool no_zero_range)
{
	const char *path = bed_file("room", (off_t)MIB(2));
	struct disk *d = open_it(path, direct, false);
	const long half = (long)MIB(1) / 512, all = 2 * half;

	host_is(0, no_zero_range ? EOPNOTSUPP : 0, 0, 0);
	is(room(path), 0, "%s, %s%s: an image of holes", b->engine, base,
	   direct ? " by O_DIRECT" : "");
	is(range(b, d, BED_ZERO, 0, MIB(2)), 0, "in which there are to be zeroes");
	ok(room(path) >= all, "gets room for them");
	is(range(b, d, BED_UNMAP, 0, MIB(1)), 0, "and gives it back where it may");
	ok(room(path) >= half && room(path) < all && is_hole(path, 0, (off_t)MIB(1)),
	   "so that there are holes");
	fill(path, MIB(2));
	is(range(b, d, BED_ZERO, KIB(256), KIB(512)), 0, "of one that is full, zeroes");
	ok(room(path) >= all, "keep the room");
	is(range(b, d, BED_DISCARD, 0, MIB(1)), 0, "a discard");
	ok(room(path) < all && is_hole(path, 0, (off_t)MIB(1)), "gives it back");
	ok(file_is(path, model + MIB(1), MIB(1), (off_t)MIB(1)), "and takes nothing else");
	is(range(b, d, BED_DISCARD, MIB(2) - 4096, 4096), 0, "at the end");
	is(lseek(d->file.fd, 0, SEEK_END), MIB(2), "the file is as long as before");
	host_is(0, 0, 0, 0);
	disk_put(d);
}

/* ---- discard ---- */

static void test_discard(struct bed *b, const char *path, bool direct, const char *what)
{
	struct disk *d = open_it(path, direct, false);
	struct disk_range r[DISK_RANGES_MAX];
	uint64_t kept = 0;
	bool good = true;

	fill(path, d->size);
	for (unsigned i = 0; i < ARRAY_LEN(r); i++)
		r[i] = (struct disk_range){i * KIB(36) + i * 512, KIB(16) + i * 1024};
	is(ranges(b, d, BED_DISCARD, r, ARRAY_LEN(r)), 0, "%s, %s%s: sixteen discards", b->engine,
	   what, direct ? " by O_DIRECT" : "");
	for (unsigned i = 0; i < ARRAY_LEN(r); i++) {
		good &= file_is(path, model + kept, r[i].off - kept, (off_t)kept);
		kept = r[i].off + r[i].len;
	}
	ok(good && file_is(path, model + kept, d->size - kept, (off_t)kept),
	   "take nothing from what is between them");
	is(range(b, d, BED_DISCARD, 512, 512), 0, "a sector may be discarded");
	is(range(b, d, BED_DISCARD, d->size - 512, 512), 0, "the last one too");
	is(range(b, d, BED_DISCARD, 0, d->size), 0, "and all");
	disk_put(d);
}

/* What the host refused is not asked for again; what it may do another time is. */
static void test_hints(struct bed *b, bool is_blockdev, const char *path)
{
	const unsigned call = is_blockdev ? DISCARD : PUNCH;
	struct disk *d = open_it(path, false, false), *e;
	char log[500];

	host_is(EIO, 0, 0, EIO);
	is(range(b, d, BED_DISCARD, 0, 4096), -EIO, "%s: a discard that fails says so", b->engine);
	host_is(EOPNOTSUPP, 0, 0, EOPNOTSUPP);
	is(range(b, d, BED_DISCARD, 0, 4096), -EOPNOTSUPP, "one that is not known too");
	is(host.n[call], 1, "that was asked for");
	host_is(0, 0, 0, 0);
	is(range(b, d, BED_DISCARD, 0, 4096), -EOPNOTSUPP, "it never will be known");
	is(host.n[call], 0, "and is not asked for again");
	need(!again_logged(&e, d, NULL, log));
	is(range(b, e, BED_DISCARD, 0, 4096), -EOPNOTSUPP, "not of the disk with another size");
	is(host.n[call], 0, "at all");
	disk_put(e);
	disk_put(d);

	d = open_it(path, false, false);
	host_is(EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP, 0);
	for (unsigned i = 0; i < 3; i++) {
		need(!range(b, d, BED_ZERO, 0, 4096));
		need(!range(b, d, BED_UNMAP, 0, 4096));
	}
	is(host.n[PUNCH], 1, "of zeroes, a hole is tried once");
	is(host.n[ZERO], 1, "unwritten room as well");
	is(host.n[ALLOCATE], 0, "room for a hole that is not there is not asked for");
	is(host.n[WRITE], 6, "what is left is to write them");
	disk_put(d);

	d = open_it(path, false, false);
	host_is(0, EOPNOTSUPP, EOPNOTSUPP, 0);
	for (unsigned i = 0; i < 3; i++)
		need(!range(b, d, BED_ZERO, 0, 4096));
	is(host.n[PUNCH], 1, "a hole that gets no room is not made a second time");
	is(host.n[WRITE], 3, "but written");
	host_is(0, 0, 0, 0);
	disk_put(d);
}

/* A signal is no refusal: there is no other way to be looked for. */
static void test_interrupted(struct bed *b)
{
	struct disk *d = open_it(bed_file("signals", (off_t)MIB(1)), false, false);

	host_is(0, 0, 0, 0);
	host.interrupts = 3;
	is(range(b, d, BED_UNMAP, 0, 4096), 0, "%s: a call that is interrupted", b->engine);
	is(host.n[PUNCH], 4, "is made until it is not");
	is(host.n[ZERO] + host.n[WRITE], 0, "and no other");
	disk_put(d);
}

/* ---- errors ---- */

static void test_errors(struct bed *b, bool direct)
{
	const struct disk_range r[] = {{0, 4096}, {8192, 4096}, {16384, 4096}};
	const char *path = bed_file("errors", (off_t)MIB(1));
	struct disk *d = open_it(path, direct, false);

	fill(path, MIB(1));
	host_is(EOPNOTSUPP, EOPNOTSUPP, EOPNOTSUPP, 0);
	host.err[WRITE] = EIO;
	is(range(b, d, BED_ZERO, 0, 4096), -EIO, "%s: zeroes that cannot be written are an error",
	   b->engine);
	is(range(b, d, BED_UNMAP, 512, 512), -EIO, "of either kind");
	host_is(ENOSPC, ENOSPC, ENOSPC, 0);
	ok(zeroes(b, d, BED_ZERO, path, 512, KIB(64)), "no room for a note does not hinder zeroes");
	ok(zeroes(b, d, BED_UNMAP, path, KIB(128), KIB(64)), "of either kind");
	host.err[WRITE] = ENOSPC;
	is(range(b, d, BED_ZERO, KIB(256), 512), -ENOSPC, "but no room for them does");
	disk_put(d);
	host_is(0, 0, 0, 0);
	d = open_it(path, direct, false);
	host.err[PUNCH] = EIO;
	host.n[PUNCH] = 0;
	is(ranges(b, d, BED_DISCARD, r, 3), -EIO, "of several ranges, the first that fails");
	is(host.n[PUNCH], 1, "is the last");
	host_is(0, 0, 0, 0);
	disk_put(d);

	d = open_it(path, direct, true);
	is(range(b, d, BED_DISCARD, 0, 4096), -EOPNOTSUPP, "what is only read is not discarded");
	is(host.n[PUNCH], 0, "nor is it tried");
	is(range(b, d, BED_ZERO, 0, 4096), -EBADF, "nor are there zeroes in it");
	disk_put(d);

	host_is(EOPNOTSUPP, 0, 0, 0);
	d = open_it(path, direct, false);
	host.n[PUNCH] = 0;
	is(range(b, d, BED_DISCARD, 0, 4096), -EOPNOTSUPP, "nor what has no holes");
	is(host.n[PUNCH], 0, "which is known");
	host_is(0, 0, 0, 0);
	disk_put(d);
}

static void test_full(struct bed *b, bool direct)
{
	const char *path;
	struct disk *d;

	if (!bed_mount("small", "tmpfs", "size=1m")) {
		skip("no right to mount", "a host that is full");
		return;
	}
	path = bed_file("small/image", (off_t)MIB(4));
	d = open_it(path, direct, false);
	is(range(b, d, BED_ZERO, 0, MIB(4)), -ENOSPC, "%s: zeroes that need room fail without",
	   b->engine);
	is(range(b, d, BED_UNMAP, 0, MIB(4)), 0, "those that need none do not");
	is(room(path), 0, "and give back what there is");
	is(range(b, d, BED_ZERO, MIB(1), KIB(256)), 0, "so that there is room again");
	disk_put(d);
	need(!unlink(path));
	bed_unmount("small");
}

/* ---- where ---- */

static void test_disk(struct bed *b, const char *path, const char *what)
{
	for (unsigned direct = 0; direct < 2; direct++) {
		test_zeroes(b, path, direct, what);
		test_discard(b, path, direct, what);
	}
}

/* What becomes of it in the file below. */
static void test_below(struct bed *b, const struct bed_loop *l, const char *path)
{
	struct disk *d = open_it(l->path, true, false);
	long before;

	fill(l->path, d->size);
	need(!bed_flush(b, d));
	before = room(path);
	is(range(b, d, BED_DISCARD, 0, KIB(256)), 0, "%s: a discard on a block device", b->engine);
	ok(room(path) <= before - (long)KIB(256) / 512, "reaches what is below");
	ok(zeroes(b, d, BED_ZERO, l->path, 0, d->size), "zeroes too");
	disk_put(d);
}

static void test_loop_device(struct bed *b, uint32_t block)
{
	struct bed_loop l;
	char what[60];
	const char *path = bed_file("backing", (off_t)ALIGN_DOWN(DISK_LEN, block));

	snprintf(what, sizeof(what), "block device with blocks of %u", block);
	if (!bed_loop(&l, path, block)) {
		skip(strerror(errno), "%s", what);
		return;
	}
	test_disk(b, l.path, what);
	test_hints(b, true, l.path);
	test_below(b, &l, path);
	bed_loop_end(&l);
}

static void test_file_4kn(struct bed *b)
{
	struct bed_loop l;

	if (!bed_4kn(&l, MIB(16)))
		return;
	test_disk(b, bed_file("mnt/image", (off_t)DISK_LEN), "file on blocks of 4096");
	bed_4kn_end(&l);
}

static void test_engine(enum loop_engine engine)
{
	struct bed b;

	if (!bed_start(&b, engine))
		return;
	/* Either has the same pool for these: once through all places is enough, with the one that every host has. */
	for (unsigned i = engine != LOOP_EPOLL; bed_base(i); i++) {
		bed_make(bed_base(i));
		test_disk(&b, bed_file("image", (off_t)DISK_LEN), bed_base(i));
		test_hints(&b, false, bed_file("hints", (off_t)MIB(1)));
		test_interrupted(&b);
		for (unsigned direct = 0; direct < 2; direct++) {
			test_room(&b, bed_base(i), direct, false);
			test_room(&b, bed_base(i), direct, true);
			test_errors(&b, direct);
			test_full(&b, direct);
		}
		bed_end();
	}
	if (engine == LOOP_EPOLL) {
		bed_make(bed_base(0));
		test_loop_device(&b, 512);
		test_loop_device(&b, 4096);
		test_file_4kn(&b);
		bed_end();
	}
	bed_stop(&b);
}

int main(void)
{
	need(!sandbox_init());
	model = malloc(MIB(2));
	need(model);
	test_engine(LOOP_URING);
	test_engine(LOOP_EPOLL);
	free(model);
	return done();
}
