// SPDX-License-Identifier: Apache-2.0
/*
 * p9.c - the 9P server: the table of message types and the dispatcher.
 *
 * Read the table types[] first: a row per type says how long its body is at least, how long the answer's, and what the fid
 * that the body begins with must be. The dispatcher copies and checks the header, finds the fid, and writes every answer's
 * header and every error. Everything gets an answer, which is never longer than what was agreed on. What is in flight is a
 * list: Tflush and Tversion wait for it (hard cases E2, E14, E15). Protocol: p9_wire.h. On the thread that serves. Calls:
 * cursor.h, p9_fid.c, the handlers.
 */
#include "p9_int.h"
#include "wire.h"
#include <assert.h>
#include <stdio.h>

/* ---- life ---- */

int p9_create(struct p9 **out, const char *name, struct share *share, const struct p9_config *cfg)
{
	struct p9 *p9 = calloc(1, sizeof(*p9));

	assert(cfg->msize_max >= P9_MSIZE_MIN);
	if (!p9)
		return -ENOMEM;
	snprintf(p9->name, sizeof(p9->name), "%s", name);
	p9->share = share;
	p9->cfg = *cfg;
	map_init(&p9->fids, sizeof(uint32_t));
	*out = p9;
	return 0;
}

void p9_destroy(struct p9 *p9)
{
	if (!p9)
		return;
	p9_fid_clunk_all(p9);
	map_fini(&p9->fids);
	free(p9);
}

void p9_counts(const struct p9 *p9, size_t *fids, size_t *inflight)
{
	*fids = p9->fids.used;
	*inflight = p9->ninflight;
}

/* ---- the table ---- */

enum {
	ANYTIME = 1, /* also before Tversion */
	/* The body begins with a fid that must be known. It may not be for an extended attribute, but for ANY. */
	FID = 2,
	ANY = 4,
	OPEN = 8,    /* and that must be open; with ANY: or for an attribute */
	CLOSED = 16, /* and must not be (E18) */
};

#define T(type) sizeof(struct p9_t##type)
#define R(type) sizeof(struct p9_r##type)
#define STRING  2 /* the shortest: its length */
#define ROW(f, b, r, fl)                                         \
	{                                                        \
		.fn = (f), .body = (b), .room = (r), .flags = fl \
	}

static const struct row {
	int (*fn)(struct p9_call *);
	uint16_t body,
		room; /* least bytes: of the request after its header, of a good answer after its */
	uint8_t flags;
} types[P9_TYPES] = {
	[P9_TSTATFS] = ROW(p9_attr_statfs, T(statfs), R(statfs), FID),
	[P9_TLOPEN] = ROW(p9_file_open, T(lopen), R(lopen), FID | CLOSED),
	[P9_TLCREATE] =
		ROW(p9_file_create, T(lcreate) + STRING + T(lcreate_rest), R(lopen), FID | CLOSED),
	[P9_TSYMLINK] = ROW(p9_name_symlink, T(symlink) + STRING + STRING + 4, R(qid), FID),
	[P9_TMKNOD] = ROW(p9_name_mknod, T(mknod) + STRING + T(mknod_rest), R(qid), FID),
	[P9_TRENAME] = ROW(p9_walk_rename, T(rename) + STRING, 0, FID),
	[P9_TREADLINK] = ROW(p9_name_readlink, T(readlink), R(readlink), FID),
	[P9_TGETATTR] = ROW(p9_attr_get, T(getattr), R(getattr), FID),
	[P9_TSETATTR] = ROW(p9_attr_set, T(setattr), 0, FID),
	[P9_TXATTRWALK] = ROW(p9_xattr_walk, T(xattrwalk) + STRING, R(xattrwalk), FID),
	[P9_TXATTRCREATE] = ROW(p9_xattr_create, T(xattrcreate) + STRING + T(xattrcreate_rest), 0,
				FID | CLOSED),
	[P9_TREADDIR] = ROW(p9_dir_read, T(read), R(read), FID | OPEN),
	[P9_TFSYNC] = ROW(p9_file_fsync, T(fsync), 0, FID | OPEN),
	[P9_TLOCK] = ROW(p9_lock_set, T(lock) + STRING, R(lock), FID | OPEN),
	[P9_TGETLOCK] = ROW(p9_lock_get, T(getlock) + STRING, R(getlock) + STRING, FID | OPEN),
	[P9_TLINK] = ROW(p9_name_link, T(link) + STRING, 0, FID),
	[P9_TMKDIR] = ROW(p9_name_mkdir, T(mkdir) + STRING + T(mkdir_rest), R(qid), FID),
	[P9_TRENAMEAT] = ROW(p9_name_renameat, T(renameat) + STRING + 4 + STRING, 0, FID),
	[P9_TUNLINKAT] = ROW(p9_name_unlinkat, T(unlinkat) + STRING + 4, 0, FID),
	[P9_TVERSION] =
		ROW(p9_session_version, T(version) + STRING, R(version) + STRING + 8, ANYTIME),
	[P9_TAUTH] = ROW(p9_session_auth, 0, 0, 0),
	[P9_TATTACH] = ROW(p9_session_attach, T(attach) + STRING + STRING + 4, R(attach), 0),
	[P9_TFLUSH] = ROW(p9_session_flush, T(flush), 0, ANYTIME),
	[P9_TWALK] = ROW(p9_walk, T(walk), R(walk), FID),
	[P9_TREAD] = ROW(p9_file_read, T(read), R(read), FID | OPEN | ANY),
	[P9_TWRITE] = ROW(p9_file_write, T(write), R(write), FID | OPEN | ANY),
	[P9_TCLUNK] = ROW(p9_walk_clunk, T(clunk), 0, FID | ANY),
	[P9_TREMOVE] = ROW(p9_walk_remove, T(clunk), 0, FID | ANY),
};

