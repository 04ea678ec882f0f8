// SPDX-License-Identifier: Apache-2.0
/*
 * disk_probe.c - what the file wants and can do: block sizes, alignment of O_DIRECT, discard.
 *
 * Asked once, when the disk is opened, on the main thread. Every number is the host's word for something that will be
 * divided by, shifted by, or told to a guest: none is used that does not make sense. Nothing of the disk is changed.
 * Spec: statx(2), fallocate(2), the kernel's Documentation/ABI/stable/sysfs-block. Calls: ioctl, statx, pread, fallocate.
 */
#include "disk_int.h"
#include "../vmm/log.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The largest power of two that is not larger than v and within [DISK_SECTOR, DISK_BLOCK_MAX]. */
static uint32_t clip_pow2(uint64_t v)
{
	uint64_t p = DISK_SECTOR;

	while (2 * p <= MIN(v, DISK_BLOCK_MAX))
		p *= 2;
	return (uint32_t)p;
}

/* ---- geometry ---- */

void disk_geometry_mend(struct disk_geometry *g)
{
	if (!is_pow2(g->logical) || g->logical < DISK_SECTOR || g->logical > DISK_BLOCK_MAX)
		g->logical = DISK_SECTOR;
	if (!is_pow2(g->physical) || g->physical < g->logical)
		g->physical = g->logical;
	if (g->align >= g->physical || g->align % g->logical)
		g->align = 0;
	if (!g->io_min || g->io_min % g->logical)
		g->io_min = g->physical;
	if (g->io_opt % g->logical)
		g->io_opt = 0;
	if (g->discard % g->logical)
		g->discard = g->logical;
}

static bool can_punch_at(const struct disk *d, off_t off)
{
	return !fallocate(d->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off,
			  (off_t)DISK_BLOCK_MAX);
}

/*
 * Behind the end there is nothing that it could take away but room that was set aside; so far behind that there is not even
 * that, unless no file may be as long.
 */
static bool can_punch(const struct disk *d, const struct stat *st)
{
	const off_t behind = ALIGN_UP(st->st_size, DISK_BLOCK_MAX);

	if (d->readonly)
		return false;
	return can_punch_at(d, behind + (off_t)GIB(1024)) || can_punch_at(d, behind);
}

static struct disk_geometry file_geometry(const struct disk *d, const struct stat *st)
{
	const uint32_t block = clip_pow2((uint64_t)MAX(st->st_blksize, 0l));

	return (struct disk_geometry){
		.logical = DISK_SECTOR,
		.physical = block,
		.io_min = block,
		.discard = can_punch(d, st) ? block : 0,
	};
}

/* A number of the device's queue; a partition's is the whole disk's. 0: there is none. */
static uint64_t queue_number(dev_t dev, const char *what)
{
	static const char *const where[] = {"", "../"};
	char path[100], text[32];

	for (size_t i = 0; i < ARRAY_LEN(where); i++) {
		auto_fd fd = -1;
		ssize_t n;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%squeue/%s", major(dev),
			 minor(dev), where[i], what);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (n > 0) {
			text[n] = '\0';
			return strtoull(text, NULL, 10);
		}
	}
	return 0;
}

static uint32_t blockdev_discard(const struct disk *d, const struct stat *st)
{
	uint64_t unit;

	if (d->readonly || !queue_number(st->st_rdev, "discard_max_bytes"))
		return 0;
	unit = queue_number(st->st_rdev, "discard_granularity");
	/* It can: what does not make sense is mended to a block. */
	return unit && unit <= GIB(1) ? (uint32_t)unit : 1;
}

/* What an ioctl refuses to tell stays 0, and is mended. */
static struct disk_geometry blockdev_geometry(const struct disk *d, const struct stat *st)
{
	const int fd = d->file.fd;
	unsigned physical = 0, io_min = 0, io_opt = 0;
	int logical = 0, align = 0;

	(void)ioctl(fd, BLKSSZGET, &logical);
	(void)ioctl(fd, BLKPBSZGET, &physical);
	(void)ioctl(fd, BLKALIGNOFF, &align);
	(void)ioctl(fd, BLKIOMIN, &io_min);
	(void)ioctl(fd, BLKIOOPT, &io_opt);
	return (struct disk_geometry){
		.logical = (uint32_t)logical,
		.physical = physical,
		.align = (uint32_t)align,
		.io_min = io_min,
		.io_opt = io_opt,
		.discard = blockdev_discard(d, st),
	};
}

