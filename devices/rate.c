// SPDX-License-Identifier: Apache-2.0
/*
 * rate.c - token buckets without locks.
 *
 * A bucket is not a number of tokens that somebody has to fill, but the moment at which it will be full if nobody takes
 * any more; to take is to move that moment. Its time runs in units, counted from rate_init(): capacity of them pass in
 * refill_ns, one in 1 to 2 ns, and a token is a power of two of them. So a request costs whole units, nothing is lost to
 * rounding however many there are, and the clock is at most a unit behind. (With more than a token per ns a unit is
 * several of them, a request costs its last one whole, and of size up to a millionth is cut off.)
 *
 *   units   0 ------------ time ---------- full_at ------ time + capacity
 *                          |<--- taken --->|<--- left ---->|
 *
 * No number leaves 64 bits: time is at most TIME_MAX, a request UNITS_MAX, a capacity 2^55 (a year in ns); products have
 * 128. Atomics are relaxed: nobody learns anything from a bucket but what is in it. Calls: option.h.
 */
#include "rate.h"

#define NS_PER_MS   1000000u
#define YEAR_MS     31536000000ull
#define TIME_MAX    (1ull << 62) /* ns: 146 years */
#define UNITS_MAX   (1ull << 61)
#define TOKENS_SANE (1ull << 60) /* in a file: beyond it JSON's numbers soon end */

/* What a request takes from a bucket, and the two words as they were seen. */
struct draw {
	uint64_t burst, full_at;
	uint64_t tokens;     /* from the burst */
	uint64_t units;      /* from the bucket */
	uint64_t full_after; /* full_at with them taken */
};

static uint64_t get(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static bool swap(uint64_t *p, uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(p, &from, to, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
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

/* How long until the request could have what it wants, which is *d; 0: now. */
static uint64_t bucket_look(const struct bucket *b, uint64_t tokens, uint64_t now, struct draw *d)
{
	uint64_t ns, time, need;

	*d = (struct draw){0};
	if (!b->refill_ns)
		return 0;
	ns = elapsed(b, now);
	time = units_passed(b, ns);
	d->burst = get(&b->burst);
	d->full_at = get(&b->full_at);
	d->tokens = MIN(tokens, d->burst);
	d->units = units_of(b, tokens - d->tokens);
	d->full_after = MAX(d->full_at, time) + d->units;
	/* More than a bucketful: when it is full. */
	need = MIN(d->units, b->capacity);
	if (!need || d->full_at + need <= time + b->capacity)
		return 0;
	return ns_of(b, d->full_at + need - b->capacity) - ns;
}

/* False: another thread was there between the look and this; nothing is taken. */
static bool bucket_draw(struct bucket *b, const struct draw *d)
{
	if (d->tokens && !swap(&b->burst, d->burst, d->burst - d->tokens))
		return false;
	if (!d->units || swap(&b->full_at, d->full_at, d->full_after))
		return true;
	__atomic_fetch_add(&b->burst, d->tokens, __ATOMIC_RELAXED);
	return false;
}

/* After bucket_look() has said 0. */
static uint64_t bucket_take(struct bucket *b, uint64_t tokens, uint64_t now, struct draw *d)
{
	while (!bucket_draw(b, d)) {
		uint64_t wait = bucket_look(b, tokens, now, d);

		if (wait)
			return wait;
	}
	return 0;
}

/*
 * If others have taken since, what came from the bucket is not given back: it may have been full again in between, and
 * would then be more than full.
 */
static void bucket_give_back(struct bucket *b, const struct draw *d)
{
	__atomic_fetch_add(&b->burst, d->tokens, __ATOMIC_RELAXED);
	if (d->units)
		(void)swap(&b->full_at, d->full_after, d->full_at);
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

/* First a look at both: only who loses a race for the last bytes has an operation to give back. */
uint64_t rate_take(struct rate *r, uint64_t bytes, uint64_t now)
{
	struct draw op, data;
	uint64_t wait_op = bucket_look(&r->ops, 1, now, &op);
	uint64_t wait_data = bucket_look(&r->bandwidth, bytes, now, &data);
	uint64_t wait = MAX(wait_op, wait_data);

	if (!wait)
		wait = bucket_take(&r->ops, 1, now, &op);
	if (wait)
		return wait;
	wait = bucket_take(&r->bandwidth, bytes, now, &data);
	if (wait)
		bucket_give_back(&r->ops, &op);
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
