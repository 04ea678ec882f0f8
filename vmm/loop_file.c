// SPDX-License-Identifier: Apache-2.0
/*
 * loop_file.c - file operations: what can be had at once is, the rest goes to the engine.
 *
 * A read or write is one operation however many calls it takes: the byte cursor is the iov itself,
 * cut from the front as bytes move, so that a short or failed call never repeats what an earlier
 * one did (hard case A27). The page cache is asked first with RWF_NOWAIT, because handing a
 * request to another thread costs more than a cached read, or than a write into the cache: there
 * are file systems that know no RWF_NOWAIT, and then the call is made and timed.
 *
 * On the iothread, but for op_run(), which a pool thread may call. Calls: the engine, loop_pool.c.
 */
#include "loop_int.h"
#include <assert.h>
#include <limits.h>
#include <sys/syscall.h>

static int errno_neg(ssize_t r)
{
	return r < 0 ? -errno : (int)r;
}

/*
 * One call for what is left of op: bytes, which op_rw() keeps below INT_MAX, or -errno. By number: the C library takes
 * care that a thread can be cancelled here, which none of ours ever is, and that costs more than all of this function.
 */
static int op_call(const struct io_op *op, int flags)
{
	const long call = op->kind == OP_READ ? SYS_preadv2 : SYS_pwritev2;
	const long niov = MIN(op->niov, (unsigned)IOV_MAX);
	const uint64_t off = op->off + op->moved;

	static_assert(sizeof(long) == sizeof(off), "the kernel takes the offset in one word");
	return errno_neg(syscall(call, op->file->fd, op->iov, niov, off, 0, flags));
}

bool op_advance(struct io_op *op, ssize_t res)
{
	size_t n = res > 0 ? (size_t)res : 0;

	if (res == -EINTR)
		return false;
	op->moved += n;
	for (; op->niov && n >= op->iov->iov_len; op->iov++, op->niov--)
		n -= op->iov->iov_len;
	if (res > 0 && op->niov) {
		op->iov->iov_base = (char *)op->iov->iov_base + n;
		op->iov->iov_len -= n;
		return false;
	}
	op->res = res < 0 && !op->moved ? (int)res : (int)op->moved;
	return true;
}

int op_run(struct io_op *op)
{
	if (op->kind == OP_FSYNC)
		return errno_neg(fsync(op->file->fd));
	if (op->kind == OP_FDATASYNC)
		return errno_neg(fdatasync(op->file->fd));
	while (!op_advance(op, op_call(op, 0)))
		;
	return op->res;
}

/*
 * Most calls of a file system that cannot tell are quick: what they write stays in memory. But any may wait: for a page
 * to be read, a journal, the disk that cannot keep up (and then all of them do). One that took longer than SLOW_NS sends
 * the next ones away to the engine, twice as many each time that the one after them was slow again, half as many when it
 * was quick. Nobody waits long for more than one call in AWAY_MAX of a file that is always slow.
 */
#define SLOW_NS  500000u
#define AWAY_MIN 16
#define AWAY_MAX 256
/* Copying more takes as long as handing it over, and other threads can do it side by side. */
#define AT_ONCE_MAX KIB(256)

void pace_learn(struct io_pace *p, bool slow)
{
	unsigned span = __atomic_load_n(&p->span, __ATOMIC_RELAXED);

	span = slow ? MAX(2 * span, (unsigned)AWAY_MIN) : span / 2;
	span = MIN(span, (unsigned)AWAY_MAX);
	__atomic_store_n(&p->span, (uint16_t)span, __ATOMIC_RELAXED);
	if (slow)
		__atomic_store_n(&p->away, (uint16_t)span, __ATOMIC_RELAXED);
}

