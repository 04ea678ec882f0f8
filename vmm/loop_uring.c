// SPDX-License-Identifier: Apache-2.0
/*
 * loop_uring.c - the engine that sleeps in io_uring_enter.
 *
 * One call submits what the turn queued and waits. A kick costs no call of its own: the ring reads
 * the eventfd. The ring may do the few operations below and nothing else, because seccomp does not
 * see inside it: the restrictions are registered while it is disabled, and are final when the
 * iothread enables it. Enabled there, and not where it was made, because a ring of a single issuer
 * belongs to the thread that enables it.
 *
 * At most depth file operations are in the ring; the others are held back here, in order. Watches
 * come on top.
 *
 * On the iothread, but for create and destroy. Spec: io_uring_setup(2), io_uring_enter(2),
 * io_uring_register(2). Calls: liburing, loop_pool.c.
 */
#include "loop_int.h"
#include "log.h"
#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <liburing.h>
#include <poll.h>
#include <sys/syscall.h>

/* Bounds of the two rings. More at once costs another io_uring_enter, nothing else. */
#define SQ_MIN 8
#define SQ_MAX 256
#define CQ_MAX 4096

#define NS_PER_S 1000000000u

struct uring {
	struct io_uring ring;
	bool made, enabled;
	unsigned depth, inflight;
	struct op_fifo held;
};

/* The low bits of user_data say whose completion it is; the rest is the pointer. */
enum { TAG_OP, TAG_SLOT, TAG_CANCEL, TAG_MASK = 3 };

/* liburing 2.3 has names for these two that its shared library does not export. */
static int ring_restrict(struct io_uring *ring)
{
	static const unsigned char allowed[] = {IORING_OP_READ,     IORING_OP_READV,
						IORING_OP_WRITEV,   IORING_OP_FSYNC,
						IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL};
	struct io_uring_restriction r[ARRAY_LEN(allowed)] = {0};

	for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
		r[i].opcode = IORING_RESTRICTION_SQE_OP;
		r[i].sqe_op = allowed[i];
	}
	return io_uring_register(ring->ring_fd, IORING_REGISTER_RESTRICTIONS, r, ARRAY_LEN(r));
}