/* ---- dispatch ---- */

static int find_fid(struct p9_call *c, const struct row *row)
{
	struct p9_fid *fid;
	le32 number;

	cursor_peek(&c->in, &number, sizeof(number));
	fid = p9_fid_find(c->p9, le32_get(number));
	if (!fid || (fid->xattr && !(row->flags & ANY)))
		return -EBADF;
	if (row->flags & OPEN && !fid->file && !fid->xattr)
		return -EBADF;
	if (row->flags & CLOSED && fid->file)
		return -EBADF;
	c->fid = fid;
	return 0;
}

static int dispatch(struct p9_call *c)
{
	static const struct row unknown = {0};
	const struct row *row = c->req->type < P9_TYPES ? &types[c->req->type] : &unknown;
	int r;

	if (!row->fn)
		return -EOPNOTSUPP;
	/* Before anything is done that could then not be told. */
	if (c->in.left < row->body || c->out.left < row->room)
		return -EINVAL;
	if (!c->p9->msize && !(row->flags & ANYTIME))
		return -EIO; /* no session */
	r = row->flags & FID ? find_fid(c, row) : 0;
	return r ? r : row->fn(c);
}

/* ---- answers ---- */

void p9_answer(struct p9_req *req)
{
	const struct p9_rlerror e = {le32_of((uint32_t)-wire_error(req->error))};
	const uint32_t size = (uint32_t)P9_HEADER + (req->error ? (uint32_t)sizeof(e) : req->bytes);
	const struct p9_header h = {
		.size = le32_of(size),
		.type = req->error ? P9_RLERROR : req->type + 1,
		.tag = le16_of(req->tag),
	};
	struct cursor out = cursor_of(req->head, req->nhead);

	cursor_put(&out, &h, sizeof(h));
	if (req->error)
		cursor_put(&out, &e, sizeof(e));
	req->reply(req, size);
}

struct cursor p9_late_out(const struct p9_req *req)
{
	struct cursor out = cursor_of(req->head, req->nhead);

	cursor_skip(&out, P9_HEADER);
	return out;
}

/* ---- what is in flight ---- */

static void inflight_add(struct p9_req *req)
{
	struct p9 *p9 = req->p9;

	req->next = p9->inflight;
	req->link = &p9->inflight;
	if (req->next)
		req->next->link = &req->next;
	p9->inflight = req;
	p9->ninflight++;
}

