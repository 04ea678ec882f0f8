// SPDX-License-Identifier: Apache-2.0
/*
 * t_share_io.c - what is done with open files of a share beyond reading and writing: copies, space, syncs, ioctls; and
 * where files end: limits, full file systems, offsets beyond 4 GiB.
 *
 * On each place that share_bed.h names. Calls that need an iothread run there under its filter, with both engines.
 */
#include "share_bed.h"
#include "../vmm/sandbox.h"
#include <linux/fs.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>

static struct place place;
static bool privileged, own_mounts;
static const struct cred ROOT;

/* In place of libc's: who is synced is seen, by what the filter allows, and may fail. */
static dev_t synced[8];
static unsigned nsynced;
static int sync_error;

int syncfs(int fd)
{
	struct statx st;

	if (nsynced < ARRAY_LEN(synced) && !share_inode_statx(fd, "", &st))
		synced[nsynced] = makedev(st.stx_dev_major, st.stx_dev_minor);
	nsynced++;
	if (sync_error) {
		errno = sync_error;
		return -1;
	}
	return (int)syscall(SYS_syncfs, fd);
}

/* ---- calls on an iothread ---- */

enum { DO_READ, DO_WRITE, DO_COPY, DO_SYNC, DO_SYNC_ALL, DO_FALLOCATE, DO_SIZE, DO_IOCTL };
struct call {
	int verb;
	struct iothread *io;
	struct share_inode *inode;
	struct share_file *file;
	uint64_t off, len;
	int mode;
	struct iovec iov;
	struct share_copy copy; /* its op serves the others as well */
	sem_t settled;
	int res;
	bool late; /* it was not done at once */
};

static void call_done(struct io_op *op, int res)
{
	struct call *c = container_of(op, struct call, copy.op);

	c->res = res;
	sem_post(&c->settled);
}

static int call_submit(struct call *c)
{
	const struct share_attr size = {.mask = SHARE_SIZE, .size = c->len};
	struct statx st;
	unsigned flags = 0;

	switch (c->verb) {
	case DO_READ:
		return share_readv(c->file, c->io, &c->copy.op, &c->iov, 1, c->off);
	case DO_WRITE:
		return share_writev(c->file, c->io, &c->copy.op, &c->iov, 1, c->off);
	case DO_COPY:
		return share_copy(&c->copy, c->io);
	case DO_SYNC:
	case DO_SYNC_ALL:
		return share_syncfs(c->inode, c->io, &c->copy.op, c->verb == DO_SYNC_ALL);
	case DO_FALLOCATE:
		return share_fallocate(c->file, c->mode, c->off, c->len);
	case DO_SIZE:
		return share_setattr(share_file_inode(c->file), c->file, &size, &st);
	default:
		return (int)share_ioctl(c->inode, NULL, FS_IOC_GETFLAGS, &flags, 0, sizeof(flags));
	}
}

static void call_run(void *arg)
{
	struct call *c = arg;
	int r = call_submit(c);

	c->late = r == -EINPROGRESS;
	if (!c->late)
		call_done(&c->copy.op, r);
}

static int call(struct call *c)
{
	need(sem_init(&c->settled, 0, 0) == 0);
	c->copy.op.done = call_done;
	loop_call(c->io, call_run, c);
	while (sem_wait(&c->settled) < 0)
		need(errno == EINTR);
	return c->res;
}

static int do_write(struct iothread *io, struct share_file *f, const void *data, size_t n,
		    uint64_t off)
{
	struct call c = {
		.verb = DO_WRITE, .io = io, .file = f, .off = off, .iov = {(void *)data, n}};

	return call(&c);
}

static int do_read(struct iothread *io, struct share_file *f, void *data, size_t n, uint64_t off)
{
	struct call c = {.verb = DO_READ, .io = io, .file = f, .off = off, .iov = {data, n}};

	return call(&c);
}

static int do_copy(struct iothread *io, struct share_file *from, uint64_t from_off,
		   struct share_file *to, uint64_t to_off, uint64_t len, bool *late)
{
	struct call c = {.verb = DO_COPY,
			 .io = io,
			 .copy = {.from = from,
				  .to = to,
				  .from_off = from_off,
				  .to_off = to_off,
				  .len = len}};
	int r = call(&c);

