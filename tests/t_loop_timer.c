// SPDX-License-Identifier: Apache-2.0
/*
 * t_loop_timer.c - timers of an iothread, each test on both engines and under the filter.
 *
 * Nothing here is about being punctual, only about order, and about never being early.
 */
#include "../vmm/loop.h"
#include "../vmm/sandbox.h"
#include "tap.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <time.h>

#define MS 1000000ull

static enum loop_engine engine;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

struct bell {
	struct loop_timer timer;
	struct iothread *io;
	uint64_t delay, set, early; /* early: by how much, at worst */
	unsigned rings, again, *counter, place;
	struct bell *clears, *sets;
	sem_t rung;
};

static void bell_set(void *arg)
{
	struct bell *b = arg;

	b->set = now();
	loop_timer_set(b->io, &b->timer, b->delay);
}

static void bell_clear(void *arg)
{
	struct bell *b = arg;

	loop_timer_clear(b->io, &b->timer);
}

static void bell_ring(struct loop_timer *t)
{
	struct bell *b = container_of(t, struct bell, timer);
	uint64_t due = b->set + b->delay, at = now();

	if (at < due)
		b->early = MAX(b->early, due - at);
	b->rings++;
	if (b->counter)
		b->place = ++*b->counter;
	if (b->clears)
		bell_clear(b->clears);
	if (b->sets)
		bell_set(b->sets);
	if (b->again) {
		b->again--;
		bell_set(b);
	} else {
		sem_post(&b->rung);
	}
}

