// SPDX-License-Identifier: Apache-2.0
/*
 * disk.c - the file or block device behind a virtio-blk: open, lock, size, and the way of each transfer.
 *
 * disk_open() learns all there is to know on the main thread and leaves a descriptor, or two; the rest only hands
 * operations to the loop, on an iothread. The content of an image is never looked at: raw is the only format, so a guest
 * cannot make its own (hard case F12). Calls: open, lseek, fcntl, loop.h, disk_probe.c, disk_bounce.c.
 */
#include "disk_int.h"
#include "../vmm/log.h"
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

static const struct syscall_rule disk_rules[] = {
	{.nr = SYS_lseek, .why = "how large the disk is now"},
	{.nr = SYS_fallocate,
	 .why = "discard and zeroes; the file does not become longer",
	 .masked = true,
	 .arg = 1,
	 .mask = UINT32_MAX & ~(uint64_t)(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE),
	 .value = FALLOC_FL_KEEP_SIZE},
	{.nr = SYS_pwrite64, .why = "zeroes, where the host knows no better way"},
	SYSCALL_IOCTL(BLKDISCARD, "discard on a block device"),
	{.nr = SYS_fcntl,
	 .why = "the lock of a disk that another one has replaced",
	 .masked = true,
	 .arg = 1,
	 .mask = UINT32_MAX,
	 .value = F_OFD_SETLK},
};
const struct syscalls disk_syscalls = SYSCALLS(disk_rules);

/* ---- opening ---- */

static const char *open_remedy(int err, bool readonly)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
		return "check path_on_host, or make an image with truncate and mkfs";
	case EACCES:
	case EPERM:
		return readonly ? "give this user the right to read it"
				: "give this user the right to read and write it, or set "
				  "is_read_only";
	case EROFS:
	case ETXTBSY:
		return "set is_read_only";
	case EISDIR:
		return "a drive is a raw image file or a block device; a directory can be a share";
	default:
		return log_remedy(err, "check path_on_host");
	}
}

static int access_mode(const struct disk *d)
{
	return d->readonly ? O_RDONLY : O_RDWR;
}

/*
 * Not blocking, or a fifo without a writer would hang us here; the flag is taken back because with
 * it io_uring would return EAGAIN instead of waiting for the disk.
 */
static int open_file(struct disk *d, const char *name, const char *path)
{
	int fd = open(path, access_mode(d) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0) {
		int err = errno;

		log_err("%s: %s (%s): %m", name, path, open_remedy(err, d->readonly));
		return -err;
	}
	d->file.fd = fd;
	if (fcntl(fd, F_SETFL, access_mode(d)) < 0) {
		log_err("%s: %s: flags: %m", name, path);
		return -errno;
	}
	return 0;
}

static int check_kind(struct disk *d, struct stat *st, const char *name, const char *path)
{
	if (fstat(d->file.fd, st)) {
		log_err("%s: %s: %m", name, path);
		return -errno;
	}
	d->is_blockdev = S_ISBLK(st->st_mode);
	if (S_ISREG(st->st_mode) || S_ISBLK(st->st_mode))
		return 0;
	log_err("%s: %s is %s: a drive is a raw image file or a block device", name, path,
		S_ISDIR(st->st_mode) ? "a directory" : "neither a file nor a block device");
	return S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
}

/*
 * The guest counts in sectors; a tail that is not a whole one cannot be shown (F11). Nothing is said of one that is there
 * with a size that is known.
 */
static int learn_size(struct disk *d, const char *name, const char *path, uint64_t known)
{
	/* The position is used by nobody, and this asks both kinds of disk. */
	const off_t end = lseek(d->file.fd, 0, SEEK_END);

	if (end < 0) {
		log_err("%s: %s: size: %m", name, path);
		return -errno;
	}
	d->size = ALIGN_DOWN((uint64_t)end, DISK_SECTOR);
	if (!d->size) {
		log_err("%s: %s is %s: give it a size, for example with truncate -s 1G", name, path,
			end ? "smaller than a sector of 512 bytes" : "empty");
		return -EINVAL;
	}
	if (end % DISK_SECTOR && d->size != known)
		log_warn("%s: %s: the last %u bytes are not a whole sector and not shown to the "
			 "guest",
			 name, path, (unsigned)(end % DISK_SECTOR));
	return 0;
}

