// SPDX-License-Identifier: Apache-2.0
/*
 * t_disk.c - disk: what may be an image, its size and lock, and operations on both engines.
 */
#include "tap.h"
#include "../devices/disk.h"
#include "../vmm/log.h"
#include <fcntl.h>
#include <linux/loop.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[] = "/tmp/t_disk.XXXXXX";
static char path_buf[2][64];

static const char *in_dir(const char *name)
{
	static unsigned turn;
	char *p = path_buf[turn++ % 2];

	snprintf(p, sizeof(path_buf[0]), "%s/%s", dir, name);
	return p;
}

static const char *make_file(const char *name, off_t size)
{
	const char *p = in_dir(name);
	int fd = open(p, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	need(fd >= 0 && !ftruncate(fd, size));
	close(fd);
	return p;
}

/* disk_open() with what it logs. */
static int open_logged(struct disk *d, const char *path, bool readonly, char log[500])
{
	int saved = dup(STDERR_FILENO), fd = memfd_create("log", MFD_CLOEXEC), r;
	ssize_t n;

	need(saved >= 0 && fd >= 0);
	fflush(stderr);
	dup2(fd, STDERR_FILENO);
	r = disk_open(d, "blk0", path, readonly);
	dup2(saved, STDERR_FILENO);
	n = pread(fd, log, 499, 0);
	log[n > 0 ? n : 0] = 0;
	close(saved);
	close(fd);
	return r;
}

/* Refused with this error, in one line that has the path and the remedy. */
static void refused(const char *path, bool readonly, int err, const char *remedy, const char *what)
{
	struct disk d;
	char log[500];

	is(open_logged(&d, path, readonly, log), err, "%s is refused", what);
	ok(strstr(log, path) && strstr(log, remedy) && strchr(log, '\n') == strrchr(log, '\n'),
	   "in one line with its path and what to do");
	is(d.file.fd, -1, "and nothing stays open");
}

static void test_refused(void)
{
	need(!mkfifo(in_dir("fifo"), 0600));
	refused(in_dir("missing"), false, -ENOENT, "check path_on_host",
		"a file that is not there");
	refused(dir, false, -EISDIR, "share", "a directory");
	refused(dir, true, -EISDIR, "raw image", "a directory to be read only");
	refused(in_dir("fifo"), true, -EINVAL, "raw image",
		"a fifo, without waiting for its writer,");
	refused("/dev/zero", true, -EINVAL, "raw image", "a character device");
	refused(make_file("empty", 0), false, -EINVAL, "is empty: give it a size", "an empty file");
	refused(make_file("tiny", 511), true, -EINVAL,
		"is smaller than a sector of 512 bytes: give it a size",
		"one of less than a sector");
}

static void test_no_right(void)
{
	const char *path = make_file("locked", 4096), *secret = make_file("secret", 4096);
	int status;

	need(!chmod(path, 0444) && !chmod(secret, 0) && !chmod(dir, 0755));
	if (!fork()) {
		struct disk d;
		char log[500];
		bool good = true;

		if (!getuid() && (setgid(65534) || setuid(65534)))
			_exit(2);
		good &= open_logged(&d, path, false, log) == -EACCES && strstr(log, "is_read_only");
		good &= open_logged(&d, path, true, log) == 0;
		good &= open_logged(&d, secret, true, log) == -EACCES &&
			strstr(log, "right to read it") && !strstr(log, "is_read_only");
		_exit(!good);
	}
	need(wait(&status) > 0);
	is(status, 0,
	   "without the right to write it is refused, but for reading only it is not, unless that "
	   "right is missing too");
}

static void test_no_descriptor(void)
{
	const char *path = make_file("plain", 4096);
	struct rlimit old, none;
	char log[500];
	struct disk d;
	int saved = dup(STDERR_FILENO), fd = memfd_create("log", MFD_CLOEXEC), next = dup(0), r;

	need(saved >= 0 && fd >= 0 && next >= 0 && !getrlimit(RLIMIT_NOFILE, &old));
	close(next);
	none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = old.rlim_max};
	dup2(fd, STDERR_FILENO);
	need(!setrlimit(RLIMIT_NOFILE, &none));
	r = disk_open(&d, "blk0", path, true);
	need(!setrlimit(RLIMIT_NOFILE, &old));
	dup2(saved, STDERR_FILENO);
	log[MAX(pread(fd, log, sizeof(log) - 1, 0), (ssize_t)0)] = 0;
	close(saved);
	close(fd);
	is(r, -EMFILE, "without a descriptor it is refused");
	ok(strstr(log, "(raise ulimit -n): Too many open files\n"), "with the remedy for that");
}

