// SPDX-License-Identifier: Apache-2.0
/*
 * t_threads.c - a virtio device with several iothreads: who serves what, and that nothing is left of it when it stops.
 *
 * The test device has four queues and three threads. Every other request is answered at once, the rest go through the
 * pool of their thread, so that a reset finds some of them in flight on each. Hard cases A15, A16, A17, A19, A22, A23.
 */
#include "fakeguest.h"
#include "tap.h"
#include "../vmm/sandbox.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>

#define NQUEUES  4
#define NTHREADS 3
#define RING     16
#define PATIENCE 100 /* s; an alarm ends what hangs */

#define EVENT_IDX (1ull << VIRTIO_RING_F_EVENT_IDX)
#define S(bit)    VIRTIO_CONFIG_S_##bit

static uint32_t poll_us; /* of the devices of this round */

struct req {
	struct chain chain;
	struct io_op op;
};

struct mill {
	struct virtio_dev v;
	int init_error, start_error;
	unsigned init_fails; /* the thread_init that fails, from 1 */

	/* Of the first thread, or of the test while the device rests. */
	unsigned starts, stops;
	bool early, late,
		elsewhere; /* something was live at start or stop, or ran on another thread */

	/* Each written by one thread, read when that has been joined, or atomic. */
	unsigned inits;
	char names[NTHREADS][16];
	unsigned stray; /* atomic: requests on another thread than their queue's */
	unsigned kicks; /* atomic */
};

static struct mill *mill_of(struct virtio_dev *v)
{
	return container_of(v, struct mill, v);
}

static int mill_init_thread(struct virtio_dev *v)
{
	struct mill *m = mill_of(v);
	unsigned n = m->inits++;

	need(!pthread_getname_np(pthread_self(), m->names[n], sizeof(m->names[n])));
	m->elsewhere |= !iothread_current(v->threads[n]);
	return m->inits == m->init_fails ? m->init_error : 0;
}

static int mill_start(struct virtio_dev *v)
{
	struct mill *m = mill_of(v);

	m->starts++;
	m->elsewhere |= !iothread_current(v->io) || v->io != v->threads[0];
	for (unsigned i = 0; i < NQUEUES; i++)
		m->early |= v->vq[i].watch.slot != NULL;
	return m->start_error;
}

static void mill_stop(struct virtio_dev *v)
{
	struct mill *m = mill_of(v);

	m->stops++;
	m->elsewhere |= !iothread_current(v->io);
	for (unsigned i = 0; i < NQUEUES; i++)
		m->late |= v->vq[i].watch.slot != NULL || v->vq[i].running;
}

static void answer(struct req *r)
{
	struct virtq *vq = r->chain.vq;
	struct cursor wr = chain_wr(&r->chain);

	if (!iothread_current(vq->io))
		__atomic_fetch_add(&mill_of(vq->dev)->stray, 1, __ATOMIC_RELAXED);
	cursor_put(&wr, &vq->index, 1);
	virtq_push(&r->chain, 1);
}

static void answer_late(struct io_op *op, int res)
{
	struct req *r = container_of(op, struct req, op);
	struct virtq *vq = r->chain.vq;

	(void)res;
	answer(r);
	virtq_notify(vq);
}

static int yield(struct io_op *op)
{
	(void)op;
	return sched_yield();
}

static void mill_kick(struct virtio_dev *v, struct virtq *vq)
{
	struct chain *c;
	int r;

	__atomic_fetch_add(&mill_of(v)->kicks, 1, __ATOMIC_RELAXED);
	while ((r = virtq_pop(vq, &c)) == 1) {
		struct req *q = container_of(c, struct req, chain);

		q->op.done = answer_late;
		if (c->head & 1)
			answer(q);
		else if (loop_offload(vq->io, &q->op, yield) != -EINPROGRESS)
			abort();
	}
	if (r < 0)
		virtio_broken(v, vq, "test");
	virtq_notify(vq);
}

static const struct virtio_ops mill_ops = {
	.thread_init = mill_init_thread, .start = mill_start, .kick = mill_kick, .stop = mill_stop};

