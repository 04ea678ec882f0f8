// SPDX-License-Identifier: Apache-2.0
/*
 * share_inode.c - the table of objects the guest knows, and what can be asked of and done to an
 * object without a name.
 *
 * One entry per object, keyed by mount, device and inode number. An O_PATH descriptor pins the
 * host's inode, so that the key cannot come to mean another file, and everything here goes through
 * it, never through a name, so that it works on what was unlinked or replaced. An idle object may
 * be without one: then its key proves nothing, and whatever is found under it is compared first.
 * Thread: the owner's; found-or-inserted and dropped-at-zero cannot overlap (D10). Calls: map.h,
 * share_budget.c, share_handle.c, share_place.c, share_path.c, share_owner.c. Spec: statx(2),
 * proc_pid_fd(5).
 */
#include "share_int.h"
#include <assert.h>

/* ---- the table ---- */

struct inode_key share_inode_key(const struct statx *st)
{
	return (struct inode_key){
		.mnt = (uint32_t)st->stx_mnt_id,
		.dev = st->stx_dev_major << 20 | st->stx_dev_minor,
		.ino = st->stx_ino,
	};
}

int share_inode_statx(int fd, const char *name, struct statx *st)
{
	const unsigned want = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID;

	if (statx(fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, want, st) < 0)
		return -errno;
	return 0;
}

static void inode_free(struct share_inode *inode)
{
	close_fd(&inode->fd);
	free(inode->by_name ? (void *)inode->back.place : (void *)inode->back.handle);
	free(inode);
}

static int inode_new(struct share *s, int fd, const struct statx *st, mode_t type,
		     struct share_inode **out)
{
	struct share_inode *inode = calloc(1, sizeof(*inode));
	bool by_name = false;
	int err;

	if (!inode)
		return -ENOMEM;
	inode->share = s;
	inode->key = share_inode_key(st);
	inode->type = type;
	inode->refs = 1;
	inode->fd = -1;
	share_ring_init(&inode->used);
	err = share_inode_number(s, &inode->key, &inode->ino);
	if (!err)
		err = share_mount_enter(s, fd, st, &by_name);
	if (err) {
		inode_free(inode);
		return err;
	}
	inode->by_name = by_name;
	*out = inode;
	return 0;
}

/* type: as the guest is shown it. */
static int inode_insert(struct share *s, int *fd, const struct statx *st, mode_t type,
			struct share_inode **out)
{
	struct share_inode *inode;
	int err = inode_new(s, *fd, st, type, &inode);

	if (err)
		return err;
	err = share_reserve(s, 1);
	if (!err)
		err = map_put(&s->inodes, &inode->key, inode);
	if (err) {
		share_mount_leave(s, inode->key.mnt);
		inode_free(inode);
		return err;
	}
	s->nby_name += inode->by_name;
	share_inode_hold(inode, fd);
	*out = inode;
	return 0;
}

/*
 * The type stays what the guest knows, whoever changes the attribute that says so: its kernel would
 * give the object up (D65).
 */
static void show(const struct share_inode *inode, struct statx *st)
{
	st->stx_ino = inode->ino;
	st->stx_mode = (uint16_t)(inode->type | (st->stx_mode & 07777));
}

int share_inode_same(struct share_inode *inode, int fd, const struct statx *st)
{
	const struct inode_key key = share_inode_key(st);

	if (memcmp(&key, &inode->key, sizeof(key)))
		return 0;
	return inode->by_name ? share_place_same(inode, st) : share_handle_same(inode, fd);
}

/*
 * Without its descriptor nothing kept the host from deleting it and giving its number to another
 * (D13): that one is an object of its own. Who still has the old one is told ESTALE.
 */
static void inode_gone(struct share_inode *inode)
{
	struct share *s = inode->share;

	map_del(&s->inodes, &inode->key);
	inode->fd = SHARE_GONE;
	share_ring_add(&s->gone, &inode->used);
}

