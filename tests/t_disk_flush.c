// SPDX-License-Identifier: Apache-2.0
/*
 * t_disk_flush.c - flushes of a disk: what is lost stays lost, one call at a time, and what each covers.
 *
 * On the engine without a ring fdatasync() is what the test makes of it.
 */
#include "disk_bed.h"

/* NULL: what it should do. Else a result, or -1 and errno. */
static int (*fake_fdatasync)(void);

int fdatasync(int fd)
{
	int (*fake)(void) = __atomic_load_n(&fake_fdatasync, __ATOMIC_ACQUIRE);

	return fake ? fake() : (int)syscall(SYS_fdatasync, fd);
}

static void be_fake(int (*fake)(void))
{
	__atomic_store_n(&fake_fdatasync, fake, __ATOMIC_RELEASE);
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

/* ---- an error ---- */

/* A flush of what cannot be flushed, a pipe. */
static int flush_broken(struct bed *b, struct disk *d)
{
	int pipes[2], fd = d->file.fd, r;

	need(!pipe(pipes));
	d->file.fd = pipes[1];
	r = bed_flush(b, d);
	d->file.fd = fd;
	close(pipes[0]);
	close(pipes[1]);
	return r;
}

static void test_lost(struct bed *b)
{
	const char *path = bed_file("lost", 4096), *name = b->engine;
	struct disk *d, *before, *after, *other;
	char log[500], buf[512] = "";

	need(!open_logged(&d, path, false, log));
	need(!again_logged(&before, d, NULL, log));
	is(bed_flush(b, d), 0, "%s: a flush succeeds", name);
	is(flush_broken(b, d), -EINVAL, "%s: one that fails says so", name);
	is(bed_flush(b, d), -EINVAL, "%s: and all that follow, though the file could now", name);
	is(flush_broken(b, d), -EINVAL, "%s: always with the first error", name);
	is(bed_flush(b, before), -EINVAL, "%s: the same disk, asked for its size before that,",
	   name);
	need(!again_logged(&after, d, path, log));
	is(bed_flush(b, after), -EINVAL, "%s: or after that, knows of it", name);
	is(bed_rw(b, d, true, buf, 512, 0), 512, "%s: it can still be written", name);
	need(!again_logged(&other, d, bed_file("whole", 512), log));
	is(bed_flush(b, other), 0, "%s: another file has lost nothing", name);
	disk_put(other);
	disk_put(d);
	is(bed_flush(b, before), -EINVAL, "%s: nor is it forgotten with the first of them", name);
	disk_put(before);
	disk_put(after);
	need(!open_logged(&d, path, false, log));
	is(bed_flush(b, d), 0, "%s: but when it is opened anew", name);
	is(bed_flush(b, d), 0, "%s: as often as one likes", name);
	disk_put(d);

	need(!open_logged(&d, path, false, log));
	need(!again_logged(&after, d, NULL, log));
	is(flush_broken(b, after), -EINVAL, "%s: what the later one loses", name);
	is(bed_flush(b, d), -EINVAL, "%s: the earlier one has lost", name);
	disk_put(d);
	disk_put(after);
}

/* ---- at the same time ---- */

/* A call begins, is counted, and ends when it may. */
static struct {
	unsigned calls;
	sem_t begun, may_end;
	int err;
} gate;

static int gated(void)
{
	__atomic_add_fetch(&gate.calls, 1, __ATOMIC_RELAXED);
	sem_post(&gate.begun);
	wait_for(&gate.may_end);
	errno = gate.err;
	return gate.err ? -1 : 0;
}

static void gate_begin(void)
{
	memset(&gate, 0, sizeof(gate));
	sem_init(&gate.begun, 0, 0);
	sem_init(&gate.may_end, 0, 0);
	be_fake(gated);
}

static unsigned calls(void)
{
	return __atomic_load_n(&gate.calls, __ATOMIC_RELAXED);
}

struct flush {
	struct disk *disk;
	struct iothread *io;
	struct disk_op op;
	int res;
	bool elsewhere; /* it ended on another thread than it began */
	sem_t *done;
};

static void flush_ended(struct io_op *io, int res)
{
	struct flush *f = container_of(io, struct flush, op.io);

	f->res = res;
	f->elsewhere = !iothread_current(f->io);
	sem_post(f->done);
}

static void flush_there(void *arg)
{
	struct flush *f = arg;
	int r;

	f->op.io.done = flush_ended;
	r = disk_flush(f->disk, f->io, &f->op);
	if (r != -EINPROGRESS)
		flush_ended(&f->op.io, r);
}

static void flush_start(struct flush *f)
{
	loop_call(f->io, flush_there, f);
}

static void test_share(struct bed *b)
{
	struct flush f[4];
	struct disk *d, *again;
	unsigned bad = 0;
	int ended;
	char log[500];
	sem_t done;

	need(!open_logged(&d, bed_file("shared", 512), false, log));
	need(!again_logged(&again, d, NULL, log));
	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < ARRAY_LEN(f); i++)
		f[i] = (struct flush){.disk = i & 1 ? again : d, .io = b[i / 2].io, .done = &done};
	gate_begin();
	flush_start(&f[0]);
	wait_for(&gate.begun);
	for (unsigned i = 1; i < ARRAY_LEN(f); i++)
		flush_start(&f[i]);
	is(calls(), 1, "while one flush is under way, no other one begins");
	sem_post(&gate.may_end);
	wait_for(&done);
	is(f[0].res, 0, "it ends");
	wait_for(&gate.begun);
	need(!sem_getvalue(&done, &ended));
	ok(calls() == 2 && !ended, "and then one begins for those that came meanwhile");
	sem_post(&gate.may_end);
	for (unsigned i = 1; i < ARRAY_LEN(f); i++)
		wait_for(&done);
	for (unsigned i = 0; i < ARRAY_LEN(f); i++)
		bad += f[i].res || f[i].elsewhere;
	is(bad, 0, "all of them, each on its own thread");
	is(calls(), 2, "with two calls for four");
	sem_post(&gate.may_end);
	flush_start(&f[3]);
	wait_for(&done);
	is(calls(), 3, "what comes later is a call of its own");
	be_fake(NULL);
	disk_put(again);
	disk_put(d);
	sem_destroy(&done);
}

