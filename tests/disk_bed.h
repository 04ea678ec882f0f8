// SPDX-License-Identifier: Apache-2.0
/*
 * disk_bed.h - files and block devices to be disks, and a thread to use them from: for the tests of disk.h.
 *
 * The thread runs under the filter that a drive's has, so that a call that the list lacks ends the test.
 */
#ifndef TESTS_DISK_BED_H
#define TESTS_DISK_BED_H

#include "capture.h"
#include "tap.h"
#include "../devices/disk_int.h"
#include "../vmm/log.h"
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* ---- places ---- */

/* $TMPDIR (or /tmp), and /dev/shm, which is a tmpfs: file systems differ. NULL: there are no more. */
__attribute__((unused)) static const char *bed_base(unsigned i)
{
	const char *tmp = getenv("TMPDIR");

	return i == 0 ? (tmp ? tmp : "/tmp") : i == 1 ? "/dev/shm" : NULL;
}

static char bed_dir[200];

__attribute__((unused)) static void bed_make(const char *base)
{
	snprintf(bed_dir, sizeof(bed_dir), "%s/t_disk.XXXXXX", base);
	need(mkdtemp(bed_dir));
}

/* Flat: no test makes a directory here that it does not remove. */
__attribute__((unused)) static void bed_end(void)
{
	char cmd[300];

	snprintf(cmd, sizeof(cmd), "rm -rf -- '%s'", bed_dir);
	need(!system(cmd));
}

/* Good until the fourth call from now. */
__attribute__((unused)) static const char *in_bed(const char *name)
{
	static char path[4][300];
	static unsigned turn;
	char *p = path[turn++ % ARRAY_LEN(path)];

	snprintf(p, sizeof(path[0]), "%s/%s", bed_dir, name);
	return p;
}

/* A new file of holes; its path. */
__attribute__((unused)) static const char *bed_file(const char *name, off_t size)
{
	const char *p = in_bed(name);
	int fd = open(p, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0) {
		need(!unlink(p));
		fd = open(p, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	}
	need(fd >= 0 && !ftruncate(fd, size));
	close(fd);
	return p;
}

/* A mount of this type over a directory of its own in the bed. False: not here. bed_unmount() takes it away. */
__attribute__((unused)) static bool bed_mount(const char *name, const char *type, const char *opts)
{
	static bool private;
	const char *p = in_bed(name);

	if (!private && (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)))
		return false;
	private = true;
	need(!mkdir(p, 0700));
	if (!mount("none", p, type, 0, opts))
		return true;
	rmdir(p);
	return false;
}

__attribute__((unused)) static void bed_unmount(const char *name)
{
	const char *p = in_bed(name);

	need(!umount2(p, 0) && !rmdir(p));
}

/* ---- loop devices ---- */

struct bed_loop {
	int fd;
	unsigned number;
	char path[32];
};

static int loop_configure(struct bed_loop *l, int control, int file, uint32_t block)
{
	struct loop_config cfg = {.fd = (uint32_t)file, .block_size = block};
	int n = ioctl(control, LOOP_CTL_GET_FREE);

	if (n < 0)
		return -errno;
	l->number = (unsigned)n;
	snprintf(l->path, sizeof(l->path), "/dev/loop%d", n);
	l->fd = open(l->path, O_RDWR | O_CLOEXEC);
	if (l->fd < 0)
		return -errno;
	/* Gone with the last descriptor, also when the test dies. */
	cfg.info.lo_flags = LO_FLAGS_AUTOCLEAR;
	if (!ioctl(l->fd, LOOP_CONFIGURE, &cfg))
		return 0;
	n = -errno;
	close_fd(&l->fd);
	return n;
}

/* A block device of such blocks over a file. False: not here, errno says why. */
__attribute__((unused)) static bool bed_loop(struct bed_loop *l, const char *path, uint32_t block)
{
	auto_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	auto_fd file = open(path, O_RDWR | O_CLOEXEC);
	int r = control < 0 ? -errno : -EBUSY;

	need(file >= 0);
	/* Another test may have taken the one that was free. */
	for (unsigned i = 0; r == -EBUSY && i < 50; i++)
		r = loop_configure(l, control, file, block);
	errno = -r;
	return !r;
}

