// SPDX-License-Identifier: Apache-2.0
/*
 * p9_walk.c - from fid to fid by names, and what is done to a fid's own name.
 *
 * Each name is one checked component, looked up in a directory of the table. A walk that ends early tells how far it came
 * and makes no fid (hard case E7). ".." goes up no further than where its user attached. A fid remembers where it was found,
 * which is what Tremove and Trename work on: only if that still leads to the same object. On the thread that serves.
 * Protocol: walk(5), clunk(5), remove(5). Calls: share.h, p9_fid.c.
 */
#include "p9_int.h"
#include <fcntl.h>

static int device_right(struct p9 *p9, const struct statx *st)
{
	if (st->stx_dev_major == p9->root_major && st->stx_dev_minor == p9->root_minor)
		return 0;
	if (p9->cfg.multidevs == P9_FORBID)
		return -ENODEV;
	if (p9->cfg.multidevs == P9_WARN)
		log_once(&p9->said_devices, LOG_WARN,
			 "%s: there is more than one file system below the share; the numbers of "
			 "their files are made unique",
			 p9->name);
	return 0;
}

int p9_walk_step(struct p9 *p9, struct share_inode *top, struct share_inode *dir, const char *s,
		 size_t len, struct share_inode **out, struct statx *st)
{
	struct share_inode *inode = NULL;
	struct name name;
	int r;

	if (len == 2 && !memcmp(s, "..", 2)) {
		if (dir != top)
			return share_parent(dir, out, st);
		r = share_getattr(dir, NULL, st);
		if (!r)
			*out = share_get(dir);
		return r;
	}
	r = name_check(&name, s, len);
	if (!r)
		r = share_lookup(dir, &name, &inode, st);
	else if (r == -EINVAL)
		r = -ENOENT;
	if (r)
		return r;
	r = device_right(p9, st);
	if (r) {
		share_put(inode);
		return r;
	}
	*out = inode;
	return 0;
}

/* ---- walking ---- */

/* Where a walk stands. at and dir are references; dir is NULL at a top, and after "..". */
struct trail {
	struct share_inode *at, *dir;
	struct name name;
};

static void trail_put(struct trail *t)
{
	if (t->dir)
		share_put(t->dir);
	share_put(t->at);
}

static void trail_begin(struct trail *t, const struct p9_fid *fid)
{
	t->at = share_get(fid->inode);
	t->dir = NULL;
	if (!fid->place)
		return;
	t->dir = share_get(fid->place->dir);
	strcpy(t->name.s, fid->place->name);
}

static int trail_step(struct p9_call *c, struct trail *t)
{
	struct share_inode *next = NULL;
	struct p9_qid qid;
	struct statx st;
	int r = p9_get_string(&c->in, t->name.s, sizeof(t->name.s));

	if (!r)
		r = p9_walk_step(c->p9, c->fid->top, t->at, t->name.s, strlen(t->name.s), &next,
				 &st);
	if (r)
		return r;
	if (t->dir)
		share_put(t->dir);
	t->dir = t->at;
	t->at = next;
	if (!strcmp(t->name.s, ".."))
		share_put(take_ptr(&t->dir));
	qid = p9_qid_of(&st);
	cursor_put(&c->out, &qid, sizeof(qid));
	return 0;
}

/* The whole way was gone: newfid is there. */
static int trail_end(struct p9_call *c, uint32_t newfid, struct trail *t)
{
	const struct p9_found found = {.inode = share_get(t->at),
				       .top = c->fid->top,
				       .dir = t->dir,
				       .name = &t->name,
				       .uid = c->fid->uid};
	struct p9_fid *fid;

	return p9_fid_put_new(c->p9, newfid, newfid == c->fid->fid, &found, &fid);
}

/* Linux walks from open fids too; the new one is not open. A fid that is open stays what it is. */
int p9_walk(struct p9_call *c)
{
	struct cursor count;
	struct p9_twalk in;
	struct p9_rwalk o;
	struct trail t;
	unsigned n, gone = 0;
	int r = 0;

	cursor_get(&c->in, &in, sizeof(in));
	n = le16_get(in.nwname);
	if (n > P9_WALK_MAX || c->out.left < sizeof(o) + n * sizeof(struct p9_qid))
		return -EINVAL;
	if (le32_get(in.newfid) == c->fid->fid && c->fid->file)
		return -EBADF;
	count = c->out;
	cursor_skip(&c->out, sizeof(o));
	trail_begin(&t, c->fid);
	while (gone < n && !(r = trail_step(c, &t)))
		gone++;
	/* Names that are none are not half a walk. */
	if (!r)
		r = trail_end(c, le32_get(in.newfid), &t);
	else if (gone && !c->in.err)
		r = 0;
	trail_put(&t);
	o.nwqid = le16_of((uint16_t)gone);
	cursor_put(&count, &o, sizeof(o));
	return r;
}

/* ---- letting go ---- */

/* Also when what is told is an error. */
int p9_walk_clunk(struct p9_call *c)
{
	return p9_fid_clunk(c->p9, c->fid);
}

/* ---- the fid's own name ---- */

/* -ENOENT: it is not there any more, or another is. */
static int place_right(const struct p9_fid *fid, struct name *name)
{
	struct share_inode *inode;
	struct statx st;
	bool same;
	int r;

	if (!fid->place)
		return -EBUSY;
	strcpy(name->s, fid->place->name);
	r = share_lookup(fid->place->dir, name, &inode, &st);
	if (r)
		return r;
	same = inode == fid->inode;
	share_put(inode);
	return same ? 0 : -ENOENT;
}

static int remove_it(struct p9_fid *fid)
{
	struct name name;
	struct statx st;
	int r;

	if (fid->xattr)
		return -EBADF;
	r = place_right(fid, &name);
	if (!r)
		r = share_getattr(fid->inode, NULL, &st);
	if (r)
		return r;
	return share_unlink(fid->place->dir, &name, S_ISDIR(st.stx_mode) ? AT_REMOVEDIR : 0);
}

/* The fid is gone afterwards, whether the object is or not (E28). */
int p9_walk_remove(struct p9_call *c)
{
	int r = remove_it(c->fid), e = p9_fid_clunk(c->p9, c->fid);

	return r ? r : e;
}

/* Other fids of the object keep their old name, and are told -ENOENT if they try it. */
int p9_walk_rename(struct p9_call *c)
{
	struct name from, to;
	struct p9_trename in;
	struct p9_fid *dir;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	dir = p9_fid_find(c->p9, le32_get(in.dfid));
	r = p9_get_name(&c->in, &to);
	if (!r && (!dir || dir->xattr))
		r = -EBADF;
	if (!r)
		r = place_right(c->fid, &from);
	if (!r)
		r = share_rename(c->fid->place->dir, &from, dir->inode, &to, 0);
	return r ? r : p9_fid_move(c->fid, dir->inode, &to);
}