/* ---- O_DIRECT ---- */

struct dio {
	uint32_t mem, off; /* 0: no O_DIRECT */
};

/* False where the file system, or a kernel before 6.1, does not say. */
static bool dio_ask(const struct disk *d, struct dio *dio)
{
	struct statx x;

	if (statx(d->file.fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) ||
	    !(x.stx_mask & STATX_DIOALIGN))
		return false;
	*dio = (struct dio){x.stx_dio_mem_align, x.stx_dio_offset_align};
	return true;
}

#define DIO_MOST 4096u

/* A read whose address, length and offset, if there is as much behind data, are multiples of n and of nothing larger. */
static int dio_read(const struct disk *d, char *buf, uint32_t n, off_t data)
{
	const off_t off = data + (off_t)(n % DIO_MOST);
	const ssize_t r = pread(d->file.fd, buf + n, n, off < (off_t)d->size ? off : data);

	return r < 0 ? -errno : 0;
}

/*
 * Found out by trying: 0 or the last -errno. A hole is no test, since no disk is asked for it; of a file that is nothing
 * else the worst is taken to be true, which suits all.
 */
static int dio_try(const struct disk *d, struct dio *dio)
{
	const off_t data = lseek(d->file.fd, 0, SEEK_DATA);
	auto_free char *buf = aligned_alloc(2 * DIO_MOST, 2 * DIO_MOST);
	int r = -ENOMEM;

	for (uint32_t n = data < 0 ? DIO_MOST : DISK_SECTOR; buf && r && n <= DIO_MOST; n *= 2) {
		r = dio_read(d, buf, n, MAX(data, (off_t)0));
		*dio = (struct dio){n, n};
	}
	return r;
}

static int dio_learn(const struct disk *d, struct dio *dio)
{
	if (dio_ask(d, dio))
		return dio->off ? 0 : -EINVAL;
	if (!d->is_blockdev)
		return dio_try(d, dio);
	*dio = (struct dio){d->geometry.logical, d->geometry.logical};
	return 0;
}

/*
 * What is not whole blocks goes through the page cache, so that a block must have pages of its own there: a page, and what
 * the file system keeps as one, would be written back with old data beside the new.
 */
static void set_block(struct disk *d, uint32_t off, uint64_t fs_block)
{
	uint32_t block = MAX(off, (uint32_t)sysconf(_SC_PAGESIZE));

	d->block = DISK_SECTOR;
	if (off <= DISK_SECTOR)
		return;
	d->block = d->is_blockdev ? block : MAX(block, clip_pow2(fs_block));
	d->geometry.physical = MAX(d->geometry.physical, d->block);
	d->geometry.io_min = MAX(d->geometry.io_min, d->block);
}

static int probe_direct(struct disk *d, const struct stat *st, const char *name, const char *path)
{
	struct dio dio;
	int r = dio_learn(d, &dio);

	errno = -r;
	if (r == -EINVAL)
		log_err("%s: the file system of %s does not know O_DIRECT: leave direct out", name,
			path);
	else if (r)
		log_err("%s: %s: reading by O_DIRECT: %m", name, path);
	if (r)
		return r;
	if (!is_pow2(dio.mem) || !is_pow2(dio.off) || MAX(dio.mem, dio.off) > DISK_BLOCK_MAX) {
		log_err("%s: %s wants blocks of %u bytes for O_DIRECT, at addresses of %u: leave "
			"direct out",
			name, path, dio.off, dio.mem);
		return -EINVAL;
	}
	d->mem_align = dio.mem;
	set_block(d, dio.off, (uint64_t)MAX(st->st_blksize, 0l));
	return 0;
}

int disk_probe(struct disk *d, const struct stat *st, const char *name, const char *path)
{
	d->geometry = d->is_blockdev ? blockdev_geometry(d, st) : file_geometry(d, st);
	disk_geometry_mend(&d->geometry);
	return d->direct ? probe_direct(d, st, name, path) : 0;
}
