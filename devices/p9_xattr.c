// SPDX-License-Identifier: Apache-2.0
/*
 * p9_xattr.c - extended attributes, which 9P reads and writes like files.
 *
 * Txattrwalk makes a fid that has the value, taken in one piece, to be read; without a name, the list. Txattrcreate makes
 * an unopened fid one whose value is being written; it is set when the fid is let go of, whose result is that of setting
 * it (hard case E20). How many there are at a time is bounded, as values are held in memory. On the thread that serves.
 * Calls: share.h, p9_fid.c.
 */
#include "p9_int.h"
#include <linux/limits.h>
#include <linux/xattr.h>

#define XATTRS_MAX 512
#define ACL_PREFIX "system.posix_acl_"

/* size bytes of value, zeroed. */
static int xattr_new(struct p9 *p9, struct p9_fid *fid, size_t size)
{
	struct p9_xattr *x;

	if (p9->nxattrs == XATTRS_MAX)
		return -ENFILE;
	x = calloc(1, sizeof(*x) + size);
	if (!x)
		return -ENOMEM;
	x->size = size;
	fid->xattr = x;
	p9->nxattrs++;
	return 0;
}

/* ---- reading ---- */

/* At most size bytes; 0: how many there are. */
static ssize_t get(struct share_inode *inode, const char *name, void *value, size_t size)
{
	return *name ? share_getxattr(inode, name, value, size)
		     : share_listxattr(inode, value, size);
}

/* In one piece, and for as long as it takes to be asked for its length and then for itself. */
static int xattr_load(struct p9 *p9, struct p9_fid *fid, const char *name)
{
	auto_free void *value = malloc(XATTR_SIZE_MAX);
	ssize_t n;
	int r;

	_Static_assert(XATTR_LIST_MAX <= XATTR_SIZE_MAX, "a list is no longer than a value");
	if (!value)
		return -ENOMEM;
	n = get(fid->inode, name, value, XATTR_SIZE_MAX);
	if (n < 0)
		return (int)n;
	r = xattr_new(p9, fid, (size_t)n);
	if (!r)
		memcpy(fid->xattr->value, value, (size_t)n);
	return r;
}

/* newfid may not be the fid itself: that stays what it is. */
int p9_xattr_walk(struct p9_call *c)
{
	const struct p9_found found = {
		.inode = c->fid->inode, .top = c->fid->top, .uid = c->fid->uid};
	char name[XATTR_NAME_MAX + 1];
	struct p9_txattrwalk in;
	struct p9_rxattrwalk o;
	struct p9_fid *fid;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_string(&c->in, name, sizeof(name));
	if (r)
		return r == -ENAMETOOLONG ? -ERANGE : r; /* as Linux says of such a name */
	share_get(found.inode);
	r = p9_fid_put_new(c->p9, le32_get(in.newfid), false, &found, &fid);
	if (r)
		return r;
	r = xattr_load(c->p9, fid, name);
	if (r) {
		p9_fid_clunk(c->p9, fid);
		return r;
	}
	o.size = le64_of(fid->xattr->size);
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

int p9_xattr_read(struct p9_call *c)
{
	const struct p9_xattr *x = c->fid->xattr;
	struct p9_tread in;
	struct p9_rread o;
	uint64_t off;
	size_t n;

	cursor_get(&c->in, &in, sizeof(in));
	if (x->writing)
		return -EBADF;
	off = MIN(le64_get(in.offset), (uint64_t)x->size);
	n = MIN((size_t)le32_get(in.count), x->size - (size_t)off);
	n = MIN(n, c->out.left - sizeof(o));
	o.count = le32_of((uint32_t)n);
	cursor_put(&c->out, &o, sizeof(o));
	cursor_put(&c->out, x->value + off, n);
	return 0;
}

/* ---- writing ---- */

int p9_xattr_create(struct p9_call *c)
{
	struct p9_txattrcreate_rest rest;
	char name[XATTR_NAME_MAX + 1];
	struct p9_txattrcreate in;
	uint32_t flags;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_string(&c->in, name, sizeof(name));
	cursor_get(&c->in, &rest, sizeof(rest));
	flags = le32_get(rest.flags);
	if (c->in.err)
		return r;
	if (r == -ENAMETOOLONG || (!r && !*name))
		return -ERANGE;
	if (le64_get(rest.size) > XATTR_SIZE_MAX)
		return -E2BIG;
	if (!r && flags & ~(uint32_t)(XATTR_CREATE | XATTR_REPLACE))
		r = -EINVAL;
	if (!r)
		r = xattr_new(c->p9, c->fid, (size_t)le64_get(rest.size));
	if (r)
		return r;
	c->fid->xattr->writing = true;
	c->fid->xattr->flags = (int)flags;
	memcpy(c->fid->xattr->name, name, strlen(name) + 1);
	return 0;
}

/* One piece after the other, and no more than was said. */
int p9_xattr_write(struct p9_call *c)
{
	struct p9_xattr *x = c->fid->xattr;
	struct p9_twrite in;
	struct p9_rwrite o;
	uint32_t n;

	cursor_get(&c->in, &in, sizeof(in));
	n = le32_get(in.count);
	if (!x->writing)
		return -EBADF;
	if (n > c->in.left || le64_get(in.offset) != x->done)
		return -EINVAL;
	if (n > x->size - x->done)
		return -ENOSPC;
	cursor_get(&c->in, x->value + x->done, n);
	x->done += n;
	o.count = le32_of(n);
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/*
 * No bytes at all and none announced: an access list is to go, which may not be there, as Linux asks for that where the
 * mode says as much.
 */
static int list_drop(struct p9_fid *fid, const char *name)
{
	int r = share_removexattr(fid->inode, name);

	return r == -ENODATA ? 0 : r;
}

/* The same of any other is asked for with XATTR_REPLACE; else it is there, and empty. */
int p9_xattr_set(struct p9_fid *fid)
{
	const struct p9_xattr *x = fid->xattr;

	if (x->done != x->size)
		return -EINVAL;
	if (!x->size && x->flags == XATTR_REPLACE)
		return share_removexattr(fid->inode, x->name);
	if (!x->size && !strncmp(x->name, ACL_PREFIX, strlen(ACL_PREFIX)))
		return list_drop(fid, x->name);
	return share_setxattr(fid->inode, x->name, x->value, x->size, x->flags, false);
}
