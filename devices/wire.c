// SPDX-License-Identifier: Apache-2.0
/*
 * wire.c - strings and names on a cursor.
 *
 * A name becomes a struct name here and nowhere else on the way from the guest, so no protocol can
 * hand the file layer an unchecked one (hard case D8). Calls: cursor.h, name_check().
 */
#include "wire.h"

int wire_cstr(struct cursor *c, char *buf, size_t cap)
{
	size_t n = 0;

	while (c->left && !c->err) {
		cursor_get(c, &buf[n], 1);
		if (!buf[n])
			return (int)n;
		if (++n == cap) {
			buf[0] = 0;
			return -ENAMETOOLONG;
		}
	}
	buf[0] = 0;
	return -EINVAL;
}

int wire_name(struct cursor *c, struct name *name)
{
	char buf[258]; /* one more than a name: longer ones are told from unterminated ones */
	int n = wire_cstr(c, buf, sizeof(buf));

	return n < 0 ? n : name_check(name, buf, (size_t)n);
}
