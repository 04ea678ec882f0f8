// SPDX-License-Identifier: Apache-2.0
/*
 * p9_attr.c - what an object is, and the file system's figures, as 9P has them.
 *
 * Asked of the open file where there is one, so that what has lost its name still answers (hard case E10). Only what is
 * known is said to be valid (E23). On the thread that serves. Protocol: Tgetattr, Tsetattr, Tstatfs. Calls: share.h.
 */
#include "p9_int.h"
#include <sys/vfs.h>

#define V9FS_MAGIC 0x01021997 /* linux/magic.h */

/* ---- asking ---- */

static uint64_t nsec_of(struct statx_timestamp t)
{
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* An object that gets another's number was born later; so does what stands for its generation differ. */
static void getattr_fill(const struct statx *st, struct p9_rgetattr *o)
{
	const bool born = st->stx_mask & STATX_BTIME;

	*o = (struct p9_rgetattr){
		.valid = le64_of(P9_GETATTR_BASIC | P9_GETATTR_DATA_VERSION |
				 (born ? P9_GETATTR_BTIME | P9_GETATTR_GEN : 0)),
		.qid = p9_qid_of(st),
		.mode = le32_of(st->stx_mode),
		.uid = le32_of(st->stx_uid),
		.gid = le32_of(st->stx_gid),
		.nlink = le64_of(st->stx_nlink),
		.rdev = le64_of(share_rdev(st)),
		.size = le64_of(st->stx_size),
		.blksize = le64_of(st->stx_blksize),
		.blocks = le64_of(st->stx_blocks),
		.atime_sec = le64_of((uint64_t)st->stx_atime.tv_sec),
		.atime_nsec = le64_of(st->stx_atime.tv_nsec),
		.mtime_sec = le64_of((uint64_t)st->stx_mtime.tv_sec),
		.mtime_nsec = le64_of(st->stx_mtime.tv_nsec),
		.ctime_sec = le64_of((uint64_t)st->stx_ctime.tv_sec),
		.ctime_nsec = le64_of(st->stx_ctime.tv_nsec),
		.data_version = le64_of(nsec_of(st->stx_ctime)),
	};
	if (!born)
		return;
	o->btime_sec = le64_of((uint64_t)st->stx_btime.tv_sec);
	o->btime_nsec = le64_of(st->stx_btime.tv_nsec);
	o->gen = le64_of(nsec_of(st->stx_btime) & UINT32_MAX);
}

/* All that there is, whatever the mask: nothing costs more. */
int p9_attr_get(struct p9_call *c)
{
	struct p9_rgetattr o;
	struct statx st;
	int r = share_getattr(c->fid->inode, c->fid->file, &st);

	if (r)
		return r;
	getattr_fill(&st, &o);
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/* ---- setting ---- */

/*
 * A size is set through a file that is open for writing, so that nobody asks again who may (E23). ctime is the host's, and
 * now after any change: alone it asks for nothing else. */
static int wire_attr(const struct p9_tsetattr *in, struct share_attr *attr)
{
	static const struct {
		uint32_t p9;
		unsigned share;
	} bits[] = {
		{P9_SETATTR_MODE, SHARE_MODE},   {P9_SETATTR_UID, SHARE_UID},
		{P9_SETATTR_GID, SHARE_GID},     {P9_SETATTR_SIZE, SHARE_SIZE},
		{P9_SETATTR_ATIME, SHARE_ATIME}, {P9_SETATTR_MTIME, SHARE_MTIME},
	};
	const uint32_t valid = le32_get(in->valid);
	int r = 0;

	*attr = (struct share_attr){.mode = le32_get(in->mode),
				    .uid = le32_get(in->uid),
				    .gid = le32_get(in->gid),
				    .size = le64_get(in->size)};
	for (unsigned i = 0; i < ARRAY_LEN(bits); i++)
		if (valid & bits[i].p9)
			attr->mask |= bits[i].share;
	if (attr->mask & SHARE_ATIME)
		r = share_time(!(valid & P9_SETATTR_ATIME_SET), le64_get(in->atime_sec),
			       le64_get(in->atime_nsec), &attr->atime);
	if (!r && attr->mask & SHARE_MTIME)
		r = share_time(!(valid & P9_SETATTR_MTIME_SET), le64_get(in->mtime_sec),
			       le64_get(in->mtime_nsec), &attr->mtime);
	return r;
}

int p9_attr_set(struct p9_call *c)
{
	struct p9_tsetattr in;
	struct share_attr attr;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_attr(&in, &attr);
	if (r)
		return r;
	return share_setattr(c->fid->inode, c->fid->writes ? c->fid->file : NULL, &attr, NULL);
}

/* ---- the file system ---- */

int p9_attr_statfs(struct p9_call *c)
{
	struct p9_rstatfs o;
	struct statfs s;
	uint64_t id;
	int r = share_statfs(c->fid->inode, &s);

	if (r)
		return r;
	memcpy(&id, &s.f_fsid, sizeof(id));
	o = (struct p9_rstatfs){.type = le32_of(V9FS_MAGIC),
				.bsize = le32_of((uint32_t)s.f_bsize),
				.blocks = le64_of(s.f_blocks),
				.bfree = le64_of(s.f_bfree),
				.bavail = le64_of(s.f_bavail),
				.files = le64_of(s.f_files),
				.ffree = le64_of(s.f_ffree),
				.fsid = le64_of(id),
				.namelen = le32_of((uint32_t)s.f_namelen)};
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}
