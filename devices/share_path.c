// SPDX-License-Identifier: Apache-2.0
/*
 * share_path.c - the only file that opens: by name, or an object again.
 *
 * A guest must not leave the share, so there is one way down: a single checked component, under the
 * descriptor of a directory of the table, never following anything, and what was opened is asked
 * afterwards what it is. The final component being the only one, O_NOFOLLOW alone would do; openat2
 * makes the kernel hold to it as well. For I/O an object is opened again through its own
 * descriptor, so that no name is looked at twice, and only if it is a regular file or a directory:
 * a fifo would block, a device node is the host's device. Mount points below the share are crossed
 * on purpose. Thread: the owner's. Calls: log.h. Spec: openat2(2), proc_pid_fd(5).
 */
#include "share_int.h"
#include <assert.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

/* How often a lookup is made anew because the host renamed something underneath. */
#define RACE_TRIES 16

/* No name by which an object is opened again is longer than a decimal int. */
struct fd_name share_path_fd_name(int fd)
{
	struct fd_name n = {{0}};
	unsigned left = (unsigned)fd, len = 1;

	/* By hand: every opening needs it, and snprintf() takes longer than all else we do for one. */
	for (unsigned v = left; v >= 10; v /= 10)
		len++;
	for (; len; left /= 10)
		n.s[--len] = (char)('0' + left % 10);
	return n;
}

/*
 * The guest knows nothing of our process: its table being full is the file system's table being
 * full, and an object that kept moving while it was opened is one to look for again.
 */
static int open_errno(struct share *s)
{
	switch (errno) {
	case EMFILE:
	case ENFILE:
		return share_out_of_fds(s, errno);
	case EXDEV:
	case EAGAIN:
		return -ESTALE;
	default:
		return -errno;
	}
}

/* The table of the process or the host was full, and idle objects have made room: once. */
static bool worth_a_try(struct share *s, bool *tried)
{
	const int error = errno;

	if (*tried || (error != EMFILE && error != ENFILE))
		return false;
	*tried = true;
	if (share_yield(s))
		return true;
	errno = error;
	return false;
}

/* By number, as the C library has no name for openat2. */
static int openat2_beneath(int dirfd, const char *name, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (unsigned)flags,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
	};

	return (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
}

/*
 * EXDEV and EAGAIN: the kernel could not tell whether the object stayed beneath, as it was being
 * renamed.
 */
static int open_beneath(const struct share *s, int dirfd, const char *name, int flags, mode_t mode)
{
	int fd = -1;

	flags |= O_NOFOLLOW | O_CLOEXEC;
	if (!s->openat2)
		return openat(dirfd, name, flags, mode);
	for (unsigned i = 0; i < RACE_TRIES; i++) {
		fd = openat2_beneath(dirfd, name, flags, mode);
		if (fd >= 0 || (errno != EXDEV && errno != EAGAIN))
			break;
	}
	return fd;
}

int share_path_open(struct share_inode *dir, const struct name *name, int *fd)
{
	int dirfd = share_inode_fd(dir), opened;
	bool tried = false;

	if (dirfd < 0)
		return dirfd;
	do
		opened = open_beneath(dir->share, dirfd, name->s, O_PATH, 0);
	while (opened < 0 && worth_a_try(dir->share, &tried));
	if (opened < 0)
		return open_errno(dir->share);
	*fd = opened;
	return 0;
}

/*
 * EISDIR is what kernels say whose open() knows no such files. To be written it must be open, else
 * nobody could ever fill it.
 */
int share_path_tmpfile(struct share_inode *dir, int flags, mode_t mode, int *fd)
{
	const int keep = O_ACCMODE | O_SYNC | O_DSYNC | O_EXCL;
	int dirfd = share_inode_fd(dir), opened;
	bool tried = false;

	if (dirfd < 0)
		return dirfd;
	flags = (flags & keep) | O_TMPFILE;
	do
		opened = open_beneath(dir->share, dirfd, ".", flags, mode & 07777);
	while (opened < 0 && worth_a_try(dir->share, &tried));
	if (opened < 0)
		return errno == EISDIR ? -EOPNOTSUPP : open_errno(dir->share);
	*fd = opened;
	return 0;
}

int share_path_step(struct share *s, int dirfd, const char *name, int *fd)
{
	int opened = open_beneath(s, dirfd, name, O_PATH, 0);

	if (opened < 0)
		return -errno;
	*fd = opened;
	return 0;
}

int share_path_create(struct share_inode *dir, const struct name *name, int flags, mode_t mode,
		      int *fd)
{
	int dirfd = share_inode_fd(dir), opened;
	bool tried = false;

	if (dirfd < 0)
		return dirfd;
	flags |= O_CREAT | O_EXCL;
	do /* openat2 refuses mode bits that openat ignores */
		opened = open_beneath(dir->share, dirfd, name->s, flags, mode & 07777);
	while (opened < 0 && worth_a_try(dir->share, &tried));
	if (opened < 0)
		return open_errno(dir->share);
	*fd = opened;
	return 0;
}

/*
 * The entry of an open descriptor is always there: ENOENT and the like speak of the object, which
 * is gone.
 */
