// SPDX-License-Identifier: Apache-2.0
/*
 * t_virtio.c - the life of a device: negotiation, start, broken drivers, reset with requests in flight.
 *
 * A test device with two queues on a real iothread: queue 0 echoes the readable bytes into the writable ones, queue 1
 * keeps its requests until the test lets them go. Hard cases A2, A4, A10, A13, A15 to A17, A19 to A24, A28, A29.
 */
#include "fakeguest.h"
#include "tap.h"
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#define EVENT_IDX (1ull << VIRTIO_RING_F_EVENT_IDX)
#define INDIRECT  (1ull << VIRTIO_RING_F_INDIRECT_DESC)
#define S(bit)    VIRTIO_CONFIG_S_##bit

enum { ECHO, HOLD };

static uint32_t poll_us; /* of the devices of this round */

struct req {
	struct chain chain;
	bool mine; /* of the test device */
};

struct probe {
	struct virtio_dev v;
	uint8_t config[6];
	int start_error;

	/* Of the iothread; the test looks while the device rests, or through the semaphores. */
	struct req *held[64];
	unsigned nheld, kicks[2], starts, stops;
	bool keep_on_stop; /* stop() leaves what is held to the test */
	sem_t holding;     /* one more is held */
	sem_t stopping;    /* stop() was called */
	struct loop_work release;

	/* Queue 0 is held when so many more have been answered; UINT_MAX: never. */
	unsigned tokens;
	unsigned refused; /* put back */
	struct loop_work refill;
	struct loop_timer timer; /* does it by itself, after pause ns if that is not 0 */
	uint64_t pause;
	unsigned rests; /* atomic */
	unsigned late;  /* times that the timer found the queue at rest */
	bool rested_elsewhere, rested_running;
	struct poller watcher; /* of the thread: arm() is called each time it is about to sleep */
	unsigned arms;         /* atomic */

	/* Of the vCPU that sets FEATURES_OK. */
	unsigned negotiations;
	bool negotiated_late, negotiated_unlocked;
};

static struct probe *probe_of(struct virtio_dev *v)
{
	return container_of(v, struct probe, v);
}

static void echo(struct req *r)
{
	struct cursor rd = chain_rd(&r->chain), wr = chain_wr(&r->chain);
	uint32_t n = MIN(r->chain.rd_len, r->chain.wr_len);

	for (uint32_t i = 0; i < n; i++) {
		uint8_t b;

		cursor_get(&rd, &b, 1);
		cursor_put(&wr, &b, 1);
	}
	virtq_push(&r->chain, n);
}

static void hold(struct probe *p, struct req *r)
{
	p->held[p->nheld++] = r;
	sem_post(&p->holding);
}

/* What the driver may write is loaded as devices do; t_hammer writes it meanwhile. */
static void look_at_config(const struct virtio_dev *v)
{
	const uint8_t *config = v->config;

	for (size_t i = v->config_rw; i < v->config_rw + v->config_rw_len; i++)
		(void)__atomic_load_n(&config[i], __ATOMIC_RELAXED);
}

static void throttle(struct probe *p, struct chain *c)
{
	struct virtq *vq = c->vq;

	virtq_putback(c);
	virtq_hold(vq);
	p->refused++;
	if (p->pause)
		loop_timer_set(vq->io, &p->timer, p->pause);
	else
		sem_post(&p->holding);
}

static unsigned kicks_of(struct probe *p, unsigned queue)
{
	return __atomic_load_n(&p->kicks[queue], __ATOMIC_RELAXED);
}

static void probe_kick(struct virtio_dev *v, struct virtq *vq)
{
	struct probe *p = probe_of(v);
	struct chain *c;
	int r;

	__atomic_fetch_add(&p->kicks[vq->index], 1, __ATOMIC_RELAXED);
	look_at_config(v);
	while ((r = virtq_pop(vq, &c)) == 1) {
		if (vq->index == HOLD) {
			hold(p, (struct req *)c);
		} else if (!p->tokens) {
			throttle(p, c);
		} else {
			p->tokens -= p->tokens != UINT_MAX;
			echo((struct req *)c);
		}
	}
	if (r < 0)
		virtio_broken(v, vq, "test");
}

static void release_all(struct probe *p)
{
	for (unsigned i = 0; i < p->nheld; i++)
		virtq_push(&p->held[i]->chain, 0);
	p->nheld = 0;
}

static void release_work(struct loop_work *w)
{
	release_all(container_of(w, struct probe, release));
}

static void refill_with(struct probe *p, unsigned tokens)
{
	p->tokens = tokens;
	virtq_release(&p->v.vq[ECHO]);
	probe_kick(&p->v, &p->v.vq[ECHO]);
}

static void refill_work(struct loop_work *w)
{
	refill_with(container_of(w, struct probe, refill), UINT_MAX);
}

static void refill_timer(struct loop_timer *t)
{
	struct probe *p = container_of(t, struct probe, timer);

	p->late += !p->v.vq[ECHO].running;
	refill_with(p, 1);
}

static void probe_rest(struct virtio_dev *v, struct virtq *vq)
{
	struct probe *p = probe_of(v);

	p->rested_elsewhere |= v->nrunning && !iothread_current(vq->io);
	p->rested_running |= vq->running;
	__atomic_fetch_add(&p->rests, 1, __ATOMIC_RELAXED);
	if (vq->index == ECHO)
		loop_timer_clear(vq->io, &p->timer);
}