	if (late)
		*late = c.late;
	return r;
}

static int do_sync(struct iothread *io, struct share_inode *inode, bool all)
{
	struct call c = {.verb = all ? DO_SYNC_ALL : DO_SYNC, .io = io, .inode = inode};

	nsynced = 0;
	return call(&c);
}

/* ---- copies ---- */

static void test_copy(struct share *s, struct share_inode *root, struct iothread *io)
{
	const size_t big = MIB(1);
	char *data = malloc(big), *back = malloc(big);
	struct share_inode *a, *b;
	struct share_file *from, *to, *reader, *dir;
	bool late;

	(void)s;
	need(data && back);
	for (size_t i = 0; i < big; i++)
		data[i] = (char)(i * 7 + i / 4096);
	host_file(place.dir, "a", "");
	host_file(place.dir, "b", "");
	a = find(root, "a");
	b = find(root, "b");
	from = open_file(a, O_RDWR);
	to = open_file(b, O_RDWR);
	reader = open_file(b, O_RDONLY);
	dir = open_file(root, O_RDONLY | O_DIRECTORY);
	need(do_write(io, from, data, big, 0) == (int)big);
	is(do_copy(io, from, 100, to, 5, 1000, &late), 1000, "a little is copied");
	ok(!late, "at once");
	ok(do_read(io, to, back, 2000, 0) == 1005 && !memcmp(back + 5, data + 100, 1000),
	   "to where it was asked for");
	is(do_copy(io, from, 0, to, 0, UINT64_MAX, &late), (int)big,
	   "whatever length is asked for, what there is is copied");
	ok(late, "without holding the thread");
	ok(do_read(io, to, back, big, 0) == (int)big && !memcmp(back, data, big), "all of it");
	is(do_copy(io, from, big, to, 0, 100, NULL), 0, "at the end there is nothing");
	is(do_copy(io, from, big - 10, to, 5ull << 30, 100, NULL), 10,
	   "beyond 4 GiB is a place like others");
	ok(do_read(io, to, back, 100, 5ull << 30) == 10 && !memcmp(back, data + big - 10, 10),
	   "and it is there");
	is(do_copy(io, from, 0, from, 4096, 4096, NULL), 4096, "a file is copied within itself");
	is(do_copy(io, from, 0, from, 100, 4096, NULL), -EINVAL, "but not onto itself");
	is(do_copy(io, from, 0, reader, 0, 10, NULL), -EBADF, "what is open to read takes nothing");
	is(do_copy(io, dir, 0, to, 0, 10, NULL), -EISDIR, "a directory is not copied");
	is(do_copy(io, from, 1ull << 63, to, 0, 10, NULL), -EINVAL, "offsets have 63 bits");
	is(do_copy(io, from, 0, to, 1ull << 63, 10, NULL), -EFBIG, "both");
	is(do_copy(io, from, INT64_MAX, to, 0, 10, NULL), -EINVAL, "and so have ends");
	is(do_copy(io, from, 0, to, INT64_MAX, 10, NULL), -EFBIG, "of either");
	share_file_close(from);
	share_file_close(to);
	share_file_close(reader);
	share_file_close(dir);
	share_put(a);
	share_put(b);
	free(data);
	free(back);
}

/* ---- space and offsets ---- */

static uint64_t size_of(struct share_inode *inode)
{
	struct statx st;

	need(share_getattr(inode, NULL, &st) == 0);
	return st.stx_size;
}

/* Where a file system lacks a mode it says so, and that is what the guest gets. */
static void try_mode(struct share_file *f, int mode, uint64_t off, uint64_t len, uint64_t size,
		     const char *what)
{
	int err = share_fallocate(f, mode, off, len);

	if (err == -EOPNOTSUPP)
		skip("the file system does not do it, and says so", "%s on %s", what, place.base);
	else
		ok(!err && size_of(share_file_inode(f)) == size, "%s", what);
}

