// SPDX-License-Identifier: Apache-2.0
/*
 * cursor.h - guest buffers as a byte stream.
 *
 * A cursor walks an array of iovecs. The first failure (not enough bytes) sticks in err and every later call does
 * nothing, so a parser reads all its fields and checks once. Whoever made the iovecs owns them; the cursor keeps a
 * private position and never changes them.
 */
#ifndef VMM_CURSOR_H
#define VMM_CURSOR_H

#include "base.h"
#include <sys/uio.h>

struct cursor {
	const struct iovec *iov;
	unsigned niov;
	size_t off;  /* into iov[0] */
	size_t left; /* bytes from here to the end of the last iovec */
	int err;     /* 0, or -EPROTO once something did not fit */
};

/* At the start of n iovecs; the caller guarantees that their sum fits a size_t (virtq: at most UINT32_MAX). */
struct cursor cursor_of(const struct iovec *iov, unsigned n);

/* Copy n bytes out of / into the stream and advance. On failure dst is zeroed, so no field is ever uninitialised. */
void cursor_get(struct cursor *, void *dst, size_t n);
void cursor_put(struct cursor *, const void *src, size_t n);
void cursor_skip(struct cursor *, size_t n);

/* A cursor on the next n bytes; this one moves past them. */
struct cursor cursor_split(struct cursor *, size_t n);

/*
 * The next n bytes as iovecs into out (at most max), for readv/writev: returns how many, or -EPROTO (too few bytes),
 * -E2BIG (more than max iovecs). The cursor moves past them on success.
 */
int cursor_iov(struct cursor *, size_t n, struct iovec *out, unsigned max) must_check;

/*
 * Cuts an array of iovecs to the n bytes after the first skip bytes, which the caller knows to be there: *iov is its first
 * then; returns how many.
 */
unsigned iov_cut(struct iovec **iov, unsigned niov, size_t skip, size_t n);

#endif