static void mill_init(struct mill *m)
{
	*m = (struct mill){.v = {.base.name = "mill",
				 .ops = &mill_ops,
				 .id = 42,
				 .nqueues = NQUEUES,
				 .nthreads = NTHREADS,
				 .queue_size = 64,
				 .poll_us = poll_us,
				 .req_size = sizeof(struct req)}};
}

static struct fakeguest *guest_with(struct mill *m)
{
	struct fakeguest *fg = fg_create(MIB(16));

	mill_init(m);
	fg_attach(fg, &m->v);
	return fg;
}

/* n requests to each queue that is not left out, without waiting. */
static void fill_all(struct fakeguest *fg, unsigned n, unsigned but)
{
	struct fg_buf rd = {"x", 1}, wr = {NULL, 1};

	for (unsigned k = 0; k < n; k++)
		for (unsigned i = 0; i < NQUEUES; i++)
			if (i != but)
				fg_add(&fg->q[i], &rd, 1, &wr, 1, NULL);
}

/* How many of them do not come back. */
static unsigned collect_all(struct fakeguest *fg, unsigned n, unsigned but)
{
	unsigned bad = 0;
	uint32_t len;

	for (unsigned i = 0; i < NQUEUES; i++)
		for (unsigned k = 0; i != but && k < n; k++)
			bad += fg_used(&fg->q[i], &len) < 0 || len != 1;
	return bad;
}

#define NONE UINT32_MAX

/* ---- who serves what ---- */

static void t_places(void)
{
	struct mill m;
	struct fakeguest *fg = guest_with(&m);
	struct virtio_dev *v = &m.v;
	unsigned bad = 0;

	is(m.inits, NTHREADS, "thread_init ran on each of the three threads");
	ok(!strcmp(m.names[0], "mill") && !strcmp(m.names[1], "mill-1") &&
		   !strcmp(m.names[2], "mill-2"),
	   "first on the first; they are named after the device");
	ok(v->vq[0].io == v->io && v->vq[1].io == v->io && v->vq[2].io == v->threads[1] &&
		   v->vq[3].io == v->threads[2],
	   "the last two queues have a thread each, the others share the first");
	for (unsigned round = 0; round < 200; round++) {
		fg_start(fg, round & 1 ? EVENT_IDX : 0, RING);
		fill_all(fg, RING / 2, NONE);
		bad += collect_all(fg, RING / 2, NONE);
		fill_all(fg, 3, NONE);
		bad += collect_all(fg, 3, NONE);
	}
	is(bad, 0, "200 drivers have requests of all four queues served at a time");
	fg_reset(fg);
	is(__atomic_load_n(&m.stray, __ATOMIC_RELAXED), 0, "each request on its queue's thread");
	ok(m.starts == 200 && m.stops == 200 && !m.early && !m.late && !m.elsewhere,
	   "start before any queue was live, stop after all had stopped, on the first thread");
	fg_destroy(fg);
}

static void t_one_each(void)
{
	struct mill m;
	struct fakeguest *fg = fg_create(MIB(16));

	mill_init(&m);
	m.v.nthreads = NQUEUES;
	m.init_fails = NQUEUES + 1;
	m.v.ops = &(const struct virtio_ops){.kick = mill_kick};
	fg_attach(fg, &m.v);
	fg_start(fg, EVENT_IDX, RING);
	fill_all(fg, RING / 2, NONE);
	is(collect_all(fg, RING / 2, NONE), 0, "as many threads as queues: all of them serve");
	fg_destroy(fg);
}

/* ---- reset with all of them busy ---- */

