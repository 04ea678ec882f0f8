// SPDX-License-Identifier: Apache-2.0
/*
 * t_rate.c - token buckets: with a clock of the test's own what they give is exact, to the nanosecond; and with any
 * numbers, and any number of threads, never more than time has brought. Includes the buckets to have one lose a race.
 *
 * Hard cases: a request larger than the bucket, a burst that is spent, an idle time that must not be saved up, two
 * buckets of which one says wait, rates of many tokens per nanosecond and of one in a year.
 */
#include "../devices/rate.c"
#include "tap.h"
#include <pthread.h>
#include <sched.h>

#define US   1000ull
#define MS   (1000 * US)
#define S    (1000 * MS)
#define YEAR (365 * 24 * 3600 * S)
#define T0   123456789ull /* when the buckets are made: no round number */

#define BW(...)                              \
	{                                    \
		.bandwidth = { __VA_ARGS__ } \
	}
#define OPS(...)                       \
	{                              \
		.ops = { __VA_ARGS__ } \
	}

static struct rate made(struct rate_config c)
{
	struct rate r;

	rate_init(&r, &c, T0);
	return r;
}

/* How many operations of so many bytes are let through at one moment. */
static unsigned burst(struct rate *r, uint64_t bytes, uint64_t now)
{
	unsigned n = 0;

	while (n < 1000000 && !rate_take(r, bytes, now))
		n++;
	return n;
}

/* ---- steady ---- */

static void t_none(void)
{
	struct rate none = made((struct rate_config){0});
	struct rate no_time = made((struct rate_config){.ops = {.size = 5, .one_time_burst = 3}});
	struct rate no_size =
		made((struct rate_config){.bandwidth = {.refill_time = 5, .one_time_burst = 3}});
	struct rate ops = made((struct rate_config)OPS(1, 0, 1));
	struct rate bw = made((struct rate_config)BW(1, 0, 1));

	ok(!rate_limited(&none) && !rate_limited(&no_time) && !rate_limited(&no_size),
	   "a size or a time of 0 is no limit");
	ok(rate_limited(&ops) && rate_limited(&bw), "one bucket is one");
	ok(burst(&none, UINT64_MAX, T0) == 1000000 && burst(&no_time, 1, T0) == 1000000 &&
		   burst(&no_size, 1, 0) == 1000000,
	   "without a limit all goes through");
}

/* 1000 in a second: each comes when its millisecond is over, not a nanosecond before. */
static void t_steady(void)
{
	struct rate r = made((struct rate_config)OPS(1000, 0, 1000));
	uint64_t now = T0, bad = 0;

	is(burst(&r, 0, now), 1000, "a bucket is full at the start");
	for (unsigned i = 0; i < 5000; i++) {
		uint64_t wait = rate_take(&r, 0, now);

		bad += wait != MS;
		bad += rate_take(&r, 0, now + wait - 1) != 1;
		now += wait;
		bad += rate_take(&r, 0, now) != 0;
	}
	is(bad, 0, "then there is one each time it has come, and not a nanosecond earlier");
	is(now - T0, 5 * S, "5000 in five seconds");
	ok(burst(&r, 0, now + 10 * MS) == 10 && burst(&r, 0, now + 10 * MS + 999999) == 0,
	   "who comes later finds those that have come meanwhile");
	is(burst(&r, 0, now + 3600 * S), 1000, "and never more than the bucket holds");
}

/* No time of a token is a whole number of nanoseconds here: still nothing is lost, however long it goes on. */
static void t_odd(void)
{
	static const struct bucket_config odd[] = {
		{7, 0, 1},        {3, 0, 100}, {999983, 0, 1000},
		{700001, 0, 999}, {1, 0, 7},   {65537, 0, 13},
	};

	for (unsigned i = 0; i < ARRAY_LEN(odd); i++) {
		struct rate r = made((struct rate_config){.ops = odd[i]});
		uint64_t now = T0, n = 0, want, refill = odd[i].refill_time * MS;
		unsigned long long first = burst(&r, 0, now);

		while (n < 200000) {
			uint64_t wait = rate_take(&r, 0, now);

			n += !wait;
			now += wait;
		}
		/* The 200000th came when so many had. */
		want = (uint64_t)(((unsigned __int128)n * refill + odd[i].size - 1) / odd[i].size);
		ok(first == odd[i].size && now - T0 >= want && now - T0 <= want + 2,
		   "%llu per %llu ms: 200000 take their time to 2 ns (%lld)",
		   (unsigned long long)odd[i].size, (unsigned long long)odd[i].refill_time,
		   (long long)(now - T0 - want));
	}
}

