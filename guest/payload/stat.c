// SPDX-License-Identifier: Apache-2.0
/*
 * stat.c - a histogram of latencies with 64 steps per octave, so within 1.6 %, and the RESULT line.
 */
#include "bench.h"

#define STEPS   64u
#define OCTAVES 59u

static uint32_t histogram[STEPS * OCTAVES];
static uint64_t count, sum, largest;

void stat_begin(void)
{
	memset(histogram, 0, sizeof(histogram));
	count = sum = largest = 0;
}

/* Values below two octaves' worth of steps are their own bucket. */
static uint32_t bucket_of(uint64_t v)
{
	uint32_t e;

	if (v < 2 * STEPS)
		return (uint32_t)v;
	e = 63 - (uint32_t)__builtin_clzll(v) - 6;
	return e * STEPS + (uint32_t)(v >> e);
}

static uint64_t bucket_value(uint32_t i)
{
	return i < 2 * STEPS ? i : ((uint64_t)(i % STEPS) + STEPS) << (i / STEPS - 1);
}

void stat_add(uint64_t cycles)
{
	histogram[bucket_of(cycles)]++;
	count++;
	sum += cycles;
	largest = MAX(largest, cycles);
}

static uint64_t quantile(uint32_t permille)
{
	uint64_t want = (count * permille + 999) / 1000, seen = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(histogram); i++) {
		seen += histogram[i];
		if (seen && seen >= want)
			return bucket_value(i);
	}
	return largest;
}

static void print_us(const char *name, uint64_t cycles)
{
	uint64_t v = cycles * 100000 / clock_tsc_khz;

	print(" %s=%lu.%02lu", name, v / 100, v % 100);
}

void stat_print(const char *dev, const struct job *j, const struct tally *t)
{
	uint64_t us = MAX(t->cycles * 1000 / clock_tsc_khz, 1ul), n = MAX(count, 1ul);
	uint64_t mb = t->bytes * 100 / us;

	print("RESULT dev=%s op=%s bs=%u qd=%u n=%lu ms=%lu iops=%lu mb_s=%lu.%02lu", dev, j->op,
	      j->bs, j->qd, count, us / 1000, count * 1000000 / us, mb / 100, mb % 100);
	print_us("mean_us", sum / n);
	print_us("p50_us", quantile(500));
	print_us("p99_us", quantile(990));
	print_us("max_us", largest);
	print(" kicks=%lu", t->kicks);
	print_us("kick_us", t->kick_cycles / n);
	print(" all=%lu err=%lu", t->all, t->errs);
	if (t->errs)
		print(" first_err=%lu", t->first_err);
	print("\n");
}
