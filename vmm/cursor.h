// SPDX-License-Identifier: Apache-2.0
/*
 * cursor.h - guest buffers as a byte stream.
 *
 * A cursor walks an array of iovecs. The first failure (not enough bytes) sticks in err and every later call does
 * nothing, so a parser reads all its fields and checks once. Whoever made the iovecs owns them; the cursor keeps a
 * private position and never changes them. What lies in one piece, as almost every field does, is copied in line.
 */
#ifndef VMM_CURSOR_H
#define VMM_CURSOR_H

#include "base.h"
#include <sys/uio.h>

struct cursor {
	uint8_t *at; /* the next byte */
	size_t here; /* bytes from at on that lie in one piece, at most left; 0 after a failure */
	size_t left; /* bytes from here to the end of the stream */
	const struct iovec *iov; /* behind the piece; it may go on behind the stream */
	int err;                 /* 0, or -EPROTO once something did not fit */
};

/* For those below: to the next piece, as there is one; and what does not lie in one, has no length or does not fit. */
void cursor_step(struct cursor *);
void cursor_get_pieces(struct cursor *, void *dst, size_t n);
void cursor_peek_pieces(const struct cursor *, void *dst, size_t n);
void cursor_put_pieces(struct cursor *, const void *src, size_t n);
void cursor_skip_pieces(struct cursor *, size_t n);
int cursor_iov_pieces(struct cursor *, size_t n, struct iovec *out, unsigned max) must_check;

/* n bytes, not 0, lie in one piece. */
static inline bool cursor_has_piece(const struct cursor *c, size_t n)
{
	return n && n <= c->here;
}
static inline void cursor_move(struct cursor *c, size_t n)
{
	c->at += n;
	c->here -= n;
	c->left -= n;
	if (!c->here && c->left)
		cursor_step(c);
}

/* At the start of n iovecs; the caller guarantees that their sum fits a size_t (virtq: at most UINT32_MAX). */
static inline struct cursor cursor_of(const struct iovec *iov, unsigned n)
{
	size_t left = 0;

	for (unsigned i = 0; i < n; i++)
		left += iov[i].iov_len;
	if (!left)
		return (struct cursor){.left = 0};
	while (!iov->iov_len)
		iov++;
	return (struct cursor){
		.at = iov->iov_base, .here = iov->iov_len, .left = left, .iov = iov + 1};
}

/* Copy n bytes out of / into the stream and advance. On failure dst is zeroed, so no field is ever uninitialised. */
static inline void cursor_get(struct cursor *c, void *dst, size_t n)
{
	if (!cursor_has_piece(c, n)) {
		cursor_get_pieces(c, dst, n);
		return;
	}
	memcpy(dst, c->at, n);
	cursor_move(c, n);
}
static inline void cursor_put(struct cursor *c, const void *src, size_t n)
{
	if (!cursor_has_piece(c, n)) {
		cursor_put_pieces(c, src, n);
		return;
	}
	memcpy(c->at, src, n);
	cursor_move(c, n);
}
static inline void cursor_skip(struct cursor *c, size_t n)
{
	if (!cursor_has_piece(c, n))
		cursor_skip_pieces(c, n);
	else
		cursor_move(c, n);
}
/* As cursor_get(), but the cursor stays where it is, and unharmed. */
static inline void cursor_peek(const struct cursor *c, void *dst, size_t n)
{
	if (cursor_has_piece(c, n))
		memcpy(dst, c->at, n);
	else
		cursor_peek_pieces(c, dst, n);
}

/* The stream ends n bytes from here, or where it did before. */
static inline void cursor_trim(struct cursor *c, size_t n)
{
	c->left = MIN(c->left, n);
	c->here = MIN(c->here, n);
}

/* A cursor on the next n bytes; this one moves past them. */
struct cursor cursor_split(struct cursor *, size_t n);

/*
 * The next n bytes as iovecs into out (at most max), for readv/writev: returns how many, or -EPROTO (too few bytes),
 * -E2BIG (more than max iovecs). The cursor moves past them on success.
 */
must_check static inline int cursor_iov(struct cursor *c, size_t n, struct iovec *out, unsigned max)
{
	if (!max || !cursor_has_piece(c, n))
		return cursor_iov_pieces(c, n, out, max);
	*out = (struct iovec){.iov_base = c->at, .iov_len = n};
	cursor_move(c, n);
	return 1;
}

/*
 * Cuts an array of iovecs to the n bytes after the first skip bytes, which the caller knows to be there: *iov is its first
 * then; returns how many.
 */
unsigned iov_cut(struct iovec **iov, unsigned niov, size_t skip, size_t n);

#endif
