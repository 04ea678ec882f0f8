// SPDX-License-Identifier: Apache-2.0
/*
 * loop_timer.c - the timers of an iothread: a sorted list, and how long the engine may sleep over it.
 *
 * A device has a few timers at most, so that the list is walked only when one is set or taken back. No descriptor and
 * no system call belongs to them: the sleep of the engine takes a deadline, and a loop without timers sleeps without
 * one and reads no clock. On the iothread. Calls: clock_gettime(2), by the vDSO.
 */
#include "loop_int.h"
#include <assert.h>
#include <time.h>

#define NS_PER_S 1000000000ull

uint64_t loop_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

void loop_timer_clear(struct iothread *io, struct loop_timer *t)
{
	struct loop_timer **at = &io->timers;

	assert(loop_owned(io));
	if (!t->at)
		return;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	t->at = 0;
}

/*
 * At least a nanosecond from now, so that a timer that its own fn sets again is later than the moment timers_run() goes
 * by: it gets its turn, and so do all others.
 */
void loop_timer_set(struct iothread *io, struct loop_timer *t, uint64_t ns)
{
	struct loop_timer **at = &io->timers;
	uint64_t when;

	loop_timer_clear(io, t);
	if (__builtin_add_overflow(loop_now(), MAX(ns, (uint64_t)1), &when))
		when = UINT64_MAX;
	/* Behind those of the same moment: they were set first. */
	while (*at && (*at)->at <= when)
		at = &(*at)->next;
	t->at = when;
	t->next = *at;
	*at = t;
}

void timers_run(struct iothread *io)
{
	struct loop_timer *t = io->timers;
	uint64_t now;

	if (!t)
		return;
	now = loop_now();
	/* From the front each time: fn may clear any of them. */
	while ((t = io->timers) && t->at <= now) {
		io->timers = t->next;
		t->at = 0;
		t->fn(t);
	}
}

void timers_drop(struct iothread *io)
{
	while (io->timers)
		loop_timer_clear(io, io->timers);
}

uint64_t timers_left(const struct iothread *io)
{
	uint64_t now;

	if (!io->timers)
		return LOOP_FOREVER;
	now = loop_now();
	return io->timers->at > now ? io->timers->at - now : 0;
}
