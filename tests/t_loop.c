// SPDX-License-Identifier: Apache-2.0
/*
 * t_loop.c - the iothread, each test on both engines: kicks, work, watches, file operations,
 * offloads, the end.
 *
 * All threads run under their filters, so a system call missing from the loop's lists fails here
 * too.
 */
#include "../vmm/loop_int.h"
#include "../vmm/sandbox.h"
#include "tap.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static enum loop_engine engine;
static const char *engine_name;

static struct iothread *thread_with(unsigned depth, const struct syscalls *syscalls)
{
	struct iothread *io = NULL;

	need(iothread_create(&io, "tloop", engine, depth, syscalls) == 0);
	need(iothread_start(io, NULL, NULL) == 0);
	return io;
}

static struct iothread *thread(void)
{
	return thread_with(64, NULL);
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

static void nothing(void *arg)
{
	(void)arg;
}

/*
 * Two round trips: what was queued in the turn of the first has been submitted, and its events
 * seen, by the second.
 */
static void settle(struct iothread *io)
{
	loop_call(io, nothing, NULL);
	loop_call(io, nothing, NULL);
}

/* ---- life ---- */

static int init_fails(void *arg)
{
	*(pthread_t *)arg = pthread_self();
	return -EDOM;
}

static int init_looks(void *arg)
{
	*(bool *)arg = iothread_current(*(struct iothread **)((char *)arg + sizeof(void *)));
	return 0;
}

static void test_life(void)
{
	struct iothread *io = NULL;
	struct {
		bool current;
		struct iothread *io;
	} seen = {0};
	pthread_t who = pthread_self();

	iothread_destroy(NULL);
	need(iothread_create(&io, "idle", engine, 8, NULL) == 0);
	ok(!strcmp(iothread_engine(io), engine_name), "the engine asked for is the engine used");
	iothread_destroy(io);
	ok(1, "an iothread that never ran is destroyed");

	need(iothread_create(&io, "fails", engine, 8, NULL) == 0);
	is(iothread_start(io, init_fails, &who), -EDOM, "what init returns is what start returns");
	ok(!pthread_equal(who, pthread_self()), "init runs on the new thread");
	iothread_destroy(io);

	need(iothread_create(&io, "a-name-that-is-much-too-long-for-a-thread", engine, 0, NULL) ==
	     0);
	seen.io = io;
	is(iothread_start(io, init_looks, &seen), 0, "a long name and a depth of 0 are taken");
	ok(seen.current, "in init the thread is the iothread");
	ok(!iothread_current(io), "outside it is not");
	iothread_destroy(io);
}

/* ---- work ---- */

#define POSTERS 4
#define POSTS   2000

struct posted {
	struct loop_work work;
	unsigned poster, n;
	struct posting *all;
};
struct posting {
	struct iothread *io;
	struct posted items[POSTERS][POSTS];
	unsigned next[POSTERS], wrong, total;
	unsigned poster; /* atomic: hands out numbers */
};

static void posted_run(struct loop_work *w)
{
	struct posted *p = container_of(w, struct posted, work);

	p->all->wrong += p->n != p->all->next[p->poster] || !iothread_current(p->all->io);
	p->all->next[p->poster]++;
	p->all->total++;
}

static void *poster(void *arg)
{
	struct posting *all = arg;
	unsigned me = __atomic_fetch_add(&all->poster, 1, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < POSTS; i++) {
		all->items[me][i] = (struct posted){{.fn = posted_run}, me, i, all};
		loop_post(all->io, &all->items[me][i].work);
	}
	return NULL;
}

static void test_posts(void)
{
	struct posting *all = calloc(1, sizeof(*all));
	pthread_t threads[POSTERS];

	need(all);
	all->io = thread();
	for (unsigned i = 0; i < POSTERS; i++)
		need(!pthread_create(&threads[i], NULL, poster, all));
	for (unsigned i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
	iothread_destroy(all->io);
	is(all->total, POSTERS * POSTS, "work of four threads runs, all of it before the end");
	is(all->wrong, 0, "each thread's work runs in the order of posting, on the iothread");
	free(all);
}

struct relay {
	struct loop_work work;
	struct iothread *io;
	unsigned left;
	sem_t end;
};

static void relay_run(struct loop_work *w)
{
	struct relay *r = container_of(w, struct relay, work);

	if (r->left--)
		loop_post(r->io, w);
	else
		sem_post(&r->end);
}

static void relay_stop(void *arg)
{
	((struct relay *)arg)->left = 0;
}

static void count_up(void *arg)
{
	++*(unsigned *)arg;
}

static void test_calls(void)
{
	struct relay r = {.work.fn = relay_run, .io = thread(), .left = 1000};
	unsigned n = 0;

	for (unsigned i = 0; i < 500; i++)
		loop_call(r.io, count_up, &n);
	is(n, 500, "a call has returned when loop_call returns");
	sem_init(&r.end, 0, 0);
	loop_post(r.io, &r.work);
	wait_for(&r.end);
	ok(1, "the iothread posts to itself, again and again, and never sleeps over it");
	r.left = UINT_MAX;
	loop_post(r.io, &r.work);
	loop_call(r.io, count_up, &n);
	is(n, 501, "work that posts itself for ever does not keep out others");
	loop_call(r.io, relay_stop, &r);
	wait_for(&r.end);
	iothread_destroy(r.io);
	sem_destroy(&r.end);
}

/* ---- watches ---- */

struct eye {
	struct watch watch;
	struct iothread *io;
	unsigned calls, calls_left;
	struct eye *shuts; /* to unwatch from ready() */
	sem_t seen;
	int err;
};

static void eye_ready(struct watch *w)
{
	struct eye *e = container_of(w, struct eye, watch);

	e->calls++;
	if (e->shuts)
		loop_unwatch(e->io, &e->shuts->watch);
	sem_post(&e->seen);
}

static void eye_open(void *arg)
{
	struct eye *e = arg;

	e->err = loop_watch(e->io, &e->watch);
}

static void eye_shut(void *arg)
{
	struct eye *e = arg;

	loop_unwatch(e->io, &e->watch);
}

static void eye_init(struct eye *e, struct iothread *io, int fd, enum watch_kind kind)
{
	*e = (struct eye){.watch = {.fd = fd, .kind = kind, .ready = eye_ready}, .io = io};
	sem_init(&e->seen, 0, 0);
}

static void kick(int fd)
{
	need(write(fd, &(uint64_t){1}, 8) == 8);
}

static void test_kicks(void)
{
	struct iothread *io = thread();
	auto_fd fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct eye e;

	eye_init(&e, io, fd, WATCH_EVENTFD);
	loop_call(io, eye_open, &e);
	is(e.err, 0, "an eventfd is watched");
	loop_call(io, eye_open, &e);
	is(e.err, -EEXIST, "a second time it is refused");
	for (unsigned i = 0; i < 200; i++) {
		kick(fd);
		wait_for(&e.seen);
	}
	settle(io);
	is(e.calls, 200, "each of 200 kicks, one at a time, is one call");

	loop_call(io, eye_shut, &e);
	loop_call(io, eye_shut, &e);
	e.calls = 0;
	for (unsigned i = 0; i < 50; i++)
		kick(fd);
	settle(io);
	is(e.calls, 0, "after loop_unwatch, twice, there are no calls");
	loop_call(io, eye_open, &e);
	wait_for(&e.seen);
	settle(io);
	is(e.calls, 1, "50 kicks that waited for the watch are one call");
	is(read(fd, &(uint64_t){0}, 8), -1, "and the counter is empty");
	iothread_destroy(io);

	eye_init(&e, io, -1, WATCH_EVENTFD);
	io = e.io = thread();
	loop_call(io, eye_open, &e);
	is(e.err, -EBADF, "a descriptor that is not open is refused at once");
	iothread_destroy(io);
}

/* A kick that came with the watch and was perhaps read already when the watch ended. */
static void open_and_shut(void *arg)
{
	struct eye *e = arg;

	kick(e->watch.fd);
	e->err = loop_watch(e->io, &e->watch);
	loop_unwatch(e->io, &e->watch);
}

static void test_kick_kept(void)
{
	struct iothread *io = thread();
	auto_fd fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct eye e;

	eye_init(&e, io, fd, WATCH_EVENTFD);
	loop_call(io, open_and_shut, &e);
	settle(io);
	is(e.calls, 0, "a watch that ends in the turn it began is never called");
	loop_call(io, eye_open, &e);
	wait_for(&e.seen);
	is(e.calls, 1, "the kick stays for who watches next");
	iothread_destroy(io);
}

static int watch_early(void *arg)
{
	struct eye *e = arg;

	return loop_watch(e->io, &e->watch);
}

static void test_watch_before_start(void)
{
	struct iothread *io = NULL;
	auto_fd fd1 = eventfd(1, EFD_CLOEXEC), fd2 = eventfd(1, EFD_CLOEXEC),
		fd3 = eventfd(1, EFD_CLOEXEC);
	struct eye a, b, c;

	need(iothread_create(&io, "early", engine, 8, NULL) == 0);
	eye_init(&a, io, fd1, WATCH_EVENTFD);
	eye_init(&b, io, fd2, WATCH_EVENTFD);
	eye_init(&c, io, fd3, WATCH_EVENTFD);
	need(loop_watch(io, &a.watch) == 0 && loop_watch(io, &c.watch) == 0);
	loop_unwatch(io, &c.watch);
	need(iothread_start(io, watch_early, &b) == 0);
	wait_for(&a.seen);
	wait_for(&b.seen);
	settle(io);
	ok(a.calls == 1 && b.calls == 1 && !c.calls,
	   "watches from before the start and from init see their (blocking) eventfd");
	iothread_destroy(io);
	ok(!a.watch.slot && !b.watch.slot, "the end unwatches what is left");
}

static void test_levels(void)
{
	struct iothread *io = thread();
	struct eye rd, wr;
	int s[2];

	need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s));
	eye_init(&rd, io, s[0], WATCH_READABLE);
	loop_call(io, eye_open, &rd);
	settle(io);
	is(sem_trywait(&rd.seen), -1, "a silent socket is not readable");
	need(write(s[1], "x", 1) == 1);
	for (unsigned i = 0; i < 10; i++)
		wait_for(&rd.seen);
	ok(1, "one that is not read stays readable: ready() is called again and again");
	loop_call(io, eye_shut, &rd);
	need(read(s[0], &(char){0}, 1) == 1);

