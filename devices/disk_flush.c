// SPDX-License-Identifier: Apache-2.0
/*
 * disk_flush.c - what was written reaches the medium: one fdatasync of a file at a time.
 *
 * Flushes that come while one is under way, from any queue, wait for its end and share the next one, which begins after all
 * that they cover was written. So many queues that flush cost one call at a time, and a write that was lost is told to
 * every flush that follows it: the kernel tells of it only once, to one of those that ask together (hard case F8).
 * No lock: who waits is in a list that any thread pushes to and only the end of a flush takes, whole. Each is begun and
 * ended on its own thread. Calls: loop.h.
 */
#include "disk_int.h"

/* The last of the list while a flush is under way: what is pushed before it waits. An empty list is NULL. */
static struct disk_op under_way;

/* False: none was under way, now this one is. */
static bool flush_wait(struct disk *owner, struct disk_op *op)
{
	struct disk_op *head = __atomic_load_n(&owner->flushes, __ATOMIC_RELAXED);

	do {
		op->next = head;
	} while (!__atomic_compare_exchange_n(&owner->flushes, &head, head ? op : &under_way, true,
					      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return head;
}

/* All that wait, of which one is now under way; NULL: none. */
static struct disk_op *flush_take(struct disk *owner)
{
	struct disk_op *head = __atomic_load_n(&owner->flushes, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(&owner->flushes, &head,
					    head == &under_way ? NULL : &under_way, true,
					    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		;
	return head == &under_way ? NULL : head;
}

static int flush_begin(struct disk_op *op);

static void end_here(struct loop_work *w)
{
	struct disk_op *op = container_of(w, struct disk_op, work);

	op->io.done(&op->io, op->res);
}

static void flush_end(struct disk_op *op, int res)
{
	op->res = res;
	op->work.fn = end_here;
	if (iothread_current(op->io_thread))
		end_here(&op->work);
	else
		loop_post(op->io_thread, &op->work);
}

static void group_begin(struct loop_work *w);

static void flush_next(struct disk *owner)
{
	struct disk_op *group = flush_take(owner);

	if (!group)
		return;
	group->work.fn = group_begin;
	loop_post(group->io_thread, &group->work);
}

/* The next one is begun first: what ends may take its disk with it. */
static void group_end(struct disk_op *group, int res)
{
	struct disk_op *next;

	flush_next(disk_owner(group->disk));
	for (struct disk_op *op = group; op && op != &under_way; op = next) {
		next = op->next;
		flush_end(op, res);
	}
}

static void group_begin(struct loop_work *w)
{
	struct disk_op *group = container_of(w, struct disk_op, work);
	int r = flush_begin(group);

	if (r != -EINPROGRESS)
		group_end(group, r);
}

static void flush_done(struct io_op *io, int res)
{
	struct disk_op *op = container_of(io, struct disk_op, io);

	if (res < 0)
		__atomic_store_n(&disk_owner(op->disk)->lost, res, __ATOMIC_RELAXED);
	op->io.done = op->done;
	group_end(op, res);
}

static int flush_begin(struct disk_op *op)
{
	struct disk *d = op->disk;
	int r = __atomic_load_n(&disk_owner(d)->lost, __ATOMIC_RELAXED);

	if (r)
		return r;
	op->done = op->io.done;
	op->io.done = flush_done;
	/*
	 * Times need not be durable, the size does, and fdatasync includes it. One descriptor speaks for both: the page
	 * cache is the file's, and so are the errors of writing it back.
	 */
	r = loop_fsync(op->io_thread, &op->io, &d->file, true);
	if (r != -EINPROGRESS)
		op->io.done = op->done;
	return r;
}

int disk_flush(struct disk *d, struct iothread *io, struct disk_op *op)
{
	struct disk *owner = disk_owner(d);
	int r;

	op->disk = d;
	op->io_thread = io;
	if (flush_wait(owner, op))
		return -EINPROGRESS;
	op->next = NULL;
	r = flush_begin(op);
	if (r != -EINPROGRESS)
		flush_next(owner);
	return r;
}
