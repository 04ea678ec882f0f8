// SPDX-License-Identifier: Apache-2.0
/*
 * bench.c - the benchmark engine.
 *
 * One loop: fill the free slots, kick, wait for answers, settle all that have come. After 100 ms of warm-up the counts
 * begin anew; when the time is over the slots run empty. Offsets are whole multiples of the block size. Where reads and
 * writes are mixed they may meet in a block: all that is written there is what was there, so each read is checked.
 */
#include "bench.h"
#include "pattern.h"

#define WARM_UP_MS 100

static struct slot {
	uint64_t offset, number, begun;
	uint32_t stage;
	bool writes;
} slots[SLOT_MAX];
static uint32_t slot_bytes;

struct run {
	const struct bench *b;
	const struct job *job;
	struct tally tally;
	uint32_t free[SLOT_MAX], nfree, in_flight;
	uint64_t blocks; /* of bs bytes; 0: no offsets */
	uint64_t next, done;
	uint64_t begun, kicks, kick_cycles; /* of the part that counts */
	bool sequential, warm, stopping;
};

struct vq *bench_queue(const struct bench *b, uint32_t slot)
{
	return &b->q[slot % b->nq];
}

uint64_t bench_kicks(const struct bench *b)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < b->nq; i++)
		n += b->q[i].kicks;
	return n;
}

uint64_t bench_kick_cycles(const struct bench *b)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < b->nq; i++)
		n += b->q[i].kick_cycles;
	return n;
}

uint64_t bench_offset(uint32_t slot)
{
	return slots[slot].offset;
}

uint64_t bench_number(uint32_t slot)
{
	return slots[slot].number;
}

bool bench_writes(uint32_t slot)
{
	return slots[slot].writes;
}

uint8_t *bench_data(uint32_t slot)
{
	return pool + (uint64_t)slot * slot_bytes;
}

bool bench_data_good(uint32_t slot, uint32_t len)
{
	const uint8_t *p = bench_data(slot);

	if (options.quick)
		return pattern_check_quick(p, len, 0, bench_offset(slot));
	return pattern_check(p, len, 0, bench_offset(slot)) == len;
}

static void begin_counting(struct run *r, uint64_t now)
{
	stat_begin();
	r->done = 0;
	r->begun = now;
	r->kicks = bench_kicks(r->b);
	r->kick_cycles = bench_kick_cycles(r->b);
}

static void stop(struct run *r, uint64_t now)
{
	r->stopping = true;
	r->tally.cycles = now - r->begun;
	r->tally.bytes = r->done * r->job->bs;
	r->tally.kicks = bench_kicks(r->b) - r->kicks;
	r->tally.kick_cycles = bench_kick_cycles(r->b) - r->kick_cycles;
}

static void add_stage(const struct run *r, uint32_t slot)
{
	struct seg s[QUEUE_MAX];
	uint32_t nout, nin;

	r->b->prep(slot, slots[slot].stage, s, &nout, &nin);
	vq_add(bench_queue(r->b, slot), slot, s, nout, nin);
}

static uint64_t pick_offset(const struct run *r, uint64_t number)
{
	if (!r->blocks)
		return 0;
	return (r->sequential ? number % r->blocks : random_below((uint32_t)r->blocks)) *
	       r->job->bs;
}

static bool pick_writes(const struct bench *b)
{
	return b->writes == 100 || (b->writes && random_below(100) < b->writes);
}

static void begin_operation(struct run *r)
{
	uint32_t slot = r->free[--r->nfree];
	struct slot *s = &slots[slot];

	*s = (struct slot){.number = r->next++};
	s->offset = pick_offset(r, s->number);
	s->writes = pick_writes(r->b);
	if (s->writes)
		pattern_fill(bench_data(slot), r->job->bs, 0, s->offset);
	s->begun = cpu_tsc();
	add_stage(r, slot);
	r->in_flight++;
}