static bool watcher_poll(struct poller *p)
{
	(void)p;
	return false;
}

static bool watcher_arm(struct poller *p)
{
	__atomic_fetch_add(&container_of(p, struct probe, watcher)->arms, 1, __ATOMIC_RELAXED);
	return false;
}

static void probe_negotiated(struct virtio_dev *v)
{
	struct probe *p = probe_of(v);
	bool free = !pthread_mutex_trylock(&v->lock);

	if (free)
		pthread_mutex_unlock(&v->lock);
	p->negotiated_unlocked |= free;
	p->negotiated_late |= virtio_status_read(v) & S(FEATURES_OK);
	p->negotiations++;
	p->config[4] = virtio_has(v, 5);
}

static int probe_start(struct virtio_dev *v)
{
	struct probe *p = probe_of(v);

	p->starts++;
	return p->start_error;
}

static void probe_stop(struct virtio_dev *v)
{
	struct probe *p = probe_of(v);

	p->stops++;
	if (!p->keep_on_stop)
		release_all(p);
	sem_post(&p->stopping);
}

static const struct virtio_ops probe_ops = {.negotiated = probe_negotiated,
					    .start = probe_start,
					    .kick = probe_kick,
					    .rest = probe_rest,
					    .stop = probe_stop};

static void probe_init(struct probe *p)
{
	*p = (struct probe){.v = {.base.name = "probe",
				  .ops = &probe_ops,
				  .id = 42,
				  .nqueues = 2,
				  .queue_size = 64,
				  .poll_us = poll_us,
				  .req_size = sizeof(struct req),
				  .features = 1 << 5,
				  .config = p->config,
				  .config_len = sizeof(p->config),
				  .config_rw = 2,
				  .config_rw_len = 3},
			    .config = {1, 2, 3, 4, 5, 6},
			    .release.fn = release_work,
			    .tokens = UINT_MAX,
			    .refill.fn = refill_work,
			    .timer.fn = refill_timer,
			    .watcher = {.poll = watcher_poll, .arm = watcher_arm}};
	sem_init(&p->holding, 0, 0);
	sem_init(&p->stopping, 0, 0);
}

static struct fakeguest *guest_with(struct probe *p)
{
	struct fakeguest *fg = fg_create(MIB(16));

	probe_init(p);
	fg_attach(fg, &p->v);
	return fg;
}

static unsigned config_irqs(struct fakeguest *fg)
{
	return __atomic_load_n(&fg->irq_config, __ATOMIC_ACQUIRE);
}

/* ---- requests ---- */

static bool engine_works(const char *engine)
{
	struct iothread *io = NULL;
	int r = iothread_create(&io, "try", strcmp(engine, "uring") ? LOOP_EPOLL : LOOP_URING, 8,
				NULL);

	iothread_destroy(io);
	return !r;
}

static void t_echo(const char *engine, uint64_t features, uint16_t size)
{
	struct probe p;
	struct fakeguest *fg;
	char out[300], in[300];
	unsigned bad = 0;

	if (!engine_works(engine)) {
		skip("this host refuses io_uring", "requests through the %s engine", engine);
		return;
	}
	setenv("WHERRY_ENGINE", engine, 1);
	fg = guest_with(&p);
	fg_start(fg, features, size);
	for (unsigned i = 0; i < 2000; i++) {
		uint32_t n = i % sizeof(out) + 1;

		memset(out, (int)i, n);
		bad += fg_call(&fg->q[ECHO], out, n, in, n) != n || memcmp(out, in, n) != 0;
	}
	ok(!bad, "2000 requests one by one, %s, features 0x%llx, ring of %u", engine,
	   (unsigned long long)features, size);
	fg_destroy(fg);
	unsetenv("WHERRY_ENGINE");
}

/* The device's own choice goes before the environment's. */
static void t_engine(enum loop_engine engine, const char *name)
{
	struct fakeguest *fg;
	struct probe p;
	char c;

	if (!engine_works(name)) {
		skip("this host refuses io_uring", "a device that asks for %s", name);
		return;
	}
	setenv("WHERRY_ENGINE", engine == LOOP_EPOLL ? "uring" : "epoll", 1);
	fg = fg_create(MIB(16));
	probe_init(&p);
	p.v.engine = engine;
	fg_attach(fg, &p.v);
	fg_start(fg, EVENT_IDX, 8);
	ok(!strcmp(iothread_engine(p.v.io), name) && fg_call(&fg->q[ECHO], "x", 1, &c, 1) == 1,
	   "a device that asks for %s has it", name);
	fg_destroy(fg);
	unsetenv("WHERRY_ENGINE");
}