static void say_in_use(const char *name, const char *path, struct disk_holder by)
{
	if (!by.pid)
		log_err("%s: %s is in use by another process or device: stop that one, or set "
			"is_read_only in both",
			name, path);
	else if (by.pid == getpid())
		log_err("%s: %s is in use by another drive of this machine: leave one of them out, "
			"or set is_read_only in both",
			name, path);
	else
		log_err("%s: %s is in use by process %d (%s): stop that one, or set is_read_only "
			"in both",
			name, path, (int)by.pid, by.comm);
}

/*
 * An open file description lock, because a process-wide one would be dropped whenever any
 * descriptor of the same file is closed, and would not keep two drives of one machine apart
 * (F13).
 */
static int lock_file(const struct disk *d, const char *name, const char *path)
{
	struct flock whole = {.l_type = d->readonly ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};

	if (!fcntl(d->file.fd, F_OFD_SETLK, &whole))
		return 0;
	if (errno == EAGAIN || errno == EACCES) {
		say_in_use(name, path, disk_find_holder(d->file.fd));
		return -EBUSY;
	}
	log_warn("%s: %s: no lock, so nothing keeps a second machine from writing it: %m", name,
		 path);
	return 0;
}

/*
 * What is open already is opened again, by O_DIRECT: not its path, which may lead elsewhere by now. Only here, because what
 * is not a disk has words of its own, and open() with O_DIRECT would say EINVAL to it.
 */
static int open_direct(struct disk *d, const char *name, const char *path)
{
	char self[32];
	int fd;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", d->file.fd);
	fd = open(self, access_mode(d) | O_CLOEXEC | O_DIRECT);
	if (fd < 0) {
		int err = errno;

		if (err == EINVAL)
			log_err("%s: the file system of %s does not know O_DIRECT: leave direct "
				"out",
				name, path);
		else
			log_err("%s: %s: by O_DIRECT through %s (%s): %m", name, path, self,
				log_remedy(err, "is /proc mounted? else leave direct out"));
		return -err;
	}
	d->cached = d->file;
	d->file = (struct io_file){.fd = fd, .direct = true};
	return 0;
}

/* The page cache is for single pieces of blocks: what it would read ahead has only to be thrown out when it is written. */
static void settle_cached(struct disk *d)
{
	if (d->block == DISK_SECTOR)
		close_fd(&d->cached.fd);
	else
		(void)posix_fadvise(d->cached.fd, 0, 0, POSIX_FADV_RANDOM);
}

/*
 * Given up by name: closing is not enough where a ring's worker still has the file, which it lets go of a moment after its
 * completion was seen.
 */
static void unlock_file(const struct disk *d)
{
	struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

	(void)fcntl(d->file.fd, F_OFD_SETLK, &whole);
}

static int disk_learn(struct disk *d, const char *name, const char *path)
{
	struct stat st;
	int r = open_file(d, name, path);

	if (!r)
		r = check_kind(d, &st, name, path);
	if (!r)
		r = learn_size(d, name, path, 0);
	if (!r && d->direct)
		r = open_direct(d, name, path);
	if (!r)
		r = lock_file(d, name, path);
	if (!r)
		r = disk_probe(d, &st, name, path);
	if (!r && d->direct)
		settle_cached(d);
	return r;
}

static struct disk *disk_new(const char *name)
{
	struct disk *d = calloc(1, sizeof(*d));

	if (!d) {
		log_err("%s: out of memory", name);
		return NULL;
	}
	d->refs = 1;
	d->file.fd = d->cached.fd = -1;
	return d;
}

int disk_open(struct disk **out, const char *name, const struct disk_config *cfg)
{
	struct disk *d = disk_new(name);
	int r;

	if (!d)
		return -ENOMEM;
	d->readonly = cfg->readonly;
	d->direct = cfg->direct;
	r = disk_learn(d, name, cfg->path);
	if (r)
		goto fail;
	*out = d;
	return 0;
fail:
	disk_put(d);
	return r;
}

/* ---- the same file, or another ---- */

