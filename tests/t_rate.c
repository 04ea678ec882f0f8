// SPDX-License-Identifier: Apache-2.0
/*
 * t_rate.c - token buckets: with a clock of the test's own what they give is exact, to the nanosecond; and with any
 * numbers, and any number of threads, never more than time has brought.
 *
 * Hard cases: a request larger than the bucket, a burst that is spent, an idle time that must not be saved up, a large
 * request beside a flood of small ones, two buckets of which one says wait, a request that changes while it waits, rates
 * of many tokens per nanosecond and of one in a year.
 */
#include "../devices/rate.h"
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

/* By one who has not asked before, and does not ask again. */
static uint64_t ask(struct rate *r, uint64_t bytes, uint64_t now)
{
	return rate_take(r, &(struct rate_turn){0}, bytes, now);
}

/* How many requests of so many bytes may be made at one moment. The one that may not has taken its part all the same. */
static unsigned burst(struct rate *r, uint64_t bytes, uint64_t now)
{
	unsigned n = 0;

	while (n < 1000000 && !ask(r, bytes, now))
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
	uint64_t now = T0, bad = 0, wait;
	struct rate_turn turn = {0};

	for (unsigned i = 0; i < 1000; i++)
		bad += rate_take(&r, &turn, 0, now) != 0;
	is(bad, 0, "a bucket is full at the start");
	for (unsigned i = 0; i < 5000; i++) {
		wait = rate_take(&r, &turn, 0, now);
		bad += wait != MS;
		bad += rate_take(&r, &turn, 0, now + wait - 1) != 1;
		now += wait;
		bad += rate_take(&r, &turn, 0, now) != 0;
	}
	is(bad, 0, "then there is one each time it has come, and not a nanosecond earlier");
	is(now - T0, 5 * S, "5000 in five seconds");
	is(burst(&r, 0, now + 10 * MS), 10, "who comes later finds those that have come meanwhile");
	is(ask(&r, 0, now + 11 * MS), MS, "behind one that has not asked again");
	is(burst(&r, 0, now + 3600 * S), 1000, "there are never more than the bucket holds");
}