/* *out: NULL if it is not known. An object that is known is found also when no descriptor is left. */
static int inode_find(struct share *s, int *fd, const struct statx *st, struct share_inode **out)
{
	const struct inode_key key = share_inode_key(st);
	struct share_inode *inode = map_get(&s->inodes, &key);
	int same = 1;

	if (inode && inode->fd < 0)
		same = share_inode_same(inode, *fd, st);
	if (same < 0)
		return same;
	if (!same) {
		inode_gone(inode);
		inode = NULL;
	}
	if (inode && inode->fd < 0 && share_has_room(s))
		share_inode_hold(inode, fd);
	*out = inode;
	return 0;
}

/* What was opened is asked, not what the name means by now. */
int share_inode_adopt(struct share *s, int *fd, struct share_inode **out, struct statx *st)
{
	struct share_inode *inode;
	uninit struct statx host;
	int err = share_inode_statx(*fd, "", &host);

	if (err)
		return err;
	*st = host;
	err = share_owner_show(s, *fd, st);
	if (err)
		return err;
	err = inode_find(s, fd, &host, &inode);
	if (!err && !inode) {
		err = inode_insert(s, fd, &host, st->stx_mode & S_IFMT, &inode);
	} else if (!err) {
		share_get(inode);
		share_inode_use(inode);
		close_fd(fd);
	}
	if (err)
		return err;
	show(inode, st);
	*out = inode;
	return 0;
}

struct share_inode *share_get(struct share_inode *inode)
{
	inode->refs++;
	return inode;
}

/* The reference that its place held is the caller's now. */
static struct share_inode *inode_drop(struct share_inode *inode)
{
	struct share_inode *dir = share_place_dir(inode);
	struct share *s = inode->share;

	if (inode->fd != SHARE_GONE)
		map_del(&s->inodes, &inode->key);
	share_ring_del(&inode->used);
	s->nheld -= inode->fd >= 0;
	s->nby_name -= inode->by_name;
	share_mount_leave(s, inode->key.mnt);
	inode_free(inode);
	return dir;
}

/* Places hold directories, as deep as the guest has made them: not by recursion. */
void share_put(struct share_inode *inode)
{
	while (inode) {
		assert(inode->refs);
		if (--inode->refs) {
			/* It may have left the ring for a reference that is no more. */
			if (inode->refs == inode->notes)
				share_inode_use(inode);
			return;
		}
		inode = inode_drop(inode);
	}
}

struct share_inode *share_note(struct share_inode *inode)
{
	inode->notes++;
	return share_get(inode);
}

void share_unnote(struct share_inode *inode)
{
	inode->notes--;
	share_put(inode);
}

void share_inode_free_all(struct share *s)
{
	const void *key;
	size_t iter = 0;
	void *inode;

	while (map_next(&s->inodes, &iter, &key, &inode))
		inode_free(inode);
	while (s->gone.next != &s->gone) {
		struct share_inode *gone = container_of(s->gone.next, struct share_inode, used);

		share_ring_del(&gone->used);
		inode_free(gone);
	}
	share_mounts_free(s);
	map_fini(&s->inodes);
	map_fini(&s->places);
}

struct share_inode *share_root(struct share *s)
{
	return share_get(s->root);
}

size_t share_ninodes(const struct share *s)
{
	return s->inodes.used;
}

void **share_inode_user(struct share_inode *inode)
{
	return &inode->user;
}

uint64_t share_ino(const struct share_inode *inode)
{
	return inode->ino;
}

/* The name was asked, not the object: only a mapped one must be asked itself. */
static int show_known(struct share_inode *inode, struct statx *st)
{
	int fd = inode->share->mapped ? share_inode_fd(inode) : -1, err;

	if (inode->share->mapped && fd < 0)
		return fd;
	err = share_owner_show(inode->share, fd, st);
	if (!err)
		show(inode, st);
	return err;
}

/*
 * What the guest knows already is recognised by asking the name alone: a descriptor of the table pins the object, so
 * nothing else can have its key (D13), and nothing is opened that would have to be closed again. Guests that
 * revalidate their names ask this most of all. 1 found, with a reference; 0 not one we know for sure: *out is borrowed, what
 * is known without a descriptor, or NULL; -errno.
 */
static inline int lookup_known(struct share_inode *dir, const struct name *name,
			       struct share_inode **out, struct statx *st)
{
	int dirfd = share_inode_fd(dir), err;
	struct share_inode *inode;
	struct inode_key key;