static void test_fallocate(struct share *s, struct share_inode *root, struct iothread *io)
{
	struct share_inode *f;
	struct share_file *file;
	char back[2] = "";

	(void)s;
	host_file(place.dir, "f", "");
	f = find(root, "f");
	file = open_file(f, O_RDWR);
	need(do_write(io, file, "a", 1, 0) == 1 && do_write(io, file, "b", 1, 8192) == 1);
	try_mode(file, 0, 0, 65536, 65536, "space is allocated");
	try_mode(file, 0, 0, 10, 65536, "less takes nothing away");
	try_mode(file, FALLOC_FL_KEEP_SIZE, 0, 1 << 20, 65536, "beyond the end, kept there");
	try_mode(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096, 65536, "a hole");
	ok(do_read(io, file, back, 1, 0) == 1 && back[0] == 0, "has nothing in it");
	try_mode(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096, 61440, "a range taken out");
	try_mode(file, FALLOC_FL_INSERT_RANGE, 0, 4096, 65536, "a range put in");
	try_mode(file, FALLOC_FL_ZERO_RANGE, 65536, 4096, 69632, "a range of zeros");
	is(share_fallocate(file, FALLOC_FL_PUNCH_HOLE, 0, 4096), -EOPNOTSUPP,
	   "a hole that may move the end is no mode");
	is(share_fallocate(file, 1 << 20, 0, 4096), -EOPNOTSUPP, "nor is what nobody knows");
	share_file_close(file);
	share_put(f);
}

static void test_far(struct share *s, struct share_inode *root, struct iothread *io)
{
	const uint64_t end = 1ull << 32;
	struct share_inode *f;
	struct share_file *file;
	char back[6] = "";
	struct statx st;

	(void)s;
	host_file(place.dir, "f", "");
	f = find(root, "f");
	file = open_file(f, O_RDWR);
	is(do_write(io, file, "across", 6, end - 3), 6, "a write goes across 4 GiB");
	ok(do_read(io, file, back, 6, end - 3) == 6 && !memcmp(back, "across", 6),
	   "and is read there");
	need(share_getattr(f, NULL, &st) == 0);
	ok(st.stx_size == end + 3 && st.stx_blocks < 1000, "and takes no more room than it needs");
	is(share_lseek(file, 0, SEEK_DATA) > 0x40000000, true, "data is found past the hole");
	is(share_lseek(file, end + 3, SEEK_DATA), -ENXIO, "none at the end");
	is(share_lseek(file, 0, SEEK_HOLE), 0, "a hole at the beginning");
	share_file_close(file);
	share_put(f);
}

/* ---- opening ---- */

static void test_flags(struct share *s, struct share_inode *root, struct iothread *io)
{
	struct share_inode *f;
	struct share_file *file;
	char back[8] = "";
	int flags;

	(void)s;
	host_file(place.dir, "f", "12345");
	f = find(root, "f");
	file = open_file(f, O_RDWR | O_APPEND | O_DIRECT | O_NOATIME | O_SYNC | O_NONBLOCK);
	flags = fcntl(file->io.fd, F_GETFL);
	is(flags & (O_APPEND | O_DIRECT | O_NOATIME | O_NONBLOCK), 0,
	   "what is the guest's own affair does not reach the host");
	is(flags & O_SYNC, O_SYNC, "what is written at once is");
	is(do_write(io, file, "x", 1, 1), 1, "a write goes where it says");
	ok(do_read(io, file, back, 8, 0) == 5 && !memcmp(back, "1x345", 5), "not to the end");
	share_file_close(file);
	file = open_file(f, O_RDONLY | O_TRUNC);
	is(size_of(f), 0, "opened to read, a file is truncated all the same");
	share_file_close(file);
	host_file(place.dir, "f", "12345");
	need(fchmodat(place.dir, "f", 0444, 0) == 0);
	if (privileged)
		skip("root may write everything", "truncating what may not be written");
	else
		ok(share_open_inode(f, O_RDONLY | O_TRUNC, &file) == -EACCES && size_of(f) == 5,
		   "but not one that may not be written");
	is(share_open_inode(root, O_RDONLY | O_TRUNC, &file), -EISDIR, "nor a directory");
	share_put(f);
}

/* ---- times ---- */

static bool time_is(const struct statx_timestamp *t, int64_t sec, uint32_t nsec)
{
	return t->tv_sec == sec && t->tv_nsec == nsec;
}