static int ring_enable(struct io_uring *ring)
{
	return io_uring_register(ring->ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

/*
 * The newest way of running completions the kernel takes: deferred, when this thread asks for them
 * (6.1); cooperative, at its next system call (5.19), and a flag in memory says that there are
 * some; or interrupting it.
 */
static int ring_create(struct io_uring *ring, unsigned sq, unsigned cq)
{
	static const unsigned flags[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
						 IORING_SETUP_TASKRUN_FLAG,
					 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0};
	int err = -EINVAL;

	for (size_t i = 0; i < ARRAY_LEN(flags) && err == -EINVAL; i++) {
		struct io_uring_params p = {
			.flags = IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE |
				 IORING_SETUP_CLAMP | flags[i],
			.cq_entries = cq,
		};

		err = io_uring_queue_init_params(sq, ring, &p);
	}
	return err;
}

static void uring_destroy(struct iothread *io)
{
	struct uring *ur = io->engine;

	if (ur && ur->made)
		io_uring_queue_exit(&ur->ring);
	free(ur);
	io->engine = NULL;
}

static int uring_create(struct iothread *io, unsigned depth)
{
	/*
	 * Completions are never lost; a watched eventfd does not hold a kernel thread; a sleep has
	 * a deadline without an operation for it (5.11).
	 */
	const unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_FAST_POLL | IORING_FEAT_EXT_ARG;
	unsigned sq = MIN(depth, (unsigned)SQ_MAX), cq = 2 * MIN(depth, (unsigned)CQ_MAX / 2);
	struct uring *ur = calloc(1, sizeof(*ur));
	int err;

	if (!ur)
		return -ENOMEM;
	io->engine = ur;
	ur->depth = depth;
	err = ring_create(&ur->ring, MAX(sq, (unsigned)SQ_MIN), MAX(cq, 2u * SQ_MIN));
	if (err)
		return err == -EINVAL ? -ENOSYS : err;
	ur->made = true;
	if ((ur->ring.features & needed) != needed || ring_restrict(&ur->ring))
		return -ENOSYS;
	return 0;
}

static int uring_enter(struct iothread *io)
{
	struct uring *ur = io->engine;
	int err = ring_enable(&ur->ring);

	errno = -err;
	if (err)
		log_err("%s: cannot enable the ring: %m", io->name);
	ur->enabled = !err;
	return err;
}

/* ---- in and out of the ring ---- */

/* EAGAIN: O_NONBLOCK on a file system that has no such thing; the ring gives up, a thread waits. */
static void op_completed(struct iothread *io, struct io_op *op, int res)
{
	struct uring *ur = io->engine;

	ur->inflight--;
	if (res == -EAGAIN)
		pool_submit(&io->pool, op);
	else if (op_advance(op, res))
		op_finish(io, op);
	else
		op_fifo_add_first(&ur->held, op);
}

/*
 * A negative result is a cancel, or the kernel short of memory: there is nothing for the watch, it
 * is only armed again. An eventfd that is O_NONBLOCK is not waited for by old kernels (EAGAIN); it
 * is polled from then on. A descriptor that was closed under its watch is a fault of ours.
 */
static void slot_completed(struct iothread *io, struct loop_slot *slot, int res)
{
	/* -EINVAL: a poll that was woken without an event (a terminal whose mode changed), re-issued by Linux 6.x. */
	assert(res != -EBADF);
	slot->armed = false;
	slot->spurious = res < 0;
	if (res == -EAGAIN)
		slot->by_poll = true;
	slot_fire(io, slot);
}

/* Takes no room in the ring, so that it may be called when that is full. */
static void ring_reap(struct iothread *io)
{
	struct uring *ur = io->engine;
	struct io_uring_cqe *cqe;
	unsigned head, n = 0;

	io_uring_for_each_cqe(&ur->ring, head, cqe)
	{
		void *p = (void *)(uintptr_t)(cqe->user_data & ~(uint64_t)TAG_MASK);
		unsigned tag = cqe->user_data & TAG_MASK;

		if (tag == TAG_OP)
			op_completed(io, p, cqe->res);
		else if (tag == TAG_SLOT)
			slot_completed(io, p, cqe->res);
		n++;
	}
	io_uring_cq_advance(&ur->ring, n);
}

static int ring_call(struct io_uring *ring, uint64_t ns)
{
	struct __kernel_timespec t = {.tv_sec = (int64_t)(ns / NS_PER_S),
				      .tv_nsec = (long long)(ns % NS_PER_S)};
	struct io_uring_cqe *cqe;

	if (!ns)
		return io_uring_submit_and_get_events(ring);
	if (ns == LOOP_FOREVER)
		return io_uring_submit_and_wait(ring, 1);
	return io_uring_submit_and_wait_timeout(ring, &cqe, 1, &t, NULL);
}

/*
 * What the kernel did not take stays queued, for the next time: on EAGAIN it has no memory for
 * requests, on EBUSY it wants completions taken first. ETIME is the end of the sleep. Other errors
 * are a completion lost (EBADR) or a ring that is not ours: a device whose requests never end is
 * worse than no machine.
 */
static void ring_collect(struct iothread *io, uint64_t ns)
{
	struct uring *ur = io->engine;
	int n = ring_call(&ur->ring, ns);

	if (n < 0 && n != -EINTR && n != -EAGAIN && n != -EBUSY && n != -ETIME) {
		errno = -n;
		log_err("%s: io_uring_enter: %m", io->name);
		abort();
	}
	ring_reap(io);
}

/* Always succeeds: if the ring is full (hard case F15), what is in it is submitted. */
static struct io_uring_sqe *ring_sqe(struct iothread *io)
{
	struct uring *ur = io->engine;
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&ur->ring)))
		ring_collect(io, 0);
	return sqe;
}

static void sqe_tag(struct io_uring_sqe *sqe, const void *p, unsigned tag)
{
	assert(!((uintptr_t)p & TAG_MASK));
	io_uring_sqe_set_data64(sqe, (uintptr_t)p | tag);
}

/* ---- operations ---- */

