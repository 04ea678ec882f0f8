// SPDX-License-Identifier: Apache-2.0
/*
 * loop_poll.c - the end of a turn: look for work for a while, ask for events, sleep.
 *
 * A sleep costs whoever has work for this thread an event, and the thread a wake-up; on some hosts tens of
 * microseconds each. So where work is likely to come soon the thread looks for it instead: at its pollers, at what
 * other threads have pushed, at the engine, all of it in memory. How long is learnt (struct loop_poll): as long as work
 * was lately seen to take, and not at all where looking did not help, so that an idle machine does not spin, a slow
 * one hardly, and neither wakes for it. Only before it sleeps does the thread ask its pollers for events (arm), which
 * look once more: so nothing is lost between the last look and the sleep (hard case A13).
 * On the iothread. Calls: the engine, loop_timer.c.
 */
#include "loop_int.h"
#include <assert.h>

#define NS_PER_US 1000u

#define WINDOW_MIN (2 * NS_PER_US)
/* What a wake-up itself may take is not held against the work: it does not come later because the thread slept. */
#define WAKE_NS (50 * NS_PER_US)
/* Windows in a row without work, then no more of them. */
#define MISSES_MAX 3
/* Sleeps that end soon before it is tried again, at most. */
#define WARY_MAX 1023
/* Looks between two at the clock, which takes as long as one. */
#define LOOKS 16
/* Turns without a question to the engine that it did not ask for; some cannot tell that they have something. */
#define BLIND_MAX 32

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

void loop_poll_add(struct iothread *io, struct poller *p)
{
	assert(loop_owned(io));
	p->next = io->poll.pollers;
	io->poll.pollers = p;
}

void loop_poll_del(struct iothread *io, struct poller *p)
{
	struct poller **at = &io->poll.pollers;

	assert(loop_owned(io));
	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
}

void loop_poll_limit(struct iothread *io, uint32_t us)
{
	assert(loop_owned(io));
	io->poll.limit = (uint64_t)us * NS_PER_US;
}

/* ---- learning ---- */

void poll_found(struct loop_poll *p)
{
	p->misses = 0;
	p->wary /= 2;
}

/*
 * Work came so long after the thread had run out of it, and a sleep had to be begun. Without a window: if it came soon,
 * one would have found it, or so it seems; that has to be seen more often than p->wary says. With one: if work came
 * soon, the window was too short. If it came late, or the window is as long as it may be, looking was in vain, and the
 * third time in a row it is given up: for longer each time if work did come soon, for then it cannot come while this
 * thread looks for it (the guest has the same CPU).
 */
void poll_learn(struct loop_poll *p, uint64_t after)
{
	bool soon = after <= p->limit + WAKE_NS;

	if (!p->window) {
		p->soon += soon;
		if (p->soon > p->wary)
			p->window = MIN((uint64_t)WINDOW_MIN, p->limit);
		return;
	}
	if (soon && p->window < p->limit) {
		p->window = MIN(2 * p->window, p->limit);
		p->misses = 0;
		return;
	}
	if (++p->misses < MISSES_MAX)
		return;
	p->window = 0;
	p->misses = p->soon = 0;
	if (soon)
		p->wary = MIN(2 * p->wary + 1, (unsigned)WARY_MAX);
}

/* ---- looking ---- */

static bool look(struct iothread *io)
{
	bool found = false;

	for (struct poller *p = io->poll.pollers; p; p = p->next)
		found |= p->poll(p);
	return found || loop_has_work(io) || io->ops->ready(io);
}

/* Looks for as long as the window is, or until a timer is due. Under load the first look finds something: no clock is read. */
static bool look_for_a_while(struct iothread *io)
{
	struct loop_poll *p = &io->poll;
	uint64_t now, end;

	if (!p->window || !p->pollers)
		return false;
	if (look(io))
		return true;
	now = loop_now();
	end = now + p->window;
	if (io->timers)
		end = MIN(end, io->timers->at);
	for (; now < end; now = loop_now()) {
		for (unsigned i = 0; i < LOOKS; i++) {
			cpu_relax();
			if (!look(io))
				continue;
			poll_found(p);
			return true;
		}
	}
	return false;
}

/* ---- the end of a turn ---- */

/* Every poller asks for events. True if one of them had something after all, which is done. */
static bool arm(struct iothread *io)
{
	bool found = false;

	for (struct poller *p = io->poll.pollers; p; p = p->next)
		found |= p->arm(p) && p->poll(p);
	return found;
}

static void collect(struct iothread *io)
{
	if (!io->ops->ready(io) && ++io->poll.blind < BLIND_MAX)
		return;
	io->poll.blind = 0;
	io->ops->wait(io, 0);
}

static void sleep_and_learn(struct iothread *io)
{
	uint64_t since = loop_now() - io->poll.window;

	io->ops->wait(io, timers_left(io));
	poll_learn(&io->poll, loop_now() - since);
}

void poll_rest(struct iothread *io)
{
	const struct loop_poll *p = &io->poll;

	if (look_for_a_while(io) || arm(io))
		collect(io);
	else if (loop_has_work(io))
		io->ops->wait(io, 0);
	else if (p->pollers && p->limit)
		sleep_and_learn(io);
	else
		io->ops->wait(io, timers_left(io));
}
