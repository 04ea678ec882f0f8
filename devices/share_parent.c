// SPDX-License-Identifier: Apache-2.0
/*
 * share_parent.c - the directory above a directory.
 *
 * The only way that leads out of a directory and not into one: what ".." opens (O_PATH, so nothing but its attributes can be
 * had from it) becomes an object only if the way further up comes by the share's root. Else the directory has been moved
 * out of the share on the host meanwhile, and there is nothing above it for the guest. Hard cases D58, E7. Calls:
 * share_inode.c, share_budget.c.
 */
#include "share_int.h"

/* Deeper than any path that anything on the host could name; each costs a call. */
#define DEPTH_MAX 4096

static int up(int fd, int *out)
{
	int opened = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (opened < 0)
		return errno == EMFILE ? -ENFILE : -errno;
	*out = opened;
	return 0;
}

static bool same_key(const struct inode_key *a, const struct inode_key *b)
{
	return a->mnt == b->mnt && a->dev == b->dev && a->ino == b->ino;
}

/* 0 if the way up from fd, of which st was asked, comes by the root. */
static int beneath(struct share *s, int fd, const struct statx *st)
{
	struct inode_key key = share_inode_key(st), above;
	auto_fd at = -1;
	struct statx next;

	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		int parent = -1, r;

		if (same_key(&key, &s->root->key))
			return 0;
		r = up(at < 0 ? fd : at, &parent);
		if (r)
			return r;
		close_fd(&at);
		at = parent;
		r = share_inode_statx(at, "", &next);
		if (r)
			return r;
		above = share_inode_key(&next);
		if (same_key(&above, &key))
			return -ENOENT; /* the host's root */
		key = above;
	}
	return -ELOOP;
}

int share_parent(struct share_inode *dir, struct share_inode **out, struct statx *st)
{
	struct share *s = dir->share;
	auto_fd parent = -1;
	int fd, r;

	if (dir == s->root) {
		r = share_getattr(dir, NULL, st);
		if (!r)
			*out = share_get(dir);
		return r;
	}
	if (dir->type != S_IFDIR)
		return -ENOTDIR;
	fd = share_inode_fd(dir);
	if (fd < 0)
		return fd;
	r = share_reserve(s, 3); /* the parent, and two on the way up */
	if (!r)
		r = up(fd, &parent);
	if (!r)
		r = share_inode_statx(parent, "", st);
	if (!r)
		r = beneath(s, parent, st);
	return r ? r : share_inode_adopt(s, &parent, out, st);
}
