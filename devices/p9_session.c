// SPDX-License-Identifier: Apache-2.0
/*
 * p9_session.c - how a guest begins: Tversion and Tattach; and how it changes its mind: Tflush.
 *
 * Tversion ends whatever was before, and is answered when nothing of that is in flight any more, so that the next
 * session's tags are its own (hard case E2). Every user of the guest attaches by himself, and may begin below the root.
 * A flush is answered after what it flushes, and never waits for what is not there (E14). On the thread that serves.
 * Protocol: version(5), attach(5), flush(5). Calls: share.h, p9_fid.c, p9_walk.c, p9_lock.c.
 */
#include "p9_int.h"
#include <linux/limits.h>

static const char dialect[] = "9P2000.L";

/* ---- version ---- */

void p9_session_end(struct p9 *p9)
{
	p9->msize = 0;
	if (p9->version) {
		p9->version->error = -EIO;
		p9_answer(take_ptr(&p9->version));
	}
	if (share_config(p9->share)->locks == SHARE_LOCKS_HOST)
		share_unlock_all(p9->share);
	p9_fid_clunk_all(p9);
}

int p9_session_begin(struct p9_call *c)
{
	char version[sizeof(dialect)];
	struct p9_rversion o;
	struct p9_tversion in;
	bool known;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_string(&c->in, version, sizeof(version));
	if (c->in.err)
		return r;
	if (le32_get(in.msize) < P9_MSIZE_MIN)
		return -EMSGSIZE;
	o.msize = le32_of(MIN(le32_get(in.msize), c->p9->cfg.msize_max));
	/* What comes after a dot is a dialect; this one has no other to fall back to. */
	known = !r && !strcmp(version, dialect);
	cursor_put(&c->out, &o, sizeof(o));
	p9_put_string(&c->out, known ? dialect : "unknown", strlen(known ? dialect : "unknown"));
	if (known)
		c->p9->msize = le32_get(o.msize);
	return 0;
}

int p9_session_version(struct p9_call *c)
{
	p9_session_end(c->p9);
	if (!c->p9->inflight)
		return p9_session_begin(c);
	c->req->bytes = (uint32_t)c->in.left;
	c->p9->version = c->req;
	return P9_PENDING;
}

/* ---- attach ---- */

/* The transport is the guest's own. */
int p9_session_auth(struct p9_call *c)
{
	(void)c;
	return -EOPNOTSUPP;
}

/* The directory that a path leads to, from the root on. */
static int path_walk(struct p9 *p9, const char *path, struct share_inode **out, struct statx *st)
{
	struct share_inode *at = share_root(p9->share), *next;
	int r = share_getattr(at, NULL, st);

	if (!r) {
		p9->root_major = st->stx_dev_major;
		p9->root_minor = st->stx_dev_minor;
	}
	while (!r) {
		const size_t n = strcspn(path += strspn(path, "/"), "/");

		if (!n)
			break;
		r = p9_walk_step(p9, at, at, path, n, &next, st);
		if (r)
			break;
		share_put(at);
		at = next;
		path += n;
	}
	if (!r && !S_ISDIR(st->stx_mode))
		r = -ENOTDIR;
	if (r) {
		share_put(at);
		return r;
	}
	*out = at;
	return 0;
}

/* aname in place; uname is for servers that know users by name. */
static int attach_strings(struct p9_call *c, char path[PATH_MAX], uid_t *uid)
{
	int r;

	cursor_skip(&c->in, p9_get_u16(&c->in));
	r = p9_get_string(&c->in, path, PATH_MAX);
	*uid = p9_get_u32(&c->in);
	/* Who is nobody by number is so by right. */
	if (*uid == P9_NONUNAME)
		*uid = 65534;
	return c->in.err ? c->in.err : r;
}

int p9_session_attach(struct p9_call *c)
{
	struct p9_found found = {0};
	struct p9_tattach in;
	struct p9_rattach o;
	struct p9_fid *fid;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = attach_strings(c, c->p9->scratch, &found.uid);
	if (!r && le32_get(in.afid) != P9_NOFID)
		r = -EINVAL;
	if (!r)
		r = path_walk(c->p9, c->p9->scratch, &found.inode, &st);
	if (r)
		return r;
	found.top = found.inode;
	r = p9_fid_put_new(c->p9, le32_get(in.fid), false, &found, &fid);
	if (r)
		return r;
	o.qid = p9_qid_of(&st);
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/* ---- flush ---- */

static struct p9_req *inflight_find(const struct p9 *p9, uint16_t tag)
{
	struct p9_req *req = p9->inflight;

	while (req && req->tag != tag)
		req = req->next;
	return req;
}

/* Tversion waits for what is in flight, which a flush of it would be: it is given up instead. */
static void flush_version(struct p9 *p9, uint16_t tag)
{
	if (!p9->version || p9->version->tag != tag)
		return;
	p9->version->error = -EINTR;
	p9_answer(take_ptr(&p9->version));
}

/*
 * What is not in flight is answered already, or never was: nothing to wait for. Of several flushes the first is answered
 * first, as the answer to one frees the tags of those before it. None is answered by an error, session or not.
 */
int p9_session_flush(struct p9_call *c)
{
	struct p9_req *victim, **end;
	struct p9_tflush in;

	cursor_get(&c->in, &in, sizeof(in));
	flush_version(c->p9, le16_get(in.oldtag));
	victim = inflight_find(c->p9, le16_get(in.oldtag));
	if (!victim)
		return 0;
	p9_lock_cancel(victim);
	for (end = &victim->flushes; *end; end = &(*end)->flush_next)
		;
	*end = c->req;
	return p9_pend(c);
}