	eye_init(&wr, io, s[0], WATCH_WRITABLE);
	wr.shuts = &wr;
	loop_call(io, eye_open, &wr);
	wait_for(&wr.seen);
	settle(io);
	is(wr.calls, 1, "unwatched inside its own ready(), a writable socket is called for once");

	eye_init(&rd, io, s[0], WATCH_READABLE);
	rd.shuts = &rd;
	loop_call(io, eye_open, &rd);
	close(s[1]);
	wait_for(&rd.seen);
	ok(1, "the end of a stream is readable");
	iothread_destroy(io);
	close(s[0]);
}

/* Two watches that are ready in the same turn and end each other: only one may be called. */
static void kick_both(void *arg)
{
	struct eye *pair = arg;

	for (unsigned i = 0; i < 2; i++) {
		need(loop_watch(pair[i].io, &pair[i].watch) == 0);
		kick(pair[i].watch.fd);
	}
}

static void test_unwatch_other(void)
{
	struct iothread *io = thread();
	auto_fd fd1 = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
		fd2 = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct eye pair[2];
	unsigned both = 0;

	for (unsigned i = 0; i < 100; i++) {
		eye_init(&pair[0], io, fd1, WATCH_EVENTFD);
		eye_init(&pair[1], io, fd2, WATCH_EVENTFD);
		pair[0].shuts = &pair[1];
		pair[1].shuts = &pair[0];
		loop_call(io, kick_both, pair);
		settle(io);
		both += pair[0].calls + pair[1].calls != 1;
		loop_call(io, eye_shut, &pair[0]);
		loop_call(io, eye_shut, &pair[1]);
		(void)!read(fd1, &(uint64_t){0}, 8);
		(void)!read(fd2, &(uint64_t){0}, 8);
	}
	is(both, 0, "a watch ended by another in the same turn is not called");
	iothread_destroy(io);
}

