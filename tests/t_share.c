// SPDX-License-Identifier: Apache-2.0
/*
 * t_share.c - the share layer by its own door: every verb, honest and hostile, on a real directory.
 *
 * Runs as root (passthrough, device nodes, mounts) and as anyone else (squash); what needs the one
 * or the other says so when it is left out. The tree is made under $TMPDIR. Nothing here waits for
 * time to pass.
 */
#include "host_dir.h"
#include "capture.h"
#include "tap.h"
#include "../devices/share_int.h"
#include "../vmm/sandbox.h"
#include <dirent.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

static char top[512];      /* the test's own directory; the shared one is "share" in it */
static int share_dir;      /* host's view of the shared one */
static int share_dir_file; /* a descriptor of what is no directory */
static bool privileged;
static bool acts;       /* has other users to act as */
static bool own_mounts; /* in a mount namespace of the test's own */
static const struct cred ROOT = {.uid = 0, .gid = 0};

/* ---- helpers ---- */

static struct name nm(const char *s)
{
	struct name n;

	need(name_check(&n, s, strlen(s)) == 0);
	return n;
}

static struct share *open_path(const char *path, bool readonly, int owner, uint32_t budget)
{
	char copy[600];
	struct share_config cfg = {
		.path = copy, .readonly = readonly, .owner = owner, .fd_budget = budget};
	struct share *s;

	snprintf(copy, sizeof(copy), "%s", path);
	return share_open(&s, "fs0", &cfg) == 0 ? s : NULL;
}

static struct share *open_share(bool readonly, int owner, uint32_t budget)
{
	char path[600];
	struct share *s;

	snprintf(path, sizeof(path), "%s/share", top);
	s = open_path(path, readonly, owner, budget);
	need(s);
	return s;
}

