// SPDX-License-Identifier: Apache-2.0
/*
 * t_share_lock.c - the guest's locks on the host, against another process there and against each other.
 *
 * A child process is the host: it locks the same file in its own way, and waits for locks as anyone would. The share is
 * used from two iothreads, as a session with two queues does, one call at a time. Nothing is concluded from time: a lock that
 * must not be had is known by its holder, one that must is waited for.
 */
#include "share_bed.h"
#include "../vmm/sandbox.h"
#include <semaphore.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

static struct place place;
static const struct share_config on_host = {.locks = SHARE_LOCKS_HOST};

/* ---- the host ---- */

enum { HOST_OPEN, HOST_POSIX, HOST_FLOCK, HOST_FLOCK_WAIT, HOST_POSIX_WAIT, HOST_CLOSE };
struct order {
	int kind, type; /* F_* or LOCK_* */
	off_t start, len;
	char path[600];
};
static int host_sock;
static pid_t host_pid;

static int host_obey(const struct order *o, int *fd)
{
	struct flock fl = {.l_type = (short)o->type,
			   .l_whence = SEEK_SET,
			   .l_start = o->start,
			   .l_len = o->len};
	int r = 0;

	switch (o->kind) {
	case HOST_OPEN:
		*fd = open(o->path, O_RDWR | O_CLOEXEC);
		return *fd < 0 ? -errno : 0;
	case HOST_POSIX:
		r = fcntl(*fd, F_SETLK, &fl);
		break;
	case HOST_POSIX_WAIT:
		r = fcntl(*fd, F_SETLKW, &fl);
		break;
	case HOST_FLOCK:
		r = flock(*fd, o->type | LOCK_NB);
		break;
	case HOST_FLOCK_WAIT:
		r = flock(*fd, o->type);
		break;
	case HOST_CLOSE:
		r = close(*fd);
		break;
	}
	return r < 0 ? -errno : 0;
}

/* Ends with the socket. */
static void host_main(int sock)
{
	struct order o;
	int fd = -1, r;

	while (recv(sock, &o, sizeof(o), 0) == sizeof(o)) {
		r = host_obey(&o, &fd);
		if (send(sock, &r, sizeof(r), 0) != sizeof(r))
			break;
	}
	_exit(0);
}