static void test_times(struct share *s, struct share_inode *root, struct iothread *io)
{
	struct share_attr attr = {.mask = SHARE_ATIME | SHARE_MTIME,
				  .atime = {-1000, 5},
				  .mtime = {4000000000, 999999999}};
	struct share_inode *f, *l;
	struct statx st, old;

	(void)s, (void)io;
	host_file(place.dir, "f", "");
	need(symlinkat("f", place.dir, "l") == 0);
	f = find(root, "f");
	l = find(root, "l");
	need(share_getattr(f, NULL, &old) == 0);
	ok((old.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS, "attributes are complete");
	if (old.stx_mask & STATX_BTIME)
		ok(old.stx_btime.tv_sec > 1000000000, "with the time of birth");
	else
		skip("the file system knows none", "a time of birth on %s", place.base);
	is(share_setattr(l, NULL, &attr, &st), 0, "a symbolic link has times");
	ok(time_is(&st.stx_atime, -1000, 5), "before 1970");
	ok(time_is(&st.stx_mtime, 4000000000, 999999999), "and after 2038");
	need(share_getattr(f, NULL, &st) == 0);
	ok(!memcmp(&st.stx_mtime, &old.stx_mtime, sizeof(st.stx_mtime)),
	   "its target keeps its own");
	attr = (struct share_attr){.mask = SHARE_ATIME, .atime = {.tv_nsec = UTIME_NOW}};
	is(share_setattr(l, NULL, &attr, &st), 0, "one of them may be now");
	ok(st.stx_atime.tv_sec >= old.stx_btime.tv_sec && st.stx_atime.tv_sec > 1000000000 &&
		   time_is(&st.stx_mtime, 4000000000, 999999999),
	   "and the other what it was");
	share_put(f);
	share_put(l);
}

/* ---- ioctls ---- */

/* Whoever made a file without rights has it open all the same, and writes it through mappings too. */
static void test_map(struct share *s, struct share_inode *root, struct iothread *io)
{
	const struct share_attr size = {.mask = SHARE_SIZE, .size = 4096};
	const uid_t user = privileged ? 65534 : geteuid();
	struct share_inode *f = NULL;
	struct share_file *file = NULL;
	struct name name;
	struct statx st;
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)s, (void)io;
	need(page != MAP_FAILED && name_check(&name, "shut", 4) == 0);
	is(share_create(root, &name, O_RDWR, 0, &ROOT, &f, &file, &st), 0,
	   "a file of mode 0 is made");
	is(share_setattr(f, file, &size, NULL), 0, "and made long");
	/* Without the capabilities that root's files are open to. */
	syscall(SYS_setfsuid, user);
	is(share_map(f, page, 4096, 0, true), 0, "it is mapped to be written, as it is open");
	page[0] = 'x';
	share_file_close(file);
	is(share_map(f, page, 4096, 0, false), -EACCES, "and not when it is closed");
	syscall(SYS_setfsuid, geteuid());
	ok(page[0] == 'x', "what was mapped stays");
	munmap(page, 4096);
	share_put(f);
	need(unlinkat(place.dir, "shut", 0) == 0);
}