/* Both sides sleep and wake all the time; a lost notification is a time-out. */
static void t_pipeline(uint64_t features)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct fg_queue *q = &fg->q[ECHO];
	unsigned sent = 0, done_ = 0, bad = 0, total = 50000;
	uint32_t len;

	fg_start(fg, features, 64);
	while (done_ < total && !bad) {
		struct fg_buf rd = {&sent, sizeof(sent)}, wr = {NULL, sizeof(sent)};

		while (sent < total && sent - done_ < 1 + sent % 20) {
			fg_add(q, &rd, 1, &wr, 1, NULL);
			sent++;
		}
		bad += fg_used(q, &len) < 0 || len != sizeof(sent);
		done_++;
	}
	ok(!bad && done_ == total, "%u requests, up to 20 at a time, features 0x%llx", total,
	   (unsigned long long)features);
	fg_destroy(fg);
}

/* A10: the same bytes in every split of readable and writable parts. */
static void t_any_layout(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	unsigned bad = 0;

	fg_start(fg, EVENT_IDX, 64);
	for (uint32_t cut = 0; cut <= 12; cut++) {
		const char *text = "any layout!";
		struct fg_buf rd[] = {{text, cut}, {text + cut, 12 - cut}};
		struct fg_buf wr[] = {{NULL, 12 - cut}, {NULL, cut}};
		uint64_t gpa[2];
		uint32_t len;

		fg_add(&fg->q[ECHO], rd, 2, wr, 2, gpa);
		bad += fg_used(&fg->q[ECHO], &len) < 0 || len != 12;
		bad += memcmp(fg_ptr(fg, MIN(gpa[0], gpa[1]), 12), text, 12) != 0;
	}
	ok(!bad, "a request may be split anywhere, at its very ends too");
	fg_destroy(fg);
}

/* Published after the queues are set up and before DRIVER_OK: there is no kick that could tell of it. */
static void t_early(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct virtio_dev *v = &p.v;
	struct fg_buf rd = {"early", 5}, wr = {NULL, 5};
	uint64_t gpa;
	uint32_t len = 0;

	fg_ring(&fg->q[ECHO], 8);
	virtio_status_write(v, S(ACKNOWLEDGE) | S(DRIVER));
	virtio_driver_features_write(v, 1, 1u << (VIRTIO_F_VERSION_1 - 32));
	virtio_status_write(v, S(ACKNOWLEDGE) | S(DRIVER) | S(FEATURES_OK));
	virtio_queue_write(v, ECHO, VIRTQ_SIZE, 8);
	virtio_queue_write(v, ECHO, VIRTQ_DESC_LO, (uint32_t)fg->q[ECHO].desc);
	virtio_queue_write(v, ECHO, VIRTQ_AVAIL_LO, (uint32_t)fg->q[ECHO].avail);
	virtio_queue_write(v, ECHO, VIRTQ_USED_LO, (uint32_t)fg->q[ECHO].used);
	virtio_queue_write(v, ECHO, VIRTQ_READY, 1);
	fg_add(&fg->q[ECHO], &rd, 1, &wr, 1, &gpa);
	virtio_status_write(v, S(ACKNOWLEDGE) | S(DRIVER) | S(FEATURES_OK) | S(DRIVER_OK));
	is(fg_used(&fg->q[ECHO], &len), 0,
	   "a request that came before DRIVER_OK is found at the start");
	is(len, 5, "and answered");
	is(config_irqs(fg), 0, "reaching DRIVER_OK is no reason for a config interrupt");
	virtio_queue_kick(v, HOLD);
	is(fg_call(&fg->q[ECHO], "x", 1, (char[1]){0}, 1), 1,
	   "a kick of a queue that was not set up is nothing");
	fg_destroy(fg);
}

/* ---- negotiation ---- */

static uint8_t negotiate(struct virtio_dev *v, uint32_t lo, uint32_t hi, uint32_t word2)
{
	virtio_status_write(v, 0);
	virtio_status_write(v, S(ACKNOWLEDGE) | S(DRIVER));
	virtio_driver_features_write(v, 0, lo);
	virtio_driver_features_write(v, 1, hi);
	virtio_driver_features_write(v, 2, word2);
	virtio_driver_features_write(v, 3, 0);
	virtio_status_write(v, S(ACKNOWLEDGE) | S(DRIVER) | S(FEATURES_OK));
	return virtio_status_read(v);
}

static void t_features(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct virtio_dev *v = &p.v;
	const uint8_t no = S(ACKNOWLEDGE) | S(DRIVER), yes = no | S(FEATURES_OK);

	is(virtio_features_read(v, 0), 1u << 5 | 1u << 28 | 1u << 29,
	   "offered: the device's bits, INDIRECT_DESC and EVENT_IDX");
	is(virtio_features_read(v, 1), 1, "and VERSION_1, nothing else");
	ok(!virtio_features_read(v, 2) && !virtio_features_read(v, 3) &&
		   !virtio_features_read(v, UINT32_MAX),
	   "feature words past the second are 0");
	is(negotiate(v, 1 << 5, 1, 0), yes, "a subset with VERSION_1 is accepted");
	ok(virtio_has(v, 5) && !virtio_has(v, VIRTIO_RING_F_EVENT_IDX),
	   "and is what the device sees");
	virtio_driver_features_write(v, 0, 0);
	is(virtio_driver_features_read(v, 0), 1 << 5, "features do not change after FEATURES_OK");
	is(negotiate(v, 1 << 5, 0, 0), no, "without VERSION_1 FEATURES_OK reads back 0");
	is(negotiate(v, 1 << 6, 1, 0), no, "with a bit that was not offered too");
	is(negotiate(v, 0, 1u | 1u << 2, 0), no, "also in the second word");
	is(negotiate(v, 0, 1, 4), no, "and in the third");
	is(negotiate(v, 0, 1, 0), yes, "which a reset forgets");
	fg_destroy(fg);
}

