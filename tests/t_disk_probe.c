// SPDX-License-Identifier: Apache-2.0
/*
 * t_disk_probe.c - disk: what the host says of a file or block device, and what it is believed.
 *
 * statx, fstat and fallocate are defined here, in place of libc's, to say what no file system here would.
 */
#include "disk_bed.h"
#include <linux/blkpg.h>
#include <linux/fs.h>

static struct {
	bool statx; /* says what is here; else the truth */
	int statx_err;
	unsigned dio; /* STATX_DIOALIGN or not */
	unsigned mem, off;
	long blksize;      /* of fstat; 0: the truth */
	int fallocate_err; /* 0: it is made */
	unsigned fallocates;
} fake;

int statx(int fd, const char *path, int flags, unsigned mask, struct statx *x)
{
	if (!fake.statx)
		return (int)syscall(SYS_statx, fd, path, flags, mask, x);
	*x = (struct statx){.stx_mask = fake.dio,
			    .stx_dio_mem_align = fake.mem,
			    .stx_dio_offset_align = fake.off};
	errno = fake.statx_err;
	return fake.statx_err ? -1 : 0;
}

int fstat(int fd, struct stat *st)
{
	int r = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (!r && fake.blksize)
		st->st_blksize = fake.blksize;
	return r;
}

int fallocate(int fd, int mode, off_t off, off_t len)
{
	fake.fallocates++;
	errno = fake.fallocate_err;
	return fake.fallocate_err ? -1 : (int)syscall(SYS_fallocate, fd, mode, off, len);
}

static bool same(const struct disk_geometry *a, const struct disk_geometry *b)
{
	bool good = !memcmp(a, b, sizeof(*a));

	if (!good)
		printf("#   got %u %u %u %u %u %u, want %u %u %u %u %u %u\n", a->logical,
		       a->physical, a->align, a->io_min, a->io_opt, a->discard, b->logical,
		       b->physical, b->align, b->io_min, b->io_opt, b->discard);
	return good;
}

static void test_mend(void)
{
	static const struct {
		struct disk_geometry host, used;
		const char *what;
	} cases[] = {
		{{512, 4096, 3584, 4096, 65536, 4096},
		 {512, 4096, 3584, 4096, 65536, 4096},
		 "what makes sense is believed"},
		{{65536, 65536, 0, 65536, 0, 65536},
		 {65536, 65536, 0, 65536, 0, 65536},
		 "blocks may be as large as Linux knows them"},
		{{0, 0, 0, 0, 0, 0}, {512, 512, 0, 512, 0, 0}, "what is not said is 512"},
		{{1000, 4096, 0, 4096, 0, 0},
		 {512, 4096, 0, 4096, 0, 0},
		 "blocks that are no power of two"},
		{{256, 512, 0, 512, 0, 0}, {512, 512, 0, 512, 0, 0}, "of less than a sector"},
		{{131072, 131072, 0, 0, 0, 0},
		 {512, 131072, 0, 131072, 0, 0},
		 "or more than Linux knows"},
		{{(uint32_t)-1, (uint32_t)-1, (uint32_t)-1, (uint32_t)-1, (uint32_t)-1, 0},
		 {512, 512, 0, 512, 0, 0},
		 "or -1"},
		{{4096, 512, 0, 512, 512, 512},
		 {4096, 4096, 0, 4096, 0, 4096},
		 "nothing is smaller than a logical block"},
		{{512, 3072, 0, 3072, 0, 0},
		 {512, 512, 0, 3072, 0, 0},
		 "physical blocks that are no power of two"},
		{{512, 4096, 4096, 4096, 0, 0},
		 {512, 4096, 0, 4096, 0, 0},
		 "nor does the first begin a whole one late"},
		{{512, 4096, 100, 4096, 0, 0},
		 {512, 4096, 0, 4096, 0, 0},
		 "or within a logical one"},
		{{4096, 4096, 0, 6144, 10000, 6144},
		 {4096, 4096, 0, 4096, 0, 4096},
		 "transfers and discards are of whole blocks"},
		{{512, 512, 0, 196608, 786432, 98304},
		 {512, 512, 0, 196608, 786432, 98304},
		 "a stripe of three disks is as good as one of four"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct disk_geometry g = cases[i].host;

		disk_geometry_mend(&g);
		ok(same(&g, &cases[i].used), "%s", cases[i].what);
	}
}

/* ---- files ---- */

static struct disk_geometry geometry_of(const char *path, bool readonly)
{
	struct disk_geometry g;
	struct disk *d;
	char log[500];

	need(!open_logged(&d, path, readonly, log));
	g = d->geometry;
	disk_put(d);
	return g;
}

static void test_file(const char *base)
{
	const char *path = bed_file("file", (off_t)MIB(1) + 512);
	struct disk_geometry g;
	struct stat before, after;
	char data[4096];
	int fd = open(path, O_RDWR | O_CLOEXEC);

	pattern(data, sizeof(data), 1);
	/* Also room that is kept behind its end. */
	need(fd >= 0 && pwrite(fd, data, 4096, (off_t)MIB(1) - 3584) == 4096);
	need(!fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)MIB(1), (off_t)MIB(1)));
	need(!fsync(fd) && !fstat(fd, &before));
	g = geometry_of(path, false);
	need(!fsync(fd) && !fstat(fd, &after));
	is(g.logical, 512, "%s: a file has blocks of a sector", base);
	is(g.physical, before.st_blksize, "%s: on those of its file system", base);
	ok(g.io_min == g.physical && !g.io_opt && !g.align,
	   "%s: which is all that there is to know", base);
	is(g.discard, g.physical, "%s: that is also what is given back", base);
	is(after.st_size, before.st_size, "%s: to find out leaves the size", base);
	is(after.st_blocks, before.st_blocks, "%s: and the room", base);
	ok(file_is(path, data, 4096, (off_t)MIB(1) - 3584), "%s: and the data", base);
	fake.fallocates = 0;
	is(geometry_of(path, true).discard, 0, "%s: nothing is given back of what is only read",
	   base);
	is(fake.fallocates, 0, "%s: nor is it tried", base);
	fake.fallocate_err = EOPNOTSUPP;
	is(geometry_of(path, false).discard, 0, "%s: nor where there are no holes", base);
	fake.fallocate_err = 0;
	close(fd);
}