static void test_share_error(struct bed *b)
{
	struct flush f[3];
	struct disk *d;
	unsigned bad = 0;
	char log[500];
	sem_t done;

	need(!open_logged(&d, bed_file("broken", 512), false, log));
	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < ARRAY_LEN(f); i++)
		f[i] = (struct flush){.disk = d, .io = b[i % 2].io, .done = &done};
	gate_begin();
	gate.err = EIO;
	flush_start(&f[0]);
	wait_for(&gate.begun);
	flush_start(&f[1]);
	flush_start(&f[2]);
	sem_post(&gate.may_end);
	for (unsigned i = 0; i < ARRAY_LEN(f); i++)
		wait_for(&done);
	for (unsigned i = 0; i < ARRAY_LEN(f); i++)
		bad += f[i].res != -EIO || f[i].elsewhere;
	is(bad, 0, "one that fails fails for all that waited: their data may be what was lost");
	is(calls(), 1, "which the kernel would not say twice");
	be_fake(NULL);
	is(bed_flush(b, d), -EIO, "nor do later ones succeed");
	disk_put(d);
	sem_destroy(&done);
}

static void test_apart(struct bed *b)
{
	struct flush f[2];
	char log[500];
	sem_t done;

	sem_init(&done, 0, 0);
	for (unsigned i = 0; i < 2; i++) {
		f[i] = (struct flush){.io = b->io, .done = &done};
		need(!open_logged(&f[i].disk, bed_file(i ? "one" : "other", 512), false, log));
	}
	gate_begin();
	flush_start(&f[0]);
	flush_start(&f[1]);
	wait_for(&gate.begun);
	wait_for(&gate.begun);
	is(calls(), 2, "flushes of two files do not wait for one another");
	for (unsigned i = 0; i < 2; i++)
		sem_post(&gate.may_end);
	for (unsigned i = 0; i < 2; i++)
		wait_for(&done);
	is(f[0].res | f[1].res, 0, "and end");
	be_fake(NULL);
	for (unsigned i = 0; i < 2; i++)
		disk_put(f[i].disk);
	sem_destroy(&done);
}