static void t_status(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct virtio_dev *v = &p.v;

	is(virtio_status_read(v), 0, "status is 0 at power-on");
	virtio_status_write(v, S(ACKNOWLEDGE) | S(DRIVER) | S(DRIVER_OK));
	is(virtio_status_read(v), S(ACKNOWLEDGE) | S(DRIVER),
	   "DRIVER_OK without FEATURES_OK is refused");
	virtio_driver_features_write(v, 1, 1);
	virtio_status_write(v, S(FEATURES_OK) | S(DRIVER_OK));
	is(virtio_status_read(v), S(ACKNOWLEDGE) | S(DRIVER) | S(FEATURES_OK),
	   "nor can both be set at once, and no bit is cleared by leaving it out");
	virtio_status_write(v, S(NEEDS_RESET) | 0x20);
	is(virtio_status_read(v), S(ACKNOWLEDGE) | S(DRIVER) | S(FEATURES_OK),
	   "NEEDS_RESET and bits that do not exist are not the driver's to set");
	is(p.starts, 0, "until now the device was not started");
	virtio_status_write(v, S(DRIVER_OK));
	virtio_status_write(v, S(DRIVER_OK));
	is(p.starts, 1, "DRIVER_OK starts it, once");
	virtio_status_write(v, S(FAILED));
	is(virtio_status_read(v), 0x8f, "FAILED is noted");
	fg_reset(fg);
	fg_reset(fg);
	is(p.stops, 1, "a reset stops it, a second one has nothing to stop");
	fg_destroy(fg);
}

static void t_queue_window(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct virtio_dev *v = &p.v;
	static const enum virtq_reg regs[] = {VIRTQ_SIZE,    VIRTQ_READY,    VIRTQ_DESC_LO,
					      VIRTQ_DESC_HI, VIRTQ_AVAIL_LO, VIRTQ_AVAIL_HI,
					      VIRTQ_USED_LO, VIRTQ_USED_HI};
	unsigned changed = 0, left = 0;
	char c;

	virtio_queue_write(v, ECHO, VIRTQ_SIZE, 8);
	is(virtio_queue_read(v, ECHO, VIRTQ_SIZE), 64,
	   "queues cannot be written before FEATURES_OK");
	fg_start(fg, EVENT_IDX, 8);
	for (unsigned i = 0; i < ARRAY_LEN(regs); i++) {
		uint32_t was = virtio_queue_read(v, ECHO, regs[i]);

		virtio_queue_write(v, ECHO, regs[i], ~was & 0xfff0);
		changed += virtio_queue_read(v, ECHO, regs[i]) != was;
	}
	is(changed, 0, "nor, any of their registers, after DRIVER_OK");
	is(fg_call(&fg->q[ECHO], "x", 1, &c, 1), 1, "and the queue goes on");
	for (unsigned i = 0; i < ARRAY_LEN(regs); i++)
		left += virtio_queue_read(v, 2, regs[i]) | virtio_queue_read(v, 0xffff, regs[i]) |
			virtio_queue_read(v, UINT32_MAX, regs[i]);
	is(left + virtio_queue_read(v, 2, VIRTQ_SIZE_MAX), 0,
	   "a queue number out of range reads 0");
	virtio_queue_write(v, 2, VIRTQ_SIZE, 4);
	virtio_queue_write(v, UINT32_MAX, VIRTQ_READY, 1);
	virtio_queue_kick(v, 2);
	virtio_queue_kick(v, UINT32_MAX);
	is(fg_call(&fg->q[ECHO], "x", 1, &c, 1), 1, "writes and kicks of one go nowhere");
	fg_reset(fg);
	for (unsigned i = 1; i < ARRAY_LEN(regs); i++)
		left += virtio_queue_read(v, ECHO, regs[i]);
	ok(!left && virtio_queue_read(v, ECHO, VIRTQ_SIZE) == 64,
	   "a reset clears every queue register");
	is(virtio_driver_features_read(v, 0), 0, "and the features");
	fg_destroy(fg);
}

/* ---- drivers that break the rules ---- */