#define EYES 100

static void eyes_open(void *arg)
{
	struct eye *eyes = arg;

	for (unsigned i = 0; i < EYES; i++)
		eye_open(&eyes[i]);
}

static void eyes_shut(void *arg)
{
	struct eye *eyes = arg;

	for (unsigned i = 0; i < EYES; i++)
		eye_shut(&eyes[i]);
}

/* More watches than the ring has room for, and more events than one wait reports. */
static void test_many_watches(void)
{
	struct iothread *io = thread_with(1, NULL);
	struct eye *eyes = calloc(EYES, sizeof(*eyes));
	unsigned wrong = 0;

	need(eyes);
	for (unsigned i = 0; i < EYES; i++)
		eye_init(&eyes[i], io, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), WATCH_EVENTFD);
	loop_call(io, eyes_open, eyes);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < EYES; i++)
			kick(eyes[i].watch.fd);
		for (unsigned i = 0; i < EYES; i++)
			wait_for(&eyes[i].seen);
	}
	loop_call(io, eyes_shut, eyes);
	for (unsigned i = 0; i < EYES; i++) {
		wrong += eyes[i].err || eyes[i].calls != 10;
		close(eyes[i].watch.fd);
	}
	is(wrong, 0, "a hundred watches with a depth of 1 are each called for every kick");
	iothread_destroy(io);
	free(eyes);
}

/* ---- files ---- */

struct req {
	struct io_op op;
	struct iothread *io;
	struct io_file *file;
	struct iovec *iov;
	unsigned niov;
	uint64_t off;
	bool write, data_only;
	int now, res; /* what the call returned; what done() was given */
	unsigned dones;
	bool inside; /* the call that submits is running */
	bool done_inside;
	sem_t end;
};

static void req_done(struct io_op *op, int res)
{
	struct req *r = container_of(op, struct req, op);

	r->res = res;
	r->dones++;
	r->done_inside |= r->inside;
	sem_post(&r->end);
}

static void req_rw(void *arg)
{
	struct req *r = arg;

	r->op.done = req_done;
	r->inside = true;
	r->now = r->write ? loop_writev(r->io, &r->op, r->file, r->iov, r->niov, r->off)
			  : loop_readv(r->io, &r->op, r->file, r->iov, r->niov, r->off);
	r->inside = false;
}

static void req_fsync(void *arg)
{
	struct req *r = arg;

	r->op.done = req_done;
	r->now = loop_fsync(r->io, &r->op, r->file, r->data_only);
}

/* Runs it to its end; the result, however it came. */
static int finish(struct req *r, void (*begin)(void *))
{
	sem_init(&r->end, 0, 0);
	r->dones = 0;
	loop_call(r->io, begin, r);
	if (r->now == -EINPROGRESS)
		wait_for(&r->end);
	return r->now == -EINPROGRESS ? r->res : r->now;
}

static int rw(struct iothread *io, struct io_file *file, bool write, void *buf, size_t n,
	      uint64_t off)
{
	struct iovec iov = {buf, n};
	struct req r = {.io = io, .file = file, .iov = &iov, .niov = 1, .off = off, .write = write};
	int res = finish(&r, req_rw);

	need(r.dones == (r.now == -EINPROGRESS) && !r.done_inside);
	return res;
}

#define FILE_SIZE 1000000

static unsigned char byte_at(size_t off)
{
	return (unsigned char)(off * 2654435761u >> 13);
}

static bool right(const unsigned char *p, size_t n, size_t off)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte_at(off + i))
			return false;
	return true;
}