__attribute__((unused)) static void bed_loop_end(struct bed_loop *l)
{
	close_fd(&l->fd);
}

/*
 * A file system on a disk with blocks of 4096, mounted on "mnt" in the bed, whose files want such for O_DIRECT. False: not
 * here, which is said.
 */
__attribute__((unused)) static bool bed_4kn(struct bed_loop *l, uint64_t size)
{
	const char *at = in_bed("mnt");
	char cmd[100];

	if (!bed_loop(l, bed_file("mnt.backing", (off_t)size), 4096)) {
		skip(strerror(errno), "a file system on blocks of 4096");
		return false;
	}
	need(!mkdir(at, 0700));
	snprintf(cmd, sizeof(cmd), "mkfs.ext4 -q -b 4096 -O ^has_journal %s >/dev/null 2>&1",
		 l->path);
	if (!system(cmd) && !mount(l->path, at, "ext4", 0, NULL))
		return true;
	skip("no mkfs.ext4, or no right to mount", "a file system on blocks of 4096");
	need(!rmdir(at));
	bed_loop_end(l);
	return false;
}

__attribute__((unused)) static void bed_4kn_end(struct bed_loop *l)
{
	bed_unmount("mnt");
	bed_loop_end(l);
}

/* ---- disks ---- */

/* disk_open(), or disk_again() of old, with what it logs. */
static int bed_open_or_again(struct disk **d, const struct disk *old, const struct disk_config *cfg,
			     char log[500])
{
	struct capture cap;
	int r;

	capture_begin(&cap);
	r = old ? disk_again(d, old, "blk0", cfg->path) : disk_open(d, "blk0", cfg);
	capture_end(&cap, log, 500);
	return r;
}

__attribute__((unused)) static int open_logged(struct disk **d, const char *path, bool readonly,
					       char log[500])
{
	const struct disk_config cfg = {.path = path, .readonly = readonly};

	return bed_open_or_again(d, NULL, &cfg, log);
}

__attribute__((unused)) static int direct_logged(struct disk **d, const char *path, bool readonly,
						 char log[500])
{
	const struct disk_config cfg = {.path = path, .readonly = readonly, .direct = true};

	return bed_open_or_again(d, NULL, &cfg, log);
}

__attribute__((unused)) static int again_logged(struct disk **d, const struct disk *old,
						const char *path, char log[500])
{
	const struct disk_config cfg = {.path = path};

	return bed_open_or_again(d, old, &cfg, log);
}

/* One line, and these words in it. */
__attribute__((unused)) static bool said(const char *log, const char *words)
{
	bool good =
		strstr(log, words) && strchr(log, '\n') && strchr(log, '\n') == strrchr(log, '\n');

	if (!good)
		printf("# said: %s\n", log);
	return good;
}

/* ---- operations ---- */

struct bed {
	struct iothread *io;
	struct disk_bounce bounce;
	const char *engine;
};

/* False, and said, where the host has no such engine. */
__attribute__((unused)) static bool bed_start(struct bed *b, enum loop_engine engine)
{
	*b = (struct bed){.engine = engine == LOOP_URING ? "io_uring" : "epoll"};
	if (iothread_create(&b->io, "t_disk", engine, 8, &disk_syscalls)) {
		skip("the host refuses it", "operations on %s", b->engine);
		return false;
	}
	need(!iothread_start(b->io, NULL, NULL));
	return true;
}

__attribute__((unused)) static void bed_stop(struct bed *b)
{
	iothread_destroy(b->io);
	disk_bounce_fini(&b->bounce);
}

#define BED_IOVS 16

/* READ and WRITE use iov, and ZERO, UNMAP and DISCARD the ranges of op. */
struct bed_op {
	enum { BED_READ, BED_WRITE, BED_FLUSH, BED_DISCARD, BED_ZERO, BED_UNMAP } kind;
	struct bed *bed;
	struct disk *disk;
	struct disk_op op;
	struct iovec iov[BED_IOVS], *iovs; /* NULL: those in here */
	unsigned niov;
	uint64_t off;
	int res;
	bool at_once;           /* the call said what res is, done() was not needed */
	bool submitting, early; /* done() came while the call was being made */
	sem_t *done;
	unsigned *turn,
		ended; /* the number of the op among those that have ended, if turn is set */
};