static void t_broken(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct fg_buf rd = {"x", 1};
	unsigned kicks;
	uint32_t len;
	char c;

	fg_start(fg, EVENT_IDX, 8);
	fg_add(&fg->q[HOLD], &rd, 1, NULL, 0, NULL);
	sem_wait(&p.holding);
	fg_desc(&fg->q[HOLD], 5, 0xf0000000, 8, 0, 0);
	fg_avail_push(&fg->q[HOLD], 5);
	fg_kick(&fg->q[HOLD]);
	ok(fg_wait_broken(fg), "a bad chain makes the device ask for a reset");
	is(fg_call(&fg->q[ECHO], "x", 1, &c, 1), 1, "its other queue goes on");
	is(config_irqs(fg), 1, "the driver was told by a config interrupt");
	kicks = kicks_of(&p, HOLD);
	for (int i = 0; i < 100; i++)
		fg_kick(&fg->q[HOLD]);
	fg_call(&fg->q[ECHO], "x", 1, &c, 1);
	is(kicks_of(&p, HOLD), kicks, "kicks of a broken queue cost nothing");
	loop_post(p.v.io, &p.release);
	is(fg_used(&fg->q[HOLD], &len), 0, "what it had taken before is still completed");
	virtio_status_write(&p.v, S(DRIVER_OK));
	ok(virtio_status_read(&p.v) & S(NEEDS_RESET), "only a reset helps");
	fg_start(fg, EVENT_IDX, 8);
	is(virtio_status_read(&p.v), 0xf, "after it the device is as new");
	fg_add(&fg->q[HOLD], &rd, 1, NULL, 0, NULL);
	sem_wait(&p.holding);
	loop_post(p.v.io, &p.release);
	is(fg_used(&fg->q[HOLD], &len), 0, "and the queue works again");
	fg_destroy(fg);
}

static void t_bad_start(void)
{
	static const struct {
		const char *what;
		enum virtq_reg reg;
		uint32_t v;
	} bad[] = {{"size 0", VIRTQ_SIZE, 0},
		   {"size 3", VIRTQ_SIZE, 3},
		   {"size over the maximum", VIRTQ_SIZE, 128},
		   {"size 65536", VIRTQ_SIZE, 65536},
		   {"size 65544", VIRTQ_SIZE, 65544},
		   {"descriptors outside RAM", VIRTQ_DESC_HI, 1},
		   {"a misaligned avail ring", VIRTQ_AVAIL_LO, 1},
		   {"a used ring outside RAM", VIRTQ_USED_HI, ~0u}};
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct virtio_dev *v = &p.v;
	char c;

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		unsigned irqs = config_irqs(fg);

		negotiate(v, 0, 1, 0);
		virtio_queue_write(v, HOLD, bad[i].reg, bad[i].v);
		virtio_queue_write(v, HOLD, VIRTQ_READY, 1);
		virtio_status_write(v, S(DRIVER_OK));
		ok((virtio_status_read(v) & S(NEEDS_RESET)) && config_irqs(fg) == irqs + 1,
		   "%s: the start fails, the driver is told", bad[i].what);
	}
	is(p.starts, 0, "and the device was never started");
	fg_start(fg, EVENT_IDX, 8);
	is(fg_call(&fg->q[ECHO], "x", 1, &c, 1), 1, "after a reset it can be");
	p.start_error = -EIO;
	fg_reset(fg);
	negotiate(v, 0, 1, 0);
	virtio_status_write(v, S(DRIVER_OK));
	ok(virtio_status_read(v) & S(NEEDS_RESET), "a device that cannot start says so");
	fg_kick(&fg->q[ECHO]);
	p.start_error = 0;
	fg_start(fg, EVENT_IDX, 8);
	is(fg_call(&fg->q[ECHO], "x", 1, &c, 1), 1, "and the machine goes on");
	fg_destroy(fg);
}

/* ---- batches ---- */

static void hold_some(struct probe *p, struct fakeguest *fg, unsigned n)
{
	struct fg_buf rd = {"x", 1};

	for (unsigned i = 0; i < n; i++)
		fg_add(&fg->q[HOLD], &rd, 1, NULL, 0, NULL);
	for (unsigned i = 0; i < n; i++)
		sem_wait(&p->holding);
}

static unsigned queue_irqs(struct fakeguest *fg, unsigned q)
{
	return __atomic_load_n(&fg->irq_queue[q], __ATOMIC_ACQUIRE);
}

/* Nobody calls virtq_notify() here. Without the event index, and as the driver has not asked for peace, each counts. */
static void t_batch(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	unsigned bad = 0, before;
	uint32_t len;
	char c;

	fg_start(fg, 0, 64);
	for (unsigned round = 0; round < 20; round++) {
		hold_some(&p, fg, 20);
		before = queue_irqs(fg, HOLD);
		loop_post(p.v.io, &p.release);
		for (unsigned i = 0; i < 20; i++)
			bad += fg_used(&fg->q[HOLD], &len) < 0;
		/* Once more through the loop: an interrupt may come after its entries have been seen. */
		fg_call(&fg->q[ECHO], "x", 1, &c, 1);
		bad += queue_irqs(fg, HOLD) != before + 1;
	}
	is(bad, 0, "20 requests that complete in one turn of the loop are one interrupt");
	before = queue_irqs(fg, ECHO);
	is(fg_call(&fg->q[ECHO], "x", 1, &c, 1), 1, "one that is answered at once");
	fg_reset(fg);
	is(queue_irqs(fg, ECHO), before + 1, "is one");
	fg_start(fg, 0, 64);
	hold_some(&p, fg, 20);
	before = queue_irqs(fg, HOLD);
	loop_post(p.v.io, &p.release);
	fg_reset(fg);
	ok(queue_irqs(fg, HOLD) <= before + 1, "a reset that comes between is none the worse");
	fg_start(fg, 0, 64);
	hold_some(&p, fg, 1);
	loop_post(p.v.io, &p.release);
	is(fg_used(&fg->q[HOLD], &len), 0, "and the next driver is told of its own");
	fg_destroy(fg);
}

/* ---- a queue that is held ---- */

