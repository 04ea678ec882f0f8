// SPDX-License-Identifier: Apache-2.0
/*
 * share_place.c - objects found again by their parent and name, where handles do not serve.
 *
 * A place is where an object was last found or made. It is no more than a guess, for the host moves
 * things too: it is tried before a descriptor is given up, and what is found there again must be the
 * very inode, by mount, device, number, type and time of birth. Places hold their directories, so
 * they make a tree, and it is walked with loops: a guest makes it as deep as it likes. Thread: the
 * owner's. Calls: share_inode.c, share_handle.c, share_path.c.
 */
#include "share_int.h"
#include <assert.h>

struct share_place {
	struct share_inode *dir; /* a reference; NULL: it is known to be wrong */
	int64_t born; /* of an object without a descriptor; 0: the file system does not say */
	uint16_t type;
	char name[];
};

struct share_inode *share_place_dir(const struct share_inode *inode)
{
	return inode->by_name && inode->back.place ? inode->back.place->dir : NULL;
}

/* ---- remembering ---- */

/*
 * Moves on the host can make a directory appear below what was found in it before. Of a ring of
 * places one must be old, and it is not the one that was seen just now.
 */
static void unwind(const struct share_inode *inode, struct share_inode *dir)
{
	struct share_inode *up;

	for (; (up = share_place_dir(dir)); dir = up) {
		if (up != inode)
			continue;
		dir->back.place->dir = NULL;
		share_put(up);
		return;
	}
}

static bool is_at(const struct share_inode *inode, const struct share_inode *dir,
		  const struct name *name)
{
	const struct share_place *p = inode->back.place;

	return p && p->dir == dir && !strcmp(p->name, name->s);
}

/* No memory: the old place stays, and as it is wrong the object will keep its descriptor. */
void share_place_set(struct share_inode *inode, struct share_inode *dir, const struct name *name)
{
	struct share_place *p, *old;
	size_t size;

	if (!inode->by_name || inode == dir || is_at(inode, dir, name))
		return;
	size = strlen(name->s) + 1;
	p = malloc(offsetof(struct share_place, name) + size);
	if (!p)
		return;
	/* With a single reference, the caller's, nothing was found in it yet. */
	if (inode->type == S_IFDIR && inode->refs > 1)
		unwind(inode, dir);
	old = inode->back.place;
	p->dir = share_get(dir);
	p->born = old ? old->born : 0;
	p->type = old ? old->type : 0;
	memcpy(p->name, name->s, size);
	inode->back.place = p;
	if (old && old->dir)
		share_put(old->dir);
	free(old);
}

void share_place_moved(struct share_inode *dir, const struct name *name)
{
	struct share *s = dir->share;
	struct share_inode *inode;
	struct inode_key key;
	struct statx st;
	int fd;

	if (!s->nby_name)
		return;
	fd = share_inode_fd(dir);
	if (fd < 0 || share_inode_statx(fd, name->s, &st))
		return;
	key = share_inode_key(&st);
	inode = map_get(&s->inodes, &key);
	if (inode)
		share_place_set(inode, dir, name);
}

/* ---- walking ---- */

/* Down the way of n directories, each in the one after it, from the descriptor at: *tmp is the last. */
static int walk(struct share *s, struct share_inode *const *way, size_t n, int at, int *tmp)
{
	while (n--) {
		int next, err = share_path_step(s, at, way[n]->back.place->name, &next);

		if (err)
			return err;
		close_fd(tmp);
		at = *tmp = next;
	}
	return at;
}

static bool is_on_the_way(const struct share_inode *dir)
{
	return dir->fd == -1 && share_place_dir(dir);
}

/*
 * The directory's own descriptor; or one in *tmp, opened by way of the nearest directory above that
 * has one or has a handle. -errno.
 */
static int dir_fd(struct share_inode *dir, int *tmp)
{
	auto_free struct share_inode **way = NULL;
	struct share_inode *d;
	size_t n = 0;
	int at, err;

	for (d = dir; is_on_the_way(d); d = share_place_dir(d))
		n++;
	if (d->fd < 0 && (d->fd == SHARE_GONE || d->by_name))
		return -ESTALE;
	if (n) {
		way = calloc(n, sizeof(struct share_inode *));
		if (!way)
			return -ENOMEM;
	}
	at = d->fd;
	if (at < 0) {
		err = share_handle_open(d, tmp);
		if (err)
			return err;
		at = *tmp;
	}
	n = 0;
	for (d = dir; is_on_the_way(d); d = share_place_dir(d))
		way[n++] = d;
	return walk(dir->share, way, n, at, tmp);
}

/* ---- finding again ---- */

static int64_t born(const struct statx *st)
{
	if (!(st->stx_mask & STATX_BTIME))
		return 0;
	return (int64_t)((uint64_t)st->stx_btime.tv_sec * 1000000000u + st->stx_btime.tv_nsec);
}

static bool has_key(const struct share_inode *inode, const struct statx *st)
{
	const struct inode_key key = share_inode_key(st);

	return !memcmp(&key, &inode->key, sizeof(key));
}

bool share_place_same(const struct share_inode *inode, const struct statx *st)
{
	const struct share_place *p = inode->back.place;

	return p->born == born(st) && p->type == (st->stx_mode & S_IFMT);
}

bool share_place_expect(struct share_inode *inode, const struct statx *st)
{
	struct share_place *p = inode->back.place;

	if (!p)
		return false;
	p->born = born(st);
	p->type = st->stx_mode & S_IFMT;
	return true;
}

/* Out of descriptors, it is better to trust the place than to keep what is asked for. */
int share_place_keep(struct share_inode *inode, const struct statx *st)
{
	struct share_place *p = inode->back.place;
	auto_fd tmp = -1;
	struct statx there;
	int fd;

	if (!p)
		return -ENOENT;
	p->born = born(st);
	p->type = st->stx_mode & S_IFMT;
	fd = p->dir ? dir_fd(p->dir, &tmp) : -ESTALE;
	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE;
	return share_inode_statx(fd, p->name, &there) == 0 && has_key(inode, &there);
}

/* The place leads nowhere, or to what may not be gone through: the object is not there. */
static bool is_lost(int err)
{
	return err == -ENOENT || err == -ENOTDIR || err == -ELOOP || err == -EXDEV ||
	       err == -EAGAIN;
}

int share_place_open(const struct share_inode *inode, int *fd, int *dirfd)
{
	const struct share_place *p = inode->back.place;
	auto_fd tmp = -1;
	auto_fd found = -1;
	struct statx st;
	int err;

	if (!p->dir)
		return -ESTALE;
	err = dir_fd(p->dir, &tmp);
	if (err >= 0)
		err = share_path_step(inode->share, err, p->name, &found);
	if (!err)
		err = share_inode_statx(found, "", &st);
	if (err)
		return is_lost(err) ? -ESTALE : err;
	if (!has_key(inode, &st) || !share_place_same(inode, &st))
		return -ESTALE;
	*fd = take_fd(&found);
	*dirfd = take_fd(&tmp);
	return 0;
}
