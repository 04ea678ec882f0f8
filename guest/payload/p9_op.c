// SPDX-License-Identifier: Apache-2.0
/*
 * p9_op.c - the 9P client's single requests, whatever becomes of them. Spec: p9.h. Calls: p9.c.
 */
#include "p9.h"
#include "pattern.h"

#define PIECES   12
#define DATA_MAX (64u << 10)

static void put_name(const char *name)
{
	p9_name(0, name, (uint32_t)strlen(name));
}

static void begin(enum p9_type type, uint32_t fid)
{
	p9_begin(0, type);
	p9_u32(0, fid);
}

long p9_attach(uint32_t fid, const char *aname)
{
	begin(P9_TATTACH, fid);
	p9_u32(0, P9_NOFID);
	put_name("root");
	put_name(aname);
	p9_u32(0, 0);
	return p9_do();
}

long p9_try_walk(uint32_t from, uint32_t to, const char *name)
{
	begin(P9_TWALK, from);
	p9_u32(0, to);
	p9_u16(0, name ? 1 : 0);
	if (name)
		put_name(name);
	return p9_do();
}

long p9_try_open(uint32_t fid, uint32_t flags)
{
	begin(P9_TLOPEN, fid);
	p9_u32(0, flags);
	return p9_do();
}

long p9_try_clunk(uint32_t fid)
{
	begin(P9_TCLUNK, fid);
	return p9_do();
}

long p9_remove(uint32_t fid)
{
	begin(P9_TREMOVE, fid);
	return p9_do();
}

long p9_create(uint32_t fid, const char *name, uint32_t flags)
{
	begin(P9_TLCREATE, fid);
	put_name(name);
	p9_u32(0, flags | O_CREAT);
	p9_u32(0, S_IFREG | 0644);
	p9_u32(0, 0);
	return p9_do();
}

/* valid[8] qid[13] mode[4] uid[4] gid[4] nlink[8] rdev[8] size[8] ... */
long p9_getattr(uint32_t fid, struct p9_attr *a)
{
	long r;

	begin(P9_TGETATTR, fid);
	p9_u64(0, P9_ALL);
	r = p9_do();
	if (r >= 0)
		*a = (struct p9_attr){.path = p9_get64(8 + 5),
				      .mode = p9_get32(21),
				      .nlink = p9_get64(33),
				      .size = p9_get64(49)};
	return r;
}

long p9_setattr(uint32_t fid, uint32_t valid, uint32_t mode, uint64_t size)
{
	begin(P9_TSETATTR, fid);
	p9_u32(0, valid);
	p9_u32(0, mode);
	p9_u32(0, 0);
	p9_u32(0, 0);
	p9_u64(0, size);
	for (int i = 0; i < 4; i++)
		p9_u64(0, 0);
	return p9_do();
}

static uint32_t sum(const struct seg *s, uint32_t n)
{
	uint32_t all = 0;

	while (n--)
		all += s[n].len;
	return all;
}

long p9_read(enum p9_type type, uint32_t fid, uint64_t off, const struct seg *data, uint32_t n)
{
	long r;

	begin(type, fid);
	p9_u64(0, off);
	p9_u32(0, sum(data, n));
	r = p9_try(NULL, 0, data, n);
	if (r < 0)
		return r;
	return r == 4 + (long)p9_get32(0) ? (long)p9_get32(0) : -EPROTO;
}

long p9_write(uint32_t fid, uint64_t off, const struct seg *data, uint32_t n)
{
	long r;

	begin(P9_TWRITE, fid);
	p9_u64(0, off);
	p9_u32(0, sum(data, n));
	r = p9_try(data, n, NULL, 0);
	return r < 0 ? r : (long)p9_get32(0);
}

long p9_mkdir(uint32_t dir, const char *name)
{
	begin(P9_TMKDIR, dir);
	put_name(name);
	p9_u32(0, 0755);
	p9_u32(0, 0);
	return p9_do();
}

long p9_symlink(uint32_t dir, const char *name, const char *target)
{
	begin(P9_TSYMLINK, dir);
	put_name(name);
	put_name(target);
	p9_u32(0, 0);
	return p9_do();
}

long p9_link(uint32_t dir, uint32_t fid, const char *name)
{
	begin(P9_TLINK, dir);
	p9_u32(0, fid);
	put_name(name);
	return p9_do();
}

long p9_unlink(uint32_t dir, const char *name, uint32_t flags)
{
	begin(P9_TUNLINKAT, dir);
	put_name(name);
	p9_u32(0, flags);
	return p9_do();
}

long p9_rename(uint32_t dir, const char *from, const char *to)
{
	begin(P9_TRENAMEAT, dir);
	put_name(from);
	p9_u32(0, dir);
	put_name(to);
	return p9_do();
}

unsigned p9_transfer(uint32_t fid, uint32_t len, uint32_t seed, bool write)
{
	unsigned bad = 0;
	uint32_t n;

	vq_depth(p9_queue(), 1, 2 * P9_SEGS);
	for (uint32_t off = 0; off < len; off += n) {
		struct seg s[PIECES];
		uint32_t pieces;

		n = 1 + random_below(MIN(len - off, DATA_MAX));
		memset(pool, 0, n + 16 * PIECES);
		pieces = seg_scatter(s, pool, n, 1 + random_below(PIECES));
		if (write) {
			seg_fill(s, pieces, seed, off);
			bad += p9_write(fid, off, s, pieces) != n;
		} else {
			bad += p9_read(P9_TREAD, fid, off, s, pieces) != n ||
			       !seg_check(s, pieces, seed, off);
		}
	}
	return bad;
}
