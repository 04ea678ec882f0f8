// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_name.c - objects and their names: lookup and forget, attributes, creating, linking,
 * renaming, removing.
 *
 * Each reply that tells the guest of an object counts one lookup (hard case D9); the dispatcher has
 * seen before that the reply has room, so nothing is made or counted that cannot be told. A node
 * that is not known is ESTALE: the guest then looks the name up again, where ENOENT would be final
 * (D53). Calls: share.h, wire.h, fuse_node.c. Protocol: linux/fuse.h.
 */
#include "fuse_int.h"
#include "wire.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/sysmacros.h>

#define NSEC_PER_SEC 1000000000u

/* ---- Linux attributes as FUSE's ---- */

/* The kernel's 32-bit form of a device number: low 8 bits of the minor, major, rest of the minor. */
static uint32_t wire_rdev(uint32_t major_nr, uint32_t minor_nr)
{
	return (minor_nr & 0xff) | major_nr << 8 | (minor_nr & ~0xffu) << 12;
}

static dev_t host_rdev(uint32_t rdev)
{
	return makedev(rdev >> 8 & 0xfff, (rdev & 0xff) | (rdev >> 12 & 0xfff00));
}

static void attr_fill(struct fuse_attr *a, const struct statx *st)
{
	*a = (struct fuse_attr){
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
		.rdev = wire_rdev(st->stx_rdev_major, st->stx_rdev_minor),
		.blksize = st->stx_blksize,
	};
}

static void ttl_split(uint32_t ms, uint64_t *sec, uint32_t *nsec)
{
	*sec = ms / 1000;
	*nsec = ms % 1000 * 1000000;
}

static void attr_put(struct fuse_call *c, const struct statx *st)
{
	struct fuse_attr_out o = {0};

	ttl_split(c->f->cfg.attr_ttl_ms, &o.attr_valid, &o.attr_valid_nsec);
	attr_fill(&o.attr, st);
	cursor_put(&c->out, &o, sizeof(o));
}

int fuse_entry_fill(struct fuse *f, struct share_inode *inode, const struct statx *st,
		    struct fuse_entry_out *e)
{
	*e = (struct fuse_entry_out){0};
	ttl_split(f->cfg.entry_ttl_ms, &e->entry_valid, &e->entry_valid_nsec);
	ttl_split(f->cfg.attr_ttl_ms, &e->attr_valid, &e->attr_valid_nsec);
	attr_fill(&e->attr, st);
	return fuse_node_enter(f, inode, &e->nodeid);
}

/* Takes the reference over. */
static int entry_put(struct fuse_call *c, struct share_inode *inode, const struct statx *st)
{
	struct fuse_entry_out e;
	int r = fuse_entry_fill(c->f, inode, st, &e);

	if (r)
		return r;
	cursor_put(&c->out, &e, sizeof(e));
	return 0;
}

/* ---- lookup and forget ---- */

/* Node id 0 with a time: the guest may remember that there is nothing (D11). */
static void negative_put(struct fuse_call *c)
{
	struct fuse_entry_out none = {0};

	ttl_split(c->f->cfg.negative_ttl_ms, &none.entry_valid, &none.entry_valid_nsec);
	cursor_put(&c->out, &none, sizeof(none));
}

