// SPDX-License-Identifier: Apache-2.0
/*
 * share_sync.c - syncing whole file systems rather than files.
 *
 * syncfs() wants something of the file system open, and a share may reach into several: so an
 * object of each is opened, regular files and directories only, before anything leaves the thread,
 * and the waiting is done on the pool with nothing but those descriptors. Thread: the owner's.
 * Calls: loop.h, map.h, share_path.c. Spec: syncfs(2).
 */
#include "share_int.h"

#define PLACES_MAX 64
/* Objects of a file system that are tried, where this user may not open them all. */
#define TRIES_MAX 16

struct sync {
	struct io_op op;
	struct io_op *caller; /* the caller's */
	struct share *share;
	int err; /* the first */
	unsigned n;
	struct place {
		uint64_t dev;
		int fd, err; /* -1, and why */
		unsigned tries;
	} places[PLACES_MAX];
};

/* Unserialised: what it held is counted by itself. */
static void sync_free(struct sync *y)
{
	for (unsigned i = 0; i < y->n; i++) {
		if (y->places[i].fd < 0)
			continue;
		close_fd(&y->places[i].fd);
		__atomic_sub_fetch(&y->share->nsyncs, 1, __ATOMIC_RELAXED);
	}
	free(y);
}

static int sync_run(struct io_op *op)
{
	struct sync *y = container_of(op, struct sync, op);
	int err = y->err;

	for (unsigned i = 0; i < y->n; i++)
		if (y->places[i].fd >= 0 && syncfs(y->places[i].fd) < 0 && !err)
			err = -errno;
	return err;
}

static void sync_done(struct io_op *op, int res)
{
	struct sync *y = container_of(op, struct sync, op);
	struct io_op *caller = y->caller;

	sync_free(y);
	caller->done(caller, res);
}

/* NULL: there are too many. */
static struct place *sync_place(struct sync *y, uint64_t dev)
{
	for (unsigned i = 0; i < y->n; i++)
		if (y->places[i].dev == dev)
			return &y->places[i];
	if (y->n == PLACES_MAX)
		return NULL;
	y->places[y->n] = (struct place){.dev = dev, .fd = -1, .err = -EACCES};
	return &y->places[y->n++];
}

static void sync_error(struct sync *y, int err)
{
	if (!y->err)
		y->err = err;
}

/* A guest may ask for any number at once: they count like open files. */
static void place_open(struct place *p, struct share_inode *inode)
{
	struct share *s = inode->share;
	int err = MIN(share_inode_fd(inode), 0);

	if (!err)
		err = share_reserve(s, 1);
	if (!err)
		err = share_path_reopen(inode, O_RDONLY, &p->fd);
	if (!err)
		__atomic_add_fetch(&s->nsyncs, 1, __ATOMIC_RELAXED);
	p->err = err == -ENFILE ? err : -EACCES;
}

/* Mounts of one file system have one device. */
static void sync_add(struct sync *y, struct share_inode *inode)
{
	struct place *p;

	if (inode->type != S_IFREG && inode->type != S_IFDIR)
		return;
	p = sync_place(y, inode->key.dev);
	if (!p) {
		sync_error(y, -ENFILE);
		return;
	}
	if (p->fd >= 0 || p->tries == TRIES_MAX)
		return;
	p->tries++;
	place_open(p, inode);
}

/* The object's own file system needs an object of it as well: this one may be a symbolic link. */
static void sync_collect(struct sync *y, struct share_inode *inode, bool all)
{
	struct share *s = inode->share;
	const void *key;
	size_t iter = 0;
	void *value;

	sync_add(y, inode);
	if (!all && y->n && y->places[0].fd >= 0)
		return;
	while (map_next(&s->inodes, &iter, &key, &value)) {
		struct share_inode *other = value;

		if (all || other->key.dev == inode->key.dev)
			sync_add(y, other);
	}
}

int share_syncfs(struct share_inode *inode, struct iothread *io, struct io_op *op, bool all)
{
	struct sync *y = calloc(1, sizeof(*y));
	unsigned open = 0;
	int err;

	if (!y)
		return -ENOMEM;
	y->share = inode->share;
	y->op.done = sync_done;
	y->caller = op;
	sync_collect(y, inode, all);
	for (unsigned i = 0; i < y->n; i++) {
		open += y->places[i].fd >= 0;
		if (y->places[i].fd < 0)
			sync_error(y, y->places[i].err);
	}
	if (open)
		return loop_offload(io, &y->op, sync_run);
	err = y->err ? y->err : -EACCES;
	sync_free(y);
	return err;
}
