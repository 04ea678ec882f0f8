// SPDX-License-Identifier: Apache-2.0
/*
 * wire.c - strings and names on a cursor.
 *
 * A name becomes a struct name here and nowhere else on the way from the guest, so no protocol can
 * hand the file layer an unchecked one (hard case D8). What is looked at is a copy: the guest may
 * write to its own message meanwhile (A7). Calls: cursor.h, name_check().
 */
#include "wire.h"

int wire_cstr(struct cursor *c, char *buf, size_t cap)
{
	size_t n = c->err ? 0 : MIN(c->left, cap), len;

	cursor_peek(c, buf, n);
	len = strnlen(buf, n);
	if (len == n) {
		buf[0] = 0;
		return n == cap ? -ENAMETOOLONG : -EINVAL;
	}
	cursor_skip(c, len + 1);
	return (int)len;
}

int wire_name(struct cursor *c, struct name *name)
{
	/* Room for one that is too long, so that it is told apart. */
	uninit char buf[sizeof(name->s) + 1];
	int n = wire_cstr(c, buf, sizeof(buf));

	return n < 0 ? n : name_check(name, buf, (size_t)n);
}
