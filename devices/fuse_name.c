// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_name.c - objects and their names: lookup and forget, creating, linking, renaming, removing.
 *
 * Each reply that tells the guest of an object counts one lookup (hard case D9); the dispatcher has seen before that the
 * reply has room, so nothing is made or counted that cannot be told. A node that is not known is ESTALE: the guest then
 * looks the name up again, where ENOENT would be final (D53). Under the session lock. Calls: share.h, wire.h,
 * fuse_node.c, fuse_attr.c, fuse_ext.c. Protocol: linux/fuse.h.
 */
#include "fuse_int.h"
#include "wire.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/sysmacros.h>

/* Takes the reference over. */
static int entry_put(struct fuse_call *c, struct share_inode *inode, const struct statx *st)
{
	uninit struct fuse_entry_out e;
	int r = fuse_entry_fill(c->f, inode, st, &e);

	if (r)
		return r;
	cursor_put(&c->out, &e, sizeof(e));
	return 0;
}

/* ---- lookup and forget ---- */

/* Node id 0 with a time: the guest may remember that there is nothing (D11). */
static int negative_put(struct fuse_call *c)
{
	const struct fuse_entry_out none = {.entry_valid = c->f->negative_ttl.sec,
					    .entry_valid_nsec = c->f->negative_ttl.nsec};

	if (!none.entry_valid && !none.entry_valid_nsec)
		return -ENOENT;
	cursor_put(&c->out, &none, sizeof(none));
	return 0;
}

int fuse_name_lookup(struct fuse_call *c)
{
	struct share_inode *inode = NULL;
	uninit struct name name;
	uninit struct statx st;
	int r = wire_name(&c->in, &name);

	if (r)
		return r;
	r = share_lookup(c->inode, &name, &inode, &st);
	if (r == -ENOENT)
		return negative_put(c);
	return r ? r : entry_put(c, inode, &st);
}

int fuse_name_forget(struct fuse_call *c)
{
	struct fuse_forget_in in;

	cursor_get(&c->in, &in, sizeof(in));
	fuse_node_forget(c->f, c->req->in.nodeid, in.nlookup);
	return 0;
}

int fuse_name_batch_forget(struct fuse_call *c)
{
	struct fuse_batch_forget_in in;
	struct fuse_forget_one one;

	cursor_get(&c->in, &in, sizeof(in));
	/* The message ends it, whatever the count says. */
	for (uint32_t i = 0; i < in.count && c->in.left >= sizeof(one); i++) {
		cursor_get(&c->in, &one, sizeof(one));
		fuse_node_forget(c->f, one.nodeid, one.nlookup);
	}
	return 0;
}

/* ---- symbolic links: their target is data ---- */

int fuse_name_readlink(struct fuse_call *c)
{
	ssize_t n = share_readlink(c->inode, (char *)c->f->scratch, PATH_MAX);

	if (n < 0)
		return (int)n;
	cursor_put(&c->out, c->f->scratch, (size_t)n);
	return 0;
}

int fuse_name_symlink(struct fuse_call *c)
{
	struct share_inode *inode = NULL;
	char target[PATH_MAX]; /* not the scratch, which may hold a label */
	uninit struct name name;
	uninit struct statx st;
	int r = wire_name(&c->in, &name);

	if (!r)
		r = wire_cstr(&c->in, target, sizeof(target));
	if (r < 0)
		return r;
	if (!r)
		return -ENOENT; /* as Linux says of an empty target */
	r = fuse_ext_cred(c, 0);
	if (!r)
		r = share_symlink(c->inode, &name, target, &c->cred, &inode, &st);
	return r ? r : entry_put(c, inode, &st);
}

/* ---- creating ---- */

static dev_t host_rdev(uint32_t rdev)
{
	return makedev(rdev >> 8 & 0xfff, (rdev & 0xff) | (rdev >> 12 & 0xfff00));
}

int fuse_name_mknod(struct fuse_call *c)
{
	struct share_inode *inode = NULL;
	struct fuse_mknod_in in;
	uninit struct name name;
	uninit struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_name(&c->in, &name);
	if (!r)
		r = fuse_ext_cred(c, in.umask);
	if (!r)
		r = share_mknod(c->inode, &name, in.mode, host_rdev(in.rdev), &c->cred, &inode,
				&st);
	return r ? r : entry_put(c, inode, &st);
}

int fuse_name_mkdir(struct fuse_call *c)
{
	struct share_inode *inode = NULL;
	struct fuse_mkdir_in in;
	uninit struct name name;
	uninit struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_name(&c->in, &name);
	if (!r)
		r = fuse_ext_cred(c, in.umask);
	if (!r)
		r = share_mkdir(c->inode, &name, in.mode, &c->cred, &inode, &st);
	return r ? r : entry_put(c, inode, &st);
}

int fuse_name_link(struct fuse_call *c)
{
	struct fuse_link_in in;
	struct fuse_node *from;
	uninit struct name name;
	uninit struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	from = fuse_node_find(c->f, in.oldnodeid);
	if (!from)
		return -ESTALE;
	r = wire_name(&c->in, &name);
	if (!r)
		r = share_link(from->inode, c->inode, &name, &st);
	return r ? r : entry_put(c, share_get(from->inode), &st);
}

/* ---- removing and renaming ---- */

static int unlink_flags(struct fuse_call *c, int flags)
{
	uninit struct name name;
	int r = wire_name(&c->in, &name);

	return r ? r : share_unlink(c->inode, &name, flags);
}

int fuse_name_unlink(struct fuse_call *c)
{
	return unlink_flags(c, 0);
}

int fuse_name_rmdir(struct fuse_call *c)
{
	return unlink_flags(c, AT_REMOVEDIR);
}

static int rename_to(struct fuse_call *c, uint64_t newdir, uint32_t flags)
{
	struct fuse_node *to = fuse_node_find(c->f, newdir);
	uninit struct name from, name;
	int r = wire_name(&c->in, &from);

	if (!r)
		r = wire_name(&c->in, &name);
	if (r)
		return r;
	return to ? share_rename(c->inode, &from, to->inode, &name, flags) : -ESTALE;
}

int fuse_name_rename(struct fuse_call *c)
{
	struct fuse_rename_in in;

	cursor_get(&c->in, &in, sizeof(in));
	return rename_to(c, in.newdir, 0);
}

int fuse_name_rename2(struct fuse_call *c)
{
	struct fuse_rename2_in in;

	cursor_get(&c->in, &in, sizeof(in));
	return rename_to(c, in.newdir, in.flags);
}
