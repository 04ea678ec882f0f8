// SPDX-License-Identifier: Apache-2.0
/*
 * share_mapped.c - objects whose owner, mode and kind are the guest's alone.
 *
 * On the host there are only directories and regular files, all ours and closed to others (0700,
 * 0600). What the guest is shown lies in attributes, named and encoded as QEMU's mapped-xattr has
 * them, so that a tree may be served by either:
 *
 *   user.virtfs.uid, .gid   32 bits, little endian
 *   user.virtfs.mode        32 bits, little endian: S_IFMT and permissions
 *   user.virtfs.rdev        64 bits, little endian, as makedev() packs them
 *
 * A symbolic link is a file that holds the target, without NUL; devices, fifos and sockets are empty
 * files. Where an attribute is missing the host's own value is shown. Attributes are reached by the
 * name of a descriptor (share_path_fd_name()), so nothing is followed. Thread: the owner's. Calls:
 * log.h, share_path.c, share_caller.c. Spec: xattr(7), open(2) O_TMPFILE.
 */
#include "share_int.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define ATTR_UID  "user.virtfs.uid"
#define ATTR_GID  "user.virtfs.gid"
#define ATTR_MODE "user.virtfs.mode"
#define ATTR_RDEV "user.virtfs.rdev"

#define NO_ID      ((uint32_t)-1)
#define TARGET_MAX 4095 /* of a symbolic link of Linux */

/* ---- attributes ---- */

/*
 * 1, 0 for one that is not there, -errno. One of another size is none of ours; and what the host
 * does not let us read does not hide the object.
 */
static int attr_result(ssize_t n, size_t size)
{
	if (n >= 0)
		return (size_t)n == size;
	switch (errno) {
	case ENODATA:
	case ERANGE:
	case EOPNOTSUPP:
	case EACCES:
	case EPERM:
		return 0;
	default:
		return -errno;
	}
}

static int attr_get32(int fd, const char *attr, uint32_t *v)
{
	le32 raw;
	int got = attr_result(getxattr(share_path_fd_name(fd).s, attr, &raw, sizeof(raw)),
			      sizeof(raw));

	if (got == 1)
		*v = le32_get(raw);
	return got;
}

static int attr_get64(int fd, const char *attr, uint64_t *v)
{
	le64 raw;
	int got = attr_result(getxattr(share_path_fd_name(fd).s, attr, &raw, sizeof(raw)),
			      sizeof(raw));

	if (got == 1)
		*v = le64_get(raw);
	return got;
}

static int attr_set32(int fd, const char *attr, uint32_t v)
{
	const le32 raw = le32_of(v);

	return setxattr(share_path_fd_name(fd).s, attr, &raw, sizeof(raw), 0) < 0 ? -errno : 0;
}

static int attr_set64(int fd, const char *attr, uint64_t v)
{
	const le64 raw = le64_of(v);

	return setxattr(share_path_fd_name(fd).s, attr, &raw, sizeof(raw), 0) < 0 ? -errno : 0;
}

/*
 * Only a regular file stands for anything else, and never for a directory: what is asked of one no
 * file could answer.
 */
static mode_t mode_shown(mode_t host, uint32_t mapped)
{
	const mode_t rest = mapped & 07777;

	if (!S_ISREG(host))
		return (host & S_IFMT) | rest;
	switch (mapped & S_IFMT) {
	case S_IFLNK:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return (mapped & S_IFMT) | rest;
	default:
		return S_IFREG | rest;
	}
}

static int show_rdev(int fd, struct statx *st)
{
	uint64_t rdev = 0;
	int got = attr_get64(fd, ATTR_RDEV, &rdev);

	if (got < 0)
		return got;
	st->stx_rdev_major = major(rdev);
	st->stx_rdev_minor = minor(rdev);
	return 0;
}

int share_mapped_show(int fd, struct statx *st)
{
	uint32_t uid = st->stx_uid, gid = st->stx_gid, mode = st->stx_mode;
	int got;

	/* The kernel keeps such attributes on nothing else. */
	if (!S_ISREG(mode) && !S_ISDIR(mode))
		return 0;
	got = attr_get32(fd, ATTR_MODE, &mode);
	if (got >= 0)
		got = attr_get32(fd, ATTR_UID, &uid);
	if (got >= 0)
		got = attr_get32(fd, ATTR_GID, &gid);
	if (got < 0)
		return got;
	st->stx_mode = (uint16_t)mode_shown(st->stx_mode, mode);
	st->stx_uid = uid;
	st->stx_gid = gid;
	return S_ISCHR(st->stx_mode) || S_ISBLK(st->stx_mode) ? show_rdev(fd, st) : 0;
}

/*
 * Under the directory's descriptor, in the working directory; the last component is not followed.
 * A name of its own for each would cost an opening; overlayfs must be told which are whiteouts.
 */