static void watch_sleeps(void *arg)
{
	struct probe *p = arg;

	loop_poll_add(p->v.io, &p->watcher);
}

static void name_thread(void *arg)
{
	*(pid_t *)arg = gettid();
}

static char thread_state(pid_t tid)
{
	char path[64], text[256];
	const char *end;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	need(n > 0);
	text[n] = 0;
	end = strrchr(text, ')');
	need(end && end[1] == ' ');
	return end[2];
}

/* It has asked for events, found nothing, and the kernel says that it sleeps; one that spins never comes there. */
static bool falls_asleep(struct probe *p, pid_t tid)
{
	time_t deadline = time(NULL) + 10;
	unsigned arms;
	bool asleep;

	do {
		arms = __atomic_load_n(&p->arms, __ATOMIC_RELAXED);
		asleep = arms && thread_state(tid) == 'S' &&
			 arms == __atomic_load_n(&p->arms, __ATOMIC_RELAXED);
		if (!asleep)
			sched_yield();
	} while (!asleep && time(NULL) < deadline);
	return asleep;
}

static void add_numbers(struct fg_queue *q, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		struct fg_buf rd = {&i, sizeof(i)}, wr = {NULL, sizeof(i)};

		fg_add(q, &rd, 1, &wr, 1, NULL);
	}
}

static unsigned used_numbers(struct fg_queue *q, unsigned n)
{
	unsigned bad = 0;
	uint32_t len;

	while (n--)
		bad += fg_used(q, &len) < 0 || len != sizeof(unsigned);
	return bad;
}

static void close_gate(void *arg)
{
	((struct probe *)arg)->tokens = 2;
}

static void open_gate(void *arg)
{
	((struct probe *)arg)->tokens = UINT_MAX;
}

/* As a limit of the rate does it: two go through, the next one is put back, and the queue waits to be let on. */
static void t_held(uint64_t features)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct fg_queue *q = &fg->q[ECHO];
	unsigned kicks, bad = 0, awake = 0, disturbed = 0;
	pid_t tid;
	char c;

	loop_call(p.v.io, name_thread, &tid);
	loop_call(p.v.io, watch_sleeps, &p);
	fg_start(fg, features, 64);
	for (unsigned round = 0; round < 3; round++) {
		loop_call(p.v.io, close_gate, &p);
		add_numbers(q, 0, 5);
		bad += used_numbers(q, 2);
		sem_wait(&p.holding);
		awake += !falls_asleep(&p, tid);
		kicks = kicks_of(&p, ECHO);
		add_numbers(q, 5, 25);
		for (unsigned i = 0; i < 20; i++)
			fg_kick(q);
		awake += !falls_asleep(&p, tid);
		disturbed += kicks_of(&p, ECHO) - kicks;
		loop_post(p.v.io, &p.refill);
		bad += used_numbers(q, 23);
		for (unsigned i = 0; i < 50; i++)
			bad += fg_call(q, "x", 1, &c, 1) != 1;
	}
	is(awake, 0, "features 0x%llx: the thread of a queue that is held sleeps",
	   (unsigned long long)features);
	is(disturbed, 0, "and hears no kicks");
	is(bad, 0, "when it is released all is answered, and kicks are heard again");
	loop_call(p.v.io, close_gate, &p);
	add_numbers(q, 0, 5);
	sem_wait(&p.holding);
	fg_reset(fg);
	is(virtio_status_read(&p.v), 0, "a queue that is held can be reset");
	loop_call(p.v.io, open_gate, &p);
	fg_start(fg, features, 64);
	is(fg_call(q, "x", 1, &c, 1), 1, "and is not held then");
	fg_destroy(fg);
	is(p.refused, 4, "each time one request was put back");
}

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * A device's timer releases the queue, or would: before the driver's reset, in the midst of it, and when there is no
 * driver. It never meets a queue that is another thread's.
 */
static void t_held_reset(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct fg_queue *q = &fg->q[ECHO];
	unsigned bad = 0;
	uint64_t end;
	uint32_t len;

	p.tokens = 0;
	for (unsigned round = 0; round < 300; round++) {
		p.pause = 1 + round % 16 * 10000;
		fg_start(fg, round & 1 ? EVENT_IDX : 0, 64);
		add_numbers(q, 0, 4);
		for (unsigned i = 0; i < round % 4; i++)
			bad += fg_used(q, &len) < 0;
		fg_reset(fg);
		for (end = clock_ns() + 2 * p.pause; clock_ns() < end;)
			;
	}
	is(bad, 0, "a queue that is held and released by a timer, reset at any moment of that");
	is(p.rests, 600, "its device is told of each queue that rests");
	ok(!p.rested_elsewhere && !p.rested_running, "on its thread, when it has been stopped");
	fg_destroy(fg);
	is(p.late, 0, "so that a timer which it cancels there never finds the queue at rest");
}

/* ---- reset with requests in flight ---- */

static void *reset_thread(void *arg)
{
	fg_reset(arg);
	return NULL;
}

static uint16_t used_idx(struct fg_queue *q)
{
	struct vring_used *u = fg_ptr(q->fg, q->used, 6 + 8ull * q->size);

	return __atomic_load_n(&u->idx, __ATOMIC_ACQUIRE);
}