static void t_busy_reset(void)
{
	struct mill m;
	struct fakeguest *fg = guest_with(&m);
	unsigned bad = 0;

	for (unsigned round = 0; round < 300; round++) {
		fg_start(fg, round & 1 ? EVENT_IDX : 0, RING);
		fill_all(fg, RING / 2, NONE);
		if (round % 3 == 0)
			collect_all(fg, 1, NONE);
		fg_reset(fg);
		for (unsigned i = 0; i < NQUEUES; i++)
			bad += m.v.vq[i].inflight != 0;
	}
	is(bad, 0, "300 resets with all queues busy: each ends when nothing is in flight");
	fg_start(fg, EVENT_IDX, RING);
	fill_all(fg, RING / 2, NONE);
	is(collect_all(fg, RING / 2, NONE), 0, "and the next driver has all heads of all queues");
	fill_all(fg, RING / 2, NONE);
	fg_destroy(fg);
	ok(!m.late && !m.elsewhere, "a device is taken away while all its threads are busy");
}

/* ---- broken ---- */

/* Leaves the last descriptor of a ring to the lie. */
#define FEW (RING / 2 - 1)

static void t_broken(void)
{
	struct mill m;
	struct fakeguest *fg = guest_with(&m);
	unsigned bad = 0;

	fg_start(fg, EVENT_IDX, RING);
	fill_all(fg, FEW, NONE);
	fg_desc(&fg->q[2], RING - 1, UINT64_MAX, 8, 0, 0);
	fg_avail_push(&fg->q[2], RING - 1);
	fg_kick(&fg->q[2]);
	ok(fg_wait_broken(fg), "one of the queues breaks while the others work");
	bad += collect_all(fg, FEW, NONE);
	is(bad, 0, "what all of them had taken comes back");
	for (unsigned i = 0; i < 50; i++) {
		fill_all(fg, FEW, 2);
		bad += collect_all(fg, FEW, 2);
	}
	is(bad, 0, "and the others go on");
	is(__atomic_load_n(&fg->irq_config, __ATOMIC_ACQUIRE), 1, "the driver was told once");
	for (unsigned i = 0; i < NQUEUES; i++) {
		fg_desc(&fg->q[i], RING - 1, UINT64_MAX, 8, 0, 0);
		fg_avail_push(&fg->q[i], RING - 1);
		fg_kick(&fg->q[i]);
	}
	fg_start(fg, EVENT_IDX, RING);
	is(virtio_status_read(&m.v), 0xf, "all four broken at once: a reset heals them");
	fill_all(fg, FEW, NONE);
	is(collect_all(fg, FEW, NONE), 0, "and they serve");
	fg_destroy(fg);
}

static void t_bad_start(void)
{
	struct mill m;
	struct fakeguest *fg = guest_with(&m);

	m.start_error = -EIO;
	fg_start(fg, EVENT_IDX, RING);
	ok(virtio_status_read(&m.v) & S(NEEDS_RESET), "a device that cannot start says so");
	for (unsigned i = 0; i < NQUEUES; i++)
		fg_kick(&fg->q[i]);
	fg_reset(fg);
	is(__atomic_load_n(&m.kicks, __ATOMIC_RELAXED), 0, "and none of its queues is served");
	m.start_error = 0;
	fg_start(fg, EVENT_IDX, RING);
	fill_all(fg, 4, NONE);
	is(collect_all(fg, 4, NONE), 0, "after a reset it can");
	fg_destroy(fg);
}

/* ---- half made ---- */

static void t_init_fails(void)
{
	for (unsigned nth = 1; nth <= NTHREADS; nth++) {
		struct fakeguest *fg = fg_create(MIB(16));
		struct mill m;

		mill_init(&m);
		m.init_error = -EXDEV;
		m.init_fails = nth;
		fg_attach_only(fg, &m.v);
		/* A driver that was there first: its queues wait for the threads. */
		fg_start(fg, EVENT_IDX, RING);
		is(virtio_run(&m.v), -EXDEV, "thread_init fails on thread %u: so does the run",
		   nth);
		fill_all(fg, 2, NONE);
		fg_destroy(fg);
		ok(!m.v.threads && !m.v.io && !m.v.vq, "what did run ends");
	}
}

