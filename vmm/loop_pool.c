// SPDX-License-Identifier: Apache-2.0
/*
 * loop_pool.c - a few threads beside an iothread, for calls that block.
 *
 * All of them are made by iothread_start(), before any filter, and sleep until they are needed:
 * made on demand they would have to be cloned by the iothread, whose filter would then have to
 * allow clone3, the arguments of which seccomp cannot see. A sleeping thread costs two or three
 * pages. How many there are is the engine's choice.
 *
 * Each thread installs the iothread's filter first thing. Jobs go out under a mutex (held for a
 * few instructions only) and come back through a lock-free stack, so that the iothread looks for
 * them without a lock. Calls: loop_int.h.
 */
#include "loop_int.h"
#include <assert.h>
#include <stdio.h>

/* The next job, or NULL when the pool ends. */
static struct io_op *pool_take(struct pool *p)
{
	struct io_op *op;

	pthread_mutex_lock(&p->lock);
	while (!(op = op_fifo_take(&p->jobs)) && !p->quit)
		pthread_cond_wait(&p->more, &p->lock);
	pthread_mutex_unlock(&p->lock);
	return op;
}

static void *pool_thread(void *arg)
{
	struct pool *p = arg;
	struct iothread *io = p->io;
	struct io_op *op;
	int err = loop_sandbox(io, p->name);

	if (err)
		__atomic_store_n(&io->start_error, err, __ATOMIC_RELAXED);
	sem_post(&io->entered);
	while (!err && (op = pool_take(p))) {
		op->res = op->fn(op);
		/* From the push on op belongs to the iothread again. */
		if (stack_push(&io->returned, op))
			loop_wake(io);
	}
	return NULL;
}

void pool_init(struct pool *p, struct iothread *io)
{
	p->io = io;
	snprintf(p->name, sizeof(p->name), "%.10s-pool", io->name);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
}

int pool_start(struct pool *p, unsigned nthreads, unsigned *made)
{
	assert(nthreads <= POOL_MAX && !p->nthreads);
	for (*made = 0; *made < nthreads; ++*made) {
		int err = loop_thread(&p->threads[*made], p->name, pool_thread, p);

		if (err)
			return err;
		p->nthreads++;
	}
	return 0;
}

void pool_fini(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->nthreads; i++)
		pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
}

void pool_submit(struct pool *p, struct io_op *op)
{
	pthread_mutex_lock(&p->lock);
	op_fifo_add(&p->jobs, op);
	pthread_cond_signal(&p->more);
	pthread_mutex_unlock(&p->lock);
}
