// SPDX-License-Identifier: Apache-2.0
/*
 * rate.c - token buckets without locks.
 *
 * A bucket is not a number of tokens that somebody has to fill, but the moment at which it will be full if nobody takes
 * any more; to take is to move that moment. Its time runs in units, counted from rate_init(): capacity of them pass in
 * refill_ns, one in 1 to 2 ns, and a token is a power of two of them. So a request costs whole units, nothing is lost to
 * rounding however many there are, and the clock is at most a unit behind. (With more than a token per ns a unit is
 * several of them, a request costs its last one whole, and of size less than two millionths are cut off.)
 *
 *   units   0 ------------ time ---------- full_at ------ time + capacity
 *                          |<--- taken --->|<--- left ---->|
 *
 * A request moves it in any case; if there is not so much left, it waits until there would have been. So each stands
 * behind all that asked before, and what it waits for nobody else can take.
 * No number leaves 64 bits: time is at most TIME_MAX, a request UNITS_MAX, both together the latest full_at, a capacity
 * 2^55 (a year in ns); products have 128. Atomics are relaxed: nobody learns anything from a bucket but what is in it.
 * Calls: option.h.
 */
#include "rate.h"

#define NS_PER_MS   1000000u
#define YEAR_MS     31536000000ull
#define TIME_MAX    (1ull << 62) /* units or ns: 146 years and more */
#define UNITS_MAX   (1ull << 61)
#define TOKENS_SANE (1ull << 60) /* in a file: beyond it JSON's numbers soon end */

static uint64_t get(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* False: *was is what was there instead. */
static bool swap(uint64_t *p, uint64_t *was, uint64_t to)
{
	return __atomic_compare_exchange_n(p, was, to, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* ---- units ---- */

static uint64_t elapsed(const struct bucket *b, uint64_t now)
{
	return now > b->start ? MIN(now - b->start, TIME_MAX) : 0;
}

static uint64_t units_passed(const struct bucket *b, uint64_t ns)
{
	return (uint64_t)((unsigned __int128)ns * b->capacity / b->refill_ns);
}

/* The first moment at which so many have passed. */
static uint64_t ns_of(const struct bucket *b, uint64_t units)
{
	unsigned __int128 scaled = (unsigned __int128)units * b->refill_ns;

	return (uint64_t)((scaled + b->capacity - 1) / b->capacity);
}

/* A part of a unit counts as a whole one. */
static uint64_t units_of(const struct bucket *b, uint64_t tokens)
{
	uint64_t units;

	if (b->scale >= 0)
		return tokens > UNITS_MAX >> b->scale ? UNITS_MAX : tokens << b->scale;
	units = tokens >> -b->scale;
	units += units << -b->scale != tokens;
	return MIN(units, UNITS_MAX);
}

/* ---- one bucket ---- */

/* How many of the tokens the burst still has: they are taken from it. */
static uint64_t burst_take(struct bucket *b, uint64_t tokens)
{
	uint64_t left = get(&b->burst);

	while (left && !swap(&b->burst, &left, left - MIN(left, tokens)))
		;
	return MIN(left, tokens);
}

/* Moves full_at by so many units. When it was. */
static uint64_t full_at_move(struct bucket *b, uint64_t units, uint64_t time)
{
	uint64_t full = get(&b->full_at), next;

	do {
		next = MAX(full, time) + units;
		next = MIN(next, TIME_MAX + UNITS_MAX);
	} while (!swap(&b->full_at, &full, next));
	return full;
}

/* Taken in any case. How long until they are there; 0: they are. */
static uint64_t bucket_take(struct bucket *b, uint64_t tokens, uint64_t now)
{
	uint64_t ns, time, units, need, full;

	if (!b->refill_ns)
		return 0;
	units = units_of(b, tokens - burst_take(b, tokens));
	if (!units)
		return 0;
	ns = elapsed(b, now);
	time = units_passed(b, ns);
	full = full_at_move(b, units, time);
	/* More than a bucketful: when it was full. */
	need = MIN(units, b->capacity);
	if (full + need <= time + b->capacity)
		return 0;
	return ns_of(b, full + need - b->capacity) - ns;
}

/* capacity is made the largest power of two times size that is not above refill_ns. */
static void bucket_init(struct bucket *b, const struct bucket_config *c, uint64_t now)
{
	const uint64_t refill_ms = MIN(c->refill_time, YEAR_MS);

	*b = (struct bucket){0};
	if (!c->size || !refill_ms)
		return;
	*b = (struct bucket){.refill_ns = refill_ms * NS_PER_MS,
			     .capacity = c->size,
			     .start = now,
			     .burst = c->one_time_burst};
	for (; b->capacity > b->refill_ns; b->scale--)
		b->capacity >>= 1;
	for (; b->capacity <= b->refill_ns / 2; b->scale++)
		b->capacity <<= 1;
}

/* ---- both ---- */

void rate_init(struct rate *r, const struct rate_config *c, uint64_t now)
{
	bucket_init(&r->bandwidth, &c->bandwidth, now);
	bucket_init(&r->ops, &c->ops, now);
}

bool rate_limited(const struct rate *r)
{
	return r->bandwidth.refill_ns || r->ops.refill_ns;
}

uint64_t rate_take(struct rate *r, struct rate_turn *turn, uint64_t bytes, uint64_t now)
{
	uint64_t wait_op = 0, wait_data = 0, wait;

	if (now < turn->at)
		return turn->at - now;
	if (!turn->at)
		wait_op = bucket_take(&r->ops, 1, now);
	if (bytes > turn->bytes)
		wait_data = bucket_take(&r->bandwidth, bytes - turn->bytes, now);
	wait = MAX(wait_op, wait_data);
	if (!wait) {
		*turn = (struct rate_turn){0};
		return 0;
	}
	turn->bytes = bytes;
	if (__builtin_add_overflow(now, wait, &turn->at))
		turn->at = UINT64_MAX;
	return wait;
}

/* ---- keys ---- */

#define AT(field) .offset = offsetof(struct bucket_config, field)
static const struct opt bucket_opts[] = {
	{.key = "size",
	 .kind = OPT_U64,
	 AT(size),
	 .required = true,
	 .max = TOKENS_SANE,
	 .help = "how many the bucket holds; 0: no limit"},
	{.key = "one_time_burst",
	 .kind = OPT_U64,
	 AT(one_time_burst),
	 .def = "0",
	 .max = TOKENS_SANE,
	 .help = "how many more there are at the start, once"},
	{.key = "refill_time",
	 .kind = OPT_U64,
	 AT(refill_time),
	 .required = true,
	 .max = YEAR_MS,
	 .help = "milliseconds in which an empty bucket becomes full; 0: no limit"},
};
#undef AT
static const struct opt_table bucket_table = {bucket_opts, ARRAY_LEN(bucket_opts),
					      sizeof(struct bucket_config)};

#define AT(field) .offset = offsetof(struct rate_config, field)
static const struct opt limiter_opts[] = {
	{.key = "bandwidth",
	 .kind = OPT_OBJECT,
	 AT(bandwidth),
	 .sub = &bucket_table,
	 .help = "a bucket of bytes"},
	{.key = "ops",
	 .kind = OPT_OBJECT,
	 AT(ops),
	 .sub = &bucket_table,
	 .help = "a bucket of operations"},
};
#undef AT
const struct opt_table rate_opts = {limiter_opts, ARRAY_LEN(limiter_opts),
				    sizeof(struct rate_config)};
