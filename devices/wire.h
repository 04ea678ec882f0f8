// SPDX-License-Identifier: Apache-2.0
/*
 * wire.h - strings and names on a cursor, and errors, for protocols that carry file names.
 */
#ifndef DEVICES_WIRE_H
#define DEVICES_WIRE_H

#include "../vmm/cursor.h"
#include "share.h"

/* -errno as a guest may see it: of Linux, down to -511, and never one that speaks of our own process (D3, E3). */
static inline int wire_error(int r)
{
	if (r == -EMFILE)
		return -ENFILE;
	return r > -512 ? r : -EIO;
}

/*
 * A NUL-terminated string of at most cap - 1 bytes that ends inside the next left bytes of the
 * cursor; moves past the NUL. Length without NUL, or -EINVAL (no NUL), -ENAMETOOLONG. buf is always
 * terminated.
 */
int wire_cstr(struct cursor *, char *buf, size_t cap) must_check;
/* The same, as a checked name: -EINVAL, -ENAMETOOLONG. */
int wire_name(struct cursor *, struct name *) must_check;

#endif