static void test_block_size(void)
{
	static const struct {
		long host;
		uint32_t used;
	} cases[] = {{1, 512},     {512, 512},        {1000, 512},      {4096, 4096},
		     {6000, 4096}, {65536, 65536},    {65537, 65536},   {1048576, 65536},
		     {-4096, 512}, {1l << 40, 65536}, {LONG_MAX, 65536}};
	const char *path = bed_file("file", 4096);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct disk_geometry g;

		fake.blksize = cases[i].host;
		g = geometry_of(path, false);
		fake.blksize = 0;
		ok(g.physical == cases[i].used && g.io_min == g.physical && g.discard == g.physical,
		   "a file system with blocks of %ld has such of %u", cases[i].host, cases[i].used);
	}
}

/* ---- block devices ---- */

static unsigned long loop_number(const struct bed_loop *l, const char *what)
{
	char path[100], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/block/loop%u/queue/%s", l->number, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	need(fd >= 0 && pread(fd, text, sizeof(text) - 1, 0) > 0);
	close(fd);
	return strtoul(text, NULL, 10);
}

static void test_partition(const struct bed_loop *l, const struct disk_geometry *whole)
{
	struct blkpg_partition part = {.start = 4096 * 8, .length = 4096 * 16, .pno = 1};
	struct blkpg_ioctl_arg arg = {
		.op = BLKPG_ADD_PARTITION, .datalen = sizeof(part), .data = &part};
	struct loop_info64 info;
	struct disk_geometry g;
	char path[60];

	need(!ioctl(l->fd, LOOP_GET_STATUS64, &info));
	info.lo_flags |= LO_FLAGS_PARTSCAN;
	if (ioctl(l->fd, LOOP_SET_STATUS64, &info) || ioctl(l->fd, BLKPG, &arg)) {
		skip(strerror(errno), "a partition");
		return;
	}
	snprintf(path, sizeof(path), "%sp1", l->path);
	g = geometry_of(path, false);
	ok(same(&g, whole), "a partition of it is the same");
	arg.op = BLKPG_DEL_PARTITION;
	need(!ioctl(l->fd, BLKPG, &arg));
}