/* No time of a token is a whole number of nanoseconds here: still nothing is lost, however long it goes on. */
static void t_odd(void)
{
	static const struct bucket_config odd[] = {{7, 0, 1},        {3, 0, 100}, {999983, 0, 1000},
						   {700001, 0, 999}, {1, 0, 7},   {65537, 0, 13}};

	for (unsigned i = 0; i < ARRAY_LEN(odd); i++) {
		struct rate r = made((struct rate_config){.ops = odd[i]});
		uint64_t now = T0, n = 0, first = 0, want, refill = odd[i].refill_time * MS;
		struct rate_turn turn = {0};

		while (n < 200000 + odd[i].size) {
			uint64_t wait = rate_take(&r, &turn, 0, now);

			n += !wait;
			now += wait;
			first += now == T0;
		}
		/* The last one came when so many had. */
		want = (uint64_t)(((unsigned __int128)200000 * refill + odd[i].size - 1) /
				  odd[i].size);
		ok(first == odd[i].size && now - T0 >= want && now - T0 <= want + 2,
		   "%llu per %llu ms: after these 200000 take their time to 2 ns (%lld)",
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
		need(ask(&r, 999, T0) == 0);
	is(ask(&r, 1005, T0), 0, "a request takes what is left of it and the rest from the bucket");
	is(ask(&r, 1, T0), 1 * MS, "which was full until then");
	r = made((struct rate_config)BW(1000, 500, 1000));
	need(ask(&r, 1200, T0) == 0);
	is(ask(&r, 800, T0), 500 * MS, "what the burst has given need not be filled again");
	r = made((struct rate_config)BW(1, UINT64_MAX, 1));
	is(burst(&r, UINT32_MAX, T0), 1000000, "it may be larger than anything");
}

/* More than the bucket holds: when it is full, and then the time that it takes goes by before the next one. */
static void t_debt(void)
{
	struct rate r = made((struct rate_config)BW(1000, 0, 1000));
	struct rate_turn turn = {0}, other = {0};
	uint64_t now = T0, bad = 0;

	is(rate_take(&r, &turn, 3500, now), 0,
	   "a request larger than the bucket passes a full one");
	is(rate_take(&r, &other, 1, now), 2501 * MS, "which is in debt then");
	is(ask(&r, 0, now), 0, "what has no bytes does not wait for it");
	is(rate_take(&r, &turn, 3500, now), 3501 * MS, "the next waits until it is full again");
	is(rate_take(&r, &turn, 3500, now + 3501 * MS - 1), 1, "not a nanosecond less");
	is(rate_take(&r, &other, 1, now + 2501 * MS), 0, "who was there before it is not held up");
	is(ask(&r, 1, now), 6002 * MS, "who comes after it waits until that is paid for too");
	r = made((struct rate_config)BW(1000, 0, 1000));
	turn = (struct rate_turn){0};
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t wait = rate_take(&r, &turn, 3500, now);

		bad += wait != (i ? 3500 * MS : 0);
		now += wait;
		bad += i && rate_take(&r, &turn, 3500, now) != 0;
	}
	ok(!bad && now - T0 == 999 * 3500 * MS, "so the mean rate is kept");
	now += 3500 * MS;
	need(ask(&r, 1, now) == 0);
	is(ask(&r, 1000, now), 1 * MS, "one as large as the bucket needs all of it");
	is(ask(&r, 1000, now + 1 * MS), 1000 * MS, "and leaves nothing");
}

/* ---- turns ---- */

/* What the guest asks for may change until it is let through: it is its memory. */
static void t_changed(void)
{
	struct rate r =
		made((struct rate_config){.bandwidth = {1000, 0, 1000}, .ops = {2, 0, 200}});
	struct rate_turn turn = {0};

	need(ask(&r, 1000, T0) == 0);
	need(rate_take(&r, &turn, 100, T0) == 100 * MS);
	for (unsigned i = 0; i < 100; i++)
		need(rate_take(&r, &turn, i * 10000, T0 + i * MS) == (100 - i) * MS);
	is(rate_take(&r, &turn, 500, T0 + 100 * MS), 400 * MS,
	   "a request that is larger when its turn has come pays for the difference");
	is(rate_take(&r, &turn, 400, T0 + 500 * MS), 0, "one that is smaller then is let through");
	is(rate_take(&r, &turn, 100, T0 + 500 * MS), 100 * MS, "with nothing left over");
	need(rate_take(&r, &turn, 100, T0 + 3600 * S) == 0);
	ok(ask(&r, 0, T0 + 3600 * S) == 0 && ask(&r, 0, T0 + 3600 * S) == 0 &&
		   ask(&r, 0, T0 + 3600 * S) == 100 * MS,
	   "an operation is counted once, however often it asks");
}

/*
 * A flood of small requests on one queue, a large one now and then on another, whose thread wakes a bit late: by whoever
 * comes first the large one would never find so many bytes at once.
 */
static void t_flood(uint64_t late)
{
	struct rate r = made((struct rate_config)BW(100000000, 0, 1000));
	uint64_t small_at = T0, large_at = T0, wait, first = 0, longest = 0, bytes = 0;
	struct rate_turn small = {0}, large = {0};
	unsigned n = 0;

	while (small_at < T0 + 20 * S && large_at < T0 + 20 * S) {
		if (small_at <= large_at) {
			wait = rate_take(&r, &small, 4096, small_at);
			bytes += wait ? 0 : 4096;
			small_at += wait ? wait : 2 * US;
			continue;
		}
		wait = rate_take(&r, &large, MIB(1), large_at);
		if (wait) {
			first = first ? first : large_at;
			large_at += wait + late;
			continue;
		}
		n++;
		bytes += MIB(1);
		longest = MAX(longest, first ? large_at - first : 0);
		first = 0;
		large_at += 10 * MS;
	}
	/* 100 MB/s: 10.5 ms for its own bytes, and those of the small one before it. */
	ok(n > 900 && longest <= 11 * MS + late,
	   "beside a flood of small ones %u large requests get on, the slowest in %llu us", n,
	   (unsigned long long)(longest / US));
	ok(bytes <= 2100000000 && bytes > 2090000000, "and the limit is used (%llu MB in 20 s)",
	   (unsigned long long)(bytes / 1000000));
}

static void t_both(void)
{
	struct rate r =
		made((struct rate_config){.bandwidth = {1000, 0, 1000}, .ops = {4, 0, 400}});
	struct rate_turn turn = {0};

	need(ask(&r, 1000, T0) == 0 && ask(&r, 0, T0) == 0);
	is(rate_take(&r, &turn, 50, T0), 50 * MS, "who has to wait for bytes waits");
	need(ask(&r, 0, T0) == 0);
	is(ask(&r, 10, T0), 100 * MS, "who has to wait for both waits for the later");
	is(ask(&r, 0, T0), 200 * MS, "and is counted in both");
	is(ask(&r, 1000, T0 + 100 * MS), 960 * MS, "whichever that is");
	is(rate_take(&r, &turn, 50, T0 + 50 * MS), 0, "who was there before is not held up");
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

/* Whatever is configured and asked for: the first time yes, and then a wait at whose end the turn has come. */
static unsigned try_extreme(const struct bucket_config *c, uint64_t tokens, uint64_t start)
{
	struct rate_config cfg = {.bandwidth = *c};
	struct rate_turn turn = {0};
	uint64_t now = start, wait;
	struct rate r;
	unsigned bad;

	rate_init(&r, &cfg, start);
	bad = rate_take(&r, &turn, tokens, now) != 0;
	for (unsigned i = 0; i < 40; i++) {
		wait = rate_take(&r, &turn, tokens, now);
		if (!wait)
			continue;
		if (wait > 90 * YEAR - (now - start)) /* the clock ends after 146 */
			break;
		bad += rate_take(&r, &turn, tokens, now + wait - 1) != 1;
		now += wait;
		bad += rate_take(&r, &turn, tokens, now) != 0;
	}
	bad += ask(&r, 0, now) != 0;
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
	is(bad, 0, "%u buckets and requests of all sizes: none waits too long, or not long enough",
	   tried);
}

static void t_fast_and_slow(void)
{
	struct rate r = made((struct rate_config)BW(10ull << 30, 0, 1000)); /* 10 GiB/s */
	struct rate_turn turn = {0};
	uint64_t now = T0, wait, n = 0, bad = 0;

	while (!rate_take(&r, &turn, MIB(1), now))
		n++;
	ok(n >= 10 * 1024 - 1 && n <= 10 * 1024, "a bucket of 10 GiB holds %llu MiB",
	   (unsigned long long)n);
	r = made((struct rate_config)BW(10ull << 30, 0, 1000));
	turn = (struct rate_turn){0};
	need(ask(&r, (10ull << 30) - 16, now) == 0);
	for (n = 0; n < 1000000; n++)
		while ((wait = rate_take(&r, &turn, 512, now)))
			now += wait;
	/* 512 MB at 10.7 GB/s: 47.7 ms. */
	ok(now - T0 > 47683000 && now - T0 < 47684000,
	   "sectors are counted as exactly where many bytes come in a nanosecond (%llu ns)",
	   (unsigned long long)(now - T0));
	r = made((struct rate_config)BW(1ull << 40, 0, 1));
	is(burst(&r, 1, T0), 524288, "a byte is not for nothing where two MiB come in one");
	r = made((struct rate_config)OPS(1, 0, 31536000000));
	turn = (struct rate_turn){0};
	need(ask(&r, 0, T0) == 0);
	is(rate_take(&r, &turn, 0, T0), YEAR, "one in a year");
	is(rate_take(&r, &turn, 0, T0 + YEAR - 1), 1, "is one in a year");
	is(rate_take(&r, &turn, 0, T0 + YEAR), 0, "and no longer");
	r = made((struct rate_config)OPS(UINT64_MAX, 0, UINT64_MAX));
	need(burst(&r, 0, T0) == 1000000);
	r = made((struct rate_config)OPS(1, 0, UINT64_MAX));
	need(ask(&r, 0, T0) == 0);
	is(ask(&r, 0, T0), YEAR, "more than a year is one");
	r = made((struct rate_config)OPS(1, 0, 1000));
	need(ask(&r, 0, T0 + 2 * S) == 0);
	is(ask(&r, 0, T0 + S), 2 * S, "a thread whose clock was read earlier waits longer");
	is(ask(&r, 0, 0), 4 * S, "or before there was a bucket");
	r = made((struct rate_config)BW(1, 0, 31536000000));
	need(ask(&r, 1 << 20, T0) == 0);
	ok(ask(&r, 1, T0) > 50 * YEAR, "a million of these take longer than anybody waits");
	for (unsigned i = 0; i < 1000; i++)
		bad += ask(&r, UINT64_MAX, T0) < 50 * YEAR;
	is(bad, 0, "and a thousand such requests, let alone");
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
	struct rate_turn turn = {0};

	for (unsigned i = 0; i < race->tries; i++) {
		uint64_t bytes = 512ull << (unsigned)rand_r(&seed) % 4;

		while (rate_take(&race->r, &turn, bytes,
				 __atomic_load_n(&race->now, __ATOMIC_RELAXED))) {
			__atomic_fetch_add(&race->refused, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(&race->now, 3 * US, __ATOMIC_RELAXED);
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
	t_changed();
	t_flood(0);
	t_flood(50 * US);
	t_flood(1 * MS);
	t_both();
	t_extremes();
	t_fast_and_slow();
	t_race((struct rate_config)BW(100000, 5000000, 1), "bytes");
	t_race((struct rate_config){.bandwidth = {100000, 50000, 1}, .ops = {50, 1000, 1}}, "both");
	return done();
}