static void t_run_late(void)
{
	struct fakeguest *fg = fg_create(MIB(16));
	struct mill m;

	mill_init(&m);
	m.v.ops = &(const struct virtio_ops){.kick = mill_kick};
	fg_attach_only(fg, &m.v);
	fg_start(fg, EVENT_IDX, RING);
	fg_start(fg, EVENT_IDX, RING);
	fill_all(fg, RING / 2, NONE);
	need(!virtio_run(&m.v));
	is(collect_all(fg, RING / 2, NONE), 0,
	   "started and reset before its threads run, all queues serve when they do");
	fg_destroy(fg);
}

/* With ever more descriptors allowed, until it is attached. */
static void t_half_attached(void)
{
	struct rlimit old, low;
	struct fakeguest *fg = fg_create(MIB(1));
	struct mill m;
	unsigned failed = 0;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC), saved = dup(STDERR_FILENO);
	int first, r = -1;

	/* The lines that say so are not of interest. */
	need(null >= 0 && saved >= 0 && dup2(null, STDERR_FILENO) == STDERR_FILENO);
	first = dup(0);
	need(first >= 0 && !close(first) && !getrlimit(RLIMIT_NOFILE, &old));
	for (int room = 0; r && room < 100; room++) {
		low = (struct rlimit){(rlim_t)(first + room), old.rlim_max};
		need(!setrlimit(RLIMIT_NOFILE, &low));
		mill_init(&m);
		r = virtio_attach(&m.v, fg->vm);
		failed += r != 0;
		need(r || m.v.vq[NQUEUES - 1].io);
		need(!r || (!m.v.vq && !m.v.threads && !m.v.vm));
	}
	need(!setrlimit(RLIMIT_NOFILE, &old) && dup2(saved, STDERR_FILENO) == STDERR_FILENO);
	ok(!r && failed > NQUEUES, "short of descriptors (%u times) an attach takes itself back",
	   failed);
	virtio_detach(&m.v);
	is(dup(0), first, "and leaves none open");
	close(first);
	close(saved);
	close(null);
	fg_destroy(fg);
}

/* ---- vCPUs that agree on nothing ---- */

static void *hammer(void *arg)
{
	struct fakeguest *fg = arg;
	unsigned seed = (unsigned)(uintptr_t)&seed;

	for (unsigned i = 0; i < 2000; i++) {
		uint32_t x = (uint32_t)rand_r(&seed);

		virtio_queue_write(fg->dev, x % 5, (enum virtq_reg)(x >> 8 & 7), x >> 16);
		virtio_queue_kick(fg->dev, x % 5);
		virtio_driver_features_write(fg->dev, x % 2, x & 8 ? 1 : x);
		virtio_status_write(fg->dev, x & 0x70 ? (uint8_t)(x >> 4) : 0);
	}
	return NULL;
}

static void t_hammer(void)
{
	struct mill m;
	struct fakeguest *fg = guest_with(&m);
	pthread_t t[2];

	for (unsigned i = 0; i < 2; i++)
		need(!pthread_create(&t[i], NULL, hammer, fg));
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	fg_start(fg, EVENT_IDX, RING);
	fill_all(fg, RING / 2, NONE);
	is(collect_all(fg, RING / 2, NONE), 0,
	   "after two vCPUs have written anything anywhere all queues serve again");
	fg_destroy(fg);
}

static void on_engine(const char *engine, uint32_t us)
{
	struct iothread *io = NULL;
	int r = iothread_create(&io, "try", strcmp(engine, "uring") ? LOOP_EPOLL : LOOP_URING, 8,
				NULL);

	iothread_destroy(io);
	printf("# %s, poll_us %u\n", engine, us);
	poll_us = us;
	if (r) {
		skip(strerror(-r), "%s: the host refuses it", engine);
		return;
	}
	setenv("WHERRY_ENGINE", engine, 1);
	t_places();
	t_one_each();
	t_busy_reset();
	t_broken();
	t_bad_start();
	t_init_fails();
	t_run_late();
	t_half_attached();
	t_hammer();
}

int main(void)
{
	log_set_level(LOG_ERR);
	alarm(PATIENCE);
	need(!sandbox_init());
	on_engine("uring", 0);
	on_engine("uring", 50);
	on_engine("epoll", 0);
	on_engine("epoll", 50);
	return done();
}
