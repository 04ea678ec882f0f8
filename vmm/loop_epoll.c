// SPDX-License-Identifier: Apache-2.0
/*
 * loop_epoll.c - the engine for hosts that refuse io_uring: epoll, and the pool for what blocks.
 *
 * Level-triggered throughout, so a watch that was not served completely simply fires again. Events
 * name the slot: they are put on the loop's list before anyone is called back, and loop_unwatch()
 * takes a slot off that list. On the iothread, but for create and destroy. Calls: epoll(7),
 * loop_pool.c.
 */
#include "loop_int.h"
#include "log.h"
#include <assert.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#define NS_PER_MS  1000000u
#define EVENTS_MAX 32 /* per wait; the others are reported by the next one, in turn */

struct epoll {
	int fd;
};

static int epoll_create_engine(struct iothread *io, unsigned depth)
{
	struct epoll *ep = calloc(1, sizeof(*ep));

	(void)depth; /* The pool holds operations back by the number of its threads. */
	if (!ep)
		return -ENOMEM;
	io->engine = ep;
	ep->fd = epoll_create1(EPOLL_CLOEXEC);
	return ep->fd < 0 ? -errno : 0;
}

static void epoll_destroy_engine(struct iothread *io)
{
	struct epoll *ep = io->engine;

	if (ep)
		close_fd(&ep->fd);
	free(ep);
	io->engine = NULL;
}

static int epoll_enter(struct iothread *io)
{
	(void)io;
	return 0;
}

static int epoll_watch(struct iothread *io, struct loop_slot *slot)
{
	struct epoll *ep = io->engine;
	struct epoll_event ev = {
		.events = slot->watch->kind == WATCH_WRITABLE ? EPOLLOUT : EPOLLIN,
		.data.ptr = slot,
	};

	slot->by_poll = true;
	return epoll_ctl(ep->fd, EPOLL_CTL_ADD, slot->watch->fd, &ev) ? -errno : 0;
}

static void epoll_rearm(struct iothread *io, struct loop_slot *slot)
{
	(void)io;
	(void)slot; /* Level-triggered: it was never disarmed. */
}

static void epoll_unwatch(struct iothread *io, struct loop_slot *slot)
{
	struct epoll *ep = io->engine;
	int err = epoll_ctl(ep->fd, EPOLL_CTL_DEL, slot->watch->fd, NULL);

	/*
	 * Closed before this, with a copy of it still open, it would go on naming the freed slot.
	 */
	assert(!err && "a descriptor was closed under its watch");
	(void)err;
}

static void epoll_submit(struct iothread *io, struct io_op *op)
{
	pool_submit(&io->pool, op);
}

/* Rounded up, so that a timer is never early; one that is far away is waited for in pieces. */
static int milliseconds(uint64_t ns)
{
	uint64_t ms = ns / NS_PER_MS + (ns % NS_PER_MS != 0);

	return ns == LOOP_FOREVER ? -1 : (int)MIN(ms, (uint64_t)INT_MAX);
}

static void epoll_wait_events(struct iothread *io, uint64_t ns)
{
	struct epoll *ep = io->engine;
	struct epoll_event ev[EVENTS_MAX];
	int n = epoll_wait(ep->fd, ev, EVENTS_MAX, milliseconds(ns));

	if (n < 0 && errno != EINTR) {
		log_err("%s: epoll_wait: %m", io->name);
		abort();
	}
	for (int i = 0; i < n; i++)
		slot_fire(io, ev[i].data.ptr);
}

static bool epoll_ready(struct iothread *io)
{
	(void)io;
	return false;
}

static const struct syscall_rule epoll_rules[] = {
#ifdef SYS_epoll_wait
	{.nr = SYS_epoll_wait, .why = "to sleep"},
#endif
	{.nr = SYS_epoll_pwait, .why = "to sleep, where the architecture has no epoll_wait"},
	{.nr = SYS_epoll_ctl, .why = "to watch and unwatch"},
};

const struct loop_engine_ops loop_epoll = {
	.name = "epoll",
	.syscalls = SYSCALLS(epoll_rules),
	.pool_threads = POOL_MAX, /* all file operations that block */
	.create = epoll_create_engine,
	.destroy = epoll_destroy_engine,
	.enter = epoll_enter,
	.watch = epoll_watch,
	.rearm = epoll_rearm,
	.unwatch = epoll_unwatch,
	.submit = epoll_submit,
	.wait = epoll_wait_events,
	.ready = epoll_ready,
};