static void test_blockdev(uint32_t block)
{
	struct bed_loop l;
	struct disk_geometry g, want = {.logical = block};
	unsigned physical, io_min, io_opt;

	if (!bed_loop(&l, bed_file("backing", (off_t)MIB(1)), block)) {
		skip(strerror(errno), "a block device with blocks of %u", block);
		return;
	}
	need(!ioctl(l.fd, BLKPBSZGET, &physical));
	need(!ioctl(l.fd, BLKIOMIN, &io_min));
	need(!ioctl(l.fd, BLKIOOPT, &io_opt));
	want.physical = physical;
	want.io_min = io_min;
	want.io_opt = io_opt;
	want.discard = (uint32_t)loop_number(&l, "discard_granularity");
	g = geometry_of(l.path, false);
	ok(same(&g, &want), "a block device with blocks of %u tells of them", block);
	if (loop_number(&l, "discard_max_bytes")) {
		ok(g.discard >= block, "and of what it takes back");
		test_partition(&l, &want);
		is(geometry_of(l.path, true).discard, 0, "which is nothing of what is only read");
	} else {
		skip("its file system has no holes", "what a block device takes back");
	}
	bed_loop_end(&l);
}

/* ---- O_DIRECT ---- */

static struct disk *open_direct(const char *path)
{
	struct disk *d;
	char log[500];
	int r = direct_logged(&d, path, false, log);

	if (r)
		printf("# %s", log);
	need(!r && !log[0]);
	return d;
}

/* The disk is open by O_DIRECT with these, and only where they need it by the page cache. */
static void direct_is(struct disk *d, uint32_t mem, uint32_t block, const char *what)
{
	is(d->mem_align, mem, "%s: addresses of %u", what, mem);
	is(d->block, block, "and blocks of %u", block);
	ok(d->direct && d->file.direct &&
		   (fcntl(d->file.fd, F_GETFL) & (O_DIRECT | O_ACCMODE | O_NONBLOCK)) ==
			   (O_DIRECT | O_RDWR) &&
		   fcntl(d->file.fd, F_GETFD) == FD_CLOEXEC,
	   "the file is open by O_DIRECT");
	if (block == 512)
		is(d->cached.fd, -1, "and not by the page cache");
	else
		ok(!d->cached.direct &&
			   (fcntl(d->cached.fd, F_GETFL) & (O_DIRECT | O_ACCMODE | O_NONBLOCK)) ==
				   O_RDWR &&
			   fcntl(d->cached.fd, F_GETFD) == FD_CLOEXEC,
		   "and by the page cache");
	ok(d->geometry.physical >= block && d->geometry.io_min >= block &&
		   d->geometry.logical == 512,
	   "the guest may write sectors and had better write blocks");
	disk_put(d);
}

static void test_said(void)
{
	const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	const char *path = bed_file("direct", (off_t)MIB(1));
	static const struct {
		unsigned mem, off;
	} wrong[] = {{512, 3072},   {0, 512},      {3, 512},
		     {512, 131072}, {131072, 512}, {512, 1u << 31}};
	struct disk *d;
	char log[500];

	fake.statx = true;
	fake.dio = STATX_DIOALIGN;
	fake.mem = 4;
	fake.off = 512;
	direct_is(open_direct(path), 4, 512, "a file system that says 4 and 512");
	fake.off = 1;
	direct_is(open_direct(path), 4, 512, "one that says 4 and 1");
	fake.off = 1024;
	direct_is(open_direct(path), 4, page, "4 and 1024, where a page is more");
	fake.mem = 512;
	fake.off = 4096;
	direct_is(open_direct(path), 512, MAX(page, 4096u), "512 and 4096");
	fake.blksize = 16384;
	direct_is(open_direct(path), 512, MAX(page, 16384u), "the same, in blocks of 16384");
	fake.off = 512;
	direct_is(open_direct(path), 512, 512, "512 in blocks of 16384");
	fake.blksize = (long)MIB(1);
	fake.off = 65536;
	direct_is(open_direct(path), 512, 65536, "512 and 65536, in blocks of a MiB");
	fake.blksize = 0;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		fake.mem = wrong[i].mem;
		fake.off = wrong[i].off;
		is(direct_logged(&d, path, false, log), -EINVAL, "%u and %u are too strange",
		   wrong[i].mem, wrong[i].off);
		ok(said(log, path) && said(log, "leave direct out\n"), "which is said");
	}
	fake.off = fake.mem = 0;
	is(direct_logged(&d, path, false, log), -EINVAL, "0 means no O_DIRECT");
	ok(said(log, "does not know O_DIRECT: leave direct out\n") && said(log, path),
	   "which is said too");
	is(open_logged(&d, path, false, log), 0, "without direct nobody asks");
	disk_put(d);
	fake.statx = false;
}