static void t_reset_in_flight(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct fg_queue *q = &fg->q[HOLD];
	pthread_t t;
	char c;

	p.keep_on_stop = true;
	fg_start(fg, EVENT_IDX, 8);
	hold_some(&p, fg, 5);
	need(!pthread_create(&t, NULL, reset_thread, fg));
	sem_wait(&p.stopping);
	ok(virtio_status_read(&p.v) != 0, "a reset is not over while requests are in flight");
	memset(fg_ptr(fg, q->used, 64), 0x5a, 64);
	loop_post(p.v.io, &p.release);
	pthread_join(t, NULL);
	is(virtio_status_read(&p.v), 0, "it is when the last has come back");
	is(used_idx(q), 0x5a5a,
	   "whose completion is not written into memory the driver has taken back");
	is(__atomic_load_n(&fg->irq_queue[HOLD], __ATOMIC_RELAXED), 0, "nor interrupted for");

	p.keep_on_stop = false;
	fg_start(fg, EVENT_IDX, 8);
	hold_some(&p, fg, 5);
	fg_reset(fg);
	is(used_idx(q), 0,
	   "what the device itself gives back when stopped is not published either");
	fg_start(fg, 0, 16);
	is(fg_call(&fg->q[ECHO], "x", 1, &c, 1), 1, "and the next driver finds a working device");
	hold_some(&p, fg, 16);
	ok(1, "with all its heads");
	fg_destroy(fg);
	is(p.nheld, 0, "a device can be taken away with requests in flight");
}

static void t_rebind(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	unsigned bad = 0;
	char c;

	for (unsigned i = 0; i < 200; i++) {
		fg_start(fg, i & 1 ? EVENT_IDX : INDIRECT, (uint16_t)(1 << (i % 5 + 1)));
		hold_some(&p, fg, i % 3);
		for (int k = 0; k < 3; k++)
			bad += fg_call(&fg->q[ECHO], "x", 1, &c, 1) != 1;
		fg_kick(&fg->q[ECHO]);
		fg_kick(&fg->q[HOLD]);
		fg_reset(fg);
	}
	ok(!bad, "200 drivers one after the other, with kicks left over from each");
	fg_destroy(fg);
}

/* ---- configuration space ---- */

static void set_first(struct virtio_dev *v, void *arg)
{
	memcpy(v->config, arg, 1);
}

static void t_config(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct virtio_dev *v = &p.v;
	uint8_t b[8], zero[8] = {0};
	uint32_t gen = virtio_config_generation(v);

	virtio_config_read(v, 2, b, 4);
	ok(!memcmp(b, "\3\4\5\6", 4), "configuration bytes are read");
	virtio_config_read(v, 4, b, 8);
	ok(!memcmp(b, "\5\6\0\0\0\0\0\0", 8), "past their end they read 0");
	virtio_config_read(v, 6, b, 8);
	ok(!memcmp(b, zero, 8), "wholly past it too");
	memset(b, 1, 8);
	virtio_config_read(v, UINT64_MAX - 3, b, 8);
	ok(!memcmp(b, zero, 8), "and where offset and length wrap");
	virtio_config_changed(v, set_first, &(uint8_t){9});
	is(config_irqs(fg), 0, "a change before DRIVER_OK does not interrupt");
	ok(virtio_config_generation(v) != gen, "but is a new generation");
	fg_start(fg, 0, 8);
	virtio_config_changed(v, set_first, &(uint8_t){7});
	is(config_irqs(fg), 1, "after it, it does");
	virtio_config_read(v, 0, b, 1);
	is(b[0], 7, "and is there to read");
	fg_destroy(fg);
}

/* Any offset and length; only bytes 2 to 4 are the driver's, and not before it has said what it knows. */
static void t_config_write(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct virtio_dev *v = &p.v;
	uint32_t gen = virtio_config_generation(v);
	uint8_t want[6], fill = 0x80, data[10];
	unsigned bad = 0;

	memset(data, 0xee, sizeof(data));
	virtio_config_write(v, 0, data, 6);
	ok(!memcmp(p.config, "\1\2\3\4\5\6", 6), "configuration is not written before FEATURES_OK");
	fg_start(fg, 0, 8);
	memcpy(want, p.config, 6);
	for (unsigned off = 0; off < 10; off++)
		for (unsigned len = 0; len <= sizeof(data); len++) {
			for (unsigned i = 0; i < len; i++) {
				data[i] = fill++;
				if (off + i >= 2 && off + i < 5)
					want[off + i] = data[i];
			}
			virtio_config_write(v, off, data, len);
			bad += memcmp(p.config, want, 6) != 0;
		}
	is(bad, 0, "afterwards the bytes that are the driver's, whatever else an access covers");
	for (unsigned i = 0; i < 10; i++)
		virtio_config_write(v, UINT64_MAX - i, data, sizeof(data));
	ok(!memcmp(p.config, want, 6), "none where offset and length wrap");
	ok(virtio_config_generation(v) == gen && !config_irqs(fg),
	   "neither interrupt nor generation tells the driver of it");
	fg_reset(fg);
	virtio_config_write(v, 0, "\0\0\0\0\0\0", 6);
	ok(!memcmp(p.config, want, 6), "and none after a reset");
	fg_destroy(fg);
}