static unsigned char *pattern(size_t n)
{
	unsigned char *p = malloc(n);

	need(p);
	for (size_t i = 0; i < n; i++)
		p[i] = byte_at(i);
	return p;
}

static int file_new(int flags, size_t size)
{
	char path[] = "/var/tmp/t_loop.XXXXXX";
	int fd = mkostemp(path, flags);
	unsigned char *p = pattern(size);

	need(fd >= 0);
	unlink(path);
	need(!size || write(fd, p, size) == (ssize_t)size);
	free(p);
	return fd;
}

/* One that is never read or written at once. */
static struct io_file slow_file(int fd)
{
	const struct io_pace never = {.away = IO_PACE_NEVER};

	return (struct io_file){.fd = fd,
				.no_nowait_read = true,
				.no_nowait_write = true,
				.read_pace = never,
				.write_pace = never};
}

static void test_cached(void)
{
	struct iothread *io = thread();
	auto_fd fd = file_new(0, FILE_SIZE);
	struct io_file file = {.fd = fd};
	unsigned char *buf = calloc(2, FILE_SIZE);
	struct iovec iov = {buf, 4096};
	struct req r = {.io = io, .file = &file, .iov = &iov, .niov = 1, .off = 8192};

	is(finish(&r, req_rw), 4096, "a cached page is read");
	is(r.now, 4096, "at once: done is not called");
	settle(io);
	is(r.dones, 0, "nor later");
	ok(right(buf, 4096, 8192), "its bytes are right");
	is(rw(io, &file, false, buf, (size_t)2 * FILE_SIZE, 0), FILE_SIZE,
	   "a read over the end is short");
	ok(right(buf, FILE_SIZE, 0), "and right up to the end");
	is(rw(io, &file, false, buf, 100, FILE_SIZE), 0, "at the end it returns 0");
	is(rw(io, &file, false, buf, 100, FILE_SIZE * 9ull), 0, "and past it");
	is(rw(io, &file, false, buf, 0, 0), 0, "a read of nothing is 0");
	free(buf);
	iothread_destroy(io);
}