static int open_again(struct share *s, int fd, int flags, int *out)
{
	bool tried = false;
	int opened;

	do
		opened = openat(s->proc, share_path_fd_name(fd).s, flags | O_CLOEXEC);
	while (opened < 0 && worth_a_try(s, &tried));
	if (opened < 0)
		return errno == ENOENT ? -ESTALE : open_errno(s);
	*out = opened;
	return 0;
}

int share_path_again(struct share *s, int io_fd, int flags, int *fd)
{
	return open_again(s, io_fd, flags | O_NOCTTY, fd);
}

int share_path_pin(struct share *s, int io_fd, int *fd)
{
	return open_again(s, io_fd, O_PATH, fd);
}

int share_path_dir(struct share *s, int fd, int *dir)
{
	return open_again(s, fd, O_RDONLY | O_DIRECTORY, dir);
}

/* What Linux says to those that may not be opened, had they been met with O_NOFOLLOW. */
static int openable(mode_t type, int flags)
{
	switch (type) {
	case S_IFREG:
		return flags & O_DIRECTORY ? -ENOTDIR : 0;
	case S_IFDIR:
		return (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC ? -EISDIR : 0;
	case S_IFLNK:
		return -ELOOP;
	default:
		return -ENXIO;
	}
}

static bool is_door_fs(int fd)
{
	static const unsigned doors[] = {PROC_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC};
	uninit struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return true;
	for (unsigned i = 0; i < ARRAY_LEN(doors); i++)
		if ((unsigned)fs.f_type == doors[i])
			return true;
	return false;
}

/*
 * Some kernel file systems have doors where others have files: /proc/self/mem is our own memory, kmsg and trace_pipe
 * never end, core_pattern runs programs. A share of / has them below it; they may be listed, not opened. The share's
 * own file system was asked at the start.
 */
static bool is_door(const struct share_inode *inode, int fd)
{
	const struct share_inode *root = inode->share->root;

	if (inode->type != S_IFREG ||
	    (inode->key.mnt == root->key.mnt && inode->key.dev == root->key.dev))
		return false;
	return is_door_fs(fd);
}

/*
 * The type was asked of the very inode that is opened here, so there is no moment at which it could
 * become another.
 */
int share_path_reopen(struct share_inode *inode, int flags, int *fd)
{
	int err = openable(inode->type, flags), path_fd;

	if (err)
		return err;
	path_fd = share_inode_fd(inode);
	if (path_fd < 0)
		return path_fd;
	if (is_door(inode, path_fd))
		return -EACCES;
	return open_again(inode->share, path_fd, flags | O_NOCTTY, fd);
}

/*
 * Shown as a link, and not one of the host's, it is a regular file: nothing else stands for another
 * thing, and an inode's type stays. Those file systems that have doors have no attributes for it.
 */
int share_path_reopen_link(struct share_inode *inode, int *fd)
{
	int path_fd = share_inode_fd(inode);

	assert(inode->share->mapped && inode->type == S_IFLNK);
	if (path_fd < 0)
		return path_fd;
	return open_again(inode->share, path_fd, O_RDONLY | O_NOCTTY, fd);
}

int share_path_init(struct share *s, const char *name)
{
	s->proc = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->proc >= 0)
		return 0;
	log_err("%s: /proc/self/fd (%s): %m", name,
		log_remedy(errno, "a share needs /proc mounted when it starts"));
	return -errno;
}

static const char *remedy(int error)
{
	switch (error) {
	case ENOENT:
		return "create it or correct \"path\"";
	case ENOTDIR:
		return "\"path\" must name a directory";
	case EACCES:
	case EPERM:
		return "this user needs the right to read and search it";
	case EOPNOTSUPP:
		return "procfs, debugfs and tracefs are not shared: choose another directory for "
		       "\"path\"";
	default:
		return log_remedy(error, "the directory cannot be shared");
	}
}

/*
 * Reading and searching are tried, as O_PATH promises neither; the second trial also tells if
 * openat2 is there.
 */
static int root_try(struct share *s, int fd)
{
	auto_fd readable = -1;
	auto_fd searchable = -1;
	int err = open_again(s, fd, O_RDONLY | O_DIRECTORY, &readable);

	if (!err && is_door_fs(fd))
		err = -EOPNOTSUPP; /* procfs, debugfs, tracefs: see is_door() */
	if (err)
		return err;
	searchable = openat2_beneath(fd, ".", O_PATH | O_CLOEXEC, 0);
	s->openat2 = searchable >= 0;
	if (s->openat2)
		return 0;
	if (errno != ENOSYS && errno != EPERM)
		return -errno;
	searchable = openat(fd, ".", O_PATH | O_CLOEXEC);
	return searchable < 0 ? -errno : 0;
}

int share_path_root(struct share *s, const char *name, const char *path, int *fd)
{
	auto_fd opened = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int err = opened < 0 ? -errno : root_try(s, opened);

	if (err) {
		errno = -err;
		log_err("%s: %s: %s: %m", name, path, remedy(-err));
		return err;
	}
	*fd = take_fd(&opened);
	return 0;
}
