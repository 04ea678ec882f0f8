// SPDX-License-Identifier: Apache-2.0
/*
 * bench.c - the benchmark engine.
 *
 * One loop: fill the free slots, kick, wait for answers, settle all that have come. After 100 ms of warm-up the counts
 * begin anew; when the time is over the slots run empty. Offsets are whole multiples of the block size.
 */
#include "bench.h"
#include "pattern.h"

#define WARM_UP_MS 100

static struct slot {
	uint64_t offset, number, begun;
	uint32_t stage;
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

uint64_t bench_offset(uint32_t slot)
{
	return slots[slot].offset;
}

uint64_t bench_number(uint32_t slot)
{
	return slots[slot].number;
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
	r->kicks = r->b->q->kicks;
	r->kick_cycles = r->b->q->kick_cycles;
}

static void stop(struct run *r, uint64_t now)
{
	r->stopping = true;
	r->tally.cycles = now - r->begun;
	r->tally.bytes = r->done * r->job->bs;
	r->tally.kicks = r->b->q->kicks - r->kicks;
	r->tally.kick_cycles = r->b->q->kick_cycles - r->kick_cycles;
}

static void add_stage(const struct run *r, uint32_t slot)
{
	struct seg s[QUEUE_MAX];
	uint32_t nout, nin;

	r->b->prep(slot, slots[slot].stage, s, &nout, &nin);
	vq_add(r->b->q, slot, s, nout, nin);
}

static uint64_t pick_offset(const struct run *r, uint64_t number)
{
	if (!r->blocks)
		return 0;
	return (r->sequential ? number % r->blocks : random_below((uint32_t)r->blocks)) *
	       r->job->bs;
}

static void begin_operation(struct run *r)
{
	uint32_t slot = r->free[--r->nfree];
	struct slot *s = &slots[slot];

	*s = (struct slot){.number = r->next++};
	s->offset = pick_offset(r, s->number);
	if (r->b->write)
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

static void loop(struct run *r)
{
	for (;;) {
		uint32_t len;
		int slot;

		while (may_begin(r))
			begin_operation(r);
		vq_kick(r->b->q);
		if (!r->in_flight)
			return;
		slot = (int)vq_wait(r->b->q, &len);
		for (; slot >= 0; slot = vq_poll(r->b->q, &len))
			settle(r, (uint32_t)slot, len);
		look_at_clock(r);
	}
}

void bench_run(struct bench *b, struct job *j)
{
	struct run r = {
		.b = b, .job = j, .sequential = !text_begins(j->op, "rand"), .warm = !b->once};
	uint32_t bs = MAX(j->bs, 1u);

	slot_bytes = (bs + PATTERN_BLOCK - 1) / PATTERN_BLOCK * PATTERN_BLOCK;
	j->qd = vq_depth(b->q, MIN(j->qd, (uint32_t)(POOL_BYTES / slot_bytes)), b->maxseg);
	r.blocks = (j->size ? MIN(j->size, b->span) : b->span) / bs;
	if (!j->qd || (b->span && !r.blocks))
		give_up("%s:%s: bs=%u or qd is too large", b->dev, j->op, j->bs);
	for (uint32_t i = 0; i < j->qd; i++)
		r.free[r.nfree++] = i;
	begin_counting(&r, cpu_tsc());
	loop(&r);
	stat_print(b->dev, j, &r.tally);
	vq_depth(b->q, 1, 8);
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
