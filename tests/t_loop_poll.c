// SPDX-License-Identifier: Apache-2.0
/*
 * t_loop_poll.c - looking for work before sleeping: what is learnt, that nothing is lost or kept out, and that who has
 * nothing to do rests.
 *
 * The learning is a function of durations and tested as such; with real clocks, and other load on the machine, only
 * what must always hold is. Each of those tests on both engines, under the filter. Hard cases A13, A30.
 */
#include "../vmm/loop_int.h"
#include "../vmm/sandbox.h"
#include "tap.h"
#include <fcntl.h>
#include <sys/eventfd.h>
#include <time.h>

#define US 1000ull
#define MS 1000000ull

static enum loop_engine engine;

/* ---- what is learnt ---- */

/* Sleeps of so many ns until there is a window, or the one there is has gone. */
static unsigned sleeps_until(struct loop_poll *p, bool window, uint64_t after)
{
	unsigned n = 0;

	for (; n < 100000 && (p->window > 0) != window; n++)
		poll_learn(p, after);
	return n;
}

static void test_learning(void)
{
	struct loop_poll p = {.limit = 50 * US};
	uint64_t last = 0;
	unsigned n = 0, grown = 0;

	is(p.window, 0, "to begin with a thread does not look for work");
	is(sleeps_until(&p, true, 10 * US), 1, "work that came soon after the sleep begins it");
	ok(p.window > 0 && p.window <= 2 * US, "with a short while");
	for (; p.window != last; grown++) {
		last = p.window;
		poll_learn(&p, 60 * US);
	}
	ok(p.window == 50 * US && grown < 8,
	   "that grows as long as it was too short, up to the limit");

	p = (struct loop_poll){.limit = 50 * US, .window = 8 * US};
	for (unsigned i = 0; i < 1000; i++) {
		poll_learn(&p, 1 * MS);
		poll_learn(&p, 1 * MS);
		poll_found(&p);
	}
	is(p.window, 8 * US, "pauses between bursts leave it as it is");
	ok(sleeps_until(&p, false, 1 * MS) <= 3, "work every millisecond ends it at once");
	for (unsigned i = 0; i < 1000; i++)
		poll_learn(&p, 1 * MS);
	is(p.window, 0, "and does not begin it again");
	is(sleeps_until(&p, true, 40 * US), 1, "which work that comes soon does");

	/* Work that comes 30 us after the sleep, however long one has looked: the guest has the same CPU. */
	p = (struct loop_poll){.limit = 50 * US};
	for (unsigned i = 0; i < 20; i++) {
		n = sleeps_until(&p, true, 30 * US);
		while (p.window)
			poll_learn(&p, p.window + 30 * US);
	}
	ok(n > 500 && n < 5000, "looking that does not help is tried ever more rarely (%u sleeps)",
	   n);
	for (unsigned i = 0; i < 10; i++)
		poll_found(&p);
	is(sleeps_until(&p, true, 30 * US), 1, "until it does");

	p = (struct loop_poll){0};
	is(sleeps_until(&p, true, 0), 100000, "with a limit of 0 there is nothing to learn");
}

/* ---- a queue of one, and its driver ---- */

struct mailbox {
	struct poller poller;
	struct watch watch;
	struct iothread *io;
	int kick;
	unsigned put,
		armed;  /* atomic, of the driver and of the thread; as avail.idx and avail_event */
	unsigned taken; /* of the thread; atomic for the driver's look */
	unsigned polls, arms, calls; /* atomic */
	bool busy;                   /* poll() always has something */
	unsigned until;              /* how many to take; then end is posted */
	sem_t end;
};

static void count(unsigned *n)
{
	__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

static unsigned seen(unsigned *n)
{
	return __atomic_load_n(n, __ATOMIC_RELAXED);
}

static bool box_take(struct mailbox *m)
{
	unsigned n = __atomic_load_n(&m->put, __ATOMIC_ACQUIRE);

	if (n == m->taken)
		return false;
	__atomic_store_n(&m->taken, n, __ATOMIC_RELEASE);
	if (n == m->until)
		sem_post(&m->end);
	return true;
}

static bool box_poll(struct poller *p)
{
	struct mailbox *m = container_of(p, struct mailbox, poller);

	count(&m->polls);
	return box_take(m) || m->busy;
}

static bool box_arm(struct poller *p)
{
	struct mailbox *m = container_of(p, struct mailbox, poller);

	count(&m->arms);
	__atomic_store_n(&m->armed, m->taken + 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&m->put, __ATOMIC_SEQ_CST) != m->taken || m->busy;
}

static void box_ready(struct watch *w)
{
	struct mailbox *m = container_of(w, struct mailbox, watch);

	count(&m->calls);
	box_take(m);
}

/* The driver's part: kicks only if the thread has asked for one at this item. */
static bool box_put(struct mailbox *m)
{
	unsigned n = m->put + 1;

	__atomic_store_n(&m->put, n, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&m->armed, __ATOMIC_SEQ_CST) != n)
		return false;
	need(write(m->kick, &(uint64_t){1}, 8) == 8);
	return true;
}

