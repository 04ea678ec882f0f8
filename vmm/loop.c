// SPDX-License-Identifier: Apache-2.0
/*
 * loop.c - the iothread: its life, work from others, watches, and the turn that calls back.
 *
 * One turn: finished operations, fired watches, timers, posted work; then loop_poll.c, where the
 * engine submits what these queued and sleeps, in one system call where it can. Nothing is called
 * back from anywhere else, but pollers there. Each of the four takes what is there once, so that none starves the others (hard case A30).
 * Work a callback posts to its own iothread runs in the same turn, before the sleep: the place for
 * what closes a batch.
 *
 * Threads: see loop.h; loop_int.h says of each field who touches it. Calls: the engine,
 * loop_pool.c, sandbox.h.
 */
#include "loop_int.h"
#include "log.h"
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

/* Of address space; only what is used becomes memory. Thread-local storage comes out of it too. */
#define STACK_SIZE KIB(256)

/* What any thread of a loop calls, beside the common list and what its engine adds. */
static const struct syscall_rule loop_rules[] = {
	{.nr = SYS_preadv2, .why = "file reads: at once (RWF_NOWAIT), or blocking on the pool"},
	{.nr = SYS_pwritev2, .why = "file writes, likewise"},
	{.nr = SYS_fsync, .why = "on the pool, where the ring is not used"},
	{.nr = SYS_fdatasync, .why = "likewise"},
};
static const struct syscalls loop_syscalls = SYSCALLS(loop_rules);

/* ---- threads ---- */

int loop_sandbox(const struct iothread *io, const char *name)
{
	const struct syscalls *sets[] = {&loop_syscalls, &io->ops->syscalls, io->syscalls, NULL};

	return sandbox_enter(name, sets, io->syscalls ? 3 : 2);
}

/*
 * Signals are for the main thread, with one exception: those by which the kernel reports what this
 * very thread has done. Blocked, they would end the process without a word: SIGSYS is the
 * filter's, SIGBUS may be a truncated file behind guest memory.
 */
static void signals_of_iothread(sigset_t *set)
{
	static const int own[] = {SIGSYS, SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP};

	sigfillset(set);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		sigdelset(set, own[i]);
}

