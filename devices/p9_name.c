// SPDX-License-Identifier: Apache-2.0
/*
 * p9_name.c - what is made, linked, renamed and removed by name in a directory.
 *
 * Who makes something is the user who attached, with the group that the message says (hard case E24); the guest's kernel
 * has seen to his rights, umask and ACLs. On the thread that serves. Protocol: Tsymlink, Treadlink, Tmknod, Tmkdir, Tlink,
 * Trenameat, Tunlinkat. Calls: share.h, p9_wire.c.
 */
#include "p9_int.h"
#include <fcntl.h>
#include <sys/sysmacros.h>

/* Another fid that a message speaks of. Borrowed. */
static int other_fid(const struct p9_call *c, uint32_t number, struct p9_fid **out)
{
	struct p9_fid *fid = p9_fid_find(c->p9, number);

	if (!fid || fid->xattr)
		return -EBADF;
	*out = fid;
	return 0;
}

static struct cred maker(const struct p9_call *c, uint32_t gid)
{
	return (struct cred){.uid = c->fid->uid, .gid = gid};
}

/* The answer to what was made; its object is let go of: the guest walks to it. */
static int made(struct p9_call *c, struct share_inode *inode, const struct statx *st)
{
	const struct p9_rqid o = {p9_qid_of(st)};

	share_put(inode);
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/* ---- making ---- */

int p9_name_symlink(struct p9_call *c)
{
	struct share_inode *inode;
	struct p9_tsymlink in;
	struct name name;
	struct cred cred;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_name(&c->in, &name);
	if (!r)
		r = p9_get_string(&c->in, c->p9->scratch, sizeof(c->p9->scratch));
	if (!r && !*c->p9->scratch)
		r = -ENOENT; /* as Linux has it */
	cred = maker(c, p9_get_u32(&c->in));
	if (c->in.err || r)
		return r;
	r = share_symlink(c->fid->inode, &name, c->p9->scratch, &cred, &inode, &st);
	return r ? r : made(c, inode, &st);
}

int p9_name_readlink(struct p9_call *c)
{
	const ssize_t n = share_readlink(c->fid->inode, c->p9->scratch, sizeof(c->p9->scratch));

	if (n < 0)
		return (int)n;
	p9_put_string(&c->out, c->p9->scratch, (size_t)n);
	return 0;
}

int p9_name_mknod(struct p9_call *c)
{
	struct p9_tmknod_rest rest;
	struct share_inode *inode;
	struct p9_tmknod in;
	struct name name;
	struct cred cred;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_name_and(&c->in, &name, &rest, sizeof(rest));
	if (r)
		return r;
	cred = maker(c, le32_get(rest.gid));
	r = share_mknod(c->fid->inode, &name, le32_get(rest.mode),
			makedev(le32_get(rest.major), le32_get(rest.minor)), &cred, &inode, &st);
	return r ? r : made(c, inode, &st);
}

int p9_name_mkdir(struct p9_call *c)
{
	struct p9_tmkdir_rest rest;
	struct share_inode *inode;
	struct p9_tmkdir in;
	struct name name;
	struct cred cred;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_name_and(&c->in, &name, &rest, sizeof(rest));
	if (r)
		return r;
	cred = maker(c, le32_get(rest.gid));
	r = share_mkdir(c->fid->inode, &name, le32_get(rest.mode), &cred, &inode, &st);
	return r ? r : made(c, inode, &st);
}

/* ---- other names ---- */

int p9_name_link(struct p9_call *c)
{
	struct p9_fid *fid = NULL;
	struct p9_tlink in;
	struct name name;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_name(&c->in, &name);
	if (!r)
		r = other_fid(c, le32_get(in.fid), &fid);
	return r ? r : share_link(fid->inode, c->fid->inode, &name, NULL);
}

int p9_name_renameat(struct p9_call *c)
{
	struct p9_trenameat in;
	struct name from, to;
	struct p9_fid *dir;
	uint32_t newdir;
	int r, e;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_name(&c->in, &from);
	newdir = p9_get_u32(&c->in);
	e = p9_get_name(&c->in, &to);
	if (c->in.err || r || e)
		return r ? r : e;
	r = other_fid(c, newdir, &dir);
	return r ? r : share_rename(c->fid->inode, &from, dir->inode, &to, 0);
}

/* Also of a directory that is open: rm -r has it so (E11). */
int p9_name_unlinkat(struct p9_call *c)
{
	struct p9_tunlinkat in;
	struct name name;
	le32 flags;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_name_and(&c->in, &name, &flags, sizeof(flags));
	if (r)
		return r;
	if (le32_get(flags) & ~(uint32_t)P9_AT_REMOVEDIR)
		return -EINVAL;
	return share_unlink(c->fid->inode, &name, le32_get(flags) ? AT_REMOVEDIR : 0);
}