static void bed_op_ended(struct bed_op *o, int res)
{
	o->res = res;
	o->early |= o->submitting;
	if (o->turn)
		o->ended = ++*o->turn;
	sem_post(o->done);
}

static void bed_op_done(struct io_op *io, int res)
{
	bed_op_ended(container_of(io, struct bed_op, op.io), res);
}

static int bed_op_submit(struct bed_op *o)
{
	struct bed *b = o->bed;
	struct iovec *iov = o->iovs ? o->iovs : o->iov;

	o->op.io.done = bed_op_done;
	switch (o->kind) {
	case BED_READ:
		return disk_readv(o->disk, b->io, &b->bounce, &o->op, iov, o->niov, o->off);
	case BED_WRITE:
		return disk_writev(o->disk, b->io, &b->bounce, &o->op, iov, o->niov, o->off);
	case BED_FLUSH:
		return disk_flush(o->disk, b->io, &o->op);
	case BED_DISCARD:
		return disk_discard(o->disk, b->io, &o->op);
	default:
		return disk_zero(o->disk, b->io, &o->op, o->kind == BED_UNMAP);
	}
}

struct bed_batch {
	struct bed_op *ops;
	unsigned n;
};

static void bed_submit(void *arg)
{
	const struct bed_batch *batch = arg;

	for (unsigned i = 0; i < batch->n; i++) {
		struct bed_op *o = &batch->ops[i];
		int r;

		o->submitting = true;
		r = bed_op_submit(o);
		o->submitting = false;
		o->at_once = r != -EINPROGRESS;
		if (r != -EINPROGRESS)
			bed_op_ended(o, r);
	}
}

/* All of them at once, in this order, from the thread of the bed; returns when all have ended. */
__attribute__((unused)) static void bed_run(struct bed *b, struct bed_op *ops, unsigned n)
{
	struct bed_batch batch = {ops, n};
	sem_t done;

	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < n; i++) {
		ops[i].bed = b;
		ops[i].done = &done;
	}
	loop_call(b->io, bed_submit, &batch);
	for (unsigned i = 0; i < n; i++)
		while (sem_wait(&done))
			;
	sem_destroy(&done);
	for (unsigned i = 0; i < n; i++)
		need(!ops[i].early);
}

/* One transfer of memory that is in one piece; its result. */
__attribute__((unused)) static int bed_rw(struct bed *b, struct disk *d, bool write, void *buf,
					  size_t len, uint64_t off)
{
	struct bed_op o = {.kind = write ? BED_WRITE : BED_READ,
			   .disk = d,
			   .iov = {{buf, len}},
			   .niov = 1,
			   .off = off};

	bed_run(b, &o, 1);
	return o.res;
}

__attribute__((unused)) static int bed_flush(struct bed *b, struct disk *d)
{
	struct bed_op o = {.kind = BED_FLUSH, .disk = d};

	bed_run(b, &o, 1);
	return o.res;
}

/* Bytes that differ from their neighbours', and with the seed. */
__attribute__((unused)) static void pattern(void *buf, size_t n, unsigned seed)
{
	uint8_t *p = buf;

	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + seed * 101 + 1);
}

/* Repeatable. */
__attribute__((unused)) static unsigned dice(unsigned sides)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (unsigned)(x >> 20) % sides;
}

/* What the file has, asked by a descriptor of its own. */
__attribute__((unused)) static bool file_is(const char *path, const void *want, size_t n, off_t off)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	const char *p = want;
	char got[KIB(16)];

	need(fd >= 0);
	while (n) {
		const size_t k = MIN(n, sizeof(got));

		if (pread(fd, got, k, off) != (ssize_t)k || memcmp(got, p, k))
			return false;
		p += k;
		off += (off_t)k;
		n -= k;
	}
	return true;
}

#endif