/* ---- bursts and debts ---- */

static void t_one_time_burst(void)
{
	struct rate r = made((struct rate_config)BW(1000, 5000, 1000));

	is(burst(&r, 100, T0), 60, "the burst is there beside the bucket");
	is(burst(&r, 100, T0 + 3600 * S), 10, "and never again");
	r = made((struct rate_config)BW(1000, 5000, 1000));
	is(burst(&r, 100, T0 + 3600 * S), 60, "until it is spent, however long that takes");
	r = made((struct rate_config)BW(1000, 5000, 1000));
	for (unsigned i = 0; i < 5; i++)
		need(rate_take(&r, 999, T0) == 0);
	is(rate_take(&r, 1005, T0), 0,
	   "a request takes what is left of it and the rest from the bucket");
	is(rate_take(&r, 1, T0), 1 * MS, "which was full until then");
	r = made((struct rate_config)BW(1000, 500, 1000));
	need(rate_take(&r, 1200, T0) == 0);
	is(rate_take(&r, 800, T0), 500 * MS,
	   "a burst that is not enough is not spent by a refusal");
	is(burst(&r, 300, T0), 1, "but by who can use it");
	r = made((struct rate_config)BW(1, UINT64_MAX, 1));
	is(burst(&r, UINT32_MAX, T0), 1000000, "it may be larger than anything");
}

/* More than the bucket holds: when it is full, and then the time that it takes goes by before the next one. */
static void t_debt(void)
{
	struct rate r = made((struct rate_config)BW(1000, 0, 1000));
	uint64_t now = T0, bad = 0;

	is(rate_take(&r, 3500, now), 0, "a request larger than the bucket passes a full one");
	is(rate_take(&r, 1, now), 2501 * MS, "which is in debt then");
	is(rate_take(&r, 0, now), 0, "what has no bytes does not wait for it");
	is(rate_take(&r, 3500, now), 3500 * MS, "the next of them waits until it is full again");
	is(rate_take(&r, 3500, now + 3500 * MS - 1), 1, "not a nanosecond less");
	r = made((struct rate_config)BW(1000, 0, 1000));
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t wait = rate_take(&r, 3500, now);

		bad += wait != (i ? 3500 * MS : 0);
		now += wait;
		bad += i && rate_take(&r, 3500, now) != 0;
	}
	ok(!bad && now - T0 == 999 * 3500 * MS, "so the mean rate is kept");
	need(rate_take(&r, 1, now + 3500 * MS) == 0);
	is(rate_take(&r, 3500, now + 3500 * MS), 1 * MS, "one that is not quite full is not full");
	is(rate_take(&r, 1000, now + 3501 * MS), 0,
	   "a request as large as the bucket needs all of it");
	is(rate_take(&r, 1000, now + 3501 * MS), 1000 * MS, "and leaves nothing");
}

/* ---- both ---- */

static void t_both(void)
{
	struct rate r =
		made((struct rate_config){.bandwidth = {1000, 0, 1000}, .ops = {4, 0, 400}});

	need(rate_take(&r, 1000, T0) == 0);
	for (unsigned i = 0; i < 100; i++)
		need(rate_take(&r, 500, T0) == 500 * MS);
	is(burst(&r, 0, T0), 3, "an operation that has to wait for its bytes is not counted");
	is(rate_take(&r, 500, T0), 500 * MS, "who has to wait for both waits for the later");
	is(rate_take(&r, 50, T0), 100 * MS, "whichever that is");
	need(rate_take(&r, 50, T0 + 100 * MS) == 0);
	is(rate_take(&r, 50, T0 + 100 * MS), 100 * MS, "and then both are taken from");
	r = made((struct rate_config){.bandwidth = {1000, 300, 1000}, .ops = {1, 2, 1000}});
	need(rate_take(&r, 1300, T0) == 0);
	need(rate_take(&r, 100, T0) == 100 * MS);
	ok(rate_take(&r, 0, T0) == 0 && rate_take(&r, 0, T0) == 0 && rate_take(&r, 0, T0) == S,
	   "nor is the burst of the one spent while the other says wait");
	r = made((struct rate_config){.bandwidth = {1000, 300, 1000}, .ops = {1, 0, 1000}});
	need(rate_take(&r, 0, T0) == 0);
	need(rate_take(&r, 500, T0) == S);
	is(rate_take(&r, 1300, T0 + S), 0, "whichever it is");
}

