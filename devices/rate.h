// SPDX-License-Identifier: Apache-2.0
/*
 * rate.h - how much a device may do in a time: Firecracker's rate_limiter, token buckets for bytes and for operations.
 *
 * A bucket holds size tokens and is filled evenly, from empty to full in refill_time; one_time_burst more are there at
 * the start and never again, and are spent first. What is larger than the bucket waits until that is full, and leaves it
 * in debt, so that the mean rate is kept.
 * Several iothreads take from one bucket without a lock: its state is one atomic time, at which the bucket will be full
 * again (the generic cell rate algorithm), and the rest of the burst. Who has to wait has paid and has his place in the
 * line: a queue of small requests, of which there is always one that would fit, does not keep a large one of another
 * queue waiting for ever.
 */
#ifndef DEVICES_RATE_H
#define DEVICES_RATE_H

#include "../vmm/base.h"
#include "../vmm/option.h"

/*
 * As configured: {"size": TOKENS, "one_time_burst": TOKENS, "refill_time": MS}. A size or a refill_time of 0: no limit.
 * Any number is safe; more than a year of refill_time is a year.
 */
struct bucket_config {
	uint64_t size, one_time_burst, refill_time;
};
struct rate_config {
	struct bucket_config bandwidth, ops;
};
/* For an OPT_OBJECT of a device's table. */
extern const struct opt_table rate_opts;

/* Private; see rate.c for its units. */
struct bucket {
	uint64_t refill_ns; /* 0: no limit */
	uint64_t capacity;  /* units */
	int scale;        /* a token is 1 << scale units, or, negative, a unit 1 << -scale tokens */
	uint64_t start;   /* CLOCK_MONOTONIC, ns: the bucket's time 0 */
	uint64_t burst;   /* atomic: tokens that are left of it */
	uint64_t full_at; /* atomic: the bucket's time, in units */
};
struct rate {
	struct bucket bandwidth, ops;
};

/* Of one who takes, a queue say: {0} to begin with. Private. */
struct rate_turn {
	uint64_t at;    /* 0: nobody waits; else from when on the request that waits may be made */
	uint64_t bytes; /* that it has paid for */
};

/* Full, with the whole burst. now: CLOCK_MONOTONIC, ns, here and below. */
void rate_init(struct rate *, const struct rate_config *, uint64_t now);
/* There is a limit at all: else rate_take() need not be called. */
bool rate_limited(const struct rate *);
/*
 * One operation of so many bytes (0: only the operation counts). 0: it may be made. Else how many ns to wait before asking
 * again, at least 1: then it may, if it is still the same; one that has become larger meanwhile pays for the difference,
 * and may have to wait for that. Any thread, but of one turn one at a time; wait-free but for the retries of a CAS.
 */
uint64_t rate_take(struct rate *, struct rate_turn *, uint64_t bytes, uint64_t now) must_check;

#endif