static void test_ioctl(struct share *s, struct share_inode *root, struct iothread *io)
{
	struct call c = {.verb = DO_IOCTL, .io = io};
	unsigned char arg[SHARE_IOCTL_MAX] = {0};
	struct fsxattr fsx = {0};
	struct share_inode *f, *l;
	struct share_file *file;
	int flags, nodump = FS_NODUMP_FL;

	(void)s;
	host_file(place.dir, "f", "");
	need(symlinkat("f", place.dir, "l") == 0);
	f = find(root, "f");
	l = find(root, "l");
	file = open_file(f, O_RDONLY);
	is(share_ioctl(f, file, 0x5401, arg, 0, 64), -ENOTTY, "a terminal's request is none");
	is(share_ioctl(f, file, FIONREAD, arg, 0, 4), -ENOTTY, "nor FIONREAD");
	is(share_ioctl(f, file, FICLONE, arg, 4, 0), -ENOTTY, "nor one that takes a descriptor");
	is(share_ioctl(l, NULL, FS_IOC_GETFLAGS, arg, 0, 4), -ENOTTY, "a link has no flags");
	c.inode = f;
	if (share_ioctl(f, file, FS_IOC_GETFLAGS, arg, 0, 4) == -ENOTTY) {
		skip("the file system has none, and says so", "flags on %s", place.base);
		goto out;
	}
	is(call(&c), 4, "flags are got under the filter, from what is not open");
	is(share_ioctl(f, file, FS_IOC_SETFLAGS, &nodump, 4, 0), 0, "flags are set");
	is(share_ioctl(f, NULL, FS_IOC_GETFLAGS, arg, 0, 4), 4, "and got");
	memcpy(&flags, arg, 4);
	is(flags & FS_NODUMP_FL, FS_NODUMP_FL, "as they were set");
	is(share_ioctl(f, file, FS_IOC32_GETFLAGS, arg, 0, 4), 4, "by a 32-bit program as well");
	memset(arg, 0, sizeof(arg));
	is(share_ioctl(f, file, FS_IOC_GETFLAGS, arg, 0, 8), 4,
	   "and where there is room for a long");
	memcpy(&flags, arg, 4);
	is(flags & FS_NODUMP_FL, FS_NODUMP_FL, "the same");
	memset(arg, 0, sizeof(arg));
	is(share_ioctl(f, file, FS_IOC32_SETFLAGS, arg, 4, 0), 0, "and cleared");
	is(share_ioctl(f, file, FS_IOC_SETFLAGS, arg, 2, 0), -EINVAL, "half an argument is none");
	is(share_ioctl(f, file, FS_IOC_GETFLAGS, arg, 0, 2), -EINVAL, "nor half a place for it");
	is(share_ioctl(root, NULL, FS_IOC_GETFLAGS, arg, 0, 4), 4, "a directory has them too");
	if (share_ioctl(f, file, FS_IOC_FSGETXATTR, &fsx, 0, sizeof(fsx)) == -ENOTTY) {
		skip("the file system has none", "extended flags on %s", place.base);
		goto out;
	}
	fsx.fsx_xflags |= FS_XFLAG_NODUMP;
	is(share_ioctl(f, NULL, FS_IOC_FSSETXATTR, &fsx, sizeof(fsx), 0), 0,
	   "extended flags are set");
	is(share_ioctl(f, NULL, FS_IOC_FSGETXATTR, &fsx, 0, sizeof(fsx)), sizeof(fsx), "and got");
	is(fsx.fsx_xflags & FS_XFLAG_NODUMP, FS_XFLAG_NODUMP, "as they were set");
	is(share_ioctl(f, NULL, FS_IOC_FSGETXATTR, &fsx, 0, sizeof(fsx) - 1), -EINVAL,
	   "in exactly their size");
	flags = FS_IMMUTABLE_FL;
	is(share_ioctl(f, NULL, FS_IOC_SETFLAGS, &flags, 4, 0), privileged ? 0 : -EPERM,
	   "who may make a file immutable is for the host to say");
	flags = 0;
	is(share_ioctl(f, NULL, FS_IOC_SETFLAGS, &flags, 4, 0), 0, "and the other way");
out:
	share_file_close(file);
	share_put(f);
	share_put(l);
}

/* ---- syncing ---- */

