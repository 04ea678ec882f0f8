// SPDX-License-Identifier: Apache-2.0
/*
 * cursor.c - a byte stream over a guest's buffers: what does not lie in one piece.
 *
 * Every copy is bounded by left before it begins, so the walk below cannot run off the array; what
 * is copied out is host data from then on and is never read from guest RAM again (hard case A7).
 * Empty iovecs are stepped over, never waited for (A5). Belongs to one thread at a time: the
 * owner's. Calls: nothing.
 */
#include "cursor.h"

void cursor_step(struct cursor *c)
{
	do {
		c->at = c->iov->iov_base;
		c->here = MIN(c->iov->iov_len, c->left);
		c->iov++;
	} while (!c->here);
}

/* Takes the next piece that lies in one iovec, at most n bytes. 0 < n <= left, so there is one. */
static struct iovec next_piece(struct cursor *c, size_t n)
{
	struct iovec piece = {.iov_base = c->at};

	piece.iov_len = MIN(n, c->here);
	cursor_move(c, piece.iov_len);
	return piece;
}

static bool fits(struct cursor *c, size_t n)
{
	if (!c->err && n > c->left)
		c->err = -EPROTO;
	if (c->err)
		c->here = 0;
	return !c->err;
}

void cursor_get_pieces(struct cursor *c, void *dst, size_t n)
{
	uint8_t *to = dst;

	if (!fits(c, n)) {
		memset(dst, 0, n);
		return;
	}
	while (n) {
		struct iovec piece = next_piece(c, n);

		memcpy(to, piece.iov_base, piece.iov_len);
		to += piece.iov_len;
		n -= piece.iov_len;
	}
}

void cursor_peek_pieces(const struct cursor *c, void *dst, size_t n)
{
	struct cursor ahead = *c;

	cursor_get_pieces(&ahead, dst, n);
}

void cursor_put_pieces(struct cursor *c, const void *src, size_t n)
{
	const uint8_t *from = src;

	if (!fits(c, n))
		return;
	while (n) {
		struct iovec piece = next_piece(c, n);

		memcpy(piece.iov_base, from, piece.iov_len);
		from += piece.iov_len;
		n -= piece.iov_len;
	}
}

void cursor_skip_pieces(struct cursor *c, size_t n)
{
	if (!fits(c, n))
		return;
	while (n)
		n -= next_piece(c, n).iov_len;
}

struct cursor cursor_split(struct cursor *c, size_t n)
{
	struct cursor part = *c;

	if (!fits(c, n))
		return (struct cursor){.err = c->err};
	cursor_trim(&part, n);
	cursor_skip(c, n);
	return part;
}

int cursor_iov_pieces(struct cursor *c, size_t n, struct iovec *out, unsigned max)
{
	struct cursor walk = *c;
	unsigned used = 0;

	if (!fits(c, n))
		return c->err;
	while (n) {
		if (used == max)
			return -E2BIG;
		out[used] = next_piece(&walk, n);
		n -= out[used++].iov_len;
	}
	*c = walk;
	return (int)used;
}

unsigned iov_cut(struct iovec **iov, unsigned niov, size_t skip, size_t n)
{
	unsigned used = 0;

	while (niov && skip >= (*iov)->iov_len) {
		skip -= (*iov)->iov_len;
		++*iov;
		niov--;
	}
	if (!n || !niov)
		return 0;
	(*iov)->iov_base = (char *)(*iov)->iov_base + skip;
	(*iov)->iov_len -= skip;
	while (n) {
		struct iovec *v = &(*iov)[used++];

		v->iov_len = MIN(v->iov_len, n);
		n -= v->iov_len;
	}
	return used;
}
