// SPDX-License-Identifier: Apache-2.0
/*
 * door_p9_attr.c - attributes of an object and extended ones, through a 9P session. See door_p9.h.
 */
#include "door_p9.h"
#include <linux/xattr.h>

/* ---- attributes as Linux has them ---- */

static struct statx_timestamp get_time(struct msg *m)
{
	struct statx_timestamp t = {.tv_sec = (int64_t)get8(m)};
	const uint64_t nsec = get8(m);

	sound(nsec < 1000000000);
	t.tv_nsec = (uint32_t)nsec;
	return t;
}

static void get_attr(struct msg *m, struct statx *st, uint64_t *gen)
{
	const uint64_t valid = get8(m);
	const struct qid qid = get_qid(m);
	uint64_t rdev;

	*st = (struct statx){.stx_mask = STATX_BASIC_STATS, .stx_ino = qid.path};
	st->stx_mode = (uint16_t)get4(m);
	st->stx_uid = get4(m);
	st->stx_gid = get4(m);
	st->stx_nlink = (uint32_t)get8(m);
	rdev = get8(m);
	st->stx_rdev_major = rdev >> 8 & 0xfff;
	st->stx_rdev_minor = (rdev & 0xff) | (rdev >> 12 & 0xfff00);
	st->stx_size = get8(m);
	st->stx_blksize = (uint32_t)get8(m);
	st->stx_blocks = get8(m);
	st->stx_atime = get_time(m);
	st->stx_mtime = get_time(m);
	st->stx_ctime = get_time(m);
	st->stx_btime = get_time(m);
	st->stx_mask |= valid & P9_GETATTR_BTIME ? STATX_BTIME : 0;
	*gen = get8(m);
	get8(m); /* data_version */
	sound((valid & P9_GETATTR_BASIC) == P9_GETATTR_BASIC && (int64_t)st->stx_size >= 0);
	sound(!(valid & ~0x3fffull) && rdev <= UINT32_MAX);
	sound((qid.type == P9_QTDIR) == S_ISDIR(st->stx_mode));
	sound((qid.type == P9_QTSYMLINK) == S_ISLNK(st->stx_mode));
}

int d9_ask_attr(uint32_t fid, struct statx *st, uint64_t *gen)
{
	struct msg *m = msg_new(P9_TGETATTR);
	int r;

	put4(m, fid);
	put8(m, P9_GETATTR_BASIC | P9_GETATTR_BTIME | P9_GETATTR_GEN);
	r = msg_call(m, 153, 0);
	if (!r)
		get_attr(m, st, gen);
	msg_end(m);
	return r;
}

int d9_getattr(struct fs_obj *o, struct fs_file *f, struct statx *st)
{
	uint64_t gen;

	return d9_ask_attr(f ? f->fid : o->fid, st, &gen);
}

static uint32_t valid_of(const struct share_attr *a)
{
	static const uint32_t valid[][2] = {
		{SHARE_MODE, P9_SETATTR_MODE},   {SHARE_UID, P9_SETATTR_UID},
		{SHARE_GID, P9_SETATTR_GID},     {SHARE_SIZE, P9_SETATTR_SIZE},
		{SHARE_ATIME, P9_SETATTR_ATIME}, {SHARE_MTIME, P9_SETATTR_MTIME},
	};
	uint32_t out = 0;

	for (unsigned i = 0; i < ARRAY_LEN(valid); i++)
		if (a->mask & valid[i][0])
			out |= valid[i][1];
	if (a->mask & SHARE_ATIME && a->atime.tv_nsec != UTIME_NOW)
		out |= P9_SETATTR_ATIME_SET;
	if (a->mask & SHARE_MTIME && a->mtime.tv_nsec != UTIME_NOW)
		out |= P9_SETATTR_MTIME_SET;
	return out;
}

static int d9_set_attr(uint32_t fid, const struct share_attr *a)
{
	struct msg *m = msg_new(P9_TSETATTR);

	put4(m, fid);
	put4(m, valid_of(a));
	put4(m, a->mode);
	put4(m, a->uid);
	put4(m, a->gid);
	put8(m, a->size);
	put8(m, (uint64_t)a->atime.tv_sec);
	put8(m, (uint64_t)a->atime.tv_nsec);
	put8(m, (uint64_t)a->mtime.tv_sec);
	put8(m, (uint64_t)a->mtime.tv_nsec);
	return msg_do(m);
}

