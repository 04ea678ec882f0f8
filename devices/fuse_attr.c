// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_attr.c - what an object is: attributes as FUSE has them, entries, the file system's figures, flags by ioctl.
 *
 * Numbers are converted here and nowhere else. Under the session lock. Protocol: linux/fuse.h, GETATTR,
 * SETATTR, STATX, STATFS, IOCTL. Calls: share.h, fuse_node.c, fuse_handle.c.
 */
#include "fuse_int.h"

/* ---- Linux attributes as FUSE's ---- */

/* Mount points are told from what lies below them (D14), files to be mapped from those to be read. */
static uint32_t attr_flags(const struct fuse *f, const struct share_inode *inode,
			   const struct statx *st)
{
	if (S_ISDIR(st->stx_mode))
		return fuse_agreed(f, FUSE_SUBMOUNTS) && share_is_mount(inode, st)
			       ? FUSE_ATTR_SUBMOUNT
			       : 0;
	if (S_ISREG(st->stx_mode) && fuse_agreed(f, FUSE_HAS_INODE_DAX))
		return st->stx_size >= f->cfg.dax_min_size ? FUSE_ATTR_DAX : 0;
	return 0;
}

static struct fuse_attr attr_of(struct fuse *f, const struct share_inode *inode,
				const struct statx *st)
{
	const uint32_t flags = attr_flags(f, inode, st);

	fuse_dax_told(f, inode, st->stx_size);
	return (struct fuse_attr){
		.ino = st->stx_ino,
		.size = st->stx_size,
		.blocks = st->stx_blocks,
		.atime = (uint64_t)st->stx_atime.tv_sec,
		.mtime = (uint64_t)st->stx_mtime.tv_sec,
		.ctime = (uint64_t)st->stx_ctime.tv_sec,
		.atimensec = st->stx_atime.tv_nsec,
		.mtimensec = st->stx_mtime.tv_nsec,
		.ctimensec = st->stx_ctime.tv_nsec,
		.mode = st->stx_mode,
		.nlink = st->stx_nlink,
		.uid = st->stx_uid,
		.gid = st->stx_gid,
		.rdev = share_rdev(st),
		.blksize = st->stx_blksize,
		.flags = flags,
	};
}

