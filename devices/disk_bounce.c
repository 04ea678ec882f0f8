// SPDX-License-Identifier: Apache-2.0
/*
 * disk_bounce.c - O_DIRECT for memory that is not aligned: by way of a buffer that is (hard case F10).
 *
 * A guest may cut its data anywhere, and have 2 GiB of it: the buffer is small, and an operation goes through it piece by
 * piece. One operation at a time has the buffer, the others stand in line: what a guest asks for costs it time, not the host
 * memory. Each piece is one operation of the loop, so that nothing here waits, and nothing calls itself, however short the
 * pieces and long the line. On the iothread only. Calls: loop.h, cursor.h.
 */
#include "disk_int.h"

#define PIECE KIB(256)

enum { BOUNCE_READ, BOUNCE_WRITE };

static size_t piece_len(const struct disk_op *op)
{
	return MIN(op->data.left, PIECE);
}

static int piece_begin(struct disk_bounce *b, struct disk_op *op)
{
	const uint64_t off = op->off + op->moved;

	op->piece = (struct iovec){b->buf, piece_len(op)};
	if (op->kind == BOUNCE_READ)
		return loop_readv(b->io, &op->io, &op->disk->file, &op->piece, 1, off);
	cursor_peek(&op->data, b->buf, op->piece.iov_len);
	return loop_writev(b->io, &op->io, &op->disk->file, &op->piece, 1, off);
}

/* -EINPROGRESS: there is another piece to be moved; else the result of the whole. */
static int piece_end(struct disk_bounce *b, struct disk_op *op, int res)
{
	const size_t len = piece_len(op);

	if (res > 0) {
		if (op->kind == BOUNCE_READ)
			cursor_put(&op->data, b->buf, (size_t)res);
		else
			cursor_skip(&op->data, (size_t)res);
		op->moved += (size_t)res;
	}
	if (res == (int)len && op->data.left)
		return -EINPROGRESS;
	return res < 0 && !op->moved ? res : (int)op->moved;
}

/* Moves pieces until one has to be waited for. */
static int bounce_run(struct disk_bounce *b, struct disk_op *op)
{
	int res;

	do {
		res = piece_begin(b, op);
		if (res == -EINPROGRESS)
			return res;
		res = piece_end(b, op, res);
	} while (res == -EINPROGRESS);
	return res;
}

/*
 * The head of the line is over, with this result; perhaps the next ones are too. Each is called back when the one behind it
 * is under way: then it may do as it likes, join the line again or be freed.
 */
static void bounce_over(struct disk_bounce *b, struct disk_op *op, int res)
{
	while (res != -EINPROGRESS) {
		struct disk_op *next = b->head = op->next;
		int next_res = next ? bounce_run(b, next) : -EINPROGRESS;

		op->io.done = op->done;
		op->io.done(&op->io, res);
		op = next;
		res = next_res;
	}
}

static void piece_done(struct io_op *io, int res)
{
	struct disk_op *op = container_of(io, struct disk_op, io);
	struct disk_bounce *b = op->bounce;

	res = piece_end(b, op, res);
	if (res == -EINPROGRESS)
		res = bounce_run(b, op);
	bounce_over(b, op, res);
}

static void line_up(struct disk_bounce *b, struct disk_op *op)
{
	op->next = NULL;
	if (b->head)
		b->tail->next = op;
	else
		b->head = op;
	b->tail = op;
}

int disk_bounce_move(struct disk_bounce *b, struct iothread *io, struct disk_op *op, bool write)
{
	int res = -EINPROGRESS;

	if (!b->buf)
		b->buf = aligned_alloc(DISK_BLOCK_MAX, PIECE);
	if (!b->buf)
		return -ENOMEM;
	b->io = io;
	op->bounce = b;
	op->kind = write ? BOUNCE_WRITE : BOUNCE_READ;
	op->moved = 0;
	op->done = op->io.done;
	op->io.done = piece_done;
	line_up(b, op);
	if (b->head == op)
		res = bounce_run(b, op);
	if (res != -EINPROGRESS) {
		b->head = NULL;
		op->io.done = op->done;
	}
	return res;
}

void disk_bounce_fini(struct disk_bounce *b)
{
	free(b->buf);
	b->buf = NULL;
}