static void box_open(void *arg)
{
	struct mailbox *m = arg;

	need(!loop_watch(m->io, &m->watch));
	loop_poll_add(m->io, &m->poller);
}

static void box_shut(void *arg)
{
	struct mailbox *m = arg;

	loop_unwatch(m->io, &m->watch);
	loop_poll_del(m->io, &m->poller);
}

static void box_init(struct mailbox *m, struct iothread *io)
{
	*m = (struct mailbox){.poller = {.poll = box_poll, .arm = box_arm},
			      .io = io,
			      .kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	m->watch = (struct watch){.fd = m->kick, .kind = WATCH_EVENTFD, .ready = box_ready};
	sem_init(&m->end, 0, 0);
}

static struct iothread *thread(uint32_t limit)
{
	struct iothread *io = NULL;

	need(!iothread_create(&io, "poll", engine, 8, NULL));
	loop_poll_limit(io, limit);
	need(!iothread_start(io, NULL, NULL));
	return io;
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

#define ITEMS 30000

/* One at a time, and then in bursts with pauses of all lengths between them: both sides sleep and wake all the time. */
static void test_nothing_lost(uint32_t limit)
{
	struct iothread *io = thread(limit);
	struct mailbox m;
	unsigned kicks = 0;

	box_init(&m, io);
	m.until = ITEMS;
	loop_call(io, box_open, &m);
	while (m.put < ITEMS) {
		unsigned pause = m.put % 64 * (m.put % 7);

		kicks += box_put(&m);
		while (m.put % 3 && __atomic_load_n(&m.taken, __ATOMIC_ACQUIRE) != m.put)
			sched_yield();
		for (volatile unsigned i = 0; i < pause; i++)
			;
	}
	wait_for(&m.end);
	ok(1, "%u items arrive with a limit of %u us (%u kicks)", ITEMS, limit, kicks);
	loop_call(io, box_shut, &m);
	box_put(&m);
	loop_call(io, nothing, NULL);
	is(m.taken, ITEMS, "one that comes after the poller was deleted is left alone");
	iothread_destroy(io);
	close(m.kick);
}

/* ---- nobody is kept out ---- */

struct reader {
	struct io_op op;
	struct iothread *io;
	struct io_file file;
	struct iovec iov;
	char buf[512];
	int res;
	sem_t end;
};

static void read_done(struct io_op *op, int res)
{
	struct reader *r = container_of(op, struct reader, op);

	r->res = res;
	sem_post(&r->end);
}

static int sync_file(struct io_op *op)
{
	(void)op;
	return 7;
}

static void read_begin(void *arg)
{
	struct reader *r = arg;

	r->op.done = read_done;
	need(loop_fsync(r->io, &r->op, &r->file, false) == -EINPROGRESS);
}

static void offload_begin(void *arg)
{
	struct reader *r = arg;

	r->op.done = read_done;
	need(loop_offload(r->io, &r->op, sync_file) == -EINPROGRESS);
}

struct alarm_clock {
	struct loop_timer timer;
	struct iothread *io;
	sem_t rung;
};

static void ring(struct loop_timer *t)
{
	sem_post(&container_of(t, struct alarm_clock, timer)->rung);
}

static void wind(void *arg)
{
	struct alarm_clock *a = arg;

	loop_timer_set(a->io, &a->timer, 2 * MS);
}

static void set_busy(void *arg)
{
	((struct mailbox *)arg)->busy = true;
}

static void set_idle(void *arg)
{
	((struct mailbox *)arg)->busy = false;
}

static void test_fair(void)
{
	struct iothread *io = thread(1000);
	struct mailbox busy, other;
	struct alarm_clock a = {.timer.fn = ring, .io = io};
	char path[] = "/var/tmp/t_loop_poll.XXXXXX";
	auto_fd fd = mkstemp(path);
	struct reader r = {.io = io, .file.fd = fd, .iov = {r.buf, sizeof(r.buf)}};

	need(fd >= 0 && !unlink(path));
	sem_init(&a.rung, 0, 0);
	sem_init(&r.end, 0, 0);
	box_init(&busy, io);
	box_init(&other, io);
	loop_call(io, box_open, &busy);
	loop_call(io, box_open, &other);
	loop_call(io, set_busy, &busy);
	for (unsigned i = 0; i < 100; i++)
		loop_call(io, nothing, NULL);
	ok(1, "calls get through a poller that always has something");
	need(write(busy.kick, &(uint64_t){1}, 8) == 8);
	while (!seen(&busy.calls))
		loop_call(io, nothing, NULL);
	ok(1, "and kicks");
	loop_call(io, wind, &a);
	wait_for(&a.rung);
	ok(1, "and timers");
	loop_call(io, read_begin, &r);
	wait_for(&r.end);
	is(r.res, 0, "and operations of files");
	loop_call(io, offload_begin, &r);
	wait_for(&r.end);
	is(r.res, 7, "and those of the pool");
	other.until = 3;
	for (unsigned i = 0; i < 3; i++)
		box_put(&other);
	wait_for(&other.end);
	ok(1, "and other pollers");
	loop_call(io, set_idle, &busy);

	ok(seen(&busy.arms) > 0, "before it sleeps, a thread asks for events");
	iothread_destroy(io);
	close(busy.kick);
	close(other.kick);
}

/* Calls in quick succession end sleeps soon, so that there is a window before long. */
static void set_busy_if_looking(void *arg)
{
	struct mailbox *m = arg;

	m->busy = m->io->poll.window > 0;
}

/* While there is work within the window nobody asks for events, so that the driver need not send any. */
static void test_not_armed(void)
{
	struct iothread *io = thread(1000);
	struct mailbox m;
	unsigned before, after;

	box_init(&m, io);
	loop_call(io, box_open, &m);
	while (!m.busy)
		loop_call(io, set_busy_if_looking, &m);
	loop_call(io, nothing, NULL);
	before = seen(&m.arms);
	for (unsigned i = 0; i < 50; i++)
		loop_call(io, nothing, NULL);
	after = seen(&m.arms);
	is(after, before, "as long as there is work nobody asks for events");
	loop_call(io, set_idle, &m);
	iothread_destroy(io);
	close(m.kick);
}

/* ---- rest ---- */

static void cpu_clock(void *arg)
{
	need(!pthread_getcpuclockid(pthread_self(), arg));
}

static uint64_t cpu_used(clockid_t clock)
{
	struct timespec t;

	need(!clock_gettime(clock, &t));
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void pause_ms(unsigned ms)
{
	struct timespec t = {.tv_nsec = (long)(ms * MS)};

	nanosleep(&t, NULL);
}

static void test_rest(void)
{
	struct iothread *io = thread(1000);
	struct mailbox m;
	clockid_t clock;
	uint64_t used;
	unsigned polls;

	box_init(&m, io);
	m.until = 1000;
	loop_call(io, cpu_clock, &clock);
	loop_call(io, box_open, &m);
	while (m.put < 1000) {
		box_put(&m);
		while (__atomic_load_n(&m.taken, __ATOMIC_ACQUIRE) != m.put)
			sched_yield();
	}
	wait_for(&m.end);
	/* Its last window is over when it has not run for a while, which on a busy machine takes longer. */
	do {
		used = cpu_used(clock);
		pause_ms(50);
	} while (cpu_used(clock) != used);
	polls = seen(&m.polls);
	pause_ms(200);
	ok(cpu_used(clock) == used && seen(&m.polls) == polls,
	   "a thread without work does not run at all");
	used = cpu_used(clock);
	for (unsigned i = 0; i < 40; i++) {
		pause_ms(5);
		box_put(&m);
	}
	ok(cpu_used(clock) - used < 40 * MS, "with work every 5 ms it rests nearly all the time");
	iothread_destroy(io);
	close(m.kick);
}

static void test_end(void)
{
	struct iothread *io = NULL;
	struct mailbox m;

	need(!iothread_create(&io, "poll", engine, 8, NULL));
	box_init(&m, io);
	loop_poll_add(io, &m.poller);
	loop_poll_del(io, &m.poller);
	loop_poll_del(io, &m.poller);
	loop_poll_add(io, &m.poller);
	m.busy = true;
	loop_poll_limit(io, 1000);
	need(!iothread_start(io, NULL, NULL));
	iothread_destroy(io);
	ok(1, "a poller that always has something does not hold up the end");
	close(m.kick);
}

static void on_engine(enum loop_engine e, const char *name)
{
	struct iothread *io = NULL;
	int r = iothread_create(&io, "probe", e, 8, NULL);

	iothread_destroy(io);
	printf("# %s\n", name);
	if (r) {
		skip(strerror(-r), "%s: the host refuses it", name);
		return;
	}
	engine = e;
	test_nothing_lost(0);
	test_nothing_lost(2);
	test_nothing_lost(50);
	test_nothing_lost(1000);
	test_fair();
	test_not_armed();
	test_rest();
	test_end();
}

int main(void)
{
	need(sandbox_init() == 0);
	alarm(100);
	test_learning();
	on_engine(LOOP_EPOLL, "epoll");
	on_engine(LOOP_URING, "uring");
	return done();
}