/* What two threads do that meet between a look and its draw, step by step. */
static void t_lost_race(void)
{
	struct rate r = made((struct rate_config)OPS(10, 5, 1000));
	struct draw mine, other;

	need(!bucket_look(&r.ops, 8, T0, &mine) && !bucket_look(&r.ops, 1, T0, &other));
	need(bucket_draw(&r.ops, &other));
	ok(!bucket_draw(&r.ops, &mine),
	   "of two who have seen the same burst one has to look again");
	need(!bucket_look(&r.ops, 8, T0, &mine) && bucket_draw(&r.ops, &mine));
	bucket_give_back(&r.ops, &mine);
	is(burst(&r, 0, T0), 14, "what is given back is all there, of the burst and of the bucket");

	r = made((struct rate_config)OPS(10, 5, 1000));
	need(!bucket_look(&r.ops, 5, T0, &other) && bucket_draw(&r.ops, &other));
	need(!bucket_look(&r.ops, 1, T0, &mine));
	bucket_give_back(&r.ops, &other);
	need(!bucket_look(&r.ops, 9, T0, &other) && bucket_draw(&r.ops, &other));
	ok(!bucket_draw(&r.ops, &mine), "nor is there a second draw from one look at the bucket");
	need(!bucket_look(&r.ops, 1, T0, &mine) && bucket_take(&r.ops, 1, T0, &mine) == 0);
	need(!bucket_look(&r.ops, 1, T0 + S, &other) && bucket_draw(&r.ops, &other));
	bucket_give_back(&r.ops, &mine);
	is(burst(&r, 0, T0 + S), 9,
	   "a bucket that was full meanwhile does not become more than full");
}

/* ---- extremes ---- */

static const uint64_t extremes[] = {0,
				    1,
				    2,
				    511,
				    4096,
				    999999,
				    1000000,
				    1000001,
				    UINT32_MAX,
				    1ull << 40,
				    31536000000ull,
				    31536000001ull,
				    1ull << 54,
				    1ull << 55,
				    (1ull << 60) + 1,
				    1ull << 61,
				    1ull << 62,
				    INT64_MAX,
				    1ull << 63,
				    UINT64_MAX - 1,
				    UINT64_MAX};
#define NEXTREMES ARRAY_LEN(extremes)

/* Whatever is configured and asked for: an answer, the first time yes, and a wait that is none too long nor too short. */
static unsigned try_extreme(const struct bucket_config *c, uint64_t tokens, uint64_t start)
{
	struct rate_config cfg = {.bandwidth = *c};
	uint64_t now = start, wait;
	struct rate r;
	unsigned bad;

	rate_init(&r, &cfg, start);
	bad = rate_take(&r, tokens, now) != 0;
	for (unsigned i = 0; i < 3; i++) {
		wait = rate_take(&r, tokens, now);
		if (!wait)
			continue;
		if (wait > YEAR)
			break;
		bad += rate_take(&r, tokens, now + wait - 1) == 0;
		now += wait;
		bad += rate_take(&r, tokens, now) != 0;
	}
	bad += rate_take(&r, 0, now) != 0;
	return bad;
}

static void t_extremes(void)
{
	unsigned bad = 0, tried = 0;

	for (unsigned size = 0; size < NEXTREMES; size++)
		for (unsigned time = 0; time < NEXTREMES; time++)
			for (unsigned once = 0; once < NEXTREMES; once += 4)
				for (unsigned n = 0; n < NEXTREMES; n++) {
					struct bucket_config c = {extremes[size], extremes[once],
								  extremes[time]};

					bad += try_extreme(&c, extremes[n], 0);
					bad += try_extreme(&c, extremes[n], 50 * YEAR);
					tried++;
				}
	is(bad, 0, "%u buckets and requests of all sizes: none is refused for ever, none early",
	   tried);
}