int loop_thread(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
	sigset_t set, old;
	pthread_attr_t attr;
	int err;

	/* Inherited: there is no moment at which the new thread could take a signal. */
	signals_of_iothread(&set);
	pthread_sigmask(SIG_SETMASK, &set, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	err = pthread_create(thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = err;
	if (err)
		log_err("%s: cannot start a thread (%s): %m", name,
			log_remedy(err, "configure fewer devices"));
	return -err;
}

bool iothread_current(const struct iothread *io)
{
	return __atomic_load_n(&io->self, __ATOMIC_RELAXED) == (uintptr_t)pthread_self();
}

bool loop_owned(const struct iothread *io)
{
	return iothread_current(io) || !__atomic_load_n(&io->self, __ATOMIC_RELAXED);
}

const char *iothread_engine(const struct iothread *io)
{
	return io->ops->name;
}

/* ---- work from other threads ---- */

void loop_wake(struct iothread *io)
{
	/* Fails only where the counter is full: then it is readable, all that is wanted. */
	(void)!write(io->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

static void wake_ready(struct watch *w)
{
	(void)w; /* What was pushed is looked for in every turn. */
}

/*
 * The eventfd is written only by whoever finds the stack empty: the iothread takes all of it. It
 * is not written by the iothread itself, which looks at the stack before it sleeps; if others then
 * push on top of that, they need not either.
 */
void loop_post(struct iothread *io, struct loop_work *w)
{
	if (stack_push(&io->work, w) && !iothread_current(io))
		loop_wake(io);
}

struct call {
	struct loop_work work;
	void (*fn)(void *);
	void *arg;
	sem_t returned;
};

static void call_run(struct loop_work *w)
{
	struct call *c = container_of(w, struct call, work);

	c->fn(c->arg);
	sem_post(&c->returned);
}

static void sem_wait_through(sem_t *sem)
{
	/* A vCPU thread that waits here may be kicked by a signal. */
	while (sem_wait(sem) && errno == EINTR)
		;
}

void loop_call(struct iothread *io, void (*fn)(void *), void *arg)
{
	struct call c = {.work.fn = call_run, .fn = fn, .arg = arg};

	assert(io->started && !iothread_current(io));
	sem_init(&c.returned, 0, 0);
	loop_post(io, &c.work);
	sem_wait_through(&c.returned);
	sem_destroy(&c.returned);
}

/* ---- watches ---- */

int loop_watch(struct iothread *io, struct watch *w)
{
	struct loop_slot *slot;
	int err;

	assert(loop_owned(io));
	if (w->slot)
		return -EEXIST;
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	slot->watch = w;
	err = io->ops->watch(io, slot);
	if (err) {
		free(slot);
		return err;
	}
	w->slot = slot;
	TAILQ_INSERT_TAIL(&io->slots, slot, all);
	return 0;
}

void loop_unwatch(struct iothread *io, struct watch *w)
{
	struct loop_slot *slot = w->slot;

	assert(loop_owned(io));
	if (!slot)
		return;
	io->ops->unwatch(io, slot);
	if (slot->fired)
		TAILQ_REMOVE(&io->fired, slot, fire);
	if (io->current == slot)
		io->current = NULL;
	TAILQ_REMOVE(&io->slots, slot, all);
	w->slot = NULL;
	free(slot);
}

void slot_fire(struct iothread *io, struct loop_slot *slot)
{
	if (slot->fired)
		return;
	slot->fired = true;
	TAILQ_INSERT_TAIL(&io->fired, slot, fire);
}

/* False if there is nothing after all. An eventfd that was only polled is read here. */
static bool slot_ready(const struct loop_slot *slot)
{
	uint64_t kicks;

	if (slot->spurious)
		return false;
	if (slot->watch->kind != WATCH_EVENTFD || !slot->by_poll)
		return true;
	return read(slot->watch->fd, &kicks, sizeof(kicks)) == sizeof(kicks);
}

static void slot_call(struct iothread *io, struct loop_slot *slot)
{
	slot->kicks = 0;
	io->current = slot;
	if (slot_ready(slot))
		slot->watch->ready(slot->watch);
	/* Unwatched from inside ready(), the slot is gone, and current no longer names it. */
	if (io->current == slot)
		io->ops->rearm(io, slot);
	io->current = NULL;
}

/* ---- the turn ---- */

static void run_finished(struct iothread *io)
{
	struct io_op *op = stack_take_any(&io->returned), *next;

	for (; op; op = next) {
		next = op->next;
		op_finish(io, op);
	}
	/* Ends: what done() submits goes to the engine, which starts it when the turn is over. */
	while ((op = op_fifo_take(&io->finished))) {
		io->pending--;
		op->done(op, op->res);
	}
}

static void run_fired(struct iothread *io)
{
	struct loop_slot *slot;
	unsigned n = 0;

	/* As many as there are now: ready() may unwatch, and a cancel may fire others. */
	for (slot = TAILQ_FIRST(&io->fired); slot; slot = TAILQ_NEXT(slot, fire))
		n++;
	while (n-- && (slot = TAILQ_FIRST(&io->fired))) {
		TAILQ_REMOVE(&io->fired, slot, fire);
		slot->fired = false;
		slot_call(io, slot);
	}
}

static void run_work(struct iothread *io)
{
	struct loop_work *w = stack_take_any(&io->work), *next;

	for (; w; w = next) {
		/* Once fn has begun, w may be freed or posted again. */
		next = w->next;
		w->fn(w);
	}
}

/*
 * Looked at last before the sleep, after wake_fd was read: what is pushed from here on finds the
 * stack empty and writes wake_fd again. The read of the eventfd pairs with the write in
 * loop_wake(): who has seen a wake sees the push before it.
 */
bool loop_has_work(struct iothread *io)
{
	return __atomic_load_n(&io->work, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&io->returned, __ATOMIC_RELAXED);
}

static void unwatch_all(struct iothread *io, const struct watch *but)
{
	struct loop_slot *slot, *next;

	for (slot = TAILQ_FIRST(&io->slots); slot; slot = next) {
		next = TAILQ_NEXT(slot, all);
		if (slot->watch != but)
			loop_unwatch(io, slot->watch);
	}
}

/*
 * Watches, timers and pollers end at once, so that nothing new comes in; operations and what their done() submits and
 * posts still run to their end, with the pool's way back open.
 */
static void stop_run(struct loop_work *w)
{
	struct iothread *io = container_of(w, struct iothread, stop);

	unwatch_all(io, &io->wake);
	timers_drop(io);
	io->poll.pollers = NULL;
	io->stopping = true;
}

static void iothread_loop(struct iothread *io)
{
	for (;;) {
		run_finished(io);
		run_fired(io);
		timers_run(io);
		run_work(io);
		if (io->stopping && !io->pending && !loop_has_work(io))
			break;
		poll_rest(io);
	}
	timers_drop(io);
	unwatch_all(io, NULL);
}

static int iothread_enter(struct iothread *io)
{
	struct loop_slot *slot;
	int err;

	__atomic_store_n(&io->self, (uintptr_t)pthread_self(), __ATOMIC_RELAXED);
	err = io->ops->enter(io);
	if (!err)
		err = loop_sandbox(io, io->name);
	if (err)
		return err;
	/* Those from before the start. */
	for (slot = TAILQ_FIRST(&io->slots); slot; slot = TAILQ_NEXT(slot, all))
		io->ops->rearm(io, slot);
	return 0;
}

/*
 * Everything of its own is in place before the first kick can arrive (hard case C5). If init fails
 * the loop runs all the same until iothread_start() has it end, for what init may have begun.
 */
static void *iothread_main(void *arg)
{
	struct iothread *io = arg;
	int err = iothread_enter(io);
	bool entered = !err;

	if (entered && io->init)
		err = io->init(io->init_arg);
	if (err)
		__atomic_store_n(&io->start_error, err, __ATOMIC_RELAXED);
	sem_post(&io->entered);
	if (entered)
		iothread_loop(io);
	return NULL;
}

/* ---- life ---- */

/* $WHERRY_ENGINE; LOOP_AUTO if it is not set, -EINVAL (logged) if it is neither. */
static int engine_of_env(const char *name)
{
	const char *env = getenv("WHERRY_ENGINE");

	if (!env || !*env)
		return LOOP_AUTO;
	if (!strcmp(env, "uring"))
		return LOOP_URING;
	if (!strcmp(env, "epoll"))
		return LOOP_EPOLL;
	log_err("%s: WHERRY_ENGINE=%s is not an engine: use uring or epoll", name, env);
	return -EINVAL;
}

static int engine_try(struct iothread *io, const struct loop_engine_ops *ops, unsigned depth)
{
	int err;

	io->ops = ops;
	err = ops->create(io, depth);
	if (err) {
		ops->destroy(io);
		io->ops = NULL;
		errno = -err;
	}
	return err;
}

static int engine_create(struct iothread *io, enum loop_engine engine, unsigned depth)
{
	int choice = engine == LOOP_AUTO ? engine_of_env(io->name) : (int)engine, err;

	if (choice < 0)
		return choice;
	if (choice != LOOP_EPOLL) {
		err = engine_try(io, &loop_uring, depth);
		if (!err)
			return 0;
		if (choice == LOOP_URING) {
			log_err("%s: the host refuses io_uring, use WHERRY_ENGINE=epoll: %m",
				io->name);
			return err;
		}
		log_debug("%s: the host refuses io_uring, epoll is used: %m", io->name);
	}
	err = engine_try(io, &loop_epoll, depth);
	if (err)
		log_err("%s: cannot make an epoll instance (%s): %m", io->name,
			log_remedy(-err, "is this host's kernel built without epoll?"));
	return err;
}

static int wake_create(struct iothread *io)
{
	int err;

	io->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (io->wake_fd < 0) {
		err = -errno;
		log_err("%s: cannot make an eventfd (%s): %m", io->name,
			log_remedy(-err, "is this host's kernel built without eventfd?"));
		return err;
	}
	io->wake = (struct watch){.fd = io->wake_fd, .kind = WATCH_EVENTFD, .ready = wake_ready};
	err = loop_watch(io, &io->wake);
	errno = -err;
	if (err)
		log_err("%s: cannot watch an eventfd: %m", io->name);
	return err;
}

int iothread_create(struct iothread **out, const char *name, enum loop_engine engine,
		    unsigned depth, const struct syscalls *syscalls)
{
	struct iothread *io = calloc(1, sizeof(*io));
	int err;

	if (!io) {
		log_err("%s: out of memory for an iothread", name);
		return -ENOMEM;
	}
	snprintf(io->name, sizeof(io->name), "%s", name);
	io->syscalls = syscalls;
	io->wake_fd = -1;
	TAILQ_INIT(&io->slots);
	TAILQ_INIT(&io->fired);
	sem_init(&io->entered, 0, 0);
	pool_init(&io->pool, io);
	err = engine_create(io, engine, MAX(depth, 1u));
	if (err)
		goto fail;
	err = wake_create(io);
	if (err)
		goto fail;
	*out = io;
	return 0;
fail:
	iothread_destroy(io);
	return err;
}

/* The thread has been made: let it finish what is in flight, and join it. */
static void iothread_end(struct iothread *io)
{
	assert(!iothread_current(io));
	io->stop = (struct loop_work){.fn = stop_run};
	loop_post(io, &io->stop);
	pthread_join(io->thread, NULL);
	io->started = false;
	__atomic_store_n(&io->self, 0, __ATOMIC_RELAXED);
}

int iothread_start(struct iothread *io, int (*init)(void *arg), void *arg)
{
	unsigned made;
	int err;

	assert(!io->started);
	io->init = init;
	io->init_arg = arg;
	err = pool_start(&io->pool, io->ops->pool_threads, &made);
	if (!err) {
		err = loop_thread(&io->thread, io->name, iothread_main, io);
		io->started = !err;
		made += !err;
	}
	while (made--)
		sem_wait_through(&io->entered);
	if (!err)
		err = __atomic_load_n(&io->start_error, __ATOMIC_RELAXED);
	if (err && io->started)
		iothread_end(io);
	return err;
}

void iothread_destroy(struct iothread *io)
{
	if (!io)
		return;
	if (io->started)
		iothread_end(io);
	pool_fini(&io->pool);
	/* Left only if the thread never ran; then nothing is armed. */
	timers_drop(io);
	unwatch_all(io, NULL);
	if (io->ops)
		io->ops->destroy(io);
	close_fd(&io->wake_fd);
	sem_destroy(&io->entered);
	free(io);
}