/* What the kernel does before a truncation by one who may not keep them: capabilities go, and the mode is set without bits. */
static int kill_priv(struct fs_obj *o, struct share_attr *a)
{
	struct statx st;
	int r;

	if (d9_getxattr(o, XATTR_NAME_CAPS, NULL, 0) > 0) {
		r = d9_removexattr(o, XATTR_NAME_CAPS);
		if (r)
			return r;
	}
	r = d9_getattr(o, NULL, &st);
	if (r)
		return r;
	a->mask |= SHARE_MODE;
	a->mode = st.stx_mode & 07777 & ~(mode_t)S_ISUID;
	if (a->mode & S_IXGRP)
		a->mode &= ~(mode_t)S_ISGID;
	return 0;
}

int d9_setattr(struct fs_obj *o, struct fs_file *f, const struct share_attr *attr, struct statx *st)
{
	struct share_attr a = *attr;
	int r = a.mask & SHARE_KILL_PRIV ? kill_priv(o, &a) : 0;

	if (!r)
		r = d9_set_attr(f ? f->fid : o->fid, &a);
	return r ? r : d9_getattr(o, f, st);
}

int d9_statfs(struct fs_obj *o, struct statfs *st)
{
	struct msg *m = msg_new(P9_TSTATFS);
	int r;

	put4(m, o->fid);
	r = msg_call(m, 60, 0);
	if (!r) {
		*st = (struct statfs){.f_type = get4(m)};
		st->f_bsize = get4(m);
		st->f_blocks = get8(m);
		st->f_bfree = get8(m);
		st->f_bavail = get8(m);
		st->f_files = get8(m);
		st->f_ffree = get8(m);
		get8(m);
		st->f_namelen = get4(m);
		st->f_frsize = st->f_bsize; /* as statfs() has it where there is none */
	}
	msg_end(m);
	return r;
}

/* ---- extended attributes ---- */

/* A fid of a value, or of the list of names, and how long that is. */
static int xattr_open(const struct fs_obj *o, const char *name, uint32_t *fid, uint64_t *size)
{
	struct msg *m = msg_new(P9_TXATTRWALK);
	const uint32_t to = fid_new();
	int r;

	put4(m, o->fid);
	put4(m, to);
	put_string(m, name);
	r = msg_call(m, 8, 0);
	if (!r)
		*size = get8(m);
	msg_end(m);
	if (r)
		fid_free(to);
	else
		*fid = to;
	return r;
}

static ssize_t xattr_ask(const struct fs_obj *o, const char *name, void *buf, size_t n)
{
	uint32_t fid = P9_NOFID;
	uint64_t size = 0;
	ssize_t r = xattr_open(o, name, &fid, &size);

	if (r)
		return r;
	if (!n)
		r = (ssize_t)size;
	else if (size > n)
		r = -ERANGE;
	else if (size)
		r = d9_read_all(fid, buf, (size_t)size, 0);
	sound(r < 0 || (uint64_t)r == size);
	d9_let_go(fid);
	return r;
}

ssize_t d9_getxattr(struct fs_obj *o, const char *name, void *buf, size_t n)
{
	return xattr_ask(o, name, buf, n);
}

ssize_t d9_listxattr(struct fs_obj *o, char *buf, size_t n)
{
	return xattr_ask(o, "", buf, n);
}

/* Written to a clone, and set when that is let go of, which says what came of it. */
static int xattr_set(const struct fs_obj *o, const char *name, const void *value, size_t n,
		     int flags)
{
	struct msg *m;
	uint32_t fid;
	ssize_t r = d9_walk(o->fid, NULL, &fid, NULL);
	int set;

	if (r)
		return (int)r;
	m = msg_new(P9_TXATTRCREATE);
	put4(m, fid);
	put_string(m, name);
	put8(m, n);
	put4(m, (uint32_t)flags);
	r = msg_do(m);
	if (r) {
		d9_let_go(fid);
		return (int)r;
	}
	if (n)
		r = d9_write_all(fid, value, n, 0);
	sound(r == (ssize_t)n);
	set = d9_clunk(fid);
	return r < 0 ? (int)r : set;
}

/* A list is more than a mode: what chmod would take is taken before. */
int d9_setxattr(struct fs_obj *o, const char *name, const void *value, size_t n, int flags,
		bool kill_sgid)
{
	struct share_attr a = {.mask = SHARE_MODE};
	struct statx st;
	int r = 0;

	if (kill_sgid)
		r = d9_getattr(o, NULL, &st);
	if (!r && kill_sgid) {
		a.mode = st.stx_mode & 07777 & ~(mode_t)S_ISGID;
		r = d9_set_attr(o->fid, &a);
	}
	return r ? r : xattr_set(o, name, value, n, flags);
}

int d9_removexattr(struct fs_obj *o, const char *name)
{
	return xattr_set(o, name, NULL, 0, XATTR_REPLACE);
}
