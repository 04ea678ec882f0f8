// SPDX-License-Identifier: Apache-2.0
/*
 * share_create.c - new objects: directories, special files, links, files with and without a name.
 *
 * Each is made as the caller (share_caller.c), so that owner, set-gid directories and quotas come
 * out as on a local disk, and under one checked name that nothing follows; or as what stands for it
 * (share_mapped.c). What was made is then found by a lookup like any other, a file by the
 * descriptor it was made with. The descriptors an object will need are sought before it is made: an
 * error then means that nothing was changed. Thread: the owner's. Calls: share_inode.c,
 * share_path.c, share_io.c. Spec: open(2).
 */
#include "share_int.h"

/* How often a creation that finds the name now taken, now free is begun again. */
#define CREATE_TRIES 8

void share_take_back(struct share_inode *dir, const struct name *name, mode_t type)
{
	int fd = share_inode_fd(dir);

	if (fd >= 0)
		(void)unlinkat(fd, name->s, type == S_IFDIR ? AT_REMOVEDIR : 0);
}

/* ---- without opening it ---- */

/* mkdir, symlink and mknod differ in the call alone. */
static int node_make(struct share_inode *dir, const struct name *name,
		     const struct share_node *node, const struct cred *cred)
{
	const struct share *s = dir->share;
	const mode_t mode = share_caller_mode(s, cred, node->mode);
	auto_owner scope = {0};
	int fd = share_inode_fd(dir), err;

	if (s->mapped)
		return share_mapped_make(dir, name, node, cred);
	if (fd < 0)
		return fd;
	err = share_owner_enter(&scope, s, cred, true);
	if (err)
		return err;
	if (node->target)
		err = symlinkat(node->target, fd, name->s);
	else if (S_ISDIR(mode))
		err = mkdirat(fd, name->s, mode & 07777);
	else
		err = mknodat(fd, name->s, mode, node->rdev);
	return err < 0 ? -errno : 0;
}

/* What cannot have its label is taken away again. */
static int node_label(struct share_inode *dir, const struct name *name, struct share_inode *inode,
		      const struct cred *cred)
{
	int fd = share_inode_fd(inode), err;

	if (dir->share->mapped)
		return 0; /* it came with it */
	err = fd < 0 ? fd : share_caller_label(dir->share, fd, cred);
	if (err)
		share_take_back(dir, name, inode->type);
	return err;
}

/*
 * The descriptor for the new object is sought before it is made: an error then means that nothing
 * was changed.
 */
static int node_create(struct share_inode *dir, const struct name *name,
		       const struct share_node *node, const struct cred *cred,
		       struct share_inode **out, struct statx *st)
{
	struct share_inode *inode;
	int err;

	if (dir->share->readonly)
		return -EROFS;
	err = share_inode_fd(dir);
	if (err < 0)
		return err;
	err = share_reserve(dir->share, 1);
	if (!err)
		err = node_make(dir, name, node, cred);
	if (err)
		return err;
	err = share_lookup(dir, name, &inode, st);
	if (err)
		return err;
	err = node_label(dir, name, inode, cred);
	if (err) {
		share_put(inode);
		return err;
	}
	*out = inode;
	return 0;
}

int share_mknod(struct share_inode *dir, const struct name *name, mode_t mode, dev_t rdev,
		const struct cred *cred, struct share_inode **out, struct statx *st)
{
	const mode_t type = mode & S_IFMT ? mode & S_IFMT : S_IFREG;
	const struct share_node node = {.mode = type | (mode & 07777), .rdev = rdev};

	if (type != S_IFREG && type != S_IFCHR && type != S_IFBLK && type != S_IFIFO &&
	    type != S_IFSOCK)
		return -EINVAL;
	return node_create(dir, name, &node, cred, out, st);
}

int share_mkdir(struct share_inode *dir, const struct name *name, mode_t mode,
		const struct cred *cred, struct share_inode **out, struct statx *st)
{
	const struct share_node node = {.mode = (mode & 07777) | S_IFDIR};

	return node_create(dir, name, &node, cred, out, st);
}

int share_symlink(struct share_inode *dir, const struct name *name, const char *target,
		  const struct cred *cred, struct share_inode **out, struct statx *st)
{
	const struct share_node node = {.target = target};

	return node_create(dir, name, &node, cred, out, st);
}

/* ---- files, opened at once ---- */

/* What cannot have its label is taken away again. */
static int create_label(struct share_inode *dir, const struct name *name, int fd,
			const struct cred *cred)
{
	int err = share_caller_label(dir->share, fd, cred);

	if (err)
		share_take_back(dir, name, S_IFREG);
	return err;
}

static int create_as(struct share_inode *dir, const struct name *name, int flags, mode_t mode,
		     const struct cred *cred, int *fd)
{
	auto_owner scope = {0};
	int err = share_owner_enter(&scope, dir->share, cred, true);

	mode = share_caller_mode(dir->share, cred, mode);
	if (err)
		return err;
	return name ? share_path_create(dir, name, flags, mode, fd)
		    : share_path_tmpfile(dir, flags, mode, fd);
}

static int create_new(struct share_inode *dir, const struct name *name, int flags, mode_t mode,
		      const struct cred *cred, int *fd)
{
	auto_fd made = -1;
	int err;

	if (dir->share->mapped)
		return share_mapped_create(dir, name, flags, mode, cred, fd);
	err = create_as(dir, name, flags, mode, cred, &made);
	if (!err)
		err = name ? create_label(dir, name, made, cred)
			   : share_caller_label(dir->share, made, cred);
	if (!err)
		*fd = take_fd(&made);
	return err;
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
 * what is there: the host does, with the caller's ids and no override; of a mapped share's owners
 * and modes it knows nothing.
 */
static int open_as(struct share_inode *inode, int flags, const struct cred *cred,
		   const struct statx *st, struct share_file **file)
{
	auto_owner scope = {0};
	int err = share_inode_fd(inode);

	if (err < 0)
		return err;
	if (inode->share->mapped && !share_mapped_allows(st, flags, cred))
		return -EACCES;
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
	err = open_as(inode, flags, cred, st, file);
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
	struct share *s = dir->share;
	auto_fd fd = -1;
	int err;

	if (s->readonly)
		return -EROFS;
	if ((flags & O_ACCMODE) != O_WRONLY && (flags & O_ACCMODE) != O_RDWR)
		return -EINVAL;
	err = share_inode_fd(dir);
	if (err < 0)
		return err;
	err = share_reserve(s, 2);
	if (!err)
		err = create_new(dir, NULL, share_host_flags(flags) | (flags & O_EXCL), mode, cred,
				 &fd);
	return err ? err : create_adopt(s, &fd, inode, file, st);
}