static void test_sync(struct share *s, struct share_inode *root, struct iothread *io)
{
	struct share_inode *l, *m = NULL, *in_m = NULL;
	char path[600];
	struct stat top, below;

	(void)s;
	need(symlinkat("x", place.dir, "l") == 0 && mkdirat(place.dir, "m", 0755) == 0);
	need(fstat(place.dir, &top) == 0);
	l = find(root, "l");
	is(do_sync(io, root, false), 0, "a file system is synced");
	ok(nsynced == 1 && synced[0] == top.st_dev, "once");
	is(do_sync(io, l, false), 0, "also from an object that cannot be opened");
	ok(nsynced == 1 && synced[0] == top.st_dev, "the same one");
	snprintf(path, sizeof(path), "%s/m", place.top);
	if (!own_mounts || mount("none", path, "tmpfs", 0, NULL)) {
		skip("needs root and mounts", "several file systems");
		share_put(l);
		return;
	}
	m = find(root, "m");
	host_file(place.dir, "m/f", "");
	in_m = find(m, "f");
	need(stat(path, &below) == 0);
	is(do_sync(io, in_m, false), 0, "one below it is synced");
	ok(nsynced == 1 && synced[0] == below.st_dev, "alone");
	is(do_sync(io, root, true), 0, "all are synced");
	ok(nsynced == 2 && ((synced[0] == top.st_dev && synced[1] == below.st_dev) ||
			    (synced[1] == top.st_dev && synced[0] == below.st_dev)),
	   "each once");
	sync_error = EIO;
	is(do_sync(io, root, true), -EIO, "an error is told");
	is(nsynced, 2, "after the others were synced too");
	sync_error = 0;
	share_put(in_m);
	share_put(m);
	share_put(l);
	need(umount(path) == 0);
}

/* ---- full, and too long ---- */

static void test_full(struct share *s, struct share_inode *root, struct iothread *io)
{
	struct share_inode *m, *f;
	struct share_file *file, *source;
	char path[600], *data;
	struct name n = nm("f");
	struct statx st;

	(void)s;
	need(mkdirat(place.dir, "m", 0755) == 0);
	snprintf(path, sizeof(path), "%s/m", place.top);
	if (!own_mounts || mount("none", path, "tmpfs", 0, "size=64k")) {
		skip("needs root and mounts", "a full file system");
		return;
	}
	data = calloc(1, 131072);
	need(data);
	m = find(root, "m");
	need(share_create(m, &n, O_RDWR, 0644, &ROOT, &f, &file, &st) == 0);
	is(do_write(io, file, data, 131072, 0), 65536, "what fits is written");
	is(do_write(io, file, data, 4096, 65536), -ENOSPC, "and then the guest is told");
	is(share_fallocate(file, 0, 0, 131072), -ENOSPC, "whatever it tries");
	source = open_file(f, O_RDONLY);
	is(do_copy(io, source, 0, file, 65536, 4096, NULL), -ENOSPC, "a copy too");
	share_file_close(source);
	share_file_close(file);
	share_put(f);
	share_put(m);
	free(data);
	need(umount(path) == 0);
}

/* ---- what is learnt of a file system ---- */

static void test_blunt(struct share *s, struct share_inode *root, struct iothread *io)
{
	struct share_inode *f;
	struct share_file *file;

	(void)io;
	host_file(place.dir, "f", "");
	f = find(root, "f");
	file = open_file(f, O_RDWR);
	ok(!file->io.no_nowait_read && !file->io.no_nowait_write, "the first file is asked");
	file->io.no_nowait_write = true; /* as loop_writev() finds out */
	share_file_close(file);
	file = open_file(f, O_RDWR);
	ok(!file->io.no_nowait_read && file->io.no_nowait_write,
	   "the next one is not asked whether a write would block");
	share_file_close(file);
	s->blunt.mnt++;
	file = open_file(f, O_RDWR);
	ok(!file->io.no_nowait_write, "a file of another mount is");
	file->io.no_nowait_read = true;
	share_file_close(file);
	ok(s->blunt.mnt == f->key.mnt && s->blunt.read && !s->blunt.write,
	   "and what was learnt of the other is forgotten");
	share_put(f);
}

