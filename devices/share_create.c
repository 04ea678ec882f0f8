// SPDX-License-Identifier: Apache-2.0
/*
 * share_create.c - new objects: directories, special files, links, files.
 *
 * Each is made as the caller, so that owner, set-gid directories and quotas come out as on a local
 * disk, and under one checked name that nothing follows. What was made is then found by a lookup
 * like any other, a file by the descriptor it was made with. The descriptors an object will need
 * are sought before it is made: an error then means that nothing was changed. Thread: the owner's.
 * Calls: share_inode.c, share_path.c, share_owner.c, share_io.c. Spec: open(2).
 */
#include "share_int.h"

/* How often a creation that finds the name now taken, now free is begun again. */
#define CREATE_TRIES 8

/* ---- without opening it ---- */

/* mkdir, symlink and mknod differ in the call alone: a target is a link's, else the mode says. */
struct node {
	mode_t mode;
	dev_t rdev;
	const char *target;
};

static int node_make(struct share_inode *dir, const struct name *name, const struct node *node,
		     const struct cred *cred)
{
	auto_owner scope = {0};
	int fd = share_inode_fd(dir), err;

	if (fd < 0)
		return fd;
	err = share_owner_enter(&scope, dir->share, cred, true);
	if (err)
		return err;
	if (node->target)
		err = symlinkat(node->target, fd, name->s);
	else if (S_ISDIR(node->mode))
		err = mkdirat(fd, name->s, node->mode & 07777);
	else
		err = mknodat(fd, name->s, node->mode, node->rdev);
	return err < 0 ? -errno : 0;
}

/*
 * The descriptor for the new object is sought before it is made: an error then means that nothing
 * was changed.
 */
static int node_create(struct share_inode *dir, const struct name *name, const struct node *node,
		       const struct cred *cred, struct share_inode **out, struct statx *st)
{
	int err;

	if (dir->share->readonly)
		return -EROFS;
	err = share_inode_fd(dir);
	if (err < 0)
		return err;
	err = share_reserve(dir->share, 1);
	if (err)
		return err;
	err = node_make(dir, name, node, cred);
	return err ? err : share_lookup(dir, name, out, st);
}

int share_mknod(struct share_inode *dir, const struct name *name, mode_t mode, dev_t rdev,
		const struct cred *cred, struct share_inode **out, struct statx *st)
{
	const struct node node = {.mode = mode, .rdev = rdev};

	if (S_ISDIR(mode) || S_ISLNK(mode))
		return -EINVAL;
	return node_create(dir, name, &node, cred, out, st);
}

int share_mkdir(struct share_inode *dir, const struct name *name, mode_t mode,
		const struct cred *cred, struct share_inode **out, struct statx *st)
{
	const struct node node = {.mode = (mode & 07777) | S_IFDIR};

	return node_create(dir, name, &node, cred, out, st);
}

int share_symlink(struct share_inode *dir, const struct name *name, const char *target,
		  const struct cred *cred, struct share_inode **out, struct statx *st)
{
	const struct node node = {.target = target};

	return node_create(dir, name, &node, cred, out, st);
}

/* ---- files, opened at once ---- */

static int create_new(struct share_inode *dir, const struct name *name, int flags, mode_t mode,
		      const struct cred *cred, int *fd)
{
	auto_owner scope = {0};
	int err = share_owner_enter(&scope, dir->share, cred, true);

	return err ? err : share_path_create(dir, name, flags, mode, fd);
}

/*
 * A new file is known by the descriptor it was made with; by its name it might be another by now.
 */
static int create_adopt(struct share *s, int *fd, struct share_inode **out,
			struct share_file **file, struct statx *st)
{
	struct share_inode *inode;
	auto_fd pin = -1;
	int err = share_path_pin(s, *fd, &pin);

	if (err)
		return err;
	err = share_inode_adopt(s, &pin, &inode, st);
	if (err)
		return err;
	err = share_file_new(inode, fd, file);
	if (err) {
		share_put(inode);
		return err;
	}
	*out = inode;
	return 0;
}

/*
 * The guest believed the name to be free, so its kernel has not asked whether the caller may open
 * what is there: the host does, with the caller's ids and no override.
 */
static int open_as(struct share_inode *inode, int flags, const struct cred *cred,
		   struct share_file **file)
{
	auto_owner scope = {0};
	int err = share_inode_fd(inode);

	if (err < 0)
		return err;
	err = share_reserve(inode->share, 1);
	if (!err)
		err = share_owner_enter(&scope, inode->share, cred, false);
	return err ? err : share_file_open(inode, flags, file);
}

static int create_existing(struct share_inode *dir, const struct name *name, int flags,
			   const struct cred *cred, struct share_inode **out,
			   struct share_file **file, struct statx *st)
{
	struct share_inode *inode;
	int err = share_lookup(dir, name, &inode, st);

	if (err)
		return err;
	err = open_as(inode, flags, cred, file);
	if (err) {
		share_put(inode);
		return err;
	}
	*out = inode;
	return flags & O_TRUNC ? share_getattr(inode, *file, st) : 0;
}

int share_create(struct share_inode *dir, const struct name *name, int flags, mode_t mode,
		 const struct cred *cred, struct share_inode **inode, struct share_file **file,
		 struct statx *st)
{
	struct share *s = dir->share;
	auto_fd fd = -1;
	int err;

	if (s->readonly)
		return -EROFS;
	if ((flags & O_ACCMODE) == O_ACCMODE || flags & O_DIRECTORY)
		return -EINVAL;
	err = share_inode_fd(dir);
	if (err < 0)
		return err;
	err = share_reserve(s, 2);
	if (err)
		return err;
	for (unsigned i = 0; i < CREATE_TRIES; i++) {
		err = create_new(dir, name, share_host_flags(flags), mode, cred, &fd);
		if (!err) {
			err = create_adopt(s, &fd, inode, file, st);
			if (!err)
				share_place_set(*inode, dir, name);
			return err;
		}
		if (err != -EEXIST || flags & O_EXCL)
			return err;
		err = create_existing(dir, name, flags, cred, inode, file, st);
		if (err != -ENOENT)
			return err;
	}
	return -ESTALE;
}

int share_tmpfile(struct share_inode *dir, int flags, mode_t mode, const struct cred *cred,
		  struct share_inode **inode, struct share_file **file, struct statx *st)
{
	(void)dir, (void)flags, (void)mode, (void)cred, (void)inode, (void)file, (void)st;
	return -EOPNOTSUPP;
}
