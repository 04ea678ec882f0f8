// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_kept.c - files for a guest that does not say when it opens and closes them.
 *
 * Where OPEN and OPENDIR are answered ENOSYS, requests come with handles that were never given and mean the node. One
 * file is kept for each node that is in use: opened when the first request needs it, opened anew when one needs more of
 * it, closed when others are needed more, when the guest forgets the node, or when descriptors run out. One that an
 * operation is on is never closed for another's sake: that would free nothing. Under the session lock. Calls: share.h,
 * fuse_handle.c.
 */
#include "fuse_int.h"
#include <fcntl.h>

/* ---- by last use ---- */

static void unlist(struct fuse *f, struct fuse_handle *h)
{
	*(h->newer ? &h->newer->older : &f->kept.newest) = h->older;
	*(h->older ? &h->older->newer : &f->kept.oldest) = h->newer;
}

static void enlist(struct fuse *f, struct fuse_handle *h)
{
	h->newer = NULL;
	h->older = f->kept.newest;
	*(h->older ? &h->older->newer : &f->kept.oldest) = h;
	f->kept.newest = h;
}

void fuse_kept_drop(struct fuse *f, struct fuse_node *n)
{
	struct fuse_handle *h = take_ptr(&n->kept);

	if (!h)
		return;
	unlist(f, h);
	f->kept.n--;
	fuse_handle_put(f, h);
}

void fuse_kept_drop_all(struct fuse *f)
{
	while (f->kept.newest)
		fuse_kept_drop(f, f->kept.newest->node);
}

/* Closes the one that was not used for longest and that nobody uses now. */
bool fuse_kept_yield(struct fuse *f)
{
	struct fuse_handle *h = f->kept.oldest;

	while (h && h->refs > 1)
		h = h->newer;
	if (!h)
		return false;
	fuse_kept_drop(f, h->node);
	return true;
}

static int keep(struct fuse *f, struct fuse_node *n, struct share_file *file, unsigned access)
{
	struct fuse_handle *h;
	int r = fuse_handle_new(f, file, &h);

	if (r)
		return r;
	fuse_kept_drop(f, n);
	while (f->kept.n >= f->kept_max && fuse_kept_yield(f))
		;
	h->access = (uint8_t)access;
	h->node = n;
	n->kept = h;
	enlist(f, h);
	f->kept.n++;
	return 0;
}

/* ---- opening ---- */

static int open_once(struct fuse *f, struct fuse_node *n, int flags, struct share_file **file)
{
	int r;

	do
		r = share_open_inode(n->inode, flags, file);
	while (r == -ENFILE && fuse_kept_yield(f));
	return r;
}

/* For writing means for reading too, so that it is opened once; what may only be written is opened so. */
static int open_as(struct fuse *f, struct fuse_node *n, unsigned *access, struct share_file **file)
{
	int r;

	if (*access & FUSE_WRITES) {
		r = open_once(f, n, O_RDWR, file);
		if (r == -EACCES && *access == FUSE_WRITES)
			return open_once(f, n, O_WRONLY, file);
		*access = FUSE_READS | FUSE_WRITES;
		return r;
	}
	r = open_once(f, n, O_RDONLY, file);
	/* Also a directory that may not be read is refused this, but for another reason. */
	if (r == -EACCES && !*access && !open_once(f, n, O_WRONLY, file)) {
		*access = FUSE_WRITES;
		return 0;
	}
	*access = FUSE_READS;
	return r;
}

int fuse_kept_get(struct fuse *f, struct fuse_node *n, unsigned access, struct fuse_handle **out)
{
	struct fuse_handle *h = n->kept;
	struct share_file *file = NULL;
	int r;

	if (h && (h->access & access) == access) {
		unlist(f, h);
		enlist(f, h);
		*out = h;
		return 0;
	}
	r = open_as(f, n, &access, &file);
	if (!r)
		r = keep(f, n, file, access);
	if (r)
		return r;
	*out = n->kept;
	return 0;
}

void fuse_kept_put(struct fuse *f, struct fuse_node *n, struct share_file *file, int flags)
{
	static const uint8_t access[] = {[O_RDONLY] = FUSE_READS,
					 [O_WRONLY] = FUSE_WRITES,
					 [O_RDWR] = FUSE_READS | FUSE_WRITES};

	/* If it fails the file is closed, and opened again when it is needed. */
	keep(f, n, file, access[flags & O_ACCMODE]);
}