/* Past the page cache: the answer comes from the disk, so it cannot come at once. */
static void test_uncached(void)
{
	struct iothread *io = thread();
	auto_fd fd = file_new(0, FILE_SIZE);
	struct io_file file = {.fd = fd};
	unsigned char *buf = calloc(1, FILE_SIZE);
	struct iovec iov = {buf, FILE_SIZE};
	struct req r = {.io = io, .file = &file, .iov = &iov, .niov = 1};

	need(!fsync(fd) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	is(finish(&r, req_rw), FILE_SIZE, "a file that is not cached is read");
	is(r.now, -EINPROGRESS, "later: done is called");
	ok(r.dones == 1 && !r.done_inside, "once, and not inside the call");
	ok(right(buf, FILE_SIZE, 0), "its bytes are right");

	/* The middle only is cached: what is there and what is not are put together. */
	need(!posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	need(!posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
	need(pread(fd, buf, 65536, 0) == 65536);
	memset(buf, 0, FILE_SIZE);
	is(rw(io, &file, false, buf, FILE_SIZE, 0), FILE_SIZE, "a file half in the cache is read");
	ok(right(buf, FILE_SIZE, 0), "its bytes are right");
	free(buf);
	iothread_destroy(io);
}

static void test_writes(void)
{
	struct iothread *io = thread();
	auto_fd fd = file_new(0, 0);
	struct io_file file = {.fd = fd};
	unsigned char *out = pattern(FILE_SIZE), *in = calloc(1, FILE_SIZE);
	struct req r = {.io = io, .file = &file};

	is(rw(io, &file, true, out + 5000, FILE_SIZE - 5000, 5000), FILE_SIZE - 5000,
	   "a file is written");
	is(rw(io, &file, true, out, 5000, 0), 5000, "and its beginning");
	is(finish(&r, req_fsync), 0, "fsync");
	is(r.now, -EINPROGRESS, "is never at once");
	r.data_only = true;
	is(finish(&r, req_fsync), 0, "fdatasync");
	need(pread(fd, in, FILE_SIZE, 0) == FILE_SIZE);
	ok(right(in, FILE_SIZE, 0), "what was written is there");
	is(lseek(fd, 0, SEEK_CUR), 0, "the file position has not moved");
	free(in);
	free(out);
	iothread_destroy(io);
}

static void test_direct(void)
{
	struct iothread *io = thread();
	auto_fd fd = file_new(0, 65536 + 512);
	auto_fd direct = -1;
	struct io_file file;
	char path[64];
	void *buf = NULL;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	need(!fsync(fd));
	direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (direct < 0) {
		skip(strerror(errno), "%s: O_DIRECT", engine_name);
		iothread_destroy(io);
		return;
	}
	need(!posix_memalign(&buf, 4096, 131072));
	file = (struct io_file){.fd = direct};
	is(rw(io, &file, false, buf, 65536, 0), 65536, "O_DIRECT: a read");
	ok(right(buf, 65536, 0), "its bytes are right");
	is(rw(io, &file, false, buf, 131072, 0), 65536 + 512,
	   "O_DIRECT: a read over the end is short");
	is(rw(io, &file, true, buf, 4096, 0), 4096, "O_DIRECT: a write");
	is(rw(io, &file, false, (char *)buf + 1, 4096, 1), -EINVAL,
	   "O_DIRECT: what is not aligned is refused");
	free(buf);
	iothread_destroy(io);
}

#define MANY 1500

/* Hard case A27: more iovecs than one call takes, of odd lengths, empty ones among them. */
static void test_many_iovecs(bool cached)
{
	struct iothread *io = thread();
	auto_fd fd = file_new(0, 0), from = file_new(0, 2 * MANY * 7);
	struct io_file file = {.fd = fd}, source = {.fd = from};
	unsigned char *out = pattern(MANY * 7), *in = calloc(1, MANY * 7);
	struct iovec iov[MANY];
	struct req r = {.io = io, .file = &file, .iov = iov, .niov = MANY, .write = true};
	size_t total = 0;

	for (size_t i = 0; i < MANY; i++) {
		iov[i] = (struct iovec){out + total, i % 8};
		total += i % 8;
	}
	is(finish(&r, req_rw), total, "1500 iovecs are written whole");
	need(pread(fd, in, MANY * 7, 0) == (ssize_t)total);
	ok(right(in, total, 0), "no byte of them twice or missing");

	need(cached || (!fsync(from) && !posix_fadvise(from, 0, 0, POSIX_FADV_DONTNEED)));
	memset(in, 0, MANY * 7);
	for (size_t i = 0, at = 0; i < MANY; at += i++ % 8)
		iov[i] = (struct iovec){in + at, i % 8};
	r = (struct req){.io = io, .file = &source, .iov = iov, .niov = MANY, .off = 11};
	is(finish(&r, req_rw), total, "1500 iovecs are read whole, %s",
	   cached ? "cached" : "from the disk");
	ok(right(in, total, 11), "no byte of them twice or missing");

	/* A thousand and more empty ones first: the end of the file must not be seen in them. */
	memset(iov, 0, sizeof(iov));
	iov[MANY - 1] = (struct iovec){in, 100};
	r = (struct req){.io = io, .file = &source, .iov = iov, .niov = MANY};
	is(finish(&r, req_rw), 100, "empty iovecs are not the end of the file");
	free(out);
	free(in);
	iothread_destroy(io);
}

static void test_short_write(void)
{
	struct iothread *io = thread();
	auto_fd fd = file_new(0, 0);
	struct io_file file = {.fd = fd};
	struct rlimit old, small;
	unsigned char *out = pattern(65536);

	need(!getrlimit(RLIMIT_FSIZE, &old));
	small = (struct rlimit){.rlim_cur = 10000, .rlim_max = old.rlim_max};
	need(!setrlimit(RLIMIT_FSIZE, &small));
	is(rw(io, &file, true, out, 65536, 0), 10000,
	   "a write that meets a limit returns what went in");
	is(rw(io, &file, true, out, 4096, 10000), -EFBIG, "the next one meets the error");
	need(!setrlimit(RLIMIT_FSIZE, &old));
	free(out);
	iothread_destroy(io);
}

static void test_bad_files(void)
{
	struct iothread *io = thread();
	auto_fd fd = file_new(0, 100);
	struct io_file file = {.fd = fd}, bad = {.fd = 1000000};
	struct req r = {.io = io, .file = &bad};
	char buf[100];
	struct iovec huge[2] = {{buf, INT_MAX}, {buf, 1}};

	is(rw(io, &bad, false, buf, 10, 0), -EBADF, "reading a bad descriptor is EBADF");
	is(rw(io, &bad, true, buf, 10, 0), -EBADF, "and writing");
	is(finish(&r, req_fsync), -EBADF, "and fsync");
	need(lseek(fd, 50, SEEK_SET) == 50);
	is(rw(io, &file, false, buf, 10, UINT64_MAX), -EINVAL,
	   "offset -1 is not taken for the file position");
	is(rw(io, &file, true, buf, 10, UINT64_MAX), -EINVAL, "nor in a write");
	is(rw(io, &file, false, buf, 10, INT64_MAX - 5), -EINVAL, "an end beyond 2^63 is refused");
	is(lseek(fd, 0, SEEK_CUR), 50, "and the position stays");
	r = (struct req){.io = io, .file = &file, .iov = huge, .niov = 2};
	is(finish(&r, req_rw), -EINVAL, "more bytes than an int counts are refused");
	huge[0].iov_len = SIZE_MAX;
	is(finish(&r, req_rw), -EINVAL, "and lengths that overflow");
	iothread_destroy(io);
}

/* The learnt flags: a file that cannot answer at once is not asked again. */
static void test_flags(void)
{
	struct iothread *io = thread();
	auto_fd fd = file_new(O_NONBLOCK, FILE_SIZE);
	struct io_file file = slow_file(fd);
	unsigned char *buf = calloc(1, FILE_SIZE);
	struct iovec iov = {buf, FILE_SIZE};
	struct req r = {.io = io, .file = &file, .iov = &iov, .niov = 1};

	is(finish(&r, req_rw), FILE_SIZE, "a file that cannot answer at once is read all the same");
	is(r.now, -EINPROGRESS, "without being asked to");
	ok(right(buf, FILE_SIZE, 0), "its bytes are right");
	is(rw(io, &file, true, buf, 5000, 7), 5000, "and written");
	free(buf);
	iothread_destroy(io);
}

/* A file system that cannot tell whether a call would block: it is made, as long as that was quick. */
static void test_at_once(bool write)
{
	struct iothread *io = thread();
	auto_fd fd = file_new(0, FILE_SIZE);
	struct io_file file = {.fd = fd, .no_nowait_read = true, .no_nowait_write = true};
	struct io_pace *pace = write ? &file.write_pace : &file.read_pace;
	const char *what = write ? "write" : "read";
	unsigned char *buf = pattern(FILE_SIZE);
	struct iovec iov[2] = {{buf, 1000}, {buf + 1000, 3096}};
	struct req r = {.io = io, .file = &file, .iov = iov, .niov = 2, .write = write};
	unsigned later = 0;

	is(finish(&r, req_rw), 4096, "a %s that cannot be tried is made all the same", what);
	ok(r.now == 4096 || pace->away, "at once, or it was slow");
	ok(right(buf, 4096, 0), "its bytes are right");
	iov[0] = (struct iovec){buf, 600000};
	r.niov = 1;
	is(finish(&r, req_rw), 600000, "a large %s", what);
	is(r.now, -EINPROGRESS, "is not made here");
	*pace = (struct io_pace){.away = 5, .span = 16};
	for (unsigned i = 0; i < 5; i++) {
		iov[0] = (struct iovec){buf, 4096};
		need(finish(&r, req_rw) == 4096);
		later += r.now == -EINPROGRESS;
	}
	is(later, 5, "after a slow %s the next ones are not either", what);
	iov[0] = (struct iovec){buf, 4096};
	is(finish(&r, req_rw), 4096, "then one is again");
	ok((r.now == 4096 && pace->span == 8) || pace->away, "at once, or it was slow");
	free(buf);
	iothread_destroy(io);
}

static void test_pace(void)
{
	struct io_pace p = {0};
	unsigned last = 0, grown = 0;

	pace_learn(&p, false);
	ok(!p.away && !p.span, "a quick call changes nothing");
	for (;; grown++) {
		pace_learn(&p, true);
		if (p.away <= last)
			break;
		last = p.away;
	}
	ok(last == 256 && grown == 5, "slow ones send ever more away, up to 256");
	p.away = 0;
	for (unsigned i = 0; i < 9; i++)
		pace_learn(&p, false);
	ok(!p.span && !p.away, "quick ones make them fewer again");
	pace_learn(&p, true);
	is(p.away, 16, "and it begins anew");
}

#define SHARED 3000

struct sharer {
	struct iothread *io;
	struct io_file *file;
	pthread_t thread;
	size_t at;
	unsigned wrong;
};

static void *share_file(void *arg)
{
	struct sharer *s = arg;
	unsigned char out[64], in[64];

	for (unsigned i = 0; i < SHARED; i++) {
		uint64_t off = s->at + i % 64 * sizeof(out);

		memset(out, (int)i, sizeof(out));
		s->wrong += rw(s->io, s->file, true, out, sizeof(out), off) != sizeof(out);
		s->wrong += rw(s->io, s->file, false, in, sizeof(in), off) != sizeof(in);
		s->wrong += memcmp(in, out, sizeof(in)) != 0;
	}
	return NULL;
}

/* What is learnt of a file is learnt by all who use it: for the thread sanitizer. */
static void test_shared_file(void)
{
	auto_fd fd = file_new(0, 0);
	struct io_file file = {.fd = fd};
	struct sharer s[2];

	for (unsigned i = 0; i < 2; i++) {
		s[i] = (struct sharer){.io = thread(), .file = &file, .at = i * 8192};
		need(!pthread_create(&s[i].thread, NULL, share_file, &s[i]));
	}
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(s[i].thread, NULL);
		iothread_destroy(s[i].io);
	}
	is(s[0].wrong + s[1].wrong, 0, "two iothreads use one file at a time");
}

/* Where the file system knows no reading without waiting, some kernels' rings answer EAGAIN. */
static void test_nonblocking(void)
{
	struct iothread *io = thread();
	auto_fd fd = open("/proc/version", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct io_file file = {.fd = fd};
	char buf[512], want[512];
	ssize_t n = pread(fd, want, sizeof(want), 0);

	need(n > 0);
	is(rw(io, &file, false, buf, sizeof(buf), 0), n, "a file opened O_NONBLOCK is waited for");
	ok(!memcmp(buf, want, (size_t)n), "its bytes are right");
	ok(file.no_nowait_read, "that it cannot answer at once is remembered");
	iothread_destroy(io);
}

/* ---- many at once ---- */

#define DEEP 10000

struct deep {
	struct iothread *io;
	struct io_file file;
	unsigned done, wrong;
	bool for_ever;
	sem_t end;
};
struct deep_req {
	struct io_op op;
	struct deep *deep;
	struct iovec iov[2];
	bool again;
	unsigned char buf[64];
};

static void deep_done(struct io_op *op, int res);

static void deep_read(struct deep_req *q, uint64_t off)
{
	q->op.done = deep_done;
	q->iov[0] = (struct iovec){q->buf, 24};
	q->iov[1] = (struct iovec){q->buf + 24, 40};
	if (loop_readv(q->deep->io, &q->op, &q->deep->file, q->iov, 2, off) != -EINPROGRESS)
		q->deep->wrong++;
}

static void deep_done(struct io_op *op, int res)
{
	struct deep_req *q = container_of(op, struct deep_req, op);
	struct deep *d = q->deep;

	d->wrong += res != 64 || !right(q->buf, 64, op->off);
	if (q->again || d->for_ever) {
		q->again = false;
		deep_read(q, op->off / 2);
		return;
	}
	if (++d->done == DEEP)
		sem_post(&d->end);
}

static void deep_begin(void *arg)
{
	struct deep *d = ((struct deep_req *)arg)->deep;
	struct deep_req *q = arg;

	for (unsigned i = 0; i < DEEP; i++) {
		q[i].deep = d;
		q[i].again = i % 3 == 0;
		deep_read(&q[i], i * 90);
	}
}

/* Hard case F15: more than the ring holds, from inside done() too. */
static void test_deep(void)
{
	struct deep d = {.io = thread_with(8, NULL)};
	auto_fd fd = file_new(0, FILE_SIZE);
	struct deep_req *q = calloc(DEEP, sizeof(*q));

	need(q);
	sem_init(&d.end, 0, 0);
	d.file = slow_file(fd);
	q->deep = &d;
	loop_call(d.io, deep_begin, q);
	wait_for(&d.end);
	is(d.done, DEEP, "10000 operations are done, with a depth of 8");
	is(d.wrong, 0, "each with its own bytes");
	iothread_destroy(d.io);
	free(q);
}

/* Hard cases A16, C4: the end waits for what is in flight, and for what its done() submits. */
static void test_destroy_in_flight(void)
{
	struct deep d = {.io = thread_with(8, NULL)};
	auto_fd fd = file_new(0, FILE_SIZE);
	auto_fd efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct deep_req *q = calloc(DEEP, sizeof(*q));
	struct eye e;

	need(q);
	sem_init(&d.end, 0, 0);
	d.file = slow_file(fd);
	q->deep = &d;
	eye_init(&e, d.io, efd, WATCH_EVENTFD);
	loop_call(d.io, eye_open, &e);
	loop_call(d.io, deep_begin, q);
	iothread_destroy(d.io);
	is(d.done, DEEP, "destroyed with 10000 operations under way, all are done first");
	is(d.wrong, 0, "each with its own bytes");
	free(q);
}

static void deep_stop(void *arg)
{
	((struct deep *)arg)->for_ever = false;
}

/* Hard case A30. */
static void test_fair(void)
{
	struct deep d = {.io = thread_with(8, NULL), .for_ever = true};
	auto_fd fd = file_new(0, FILE_SIZE);
	auto_fd efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct deep_req *q = calloc(DEEP, sizeof(*q));
	struct eye e;

	need(q);
	sem_init(&d.end, 0, 0);
	d.file = slow_file(fd);
	q->deep = &d;
	eye_init(&e, d.io, efd, WATCH_EVENTFD);
	loop_call(d.io, eye_open, &e);
	loop_call(d.io, deep_begin, q);
	for (unsigned i = 0; i < 20; i++) {
		kick(efd);
		wait_for(&e.seen);
	}
	loop_call(d.io, deep_stop, &d);
	wait_for(&d.end);
	is(d.wrong, 0, "kicks and calls get through operations that follow each other for ever");
	iothread_destroy(d.io);
	free(q);
}

/* ---- offload ---- */

struct job {
	struct io_op op;
	struct iothread *io;
	sem_t gate, end;
	bool on_iothread, done_elsewhere;
	int now, res;
	struct job *next;
};

static int job_run(struct io_op *op)
{
	struct job *j = container_of(op, struct job, op);

	j->on_iothread = iothread_current(j->io);
	wait_for(&j->gate);
	return -EXDEV;
}

static void job_begin(void *arg);

static void job_done(struct io_op *op, int res)
{
	struct job *j = container_of(op, struct job, op);

	j->res = res;
	j->done_elsewhere = !iothread_current(j->io);
	if (j->next)
		job_begin(j->next);
	sem_post(&j->end);
}

static void job_begin(void *arg)
{
	struct job *j = arg;

	j->op.done = job_done;
	j->now = loop_offload(j->io, &j->op, job_run);
}

static void job_init(struct job *j, struct iothread *io)
{
	*j = (struct job){.io = io};
	sem_init(&j->gate, 0, 0);
	sem_init(&j->end, 0, 0);
}

static void test_offload(void)
{
	struct iothread *io = thread();
	struct job jobs[20], late;
	unsigned n = 0, wrong = 0;

	for (unsigned i = 0; i < 20; i++) {
		job_init(&jobs[i], io);
		loop_call(io, job_begin, &jobs[i]);
		wrong += jobs[i].now != -EINPROGRESS;
	}
	for (unsigned i = 0; i < 100; i++)
		loop_call(io, count_up, &n);
	is(n, 100, "with 20 jobs waiting the loop answers");
	for (unsigned i = 0; i < 20; i++)
		sem_post(&jobs[i].gate);
	for (unsigned i = 0; i < 20; i++) {
		wait_for(&jobs[i].end);
		wrong += jobs[i].res != -EXDEV || jobs[i].on_iothread || jobs[i].done_elsewhere;
	}
	is(wrong, 0, "they run elsewhere, and their ends here, with their results");

	job_init(&jobs[0], io);
	job_init(&late, io);
	jobs[0].next = &late;
	loop_call(io, job_begin, &jobs[0]);
	sem_post(&late.gate);
	sem_post(&jobs[0].gate);
	iothread_destroy(io);
	is(late.res, -EXDEV, "the end waits for a job that the end of another one began");
}

/* ---- signals and filters ---- */

static void mask_of_iothread(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, arg);
}

static void test_signals(void)
{
	struct iothread *io = thread();
	sigset_t set, mine;

	sigemptyset(&set);
	loop_call(io, mask_of_iothread, &set);
	ok(sigismember(&set, SIGTERM) && sigismember(&set, SIGUSR1) && sigismember(&set, SIGALRM),
	   "the iothread takes no signals");
	ok(!sigismember(&set, SIGSYS) && !sigismember(&set, SIGBUS), "but those of its own faults");
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	ok(!sigismember(&mine, SIGTERM), "the caller's mask is as it was");
	iothread_destroy(io);
}

static const struct syscall_rule getppid_rule[] = {{.nr = SYS_getppid, .why = "a test"}};
static const struct syscalls getppid_ok = SYSCALLS(getppid_rule);

static void call_getppid(void *arg)
{
	*(int *)arg = (int)syscall(SYS_getppid);
}

static int offload_getppid(struct io_op *op)
{
	(void)op;
	return (int)syscall(SYS_getppid);
}

static void offload_begin(void *arg)
{
	struct job *j = arg;

	j->op.done = job_done;
	j->now = loop_offload(j->io, &j->op, offload_getppid);
}

/*
 * In a process of its own: makes a call that is on the list, or is not, on the iothread or its
 * pool.
 */
static int filtered(bool listed, bool pool)
{
	pid_t pid = fork();
	int status = 0;

	need(pid >= 0);
	if (!pid) {
		struct iothread *io;
		struct job j;
		int ppid = 0;

		close(STDERR_FILENO);
		need(sandbox_init() == 0);
		io = thread_with(8, listed ? &getppid_ok : NULL);
		job_init(&j, io);
		loop_call(io, pool ? offload_begin : call_getppid,
			  pool ? (void *)&j : (void *)&ppid);
		if (pool)
			wait_for(&j.end);
		iothread_destroy(io);
		_exit((pool ? j.res : ppid) == getppid() ? 0 : 1);
	}
	need(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_filters(void)
{
	const char *env = getenv("WHERRY_SECCOMP");

	if (env && !strcmp(env, "off")) {
		skip("WHERRY_SECCOMP=off", "%s: violations", engine_name);
		return;
	}
	is(filtered(true, false), 0, "a call on the device's list is made on the iothread");
	is(filtered(true, true), 0, "and on its pool");
	is(filtered(false, false), SANDBOX_EXIT, "one that is not ends the process with 148");
	is(filtered(false, true), SANDBOX_EXIT, "on the pool too");
}

/* ---- choice of engine ---- */

static const char *engine_with(const char *env)
{
	struct iothread *io = NULL;
	const char *name;
	int err;

	need(env ? !setenv("WHERRY_ENGINE", env, 1) : !unsetenv("WHERRY_ENGINE"));
	err = iothread_create(&io, "choice", LOOP_AUTO, 8, NULL);
	name = err ? strerrorname_np(-err) : iothread_engine(io);
	iothread_destroy(io);
	unsetenv("WHERRY_ENGINE");
	return name;
}

static void test_choice(bool have_uring)
{
	ok(!strcmp(engine_with("epoll"), "epoll"), "WHERRY_ENGINE=epoll is followed");
	ok(!strcmp(engine_with(NULL), have_uring ? "uring" : "epoll"),
	   "without it, io_uring where the host has it");
	ok(!strcmp(engine_with("uring"), "uring") == have_uring,
	   "WHERRY_ENGINE=uring is followed or refused");
	ok(!strcmp(engine_with("kqueue"), "EINVAL"), "another engine is refused");
}

static int uring_refused(void)
{
	struct iothread *io = NULL;
	int err;

	err = iothread_create(&io, "probe", LOOP_URING, 8, NULL);
	iothread_destroy(io);
	return err;
}

static void test_engine(void)
{
	test_life();
	test_posts();
	test_calls();
	test_kicks();
	test_kick_kept();
	test_watch_before_start();
	test_levels();
	test_unwatch_other();
	test_many_watches();
	test_cached();
	test_uncached();
	test_writes();
	test_direct();
	test_many_iovecs(true);
	test_many_iovecs(false);
	test_short_write();
	test_bad_files();
	test_flags();
	test_at_once(false);
	test_at_once(true);
	test_pace();
	test_shared_file();
	test_nonblocking();
	test_deep();
	test_destroy_in_flight();
	test_fair();
	test_offload();
	test_signals();
	test_filters();
}

int main(void)
{
	static const struct {
		enum loop_engine engine;
		const char *name;
	} engines[] = {{LOOP_EPOLL, "epoll"}, {LOOP_URING, "uring"}};
	int refused = uring_refused();

	signal(SIGXFSZ, SIG_IGN);
	need(sandbox_init() == 0);
	test_choice(!refused);
	for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
		engine = engines[i].engine;
		engine_name = engines[i].name;
		printf("# %s\n", engine_name);
		if (engine == LOOP_URING && refused)
			skip(strerror(-refused), "uring: the host refuses it");
		else
			test_engine();
	}
	return done();
}