static void settle(struct run *r, uint32_t slot, uint32_t len)
{
	int e = r->b->done(slot, slots[slot].stage, len);

	if (e && !r->tally.errs++)
		r->tally.first_err = (uint64_t)e;
	if (!e && ++slots[slot].stage < r->b->stages) {
		add_stage(r, slot);
		return;
	}
	r->tally.all++;
	if (!r->stopping) {
		stat_add(cpu_tsc() - slots[slot].begun);
		r->done++;
	}
	r->free[r->nfree++] = slot;
	r->in_flight--;
}

static void look_at_clock(struct run *r)
{
	uint64_t now = cpu_tsc(), cycles = now - r->begun;

	if (r->stopping)
		return;
	if (r->warm && cycles > clock_tsc_khz * WARM_UP_MS) {
		r->warm = false;
		begin_counting(r, now);
	} else if (!r->warm &&
		   (r->job->n ? r->done >= r->job->n : cycles >= clock_tsc_khz * r->job->ms)) {
		stop(r, now);
	}
}

static bool may_begin(const struct run *r)
{
	return r->nfree && !r->stopping && !(r->b->once && r->next == r->job->n);
}

/* All that has come, on every queue; how many. */
static uint32_t settle_all(struct run *r)
{
	uint32_t n = 0, len;
	int slot;

	for (unsigned i = 0; i < r->b->nq; i++)
		while ((slot = vq_poll(&r->b->q[i], &len)) >= 0) {
			settle(r, (uint32_t)slot, len);
			n++;
		}
	return n;
}

static void wait(struct run *r)
{
	uint64_t t0 = cpu_tsc();

	while (!settle_all(r)) {
		cpu_pause();
		vq_check_patience(r->b->q, t0);
	}
}

static void loop(struct run *r)
{
	for (;;) {
		while (may_begin(r))
			begin_operation(r);
		for (unsigned i = 0; i < r->b->nq; i++)
			vq_kick(&r->b->q[i]);
		if (!r->in_flight)
			return;
		wait(r);
		look_at_clock(r);
	}
}

static void set_depth(struct bench *b, struct job *j, uint32_t nseg)
{
	for (unsigned i = 0; i < b->nq; i++)
		j->qd = vq_depth(&b->q[i], j->qd, nseg);
}

void bench_run(struct bench *b, struct job *j)
{
	struct run r = {
		.b = b, .job = j, .sequential = !text_begins(j->op, "rand"), .warm = !b->once};
	uint32_t bs = MAX(j->bs, 1u);

	slot_bytes = (bs + PATTERN_BLOCK - 1) / PATTERN_BLOCK * PATTERN_BLOCK;
	j->qd = MIN(j->qd, (uint32_t)(POOL_BYTES / slot_bytes));
	set_depth(b, j, b->maxseg);
	r.blocks = (j->size ? MIN(j->size, b->span) : b->span) / bs;
	if (!j->qd || (b->span && !r.blocks))
		give_up("%s:%s: bs=%u or qd is too large", b->dev, j->op, j->bs);
	for (uint32_t i = 0; i < j->qd; i++)
		r.free[r.nfree++] = i;
	begin_counting(&r, cpu_tsc());
	loop(&r);
	stat_print(b->dev, j, &r.tally);
	for (unsigned i = 0; i < b->nq; i++)
		vq_depth(&b->q[i], 1, 8);
}

void bench_exits(const char *dev, struct job *j, struct vq *q)
{
	uint64_t t0 = cpu_tsc(), n = j->n ? j->n : 10000;
	bool doorbell = text_equal(j->op, "doorbell");

	j->bs = 0;
	stat_begin();
	for (uint64_t i = 0; i < n; i++) {
		uint64_t t = cpu_tsc();

		if (doorbell)
			virtio_doorbell(q);
		else
			virtio_status(q->dev);
		stat_add(cpu_tsc() - t);
	}
	stat_print(dev, j, &(struct tally){.cycles = cpu_tsc() - t0, .all = n});
}