/* True when the call was made, with op->res set. */
static bool op_paced(struct io_op *op, size_t total)
{
	struct io_pace *p = op->kind == OP_READ ? &op->file->read_pace : &op->file->write_pace;
	uint16_t away = __atomic_load_n(&p->away, __ATOMIC_RELAXED);
	uint64_t began;

	if (total > AT_ONCE_MAX || away == IO_PACE_NEVER)
		return false;
	if (away) {
		/* If another thread does the same, a call more or less is sent away. */
		__atomic_store_n(&p->away, (uint16_t)(away - 1), __ATOMIC_RELAXED);
		return false;
	}
	began = loop_now();
	op_run(op);
	pace_learn(p, loop_now() - began > SLOW_NS);
	return true;
}

/* What needs no waiting, as far as one can know. True when that was all of it, with op->res set. */
static bool op_try(struct io_op *op, size_t total)
{
	bool *refused =
		op->kind == OP_READ ? &op->file->no_nowait_read : &op->file->no_nowait_write;

	/* No cache could answer: RWF_NOWAIT makes a file system not wait for its locks, but wait for the disk it does. */
	if (op->file->direct)
		return false;
	while (!__atomic_load_n(refused, __ATOMIC_RELAXED)) {
		int n = op_call(op, RWF_NOWAIT);

		if (n == -EAGAIN)
			return false;
		if (n == -EOPNOTSUPP)
			__atomic_store_n(refused, true, __ATOMIC_RELAXED);
		else if (op_advance(op, n))
			return true;
	}
	return op_paced(op, total);
}

void op_finish(struct iothread *io, struct io_op *op)
{
	op_fifo_add(&io->finished, op);
}

static void op_begin(struct iothread *io, struct io_op *op, unsigned kind, struct io_file *file)
{
	assert(loop_owned(io));
	op->io = io;
	op->file = file;
	op->kind = (unsigned char)kind;
	op->fn = op_run;
	op->iov = NULL;
	op->niov = 0;
	op->off = 0;
	op->moved = 0;
}

static int op_submit(struct iothread *io, struct io_op *op)
{
	io->pending++;
	io->ops->submit(io, op);
	return -EINPROGRESS;
}

/*
 * off may come from a guest. -1 must not reach the kernel: in preadv2 and in the ring alike it
 * means "at the file position, and move that". The rest above INT64_MAX is refused there too.
 */
static int op_rw(struct iothread *io, struct io_op *op, struct iovec *iov, unsigned niov,
		 uint64_t off)
{
	size_t total = 0;

	for (unsigned i = 0; i < niov; i++)
		if (__builtin_add_overflow(total, iov[i].iov_len, &total) || total > INT_MAX)
			return -EINVAL;
	if (off > INT64_MAX - total)
		return -EINVAL;
	if (!total)
		return 0;
	/* Empty ones are never first: a call that returns 0 has met the end of the file. */
	for (; !iov->iov_len; iov++)
		niov--;
	op->iov = iov;
	op->niov = niov;
	op->off = off;
	return op_try(op, total) ? op->res : op_submit(io, op);
}

int loop_readv(struct iothread *io, struct io_op *op, struct io_file *file, struct iovec *iov,
	       unsigned niov, uint64_t off)
{
	op_begin(io, op, OP_READ, file);
	return op_rw(io, op, iov, niov, off);
}

int loop_writev(struct iothread *io, struct io_op *op, struct io_file *file, struct iovec *iov,
		unsigned niov, uint64_t off)
{
	op_begin(io, op, OP_WRITE, file);
	return op_rw(io, op, iov, niov, off);
}

int loop_fsync(struct iothread *io, struct io_op *op, struct io_file *file, bool data_only)
{
	op_begin(io, op, data_only ? OP_FDATASYNC : OP_FSYNC, file);
	return op_submit(io, op);
}

int loop_offload(struct iothread *io, struct io_op *op, int (*fn)(struct io_op *))
{
	op_begin(io, op, OP_OFFLOAD, NULL);
	op->fn = fn;
	io->pending++;
	pool_submit(&io->pool, op);
	return -EINPROGRESS;
}