static void t_negotiated(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	struct virtio_dev *v = &p.v;
	uint8_t b;

	negotiate(v, 1 << 5, 0, 0);
	negotiate(v, 1 << 6, 1, 0);
	is(p.negotiations, 0, "features that are refused are not told to the device");
	negotiate(v, 1 << 5, 1, 0);
	is(p.negotiations, 1, "those that are accepted are, when FEATURES_OK is set");
	virtio_config_read(v, 4, &b, 1);
	is(b, 1, "so that its configuration can say what follows from them");
	virtio_status_write(v, S(FEATURES_OK));
	virtio_status_write(v, S(DRIVER_OK));
	is(p.negotiations, 1, "once");
	negotiate(v, 0, 1, 0);
	virtio_config_read(v, 4, &b, 1);
	ok(p.negotiations == 2 && b == 0, "and again to the next driver");
	ok(!p.negotiated_late && !p.negotiated_unlocked,
	   "under the lock, before the driver can read FEATURES_OK back");
	fg_destroy(fg);
}

static void t_no_config(void)
{
	struct fakeguest *fg = fg_create(MIB(16));
	struct probe p;
	uint8_t b[4] = {1, 1, 1, 1};

	probe_init(&p);
	p.v.config = NULL;
	p.v.config_len = p.v.config_rw = p.v.config_rw_len = 0;
	fg_attach(fg, &p.v);
	virtio_config_read(&p.v, 0, b, 4);
	ok(!memcmp(b, "\0\0\0\0", 4), "a device without configuration reads 0");
	negotiate(&p.v, 0, 1, 0);
	virtio_config_write(&p.v, 0, "\1\1\1\1", 4);
	virtio_config_read(&p.v, 0, b, 4);
	ok(!memcmp(b, "\0\0\0\0", 4), "also when it was written");
	fg_destroy(fg);
}

/* ---- the edges of its life ---- */

static void t_not_running(void)
{
	struct fakeguest *fg = fg_create(MIB(16));
	struct probe p;
	struct virtio_dev *v = &p.v;
	char c = 0;

	probe_init(&p);
	fg_attach_only(fg, v);
	fg_start(fg, EVENT_IDX, 8);
	is(virtio_status_read(v), 0xf, "a device whose thread does not run yet can be started");
	fg_start(fg, EVENT_IDX, 8);
	is(virtio_status_read(v), 0xf, "and reset, without waiting for anyone");
	need(!virtio_run(v));
	is(fg_call(&fg->q[ECHO], "x", 1, &c, 1), 1, "and serves when its thread does");
	fg_destroy(fg);
	virtio_detach(v);
	ok(!v->vq && !v->io && !v->vm, "detaching twice is fine");
}

/* Two vCPUs that agree on nothing, while the device works: nothing here may wait for ever or touch freed memory. */
static void *hammer(void *arg)
{
	struct fakeguest *fg = arg;
	unsigned seed = (unsigned)(uintptr_t)&seed;
	uint8_t b[8];

	for (unsigned i = 0; i < 3000; i++) {
		uint32_t x = (uint32_t)rand_r(&seed);

		virtio_queue_write(fg->dev, x % 4, (enum virtq_reg)(x >> 8 & 7), x >> 16);
		virtio_queue_kick(fg->dev, x % 3);
		virtio_driver_features_write(fg->dev, x % 3, x & 8 ? 1 : x);
		virtio_config_read(fg->dev, x % 16, b, 8);
		virtio_config_write(fg->dev, x % 16, b, x % 9);
		virtio_status_write(fg->dev, x & 0x70 ? (uint8_t)(x >> 4) : 0);
	}
	return NULL;
}

static void t_hammer(void)
{
	struct probe p;
	struct fakeguest *fg = guest_with(&p);
	pthread_t t[2];
	char c;

	for (unsigned i = 0; i < 2; i++)
		need(!pthread_create(&t[i], NULL, hammer, fg));
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	fg_start(fg, EVENT_IDX, 8);
	is(fg_call(&fg->q[ECHO], "x", 1, &c, 1), 1,
	   "after two vCPUs have written anything anywhere a reset brings the device back");
	fg_destroy(fg);
}

static void all(uint32_t us)
{
	poll_us = us;
	printf("# poll_us %u\n", us);
	t_echo("epoll", 0, 2);
	t_echo("epoll", EVENT_IDX | INDIRECT, 64);
	t_echo("uring", 0, 64);
	t_echo("uring", EVENT_IDX, 64);
	t_engine(LOOP_EPOLL, "epoll");
	t_engine(LOOP_URING, "uring");
	t_pipeline(0);
	t_pipeline(EVENT_IDX | INDIRECT);
	t_any_layout();
	t_early();
	t_features();
	t_status();
	t_queue_window();
	t_broken();
	t_bad_start();
	t_batch();
	t_held(0);
	t_held(EVENT_IDX);
	t_held_reset();
	t_reset_in_flight();
	t_rebind();
	t_config();
	t_config_write();
	t_negotiated();
	t_no_config();
	t_not_running();
	t_hammer();
}

int main(void)
{
	log_set_level(LOG_ERR);
	all(0);
	all(50);
	all(1000);
	return done();
}
