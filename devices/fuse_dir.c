// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_dir.c - directories: opening, listing, and listing with attributes.
 *
 * Offsets are the share's cookies, passed through: the guest keeps what it likes of a reply and goes on anywhere (hard
 * case D16). Room is checked before an entry is looked up, so that no lookup is counted that the guest never sees (D9).
 * Under the session lock. Calls: share.h, fuse_handle.c, fuse_attr.c. Protocol: linux/fuse.h, OPENDIR, READDIR,
 * READDIRPLUS.
 */
#include "fuse_int.h"
#include <fcntl.h>

struct listing {
	struct fuse_call *c;
	struct cursor out; /* what the guest asked for and has room for */
	bool plus;
	bool some, full;
	struct cursor at; /* of the last one given, if there is some */
	struct fuse_dirent last;
};

int fuse_dir_open(struct fuse_call *c)
{
	struct share_file *file = NULL;
	struct fuse_open_out o = {0};
	int r;

	if (c->f->no_opendir)
		return -ENOSYS;
	r = share_open_inode(c->inode, O_RDONLY | O_DIRECTORY, &file);
	if (!r)
		r = fuse_handle_open(c->f, file, &o.fh);
	if (r)
		return r;
	if (c->f->cfg.cache == FUSE_CACHE_ALWAYS)
		o.open_flags = FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR;
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/* ---- entries ---- */

static size_t dirent_size(const struct share_dirent *d)
{
	return FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + d->len);
}

static void dirent_put(struct listing *l, const struct share_dirent *d)
{
	static const char zeros[sizeof(uint64_t)];

	l->some = true;
	l->at = l->out;
	l->last = (struct fuse_dirent){
		.ino = d->ino, .off = d->next, .namelen = (uint32_t)d->len, .type = d->type};
	cursor_put(&l->out, &l->last, FUSE_NAME_OFFSET);
	cursor_put(&l->out, d->name, d->len);
	cursor_put(&l->out, zeros, dirent_size(d) - FUSE_NAME_OFFSET - d->len);
}

/*
 * The guest goes on behind an entry that is left out, not at its cookie: some file systems start
 * over at that of an entry that is gone.
 */
static void dirent_skip(struct listing *l, const struct share_dirent *d)
{
	struct cursor at = l->at;

	if (!l->some)
		return;
	l->last.off = d->next;
	cursor_put(&at, &l->last, FUSE_NAME_OFFSET);
}

static int plus_find(struct listing *l, const struct share_dirent *d, struct fuse_entry_out *e)
{
	struct share_inode *inode = NULL;
	uninit struct name name;
	uninit struct statx st;
	int r = name_check(&name, d->name, d->len);

	if (r)
		return r; /* "." and ".." are not looked up and not counted (D20) */
	r = share_glance(l->c->inode, &name, &inode, &st);
	return r ? r : fuse_entry_fill(l->c->f, inode, &st, e);
}

/* Gone since it was listed: false. Anything else that fails is listed without attributes (D19). */
static bool plus_entry(struct listing *l, const struct share_dirent *d, struct fuse_entry_out *e)
{
	int r = plus_find(l, d, e);

	if (r)
		*e = (struct fuse_entry_out){0};
	return r != -ENOENT;
}

static enum share_put list_entry(void *ctx, const struct share_dirent *d)
{
	struct listing *l = ctx;
	size_t size = dirent_size(d);
	uninit struct fuse_entry_out e;

	if (l->plus)
		size += sizeof(e);
	if (size > l->out.left) {
		l->full = true;
		return SHARE_NO_ROOM;
	}
	if (l->plus && !plus_entry(l, d, &e)) {
		dirent_skip(l, d);
		return SHARE_SKIPPED;
	}
	if (l->plus)
		cursor_put(&l->out, &e, sizeof(e));
	dirent_put(l, d);
	return SHARE_PUT;
}

static int list(struct fuse_call *c, bool plus)
{
	struct listing l = {.c = c, .plus = plus};
	struct cursor rest = c->out;
	struct fuse_read_in in;
	size_t room;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	/* As for a read; all that time the session is locked, and what is listed comes to be known. */
	in.size = MIN(in.size, c->f->max_io);
	room = MIN((size_t)in.size, c->out.left);
	l.out = cursor_split(&rest, room);
	r = share_readdir(c->handle->file, in.offset, list_entry, &l);
	if (r)
		return r;
	/* An empty reply says that the directory ends here. */
	if (l.full && !l.some)
		return -EINVAL;
	cursor_skip(&c->out, room - l.out.left);
	return 0;
}

int fuse_dir_read(struct fuse_call *c)
{
	return list(c, false);
}

int fuse_dir_read_plus(struct fuse_call *c)
{
	return list(c, true);
}