/* Looked at by its name, not opened: what the name of the very same file allows by now does not matter. */
static bool is_file_of(const struct disk *d, const char *path)
{
	struct stat mine, other;

	if (fstat(d->file.fd, &mine) || stat(path, &other))
		return false;
	if (d->is_blockdev && S_ISBLK(other.st_mode))
		return mine.st_rdev == other.st_rdev;
	return mine.st_dev == other.st_dev && mine.st_ino == other.st_ino;
}

int disk_again(struct disk **out, const struct disk *old, const char *name, const char *path)
{
	const struct disk_config cfg = {path, old->readonly, old->direct};
	struct disk *d;
	int r;

	if (path && !is_file_of(old, path))
		return disk_open(out, name, &cfg);
	d = disk_new(name);
	if (!d)
		return -ENOMEM;
	d->lender = disk_get(disk_owner(old));
	d->file = (struct io_file){.fd = old->file.fd, .direct = old->direct};
	d->cached = (struct io_file){.fd = old->cached.fd};
	d->readonly = old->readonly;
	d->is_blockdev = old->is_blockdev;
	d->direct = old->direct;
	d->mem_align = old->mem_align;
	d->block = old->block;
	d->geometry = old->geometry;
	r = learn_size(d, name, path ? path : "its file", old->size);
	if (r)
		goto fail;
	*out = d;
	return 0;
fail:
	disk_put(d);
	return r;
}

struct disk *disk_get(struct disk *d)
{
	__atomic_add_fetch(&d->refs, 1, __ATOMIC_RELAXED);
	return d;
}

void disk_put(struct disk *d)
{
	/* What others did with it before their puts has happened before it is freed. */
	if (!d || __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (!d->lender) {
		unlock_file(d);
		close_fd(&d->file.fd);
		close_fd(&d->cached.fd);
	}
	disk_put(d->lender);
	free(d);
}

/* ---- operations ---- */

/*
 * Where a transfer goes: to the file, to the page cache because it is not of whole blocks, or through the bounce buffer
 * because its memory does not suit (F10). Also what the loop refuses, or answers at once, goes to the file.
 */
enum way { TO_FILE, TO_CACHE, TO_BOUNCE };

static enum way way_of(const struct disk *d, const struct iovec *iov, unsigned n, uint64_t off)
{
	uintptr_t addr = 0;
	size_t len = 0, total = 0;

	if (!d->direct)
		return TO_FILE;
	for (unsigned i = 0; i < n; i++) {
		addr |= (uintptr_t)iov[i].iov_base;
		len |= iov[i].iov_len;
		if (__builtin_add_overflow(total, iov[i].iov_len, &total) || total > INT_MAX)
			return TO_FILE;
	}
	if (!total)
		return TO_FILE;
	if (!IS_ALIGNED(off | total, d->block))
		return TO_CACHE;
	return IS_ALIGNED(addr, d->mem_align) && IS_ALIGNED(len, d->block) ? TO_FILE : TO_BOUNCE;
}

static int transfer(struct disk *d, struct iothread *io, struct disk_bounce *b, struct disk_op *op,
		    struct iovec *iov, unsigned n, uint64_t off, bool write)
{
	struct io_file *file = &d->file;

	switch (way_of(d, iov, n, off)) {
	case TO_BOUNCE:
		op->disk = d;
		op->data = cursor_of(iov, n);
		op->off = off;
		return disk_bounce_move(b, io, op, write);
	case TO_CACHE:
		file = &d->cached;
		break;
	case TO_FILE:
		break;
	}
	return write ? loop_writev(io, &op->io, file, iov, n, off)
		     : loop_readv(io, &op->io, file, iov, n, off);
}

int disk_readv(struct disk *d, struct iothread *io, struct disk_bounce *b, struct disk_op *op,
	       struct iovec *iov, unsigned n, uint64_t off)
{
	return transfer(d, io, b, op, iov, n, off, false);
}

int disk_writev(struct disk *d, struct iothread *io, struct disk_bounce *b, struct disk_op *op,
		struct iovec *iov, unsigned n, uint64_t off)
{
	return transfer(d, io, b, op, iov, n, off, true);
}
