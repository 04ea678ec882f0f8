// SPDX-License-Identifier: Apache-2.0
/*
 * loop.h - an iothread: one thread that sleeps in one place for kicks, descriptors and completions
 * alike.
 *
 * Two engines behind one face, chosen when the thread is created: io_uring (kicks are reads in the
 * ring, so one io_uring_enter submits a batch and waits), and epoll with a small pool of threads,
 * for hosts that refuse io_uring. The ring is created restricted to the operations used here,
 * because seccomp does not see ring operations.
 *
 * Threads: unless said otherwise a function is called on the iothread itself, or before
 * iothread_start(). Everything that belongs to a device (queues, requests, sessions) is touched on
 * its iothread only, so there are no locks above.
 */
#ifndef VMM_LOOP_H
#define VMM_LOOP_H

#include "base.h"
#include "sandbox.h"
#include <sys/uio.h>

struct iothread;

enum loop_engine {
	LOOP_AUTO,  /* $WHERRY_ENGINE (uring, epoll) if set, else io_uring, else epoll */
	LOOP_URING, /* -ENOSYS/-EPERM from iothread_create() where the host refuses it */
	LOOP_EPOLL,
};

/*
 * Makes an iothread named name (at most 15 bytes are shown), not yet running. depth is how many
 * operations may be in flight without being held back (any number may be submitted). syscalls is
 * what its thread and its pool may call beyond the common list (borrowed, may be NULL). Any
 * thread. 0 or -errno (logged).
 */
int iothread_create(struct iothread **out, const char *name, enum loop_engine engine,
		    unsigned depth, const struct syscalls *syscalls) must_check;
/*
 * Runs init(arg) (may be NULL) on the new thread, before anything else but after the filter; the
 * return value of iothread_start is that of init, or -errno. Any thread.
 */
int iothread_start(struct iothread *, int (*init)(void *arg), void *arg) must_check;
/*
 * Ends the watches, then the thread after what is in flight is done (and what done() submits),
 * joins it and its pool, frees everything. What was submitted to an iothread that never ran is
 * dropped. Any thread but the iothread itself. NULL is fine.
 */
void iothread_destroy(struct iothread *);
/* "uring" or "epoll". Any thread. */
const char *iothread_engine(const struct iothread *);
/* The calling thread is this iothread. Any thread. */
bool iothread_current(const struct iothread *);

/* ---- work from other threads ---- */

/* Embed; must stay alive, and not be posted again, until fn has begun. */
struct loop_work {
	void (*fn)(struct loop_work *);
	struct loop_work *next; /* private */
};
/*
 * Runs w->fn(w) on the iothread, in the order of posting. Any thread, also the iothread itself.
 * Never blocks.
 */
void loop_post(struct iothread *, struct loop_work *w);
/*
 * Runs fn(arg) on the iothread, which runs, and returns when it has returned. Any thread but the
 * iothread itself.
 */
void loop_call(struct iothread *, void (*fn)(void *), void *arg);

/* ---- timers ---- */

/* CLOCK_MONOTONIC, ns. Any thread. */
uint64_t loop_now(void);

/* Embed; {.fn = fn} to begin with. */
struct loop_timer {
	void (*fn)(struct loop_timer *);
	uint64_t at; /* private: CLOCK_MONOTONIC, ns; 0: not set */
	struct loop_timer *next;
};
/*
 * Calls t->fn(t) once on the iothread, ns from now at the earliest. One that is set already is moved. fn may set and
 * clear any timer, also its own. One that is still set when the iothread is destroyed is not called.
 */
void loop_timer_set(struct iothread *, struct loop_timer *, uint64_t ns);
/* Not called any more. Nothing happens if it is not set. */
void loop_timer_clear(struct iothread *, struct loop_timer *);

/* ---- polling ---- */

/*
 * Something that may have work without any event: a queue whose kicks are off. poll() and arm() neither add nor delete
 * pollers. Beside them, completions of operations and work from other threads are found by looking; other watches
 * may have to wait until the thread sleeps, loop_poll_limit() at most, or for some dozens of turns.
 */