static void test_size(void)
{
	struct disk d;
	char log[500];

	is(open_logged(&d, make_file("even", 4096), false, log), 0,
	   "a file of whole sectors is taken");
	is(d.size, 4096, "with its size");
	is(d.block_size, 512, "and blocks of 512 bytes");
	ok(!log[0] && !d.is_blockdev && !d.readonly, "without a word");
	is(fcntl(d.file.fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_RDWR,
	   "it is open for writing, and blocking");
	is(fcntl(d.file.fd, F_GETFD), FD_CLOEXEC, "and closed in programs that are started");
	disk_close(&d);
	is(open_logged(&d, make_file("odd", 1000), true, log), 0, "a file of 1000 bytes is taken");
	is(d.size, 512, "but only its whole sector is shown");
	ok(strstr(log, "488 bytes") && strstr(log, "warning"), "which is said");
	is(fcntl(d.file.fd, F_GETFL) & O_ACCMODE, O_RDONLY, "for reading only it is opened so");
	disk_close(&d);
	disk_close(&d);
	is(d.file.fd, -1, "closing twice is fine");
}

static void test_lock(void)
{
	const char *path = make_file("image", 4096);
	struct disk a, b;
	char log[500];

	need(!open_logged(&a, path, false, log));
	is(open_logged(&b, path, false, log), -EBUSY,
	   "an image that is being written is not opened twice");
	ok(strstr(log, path) && strstr(log, "in use by another process"),
	   "and the reason is given");
	is(open_logged(&b, path, true, log), -EBUSY, "not even to be read");
	disk_close(&a);
	need(!open_logged(&a, path, true, log));
	is(open_logged(&b, path, true, log), 0, "two readers may share it");
	disk_close(&b);
	is(open_logged(&b, path, false, log), -EBUSY, "but a writer has to wait for them");
	disk_close(&a);
	is(open_logged(&b, path, false, log), 0, "once it is closed it is free");
	disk_close(&b);
}

static void test_blockdev(void)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), file, loop = -1, n;
	char path[32], log[500];
	struct disk d;

	n = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	snprintf(path, sizeof(path), "/dev/loop%d", n);
	if (n >= 0)
		loop = open(path, O_RDWR | O_CLOEXEC);
	file = open(make_file("backing", 8192), O_RDWR | O_CLOEXEC);
	need(file >= 0);
	if (loop < 0 || ioctl(loop, LOOP_SET_FD, file)) {
		skip(strerror(errno), "a block device is an image");
	} else {
		is(open_logged(&d, path, false, log), 0, "a block device is an image");
		ok(d.is_blockdev && d.size == 8192 && d.block_size >= 512, "of its own size");
		disk_close(&d);
		ioctl(loop, LOOP_CLR_FD);
	}
	close(file);
	close(loop);
	close(control);
}

/* ---- operations ---- */

struct call {
	struct disk *disk;
	struct iothread *io;
	struct io_op op;
	struct iovec iov[3];
	char kind;
	uint64_t off;
	int res;
	sem_t done;
};

static void call_done(struct io_op *op, int res)
{
	struct call *c = container_of(op, struct call, op);

	c->res = res;
	sem_post(&c->done);
}

static void call_begin(void *arg)
{
	struct call *c = arg;
	int r;

	if (c->kind == 'r')
		r = disk_readv(c->disk, c->io, &c->op, c->iov, 3, c->off);
	else if (c->kind == 'w')
		r = disk_writev(c->disk, c->io, &c->op, c->iov, 3, c->off);
	else
		r = disk_flush(c->disk, c->io, &c->op);
	if (r != -EINPROGRESS)
		call_done(&c->op, r);
}

/* A transfer of 3 pieces of buf, or a flush; waits for its result. */
static int run(struct disk *d, struct iothread *io, char kind, char *buf, uint64_t off)
{
	struct call c = {.disk = d, .io = io, .kind = kind, .off = off, .op.done = call_done};

	c.iov[0] = (struct iovec){buf, 100};
	c.iov[1] = (struct iovec){buf + 100, 3000};
	c.iov[2] = (struct iovec){buf + 3100, 996};
	sem_init(&c.done, 0, 0);
	loop_call(io, call_begin, &c);
	sem_wait(&c.done);
	sem_destroy(&c.done);
	return c.res;
}

static void test_io(enum loop_engine engine, const char *name)
{
	const char *path = make_file("data", 16384);
	char out[4096], in[4096], log[500];
	struct iothread *io = NULL;
	struct disk d;
	int fd;

	if (iothread_create(&io, "t_disk", engine, 8, NULL)) {
		skip("the host refuses it", "operations on %s", name);
		return;
	}
	need(!iothread_start(io, NULL, NULL));
	need(!open_logged(&d, path, false, log));
	for (unsigned i = 0; i < sizeof(out); i++)
		out[i] = (char)(i * 7);
	is(run(&d, io, 'w', out, 8192), 4096, "%s: a write in three pieces is whole", name);
	is(run(&d, io, 'f', out, 0), 0, "%s: a flush succeeds", name);
	memset(in, 0, sizeof(in));
	is(run(&d, io, 'r', in, 8192), 4096, "%s: so is a read", name);
	ok(!memcmp(in, out, sizeof(in)), "%s: and has what was written", name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	need(fd >= 0);
	ok(pread(fd, in, 4096, 8192) == 4096 && !memcmp(in, out, 4096), "%s: so has the file",
	   name);
	need(!ftruncate(fd, 8192 + 1000));
	is(run(&d, io, 'r', in, 8192), 1000, "%s: a file that shrank gives what is left", name);
	close(fd);
	disk_close(&d);
	need(!open_logged(&d, path, true, log));
	is(run(&d, io, 'w', out, 0), -EBADF, "%s: an image that is only read cannot be written",
	   name);
	disk_close(&d);
	iothread_destroy(io);
}

int main(void)
{
	char cmd[64];

	need(mkdtemp(dir));
	test_refused();
	test_no_right();
	test_no_descriptor();
	test_size();
	test_lock();
	test_blockdev();
	test_io(LOOP_URING, "io_uring");
	test_io(LOOP_EPOLL, "epoll");
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	need(!system(cmd));
	return done();
}
