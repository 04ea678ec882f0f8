// SPDX-License-Identifier: Apache-2.0
/*
 * bench.h - the benchmark engine: qd slots, each with an operation of one or more requests in a row.
 *
 * A driver says how a slot's request looks (prep) and whether its answer is good (done); the engine keeps the slots
 * busy, checks time, and prints one line:
 *   RESULT dev=blk op=randread bs=4096 qd=16 n=.. ms=.. iops=.. mb_s=.. mean_us=.. p50_us=.. p99_us=.. max_us=.. \
 *          kicks=.. kick_us=.. all=.. err=0
 * kicks: doorbells rung; kick_us: time in them per operation; all: operations with the 100 ms of warm-up. A slot's
 * requests go to the queue that its number chooses. Jobs that are no such loop (dir_bench.c, dax_bench.c) use the
 * measurement below.
 */
#ifndef PAYLOAD_BENCH_H
#define PAYLOAD_BENCH_H

#include "virtio.h"

struct bench {
	const char *dev;
	struct vq *q; /* the first of nq in a row */
	unsigned nq;
	uint32_t maxseg, stages;
	/* Fills the segments of the slot's request number stage. */
	void (*prep)(uint32_t slot, uint32_t stage, struct seg *, uint32_t *nout, uint32_t *nin);
	/* 0 if the answer is good, else a number that says what was wrong; that ends the operation. */
	int (*done)(uint32_t slot, uint32_t stage, uint32_t len);
	uint64_t span;   /* bytes that can be addressed; 0: the operation has no offset */
	uint32_t writes; /* of 100 operations: data goes out, made to follow the pattern */
	bool once;       /* exactly job.n operations, numbered from 0, no warm-up */
};

/* What done() may return, beside errnos and the device's own codes. */
enum { BENCH_NO_REPLY = 1000, BENCH_SHORT_WRITE, BENCH_SHORT_READ, BENCH_WRONG_DATA };

void bench_run(struct bench *, struct job *);
/* A notification that finds nothing to do ("doorbell"), or a read the VMM answers ("exit"). */
void bench_exits(const char *dev, struct job *, struct vq *);

/* The queue of a slot; doorbells rung so far on all, and the time in them. */
struct vq *bench_queue(const struct bench *, uint32_t slot);
uint64_t bench_kicks(const struct bench *);
uint64_t bench_kick_cycles(const struct bench *);

/* Of the operation on a slot. */
uint64_t bench_offset(uint32_t slot);
uint64_t bench_number(uint32_t slot);
bool bench_writes(uint32_t slot);
uint8_t *bench_data(uint32_t slot);
bool bench_data_good(uint32_t slot, uint32_t len);

/* ---- stat.c: latencies ---- */

void stat_begin(void);
void stat_add(uint64_t cycles);
struct tally {
	uint64_t cycles, bytes, kicks, kick_cycles, errs, first_err, all;
};
void stat_print(const char *dev, const struct job *, const struct tally *);

#endif