static void t_fast_and_slow(void)
{
	struct rate r = made((struct rate_config)BW(10ull << 30, 0, 1000)); /* 10 GiB/s */
	uint64_t now = T0, wait, n = 0;

	while (!rate_take(&r, MIB(1), now))
		n++;
	ok(n >= 10 * 1024 - 1 && n <= 10 * 1024, "a bucket of 10 GiB holds %llu MiB",
	   (unsigned long long)n);
	for (n = 0; n < 1000000; n++)
		while ((wait = rate_take(&r, 512, now)))
			now += wait;
	/* 512 MB at 10.7 GB/s: 47.7 ms. */
	ok(now - T0 > 47683000 && now - T0 < 47684000,
	   "sectors are counted as exactly where many bytes come in a nanosecond (%llu ns)",
	   (unsigned long long)(now - T0));
	r = made((struct rate_config)BW(1ull << 40, 0, 1));
	is(burst(&r, 1, T0), 524288, "a byte is not for nothing where two MiB come in one");
	r = made((struct rate_config)OPS(1, 0, 31536000000));
	need(rate_take(&r, 0, T0) == 0);
	is(rate_take(&r, 0, T0), YEAR, "one in a year");
	is(rate_take(&r, 0, T0 + YEAR - 1), 1, "is one in a year");
	is(rate_take(&r, 0, T0 + YEAR), 0, "and no longer");
	r = made((struct rate_config)OPS(UINT64_MAX, 0, UINT64_MAX));
	need(burst(&r, 0, T0) == 1000000);
	r = made((struct rate_config)OPS(1, 0, UINT64_MAX));
	need(rate_take(&r, 0, T0) == 0);
	is(rate_take(&r, 0, T0), YEAR, "more than a year is one");
	need(rate_take(&r, 0, T0 + 2 * YEAR) == 0);
	is(rate_take(&r, 0, T0), 3 * YEAR, "a thread whose clock was read earlier waits longer");
	is(rate_take(&r, 0, 0), 3 * YEAR, "or before there was a bucket");
	r = made((struct rate_config)BW(1, 0, 31536000000));
	need(rate_take(&r, 1 << 20, T0) == 0);
	ok(rate_take(&r, 1, T0) > 50 * YEAR, "a million of these take longer than anybody waits");
	rate_init(&r, &(struct rate_config)BW(1000000, 0, 1), 0);
	ok(burst(&r, 100, UINT64_MAX) == 10000 && burst(&r, 100, UINT64_MAX) == 0,
	   "the end of time is survived");
}

/* ---- threads ---- */

#define NTHREADS 4

struct race {
	struct rate r;
	uint64_t now;        /* atomic: the clock of all */
	uint64_t bytes, ops; /* atomic: taken */
	uint64_t refused;    /* atomic */
	unsigned tries;      /* of each thread */
	pthread_t t[NTHREADS];
	unsigned seed; /* atomic */
};

static void *racer(void *arg)
{
	struct race *race = arg;
	unsigned seed = __atomic_fetch_add(&race->seed, 1, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < race->tries; i++) {
		uint64_t bytes = 512ull << (unsigned)rand_r(&seed) % 4;
		uint64_t now = __atomic_load_n(&race->now, __ATOMIC_RELAXED);

		if (rate_take(&race->r, bytes, now)) {
			__atomic_fetch_add(&race->refused, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&race->now, 3 * US, __ATOMIC_RELAXED);
			continue;
		}
		__atomic_fetch_add(&race->bytes, bytes, __ATOMIC_RELAXED);
		__atomic_fetch_add(&race->ops, 1, __ATOMIC_RELAXED);
		if (i % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static uint64_t allowed(const struct bucket_config *c, uint64_t ns)
{
	if (!c->refill_time)
		return UINT64_MAX;
	return c->size + c->one_time_burst + ns * c->size / (c->refill_time * MS);
}

/* What time allows is known when all have ended, at the last moment that anybody saw. */
static void t_race(struct rate_config c, const char *what)
{
	struct race race = {.now = T0, .tries = 50000};
	uint64_t elapsed, bytes, ops;

	rate_init(&race.r, &c, T0);
	for (unsigned i = 0; i < NTHREADS; i++)
		need(!pthread_create(&race.t[i], NULL, racer, &race));
	for (unsigned i = 0; i < NTHREADS; i++)
		pthread_join(race.t[i], NULL);
	elapsed = race.now - T0;
	bytes = allowed(&c.bandwidth, elapsed);
	ops = allowed(&c.ops, elapsed);
	ok(race.bytes <= bytes && race.ops <= ops && race.refused > 0,
	   "%s: four threads take no more than time allows (%llu of %llu bytes, %llu operations)",
	   what, (unsigned long long)race.bytes, (unsigned long long)bytes,
	   (unsigned long long)race.ops);
	/* A bucket that is full while the other one says wait loses something. */
	ok(race.bytes >= bytes / 20 * 19 || race.ops >= ops / 20 * 19, "and hardly less");
}

int main(void)
{
	t_none();
	t_steady();
	t_odd();
	t_one_time_burst();
	t_debt();
	t_both();
	t_lost_race();
	t_extremes();
	t_fast_and_slow();
	t_race((struct rate_config)BW(100000, 5000000, 1), "bytes");
	t_race((struct rate_config){.bandwidth = {100000, 50000, 1}, .ops = {50, 1000, 1}}, "both");
	return done();
}
