// SPDX-License-Identifier: Apache-2.0
/*
 * loop_int.h - what the files of the loop share; nobody else includes it.
 *
 *   loop.c        the thread: its life, work from others, watches, the turn
 *   loop_timer.c  timers, and how long the engine may sleep over them
 *   loop_poll.c   the end of a turn: looking for work before the engine sleeps
 *   loop_file.c   read, write, fsync: the byte cursor, what can be had at once
 *   loop_pool.c   threads for calls that block
 *   loop_uring.c, loop_epoll.c   where the thread sleeps
 *
 * An engine only collects: it moves what happened into iothread.fired and iothread.finished, and
 * the turn in loop.c calls back from there. So an engine may look for events at any time (a full
 * ring, a cancel) without re-entering anyone.
 */
#ifndef VMM_LOOP_INT_H
#define VMM_LOOP_INT_H

#include "loop.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/queue.h>

/* One per watch; owned by the loop, since a ring may refer to it until it has been cancelled. */
struct loop_slot {
	TAILQ_ENTRY(loop_slot) all;
	TAILQ_ENTRY(loop_slot) fire;
	struct watch *watch; /* borrowed */
	bool fired;          /* on iothread.fired */
	bool armed;          /* the ring holds a request for it */
	bool spurious;       /* fired to be armed again, there is nothing for the watch */
	bool by_poll;        /* only readiness is reported: an eventfd has still to be read */
	uint64_t kicks;      /* eventfd: what the ring read out of it */
};
TAILQ_HEAD(loop_slots, loop_slot);

enum { OP_READ, OP_WRITE, OP_FSYNC, OP_FDATASYNC, OP_OFFLOAD };

/* Operations in order, linked by io_op.next. */
struct op_fifo {
	struct io_op *head, *tail;
};

static inline void op_fifo_add(struct op_fifo *f, struct io_op *op)
{
	op->next = NULL;
	if (f->head)
		f->tail->next = op;
	else
		f->head = op;
	f->tail = op;
}

static inline void op_fifo_add_first(struct op_fifo *f, struct io_op *op)
{
	op->next = f->head;
	if (!f->head)
		f->tail = op;
	f->head = op;
}

static inline struct io_op *op_fifo_take(struct op_fifo *f)
{
	struct io_op *op = f->head;

	if (op)
		f->head = op->next;
	return op;
}

/*
 * A stack that any thread pushes to and the iothread empties as a whole. Lock-free rather than a
 * mutex, because a vCPU posts here and must not wait for another thread that was preempted while
 * it held the lock; as nothing is ever popped alone, the CAS needs no guard against a node coming
 * back (ABA). True if it was empty: then the reader has to be woken. The release makes the node's
 * contents visible to the acquire in stack_take().
 */
#define stack_push(top, item)                                                                 \
	({                                                                                    \
		__typeof__(item) old_ = __atomic_load_n(top, __ATOMIC_RELAXED);               \
		do                                                                            \
			(item)->next = old_;                                                  \
		while (!__atomic_compare_exchange_n(top, &old_, item, true, __ATOMIC_RELEASE, \
						    __ATOMIC_RELAXED));                       \
		old_ == NULL;                                                                 \
	})
/* All of it, oldest first. */
#define stack_take(top)                                                                     \
	({                                                                                  \
		__typeof__(*(top)) new_ = __atomic_exchange_n(top, NULL, __ATOMIC_ACQUIRE); \
		__typeof__(*(top)) all_ = NULL;                                             \
		while (new_) {                                                              \
			__typeof__(*(top)) older_ = new_->next;                             \
			new_->next = all_;                                                  \
			all_ = new_;                                                        \
			new_ = older_;                                                      \
		}                                                                           \
		all_;                                                                       \
	})

/* The same without the cost of an exchange where there is mostly nothing. */
#define stack_take_any(top) (__atomic_load_n(top, __ATOMIC_RELAXED) ? stack_take(top) : NULL)

#define POOL_MAX 4

struct pool {
	struct iothread *io;
	char name[32];
	unsigned nthreads; /* running */
	pthread_t threads[POOL_MAX];
	pthread_mutex_t lock; /* jobs, quit; a leaf */
	pthread_cond_t more;
	struct op_fifo jobs;
	bool quit;
};