static void op_queue(struct iothread *io, struct io_op *op)
{
	struct io_uring_sqe *sqe = ring_sqe(io);
	unsigned niov = MIN(op->niov, (unsigned)IOV_MAX);
	uint64_t off = op->off + op->moved;

	if (op->kind == OP_READ)
		io_uring_prep_readv(sqe, op->file->fd, op->iov, niov, off);
	else if (op->kind == OP_WRITE)
		io_uring_prep_writev(sqe, op->file->fd, op->iov, niov, off);
	else
		io_uring_prep_fsync(sqe, op->file->fd,
				    op->kind == OP_FDATASYNC ? IORING_FSYNC_DATASYNC : 0);
	sqe_tag(sqe, op, TAG_OP);
}

static void uring_submit(struct iothread *io, struct io_op *op)
{
	struct uring *ur = io->engine;

	op_fifo_add(&ur->held, op);
}

static void uring_wait(struct iothread *io, uint64_t ns)
{
	struct uring *ur = io->engine;
	struct io_op *op;

	while (ur->inflight < ur->depth && (op = op_fifo_take(&ur->held))) {
		ur->inflight++;
		op_queue(io, op);
	}
	/* A full ring may have been emptied on the way. */
	ring_collect(io, io->finished.head || !TAILQ_EMPTY(&io->fired) ? 0 : ns);
}

/* TASKRUN: completions that the kernel puts into the queue only when this thread calls it. */
static bool uring_ready(struct iothread *io)
{
	const struct uring *ur = io->engine;
	unsigned flags = __atomic_load_n(ur->ring.sq.kflags, __ATOMIC_RELAXED);

	return io_uring_cq_ready(&ur->ring) || io_uring_sq_ready(&ur->ring) ||
	       (ur->held.head && ur->inflight < ur->depth) ||
	       (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW));
}

/* ---- watches ---- */

static void uring_arm(struct iothread *io, struct loop_slot *slot)
{
	const struct watch *w = slot->watch;
	struct io_uring_sqe *sqe = ring_sqe(io);

	if (w->kind == WATCH_EVENTFD && !slot->by_poll)
		io_uring_prep_read(sqe, w->fd, &slot->kicks, sizeof(slot->kicks), 0);
	else
		io_uring_prep_poll_add(sqe, w->fd, w->kind == WATCH_WRITABLE ? POLLOUT : POLLIN);
	sqe_tag(sqe, slot, TAG_SLOT);
	slot->armed = true;
}

static int uring_watch(struct iothread *io, struct loop_slot *slot)
{
	struct uring *ur = io->engine;

	/* The ring would say so too, but too late. */
	if (fcntl(slot->watch->fd, F_GETFD) < 0)
		return -errno;
	if (ur->enabled)
		uring_arm(io, slot);
	return 0;
}

/*
 * Waits for the ring to let go of the slot, which a cancel brings about at once. A kick that was
 * read meanwhile goes back into the eventfd, whoever watches it next will want it.
 */
static void uring_unwatch(struct iothread *io, struct loop_slot *slot)
{
	const struct watch *w = slot->watch;

	if (slot->armed) {
		struct io_uring_sqe *sqe = ring_sqe(io);

		io_uring_prep_cancel64(sqe, (uintptr_t)slot | TAG_SLOT, 0);
		sqe_tag(sqe, NULL, TAG_CANCEL);
	}
	while (slot->armed)
		ring_collect(io, LOOP_FOREVER);
	if (slot->kicks)
		(void)!write(w->fd, &slot->kicks, sizeof(slot->kicks));
}

/* ---- the engine ---- */

static const struct syscall_rule uring_rules[] = {
	{.nr = SYS_io_uring_enter,
	 .why = "to submit and to sleep; made and enabled before the filter"},
	{.nr = SYS_fcntl,
	 .why = "is a descriptor open before it is watched",
	 .masked = true,
	 .arg = 1,
	 .mask = UINT32_MAX,
	 .value = F_GETFD},
};

const struct loop_engine_ops loop_uring = {
	.name = "uring",
	.syscalls = SYSCALLS(uring_rules),
	/* The ring has kernel threads: these are for loop_offload() and what the ring gave up. */
	.pool_threads = 2,
	.create = uring_create,
	.destroy = uring_destroy,
	.enter = uring_enter,
	.watch = uring_watch,
	.rearm = uring_arm,
	.unwatch = uring_unwatch,
	.submit = uring_submit,
	.wait = uring_wait,
	.ready = uring_ready,
};