unsigned char share_mapped_dtype(int dirfd, const char *name)
{
	char path[sizeof(struct fd_name) + sizeof(struct name)];
	le32 raw;

	snprintf(path, sizeof(path), "%d/%s", dirfd, name);
	if (attr_result(lgetxattr(path, ATTR_MODE, &raw, sizeof(raw)), sizeof(raw)) != 1)
		return DT_REG;
	return (unsigned char)IFTODT(mode_shown(S_IFREG, le32_get(raw)));
}

int share_mapped_init(struct share *s, const char *name)
{
	char path[64];
	int fd = share_inode_fd(s->root);

	if (fd < 0)
		return fd;
	/* Whole, as the working directory is the user's still. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	s->mapped = getxattr(path, ATTR_MODE, NULL, 0) >= 0 || errno == ENODATA;
	if (s->mapped)
		return 0;
	log_err("%s: owner=mapped: %s: %m", name,
		errno == EOPNOTSUPP ? "the directory's file system keeps no user.* attributes: "
				      "share another, or use owner=squash"
				    : "the directory's attributes cannot be read");
	return -errno;
}

/* ---- chmod, chown ---- */

int share_mapped_set_mode(int fd, mode_t mode)
{
	return attr_set32(fd, ATTR_MODE, mode);
}

/*
 * Set-id bits go before the owner changes: in between nobody owns a program that lends more than it
 * did.
 */
int share_mapped_chown(struct share_inode *inode, uid_t uid, gid_t gid)
{
	int fd = share_inode_fd(inode), err;
	struct statx st;
	mode_t mode;

	if (fd < 0)
		return fd;
	err = share_getattr(inode, NULL, &st);
	if (err)
		return err;
	mode = S_ISDIR(st.stx_mode) ? st.stx_mode : share_owner_drop_setid(st.stx_mode);
	if (mode != st.stx_mode)
		err = share_mapped_set_mode(fd, mode);
	if (!err && uid != NO_ID)
		err = attr_set32(fd, ATTR_UID, uid);
	if (!err && gid != NO_ID)
		err = attr_set32(fd, ATTR_GID, gid);
	return err;
}

/* ---- what the caller may do, as the host would judge on a local disk ---- */

static bool in_group(const struct cred *cred, gid_t gid)
{
	return cred->gid == gid || (cred->has_group && cred->group == gid);
}

bool share_mapped_allows(const struct statx *st, int flags, const struct cred *cred)
{
	const int access = flags & O_ACCMODE;
	mode_t want = access == O_RDONLY ? 4 : access == O_WRONLY ? 2 : 6;
	mode_t have = st->stx_mode;

	if (flags & O_TRUNC)
		want |= 2;
	if (cred->uid == st->stx_uid)
		have >>= 6;
	else if (in_group(cred, st->stx_gid))
		have >>= 3;
	return cred->uid == 0 || (have & want) == want;
}

/* ---- new objects ---- */

struct mapped {
	uid_t uid;
	gid_t gid;
	mode_t mode;
	bool special; /* has a device number, be it 0 */
	dev_t rdev;
};

/*
 * A set-gid directory gives its group, and to directories its bit; programs that would lend this
 * group's rights are for its members to make (D35, D39).
 */
static int mapped_fill(struct share_inode *dir, mode_t mode, const struct cred *cred,
		       struct mapped *m)
{
	struct statx st;
	int err;

	if (cred->uid == NO_ID || cred->gid == NO_ID)
		return -EINVAL;
	err = share_getattr(dir, NULL, &st);
	if (err)
		return err;
	m->uid = cred->uid;
	m->gid = cred->gid;
	m->mode = mode;
	if (!(st.stx_mode & S_ISGID))
		return 0;
	m->gid = st.stx_gid;
	if (S_ISDIR(mode))
		m->mode |= S_ISGID;
	else if (mode & S_IXGRP && cred->uid != 0 && !in_group(cred, st.stx_gid))
		m->mode &= ~(mode_t)S_ISGID;
	return 0;
}

static int mapped_write(int fd, const struct mapped *m)
{
	int err = attr_set32(fd, ATTR_UID, m->uid);

	if (!err)
		err = attr_set32(fd, ATTR_GID, m->gid);
	if (!err)
		err = attr_set32(fd, ATTR_MODE, m->mode);
	if (!err && m->special)
		err = attr_set64(fd, ATTR_RDEV, m->rdev);
	return err;
}

static int target_write(int fd, const char *target)
{
	const size_t len = strlen(target);
	ssize_t n = write(fd, target, len);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -ENOSPC;
}

/* What of a file is given: a target is a symbolic link's. */
struct file {
	const struct mapped *attrs;
	const char *target;
	const struct cred *cred;
	int flags;
};

static bool read_only(const struct file *f)
{
	return (f->flags & O_ACCMODE) == O_RDONLY;
}

/* A file without a name must be open to be written: it is opened again for who only reads. */
static int file_reopen(struct share *s, int *fd)
{
	int opened = -1, err = share_path_again(s, *fd, O_RDONLY, &opened);

	if (err)
		return err;
	close_fd(fd);
	*fd = opened;
	return 0;
}

/* A file that nobody knows yet becomes what it is to be. */
static int file_finish(struct share *s, int *fd, const struct file *f)
{
	int err = f->target ? target_write(*fd, f->target) : 0;

	if (!err)
		err = mapped_write(*fd, f->attrs);
	if (!err)
		err = share_caller_label(s, *fd, f->cred);
	return !err && read_only(f) ? file_reopen(s, fd) : err;
}

static int file_link(struct share_inode *dir, const struct name *name, int fd)
{
	int dirfd = share_inode_fd(dir);

	if (dirfd < 0)
		return dirfd;
	if (linkat(dir->share->proc, share_path_fd_name(fd).s, dirfd, name->s, AT_SYMLINK_FOLLOW) <
	    0)
		return -errno;
	return 0;
}

/*
 * Where files cannot be without a name: for a moment it is there as ours and closed to others. And
 * where there can be none at all, as this is what says so in the words of open().
 */
static int file_make_named(struct share_inode *dir, const struct name *name, const struct file *f,
			   int *fd)
{
	auto_fd made = -1;
	int err = share_path_create(dir, name, f->flags, 0600, &made);

	if (err)
		return err;
	err = file_finish(dir->share, &made, f);
	if (err) {
		share_take_back(dir, name, S_IFREG);
		return err;
	}
	*fd = take_fd(&made);
	return 0;
}

/*
 * Complete first, and only then under its name: nobody, and no crash, ever meets a link or a device
 * as the file that it is on the host. name NULL: it gets none here.
 */
static int file_make(struct share_inode *dir, const struct name *name, const struct file *f,
		     int *fd)
{
	auto_owner scope = {0};
	auto_fd made = -1;
	int err = share_owner_enter(&scope, dir->share, f->cred, true);

	if (err)
		return err;
	err = share_path_tmpfile(dir, read_only(f) ? f->flags | O_RDWR : f->flags, 0600, &made);
	if (err && name)
		return file_make_named(dir, name, f, fd);
	if (!err)
		err = file_finish(dir->share, &made, f);
	if (!err && name)
		err = file_link(dir, name, made);
	if (err)
		return err;
	*fd = take_fd(&made);
	return 0;
}

static int dir_finish(struct share_inode *dir, const struct name *name, const struct mapped *m,
		      const struct cred *cred)
{
	auto_fd fd = -1;
	int err = share_path_open(dir, name, &fd);

	if (!err)
		err = mapped_write(fd, m);
	return err ? err : share_caller_label(dir->share, fd, cred);
}

/* A directory has its name from the start: until it is complete it is there as ours alone. */
static int dir_make(struct share_inode *dir, const struct name *name, const struct mapped *m,
		    const struct cred *cred)
{
	auto_owner scope = {0};
	int dirfd = share_inode_fd(dir), err;

	if (dirfd < 0)
		return dirfd;
	err = share_owner_enter(&scope, dir->share, cred, true);
	if (err)
		return err;
	if (mkdirat(dirfd, name->s, 0700) < 0)
		return -errno;
	err = dir_finish(dir, name, m, cred);
	if (err)
		share_take_back(dir, name, S_IFDIR);
	return err;
}

int share_mapped_make(struct share_inode *dir, const struct name *name,
		      const struct share_node *node, const struct cred *cred)
{
	const bool device = S_ISCHR(node->mode) || S_ISBLK(node->mode);
	mode_t mode =
		node->target ? S_IFLNK | 0777 : share_caller_mode(dir->share, cred, node->mode);
	struct mapped m = {.rdev = device ? node->rdev : 0, .special = !node->target};
	const struct file file = {&m, node->target, cred, O_RDWR};
	auto_fd fd = -1;
	int err = mapped_fill(dir, mode, cred, &m);

	if (err)
		return err;
	if (S_ISDIR(mode))
		return dir_make(dir, name, &m, cred);
	return file_make(dir, name, &file, &fd);
}

int share_mapped_create(struct share_inode *dir, const struct name *name, int flags, mode_t mode,
			const struct cred *cred, int *fd)
{
	struct mapped m = {0};
	const struct file file = {&m, NULL, cred, flags};
	int err;

	mode = S_IFREG | share_caller_mode(dir->share, cred, mode & 07777);
	err = mapped_fill(dir, mode, cred, &m);
	return err ? err : file_make(dir, name, &file, fd);
}

/* ---- links ---- */

ssize_t share_mapped_readlink(struct share_inode *inode, char *buf, size_t n)
{
	auto_fd fd = -1;
	int err = share_path_reopen_link(inode, &fd);
	ssize_t len;

	if (err)
		return err;
	len = read(fd, buf, MIN(n, (size_t)TARGET_MAX));
	return len < 0 ? -errno : len;
}