/* Writes all of the file, so that none of it is a hole. */
static const char *fill(const char *path)
{
	auto_fd fd = open(path, O_RDWR | O_CLOEXEC);
	auto_free char *data = NULL;
	struct stat st;

	need(fd >= 0 && !fstat(fd, &st));
	data = malloc((size_t)st.st_size);
	need(data);
	pattern(data, (size_t)st.st_size, 1);
	need(write(fd, data, (size_t)st.st_size) == st.st_size);
	return path;
}

/* What tells nothing has to be tried. */
static void test_tried(const char *base)
{
	static const uint64_t sizes[] = {512, 1024, 1536, 4096, MIB(1)};
	const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);

	fake.statx = true;
	fake.dio = 0;
	fake.mem = fake.off = 4096;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		direct_is(open_direct(fill(bed_file("tried", (off_t)sizes[i]))), 512, 512, base);
	fake.statx_err = ENOSYS;
	direct_is(open_direct(in_bed("tried")), 512, 512, "no such call");
	fake.statx_err = 0;
	direct_is(open_direct(bed_file("tried", (off_t)MIB(1))), 4096, MAX(page, 4096u),
		  "nothing but a hole");
	fake.statx = false;
}

static void test_4kn(void)
{
	const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	struct bed_loop l;
	const char *path;

	if (!bed_4kn(&l, MIB(16)))
		return;
	path = bed_file("mnt/image", (off_t)MIB(1));
	direct_is(open_direct(path), 512, MAX(page, 4096u), "a file on blocks of 4096");
	fake.statx = true;
	fake.dio = 0;
	direct_is(open_direct(fill(path)), 4096, MAX(page, 4096u), "that does not say so");
	need(!truncate(path, 512));
	direct_is(open_direct(path), 4096, MAX(page, 4096u), "and is as small as can be");
	fake.statx = false;
	bed_4kn_end(&l);
}

static void test_blockdev_direct(uint32_t block)
{
	const uint32_t own = block == 512 ? 512 : MAX(block, (uint32_t)sysconf(_SC_PAGESIZE));
	struct bed_loop l;
	struct disk *d;

	if (!bed_loop(&l, bed_file("backing", (off_t)MIB(1)), block)) {
		skip(strerror(errno), "O_DIRECT on a block device with blocks of %u", block);
		return;
	}
	d = open_direct(l.path);
	ok(d->block == own && d->mem_align && d->mem_align <= block,
	   "a block device with blocks of %u wants them whole", block);
	disk_put(d);
	fake.statx = true;
	fake.dio = 0;
	d = open_direct(l.path);
	ok(d->block == own && d->mem_align == block,
	   "also where nobody says so, and memory like that");
	ok((d->cached.fd < 0) == (block == 512), "smaller pieces go through the page cache");
	disk_put(d);
	fake.statx = false;
	bed_loop_end(&l);
}

/* A file system that is no more than the page cache: without O_DIRECT, and without holes. */
static void test_unknown(void)
{
	struct bed_loop l;
	struct disk *d;
	char log[500];
	const char *path;

	if (!bed_mount("ramfs", "ramfs", NULL)) {
		skip("no right to mount", "a file system without O_DIRECT");
		return;
	}
	path = bed_file("ramfs/image", 4096);
	is(direct_logged(&d, path, false, log), -EINVAL, "a file system without O_DIRECT");
	ok(said(log, "/ramfs/image does not know O_DIRECT: leave direct out\n") &&
		   said(log, "error: blk0: the file system of "),
	   "is named, with what to do");
	is(geometry_of(path, false).discard, 0,
	   "it is good enough without, but takes nothing back");
	if (bed_loop(&l, path, 512)) {
		is(geometry_of(l.path, false).discard, 0, "as a block device neither");
		d = open_direct(l.path);
		is(d->geometry.discard, 0, "nor by O_DIRECT");
		disk_put(d);
		bed_loop_end(&l);
	} else {
		skip(strerror(errno), "a block device without discard");
	}
	bed_unmount("ramfs");
}

int main(void)
{
	bed_make(bed_base(0));
	test_mend();
	test_block_size();
	test_blockdev(512);
	test_blockdev(4096);
	test_said();
	test_4kn();
	test_blockdev_direct(512);
	test_blockdev_direct(4096);
	test_unknown();
	bed_end();
	for (unsigned i = 0; bed_base(i); i++) {
		bed_make(bed_base(i));
		test_file(bed_base(i));
		test_tried(bed_base(i));
		bed_end();
	}
	return done();
}