static void bell_init(struct bell *b, struct iothread *io, uint64_t delay)
{
	*b = (struct bell){.timer.fn = bell_ring, .io = io, .delay = delay};
	sem_init(&b->rung, 0, 0);
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

static struct iothread *thread(void)
{
	struct iothread *io = NULL;

	need(!iothread_create(&io, "timers", engine, 8, NULL));
	need(!iothread_start(io, NULL, NULL));
	return io;
}

static void nothing(void *arg)
{
	(void)arg;
}

/* All in one turn, so that none rings in between. */
static void set_four(void *arg)
{
	struct bell *b = arg;

	for (unsigned i = 0; i < 4; i++)
		bell_set(&b[i]);
}

static void test_order(void)
{
	struct iothread *io = thread();
	static const uint64_t delay[] = {30 * MS, 10 * MS, 20 * MS, 1};
	struct bell b[4];
	unsigned counter = 0;

	for (unsigned i = 0; i < 4; i++) {
		bell_init(&b[i], io, delay[i]);
		b[i].counter = &counter;
	}
	loop_call(io, set_four, b);
	for (unsigned i = 0; i < 4; i++)
		wait_for(&b[i].rung);
	ok(b[3].place == 1 && b[1].place == 2 && b[2].place == 3 && b[0].place == 4,
	   "timers ring in the order of their times");
	ok(!b[0].early && !b[1].early && !b[2].early && !b[3].early, "none of them early");
	ok(b[0].rings + b[1].rings + b[2].rings + b[3].rings == 4, "each of them once");
	iothread_destroy(io);
}

static void test_same_moment(void)
{
	struct iothread *io = thread();
	struct bell b[4];
	unsigned counter = 0;

	for (unsigned i = 0; i < 4; i++) {
		bell_init(&b[i], io, UINT64_MAX);
		b[i].counter = &counter;
	}
	loop_call(io, set_four, b);
	loop_call(io, bell_clear, &b[1]);
	b[1].delay = 5 * MS;
	loop_call(io, bell_set, &b[1]);
	wait_for(&b[1].rung);
	is(counter, 1, "a timer set for the end of time does not ring, one before it does");
	loop_call(io, bell_clear, &b[2]);
	loop_call(io, bell_clear, &b[0]);
	loop_call(io, bell_clear, &b[3]);
	iothread_destroy(io);
	is(counter, 1, "cleared timers do not ring");
}

/* In one turn, before it could ring. */
static void set_and_move(void *arg)
{
	struct bell *b = arg;

	bell_set(b);
	b->delay = 20 * MS;
	bell_set(b);
}

static void test_move(void)
{
	struct iothread *io = thread();
	struct bell sooner, later;

	bell_init(&sooner, io, 3600000 * MS);
	bell_init(&later, io, 1 * MS);
	loop_call(io, bell_set, &sooner);
	sooner.delay = 2 * MS;
	loop_call(io, bell_set, &sooner);
	wait_for(&sooner.rung);
	ok(sooner.rings == 1 && !sooner.early, "a timer that is set again rings at the new time");
	loop_call(io, set_and_move, &later);
	wait_for(&later.rung);
	ok(later.rings == 1 && !later.early, "one moved away does not ring at the old time");
	iothread_destroy(io);
}

static void test_from_callback(void)
{
	struct iothread *io = thread();
	struct bell first, second, third;

	/* Due in the same turn: the first takes the second back, and sets the third. */
	bell_init(&first, io, 5 * MS);
	bell_init(&second, io, 5 * MS + 1);
	bell_init(&third, io, 1 * MS);
	first.clears = &second;
	first.sets = &third;
	loop_call(io, bell_set, &first);
	loop_call(io, bell_set, &second);
	wait_for(&first.rung);
	wait_for(&third.rung);
	ok(second.rings == 0, "a timer cleared by another one that is due does not ring");
	ok(third.rings == 1 && !third.early, "one set there does");

	bell_init(&first, io, 1 * MS);
	first.clears = &first;
	loop_call(io, bell_set, &first);
	wait_for(&first.rung);
	is(first.rings, 1, "clearing itself changes nothing");
	iothread_destroy(io);
}

static void test_again(void)
{
	struct iothread *io = thread();
	struct bell b;

	bell_init(&b, io, 1 * MS);
	b.again = 9;
	loop_call(io, bell_set, &b);
	wait_for(&b.rung);
	ok(b.rings == 10 && !b.early, "set again from its own fn a timer rings ten times");

	bell_init(&b, io, 0);
	b.again = UINT32_MAX;
	loop_call(io, bell_set, &b);
	for (unsigned i = 0; i < 20; i++)
		loop_call(io, nothing, NULL);
	loop_call(io, bell_clear, &b);
	ok(b.rings > 1, "one that rings for ever keeps nobody out");
	iothread_destroy(io);
}

/* Beside a descriptor: events come through while a timer is set, and do not make it early. */
static void eye_ready(struct watch *w);
struct eye {
	struct watch watch;
	struct iothread *io;
	sem_t seen;
};

static void eye_ready(struct watch *w)
{
	sem_post(&container_of(w, struct eye, watch)->seen);
}

static void eye_open(void *arg)
{
	struct eye *e = arg;

	need(!loop_watch(e->io, &e->watch));
}

static void test_events(void)
{
	struct iothread *io = thread();
	auto_fd fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct eye e = {.watch = {.fd = fd, .kind = WATCH_EVENTFD, .ready = eye_ready}, .io = io};
	struct bell b;

	sem_init(&e.seen, 0, 0);
	bell_init(&b, io, 20 * MS);
	loop_call(io, eye_open, &e);
	loop_call(io, bell_set, &b);
	for (unsigned i = 0; i < 20; i++) {
		need(write(fd, &(uint64_t){1}, 8) == 8);
		wait_for(&e.seen);
	}
	wait_for(&b.rung);
	ok(b.rings == 1 && !b.early, "kicks are seen while a timer is set, and do not hurry it");
	iothread_destroy(io);
}

static int set_in_init(void *arg)
{
	bell_set(arg);
	return 0;
}

static void test_start(void)
{
	struct iothread *io = NULL;
	struct bell a, b;

	need(!iothread_create(&io, "timers", engine, 8, NULL));
	bell_init(&a, io, 1 * MS);
	bell_init(&b, io, 1 * MS);
	bell_set(&a);
	need(!iothread_start(io, set_in_init, &b));
	wait_for(&a.rung);
	wait_for(&b.rung);
	ok(!a.early && !b.early, "timers from before the start, and from init, ring");
	iothread_destroy(io);
}

static void test_end(void)
{
	struct iothread *io = thread();
	struct bell b;
	uint64_t began;

	bell_init(&b, io, 3600000 * MS);
	loop_call(io, bell_set, &b);
	began = now();
	iothread_destroy(io);
	ok(now() - began < 60000 * MS, "the end does not wait for a timer");
	ok(!b.rings && !b.timer.at, "which does not ring, and is not set any more");

	need(!iothread_create(&io, "timers", engine, 8, NULL));
	b.io = io;
	bell_set(&b);
	iothread_destroy(io);
	ok(!b.rings && !b.timer.at, "nor where the thread never ran");
}

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

/* A deadline in the past, or one rounded down, would be a spin. */
static void test_rest(void)
{
	struct iothread *io = thread();
	struct bell b;
	clockid_t clock;
	uint64_t before;

	bell_init(&b, io, 200 * MS + 999999);
	loop_call(io, cpu_clock, &clock);
	loop_call(io, bell_set, &b);
	before = cpu_used(clock);
	wait_for(&b.rung);
	ok(cpu_used(clock) - before < 50 * MS, "the thread sleeps until a timer is due");
	iothread_destroy(io);
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
	test_order();
	test_same_moment();
	test_move();
	test_from_callback();
	test_again();
	test_events();
	test_start();
	test_end();
	test_rest();
}

int main(void)
{
	need(sandbox_init() == 0);
	on_engine(LOOP_EPOLL, "epoll");
	on_engine(LOOP_URING, "uring");
	return done();
}
