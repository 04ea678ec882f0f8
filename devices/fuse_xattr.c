// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_xattr.c - extended attributes.
 *
 * Where the share has none for the guest, ENOSYS says so once and for the whole mount; every other error is of one name
 * (hard case D42). A size of 0 asks for the length. Values and lists go through the session's scratch, as Linux takes
 * and gives them in one piece and the guest's buffers may be in any number. Under the session lock. Protocol:
 * linux/fuse.h. Calls: share.h, wire.h.
 */
#include "fuse_int.h"
#include "wire.h"

/* Lists are no longer than values. */
_Static_assert(XATTR_LIST_MAX <= XATTR_SIZE_MAX, "scratch holds a list");

/* -ENOSYS, or what is wrong with the name. */
static int get_name(struct fuse_call *c, char name[XATTR_NAME_MAX + 1])
{
	int n = wire_cstr(&c->in, name, XATTR_NAME_MAX + 1);

	if (n == -ENAMETOOLONG)
		return -ERANGE; /* as Linux says of such a name */
	if (n == 0)
		return -ERANGE;
	return MIN(n, 0);
}

/* The length, for one that has only asked for it, or what is in scratch. */
static int answer(struct fuse_call *c, uint32_t asked, ssize_t n)
{
	const struct fuse_getxattr_out o = {.size = (uint32_t)n};

	if (n < 0)
		return (int)n;
	if (!asked)
		cursor_put(&c->out, &o, sizeof(o));
	else if ((size_t)n > c->out.left)
		return -ERANGE;
	else
		cursor_put(&c->out, c->f->scratch, (size_t)n);
	return 0;
}

/* The struct is longer where that was agreed on. */
int fuse_xattr_set(struct fuse_call *c)
{
	struct fuse_setxattr_in in = {0};
	char name[XATTR_NAME_MAX + 1];
	int r;

	if (!c->f->mode->xattr)
		return -ENOSYS;
	cursor_get(&c->in, &in,
		   fuse_agreed(c->f, FUSE_SETXATTR_EXT) ? sizeof(in)
							: FUSE_COMPAT_SETXATTR_IN_SIZE);
	if (c->in.err)
		return -EINVAL;
	r = get_name(c, name);
	if (r)
		return r;
	if (in.size > XATTR_SIZE_MAX)
		return -E2BIG;
	if (in.size != c->in.left)
		return -EINVAL;
	cursor_get(&c->in, c->f->scratch, in.size);
	return share_setxattr(c->inode, name, c->f->scratch, in.size, (int)in.flags,
			      in.setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID);
}

int fuse_xattr_get(struct fuse_call *c)
{
	char name[XATTR_NAME_MAX + 1];
	struct fuse_getxattr_in in;
	int r;

	if (!c->f->mode->xattr)
		return -ENOSYS;
	cursor_get(&c->in, &in, sizeof(in));
	r = get_name(c, name);
	if (r)
		return r;
	return answer(c, in.size,
		      share_getxattr(c->inode, name, c->f->scratch,
				     MIN((size_t)in.size, sizeof(c->f->scratch))));
}

int fuse_xattr_list(struct fuse_call *c)
{
	struct fuse_getxattr_in in;

	if (!c->f->mode->xattr)
		return -ENOSYS;
	cursor_get(&c->in, &in, sizeof(in));
	return answer(c, in.size,
		      share_listxattr(c->inode, (char *)c->f->scratch,
				      MIN((size_t)in.size, sizeof(c->f->scratch))));
}

int fuse_xattr_remove(struct fuse_call *c)
{
	char name[XATTR_NAME_MAX + 1];
	int r;

	if (!c->f->mode->xattr)
		return -ENOSYS;
	r = get_name(c, name);
	return r ? r : share_removexattr(c->inode, name);
}
