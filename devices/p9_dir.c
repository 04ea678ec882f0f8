// SPDX-License-Identifier: Apache-2.0
/*
 * p9_dir.c - listing directories.
 *
 * Offsets are the share's cookies, passed through: the guest keeps what it likes of an answer and goes on anywhere (hard
 * case E16). Only whole entries are given; that not even the first one has room is an error, as an empty answer says that
 * the directory ends here. On the thread that serves. Protocol: Treaddir. Calls: share.h.
 */
#include "p9_int.h"

struct listing {
	struct cursor out; /* what the guest asked for and has room for */
	bool some, full;
};

static enum share_put list_entry(void *ctx, const struct share_dirent *d)
{
	struct listing *l = ctx;
	const struct p9_dirent e = {
		.qid = p9_qid_listed(d->ino, d->type), .offset = le64_of(d->next), .type = d->type};

	if (sizeof(e) + sizeof(le16) + d->len > l->out.left) {
		l->full = true;
		return SHARE_NO_ROOM;
	}
	l->some = true;
	cursor_put(&l->out, &e, sizeof(e));
	p9_put_string(&l->out, d->name, d->len);
	return SHARE_PUT;
}

int p9_dir_read(struct p9_call *c)
{
	struct listing l = {0};
	struct p9_rread o;
	struct p9_tread in;
	struct cursor body;
	size_t room;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	body = c->out;
	cursor_skip(&body, sizeof(o));
	room = MIN((size_t)le32_get(in.count), body.left);
	l.out = cursor_split(&body, room);
	r = share_readdir(c->fid->file, le64_get(in.offset), list_entry, &l);
	if (!r && l.full && !l.some)
		r = -EINVAL;
	if (r)
		return r;
	o.count = le32_of((uint32_t)(room - l.out.left));
	cursor_put(&c->out, &o, sizeof(o));
	cursor_skip(&c->out, room - l.out.left);
	return 0;
}
