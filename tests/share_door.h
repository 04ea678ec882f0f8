// SPDX-License-Identifier: Apache-2.0
/*
 * share_door.h - the share layer by its own door, for the tests of whose files they are: a directory under $TMPDIR, a
 * share of it, and the verbs with names in place of struct name.
 */
#ifndef TESTS_SHARE_DOOR_H
#define TESTS_SHARE_DOOR_H

#include "host_dir.h"
#include "tap.h"
#include "../devices/share_int.h"
#include "../vmm/sandbox.h"
#include <grp.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#define NOBODY 65534

#pragma GCC diagnostic ignored "-Wunused-function"

static struct {
	char top[300];
	int dir; /* the host's view */
	struct share *s;
	struct share_inode *root;
} door;

static const struct cred ROOT = {.uid = 0, .gid = 0};
static const struct cred USER = {.uid = 1000, .gid = 1001};

static void door_make(const char *name, uid_t uid, gid_t gid)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(door.top, sizeof(door.top), "%s/%s.XXXXXX", tmp ? tmp : "/tmp", name);
	need(mkdtemp(door.top));
	need(!chmod(door.top, 0755));
	if (geteuid() == 0)
		need(!chown(door.top, uid, gid));
	door.dir = open(door.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(door.dir >= 0);
}

static void door_remove(void)
{
	close(door.dir);
	need(!rmdir(door.top));
}

static int try_open_share(struct share_config cfg)
{
	struct share *s;
	int err;

	cfg.path = door.top;
	err = share_open(&s, "fs0", &cfg);
	if (!err)
		share_close(s);
	return err;
}

static void begin_with(struct share_config cfg)
{
	cfg.path = door.top;
	need(!share_open(&door.s, "fs0", &cfg));
	need(!share_thread_init(door.s));
	door.root = share_root(door.s);
}

static void begin(int owner)
{
	begin_with((struct share_config){.owner = owner});
}

static void finish(void)
{
	is(share_ninodes(door.s), 1, "nothing is left over");
	share_put(door.root);
	share_close(door.s);
	host_clear(door.dir);
}

static struct name nm(const char *s)
{
	struct name n;

	need(!name_check(&n, s, strlen(s)));
	return n;
}

static struct share_inode *find(const char *name)
{
	struct share_inode *inode;
	struct name n = nm(name);
	struct statx st;

	need(!share_lookup(door.root, &n, &inode, &st));
	return inode;
}

static int look_in(struct share_inode *dir, const char *name, struct statx *st)
{
	struct share_inode *inode;
	struct name n = nm(name);
	int err = share_lookup(dir, &n, &inode, st);

	if (!err)
		share_put(inode);
	return err;
}

static int look(const char *name, struct statx *st)
{
	return look_in(door.root, name, st);
}

static int create_in(struct share_inode *dir, const char *name, int flags, mode_t mode,
		     const struct cred *cred, struct statx *st)
{
	struct share_inode *inode;
	struct share_file *file;
	struct name n = nm(name);
	int err = share_create(dir, &n, flags, mode, cred, &inode, &file, st);

	if (!err) {
		share_file_close(file);
		share_put(inode);
	}
	return err;
}

static int create(const char *name, mode_t mode, const struct cred *cred, struct statx *st)
{
	return create_in(door.root, name, O_RDWR, mode, cred, st);
}

static int mkdir_in(struct share_inode *dir, const char *name, mode_t mode, const struct cred *cred,
		    struct statx *st)
{
	struct share_inode *inode;
	struct name n = nm(name);
	int err = share_mkdir(dir, &n, mode, cred, &inode, st);

	if (!err)
		share_put(inode);
	return err;
}

static int make_dir(const char *name, mode_t mode, const struct cred *cred, struct statx *st)
{
	return mkdir_in(door.root, name, mode, cred, st);
}

static int make_node(const char *name, mode_t mode, dev_t dev, const struct cred *cred,
		     struct statx *st)
{
	struct share_inode *inode;
	struct name n = nm(name);
	int err = share_mknod(door.root, &n, mode, dev, cred, &inode, st);

	if (!err)
		share_put(inode);
	return err;
}

static int make_symlink(const char *name, const char *target, const struct cred *cred,
			struct statx *st)
{
	struct share_inode *inode;
	struct name n = nm(name);
	int err = share_symlink(door.root, &n, target, cred, &inode, st);

	if (!err)
		share_put(inode);
	return err;
}

static int make_link(const char *name, const char *newname, struct statx *st)
{
	struct share_inode *inode = find(name);
	struct name n = nm(newname);
	int err = share_link(inode, door.root, &n, st);

	share_put(inode);
	return err;
}

static int make_tmpfile(mode_t mode, int flags, const struct cred *cred, const char *link,
			struct statx *st)
{
	struct share_inode *inode;
	struct share_file *file;
	struct statx linked;
	struct name n;
	int err = share_tmpfile(door.root, flags, mode, cred, &inode, &file, st);

