// SPDX-License-Identifier: Apache-2.0
/*
 * wire.h - strings and names on a cursor, for protocols that carry file names.
 */
#ifndef DEVICES_WIRE_H
#define DEVICES_WIRE_H

#include "../vmm/cursor.h"
#include "share.h"

/*
 * A NUL-terminated string of at most cap - 1 bytes that ends inside the next left bytes of the
 * cursor; moves past the NUL. Length without NUL, or -EINVAL (no NUL), -ENAMETOOLONG. buf is always
 * terminated.
 */
int wire_cstr(struct cursor *, char *buf, size_t cap) must_check;
/* The same, as a checked name: -EINVAL, -ENAMETOOLONG. */
int wire_name(struct cursor *, struct name *) must_check;

#endif