int fuse_name_lookup(struct fuse_call *c)
{
	struct share_inode *inode = NULL;
	struct name name;
	struct statx st;
	int r = wire_name(&c->in, &name);

	if (!r)
		r = share_lookup(c->inode, &name, &inode, &st);
	if (!r)
		return entry_put(c, inode, &st);
	if (r != -ENOENT || !c->f->cfg.negative_ttl_ms)
		return r;
	negative_put(c);
	return 0;
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

/* ---- attributes ---- */

/* The file of a handle that the request names only if it says so. -EBADF. */
static int file_named(struct fuse_call *c, bool named, uint64_t fh, struct share_file **file)
{
	struct fuse_handle *h;

	if (!named)
		return 0;
	h = fuse_handle_find(c, fh);
	if (!h)
		return -EBADF;
	*file = h->file;
	return 0;
}

int fuse_name_getattr(struct fuse_call *c)
{
	struct share_file *file = NULL;
	struct fuse_getattr_in in;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = file_named(c, in.getattr_flags & FUSE_GETATTR_FH, in.fh, &file);
	if (!r)
		r = share_getattr(c->inode, file, &st);
	if (r)
		return r;
	attr_put(c, &st);
	return 0;
}

/* Out of range are also the values that would mean "now" and "leave it" to the host. */
static int wire_time(bool set, bool now, uint64_t sec, uint32_t nsec, struct timespec *t)
{
	if (set && !now && nsec >= NSEC_PER_SEC)
		return -EINVAL;
	*t = (struct timespec){.tv_sec = (time_t)sec, .tv_nsec = now ? UTIME_NOW : (long)nsec};
	return 0;
}

static int wire_attr(const struct fuse_setattr_in *in, struct share_attr *attr)
{
	static const struct {
		uint32_t fuse;
		unsigned share;
	} bits[] = {
		{FATTR_MODE, SHARE_MODE}, {FATTR_UID, SHARE_UID},     {FATTR_GID, SHARE_GID},
		{FATTR_SIZE, SHARE_SIZE}, {FATTR_ATIME, SHARE_ATIME}, {FATTR_MTIME, SHARE_MTIME},
	};
	int r;

	*attr = (struct share_attr){
		.mode = in->mode, .uid = in->uid, .gid = in->gid, .size = in->size};
	for (unsigned i = 0; i < ARRAY_LEN(bits); i++)
		if (in->valid & bits[i].fuse)
			attr->mask |= bits[i].share;
	r = wire_time(in->valid & FATTR_ATIME, in->valid & FATTR_ATIME_NOW, in->atime,
		      in->atimensec, &attr->atime);
	return r ? r
		 : wire_time(in->valid & FATTR_MTIME, in->valid & FATTR_MTIME_NOW, in->mtime,
			     in->mtimensec, &attr->mtime);
}

int fuse_name_setattr(struct fuse_call *c)
{
	struct share_file *file = NULL;
	struct fuse_setattr_in in;
	struct share_attr attr;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_attr(&in, &attr);
	if (!r)
		r = file_named(c, in.valid & FATTR_FH, in.fh, &file);
	if (!r)
		r = share_setattr(c->inode, file, &attr, &st);
	if (r)
		return r;
	attr_put(c, &st);
	return 0;
}

int fuse_name_statfs(struct fuse_call *c)
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

/* ---- symbolic links: their target is data ---- */

int fuse_name_readlink(struct fuse_call *c)
{
	char target[PATH_MAX];
	ssize_t n = share_readlink(c->inode, target, sizeof(target));

	if (n < 0)
		return (int)n;
	cursor_put(&c->out, target, (size_t)n);
	return 0;
}

int fuse_name_symlink(struct fuse_call *c)
{
	struct share_inode *inode = NULL;
	char target[PATH_MAX];
	struct name name;
	struct statx st;
	int r = wire_name(&c->in, &name);

	if (!r)
		r = wire_cstr(&c->in, target, sizeof(target));
	if (r < 0)
		return r;
	if (!r)
		return -ENOENT; /* as Linux says of an empty target */
	r = share_symlink(c->inode, &name, target, &c->cred, &inode, &st);
	return r ? r : entry_put(c, inode, &st);
}

/* ---- creating ---- */

int fuse_name_mknod(struct fuse_call *c)
{
	struct share_inode *inode = NULL;
	struct fuse_mknod_in in;
	struct name name;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_name(&c->in, &name);
	if (!r)
		r = share_mknod(c->inode, &name, in.mode, host_rdev(in.rdev), &c->cred, &inode,
				&st);
	return r ? r : entry_put(c, inode, &st);
}

int fuse_name_mkdir(struct fuse_call *c)
{
	struct share_inode *inode = NULL;
	struct fuse_mkdir_in in;
	struct name name;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_name(&c->in, &name);
	if (!r)
		r = share_mkdir(c->inode, &name, in.mode, &c->cred, &inode, &st);
	return r ? r : entry_put(c, inode, &st);
}

int fuse_name_link(struct fuse_call *c)
{
	struct fuse_link_in in;
	struct fuse_node *from;
	struct name name;
	struct statx st;
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
	struct name name;
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
	struct name from, name;
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