	if (err)
		return err;
	if (link) {
		n = nm(link);
		err = share_link(inode, door.root, &n, &linked);
	}
	share_file_close(file);
	share_put(inode);
	return err;
}

static int remove_name(const char *name, int flags)
{
	struct name n = nm(name);

	return share_unlink(door.root, &n, flags);
}

static int set(const char *name, struct share_attr attr, struct statx *st)
{
	struct share_inode *inode = find(name);
	int err = share_setattr(inode, NULL, &attr, st);

	share_put(inode);
	return err;
}

static int set_owner(const char *name, uid_t uid, gid_t gid, struct statx *st)
{
	return set(name, (struct share_attr){.mask = SHARE_UID | SHARE_GID, .uid = uid, .gid = gid},
		   st);
}

static int set_mode(const char *name, mode_t mode, struct statx *st)
{
	return set(name, (struct share_attr){.mask = SHARE_MODE, .mode = mode}, st);
}

/* share_kill_priv() of a file that is open to be written. */
static int kill_by_file(const char *name)
{
	struct share_inode *inode = find(name);
	struct share_file *file;
	int err = share_open_inode(inode, O_WRONLY, &file);

	if (!err) {
		err = share_kill_priv(file);
		share_file_close(file);
	}
	share_put(inode);
	return err;
}

/* Says it only where it is not so. */
static bool shown(const struct statx *st, uid_t uid, gid_t gid, mode_t mode)
{
	if (st->stx_uid == uid && st->stx_gid == gid && st->stx_mode == mode)
		return true;
	printf("#   uid %u gid %u mode %o, want %u %u %o\n", st->stx_uid, st->stx_gid, st->stx_mode,
	       uid, gid, mode);
	return false;
}

static struct stat host_stat(const char *name)
{
	struct stat st;

	need(!fstatat(door.dir, name, &st, AT_SYMLINK_NOFOLLOW));
	return st;
}

static bool host_has(const char *name)
{
	return !faccessat(door.dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static void host_file(const char *name, const char *text, mode_t mode)
{
	int fd = openat(door.dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	need(fd >= 0);
	need(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	need(!fchmod(fd, mode));
	close(fd);
}

static void host_path(char path[600], const char *name)
{
	snprintf(path, 600, "%s/%s", door.top, name);
}

static int host_setxattr(const char *name, const char *attr, const void *value, size_t n)
{
	char path[600];

	host_path(path, name);
	return lsetxattr(path, attr, value, n, 0) < 0 ? -errno : 0;
}

static ssize_t host_getxattr(const char *name, const char *attr, void *value, size_t n)
{
	char path[600];
	ssize_t len;

	host_path(path, name);
	len = lgetxattr(path, attr, value, n);
	return len < 0 ? -errno : len;
}

/* A default ACL that names a user: u::rwx u:1234:rwx g::r-x m::rwx o::r-x. False: the file system has none. */
static bool host_default_acl(const char *name)
{
	static const unsigned char acl[] = {
		2, 0,    0,    0,    1,    0,    7,    0, 0xff, 0xff, 0xff, 0xff, 2,    0,    7,
		0, 0xd2, 4,    0,    0,    4,    0,    5, 0,    0xff, 0xff, 0xff, 0xff, 0x10, 0,
		7, 0,    0xff, 0xff, 0xff, 0xff, 0x20, 0, 5,    0,    0xff, 0xff, 0xff, 0xff,
	};

	return !host_setxattr(name, "system.posix_acl_default", acl, sizeof(acl));
}

/* Root of a user namespace may not, though it has the capability there. */
static bool host_takes_labels(void)
{
	char path[600];

	if (host_setxattr(".", "security.wherry", "x", 1))
		return false;
	host_path(path, ".");
	need(!lremovexattr(path, "security.wherry"));
	return true;
}

/* As a process of nobody's; its results are counted here. */
static void as_nobody(void (*fn)(void))
{
	int pipe_fd[2], counts[2], status;
	pid_t pid;

	need(!pipe2(pipe_fd, O_CLOEXEC));
	fflush(stdout);
	pid = fork();
	need(pid >= 0);
	if (pid == 0) {
		need(!setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
		     !setresuid(NOBODY, NOBODY, NOBODY));
		fn();
		counts[0] = tap_n;
		counts[1] = tap_failed;
		fflush(stdout);
		_exit(write(pipe_fd[1], counts, sizeof(counts)) != sizeof(counts));
	}
	close(pipe_fd[1]);
	need(waitpid(pid, &status, 0) == pid);
	need(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	need(read(pipe_fd[0], counts, sizeof(counts)) == sizeof(counts));
	close(pipe_fd[0]);
	tap_n = counts[0];
	tap_failed = counts[1];
}

#endif