static int attr_put(struct fuse_call *c, const struct statx *st)
{
	const struct fuse_attr attr = attr_of(c->f, c->inode, st);
	const struct fuse_attr_out o = {.attr_valid = c->f->attr_ttl.sec,
					.attr_valid_nsec = c->f->attr_ttl.nsec,
					.attr = attr};

	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

int fuse_entry_fill(struct fuse *f, struct share_inode *inode, const struct statx *st,
		    struct fuse_entry_out *e)
{
	struct fuse_attr attr;
	struct fuse_node *n;
	int r = fuse_node_enter(f, inode, &n);

	if (r)
		return r;
	attr = attr_of(f, inode, st);
	*e = (struct fuse_entry_out){
		.nodeid = n->id,
		.generation = 0, /* no id is used twice */
		.entry_valid = f->entry_ttl.sec,
		.attr_valid = f->attr_ttl.sec,
		.entry_valid_nsec = f->entry_ttl.nsec,
		.attr_valid_nsec = f->attr_ttl.nsec,
		.attr = attr,
	};
	return 0;
}

/* ---- asking ---- */

int fuse_attr_file(struct fuse_call *c, bool named, uint64_t fh, struct share_file **file)
{
	struct fuse_handle *h;

	if (!named)
		return 0;
	h = fuse_handle_find(c->f, fh, c->inode);
	if (h)
		*file = h->file;
	/* A guest that does not open names what it was not given: the object is as good. */
	return h || c->f->no_open || c->f->no_opendir ? 0 : -EBADF;
}

int fuse_attr_get(struct fuse_call *c)
{
	struct fuse_getattr_in in;
	struct share_file *file = NULL;
	uninit struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = fuse_attr_file(c, in.getattr_flags & FUSE_GETATTR_FH, in.fh, &file);
	if (!r)
		r = share_getattr(c->inode, file, &st);
	return r ? r : attr_put(c, &st);
}

static struct fuse_sx_time sx_time(struct statx_timestamp t)
{
	return (struct fuse_sx_time){.tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec};
}

/* All of the basic ones, whatever was asked: a guest takes less for an error (D71). */
static void statx_fill(const struct statx *st, struct fuse_statx *x)
{
	*x = (struct fuse_statx){
		.mask = STATX_BASIC_STATS | (st->stx_mask & STATX_BTIME),
		.blksize = st->stx_blksize,
		.attributes = st->stx_attributes,
		.attributes_mask = st->stx_attributes_mask,
		.nlink = st->stx_nlink,
		.uid = st->stx_uid,
		.gid = st->stx_gid,
		.mode = st->stx_mode,
		.ino = st->stx_ino,
		.size = st->stx_size,
		.blocks = st->stx_blocks,
		.atime = sx_time(st->stx_atime),
		.btime = sx_time(st->stx_btime),
		.ctime = sx_time(st->stx_ctime),
		.mtime = sx_time(st->stx_mtime),
		.rdev_major = st->stx_rdev_major,
		.rdev_minor = st->stx_rdev_minor,
	};
}

int fuse_attr_statx(struct fuse_call *c)
{
	struct fuse_statx_out o = {.attr_valid = c->f->attr_ttl.sec,
				   .attr_valid_nsec = c->f->attr_ttl.nsec};
	struct fuse_statx_in in;
	struct share_file *file = NULL;
	uninit struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = fuse_attr_file(c, in.getattr_flags & FUSE_GETATTR_FH, in.fh, &file);
	if (!r)
		r = share_getattr(c->inode, file, &st);
	if (r)
		return r;
	fuse_dax_told(c->f, c->inode, st.stx_size);
	statx_fill(&st, &o.stat);
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

int fuse_attr_statfs(struct fuse_call *c)
{
	struct fuse_statfs_out o = {0};
	struct statfs s;
	int r = share_statfs(c->inode, &s);

	if (r)
		return r;
	o.st = (struct fuse_kstatfs){.blocks = s.f_blocks,
				     .bfree = s.f_bfree,
				     .bavail = s.f_bavail,
				     .files = s.f_files,
				     .ffree = s.f_ffree,
				     .bsize = (uint32_t)s.f_bsize,
				     .namelen = (uint32_t)s.f_namelen,
				     .frsize = (uint32_t)s.f_frsize};
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/* ---- setting ---- */

/* ctime is the host's: a guest with a write-back cache sends the one it shows, which nobody can set. */
static int wire_attr(const struct fuse_setattr_in *in, struct share_attr *attr)
{
	static const struct {
		uint32_t fuse;
		unsigned share;
	} bits[] = {
		{FATTR_MODE, SHARE_MODE},
		{FATTR_UID, SHARE_UID},
		{FATTR_GID, SHARE_GID},
		{FATTR_SIZE, SHARE_SIZE},
		{FATTR_ATIME, SHARE_ATIME},
		{FATTR_MTIME, SHARE_MTIME},
		{FATTR_KILL_SUIDGID, SHARE_KILL_PRIV},
	};
	int r = 0;

	*attr = (struct share_attr){
		.mode = in->mode, .uid = in->uid, .gid = in->gid, .size = in->size};
	for (unsigned i = 0; i < ARRAY_LEN(bits); i++)
		if (in->valid & bits[i].fuse)
			attr->mask |= bits[i].share;
	if (attr->mask & SHARE_ATIME)
		r = share_time(in->valid & FATTR_ATIME_NOW, in->atime, in->atimensec, &attr->atime);
	if (!r && attr->mask & SHARE_MTIME)
		r = share_time(in->valid & FATTR_MTIME_NOW, in->mtime, in->mtimensec, &attr->mtime);
	return r;
}

int fuse_attr_set(struct fuse_call *c)
{
	struct fuse_setattr_in in;
	struct share_attr attr;
	struct share_file *file = NULL;
	uninit struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_attr(&in, &attr);
	if (!r)
		r = fuse_attr_file(c, in.valid & FATTR_FH, in.fh, &file);
	if (!r)
		r = share_setattr(c->inode, file, &attr, &st);
	return r ? r : attr_put(c, &st);
}

/* ---- flags of a file, by ioctl ---- */

/*
 * ENOSYS would break overlayfs above the share; ENOTTY is "no such control here" (D45), also for what is longer than
 * any that there is.
 */
int fuse_attr_ioctl(struct fuse_call *c)
{
	_Alignas(8) uint8_t arg[SHARE_IOCTL_MAX] = {0};
	struct fuse_ioctl_out o = {0};
	struct fuse_ioctl_in in;
	struct share_file *file = NULL;
	ssize_t n;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	if (in.in_size != c->in.left)
		return -EINVAL;
	if (in.in_size > sizeof(arg))
		return -ENOTTY;
	cursor_get(&c->in, arg, in.in_size);
	r = fuse_attr_file(c, true, in.fh, &file);
	if (r)
		return r;
	n = share_ioctl(c->inode, file, in.cmd, arg, in.in_size,
			MIN((size_t)in.out_size, c->out.left - sizeof(o)));
	if (n < 0)
		return (int)n;
	/* Flags count for what is opened from now on, which a file that is kept was not. */
	fuse_kept_drop(c->f, c->node);
	cursor_put(&c->out, &o, sizeof(o));
	cursor_put(&c->out, arg, (size_t)n);
	return 0;
}