	if (dirfd < 0)
		return dirfd;
	err = share_inode_statx(dirfd, name->s, st);
	if (err)
		return err;
	key = share_inode_key(st);
	inode = map_get(&dir->share->inodes, &key);
	*out = inode;
	if (!inode || inode->fd < 0)
		return 0;
	share_inode_use(inode);
	err = show_known(inode, st);
	if (err)
		return err;
	share_get(inode);
	return 1;
}

/* Opened first and asked then: by its name it might be another by now (D57). */
static int lookup_open(struct share_inode *dir, const struct name *name, struct share_inode **out,
		       struct statx *st)
{
	auto_fd fd = -1;
	int err = share_path_open(dir, name, &fd);

	return err ? err : share_inode_adopt(dir->share, &fd, out, st);
}

int share_lookup(struct share_inode *dir, const struct name *name, struct share_inode **out,
		 struct statx *st)
{
	struct share_inode *inode = NULL;
	int r = lookup_known(dir, name, &inode, st);

	if (!r)
		r = lookup_open(dir, name, &inode, st);
	if (r < 0)
		return r;
	share_place_set(inode, dir, name);
	*out = inode;
	return 0;
}

/*
 * Opening costs more than asking. What is known by its place alone has to be told from what is given its number later,
 * so the file system has to say when it was born; and it must be on its directory's mount, of which is known how its
 * objects are found again. What a mapped one is, only the object itself says.
 */
static bool may_stay_closed(const struct share_inode *dir, const struct statx *st)
{
	return !dir->share->mapped && st->stx_mask & STATX_BTIME &&
	       share_inode_key(st).mnt == dir->key.mnt;
}

static int insert_closed(struct share_inode *dir, const struct name *name, const struct statx *st,
			 struct share_inode **out)
{
	struct share *s = dir->share;
	struct share_inode *inode;
	int err = inode_new(s, -1, st, st->stx_mode & S_IFMT, &inode);

	if (err)
		return err;
	inode->by_name = true;
	s->nby_name++;
	err = map_put(&s->inodes, &inode->key, inode);
	if (!err) {
		share_place_set(inode, dir, name);
		err = share_place_expect(inode, st) ? 0 : -ENOMEM;
	}
	if (err) {
		share_put(inode);
		return err;
	}
	*out = inode;
	return 0;
}

/* *out and st: what lookup_known() found of a name whose object has no descriptor, or is not known. */
static int lookup_closed(struct share_inode *dir, const struct name *name, struct share_inode **out,
			 struct statx *st)
{
	struct share_inode *inode = *out;
	int err;

	if (inode && !(inode->by_name && share_place_same(inode, st)))
		return lookup_open(dir, name, out, st);
	if (inode)
		share_get(inode);
	err = inode ? 0 : insert_closed(dir, name, st, &inode);
	if (err)
		return err;
	err = share_owner_show(dir->share, -1, st);
	if (err) {
		share_put(inode);
		return err;
	}
	show(inode, st);
	*out = inode;
	return 0;
}

int share_glance(struct share_inode *dir, const struct name *name, struct share_inode **out,
		 struct statx *st)
{
	struct share_inode *inode = NULL;
	int r = lookup_known(dir, name, &inode, st);

	if (!r)
		r = may_stay_closed(dir, st) ? lookup_closed(dir, name, &inode, st)
					     : lookup_open(dir, name, &inode, st);
	if (r < 0)
		return r;
	share_place_set(inode, dir, name);
	*out = inode;
	return 0;
}

/*
 * Its place stays what it was: the name that goes may not be the one it is found by. Where every
 * object has its descriptor this costs nothing.
 */
int share_inode_retain(struct share_inode *dir, const struct name *name)
{
	struct share *s = dir->share;
	int dirfd = share_inode_fd(dir), err;
	struct share_inode *inode;
	struct inode_key key;
	uninit struct statx st;

	if (dirfd < 0)
		return dirfd;
	if (s->inodes.used == s->nheld || share_inode_statx(dirfd, name->s, &st))
		return 0;
	key = share_inode_key(&st);
	inode = map_get(&s->inodes, &key);
	if (!inode || inode->fd >= 0)
		return 0;
	err = lookup_open(dir, name, &inode, &st);
	if (err)
		return err == -ENOENT ? 0 : err;
	/* Found all the same, but without a descriptor: this says why. */
	err = share_inode_fd(inode);
	share_put(inode);
	return MIN(err, 0);
}