/* ---- a storm ---- */

#define STORM_DEPTH 8u
#define STORM_ROUND 1000u

/* Changes are counted; a call makes durable those that there were when it began. */
static struct {
	unsigned changes, durable, under_way, bad;
} model;

static int modelled(void)
{
	unsigned covers = __atomic_load_n(&model.changes, __ATOMIC_SEQ_CST);

	if (__atomic_add_fetch(&model.under_way, 1, __ATOMIC_SEQ_CST) != 1)
		__atomic_add_fetch(&model.bad, 1, __ATOMIC_RELAXED);
	sched_yield();
	__atomic_store_n(&model.durable, covers, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&model.under_way, 1, __ATOMIC_SEQ_CST);
	return 0;
}

struct storm {
	struct storm_op {
		struct disk_op op;
		struct storm *storm;
		unsigned change;
	} ops[STORM_DEPTH];
	struct disk *disk;
	struct iothread *io;
	unsigned left, out;
	bool is_fake;
	sem_t *done;
};

static void storm_flush(struct storm_op *o);

static void storm_ended(struct io_op *io, int res)
{
	struct storm_op *o = container_of(io, struct storm_op, op.io);
	struct storm *s = o->storm;
	bool early = s->is_fake && __atomic_load_n(&model.durable, __ATOMIC_SEQ_CST) < o->change;

	if (res || early || !iothread_current(s->io))
		__atomic_add_fetch(&model.bad, 1, __ATOMIC_RELAXED);
	if (s->left) {
		storm_flush(o);
		return;
	}
	if (!--s->out)
		sem_post(s->done);
}

static void storm_flush(struct storm_op *o)
{
	struct storm *s = o->storm;

	s->left--;
	o->op.io.done = storm_ended;
	o->change = __atomic_add_fetch(&model.changes, 1, __ATOMIC_SEQ_CST);
	if (disk_flush(s->disk, s->io, &o->op) != -EINPROGRESS)
		abort();
}

static void storm_begin(void *arg)
{
	struct storm *s = arg;

	for (unsigned i = 0; i < STORM_DEPTH; i++)
		storm_flush(&s->ops[i]);
}

static void test_storm(struct bed *b, unsigned n, bool is_fake)
{
	struct storm storm[2];
	struct disk *d;
	char log[500];
	sem_t done;

	need(!open_logged(&d, bed_file("stormy", 512), false, log));
	sem_init(&done, 0, 0);
	memset(&model, 0, sizeof(model));
	be_fake(is_fake ? modelled : NULL);
	for (unsigned i = 0; i < n; i++) {
		storm[i] = (struct storm){.disk = d,
					  .io = b[i].io,
					  .left = STORM_ROUND,
					  .out = STORM_DEPTH,
					  .is_fake = is_fake,
					  .done = &done};
		for (unsigned k = 0; k < STORM_DEPTH; k++)
			storm[i].ops[k].storm = &storm[i];
		loop_call(b[i].io, storm_begin, &storm[i]);
	}
	for (unsigned i = 0; i < n; i++)
		wait_for(&done);
	be_fake(NULL);
	is(model.bad, 0,
	   is_fake ? "%s: of many flushes each covers what was written before it, never two at a "
		     "time"
		   : "%s: many flushes end, each on its own thread",
	   b->engine);
	ok(!d->flushes, "%s: and leave nothing behind", b->engine);
	disk_put(d);
	sem_destroy(&done);
}

int main(void)
{
	static const enum loop_engine engines[] = {LOOP_URING, LOOP_EPOLL};
	struct bed b[2];

	need(!sandbox_init());
	bed_make(bed_base(0));
	for (unsigned i = 0; i < ARRAY_LEN(engines); i++) {
		const bool is_fake = engines[i] == LOOP_EPOLL;

		if (!bed_start(&b[0], engines[i]))
			continue;
		need(bed_start(&b[1], engines[i]));
		test_lost(b);
		if (is_fake) {
			test_share(b);
			test_share_error(b);
			test_apart(b);
		}
		test_storm(b, 2, is_fake);
		bed_stop(&b[1]);
		bed_stop(&b[0]);
	}
	bed_end();
	return done();
}