static void host_begin(void)
{
	int pair[2];

	need(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	host_pid = fork();
	need(host_pid >= 0);
	if (host_pid == 0) {
		close(pair[0]);
		host_main(pair[1]);
	}
	close(pair[1]);
	host_sock = pair[0];
}

static void host_end(void)
{
	close(host_sock);
	need(waitpid(host_pid, NULL, 0) == host_pid);
}

static void host_order(int kind, int type, off_t start, off_t len)
{
	struct order o = {.kind = kind, .type = type, .start = start, .len = len};

	snprintf(o.path, sizeof(o.path), "%s/f", place.top);
	need(send(host_sock, &o, sizeof(o), 0) == sizeof(o));
}

static int host_answer(void)
{
	int r;

	need(recv(host_sock, &r, sizeof(r), 0) == sizeof(r));
	return r;
}

static bool host_silent(void)
{
	int r;

	return recv(host_sock, &r, sizeof(r), MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

static int host_do(int kind, int type, off_t start, off_t len)
{
	host_order(kind, type, start, len);
	return host_answer();
}

/* ---- the guest ---- */

enum { DO_SET, DO_GET, DO_CANCEL, DO_UNLOCK, DO_ALL };
struct call {
	struct iothread *io;
	struct share_inode *inode;
	uint64_t owner;
	struct share_lock lock;
	struct share_wait *wait;
	int verb, res;
};

static void call_run(void *arg)
{
	struct call *c = arg;

	switch (c->verb) {
	case DO_SET:
		c->res = share_setlk(c->inode, c->owner, &c->lock, c->io, c->wait);
		break;
	case DO_GET:
		c->res = share_getlk(c->inode, c->owner, &c->lock);
		break;
	case DO_CANCEL:
		share_lock_cancel(c->wait);
		break;
	case DO_UNLOCK:
		share_unlock(c->inode, c->owner, c->lock.flock);
		break;
	case DO_ALL:
		share_unlock_all(c->inode->share);
		break;
	}
}

static int call(struct call c)
{
	loop_call(c.io, call_run, &c);
	return c.res;
}

struct waiter {
	struct share_wait wait;
	sem_t done;
	int calls, error;
	bool inside; /* done() came on the iothread that waits */
};

static void waiter_done(struct share_wait *wait, int error)
{
	struct waiter *w = container_of(wait, struct waiter, wait);

	w->calls++;
	w->error = error;
	w->inside = iothread_current(wait->io);
	sem_post(&w->done);
}

static void waiter_init(struct waiter *w)
{
	*w = (struct waiter){.wait.done = waiter_done};
	need(sem_init(&w->done, 0, 0) == 0);
}

static bool waits(struct waiter *w)
{
	int n;

	need(sem_getvalue(&w->done, &n) == 0);
	return n == 0;
}

/* What it ended with; 1 if it does not. */
static int waited(struct waiter *w)
{
	struct timespec end;

	need(clock_gettime(CLOCK_REALTIME, &end) == 0);
	end.tv_sec += 60;
	while (sem_timedwait(&w->done, &end) < 0)
		if (errno != EINTR)
			return 1;
	return w->calls == 1 && w->inside ? w->error : 2;
}

static struct share_lock range(int type, uint64_t start, uint64_t end)
{
	return (struct share_lock){.type = type, .start = start, .end = end};
}

static struct share_lock whole(int type)
{
	return range(type, 0, INT64_MAX);
}

static struct share_lock bsd(int type)
{
	return (struct share_lock){.type = type, .flock = true};
}

/* A file "f", and two iothreads. */
struct fixture {
	struct share *s;
	struct share_inode *root, *f;
	struct iothread *a, *b;
	unsigned fds;
};

static int set(const struct fixture *x, uint64_t owner, struct share_lock lock)
{
	lock.pid = (uint32_t)owner + 100;
	return call((struct call){x->a, x->f, owner, lock, NULL, DO_SET, 0});
}

static int get(const struct fixture *x, uint64_t owner, struct share_lock *lock)
{
	struct call c = {x->a, x->f, owner, *lock, NULL, DO_GET, 0};

	loop_call(c.io, call_run, &c);
	*lock = c.lock;
	return c.res;
}

static int wait_on(const struct fixture *x, struct iothread *io, uint64_t owner,
		   struct share_lock lock, struct waiter *w)
{
	waiter_init(w);
	return call((struct call){io, x->f, owner, lock, &w->wait, DO_SET, 0});
}

static void cancel(struct iothread *io, struct waiter *w)
{
	call((struct call){.io = io, .wait = &w->wait, .verb = DO_CANCEL});
}

static void unlock(const struct fixture *x, struct iothread *io, uint64_t owner, bool flock)
{
	call((struct call){io, x->f, owner, {.flock = flock}, NULL, DO_UNLOCK, 0});
}

/* ---- the tests ---- */

static void test_ranges(struct fixture *x)
{
	struct share_lock l;

	is(set(x, 1, range(F_WRLCK, 10, 19)), 0, "an owner locks a range to write");
	is(set(x, 1, range(F_RDLCK, 15, 30)), 0, "his own locks are not in his way");
	is(set(x, 2, range(F_RDLCK, 15, 30)), 0, "what he only reads another reads too");
	is(set(x, 2, range(F_RDLCK, 14, 14)), -EAGAIN, "what he writes he does not");
	is(set(x, 2, range(F_WRLCK, 0, 9)), 0, "what is beside it is free");
	is(set(x, 2, range(F_WRLCK, 31, INT64_MAX)), 0, "to the very end");
	is(host_do(HOST_POSIX, F_WRLCK, 12, 1), -EAGAIN, "a process on the host is kept out");
	is(host_do(HOST_POSIX, F_RDLCK, 20, 1), 0, "but reads with the readers");
	l = range(F_WRLCK, 12, 40);
	ok(get(x, 3, &l) == 0 && l.type != F_UNLCK, "a third is told what is in the way");
	l = range(F_RDLCK, 12, 13);
	is(get(x, 3, &l), 0, "and for a part of it");
	ok(l.type == F_WRLCK && l.start == 10 && l.end == 14 && l.pid == 101,
	   "exactly that, and whose it is");
	l = range(F_WRLCK, 12, 13);
	ok(get(x, 1, &l) == 0 && l.type == F_UNLCK, "the owner is told that nothing is");
	l = range(F_WRLCK, 100, 100);
	ok(get(x, 1, &l) == 0 && l.type == F_WRLCK && l.start == 31 && l.end == INT64_MAX &&
		   l.pid == 102,
	   "a lock to whatever end is one to INT64_MAX");
	is(set(x, 1, range(F_UNLCK, 12, 13)), 0, "a part is unlocked");
	is(set(x, 2, range(F_WRLCK, 12, 13)), 0, "for another to have");
	is(set(x, 1, range(F_WRLCK, 10, 11)), 0, "the rest is still held");
	is(set(x, 2, range(F_WRLCK, 11, 11)), -EAGAIN, "by the first");
	is(set(x, 1, whole(F_UNLCK)), 0, "all is unlocked");
	is(set(x, 1, whole(F_UNLCK)), 0, "twice is no error");
	is(x->s->nfiles, 1, "and the owner who holds nothing takes no descriptor");
	unlock(x, x->b, 2, false);
	is(x->s->nfiles, 0, "nor does one who closed the file");
	is(host_do(HOST_POSIX, F_WRLCK, 0, 0), 0, "the host has all of it");
	l = range(F_RDLCK, 5, 6);
	ok(get(x, 1, &l) == 0 && l.type == F_WRLCK && l.start == 0 && l.end == INT64_MAX &&
		   l.pid == 0,
	   "which the guest is told, without a process of its own");
	is(set(x, 1, range(F_RDLCK, 0, 0)), -EAGAIN, "the guest has none");
	is(x->s->nfiles, 0, "and no descriptor for the attempt");
	is(host_do(HOST_POSIX, F_UNLCK, 0, 0), 0, "the host lets go");
}

static void test_nonsense(struct fixture *x)
{
	struct share_lock l = range(F_RDLCK, 5, 4);

	is(set(x, 1, l), -EINVAL, "a range that ends before it starts is none");
	is(set(x, 1, range(F_RDLCK, 0, UINT64_MAX)), -EINVAL, "nor one beyond 63 bits");
	is(set(x, 1, range(99, 0, 1)), -EINVAL, "a type that is none is refused");
	l = range(F_UNLCK, 0, 1);
	is(get(x, 1, &l), -EINVAL, "nobody asks what is in the way of unlocking");
	l = bsd(F_RDLCK);
	is(get(x, 1, &l), -EINVAL, "nor what is in the way of flock");
	is(set(x, 1, bsd(99)), -EINVAL, "flock has three types");
	unlock(x, x->a, 77, true);
	is(x->s->nfiles, 0, "nothing came of it");
}

static void test_flock(struct fixture *x)
{
	is(set(x, 1, bsd(F_RDLCK)), 0, "flock, shared");
	is(set(x, 2, bsd(F_RDLCK)), 0, "by two");
	is(set(x, 1, bsd(F_WRLCK)), -EAGAIN, "one does not get it alone");
	is(host_do(HOST_FLOCK, LOCK_SH, 0, 0), 0, "the host shares it");
	is(host_do(HOST_FLOCK, LOCK_EX, 0, 0), -EAGAIN, "and does not get it alone");
	is(set(x, 3, whole(F_WRLCK)), 0, "fcntl locks are another matter");
	unlock(x, x->a, 2, true);
	is(host_do(HOST_FLOCK, LOCK_EX, 0, 0), 0, "with the last that shares gone it does");
	is(set(x, 2, bsd(F_RDLCK)), -EAGAIN, "and the guest is kept out");
	is(host_do(HOST_POSIX, F_RDLCK, 0, 1), -EAGAIN, "each kind for itself");
	is(host_do(HOST_FLOCK, LOCK_UN, 0, 0), 0, "the host lets go");
	is(set(x, 1, bsd(F_WRLCK)), 0, "one gets it alone");
	is(set(x, 1, bsd(F_RDLCK)), 0, "and takes less");
	is(host_do(HOST_FLOCK, LOCK_SH, 0, 0), 0, "which others see");
	is(host_do(HOST_FLOCK, LOCK_UN, 0, 0), 0, "they let go");
	is(set(x, 3, bsd(F_WRLCK)), -EAGAIN, "an owner has both kinds, each for itself");
	unlock(x, x->a, 3, true);
	is(host_do(HOST_POSIX, F_RDLCK, 0, 1), -EAGAIN, "and loses them each for itself");
	unlock(x, x->a, 3, false);
	is(set(x, 1, bsd(F_UNLCK)), 0, "all is unlocked");
	is(x->s->nfiles, 0, "and no descriptor left");
}

static void test_wait_host(struct fixture *x)
{
	struct waiter w, v;

	is(host_do(HOST_POSIX, F_WRLCK, 0, 10), 0, "the host holds a range");
	is(wait_on(x, x->a, 1, range(F_RDLCK, 5, 5), &w), -EINPROGRESS, "an owner waits for it");
	is(wait_on(x, x->b, 2, range(F_WRLCK, 5, 6), &v), -EINPROGRESS, "and another, elsewhere");
	ok(waits(&w) && waits(&v), "as long as it is held");
	is(host_do(HOST_POSIX, F_UNLCK, 0, 10), 0, "the host lets go");
	is(waited(&w), 0, "who came first has it");
	ok(waits(&v), "and the other waits for him");
	is(set(x, 1, whole(F_UNLCK)), 0, "until he lets go");
	is(waited(&v), 0, "then he has it");
	is(host_do(HOST_POSIX, F_RDLCK, 6, 1), -EAGAIN, "and the host does not");
	host_order(HOST_POSIX_WAIT, F_RDLCK, 6, 1);
	ok(host_silent(), "who waits on the host waits");
	unlock(x, x->a, 2, false);
	is(host_answer(), 0, "for the guest to let go");
	is(host_do(HOST_POSIX, F_UNLCK, 0, 0), 0, "the host lets go");

	is(host_do(HOST_FLOCK, LOCK_EX, 0, 0), 0, "flock on the host");
	is(wait_on(x, x->b, 1, bsd(F_WRLCK), &w), -EINPROGRESS, "is waited for too");
	is(host_do(HOST_CLOSE, 0, 0, 0), 0, "until the host closes the file");
	is(waited(&w), 0, "and had");
	need(host_do(HOST_OPEN, 0, 0, 0) == 0);
	host_order(HOST_FLOCK_WAIT, LOCK_SH, 0, 0);
	is(set(x, 1, bsd(F_UNLCK)), 0, "and given back");
	is(host_answer(), 0, "to the host");
	is(host_do(HOST_FLOCK, LOCK_UN, 0, 0), 0, "which lets go");
	is(x->s->nfiles, 0, "and no descriptor is left");
}

static void test_wait_guest(struct fixture *x)
{
	struct waiter w, v, u;

	is(set(x, 1, range(F_WRLCK, 0, 9)), 0, "one owner holds a range");
	is(wait_on(x, x->b, 2, range(F_WRLCK, 0, 4), &w), -EINPROGRESS, "another waits for a part");
	is(wait_on(x, x->a, 3, range(F_RDLCK, 0, 0), &v), -EINPROGRESS, "a third for a part of it");
	is(wait_on(x, x->a, 4, range(F_WRLCK, 8, 8), &u), -EINPROGRESS, "a fourth for the rest");
	is(set(x, 1, range(F_UNLCK, 5, 9)), 0, "the rest is let go");
	is(waited(&u), 0, "and had");
	ok(waits(&w) && waits(&v), "by nobody else");
	is(set(x, 1, range(F_RDLCK, 0, 4)), 0, "to read only lets the readers in");
	is(waited(&v), 0, "who waits to read");
	ok(waits(&w), "not who waits to write");
	unlock(x, x->b, 1, false);
	unlock(x, x->b, 3, false);
	is(waited(&w), 0, "he has it when the last reader is gone");
	is(set(x, 1, whole(F_UNLCK)), 0, "one who holds nothing unlocks nothing");
	is(set(x, 3, range(F_RDLCK, 4, 4)), -EAGAIN, "and takes nothing away");

	/* Its other thread closes the file: what is held goes, what is waited for does not. */
	is(wait_on(x, x->b, 4, range(F_WRLCK, 0, 8), &u), -EINPROGRESS, "who holds waits for more");
	unlock(x, x->a, 4, false);
	is(set(x, 5, range(F_WRLCK, 8, 8)), 0, "what he held goes when he closes the file");
	unlock(x, x->a, 5, false);
	unlock(x, x->a, 2, false);
	is(waited(&u), 0, "what he waited for he gets");
	unlock(x, x->a, 4, false);
	is(x->s->nfiles, 0, "and no descriptor is left");

	is(set(x, 1, bsd(F_WRLCK)), 0, "flock by one");
	is(wait_on(x, x->a, 2, bsd(F_RDLCK), &w), -EINPROGRESS, "is waited for");
	is(wait_on(x, x->b, 3, bsd(F_RDLCK), &v), -EINPROGRESS, "by two");
	is(set(x, 1, bsd(F_RDLCK)), 0, "he shares it");
	is(waited(&w) | waited(&v), 0, "and both have it");
	is(wait_on(x, x->b, 1, bsd(F_WRLCK), &u), -EINPROGRESS, "he wants it back");
	unlock(x, x->a, 2, true);
	unlock(x, x->a, 3, true);
	is(waited(&u), 0, "and gets it");
	unlock(x, x->a, 1, true);
	is(x->s->nfiles, 0, "and no descriptor is left");
}

static void test_cancel(struct fixture *x)
{
	struct waiter w, v;

	is(set(x, 1, whole(F_WRLCK)), 0, "one holds");
	is(wait_on(x, x->a, 2, whole(F_WRLCK), &w), -EINPROGRESS, "one waits");
	is(wait_on(x, x->a, 3, whole(F_WRLCK), &v), -EINPROGRESS, "and one more");
	cancel(x->b, &w);
	is(waited(&w), -EINTR, "who is cancelled is interrupted, from whatever thread");
	cancel(x->a, &w);
	is(w.calls, 1, "once");
	is(x->s->nfiles, 2, "and keeps no descriptor");
	unlock(x, x->b, 1, false);
	is(waited(&v), 0, "the next is served");
	cancel(x->b, &v);
	is(v.calls, 1, "a wait that is over is not cancelled");
	is(set(x, 1, whole(F_RDLCK)), -EAGAIN, "and its lock is kept");
	is(host_do(HOST_POSIX, F_RDLCK, 0, 1), -EAGAIN, "on the host");
	unlock(x, x->b, 3, false);
	is(host_do(HOST_POSIX, F_WRLCK, 0, 1), 0, "what the host holds");
	is(wait_on(x, x->b, 2, range(F_RDLCK, 0, 0), &w), -EINPROGRESS, "is waited for");
	cancel(x->b, &w);
	is(waited(&w), -EINTR, "until cancelled");
	is(host_do(HOST_POSIX, F_UNLCK, 0, 1), 0, "the host lets go");
	is(host_do(HOST_POSIX, F_WRLCK, 0, 1), 0, "and nobody has taken it meanwhile");
	is(host_do(HOST_POSIX, F_UNLCK, 0, 1), 0, "it lets go again");
}

static void test_deadlock(struct fixture *x)
{
	struct waiter w, v, u;

	is(set(x, 1, range(F_WRLCK, 1, 1)), 0, "one holds the first");
	is(set(x, 2, range(F_WRLCK, 2, 2)), 0, "one the second");
	is(set(x, 3, range(F_WRLCK, 3, 3)), 0, "one the third");
	is(wait_on(x, x->a, 1, range(F_WRLCK, 2, 2), &w), -EINPROGRESS,
	   "the first waits for the second");
	is(wait_on(x, x->b, 2, range(F_RDLCK, 3, 3), &v), -EINPROGRESS, "who waits for the third");
	is(wait_on(x, x->a, 3, range(F_WRLCK, 1, 1), &u), -EDEADLK, "who would wait for ever");
	is(wait_on(x, x->a, 3, range(F_WRLCK, 2, 2), &u), -EDEADLK, "whomever of them for");
	unlock(x, x->a, 3, false);
	is(waited(&v), 0, "when he lets go one has it");
	unlock(x, x->a, 2, false);
	is(waited(&w), 0, "and then the other");
	unlock(x, x->a, 1, false);
	is(x->s->nfiles, 0, "and no descriptor is left");
}

static void test_session_end(struct fixture *x)
{
	struct waiter w, v;

	is(set(x, 1, range(F_WRLCK, 0, 9)), 0, "one holds a range");
	is(set(x, 2, bsd(F_RDLCK)), 0, "one shares");
	is(host_do(HOST_POSIX, F_WRLCK, 20, 1), 0, "so does the host");
	is(wait_on(x, x->a, 3, range(F_RDLCK, 0, 0), &w), -EINPROGRESS, "one waits for the guest");
	is(wait_on(x, x->b, 4, range(F_RDLCK, 20, 20), &v), -EINPROGRESS, "one for the host");
	call((struct call){.io = x->a, .inode = x->f, .verb = DO_ALL});
	is(waited(&w), -EINTR, "the end of the session ends each wait");
	is(waited(&v), -EINTR, "whoever it was for");
	is(x->s->nfiles, 0, "and every owner");
	is(host_do(HOST_POSIX, F_WRLCK, 0, 0), 0, "the host has what the guest had");
	is(host_do(HOST_FLOCK, LOCK_EX, 0, 0), 0, "of either kind");
	is(host_do(HOST_POSIX, F_UNLCK, 0, 0) | host_do(HOST_FLOCK, LOCK_UN, 0, 0), 0,
	   "it lets go");
	is(set(x, 1, range(F_WRLCK, 0, 9)), 0, "a new session locks");
	unlock(x, x->a, 1, false);
}

/* Many for one lock, on two threads; each lets go when it has it. */
static void test_crowd(struct fixture *x)
{
	static struct waiter w[40];
	unsigned had = 0;

	is(host_do(HOST_POSIX, F_WRLCK, 0, 1), 0, "the host holds what many want");
	for (unsigned i = 0; i < ARRAY_LEN(w); i++)
		need(wait_on(x, i % 2 ? x->a : x->b, 100 + i, range(F_WRLCK, 0, 0), &w[i]) ==
		     -EINPROGRESS);
	is(host_do(HOST_POSIX, F_UNLCK, 0, 1), 0, "it lets go");
	for (unsigned i = 0; i < ARRAY_LEN(w); i++) {
		had += waited(&w[i]) == 0;
		unlock(x, x->a, 100 + i, false);
	}
	is(had, ARRAY_LEN(w), "and each has it, in the order they came");
	is(x->s->nfiles, 0, "and no descriptor is left");
}

static void test_objects(struct fixture *x)
{
	struct fixture d = *x;
	struct waiter w;

	need(mkdirat(place.dir, "d", 0755) == 0);
	d.f = find(x->root, "d");
	is(set(&d, 1, bsd(F_WRLCK)), 0, "a directory is locked with flock");
	is(set(&d, 2, bsd(F_RDLCK)), -EAGAIN, "by one");
	is(set(&d, 2, whole(F_WRLCK)), -EBADF, "not with fcntl to write, as on Linux");
	unlock(&d, x->a, 1, true);
	share_put(d.f);

	host_file(place.dir, "ro", "");
	need(fchmodat(place.dir, "ro", 0444, 0) == 0);
	d.f = find(x->root, "ro");
	is(set(&d, 1, whole(F_RDLCK)), 0, "a file that may only be read is locked to read");
	is(set(&d, 1, bsd(F_WRLCK)), 0, "and with flock in either way");
	if (!share_owner_passes())
		is(set(&d, 2, whole(F_WRLCK)), -EBADF, "but not to write");
	unlock(&d, x->a, 1, false);
	unlock(&d, x->a, 1, true);
	share_put(d.f);

	host_file(place.dir, "gone", "");
	d.f = find(x->root, "gone");
	need(unlinkat(place.dir, "gone", 0) == 0);
	is(set(&d, 1, whole(F_WRLCK)), 0, "a file without a name is locked");
	is(wait_on(&d, x->a, 2, whole(F_WRLCK), &w), -EINPROGRESS, "and waited for");
	share_put(d.f); /* the owners have it still */
	call((struct call){.io = x->b, .inode = x->f, .verb = DO_ALL});
	is(waited(&w), -EINTR, "until the end");
}

static void test_budget(void)
{
	struct share_config cfg = on_host;
	struct share_lock l = range(F_RDLCK, 0, 0);
	struct share_inode *root, *f;
	struct share *s;
	unsigned n = 0;

	cfg.fd_budget = 8;
	s = place_open(&place, cfg);
	root = share_root(s);
	host_file(place.dir, "f", "");
	f = find(root, "f");
	while (n < 16 && share_setlk(f, n + 1, &l, NULL, NULL) == 0)
		n++;
	ok(n > 2 && n < 8, "owners of locks are counted (%u)", n);
	is(share_setlk(f, 99, &l, NULL, NULL), -ENFILE, "one more has no descriptor");
	is(share_setlk(f, 1, &l, NULL, NULL), 0, "those who have one go on");
	share_unlock(f, 1, false);
	is(share_setlk(f, 99, &l, NULL, NULL), 0, "and one who lets go makes room");
	share_put(f);
	share_put(root);
	share_close(s);
	host_clear(place.dir);
}

static void test_shares(void)
{
	struct share *guest = place_open(&place, (struct share_config){.locks = 0});
	struct share *ro = place_open(
		&place, (struct share_config){.locks = SHARE_LOCKS_HOST, .readonly = true});
	struct share_inode *groot = share_root(guest), *rroot = share_root(ro), *f;
	struct share_lock l = whole(F_RDLCK);

	host_file(place.dir, "f", "");
	f = find(groot, "f");
	is(share_setlk(f, 1, &l, NULL, NULL), -EOPNOTSUPP, "locks that are the guest's own");
	is(share_getlk(f, 1, &l), -EOPNOTSUPP, "are not ours to answer for");
	share_unlock(f, 1, false);
	share_put(f);
	f = find(rroot, "f");
	is(share_setlk(f, 1, &l, NULL, NULL), 0, "a read-only share is locked to read");
	l.type = F_WRLCK;
	is(share_setlk(f, 2, &l, NULL, NULL), -EBADF, "not to write");
	is(share_getlk(f, 2, &l), 0, "it may be asked, though");
	is(l.type, F_RDLCK, "what is in the way");
	l = bsd(F_WRLCK);
	is(share_setlk(f, 2, &l, NULL, NULL), 0, "flock needs no right to write");
	share_put(f);
	share_put(groot);
	share_put(rroot);
	share_close(guest);
	share_close(ro);
	host_clear(place.dir);
}

/* ---- the run ---- */

typedef void (*lock_test)(struct fixture *);

static void run(enum loop_engine engine)
{
	static const lock_test tests[] = {
		test_ranges, test_nonsense, test_flock,       test_wait_host, test_wait_guest,
		test_cancel, test_deadlock, test_session_end, test_crowd,     test_objects};
	struct fixture x = {.fds = open_fds()};

	x.s = place_open(&place, on_host);
	x.root = share_root(x.s);
	x.a = ride_begin(x.s, engine);
	x.b = ride_begin(x.s, engine);
	if (!x.a || !x.b) {
		skip("the host refuses this engine", "locks");
	} else {
		host_file(place.dir, "f", "");
		need(host_do(HOST_OPEN, 0, 0, 0) == 0);
		x.f = find(x.root, "f");
		for (unsigned i = 0; i < ARRAY_LEN(tests); i++)
			tests[i](&x);
		share_put(x.f);
		need(host_do(HOST_CLOSE, 0, 0, 0) == 0);
	}
	is(share_ninodes(x.s), 1, "nothing is left over");
	iothread_destroy(x.a);
	iothread_destroy(x.b);
	share_put(x.root);
	share_close(x.s);
	is(open_fds(), x.fds, "nor any descriptor");
	host_clear(place.dir);
}

int main(void)
{
	const char *base;

	host_begin();
	need(sandbox_init() == 0);
	for (unsigned i = 0; (base = place_base(i)); i++) {
		if (!place_make(&place, base))
			continue;
		run(LOOP_URING);
		run(LOOP_EPOLL);
		test_budget();
		test_shares();
		place_end(&place);
	}
	host_end();
	return done();
}