struct poller {
	/* Does all that has come; false: nothing had. Called over and over: an empty look is a load or two. */
	bool (*poll)(struct poller *);
	/* The thread is about to sleep: asks for events, then looks once more; true: poll() has something to do. */
	bool (*arm)(struct poller *);
	struct poller *next; /* private */
};
void loop_poll_add(struct iothread *, struct poller *);
void loop_poll_del(struct iothread *, struct poller *);
/*
 * The most microseconds the iothread looks for work before it sleeps; how many of them it does is learnt from how soon
 * work came before. 0 (to begin with): none. Before iothread_start().
 */
void loop_poll_limit(struct iothread *, uint32_t us);

/* ---- descriptors ---- */

/*
 * WATCH_EVENTFD: the loop reads the counter itself, then calls ready(), once for any number of
 * kicks. The others are levels: ready() is called as long as the descriptor is readable (or at its
 * end), or writable.
 */
enum watch_kind { WATCH_EVENTFD, WATCH_READABLE, WATCH_WRITABLE };
struct watch {
	int fd; /* borrowed; stays open until loop_unwatch() */
	enum watch_kind kind;
	void (*ready)(struct watch *);
	void *slot; /* private */
};
/* -ENOMEM, -EEXIST (already watched), -EBADF, or what epoll_ctl says. */
int loop_watch(struct iothread *, struct watch *) must_check;
/*
 * After this ready() is not called again, the struct may be freed and the descriptor closed. A
 * kick that was not called back stays in the eventfd. Nothing happens if it is not watched. May be
 * called from any ready(), also its own.
 */
void loop_unwatch(struct iothread *, struct watch *);

/* ---- file operations ---- */

/* Of a file that cannot say whether a call would block: how many calls are spared to find out. See loop_file.c. */
struct io_pace {
	uint16_t
		away; /* still to go to the engine before one is made at once; IO_PACE_NEVER: all */
	uint16_t span; /* how many they were the last time */
};
#define IO_PACE_NEVER UINT16_MAX

/*
 * A file and what was learnt of it. Embed beside the descriptor; {.fd = fd} to begin with. Several iothreads may use
 * one: what is learnt is atomic, and no more than a hint.
 */
struct io_file {
	int fd; /* borrowed */
	bool direct; /* O_DIRECT: a call, RWF_NOWAIT or not, would wait for the disk; all go to the engine */
	bool no_nowait_read, no_nowait_write;
	struct io_pace read_pace, write_pace;
};

/*
 * One operation; embed in the request, container_of in done(). done is called once on the
 * iothread, never from inside the call that submitted it, and may submit the next operation with
 * the same struct.
 */
struct io_op {
	void (*done)(struct io_op *, int res); /* bytes, or -errno */

	/* private */
	struct iothread *io;
	struct io_op *next;
	struct io_file *file;
	struct iovec *iov;
	unsigned niov;
	unsigned char kind;
	uint64_t off;
	size_t moved;
	int res;
	int (*fn)(struct io_op *);
};

/*
 * Read or write the whole of iov at off: retried until it is complete, the file ends, or an error.
 * What can be had without blocking is done at once; where the file system cannot tell, as ext4
 * cannot of buffered writes, what is small, as long as that turns out to be quick. Returns the
 * bytes moved or -errno if that settled it (done is NOT called), else -EINPROGRESS: done will be
 * called. An error after some bytes returns the bytes (the next call meets the error). iov is
 * consumed: it must stay valid until then and its contents are changed. -EINVAL: more than INT_MAX
 * bytes, or an off beyond 2^63 (both may come from the guest).
 */
int loop_readv(struct iothread *, struct io_op *, struct io_file *, struct iovec *iov,
	       unsigned niov, uint64_t off) must_check;
int loop_writev(struct iothread *, struct io_op *, struct io_file *, struct iovec *iov,
		unsigned niov, uint64_t off) must_check;
/* fsync (data_only: fdatasync). Always -EINPROGRESS, or -errno if it could not be submitted. */
int loop_fsync(struct iothread *, struct io_op *, struct io_file *, bool data_only) must_check;
/*
 * Runs fn(op) on a thread of the pool (same filter as the iothread), then done(op, what fn
 * returned) here. For calls that may block and that the ring does not know. fn sees only the
 * request it is embedded in. -EINPROGRESS or -errno.
 */
int loop_offload(struct iothread *, struct io_op *, int (*fn)(struct io_op *)) must_check;

#endif
