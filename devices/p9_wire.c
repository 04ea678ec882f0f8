// SPDX-License-Identifier: Apache-2.0
/*
 * p9_wire.c - strings and qids of 9P messages.
 *
 * Strings come with their length and nothing else; here they become names and C strings, or are refused (hard cases E5,
 * E6). Pure: no thread, no call of the system.
 */
#include "p9_wire.h"
#include <dirent.h>

uint16_t p9_get_u16(struct cursor *c)
{
	le16 v;

	cursor_get(c, &v, sizeof(v));
	return le16_get(v);
}

uint32_t p9_get_u32(struct cursor *c)
{
	le32 v;

	cursor_get(c, &v, sizeof(v));
	return le32_get(v);
}

int p9_get_string(struct cursor *c, char *s, size_t room)
{
	const size_t n = p9_get_u16(c);

	if (n >= room) {
		cursor_skip(c, n);
		return c->err ? c->err : -ENAMETOOLONG;
	}
	cursor_get(c, s, n);
	if (c->err)
		return c->err;
	s[n] = '\0';
	return memchr(s, '\0', n) ? -EINVAL : 0;
}

int p9_get_name(struct cursor *c, struct name *name)
{
	char s[sizeof(name->s)];
	int r = p9_get_string(c, s, sizeof(s));

	return r ? r : name_check(name, s, strlen(s));
}

int p9_get_name_and(struct cursor *c, struct name *name, void *rest, size_t n)
{
	int r = p9_get_name(c, name);

	cursor_get(c, rest, n);
	return c->err ? c->err : r;
}

void p9_put_string(struct cursor *c, const char *s, size_t len)
{
	const le16 n = le16_of((uint16_t)len);

	cursor_put(c, &n, sizeof(n));
	cursor_put(c, s, len);
}

/*
 * What changes an object's content changes its ctime, whatever its mtime is set to: caches that compare versions see it.
 */
static uint32_t version_of(const struct statx *st)
{
	const uint64_t t = (uint64_t)st->stx_ctime.tv_sec * 1000000000 + st->stx_ctime.tv_nsec;

	return (uint32_t)(t ^ t >> 32);
}

struct p9_qid p9_qid_of(const struct statx *st)
{
	struct p9_qid qid = p9_qid_listed(st->stx_ino, (unsigned char)IFTODT(st->stx_mode));

	qid.version = le32_of(version_of(st));
	return qid;
}

struct p9_qid p9_qid_listed(uint64_t ino, unsigned char type)
{
	return (struct p9_qid){
		.type = type == DT_DIR   ? P9_QTDIR
			: type == DT_LNK ? P9_QTSYMLINK
					 : P9_QTFILE,
		.path = le64_of(ino),
	};
}