struct loop_engine_ops {
	const char *name;
	struct syscalls syscalls;
	unsigned pool_threads;
	/*
	 * Any thread. io->engine is the engine's. destroy accepts what create left half-built, and
	 * a thread that ended.
	 */
	int (*create)(struct iothread *, unsigned depth) must_check;
	void (*destroy)(struct iothread *);
	/* On the iothread, before its filter: what is done once and by the thread itself. */
	int (*enter)(struct iothread *) must_check;
	/* watch: from now on the slot fires. rearm: it was called back and is still watched. */
	int (*watch)(struct iothread *, struct loop_slot *) must_check;
	void (*rearm)(struct iothread *, struct loop_slot *);
	/*
	 * Returns when the engine has forgotten the slot. A kick that was read but not called back
	 * is put back.
	 */
	void (*unwatch)(struct iothread *, struct loop_slot *);
	/* Does what is left of op, beginning in wait() or on the pool, then op_finish(). */
	void (*submit)(struct iothread *, struct io_op *);
	/*
	 * Submits what was queued and collects what happened; if nothing has, waits until something
	 * does, ns nanoseconds at most (not less, unless a signal or an event comes): 0 does not
	 * wait, LOOP_FOREVER has no end.
	 */
	void (*wait)(struct iothread *, uint64_t ns);
	/*
	 * wait(0) would submit or collect something. Asked over and over, so it makes no system
	 * call; an engine that could not tell without one says false.
	 */
	bool (*ready)(struct iothread *);
};
#define LOOP_FOREVER UINT64_MAX
extern const struct loop_engine_ops loop_uring, loop_epoll;

/* How long to look for work before a sleep, and what of it was learnt; see loop_poll.c. */
struct loop_poll {
	struct poller *pollers;
	uint64_t limit, window; /* ns; the window is at most the limit, 0: none */
	unsigned misses;        /* windows in a row in which nothing came */
	unsigned soon;          /* without one: sleeps that ended soon */
	unsigned wary;          /* how many of them are not enough for one */
	unsigned blind;         /* turns since the engine was asked */
};

struct iothread {
	char name[32];
	const struct loop_engine_ops *ops;
	void *engine;
	const struct syscalls *syscalls; /* borrowed; the device's list, or NULL */

	pthread_t thread;
	uintptr_t self;  /* atomic: pthread_self() of the running thread, 0 before */
	bool started;    /* thread is to be joined */
	sem_t entered;   /* posted once by each new thread */
	int start_error; /* atomic: of any of them */
	int (*init)(void *);
	void *init_arg;

	/* Pushed by any thread, taken by the iothread. */
	struct loop_work *work;
	struct io_op *returned; /* from the pool */
	int wake_fd;
	struct watch wake;

	/* The iothread's own. */
	struct loop_slots slots, fired;
	struct loop_slot *current; /* its ready() is running */
	struct op_fifo finished;
	unsigned pending;          /* operations whose done() is still to come */
	struct loop_timer *timers; /* the first to come, first */
	struct loop_poll poll;
	bool stopping;
	struct loop_work stop;

	struct pool pool;
};

/* ---- loop.c ---- */

/* Whether there is something that no event will tell of. */
bool loop_has_work(struct iothread *);
/* The slot has something for its watch. */
void slot_fire(struct iothread *, struct loop_slot *);
/* On the iothread, or nothing runs yet. */
bool loop_owned(const struct iothread *);
/*
 * The caller is a new thread of this loop: installs the filter every thread of it has. 0 or -errno
 * (logged).
 */
int loop_sandbox(const struct iothread *, const char *name) must_check;
/* Wakes the iothread. Any thread. */
void loop_wake(struct iothread *);
/*
 * pthread_create with a small stack and every signal blocked that is not the thread's own fault.
 * -errno (logged).
 */
int loop_thread(pthread_t *, const char *name, void *(*fn)(void *), void *arg) must_check;

/* ---- loop_timer.c ---- */

/* Calls those whose time has come. */
void timers_run(struct iothread *);
/* None is called any more. */
void timers_drop(struct iothread *);
/* How long until the first; LOOP_FOREVER without one. */
uint64_t timers_left(const struct iothread *);

/* ---- loop_poll.c ---- */

/* The end of a turn: submits, and sleeps if there is nothing else. */
void poll_rest(struct iothread *);
/* Something came within the window. */
void poll_found(struct loop_poll *);
/* It did not, or there was none: a sleep ended, so many ns after the thread had run out of work. */
void poll_learn(struct loop_poll *, uint64_t after);

/* ---- loop_file.c ---- */

/* Takes the result of one call for op; true when that ended it, with op->res set. */
bool op_advance(struct io_op *op, ssize_t res);
/* Does all of op, blocking. Returns its result. */
int op_run(struct io_op *op);
/* A call that was made at once was slow, or quick. */
void pace_learn(struct io_pace *, bool slow);
/* op->res is set; done() is called by the next turn. */
void op_finish(struct iothread *, struct io_op *op);

/* ---- loop_pool.c ---- */

void pool_init(struct pool *, struct iothread *);
/* Each thread it made posts io->entered; *made counts them also on failure. -errno (logged). */
int pool_start(struct pool *, unsigned nthreads, unsigned *made) must_check;
/* No job is left. */
void pool_fini(struct pool *);
/* Runs op->fn(op) on a thread of the pool, then hands op back to the iothread with op->res set. */
void pool_submit(struct pool *, struct io_op *op);

#endif