/* In a process of its own, whose files may have 64 KiB. */
static int limited(enum loop_engine engine)
{
	const struct rlimit limit = {65536, 65536};
	struct share *s = place_open(&place, (struct share_config){.xattr = true});
	struct share_inode *root = share_root(s), *f = find(root, "f");
	struct share_file *file = open_file(f, O_RDWR), *ring = open_file(f, O_RDWR);
	struct call c = {.file = file, .len = 131072};
	char *data = calloc(1, 131072);
	int bad = 0;

	need(data && sandbox_init() == 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
	c.io = ride_begin(s, engine);
	if (!c.io)
		return 77;
	ring->io.no_nowait_write = true; /* not on the iothread itself */
	bad |= (do_write(c.io, file, data, 131072, 0) != 65536) << 0;
	bad |= (do_write(c.io, file, data, 1, 65536) != -EFBIG) << 1;
	bad |= (do_write(c.io, ring, data, 1, 65536) != -EFBIG) << 2;
	bad |= (do_copy(c.io, file, 0, file, 65536, 4096, NULL) != -EFBIG) << 3;
	c.verb = DO_FALLOCATE;
	bad |= (call(&c) != -EFBIG) << 4;
	c.verb = DO_SIZE;
	bad |= (call(&c) != -EFBIG) << 5;
	iothread_destroy(c.io);
	return bad;
}

static void test_limit(enum loop_engine engine)
{
	int status = -1;
	pid_t pid;

	host_file(place.dir, "f", "");
	fflush(stdout);
	pid = fork();
	need(pid >= 0);
	if (pid == 0)
		_exit(limited(engine));
	need(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip("the host refuses this engine", "a limit to the size of files");
	else
		is(status, 0, "beyond ulimit -f is EFBIG for the guest and no signal for us");
	host_clear(place.dir);
}

/* ---- read-only ---- */

static void test_readonly(void)
{
	struct share *s = place_open(&place, (struct share_config){.readonly = true});
	struct share_inode *root = share_root(s), *f;
	struct iothread *io = ride_begin(s, LOOP_EPOLL);
	struct share_file *file;
	unsigned char arg[SHARE_IOCTL_MAX] = {0};

	need(io);
	host_file(place.dir, "f", "12345");
	f = find(root, "f");
	file = open_file(f, O_RDONLY);
	is(do_copy(io, file, 0, file, 5, 5, NULL), -EROFS, "a read-only share is not copied to");
	is(share_fallocate(file, 0, 0, 10), -EROFS, "nor allocated");
	is(share_open_inode(f, O_RDONLY | O_TRUNC, &file), -EROFS, "nor truncated");
	is(share_ioctl(f, NULL, FS_IOC_SETFLAGS, arg, 4, 0), -EROFS, "its flags are not set");
	is(share_ioctl(f, NULL, FS_IOC32_SETFLAGS, arg, 4, 0), -EROFS, "by no program");
	is(share_ioctl(f, NULL, FS_IOC_FSSETXATTR, arg, sizeof(struct fsxattr), 0), -EROFS,
	   "nor in the other way");
	is(do_sync(io, root, true), 0, "but it is synced");
	is(size_of(f), 5, "and the file is as it was");
	share_file_close(file);
	share_put(f);
	share_put(root);
	iothread_destroy(io);
	share_close(s);
	host_clear(place.dir);
}

/* ---- the run ---- */

typedef void (*io_test)(struct share *, struct share_inode *root, struct iothread *);

static void run(io_test test, enum loop_engine engine)
{
	const unsigned before = open_fds();
	struct share *s = place_open(&place, (struct share_config){.xattr = true});
	struct share_inode *root = share_root(s);
	struct iothread *io = ride_begin(s, engine);

	if (io) {
		test(s, root, io);
		is(share_ninodes(s), 1, "nothing is left over");
	} else {
		skip("the host refuses this engine", "open files");
	}
	iothread_destroy(io);
	share_put(root);
	share_close(s);
	is(open_fds(), before, "nor any descriptor");
	host_clear(place.dir);
}

int main(void)
{
	static const io_test tests[] = {test_copy,  test_fallocate, test_far,   test_flags,
					test_times, test_map,       test_ioctl, test_sync,
					test_full,  test_blunt};
	const char *base;

	privileged = geteuid() == 0;
	own_mounts = privileged && unshare(CLONE_NEWNS) == 0 &&
		     mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	for (unsigned i = 0; (base = place_base(i)); i++) {
		if (!place_make(&place, base))
			continue;
		test_limit(LOOP_URING);
		test_limit(LOOP_EPOLL);
		place_end(&place);
	}
	need(sandbox_init() == 0);
	for (unsigned i = 0; (base = place_base(i)); i++) {
		if (!place_make(&place, base))
			continue;
		for (unsigned t = 0; t < ARRAY_LEN(tests); t++) {
			run(tests[t], LOOP_URING);
			run(tests[t], LOOP_EPOLL);
		}
		test_readonly();
		place_end(&place);
	}
	return done();
}
