// SPDX-License-Identifier: Apache-2.0
/*
 * count.h - what a device's thread has done since count_begin() is dumped by count_end(), for count.sh to read.
 *
 * Under valgrind's callgrind. Requests come COUNT_BATCH at a time, as a guest with depth has them; the device does not look
 * for more before it sleeps (poll_us is 0), as how often it looks is a matter of time and not of the requests.
 */
#ifndef TESTS_BENCH_COUNT_H
#define TESTS_BENCH_COUNT_H

#include "../fakeguest.h"
#include "../tap.h"
#include "../../devices/table.h"
#include "../../vmm/option.h"
#include <valgrind/callgrind.h>

#define COUNT_BATCH 16u
/* Rounds that fill what is cached, and those that count. */
#define COUNT_WARM   4u
#define COUNT_ROUNDS 32u

static struct fakeguest *fg;

/* About the thread that calls it; its counts then begin anew. */
static void count_dump(void *at)
{
	CALLGRIND_DUMP_STATS_AT(at);
}

/* Not by ZERO_STATS, which leaves the sum as it was. */
static void count_begin(void)
{
	loop_call(fg->dev->io, count_dump, "before");
}

static void count_end(const char *name, unsigned n)
{
	char at[64];

	snprintf(at, sizeof(at), "count %s %u", name, n);
	loop_call(fg->dev->io, count_dump, at);
}

/* The device of this type with these options, and a guest that drives it. */
static void count_device(const struct device_type *type, void *cfg, const char *options,
			 uint64_t features)
{
	char text[400], err[OPT_ERR_MAX];
	bool seen[64] = {false};
	struct device *d;

	need(type->opts.n <= ARRAY_LEN(seen) && !opt_defaults(&type->opts, cfg));
	snprintf(text, sizeof(text), "%s", options);
	need(!opt_parse_list(&type->opts, cfg, text, seen, err));
	fg = fg_create(MIB(64));
	need(!type->create(fg->vm, cfg, 0, &d));
	fg_attach(fg, container_of(d, struct virtio_dev, base));
	fg_start(fg,
		 features | 1ull << VIRTIO_RING_F_EVENT_IDX | 1ull << VIRTIO_RING_F_INDIRECT_DESC,
		 256);
}

#endif