static void host_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	need(fd >= 0);
	need(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static struct share_inode *find(struct share_inode *dir, const char *name)
{
	struct share_inode *inode = NULL;
	struct name n = nm(name);
	struct statx st;

	need(share_lookup(dir, &n, &inode, &st) == 0);
	return inode;
}

static int try_lookup(struct share_inode *dir, const char *name)
{
	struct share_inode *inode;
	struct name n = nm(name);
	struct statx st;
	int err = share_lookup(dir, &n, &inode, &st);

	if (!err)
		share_put(inode);
	return err;
}

static int try_open(struct share_inode *inode, int flags)
{
	struct share_file *file;
	int err = share_open_inode(inode, flags, &file);

	if (!err)
		share_file_close(file);
	return err;
}

static int try_create(struct share_inode *dir, const char *name, int flags, mode_t mode,
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

static int try_mkdir(struct share_inode *dir, const char *name, mode_t mode,
		     const struct cred *cred, struct statx *st)
{
	struct share_inode *inode;
	struct name n = nm(name);
	int err = share_mkdir(dir, &n, mode, cred, &inode, st);

	if (!err)
		share_put(inode);
	return err;
}

static int try_mknod(struct share_inode *dir, const char *name, mode_t mode, dev_t dev,
		     const struct cred *cred, struct statx *st)
{
	struct share_inode *inode;
	struct name n = nm(name);
	int err = share_mknod(dir, &n, mode, dev, cred, &inode, st);

	if (!err)
		share_put(inode);
	return err;
}

static int try_symlink(struct share_inode *dir, const char *name, const char *target)
{
	struct share_inode *inode;
	struct name n = nm(name);
	struct statx st;
	int err = share_symlink(dir, &n, target, &ROOT, &inode, &st);

	if (!err)
		share_put(inode);
	return err;
}

static int try_link(struct share_inode *inode, struct share_inode *dir, const char *name,
		    struct statx *st)
{
	struct name n = nm(name);

	return share_link(inode, dir, &n, st);
}

static int try_unlink(struct share_inode *dir, const char *name, int flags)
{
	struct name n = nm(name);

	return share_unlink(dir, &n, flags);
}

static int try_rename(struct share_inode *dir, const char *name, struct share_inode *newdir,
		      const char *newname, unsigned flags)
{
	struct name n = nm(name), m = nm(newname);

	return share_rename(dir, &n, newdir, &m, flags);
}

static int set(struct share_inode *inode, const struct share_attr *attr, struct statx *st)
{
	return share_setattr(inode, NULL, attr, st);
}

struct seen {
	uint64_t ino, next;
	unsigned char type;
	char name[256];
};
struct listing {
	struct seen *e;
	unsigned n, room;
};

static enum share_put collect(void *ctx, const struct share_dirent *d)
{
	struct listing *l = ctx;
	struct seen *e = &l->e[l->n];

	if (l->n == l->room)
		return SHARE_NO_ROOM;
	*e = (struct seen){.ino = d->ino, .next = d->next, .type = d->type};
	memcpy(e->name, d->name, d->len);
	l->n++;
	return SHARE_PUT;
}

/* Takes nothing; at the last entry the directory goes bad: what is read after it fails. */
static enum share_put skip_all(void *ctx, const struct share_dirent *d)
{
	struct share_file *file = ctx;

	(void)d;
	need(dup3(share_dir_file, file->io.fd, O_CLOEXEC) >= 0);
	return SHARE_SKIPPED;
}

/* At most room entries after the cookie off; the caller frees e. */
static struct listing list_from(struct share_file *file, uint64_t off, unsigned room)
{
	struct listing l = {.e = calloc(room, sizeof(struct seen)), .room = room};

	need(l.e);
	need(share_readdir(file, off, collect, &l) == 0);
	return l;
}

static struct seen *listed(struct listing *l, const char *name)
{
	for (unsigned i = 0; i < l->n; i++)
		if (!strcmp(l->e[i].name, name))
			return &l->e[i];
	return NULL;
}

static struct share_file *open_dir(struct share_inode *inode)
{
	struct share_file *file;

	need(share_open_inode(inode, O_RDONLY | O_DIRECTORY, &file) == 0);
	return file;
}

/*
 * In place of libc's: when asked, it makes the cookies of a file system that uses all 64 bits,
 * which lseek refuses. By number, since it is libc's that is replaced.
 */
static bool high_cookies;
static unsigned getdents_calls;

ssize_t getdents64(int fd, void *buf, size_t size)
{
	ssize_t n = syscall(SYS_getdents64, fd, buf, size);

	getdents_calls++;
	for (ssize_t at = 0; high_cookies && at < n;) {
		struct dirent64 *d = (struct dirent64 *)((char *)buf + at);

		d->d_off |= INT64_MIN;
		at += d->d_reclen;
	}
	return n;
}

/* ---- names and set-up ---- */

static void test_names(void)
{
	char long_name[257];
	struct name n = {.s = "kept"};

	memset(long_name, 'n', sizeof(long_name));
	is(name_check(&n, "", 0), -EINVAL, "an empty name is refused");
	is(name_check(&n, ".", 1), -EINVAL, "the name . is refused");
	is(name_check(&n, "..", 2), -EINVAL, "the name .. is refused");
	is(name_check(&n, "a/b", 3), -EINVAL, "a name with a slash is refused");
	is(name_check(&n, "a\0b", 3), -EINVAL, "a name with a NUL inside is refused");
	is(name_check(&n, long_name, 256), -ENAMETOOLONG, "a name of 256 bytes is too long");
	ok(!strcmp(n.s, "kept"), "a refused name leaves the result alone");
	is(name_check(&n, long_name, 255), 0, "a name of 255 bytes is accepted");
	ok(strlen(n.s) == 255, "and it is whole");
	is(name_check(&n, "...", 3), 0, "three dots are a name");
	is(name_check(&n, ".x", 2), 0, "a name may begin with a dot");
}

static int open_error(const char *path, int owner, uint32_t budget)
{
	char copy[600];
	struct share_config cfg = {.path = copy, .owner = owner, .fd_budget = budget};
	struct share *s = NULL;
	int err;

	snprintf(copy, sizeof(copy), "%s/%s", top, path);
	err = share_open(&s, "fs0", &cfg);
	if (!err)
		share_close(s);
	else
		ok(!s, "a share that was not opened is not handed out");
	return err;
}

static unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	need(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void test_set_up(void)
{
	unsigned before = open_descriptors();
	char link[600];
	struct share *s;

	host_file(share_dir, "plain", "x");
	is(open_error("share/nothing", SHARE_OWNER_AUTO, 0), -ENOENT,
	   "a missing directory is refused");
	is(open_error("share/plain", SHARE_OWNER_AUTO, 0), -ENOTDIR, "a file is refused");
	is(open_error("share", SHARE_OWNER_AUTO, 1), -EINVAL,
	   "a budget too small to open a file is refused");
	if (acts)
		is(open_error("share", SHARE_OWNER_PASSTHROUGH, 0), 0, "root may pass ids through");
	else
		is(open_error("share", SHARE_OWNER_PASSTHROUGH, 0), -EPERM,
		   "passthrough without root is refused");
	need(mkdirat(share_dir, "closed", 0000) == 0);
	if (privileged)
		skip("root may read everything", "a directory without rights is refused");
	else
		is(open_error("share/closed", SHARE_OWNER_AUTO, 0), -EACCES,
		   "a directory without rights is refused");
	snprintf(link, sizeof(link), "%s/link", top);
	need(symlink("share", link) == 0);
	s = open_path(link, false, SHARE_OWNER_AUTO, 0);
	ok(s && try_lookup(s->root, "plain") == 0,
	   "the directory may be named through a symbolic link");
	share_close(s);
	s = open_path("/", true, SHARE_OWNER_AUTO, 0);
	ok(s && try_lookup(s->root, "proc") == 0, "the root directory of the host can be shared");
	share_close(s);
	s = open_share(false, SHARE_OWNER_AUTO, 0);
	ok(s->squash == !acts, "auto passes ids through for root and squashes them for others");
	ok(s->budget > 0 && s->budget < 20000000,
	   "the default budget comes from the process limit");
	share_close(s);
	is(open_descriptors(), before, "shares that are closed or failed leave no descriptor");
	host_clear(share_dir);
}

/* ---- objects ---- */

static void test_objects(struct share *s, struct share_inode *root)
{
	struct share_inode *a, *b, *dir;
	struct name n = nm("file");
	struct stat host;
	struct statx st;

	host_file(share_dir, "file", "hello");
	need(mkdirat(share_dir, "dir", 0755) == 0);
	need(linkat(share_dir, "file", share_dir, "dir/again", 0) == 0);
	need(fstatat(share_dir, "file", &host, 0) == 0);
	is(share_lookup(root, &n, &a, &st), 0, "a name is found");
	is(st.stx_ino, host.st_ino, "on the root's file system the number shown is the host's");
	is(share_ino(a), st.stx_ino, "and it is share_ino()");
	ok(st.stx_size == 5 && S_ISREG(st.stx_mode) && st.stx_nlink == 2,
	   "the attributes are the host's");
	dir = find(root, "dir");
	b = find(dir, "again");
	ok(a == b, "an object found by two names is one object");
	is(share_ninodes(s), 3, "the table holds each object once");
	share_put(b);
	is(try_lookup(root, "missing"), -ENOENT, "a missing name is ENOENT");
	is(try_lookup(a, "x"), -ENOTDIR, "there is nothing under a file");
	need(unlinkat(share_dir, "file", 0) == 0 && unlinkat(share_dir, "dir/again", 0) == 0);
	is(share_getattr(a, NULL, &st), 0, "an object whose names are gone still has attributes");
	is(st.stx_nlink, 0, "and no links");
	share_put(a);
	need(unlinkat(share_dir, "dir", AT_REMOVEDIR) == 0);
	is(try_lookup(dir, "x"), -ENOENT, "a removed directory is empty");
	is(try_mkdir(dir, "x", 0755, &ROOT, &st), -ENOENT,
	   "nothing can be made in a removed directory");
	share_put(dir);
	is(share_ninodes(s), 1, "only the root stays when all is put back");
}

static void test_statfs(struct share *s, struct share_inode *root)
{
	struct statfs host, st;

	(void)s;
	need(fstatfs(share_dir, &host) == 0);
	is(share_statfs(root, &st), 0, "statfs answers");
	ok(st.f_type == host.f_type && st.f_blocks == host.f_blocks && st.f_bsize == host.f_bsize,
	   "and it is the host's file system");
}

static void test_symlinks(struct share *s, struct share_inode *root)
{
	char target[4097], buf[4096];
	struct share_inode *link, *file;
	struct share_attr attr = {.mask = SHARE_MTIME, .mtime = {.tv_sec = -5, .tv_nsec = 7}};
	struct statx st;

	host_file(share_dir, "target", "x");
	is(try_symlink(root, "escape", "/etc/passwd"), 0,
	   "a symbolic link to anywhere is just data");
	link = find(root, "escape");
	ok(link->type == S_IFLNK, "a lookup gives the link, not what it names");
	is(share_readlink(link, buf, sizeof(buf)), 11, "readlink gives the length without a NUL");
	ok(!memcmp(buf, "/etc/passwd", 11), "and the target");
	is(try_open(link, O_RDONLY), -ELOOP, "a symbolic link is not opened");
	is(try_lookup(link, "x"), -ENOTDIR, "and not walked through");
	is(try_create(root, "escape", O_RDWR, 0644, &ROOT, &st), -ELOOP, "nor created over");
	is(set(link, &attr, &st), 0, "a symbolic link's times can be set");
	ok(st.stx_mtime.tv_sec == -5 && st.stx_mtime.tv_nsec == 7,
	   "on the link itself, before 1970");
	attr = (struct share_attr){.mask = SHARE_SIZE, .size = 0};
	is(set(link, &attr, &st), -EINVAL, "a symbolic link cannot be truncated");
	is(try_link(link, root, "escape2", &st), 0, "a symbolic link can be linked");
	ok(st.stx_nlink == 2 && S_ISLNK(st.stx_mode), "as itself");
	share_put(link);
	file = find(root, "target");
	is(share_readlink(file, buf, sizeof(buf)), -EINVAL,
	   "what is no symbolic link has no target");
	share_put(file);
	memset(target, 't', sizeof(target));
	target[4096] = '\0';
	is(try_symlink(root, "toolong", target), -ENAMETOOLONG,
	   "a target of 4096 bytes is too long");
	target[4095] = '\0';
	is(try_symlink(root, "long", target), 0, "a target of 4095 bytes is fine");
	link = find(root, "long");
	is(share_readlink(link, buf, sizeof(buf)), 4095, "and comes back whole");
	share_put(link);
	is(try_symlink(root, "none", ""), -ENOENT, "an empty target is refused");
	is(share_ninodes(s), 1, "nothing is left over");
}

static void special(struct share_inode *root, const char *name, mode_t type)
{
	struct share_inode *inode = find(root, name);
	struct share_attr attr = {.mask = SHARE_MODE, .mode = 0600};
	struct statx st;

	ok(inode->type == type, "%s is seen as what it is", name);
	is(try_open(inode, O_RDONLY), -ENXIO, "%s is never opened to read", name);
	is(try_open(inode, O_RDWR | O_TRUNC), -ENXIO, "%s is never opened to write", name);
	is(try_create(root, name, O_WRONLY, 0644, &ROOT, &st), -ENXIO, "%s is not created over",
	   name);
	is(try_create(root, name, O_WRONLY | O_EXCL, 0644, &ROOT, &st), -EEXIST, "%s exists", name);
	is(set(inode, &attr, &st), 0, "%s has a mode that can be changed", name);
	ok((st.stx_mode & 07777) == 0600, "and it was");
	attr = (struct share_attr){.mask = SHARE_SIZE};
	is(set(inode, &attr, &st), -EINVAL, "%s cannot be truncated", name);
	is(try_link(inode, root, "hard", &st), 0, "%s can be linked", name);
	is(try_unlink(root, "hard", 0), 0, "%s can be unlinked", name);
	share_put(inode);
}

static void test_special_files(struct share *s, struct share_inode *root)
{
	struct statx st;

	is(try_mknod(root, "fifo", S_IFIFO | 0644, 0, &ROOT, &st), 0, "a fifo is made");
	is(try_mknod(root, "sock", S_IFSOCK | 0644, 0, &ROOT, &st), 0, "a socket is made");
	special(root, "fifo", S_IFIFO);
	special(root, "sock", S_IFSOCK);
	is(try_mknod(root, "file", S_IFREG | 0640, 0, &ROOT, &st), 0, "mknod makes regular files");
	ok(S_ISREG(st.stx_mode) && (st.stx_mode & 07777) == 0640, "with their mode");
	is(try_mknod(root, "dir", S_IFDIR | 0755, 0, &ROOT, &st), -EINVAL,
	   "mknod makes no directories");
	is(try_mknod(root, "link", S_IFLNK | 0755, 0, &ROOT, &st), -EINVAL, "nor symbolic links");
	is(try_mknod(root, "odd", 0170000, 0, &ROOT, &st), -EINVAL, "nor what has no type");
	if (try_mknod(root, "null", S_IFCHR | 0666, makedev(1, 3), &ROOT, &st)) {
		skip("no right to make device nodes here", "a device node is not opened");
	} else {
		ok(st.stx_rdev_major == 1 && st.stx_rdev_minor == 3,
		   "a device node keeps its numbers");
		special(root, "null", S_IFCHR);
	}
	is(share_ninodes(s), 1, "nothing is left over");
}

/* ---- attributes ---- */

static void test_setattr(struct share *s, struct share_inode *root)
{
	struct share_attr attr = {
		.mask = SHARE_MODE | SHARE_SIZE, .mode = S_IFDIR | 04751, .size = 5ull << 40};
	struct share_inode *file, *dir;
	struct share_file *open_file;
	struct statx st, old;

	host_file(share_dir, "file", "12345");
	need(mkdirat(share_dir, "dir", 0755) == 0);
	file = find(root, "file");
	dir = find(root, "dir");
	is(set(file, &attr, &st), 0, "mode and size together");
	is(st.stx_mode, S_IFREG | 04751,
	   "only the permission bits of a mode count, and truncating does not clear them");
	ok(st.stx_size == 5ull << 40 && st.stx_blocks < 100, "a file may be 5 TiB of holes");
	attr = (struct share_attr){.mask = SHARE_SIZE, .size = 1ull << 63};
	is(set(file, &attr, &st), -EINVAL, "a size beyond 63 bits is refused");
	attr.size = 0;
	is(set(dir, &attr, &st), -EISDIR, "a directory has no size to set");

	attr = (struct share_attr){.mask = SHARE_ATIME,
				   .atime = {.tv_sec = 1000, .tv_nsec = 123456789}};
	need(share_getattr(file, NULL, &old) == 0);
	is(set(file, &attr, &st), 0, "one time alone");
	ok(st.stx_atime.tv_sec == 1000 && st.stx_atime.tv_nsec == 123456789,
	   "is set to the nanosecond");
	ok(!memcmp(&st.stx_mtime, &old.stx_mtime, sizeof(st.stx_mtime)),
	   "and leaves the other alone");
	attr = (struct share_attr){.mask = SHARE_MTIME, .mtime = {.tv_nsec = UTIME_NOW}};
	is(set(file, &attr, &st), 0, "a time may be the host's now");
	ok(st.stx_mtime.tv_sec > 1000000000, "and is");
	attr.mtime.tv_nsec = 1000000000;
	is(set(file, &attr, &st), -EINVAL, "a second has less than a thousand million nanoseconds");
	attr = (struct share_attr){.mask = SHARE_SIZE | SHARE_MTIME, .mtime = {.tv_sec = 77}};
	is(set(file, &attr, &st), 0, "size and time together");
	is(st.stx_mtime.tv_sec, 77, "the time wins over what truncating sets");

	need(share_open_inode(file, O_RDWR, &open_file) == 0);
	need(fchmodat(share_dir, "file", 0444, 0) == 0);
	attr = (struct share_attr){.mask = SHARE_SIZE, .size = 3};
	is(share_setattr(file, open_file, &attr, &st), 0,
	   "an open file is truncated whatever its mode became");
	is(st.stx_size, 3, "and was");
	if (privileged)
		skip("root may write everything", "without the open file the mode counts");
	else
		is(set(file, &attr, &st), -EACCES, "without the open file the mode counts");
	share_file_close(open_file);
	share_put(file);
	share_put(dir);
	is(share_ninodes(s), 1, "nothing is left over");
}

static void test_unlinked(struct share *s, struct share_inode *root)
{
	struct share_attr attr = {.mask = SHARE_MODE | SHARE_SIZE | SHARE_MTIME,
				  .mode = 0600,
				  .size = 2,
				  .mtime = {.tv_sec = 9}};
	struct share_inode *old, *new;
	struct share_file *file;
	struct statx st;

	host_file(share_dir, "victim", "victim");
	host_file(share_dir, "winner", "winner!");
	old = find(root, "victim");
	new = find(root, "winner");
	is(try_rename(root, "winner", root, "victim", 0), 0,
	   "a rename replaces a file that is known");
	ok(find(root, "victim") == new, "the name now means the other object");
	share_put(new);
	is(share_open_inode(old, O_RDWR, &file), 0, "the replaced one can still be opened");
	is(share_getattr(old, file, &st), 0, "and asked");
	ok(st.stx_size == 6 && st.stx_nlink == 0, "and is itself");
	is(share_setattr(old, file, &attr, &st), 0, "and changed through the open file");
	ok(st.stx_size == 2 && (st.stx_mode & 07777) == 0600 && st.stx_mtime.tv_sec == 9,
	   "in all ways");
	attr.size = 4;
	is(set(old, &attr, &st), 0, "and without it");
	is(st.stx_size, 4, "still the same file");
	is(try_link(old, root, "back", &st), -ENOENT, "but what has no name left gets no new one");
	share_file_close(file);
	share_put(old);
	share_put(new);
	is(share_ninodes(s), 1, "nothing is left over");
}

/* ---- names ---- */

static void test_names_change(struct share *s, struct share_inode *root)
{
	struct share_inode *a, *sub;
	struct statx st;

	is(try_mkdir(root, "sub", 0751, &ROOT, &st), 0, "a directory is made");
	ok(S_ISDIR(st.stx_mode) && (st.stx_mode & 07777) == 0751, "with its mode");
	is(try_mkdir(root, "sub", 0755, &ROOT, &st), -EEXIST, "once");
	is(try_create(root, "a", O_RDWR, 0640, &ROOT, &st), 0, "a file is created");
	ok(S_ISREG(st.stx_mode) && (st.stx_mode & 07777) == 0640, "with its mode");
	sub = find(root, "sub");
	a = find(root, "a");
	is(try_link(a, sub, "b", &st), 0, "a file is linked into another directory");
	is(st.stx_nlink, 2, "and the link is counted");
	is(try_link(a, sub, "b", &st), -EEXIST, "a taken name is refused");
	is(try_link(sub, root, "c", &st), -EPERM, "directories are not linked");
	is(try_unlink(root, "sub", 0), -EISDIR, "unlink takes no directory");
	is(try_unlink(root, "a", AT_REMOVEDIR), -ENOTDIR, "rmdir takes no file");
	is(try_unlink(root, "sub", AT_REMOVEDIR), -ENOTEMPTY, "rmdir takes no full directory");
	is(try_unlink(root, "a", AT_REMOVEDIR | AT_EMPTY_PATH), -EINVAL,
	   "unknown flags of unlink are refused");
	is(try_rename(root, "a", sub, "b", RENAME_NOREPLACE), -EEXIST,
	   "a rename can refuse to replace");
	is(try_rename(root, "sub", sub, "x", 0), -EINVAL, "a directory does not go into itself");
	is(try_rename(root, "a", root, "sub", 0), -EISDIR, "a file does not replace a directory");
	is(try_rename(root, "sub", root, "a", 0), -ENOTDIR, "a directory does not replace a file");
	is(try_rename(root, "a", root, "z", 0x80), -EINVAL, "unknown flags of rename are refused");
	is(try_rename(root, "gone", root, "z", 0), -ENOENT, "what is not there is not renamed");
	is(try_rename(root, "a", root, "sub", RENAME_EXCHANGE), 0, "two names can be exchanged");
	ok(find(root, "sub") == a && find(root, "a") == sub, "and both objects live on");
	share_put(a);
	share_put(sub);
	is(try_rename(root, "sub", sub, "c", 0), 0, "a file moves to another directory");
	ok(find(sub, "c") == a, "and is the same object");
	share_put(a);
	is(try_unlink(sub, "b", 0), 0, "a name is removed");
	is(try_unlink(sub, "c", 0), 0, "and the last one");
	is(try_unlink(root, "a", AT_REMOVEDIR), 0, "and the empty directory");
	is(try_unlink(root, "a", 0), -ENOENT, "once");
	share_put(a);
	share_put(sub);
	is(share_ninodes(s), 1, "nothing is left over");
}

static void test_create(struct share *s, struct share_inode *root)
{
	struct share_inode *inode, *dir;
	struct share_file *file;
	struct name n = nm("new");
	struct statx st;
	int flags;

	is(share_create(root, &n, O_WRONLY | O_APPEND | O_DIRECT | O_NOATIME | O_SYNC | O_NONBLOCK,
			0444, &ROOT, &inode, &file, &st),
	   0, "a file is created with flags of all kinds");
	flags = fcntl(file->io.fd, F_GETFL);
	ok(!(flags & (O_APPEND | O_DIRECT | O_NOATIME | O_NONBLOCK)),
	   "those that are the guest's own stay there");
	ok((flags & O_SYNC) == O_SYNC && (flags & O_ACCMODE) == O_WRONLY,
	   "the others reach the host");
	ok(share_file_inode(file) == inode, "an open file knows its object");
	is(pwrite(file->io.fd, "12345", 5, 0), 5, "the creator writes, whatever the mode says");
	ok(find(root, "new") == inode, "the object is the one a lookup finds");
	share_put(inode);
	share_file_close(file);
	share_put(inode);
	is(try_create(root, "new", O_RDWR | O_EXCL, 0644, &ROOT, &st), -EEXIST,
	   "exclusive creation of what is there");
	need(fchmodat(share_dir, "new", 0644, 0) == 0);
	is(try_create(root, "new", O_RDWR, 0600, &ROOT, &st), 0,
	   "creation of what is there opens it");
	ok(st.stx_size == 5 && (st.stx_mode & 07777) == 0644, "as it is");
	is(try_create(root, "new", O_RDWR | O_TRUNC, 0600, &ROOT, &st), 0, "or emptied");
	is(st.stx_size, 0, "and says so");
	is(try_create(root, "new", O_ACCMODE, 0600, &ROOT, &st), -EINVAL, "access mode 3 is none");
	need(mkdirat(share_dir, "dir", 0755) == 0);
	dir = find(root, "dir");
	is(try_create(root, "dir", O_RDWR, 0600, &ROOT, &st), -EISDIR,
	   "a directory is not created over");
	is(try_open(dir, O_RDWR), -EISDIR, "nor opened to write");
	is(try_open(dir, O_RDONLY | O_DIRECTORY), 0, "but to read");
	share_put(dir);
	inode = find(root, "new");
	is(try_open(inode, O_RDONLY | O_DIRECTORY), -ENOTDIR, "a file is no directory");
	is(try_open(inode, O_ACCMODE), -EINVAL, "access mode 3 opens nothing");
	is(try_open(inode, O_RDWR | O_APPEND | O_DIRECT | O_CREAT | O_EXCL), 0,
	   "flags of no concern are dropped");
	share_put(inode);
	is(share_ninodes(s), 1, "nothing is left over");
}

/* ---- contents that need no loop ---- */

static void test_space(struct share *s, struct share_inode *root)
{
	struct share_inode *inode;
	struct share_file *file, *reader, *dir;
	struct name n = nm("sparse");
	struct statx st;
	const int keep_hole = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE;

	need(share_create(root, &n, O_RDWR, 0644, &ROOT, &inode, &file, &st) == 0);
	is(share_fallocate(file, 0, 0, 1 << 20), 0, "space is allocated");
	is(share_fallocate(file, 0, 0, 512), 0, "again, less");
	ok(share_getattr(inode, file, &st) == 0 && st.stx_size == 1 << 20,
	   "which never shrinks the file");
	is(share_fallocate(file, keep_hole, 4096, 8192), 0, "a hole is punched");
	is(share_fallocate(file, 0, UINT64_MAX, 1), -EFBIG, "an offset beyond 63 bits is refused");
	is(share_fallocate(file, 0, INT64_MAX, 2), -EFBIG, "and a sum");
	is(share_fallocate(file, 0, 0, 0), -EINVAL, "and nothing at all");
	is(pwrite(file->io.fd, "x", 1, 0), 1, "data is at 0");
	is(pwrite(file->io.fd, "x", 1, 65536), 1, "and at 64 KiB");
	is(share_lseek(file, 1, SEEK_HOLE), 4096, "the hole is found");
	is(share_lseek(file, 1 << 20, SEEK_DATA), -ENXIO, "there is no data at the end");
	is(share_lseek(file, 0, SEEK_END), 1 << 20, "the end is found");
	is(share_lseek(file, 0, SEEK_SET), -EINVAL, "positions are not set");
	is(share_lseek(file, UINT64_MAX, SEEK_DATA), -EINVAL,
	   "an offset beyond 63 bits has no data");
	need(share_open_inode(inode, O_RDONLY, &reader) == 0);
	is(share_fallocate(reader, 0, 0, 1), -EBADF, "a file open to read is not allocated");
	share_file_close(reader);
	dir = open_dir(root);
	is(share_lseek(dir, 0, SEEK_END), -EINVAL,
	   "a directory's position is not for the guest to move");
	share_file_close(dir);
	share_file_close(file);
	share_put(inode);
	is(share_ninodes(s), 1, "nothing is left over");
}

/* ---- listing ---- */

static void test_listing(struct share *s, struct share_inode *root)
{
	struct share_inode *dir, *sub;
	struct share_file *file;
	struct listing l;

	need(mkdirat(share_dir, "dir", 0755) == 0 && mkdirat(share_dir, "dir/sub", 0755) == 0);
	need(symlinkat("x", share_dir, "dir/link") == 0);
	host_file(share_dir, "dir/file", "");
	dir = find(root, "dir");
	sub = find(dir, "sub");
	file = open_dir(dir);
	l = list_from(file, 0, 16);
	is(l.n, 5, "every entry is listed, with . and ..");
	ok(listed(&l, ".") && listed(&l, ".")->ino == share_ino(dir), ". is the directory");
	ok(listed(&l, "..") && listed(&l, "..")->ino == share_ino(root), ".. is its parent");
	ok(listed(&l, "sub")->type == DT_DIR && listed(&l, "sub")->ino == share_ino(sub),
	   "a directory is itself");
	ok(listed(&l, "link")->type == DT_LNK && listed(&l, "file")->type == DT_REG,
	   "types are told");
	free(l.e);
	share_put(sub);
	host_file(share_dir, "dir/later", "");
	l = list_from(file, 0, 16);
	ok(l.n == 6 && listed(&l, "later"), "offset 0 reads the directory anew");
	free(l.e);
	l = list_from(file, 0, 16);
	l.n = 0;
	l.room = 0;
	is(share_readdir(file, 0, collect, &l), 0, "no room is no error");
	free(l.e);
	share_file_close(file);
	file = open_dir(root);
	l = list_from(file, 0, 16);
	ok(listed(&l, "..")->ino == share_ino(root), ".. of the root is the root");
	ok(listed(&l, "dir")->ino == share_ino(dir), "the numbers are those of getattr");
	free(l.e);
	share_file_close(file);
	host_file(share_dir, "plain", "");
	sub = find(root, "plain");
	need(share_open_inode(sub, O_RDONLY, &file) == 0);
	is(share_readdir(file, 0, collect, &l), -ENOTDIR, "a file has no entries");
	share_file_close(file);
	share_put(sub);
	file = open_dir(dir);
	share_dir_file = openat(share_dir, "plain", O_RDONLY | O_CLOEXEC);
	need(share_dir_file >= 0);
	is(share_readdir(file, 0, skip_all, file), -ENOTDIR,
	   "an error behind entries that were left out is not the end of the directory");
	close(share_dir_file);
	share_file_close(file);
	share_put(dir);
	is(share_ninodes(s), 1, "nothing is left over");
}

/*
 * Reads the whole directory step entries at a time, as a guest with little room; returns how many
 * names were new.
 */
static unsigned walk(struct share_file *file, unsigned step, bool *names, unsigned n_names,
		     struct share_file *other)
{
	uint64_t off = 0;
	unsigned fresh = 0;

	for (;;) {
		struct listing l = list_from(file, off, step);

		for (unsigned i = 0; i < l.n; i++) {
			unsigned k = (unsigned)atoi(l.e[i].name + 1);

			if (l.e[i].name[0] != 'f' || k >= n_names)
				continue;
			fresh += !names[k];
			names[k] = true;
		}
		if (l.n)
			off = l.e[l.n - 1].next;
		free(l.e);
		if (!l.n)
			return fresh;
		if (other)
			free(list_from(other, 0, 1).e);
	}
}

/* Links of one file: a name each, and soon made. */
static void make_many(const char *dir, unsigned n)
{
	char name[64];

	need(mkdirat(share_dir, dir, 0755) == 0);
	host_file(share_dir, "one", "");
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/f%u", dir, i);
		need(linkat(share_dir, "one", share_dir, name, 0) == 0);
	}
}

static void test_long_listing(struct share *s, struct share_inode *root)
{
	enum { MANY = 5000 };
	struct share_inode *dir;
	struct share_file *file, *other;
	static bool names[MANY];

	make_many("many", MANY);
	dir = find(root, "many");
	file = open_dir(dir);
	other = open_dir(dir);
	getdents_calls = 0;
	is(walk(file, 3, names, MANY, NULL), MANY, "5000 entries are listed three at a time");
	ok(getdents_calls < 50, "with few calls of the host (%u)", getdents_calls);
	memset(names, 0, sizeof(names));
	is(walk(file, 100, names, MANY, other), MANY,
	   "a listing goes on though another handle's comes between");
	memset(names, 0, sizeof(names));
	is(walk(file, MANY + 10, names, MANY, NULL), MANY, "and all at once");
	share_file_close(other);
	share_file_close(file);
	share_put(dir);
	is(share_ninodes(s), 1, "nothing is left over");
}

/* As rm -r does it: what was listed is deleted before the next call. */
static void test_deleting_listing(struct share *s, struct share_inode *root)
{
	enum { N = 500 };
	struct share_inode *dir;
	struct share_file *file, *other;
	unsigned deleted = 0;
	uint64_t off = 0;

	make_many("rm", N);
	dir = find(root, "rm");
	file = open_dir(dir);
	other = open_dir(dir);
	for (;;) {
		struct listing l = list_from(file, off, 7);

		for (unsigned i = 0; i < l.n; i++)
			if (l.e[i].name[0] == 'f' && try_unlink(dir, l.e[i].name, 0) == 0)
				deleted++;
		if (l.n)
			off = l.e[l.n - 1].next;
		free(l.e);
		if (!l.n)
			break;
		free(list_from(other, 0, 1)
			     .e); /* so that the host is asked to go on at the cookie */
	}
	is(deleted, N, "a listing goes on where it was though all that it gave was deleted");
	is(try_unlink(root, "rm", AT_REMOVEDIR), 0, "and nothing was skipped");
	share_file_close(other);
	share_file_close(file);
	share_put(dir);
	is(share_ninodes(s), 1, "nothing is left over");
}

static void test_hostile_cookies(struct share *s, struct share_inode *root)
{
	static const uint64_t cookies[] = {
		1, 2, 77777, INT64_MAX - 1, INT64_MAX, UINT64_MAX - 1, UINT64_MAX, 1ull << 63};
	struct share_file *file = open_dir(root);
	struct seen room[64];
	unsigned bad = 0;

	(void)s;
	for (unsigned i = 0; i < ARRAY_LEN(cookies); i++) {
		struct listing l = {.e = room, .room = ARRAY_LEN(room)};
		int err = share_readdir(file, cookies[i], collect, &l);

		bad += err > 0 || (err && l.n);
	}
	is(bad, 0, "an invented cookie is an error or some entries, never both");
	free(list_from(file, 0, 1).e);
	share_file_close(file);
}

static void test_high_cookies(struct share *s, struct share_inode *root)
{
	enum { N = 2000 };
	struct share_inode *dir;
	struct share_file *file, *other;
	struct seen room[8];
	struct listing l = {.e = room, .room = ARRAY_LEN(room)};
	static bool names[N];

	make_many("high", N);
	dir = find(root, "high");
	file = open_dir(dir);
	other = open_dir(dir);
	high_cookies = true;
	is(walk(file, 10, names, N, NULL), N, "cookies over 63 bits are followed");
	memset(names, 0, sizeof(names));
	is(walk(file, 100, names, N, other), N, "also when the place must be found again");
	is(share_readdir(file, 1ull << 63 | 12345, collect, &l), -EINVAL,
	   "a place that is lost is not taken for the end");
	high_cookies = false;
	share_file_close(other);
	share_file_close(file);
	share_put(dir);
	is(share_ninodes(s), 1, "nothing is left over");
}

/* ---- odd names, deep trees ---- */

static void test_odd_names(struct share *s, struct share_inode *root)
{
	struct share_file *file;
	struct listing l;
	char all[256];
	unsigned found = 0, made = 0;
	struct statx st;

	for (unsigned b = 1; b < 256; b++) {
		const char name[] = {(char)b, 'x', '\0'};

		if (b != '/')
			made += try_mknod(root, name, S_IFREG | 0644, 0, &ROOT, &st) == 0;
	}
	is(made, 254, "a name may hold every byte but / and NUL");
	memset(all, 0xff, 255);
	all[255] = '\0';
	is(try_mkdir(root, all, 0755, &ROOT, &st), 0, "a name may be 255 bytes of anything");
	file = open_dir(root);
	l = list_from(file, 0, 300);
	is(l.n, 257, "all of them are listed");
	for (unsigned i = 0; i < l.n; i++)
		if (strcmp(l.e[i].name, ".") && strcmp(l.e[i].name, ".."))
			found += try_lookup(root, l.e[i].name) == 0;
	is(found, 255, "and found by the names that were listed");
	ok(listed(&l, all), "the long one whole");
	free(l.e);
	share_file_close(file);
	is(share_ninodes(s), 1, "nothing is left over");
}

static void test_deep_tree(struct share *s, struct share_inode *root)
{
	struct share_inode *dir = share_get(root), *next;
	struct name n;
	char name[61];
	struct statx st;
	unsigned depth;

	memset(name, 'd', 60);
	name[60] = '\0';
	n = nm(name);
	for (depth = 0; depth < 300; depth++) {
		if (share_mkdir(dir, &n, 0755, &ROOT, &next, &st))
			break;
		share_put(dir);
		dir = next;
	}
	is(depth, 300, "a path of 18,000 bytes is built one name at a time");
	is(try_create(dir, "bottom", O_RDWR, 0644, &ROOT, &st), 0, "with a file at the bottom");
	is(try_lookup(dir, "bottom"), 0, "that is found");
	share_put(dir);
	is(share_ninodes(s), 1, "an object does not hold its parents");
}

/* ---- mounts ---- */

static void test_mounts(struct share *s, struct share_inode *root)
{
	struct share_inode *sub, *one, *two, *bind, *through;
	struct share_file *file;
	struct listing l;
	struct statfs fs;
	char sub_path[600], file_path[600], bind_path[600];

	snprintf(sub_path, sizeof(sub_path), "%s/share/sub", top);
	snprintf(file_path, sizeof(file_path), "%s/share/sub/file", top);
	snprintf(bind_path, sizeof(bind_path), "%s/share/bind", top);
	need(mkdirat(share_dir, "sub", 0755) == 0 && mkdirat(share_dir, "bind", 0755) == 0);
	if (!own_mounts || mount("tmpfs", sub_path, "tmpfs", 0, NULL)) {
		skip("no right to mount here", "mounts below the share");
		return;
	}
	need(mount(sub_path, bind_path, NULL, MS_BIND, NULL) == 0);
	need(mount(NULL, bind_path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0);
	close(open(file_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	sub = find(root, "sub");
	bind = find(root, "bind");
	one = find(sub, "file");
	two = find(bind, "file");
	ok(one->key.dev == two->key.dev && one->key.ino == two->key.ino,
	   "one file lies in two mounts");
	ok(one != two && share_ino(one) != share_ino(two), "and is two objects with two numbers");
	ok(share_ino(sub) != share_ino(root) && share_ino(sub) != share_ino(bind) &&
		   share_ino(sub) >> 48,
	   "what lies on another mount has a number of its own kind");
	is(try_open(one, O_RDWR), 0, "it opens to write by the one");
	is(try_open(two, O_RDWR), -EROFS, "and not by the read-only other");
	ok(share_statfs(sub, &fs) == 0 && fs.f_type == 0x01021994, "statfs answers for the mount");
	is(try_rename(sub, "file", root, "file", 0), -EXDEV, "nothing is renamed across mounts");
	through = find(root, "sub");
	ok(through == sub, "the number and the object stay the same");
	share_put(through);
	file = open_dir(root);
	l = list_from(file, 0, 16);
	ok(listed(&l, "sub")->ino == share_ino(sub),
	   "a mount is listed with the number it has inside");
	free(l.e);
	share_file_close(file);
	file = open_dir(sub);
	l = list_from(file, 0, 16);
	ok(listed(&l, "file")->ino == share_ino(one), "its entries with theirs");
	ok(listed(&l, "..")->ino == share_ino(root), ".. of a mount is where it is mounted");
	free(l.e);
	share_file_close(file);
	share_put(one);
	share_put(two);
	share_put(sub);
	share_put(bind);
	is(share_ninodes(s), 1, "nothing is left over");
	need(umount2(bind_path, MNT_DETACH) == 0 && umount2(sub_path, MNT_DETACH) == 0);
}

static void test_numbers(struct share *s, struct share_inode *root)
{
	struct inode_key key = root->key;
	uint64_t a = 0, b = 0, c = 0;

	key.ino = 1ull << 60;
	need(share_inode_number(s, &key, &a) == 0);
	ok(a == 1ull << 60, "any number of the root's file system is shown as it is");
	key.dev++;
	need(share_inode_number(s, &key, &a) == 0 && share_inode_number(s, &key, &b) == 0);
	ok(a == b && a >> 63, "a number too big to be marked is mixed, always the same way");
	key.ino++;
	need(share_inode_number(s, &key, &b) == 0);
	ok(a != b, "and two files differ");
	key.ino = 0;
	need(share_inode_number(s, &key, &c) == 0);
	ok(c != 0, "no object has number 0");
	key.ino = 5;
	need(share_inode_number(s, &key, &a) == 0);
	for (unsigned i = 0; i < 0x8100; i++) {
		key.mnt++;
		need(share_inode_number(s, &key, &b) == 0);
	}
	ok(b != a && b >> 63, "more file systems than there are marks still have numbers");
	ok(s->places.used == 0x7fff, "and the table of them has an end");
}

/* ---- the budget ---- */

static uint32_t default_budget(rlim_t limit)
{
	struct rlimit old, low;
	struct share *s;
	uint32_t budget;

	need(getrlimit(RLIMIT_NOFILE, &old) == 0);
	low = (struct rlimit){.rlim_cur = limit, .rlim_max = old.rlim_max};
	if (limit > old.rlim_max || setrlimit(RLIMIT_NOFILE, &low))
		return 0;
	s = open_share(false, SHARE_OWNER_AUTO, 0);
	budget = s->budget;
	share_close(s);
	need(setrlimit(RLIMIT_NOFILE, &old) == 0);
	return budget;
}

static void test_default_budget(void)
{
	is(default_budget(1024), (1024 - 256) / 2,
	   "by default a share takes half of what is left of the process limit");
	is(default_budget(64), 16, "of a low one too");
	if (default_budget(600000))
		is(default_budget(600000), 262144, "and of a high one no more than 262144");
	else
		skip("the hard limit is lower", "the default budget has a bound");
}

/* What is open keeps its descriptors; t_share_budget.c has all that is idle. */
static void test_budget(void)
{
	enum { OPEN = 7 };
	struct share *s = open_share(false, SHARE_OWNER_AUTO, 100);
	struct share_inode *root = share_root(s), *held[OPEN + 1];
	struct share_file *file[OPEN + 1];
	char name[16];
	struct statx st;
	char said[1000];
	struct capture cap;
	unsigned n;

	s->budget = 1 + (uint32_t)s->nmounts + 2 * OPEN;
	capture_begin(&cap);
	for (n = 0; n <= OPEN; n++) {
		struct name x;

		snprintf(name, sizeof(name), "n%u", n);
		x = nm(name);
		if (share_create(root, &x, O_RDWR, 0644, &ROOT, &held[n], &file[n], &st))
			break;
	}
	is(n, OPEN, "open files and their objects are counted against the budget");
	is(try_mkdir(root, "over", 0755, &ROOT, &st), -ENFILE, "one more object is ENFILE");
	capture_end(&cap, said, sizeof(said));
	ok(strstr(said, "wherry: warning: fs0: the guest has more in use at once than fd_budget "
			"allows (1") &&
		   strstr(said, ") and gets ENFILE: raise fd_budget, and ulimit -n for it\n") &&
		   strchr(said, '\n') == said + strlen(said) - 1,
	   "which is said once, with the remedy");
	is(try_create(root, "over", O_RDWR, 0644, &ROOT, &st), -ENFILE, "and so is an open one");
	is(faccessat(share_dir, "over", F_OK, AT_SYMLINK_NOFOLLOW), -1, "and nothing was made");
	is(try_lookup(root, "n0"), 0, "what is known is found all the same");
	host_file(share_dir, "unknown", "");
	is(try_lookup(root, "unknown"), -ENFILE, "what is not known is not");
	is(try_open(held[0], O_RDONLY), -ENFILE, "nor is anything opened");
	share_file_close(file[--n]);
	is(try_open(held[0], O_RDONLY), 0, "one file that is closed makes room for another");
	is(try_lookup(root, "unknown"), 0, "or for an object");
	share_put(held[n]);
	is(try_create(root, "over", O_RDWR, 0644, &ROOT, &st), 0,
	   "and the object with it for both");
	while (n) {
		share_file_close(file[--n]);
		share_put(held[n]);
	}
	is(share_ninodes(s), 1, "nothing is left over");
	share_put(root);
	share_close(s);
	host_clear(share_dir);
}

static void test_process_limit(struct share *s, struct share_inode *root)
{
	struct rlimit old, low;
	struct statx st;
	char said[1000];
	struct capture cap;
	int probe, made;

	capture_begin(&cap);
	probe = dup(0);
	host_file(share_dir, "file", "");
	need(probe >= 0 && getrlimit(RLIMIT_NOFILE, &old) == 0);
	close(probe);
	low = (struct rlimit){.rlim_cur = (rlim_t)probe, .rlim_max = old.rlim_max};
	need(setrlimit(RLIMIT_NOFILE, &low) == 0);
	probe = try_lookup(root, "file");
	made = try_create(root, "new", O_RDWR, 0644, &ROOT, &st);
	need(setrlimit(RLIMIT_NOFILE, &old) == 0);
	capture_end(&cap, said, sizeof(said));
	ok(!strcmp(said, "wherry: warning: fs0: no descriptor is left (raise ulimit -n): the guest "
			 "gets ENFILE\n"),
	   "a share without descriptors says so once");
	is(probe, -ENFILE, "the process's own limit is ENFILE to the guest");
	is(made, -ENFILE, "when creating, too");
	is(try_lookup(root, "file"), 0, "and all works again when there is room");
	is(share_ninodes(s), 1, "nothing is left over");
}

/* ---- read-only ---- */

static void tree_state(struct stat st[3])
{
	need(fstatat(share_dir, "", &st[0], AT_EMPTY_PATH) == 0);
	need(fstatat(share_dir, "file", &st[1], 0) == 0);
	need(fstatat(share_dir, "dir", &st[2], 0) == 0);
	for (unsigned i = 0; i < 3; i++)
		st[i].st_atim = (struct timespec){0}; /* reading may move it */
}

static void test_readonly(void)
{
	struct share *s;
	struct share_inode *root, *file, *dir;
	struct share_file *reader;
	struct io_op op = {0};
	char byte = 'x';
	struct iovec iov = {&byte, 1};
	struct stat before[3], after[3];
	struct statx st;

	memset(before, 0, sizeof(before));
	memset(after, 0, sizeof(after));
	host_file(share_dir, "file", "content");
	need(mkdirat(share_dir, "dir", 0755) == 0);
	tree_state(before);
	s = open_share(true, SHARE_OWNER_AUTO, 0);
	root = share_root(s);
	file = find(root, "file");
	dir = find(root, "dir");
	is(try_create(root, "new", O_RDONLY, 0644, &ROOT, &st), -EROFS, "read-only refuses create");
	is(try_create(root, "file", O_RDONLY, 0644, &ROOT, &st), -EROFS, "also of what is there");
	is(try_mkdir(root, "new", 0755, &ROOT, &st), -EROFS, "read-only refuses mkdir");
	is(try_mknod(root, "new", S_IFREG, 0, &ROOT, &st), -EROFS, "read-only refuses mknod");
	is(try_symlink(root, "new", "x"), -EROFS, "read-only refuses symlink");
	is(try_link(file, root, "new", &st), -EROFS, "read-only refuses link");
	is(try_unlink(root, "file", 0), -EROFS, "read-only refuses unlink");
	is(try_unlink(root, "dir", AT_REMOVEDIR), -EROFS, "read-only refuses rmdir");
	is(try_rename(root, "file", dir, "file", 0), -EROFS, "read-only refuses rename");
	is(try_open(file, O_WRONLY), -EROFS, "read-only refuses to open to write");
	is(try_open(file, O_RDWR), -EROFS, "and to read and write");
	is(try_open(file, O_RDONLY | O_TRUNC), -EROFS, "and to truncate");
	for (unsigned bit = SHARE_MODE; bit <= SHARE_MTIME; bit <<= 1) {
		struct share_attr attr = {.mask = bit};

		is(set(file, &attr, &st), -EROFS, "read-only refuses setattr of kind %u", bit);
	}
	need(share_open_inode(file, O_RDONLY, &reader) == 0);
	is(share_writev(reader, NULL, &op, &iov, 1, 0), -EROFS, "read-only refuses write");
	is(share_fallocate(reader, 0, 0, 100), -EROFS, "read-only refuses fallocate");
	is(pread(reader->io.fd, &byte, 1, 0), 1, "reading is allowed");
	share_file_close(reader);
	share_put(file);
	share_put(dir);
	is(share_ninodes(s), 1, "nothing is left over");
	share_put(root);
	share_close(s);
	tree_state(after);
	ok(!memcmp(before, after, sizeof(before)), "and the tree is as it was");
	host_clear(share_dir);
}

/* ---- owners ---- */

static uint32_t effective_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	need(syscall(SYS_capget, &head, caps) == 0);
	return caps[0].effective;
}

static void owned(const struct statx *st, uid_t uid, gid_t gid, mode_t mode, const char *what)
{
	ok(st->stx_uid == uid && st->stx_gid == gid, "%s belongs to the caller", what);
	is(st->stx_mode & 07777, mode, "%s has its whole mode", what);
}

static void test_passthrough(struct share *s, struct share_inode *root)
{
	const struct cred user = {.uid = 1000, .gid = 1001}, group = {.uid = 0, .gid = 1001},
			  nobody = {.uid = (uid_t)-1, .gid = 1000},
			  no_group = {.uid = 1000, .gid = (gid_t)-1};
	const uint32_t caps = effective_caps();
	struct share_inode *inode, *dir;
	struct share_attr attr = {
		.mask = SHARE_UID | SHARE_GID | SHARE_MODE, .uid = 7, .gid = 8, .mode = 04755};
	struct name n = nm("link");
	struct statx st;

	if (s->squash) {
		skip("no other users to act as", "passthrough");
		return;
	}
	is(try_create(root, "file", O_RDWR, 0666, &user, &st), 0,
	   "a user creates where the guest has checked he may");
	owned(&st, 1000, 1001, 0666, "a file");
	is(try_mkdir(root, "dir", 0777, &user, &st), 0, "and makes directories");
	owned(&st, 1000, 1001, 0777, "a directory");
	is(try_mknod(root, "fifo", S_IFIFO | 0622, 0, &user, &st), 0, "and fifos");
	owned(&st, 1000, 1001, 0622, "a fifo");
	is(share_symlink(root, &n, "x", &user, &inode, &st), 0, "and symbolic links");
	ok(st.stx_uid == 1000 && st.stx_gid == 1001, "a symbolic link belongs to the caller");
	share_put(inode);
	is(try_create(root, "g", O_RDWR, 0666, &group, &st), 0, "root creates with another group");
	owned(&st, 0, 1001, 0666, "a file of root");
	is(try_mknod(root, "null", S_IFCHR | 0666, makedev(1, 3), &user, &st), -EPERM,
	   "a user makes no device nodes");
	is(try_create(root, "no", O_RDWR, 0666, &nobody, &st), -EINVAL,
	   "an id that is none is refused");
	is(try_mkdir(root, "no", 0777, &no_group, &st), -EINVAL, "and so is a group");
	is(try_lookup(root, "no"), -ENOENT, "and nothing was made as someone else");

	dir = find(root, "dir");
	need(fchownat(share_dir, "dir", 0, 2000, 0) == 0 &&
	     fchmodat(share_dir, "dir", 03777, 0) == 0);
	is(try_create(dir, "f", O_RDWR, 02644, &user, &st), 0, "in a set-gid directory");
	owned(&st, 1000, 2000, 02644, "a file");
	is(try_mkdir(dir, "d", 0755, &user, &st), 0, "directories in it");
	owned(&st, 1000, 2000, 02755, "a directory");
	is(try_create(dir, "x", O_RDWR, 02755, &user, &st), 0, "a program that a user makes there");
	is(st.stx_mode & 07777, 0755, "is not set-gid to a group he is not in");
	share_put(dir);

	is(try_create(root, "file", O_RDWR, 0666, &user, &st), 0,
	   "who races a creation opens what is his own");
	host_file(share_dir, "secret", "s");
	need(fchmodat(share_dir, "secret", 0600, 0) == 0);
	is(try_create(root, "secret", O_RDWR, 0666, &user, &st), -EACCES,
	   "who races a creation does not open others' files");
	is(try_create(root, "secret", O_RDWR, 0666, &ROOT, &st), 0, "but root does");
	inode = find(root, "secret");
	is(set(inode, &attr, &st), 0, "chown is chown");
	ok(st.stx_uid == 7 && st.stx_gid == 8, "to anyone");
	is(st.stx_mode & 07777, 04755, "and a mode in the same request outlives it");
	share_put(inode);
	ok(effective_caps() == caps, "the thread is left with its capabilities");
	ok(syscall(SYS_setfsuid, -1) == 0 && syscall(SYS_setfsgid, -1) == 0, "and with its ids");
	is(getgroups(0, NULL), 0, "and has no supplementary groups to lend");
	is(share_ninodes(s), 1, "nothing is left over");
}

static void test_squash(void)
{
	const struct cred user = {.uid = 1000, .gid = 1001};
	struct share *s = open_share(false, SHARE_OWNER_SQUASH, 0);
	struct share_inode *root = share_root(s), *inode;
	struct share_attr attr = {.mask = SHARE_UID | SHARE_GID};
	struct stat host;
	struct statx st;

	is(try_create(root, "file", O_RDWR, 0666, &user, &st), 0, "squash: anyone creates");
	ok(st.stx_uid == 0 && st.stx_gid == 0, "and it is shown as root's");
	ok(fstatat(share_dir, "file", &host, 0) == 0 && host.st_uid == geteuid() &&
		   host.st_gid == getegid(),
	   "and is the host user's");
	is(host.st_mode & 07777, 0666, "with its whole mode");
	inode = find(root, "file");
	is(set(inode, &attr, &st), 0, "chown to root, who it belongs to, succeeds");
	attr.mask = SHARE_GID;
	is(set(inode, &attr, &st), 0, "and to its group alone");
	attr = (struct share_attr){.mask = SHARE_UID, .uid = 1234};
	is(set(inode, &attr, &st), -EPERM, "chown to someone else does not");
	attr = (struct share_attr){.mask = SHARE_GID | SHARE_MODE, .gid = 1234, .mode = 0600};
	is(set(inode, &attr, &st), -EPERM, "nor to another group");
	need(share_getattr(inode, NULL, &st) == 0);
	is(st.stx_mode & 07777, 0666, "and a request that fails in its first part changes nothing");
	share_put(inode);
	is(share_ninodes(s), 1, "nothing is left over");
	share_put(root);
	share_close(s);
	host_clear(share_dir);
}

/* ---- a host that moves things while they are looked at ---- */

struct race {
	void (*move)(int top_fd, int share_fd);
	int top_fd, share_fd;
	bool stop;
	unsigned long moves;
};

static void *race_thread(void *arg)
{
	struct race *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		r->move(r->top_fd, r->share_fd);
		__atomic_add_fetch(&r->moves, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void swap_in_link(int top_fd, int share_fd)
{
	(void)top_fd;
	renameat2(share_fd, "swap", share_fd, "evil", RENAME_EXCHANGE);
}

static void move_out(int top_fd, int share_fd)
{
	renameat(share_fd, "swap", top_fd, "outside/moved");
	renameat(top_fd, "outside/moved", share_fd, "swap");
}

static void race_begin(struct race *r, pthread_t *thread, void (*move)(int, int))
{
	*r = (struct race){
		.move = move, .top_fd = open(top, O_PATH | O_CLOEXEC), .share_fd = share_dir};
	need(r->top_fd >= 0 && pthread_create(thread, NULL, race_thread, r) == 0);
	while (!__atomic_load_n(&r->moves, __ATOMIC_RELAXED))
		sched_yield();
}

static void race_end(struct race *r, pthread_t thread)
{
	__atomic_store_n(&r->stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	close(r->top_fd);
}

static void race_tree(void)
{
	need(mkdirat(share_dir, "swap", 0755) == 0);
	host_file(share_dir, "swap/inner", "inside");
	need(symlinkat("../outside", share_dir, "evil") == 0);
}

/* "swap" is now a directory, now a link to a directory outside that holds "secret". */
static void test_link_race(struct share *s, struct share_inode *root)
{
	struct name swap = nm("swap");
	unsigned escaped = 0, odd = 0, dirs = 0;
	struct race race;
	pthread_t thread;

	race_tree();
	race_begin(&race, &thread, swap_in_link);
	for (unsigned i = 0; i < 3000; i++) {
		struct share_inode *inode;
		struct statx st;
		int err = share_lookup(root, &swap, &inode, &st);

		if (err) {
			odd++;
			continue;
		}
		dirs += S_ISDIR(st.stx_mode);
		odd += (st.stx_mode & S_IFMT) != inode->type;
		escaped += try_lookup(inode, "secret") == 0;
		escaped += try_open(inode, O_RDONLY) == 0 && !S_ISDIR(st.stx_mode);
		err = try_create(root, "swap", O_RDWR, 0644, &ROOT, &st);
		odd += err != -EISDIR && err != -ELOOP;
		share_put(inode);
	}
	race_end(&race, thread);
	is(escaped, 0, "a symbolic link swapped in is never followed");
	is(odd, 0, "and every answer is one of the two");
	ok(dirs > 0 && dirs < 3000, "both were met (%u of 3000 a directory, %lu swaps)", dirs,
	   race.moves);
	is(share_ninodes(s), 1, "nothing is left over");
}

static void test_move_race(struct share *s, struct share_inode *root)
{
	struct name swap = nm("swap"), inner = nm("inner");
	unsigned odd = 0, met = 0;
	struct race race;
	pthread_t thread;

	race_tree();
	race_begin(&race, &thread, move_out);
	/* Until both have happened often enough; how many tries that takes is the host's affair. */
	for (unsigned i = 0; i < 300000 && (i < 3000 || met < 300); i++) {
		struct share_inode *dir, *inode;
		struct statx st;
		int err = share_lookup(root, &swap, &dir, &st);

		if (err) {
			odd += err != -ENOENT && err != -ESTALE;
			continue;
		}
		odd += try_lookup(dir, "secret") == 0;
		err = share_lookup(dir, &inner, &inode, &st);
		odd += err != 0;
		met += !err;
		if (!err)
			share_put(inode);
		share_put(dir);
	}
	race_end(&race, thread);
	is(odd, 0, "a directory that is moved out while walked leads nowhere but into itself");
	ok(met > 0, "and was walked (%u times, %lu moves)", met, race.moves);
	is(share_ninodes(s), 1, "nothing is left over");
}

/* ---- on an iothread, under its filter ---- */

struct ride {
	struct iothread *io;
	struct share *s;
	struct share_inode *root, *inode;
	struct share_file *file;
	struct io_op op;
	struct iovec iov[2];
	sem_t settled;
	int kind, res, made[8];
};
enum { RIDE_READ, RIDE_WRITE, RIDE_FSYNC };

static void ride_done(struct io_op *op, int res)
{
	struct ride *r = container_of(op, struct ride, op);

	r->res = res;
	sem_post(&r->settled);
}

static void ride_submit(void *arg)
{
	struct ride *r = arg;
	int res;

	r->op = (struct io_op){.done = ride_done};
	if (r->kind == RIDE_READ)
		res = share_readv(r->file, r->io, &r->op, r->iov, 2, 0);
	else if (r->kind == RIDE_WRITE)
		res = share_writev(r->file, r->io, &r->op, r->iov, 2, 0);
	else
		res = share_fsync(r->file, r->io, &r->op, false);
	if (res != -EINPROGRESS)
		ride_done(&r->op, res);
}

static int ride_io(struct ride *r, int kind, char *a, char *b)
{
	r->kind = kind;
	r->iov[0] = (struct iovec){a, 5};
	r->iov[1] = (struct iovec){b, 6};
	loop_call(r->io, ride_submit, r);
	while (sem_wait(&r->settled) < 0)
		need(errno == EINTR);
	return r->res;
}

static int thread_init(void *arg)
{
	return share_thread_init(arg);
}

/* Every call of the layer once, so that one that the list lacks ends the test. */
static void ride_verbs(void *arg)
{
	struct ride *r = arg;
	const struct cred user = {.uid = r->s->squash ? 0 : 1000, .gid = r->s->squash ? 0 : 1000};
	struct share_attr attr = {.mask = SHARE_MODE | SHARE_UID | SHARE_GID | SHARE_SIZE |
					  SHARE_MTIME,
				  .mode = 0640,
				  .size = 9};
	struct name n = nm("rode");
	struct share_file *dir;
	struct seen room[16];
	struct listing l = {.e = room, .room = 16};
	struct statfs fs;
	struct statx st;
	char target[16];
	struct share_inode *link;
	int *made = r->made;

	made[0] = share_create(r->root, &n, O_RDWR, 0666, &user, &r->inode, &r->file, &st);
	if (made[0])
		return;
	made[0] |= st.stx_mode != (S_IFREG | 0666);
	made[1] = try_mkdir(r->root, "d", 0777, &user, &st) |
		  try_mknod(r->root, "p", S_IFIFO | 0666, 0, &user, &st);
	made[2] = try_symlink(r->root, "l", "x") | try_link(r->inode, r->root, "h", &st);
	made[3] = set(r->inode, &attr, &st) | share_getattr(r->inode, r->file, &st) |
		  share_statfs(r->root, &fs);
	made[4] = try_rename(r->root, "h", r->root, "h2", 0) | try_unlink(r->root, "h2", 0) |
		  try_unlink(r->root, "d", AT_REMOVEDIR);
	link = find(r->root, "l");
	made[5] = share_readlink(link, target, sizeof(target)) != 1;
	share_put(link);
	made[6] = share_fallocate(r->file, 0, 0, 11) | (share_lseek(r->file, 0, SEEK_END) != 11);
	made[7] = share_open_inode(r->root, O_RDONLY | O_DIRECTORY, &dir);
	if (!made[7]) {
		made[7] = share_readdir(dir, 0, collect, &l) | (l.n != 5);
		share_file_close(dir);
	}
}

static void ride_end(void *arg)
{
	struct ride *r = arg;

	share_file_close(r->file);
	share_put(r->inode);
}

static void ride_reopen(void *arg)
{
	struct ride *r = arg;

	share_file_close(r->file);
	r->res = share_open_inode(r->inode, r->kind, &r->file);
}

static void ride_dir(void *arg)
{
	struct ride *r = arg;

	share_file_close(r->file);
	r->res = share_open_inode(r->root, O_RDONLY | O_DIRECTORY, &r->file);
}

static void reopen(struct ride *r, int flags)
{
	r->kind = flags;
	loop_call(r->io, ride_reopen, r);
	need(r->res == 0);
}

static void test_iothread(enum loop_engine engine)
{
	struct ride r = {.s = open_share(false, SHARE_OWNER_AUTO, 0)};
	char a[8] = "hello", b[8] = " world", c[8] = "", d[8] = "";
	unsigned failed = 0;

	if (iothread_create(&r.io, "fs0", engine, 8, &share_syscalls)) {
		skip("the host refuses this engine", "a share on an iothread");
		share_close(r.s);
		return;
	}
	need(sem_init(&r.settled, 0, 0) == 0);
	r.root = share_root(r.s);
	is(iothread_start(r.io, thread_init, r.s), 0, "%s: a thread is made ready under its filter",
	   iothread_engine(r.io));
	loop_call(r.io, ride_verbs, &r);
	for (unsigned i = 0; i < ARRAY_LEN(r.made); i++)
		failed += r.made[i] != 0;
	is(failed, 0, "every verb works under the filter");
	need(r.file);
	is(ride_io(&r, RIDE_WRITE, a, b), 11, "the file is written");
	is(ride_io(&r, RIDE_FSYNC, NULL, NULL), 0, "and synced");
	is(ride_io(&r, RIDE_READ, c, d), 11, "and read");
	ok(!strcmp(c, "hello") && !strcmp(d, " world"), "as it was written");
	reopen(&r, O_WRONLY);
	is(ride_io(&r, RIDE_READ, c, d), -EBADF, "what is open to write is not read");
	reopen(&r, O_RDONLY);
	is(ride_io(&r, RIDE_WRITE, a, b), -EBADF, "what is open to read is not written");
	loop_call(r.io, ride_dir, &r);
	need(r.res == 0);
	is(ride_io(&r, RIDE_FSYNC, NULL, NULL), 0, "a directory is synced");
	is(ride_io(&r, RIDE_READ, c, d), -EISDIR, "but not read as a file");
	loop_call(r.io, ride_end, &r);
	is(share_ninodes(r.s), 1, "nothing is left over");
	iothread_destroy(r.io);
	share_put(r.root);
	share_close(r.s);
	sem_destroy(&r.settled);
	host_clear(share_dir);
}

static void test_offsets(struct share *s, struct share_inode *root)
{
	struct share_inode *inode;
	struct share_file *file;
	struct name n = nm("file");
	struct io_op op = {0};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct statx st;

	(void)s;
	need(share_create(root, &n, O_RDWR, 0644, &ROOT, &inode, &file, &st) == 0);
	is(share_readv(file, NULL, &op, &iov, 1, 1ull << 63), -EINVAL,
	   "an offset beyond 63 bits is not read");
	is(share_writev(file, NULL, &op, &iov, 1, UINT64_MAX), -EINVAL, "nor written");
	share_file_close(file);
	share_put(inode);
}

/* What a guest held when it went away. */
static void test_close_drops_all(void)
{
	unsigned before = open_descriptors();
	struct share *s = open_share(false, SHARE_OWNER_AUTO, 0);
	struct share_inode *root = share_root(s), *inode;
	struct share_file *file;
	struct name n = nm("left");
	struct statx st;

	for (unsigned i = 0; i < 3; i++)
		need(share_create(root, &n, O_RDWR, 0644, &ROOT, &inode, &file, &st) == 0);
	need(share_open_inode(root, O_RDONLY, &file) == 0);
	share_close(s);
	is(open_descriptors(), before, "closing a share drops all that was held of it");
	host_clear(share_dir);
}

/* ---- the run ---- */

typedef void (*share_test)(struct share *, struct share_inode *root);

/* Each begins with an empty directory and a fresh share. */
static void run(share_test test, bool openat2)
{
	struct share *s = open_share(false, SHARE_OWNER_AUTO, 0);
	struct share_inode *root = share_root(s);

	s->openat2 &= openat2;
	test(s, root);
	share_put(root);
	share_close(s);
	host_clear(share_dir);
}

static const share_test tests[] = {
	test_objects,         test_statfs,        test_symlinks,     test_special_files,
	test_setattr,         test_unlinked,      test_names_change, test_create,
	test_space,           test_listing,       test_long_listing, test_deleting_listing,
	test_hostile_cookies, test_high_cookies,  test_odd_names,    test_deep_tree,
	test_numbers,         test_process_limit, test_passthrough,  test_link_race,
	test_move_race,       test_offsets,       test_mounts,
};
static const share_test tests_by_name[] = {test_objects, test_symlinks,    test_special_files,
					   test_create,  test_passthrough, test_link_race};

/* Asked of the host in a process of its own: root of a user namespace may be the only user there. */
static bool other_users(void)
{
	int status = -1;
	pid_t pid = fork();

	need(pid >= 0);
	if (pid == 0)
		_exit(setgid(1) || setuid(1));
	need(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void set_up(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[600];

	privileged = geteuid() == 0;
	acts = privileged && other_users();
	own_mounts = privileged && unshare(CLONE_NEWNS) == 0 &&
		     mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	snprintf(top, sizeof(top), "%s/t_share.XXXXXX", tmp ? tmp : "/tmp");
	need(mkdtemp(top));
	snprintf(path, sizeof(path), "%s/outside", top);
	need(mkdir(path, 0755) == 0);
	snprintf(path, sizeof(path), "%s/outside/secret", top);
	host_file(AT_FDCWD, path, "secret");
	snprintf(path, sizeof(path), "%s/share", top);
	need(mkdir(path, 0755) == 0);
	share_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(share_dir >= 0);
}

static void tear_down(void)
{
	int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	close(share_dir);
	need(dir >= 0);
	host_clear(dir);
	close(dir);
	need(rmdir(top) == 0);
}

int main(void)
{
	struct share *ready;

	set_up();
	need(ready = open_share(false, SHARE_OWNER_AUTO, 0));
	is(share_thread_init(ready), 0, "a thread is made ready");
	share_close(ready);
	is(umask(0), 0, "and its umask takes nothing away");
	test_names();
	test_set_up();
	for (unsigned i = 0; i < ARRAY_LEN(tests); i++)
		run(tests[i], true);
	for (unsigned i = 0; i < ARRAY_LEN(tests_by_name); i++)
		run(tests_by_name[i], false);
	test_budget();
	test_default_budget();
	test_readonly();
	test_squash();
	test_close_drops_all();
	need(sandbox_init() == 0);
	test_iothread(LOOP_URING);
	test_iothread(LOOP_EPOLL);
	tear_down();
	return done();
}