static void inflight_del(struct p9_req *req)
{
	*req->link = req->next;
	if (req->next)
		req->next->link = req->link;
	req->p9->ninflight--;
}

int p9_pend(struct p9_call *c)
{
	c->req->fid = c->fid ? p9_fid_get(c->fid) : NULL;
	inflight_add(c->req);
	return P9_PENDING;
}

/* The longest message: what was agreed on, or will be at most. */
static uint32_t longest(const struct p9 *p9)
{
	return p9->msize ? p9->msize : p9->cfg.msize_max;
}

/* At the headers of message and answer. */
static struct p9_call call_of(struct p9 *p9, struct p9_req *req)
{
	return (struct p9_call){.p9 = p9,
				.req = req,
				.in = cursor_of(req->rd, req->nrd),
				.out = cursor_of(req->wr, req->nwr)};
}

/* To the body of the answer, no longer than any. */
static void skip_header(struct p9_call *c)
{
	cursor_skip(&c->out, P9_HEADER);
	cursor_trim(&c->out, longest(c->p9) - P9_HEADER);
}

/* What the handler said, or what has gone wrong that it did not see. */
static int result(const struct p9_call *c, int r)
{
	if (c->in.err)
		return -EINVAL;
	/* What has no fixed length may have found no room. */
	return !r && c->out.err ? -EMSGSIZE : r;
}

static void serve(struct p9_call *c, int (*fn)(struct p9_call *))
{
	const size_t room = c->out.left;
	const int r = fn(c);

	if (r == P9_PENDING)
		return;
	c->req->error = result(c, r);
	c->req->bytes = (uint32_t)(room - c->out.left) + c->direct;
	p9_answer(c->req);
}

/* The last of the old session is answered. */
static void serve_version(struct p9 *p9)
{
	struct p9_req *req = take_ptr(&p9->version);
	struct p9_call c = call_of(p9, req);

	cursor_skip(&c.in, P9_HEADER);
	cursor_trim(&c.in, req->bytes);
	skip_header(&c);
	serve(&c, p9_session_begin);
}

/* An answer frees its tag, so it is in no list by then. Those who flushed it come after it, and those who flushed them. */
void p9_finish(struct p9_req *req, int error, uint32_t bytes)
{
	struct p9 *p9 = req->p9;
	struct p9_req *todo = req;

	req->error = error;
	req->bytes = bytes;
	while (todo) {
		struct p9_req *done = todo, **end = &done->flushes;

		while (*end)
			end = &(*end)->flush_next;
		*end = done->flush_next;
		todo = done->flushes;
		inflight_del(done);
		if (done->fid)
			p9_fid_put(p9, done->fid);
		p9_answer(done);
	}
	if (p9->version && !p9->inflight)
		serve_version(p9);
}

/* Cuts the body to what the message says it is long: from header to what was agreed on. */
static bool size_right(struct p9_call *c, uint32_t size)
{
	if (size < P9_HEADER || size > longest(c->p9) || size - P9_HEADER > c->in.left)
		return false;
	cursor_trim(&c->in, size - P9_HEADER);
	return true;
}

int p9_serve(struct p9 *p9, struct p9_req *req)
{
	struct p9_call c = call_of(p9, req);
	struct cursor head = c.out;
	struct p9_header h;
	int n;

	/* Headers may lie in any number of pieces, or share one with what follows (A10, E4). */
	cursor_get(&c.in, &h, sizeof(h));
	n = cursor_iov(&head, P9_SHORT, req->head, ARRAY_LEN(req->head));
	if (c.in.err || n < 0)
		return -EPROTO;
	skip_header(&c);
	req->nhead = (unsigned)n;
	req->p9 = p9;
	req->type = h.type;
	req->tag = le16_get(h.tag);
	req->fid = NULL;
	req->flushes = req->flush_next = NULL;
	/* A size that lies: what is behind the message in the buffer is not part of it. */
	if (!size_right(&c, le32_get(h.size))) {
		req->error = -EINVAL;
		p9_answer(req);
		return 0;
	}
	serve(&c, dispatch);
	return 0;
}

void p9_reset(struct p9 *p9)
{
	p9_session_end(p9);
}