/* ---- attributes ---- */

int share_getattr(struct share_inode *inode, struct share_file *file, struct statx *st)
{
	int fd = file ? file->io.fd : share_inode_fd(inode);
	int err = fd < 0 ? fd : share_inode_statx(fd, "", st);

	if (!err)
		err = share_owner_show(inode->share, fd, st);
	if (!err)
		show(inode, st);
	return err;
}

static int set_size(struct share_inode *inode, struct share_file *file, uint64_t size)
{
	auto_fd opened = -1;
	int err;

	if (inode->type == S_IFDIR)
		return -EISDIR;
	if (inode->type != S_IFREG || size > INT64_MAX)
		return -EINVAL;
	if (!file) {
		err = share_path_reopen(inode, O_WRONLY, &opened);
		if (err)
			return err;
	}
	return ftruncate(file ? file->io.fd : opened, (off_t)size) < 0 ? -errno : 0;
}

/*
 * Through procfs: futimens refuses O_PATH, and AT_EMPTY_PATH is younger here than all else we
 * need.
 */
static int set_times(struct share_inode *inode, const struct share_attr *attr)
{
	static const struct timespec omit = {.tv_nsec = UTIME_OMIT};
	const struct timespec times[2] = {
		attr->mask & SHARE_ATIME ? attr->atime : omit,
		attr->mask & SHARE_MTIME ? attr->mtime : omit,
	};
	int fd = share_inode_fd(inode);

	if (fd < 0)
		return fd;
	if (utimensat(inode->share->proc, share_path_fd_name(fd).s, times, 0) < 0)
		return -errno;
	return 0;
}

/*
 * The order makes the whole come out as asked: chown and truncate clear set-id bits, so the mode
 * follows them, and truncate sets the times, so they come last.
 */
static int set_each(struct share_inode *inode, struct share_file *file,
		    const struct share_attr *attr)
{
	int err = 0;

	if (attr->mask & (SHARE_UID | SHARE_GID))
		err = share_owner_change(inode, attr);
	if (!err && attr->mask & SHARE_SIZE)
		err = set_size(inode, file, attr->size);
	if (!err && attr->mask & SHARE_KILL_PRIV)
		err = share_owner_kill_priv(inode);
	if (!err && attr->mask & SHARE_MODE)
		err = share_owner_chmod(inode, attr->mode);
	if (!err && attr->mask & (SHARE_ATIME | SHARE_MTIME))
		err = set_times(inode, attr);
	return err;
}

int share_setattr(struct share_inode *inode, struct share_file *file, const struct share_attr *attr,
		  struct statx *st)
{
	int fd, err;

	if (inode->share->readonly)
		return -EROFS;
	fd = file ? file->io.fd : share_inode_fd(inode);
	err = fd < 0 ? fd : share_owner_may_change(inode->share, fd);
	if (!err)
		err = set_each(inode, file, attr);
	return err || !st ? err : share_getattr(inode, file, st);
}

/*
 * The kernel calls what is no symbolic link ENOENT here, which would tell the guest that the object
 * is gone.
 */
ssize_t share_readlink(struct share_inode *inode, char *buf, size_t n)
{
	int fd = share_inode_fd(inode);
	ssize_t len;

	if (inode->type != S_IFLNK)
		return -EINVAL;
	if (fd < 0)
		return fd;
	len = readlinkat(fd, "", buf, n);
	if (len < 0 && errno == ENOENT && inode->share->mapped)
		return share_mapped_readlink(inode, buf, n);
	return len < 0 ? -errno : len;
}

int share_statfs(struct share_inode *inode, struct statfs *st)
{
	int fd = share_inode_fd(inode);

	if (fd < 0)
		return fd;
	return fstatfs(fd, st) < 0 ? -errno : 0;
}

/* Kernels that tell mounts apart, and we need one that does, say this too. The share itself may be one. */
bool share_is_mount(const struct share_inode *inode, const struct statx *st)
{
	return inode != inode->share->root && st->stx_attributes & STATX_ATTR_MOUNT_ROOT;
}
