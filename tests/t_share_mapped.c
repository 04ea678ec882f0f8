// SPDX-License-Identifier: Apache-2.0
/*
 * t_share_mapped.c - a share whose owners, modes and kinds of files are the guest's own: what the guest sees, and what
 * lies on the host, byte for byte.
 *
 * As root everything runs twice, the second time as nobody: it must not matter. Trees that QEMU made are made here by
 * hand.
 */
#include "share_door.h"
#include <dirent.h>
#include <linux/fs.h>
#include <sched.h>

#define A_UID  "user.virtfs.uid"
#define A_GID  "user.virtfs.gid"
#define A_MODE "user.virtfs.mode"
#define A_RDEV "user.virtfs.rdev"

/* ---- in place of libc's ---- */

static bool no_tmpfile;
static int fail_attr; /* the setxattr that finds no space: the first, the second ... */

/* Reached where openat2 is not used. */
int openat(int dirfd, const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	va_end(ap);
	if (no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

int setxattr(const char *path, const char *name, const void *value, size_t size, int flags)
{
	if (fail_attr && --fail_attr == 0) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_setxattr, path, name, value, size, flags);
}

/* ---- the host's side ---- */

static bool host_is(const char *name, const char *attr, const void *want, ssize_t n)
{
	unsigned char got[16];
	ssize_t len = host_getxattr(name, attr, got, sizeof(got));

	if (len == n && (n < 0 || !memcmp(got, want, (size_t)n)))
		return true;
	printf("#   %s of %s: %zd bytes", attr, name, len);
	for (ssize_t i = 0; i < len; i++)
		printf(" %02x", got[i]);
	printf("\n");
	return false;
}

static bool host_number(const char *name, const char *attr, uint32_t v)
{
	const unsigned char want[4] = {(unsigned char)v, (unsigned char)(v >> 8),
				       (unsigned char)(v >> 16), (unsigned char)(v >> 24)};

	return host_is(name, attr, want, 4);
}

static void put32(const char *name, const char *attr, uint32_t v)
{
	const unsigned char raw[4] = {(unsigned char)v, (unsigned char)(v >> 8),
				      (unsigned char)(v >> 16), (unsigned char)(v >> 24)};

	need(!host_setxattr(name, attr, raw, sizeof(raw)));
}

static bool host_plain(const char *name, mode_t mode)
{
	const struct stat st = host_stat(name);

	return st.st_mode == mode && st.st_uid == geteuid() && st.st_gid == getegid();
}

static bool host_content(const char *name, const char *want)
{
	char got[64];
	int fd = openat(door.dir, name, O_RDONLY | O_CLOEXEC, 0);
	ssize_t n;

	need(fd >= 0);
	n = read(fd, got, sizeof(got));
	close(fd);
	return n == (ssize_t)strlen(want) && !memcmp(got, want, (size_t)n);
}

static unsigned host_entries(void)
{
	int fd = openat(door.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	DIR *d = fdopendir(fd);
	unsigned n = 0;

	need(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

/* ---- what is made ---- */

static void check_on_host(const char *name, mode_t host, uint32_t mode, uint32_t uid, uint32_t gid)
{
	ok(host_plain(name, host), "%s: ours on the host, and closed to others", name);
	ok(host_number(name, A_UID, uid) && host_number(name, A_GID, gid) &&
		   host_number(name, A_MODE, mode),
	   "%s: its owner and mode lie beside it", name);
}

static void test_made(void)
{
	/* Major f0abc, minor 59349a: 0xabc at bits 8-19, 0x9a at 0-7, 0x5934 at 20-43, 0xf0 at 44. */
	static const unsigned char zero[8],
		null[8] = {3, 1}, big[8] = {0x9a, 0xbc, 0x4a, 0x93, 0x05, 0x00, 0x0f, 0x00};
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	is(create("file", 06755, &USER, &st), 0, "a file is made");
	ok(shown(&st, 1000, 1001, S_IFREG | 06755), "the guest's owner and mode are shown");
	check_on_host("file", S_IFREG | 0600, 0106755, 1000, 1001);
	ok(host_is("file", A_RDEV, NULL, -ENODATA), "a file has no device number");
	is(make_dir("dir", 01777, &USER, &st), 0, "a directory");
	ok(shown(&st, 1000, 1001, S_IFDIR | 01777), "is shown as it was made");
	check_on_host("dir", S_IFDIR | 0700, 041777, 1000, 1001);
	is(make_node("fifo", S_IFIFO | 0622, makedev(9, 9), &USER, &st), 0, "a fifo");
	ok(shown(&st, 1000, 1001, S_IFIFO | 0622), "is shown as one");
	check_on_host("fifo", S_IFREG | 0600, 010622, 1000, 1001);
	ok(host_is("fifo", A_RDEV, zero, 8), "with no device number");
	is(make_node("sock", S_IFSOCK | 0777, 0, &ROOT, &st), 0, "a socket");
	check_on_host("sock", S_IFREG | 0600, 0140777, 0, 0);
	is(make_node("null", S_IFCHR | 0666, makedev(1, 3), &ROOT, &st), 0, "a device, by anyone");
	ok(shown(&st, 0, 0, S_IFCHR | 0666) && st.stx_rdev_major == 1 && st.stx_rdev_minor == 3,
	   "is shown with its numbers");
	check_on_host("null", S_IFREG | 0600, 020666, 0, 0);
	ok(host_is("null", A_RDEV, null, 8), "which lie as makedev() packs them");
	is(make_node("big", S_IFBLK | 0600, makedev(0xf0abc, 0x59349a), &ROOT, &st), 0,
	   "one with large numbers");
	ok(S_ISBLK(st.stx_mode) && st.stx_rdev_major == 0xf0abc && st.stx_rdev_minor == 0x59349a,
	   "is shown with them");
	ok(host_is("big", A_RDEV, big, 8), "and so they lie");
	is(make_symlink("link", "some/where", &USER, &st), 0, "a link");
	ok(shown(&st, 1000, 1001, S_IFLNK | 0777) && st.stx_size == 10, "is shown as one");
	check_on_host("link", S_IFREG | 0600, 0120777, 1000, 1001);
	ok(host_content("link", "some/where"), "its target is what is in it");
	is(make_tmpfile(0640, O_RDWR, &USER, "tmp", &st), 0, "a file without a name");
	ok(shown(&st, 1000, 1001, S_IFREG | 0640) && st.stx_nlink == 0, "is shown");
	check_on_host("tmp", S_IFREG | 0600, 0100640, 1000, 1001);
	is(make_link("link", "link2", &st), 0, "a second name, for a link");
	ok(st.stx_nlink == 2 && S_ISLNK(st.stx_mode), "is one for a link");
	is(make_node("odd", S_IFDIR | 0700, 0, &ROOT, &st), -EINVAL, "what mknod does not make");
	is(make_node("odd", 0160000, 0, &ROOT, &st), -EINVAL, "nor anybody");
	is(create("file", 0644, &ROOT, &st), 0, "root opens what is there");
	is(create_in(door.root, "link", O_RDWR, 0644, &ROOT, &st), -ELOOP, "but no link");
	is(create_in(door.root, "fifo", O_RDWR, 0644, &ROOT, &st), -ENXIO, "and no fifo");
	is(make_symlink("file", "x", &ROOT, &st), -EEXIST, "a name that is taken");
	is(make_dir("link", 0755, &ROOT, &st), -EEXIST, "is taken");
	ok(!look("file", &st) && shown(&st, 1000, 1001, S_IFREG | 06755), "and left as it was");
	finish();
}

/* ---- where there are no files without a name, and where it fails ---- */

static void test_by_name(void)
{
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	door.s->openat2 = false;
	no_tmpfile = true;
	is(create("file", 0640, &USER, &st), 0,
	   "where files must have names they are made with them");
	ok(shown(&st, 1000, 1001, S_IFREG | 0640), "and are the same");
	check_on_host("file", S_IFREG | 0600, 0100640, 1000, 1001);
	is(make_symlink("link", "x", &USER, &st), 0, "so are links");
	check_on_host("link", S_IFREG | 0600, 0120777, 1000, 1001);
	is(create("link", 0640, &ROOT, &st), -ELOOP, "names that are taken are taken");
	is(make_tmpfile(0600, O_RDWR, &ROOT, NULL, &st), -EOPNOTSUPP, "none is none");
	for (int i = 1; i <= 3; i++) {
		fail_attr = i;
		is(create("no", 0640, &USER, &st), -ENOSPC, "no room for attribute %d of a file",
		   i);
		fail_attr = i;
		is(make_symlink("no", "x", &USER, &st), -ENOSPC, "or of a link");
		ok(!host_has("no"), "leaves nothing behind");
	}
	no_tmpfile = false;
	finish();
}

static void test_failures(void)
{
	struct share_inode *gone;
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	for (int i = 1; i <= 3; i++) {
		fail_attr = i;
		is(create("no", 0640, &USER, &st), -ENOSPC, "no room for attribute %d of a file",
		   i);
		fail_attr = i;
		is(make_dir("no", 0750, &USER, &st), -ENOSPC, "of a directory");
		fail_attr = i;
		is(make_node("no", S_IFIFO | 0600, 0, &USER, &st), -ENOSPC, "of a fifo");
		fail_attr = i;
		is(make_tmpfile(0600, O_RDWR, &ROOT, NULL, &st), -ENOSPC,
		   "of a file without a name");
		is(host_entries(), 0, "leaves nothing behind");
	}
	fail_attr = 4;
	is(make_node("no", S_IFCHR | 0600, 1, &USER, &st), -ENOSPC, "nor does a device number");
	is(host_entries(), 0, "leave anything");
	need(!make_dir("gone", 0755, &ROOT, &st));
	gone = find("gone");
	need(!remove_name("gone", AT_REMOVEDIR));
	is(create_in(gone, "f", O_RDWR, 0644, &USER, &st), -ENOENT, "in a directory that is gone");
	is(mkdir_in(gone, "d", 0755, &USER, &st), -ENOENT, "nothing is made");
	share_put(gone);
	is(create("no", 0644, &(struct cred){.uid = -1u}, &st), -EINVAL, "nor by nobody at all");
	is(host_entries(), 0, "nothing was");
	finish();
}

/* ---- set-gid directories, umask ---- */

static void test_setgid_dirs(void)
{
	const struct cred member = {.uid = 1000, .gid = 1001, .has_group = true, .group = 2000};
	struct share_inode *dir;
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	need(!make_dir("g", 0777, &ROOT, &st) && !set_owner("g", 0, 2000, &st) &&
	     !set_mode("g", 03777, &st));
	dir = find("g");
	is(create_in(dir, "x", O_RDWR, 02755, &USER, &st), 0, "in a set-gid directory");
	ok(shown(&st, 1000, 2000, S_IFREG | 0755), "a program is not set-gid to what he is not in");
	is(create_in(dir, "m", O_RDWR, 02755, &member, &st), 0, "a member of the group");
	ok(shown(&st, 1000, 2000, S_IFREG | 02755), "makes it so");
	is(create_in(dir, "p", O_RDWR, 02644, &USER, &st), 0, "the bit without execution");
	ok(shown(&st, 1000, 2000, S_IFREG | 02644), "is left as it is");
	is(create_in(dir, "0", O_RDWR, 02755, &ROOT, &st), 0, "and root");
	ok(shown(&st, 0, 2000, S_IFREG | 02755), "makes what he likes");
	is(mkdir_in(dir, "d", 0750, &USER, &st), 0, "directories in it");
	ok(shown(&st, 1000, 2000, S_IFDIR | 02750), "get group and bit");
	ok(host_plain("g/d", S_IFDIR | 0700), "which the host's do not have");
	share_put(dir);
	finish();
}

static void test_umask(void)
{
	static const mode_t masks[] = {0, 027, 077};
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	/* One of the host's that the guest does not see: it opens nothing to anyone. */
	if (!host_default_acl("."))
		skip("the file system has no ACLs", "default ACLs of the host");
	for (unsigned i = 0; i < ARRAY_LEN(masks); i++) {
		struct cred cred = USER;

		cred.umask = masks[i];
		need(!create("f", 0666, &cred, &st));
		is(st.stx_mode, S_IFREG | (0666 & ~masks[i]), "umask %03o of a file", masks[i]);
		need(!make_dir("d", 0777, &cred, &st));
		is(st.stx_mode, S_IFDIR | (0777 & ~masks[i]), "of a directory");
		need(!make_node("n", S_IFSOCK | 0777, 0, &cred, &st));
		is(st.stx_mode, S_IFSOCK | (0777 & ~masks[i]), "of a socket");
		need(!make_symlink("l", "x", &cred, &st));
		is(st.stx_mode, S_IFLNK | 0777, "not of a link");
		ok(host_stat("f").st_mode == (S_IFREG | 0600) &&
			   host_stat("d").st_mode == (S_IFDIR | 0700),
		   "on the host nothing is open to others");
		need(!remove_name("f", 0) && !remove_name("d", AT_REMOVEDIR) &&
		     !remove_name("n", 0) && !remove_name("l", 0));
	}
	finish();
}

/* ---- chown, chmod, privileges ---- */

static void test_chown(void)
{
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	need(!create("f", 0644, &ROOT, &st));
	is(set_mode("f", 06755, &st), 0, "chmod, with set-id bits");
	ok(shown(&st, 0, 0, S_IFREG | 06755), "is shown");
	check_on_host("f", S_IFREG | 0600, 0106755, 0, 0);
	is(set_owner("f", 1000, 1001, &st), 0, "chown, to anyone");
	ok(shown(&st, 1000, 1001, S_IFREG | 0755), "takes the set-id bits");
	check_on_host("f", S_IFREG | 0600, 0100755, 1000, 1001);
	need(!set_mode("f", 02644, &st));
	is(set("f", (struct share_attr){.mask = SHARE_GID, .gid = 7}, &st), 0, "a group alone");
	ok(shown(&st, 1000, 7, S_IFREG | 02644), "leaves the owner, and set-gid without execution");
	is(set("f", (struct share_attr){.mask = SHARE_UID | SHARE_MODE, .uid = 5, .mode = 0104711},
	       &st),
	   0, "a mode in the same request");
	ok(shown(&st, 5, 7, S_IFREG | 04711), "outlives it; its type does not count");
	need(!make_dir("d", 02775, &ROOT, &st));
	is(set_owner("d", 5, 6, &st), 0, "of a directory chown");
	ok(shown(&st, 5, 6, S_IFDIR | 02775), "takes nothing");
	need(!make_symlink("l", "x", &ROOT, &st) && !make_node("c", S_IFCHR, 259, &ROOT, &st));
	is(set_owner("l", 5, 6, &st), 0, "a link is chowned itself");
	ok(shown(&st, 5, 6, S_IFLNK | 0777), "and stays one");
	is(set_mode("c", 0660, &st), 0, "a device is chmodded");
	ok(shown(&st, 0, 0, S_IFCHR | 0660) && st.stx_rdev_minor == 3, "and stays one");
	fail_attr = 1;
	is(set_owner("d", 8, 9, &st), -ENOSPC, "no room is told");
	ok(!look("d", &st) && shown(&st, 5, 6, S_IFDIR | 02775), "and changes nothing");
	finish();
}

static void test_kill_priv(void)
{
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	need(!create("f", 0644, &ROOT, &st) && !set_mode("f", 06755, &st));
	is(kill_by_file("f"), 0, "before a write");
	ok(!look("f", &st) && shown(&st, 0, 0, S_IFREG | 0755), "set-id bits go");
	ok(host_number("f", A_MODE, 0100755), "where they lay");
	need(!set_mode("f", 06644, &st));
	is(set("f", (struct share_attr){.mask = SHARE_KILL_PRIV | SHARE_SIZE, .size = 9}, &st), 0,
	   "with a new size");
	ok(shown(&st, 0, 0, S_IFREG | 02644) && st.stx_size == 9, "too");
	host_file("host", "x", 04711);
	is(kill_by_file("host"), 0, "of a program of the host's");
	ok(!look("host", &st) && (st.stx_mode & 07777) == 0711 &&
		   host_stat("host").st_mode == (S_IFREG | 0711),
	   "the host's bits go");
	ok(host_is("host", A_MODE, NULL, -ENODATA), "and nothing is noted of what was not");
	finish();
}

/* ---- opening ---- */

static void test_open(void)
{
	const struct cred member = {.uid = 5, .gid = 6, .has_group = true, .group = 1001};
	struct share_inode *inode;
	struct share_file *file;
	struct name n = nm("ro");
	struct statx st;
	char buf[16];

	begin(SHARE_OWNER_MAPPED);
	need(!share_create(door.root, &n, O_RDONLY, 0444, &USER, &inode, &file, &st));
	is(fcntl(file->io.fd, F_GETFL) & O_ACCMODE, O_RDONLY,
	   "who makes a file to read it, reads it");
	ok(shown(&st, 1000, 1001, S_IFREG | 0444), "with its mode");
	share_file_close(file);
	share_put(inode);
	is(create_in(door.root, "ro", O_RDONLY, 0, &member, &st), 0,
	   "who races a creation may read");
	is(create_in(door.root, "ro", O_RDWR, 0, &member, &st), -EACCES, "what he may read");
	is(create_in(door.root, "ro", O_RDWR, 0, &USER, &st), -EACCES, "so may its owner");
	is(create_in(door.root, "ro", O_RDWR | O_EXCL, 0, &ROOT, &st), -EEXIST,
	   "unless it must be new");
	need(!set_mode("ro", 0620, &st));
	is(create_in(door.root, "ro", O_RDWR, 0, &USER, &st), 0, "its owner as owner");
	is(create_in(door.root, "ro", O_WRONLY, 0, &member, &st), 0, "its group as group");
	is(create_in(door.root, "ro", O_RDONLY, 0, &member, &st), -EACCES, "and no more");
	is(create_in(door.root, "ro", O_RDONLY, 0, &(struct cred){.uid = 5, .gid = 6}, &st),
	   -EACCES, "others as others");
	is(create_in(door.root, "ro", O_RDONLY | O_TRUNC, 0, &member, &st), -EACCES,
	   "cutting it off is writing");
	need(!make_node("fifo", S_IFIFO | 0666, 0, &ROOT, &st) &&
	     !make_node("null", S_IFCHR | 0666, makedev(1, 3), &ROOT, &st) &&
	     !make_symlink("link", "target", &ROOT, &st));
	inode = find("fifo");
	is(share_open_inode(inode, O_RDWR, &file), -ENXIO, "a fifo is never opened");
	is(share_readlink(inode, buf, sizeof(buf)), -EINVAL, "nor is it a link");
	share_put(inode);
	inode = find("null");
	is(share_open_inode(inode, O_RDWR, &file), -ENXIO, "nor a device");
	is(set("null", (struct share_attr){.mask = SHARE_SIZE, .size = 4}, &st), -EINVAL,
	   "and it has no size");
	share_put(inode);
	inode = find("link");
	is(share_open_inode(inode, O_RDONLY, &file), -ELOOP, "nor a link");
	is(share_readlink(inode, buf, sizeof(buf)), 6, "which is read");
	ok(!memcmp(buf, "target", 6), "and says where it leads");
	is(share_readlink(inode, buf, 3), 3, "into little room, as far as that goes");
	need(!remove_name("link", 0));
	is(share_readlink(inode, buf, sizeof(buf)), 6, "also when its name is gone");
	share_put(inode);
	finish();
}

/* ---- other names ---- */

static void test_names(void)
{
	char target[4096], got[4096];
	struct share_inode *inode;
	struct name a = nm("a"), b = nm("b");
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	memset(target, 't', 4095);
	target[4095] = '\0';
	is(make_symlink("a", target, &USER, &st), 0, "a link of 4095 bytes");
	inode = find("a");
	is(share_readlink(inode, got, sizeof(got)), 4095, "is read");
	ok(!memcmp(got, target, 4095), "as it was written");
	share_put(inode);
	is(share_rename(door.root, &a, door.root, &b, 0), 0, "it is renamed");
	ok(!look("b", &st) && S_ISLNK(st.stx_mode), "and stays a link");
	need(!create("f", 0640, &USER, &st) && !make_link("f", "g", &st));
	ok(!look("g", &st) && shown(&st, 1000, 1001, S_IFREG | 0640) && st.stx_nlink == 2,
	   "both names of a file show the same");
	a = nm("f");
	if (share_rename(door.root, &a, door.root, &b, RENAME_WHITEOUT))
		skip("the host's file system has none", "whiteouts by rename");
	else
		ok(!look("f", &st) && S_ISCHR(st.stx_mode) && !st.stx_rdev_major &&
			   !st.stx_rdev_minor,
		   "a rename leaves a whiteout where it is asked to");
	finish();
}

/* ---- a tree that others made ---- */

static void test_by_hand(void)
{
	const uint64_t null = htole64(makedev(1, 3));
	struct share_inode *inode;
	struct share_file *file;
	struct statx st;
	char buf[16];

	begin(SHARE_OWNER_MAPPED);
	host_file("f", "text", 0600);
	put32("f", A_UID, 1000), put32("f", A_GID, 1001), put32("f", A_MODE, 0100644);
	ok(!look("f", &st) && shown(&st, 1000, 1001, S_IFREG | 0644), "a file");
	host_file("l", "f", 0600);
	put32("l", A_UID, 1), put32("l", A_GID, 2), put32("l", A_MODE, 0120777);
	ok(!look("l", &st) && shown(&st, 1, 2, S_IFLNK | 0777), "a link");
	inode = find("l");
	ok(share_readlink(inode, buf, sizeof(buf)) == 1 && buf[0] == 'f', "and its target");
	share_put(inode);
	need(!mkdirat(door.dir, "d", 0700));
	put32("d", A_MODE, 043775);
	ok(!look("d", &st) && shown(&st, geteuid(), getegid(), S_IFDIR | 03775),
	   "a directory whose owner is not noted is its host's");
	host_file("c", "", 0600);
	put32("c", A_MODE, 020620);
	need(!host_setxattr("c", A_RDEV, &null, 8));
	ok(!look("c", &st) && st.stx_mode == (S_IFCHR | 0620) && st.stx_rdev_major == 1 &&
		   st.stx_rdev_minor == 3,
	   "a device");
	host_file("plain", "x", 0641);
	ok(!look("plain", &st) && shown(&st, geteuid(), getegid(), S_IFREG | 0641),
	   "a file with nothing noted is as the host has it");
	put32("plain", A_UID, 77);
	ok(!look("plain", &st) && shown(&st, 77, getegid(), S_IFREG | 0641),
	   "with one thing, that");
	inode = find("plain");
	is(share_open_inode(inode, O_RDWR, &file), 0, "it is opened");
	need(!share_getattr(inode, file, &st));
	ok(shown(&st, 77, getegid(), S_IFREG | 0641), "and the same when asked by its file");
	share_file_close(file);
	share_put(inode);
	need(!symlinkat("c", door.dir, "real"));
	ok(!look("real", &st) && shown(&st, geteuid(), getegid(), S_IFLNK | 0777),
	   "a link of the host's is one");
	inode = find("real");
	ok(share_readlink(inode, buf, sizeof(buf)) == 1 && buf[0] == 'c', "with its target");
	share_put(inode);
	is(set_owner("real", 5, 5, &st), -EPERM, "whose owner nobody notes");
	ok(host_is("c", A_UID, NULL, -ENODATA), "least of all in what it leads to");
	need(!mkfifoat(door.dir, "pipe", 0600));
	ok(!look("pipe", &st) && st.stx_mode == (S_IFIFO | 0600), "a fifo of the host's is one");
	finish();
}

/* What no one would note so: nothing of it makes an object that cannot be. */
static void test_nonsense(void)
{
	static const unsigned char bytes[16] = {0xff, 0x41, 1, 2, 3};
	struct share_inode *inode;
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	host_file("f", "x", 0640);
	for (size_t n = 0; n <= 16; n++) {
		if (n == 4)
			continue;
		need(!host_setxattr("f", A_UID, bytes, n) && !host_setxattr("f", A_MODE, bytes, n));
		ok(!look("f", &st) && shown(&st, geteuid(), getegid(), S_IFREG | 0640),
		   "%zu bytes are no number", n);
	}
	put32("f", A_UID, 3);
	put32("f", A_MODE, 040755);
	ok(!look("f", &st) && st.stx_mode == (S_IFREG | 0755), "a file is no directory");
	put32("f", A_MODE, 0604);
	ok(!look("f", &st) && st.stx_mode == (S_IFREG | 0604), "no type is the host's");
	put32("f", A_MODE, 0xffffffff);
	ok(!look("f", &st) && st.stx_mode == (S_IFREG | 07777), "nor is one that is none");
	need(!mkdirat(door.dir, "d", 0700));
	put32("d", A_MODE, 0120777);
	ok(!look("d", &st) && st.stx_mode == (S_IFDIR | 0777), "a directory is no link");
	put32("d", A_MODE, 0100755);
	ok(!look("d", &st) && st.stx_mode == (S_IFDIR | 0755), "nor a file");
	inode = find("f");
	put32("f", A_MODE, 010644);
	need(!share_getattr(inode, NULL, &st));
	is(st.stx_mode, S_IFREG | 0644, "what the guest knows does not become another thing");
	ok(!look("f", &st) && st.stx_mode == (S_IFREG | 0644), "however it asks");
	share_put(inode);
	ok(!look("f", &st) && st.stx_mode == (S_IFIFO | 0644), "until it has forgotten it");
	finish();
}

/* ---- listing ---- */

static const struct {
	const char *name;
	unsigned char type;
} kinds[] = {{"file", DT_REG},  {"link", DT_LNK}, {"fifo", DT_FIFO},
	     {"sock", DT_SOCK}, {"chr", DT_CHR},  {"blk", DT_BLK},
	     {"dir", DT_DIR},   {"host", DT_REG}, {"real", DT_LNK}};

static enum share_put check_entry(void *ctx, const struct share_dirent *d)
{
	unsigned *good = ctx;

	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++)
		if (strlen(kinds[i].name) == d->len && !memcmp(d->name, kinds[i].name, d->len))
			*good += d->type == kinds[i].type;
	return SHARE_PUT;
}

static void test_listing(void)
{
	struct share_file *dir;
	unsigned good = 0;
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	need(!create("file", 0644, &USER, &st) && !make_symlink("link", "x", &USER, &st) &&
	     !make_node("fifo", S_IFIFO | 0600, 0, &USER, &st) &&
	     !make_node("sock", S_IFSOCK | 0600, 0, &USER, &st) &&
	     !make_node("chr", S_IFCHR, 0, &USER, &st) &&
	     !make_node("blk", S_IFBLK | 0600, makedev(8, 0), &USER, &st) &&
	     !make_dir("dir", 0755, &USER, &st));
	host_file("host", "x", 0600);
	need(!symlinkat("x", door.dir, "real"));
	need(!share_open_inode(door.root, O_RDONLY | O_DIRECTORY, &dir));
	is(share_readdir(dir, 0, check_entry, &good), 0, "a directory is listed");
	is(good, ARRAY_LEN(kinds), "each entry is of the kind that it is shown as");
	share_file_close(dir);
	finish();
}

/* ---- set-up, read-only, labels ---- */

static void test_start(void)
{
	char pts[] = "/dev/pts";
	struct share_config cfg = {.path = pts, .owner = SHARE_OWNER_MAPPED};
	struct share *s;
	struct statx st;

	if (getxattr(pts, A_UID, NULL, 0) < 0 && errno == EOPNOTSUPP)
		is(share_open(&s, "fs0", &cfg), -EOPNOTSUPP,
		   "without attributes there is nothing to keep it in");
	else
		skip("/dev/pts has attributes, or is not there", "a directory without attributes");
	host_file("f", "x", 0600);
	put32("f", A_UID, 12);
	begin_with((struct share_config){.owner = SHARE_OWNER_MAPPED, .readonly = true});
	ok(!look("f", &st) && st.stx_uid == 12, "a read-only share shows what was noted");
	is(create("n", 0644, &ROOT, &st), -EROFS, "and takes nothing");
	is(make_tmpfile(0600, O_RDWR, &ROOT, NULL, &st), -EROFS, "at all");
	is(set_owner("f", 1, 1, &st), -EROFS, "of anything");
	is(kill_by_file("f"), -EROFS, "in any way");
	finish();
}

static void test_label(void)
{
	const struct share_label label = {"security.wherry", "blue", 5}, odd = {"user.x", "y", 1};
	struct cred cred = USER;
	struct statx st;

	if (geteuid() != 0) {
		is(try_open_share((struct share_config){.owner = SHARE_OWNER_MAPPED,
							.security_label = true}),
		   -EPERM, "labels need the right to give them");
		return;
	}
	if (!host_takes_labels()) {
		skip("root of a user namespace", "labels");
		return;
	}
	begin_with((struct share_config){.owner = SHARE_OWNER_MAPPED, .security_label = true});
	cred.label = &label;
	need(!create("f", 0644, &cred, &st) && !make_dir("d", 0755, &cred, &st) &&
	     !make_symlink("l", "x", &cred, &st));
	for (unsigned i = 0; i < 3; i++)
		ok(host_is((const char *[]){"f", "d", "l"}[i], label.name, "blue", 5),
		   "what is made has its label");
	cred.label = &odd;
	is(create("n", 0644, &cred, &st), -EINVAL, "or is not made");
	is(make_dir("n", 0755, &cred, &st), -EINVAL, "be it a directory");
	is(make_symlink("n", "x", &cred, &st), -EINVAL, "or a link");
	ok(!host_has("n"), "nor left behind");
	finish();
}

/* ---- under the filter ---- */

struct ride {
	struct iothread *io;
	unsigned failed;
};

static int ride_init(void *arg)
{
	(void)arg;
	return share_thread_init(door.s);
}

static void ride(void *arg)
{
	const struct cred cred = {
		.uid = 1000, .gid = 1001, .has_group = true, .group = 2000, .umask = 022};
	struct ride *r = arg;
	struct share_file *dir;
	struct share_inode *link;
	unsigned good = 0;
	struct statx st;
	char buf[8];

	r->failed += create("file", 0755, &cred, &st) != 0;
	r->failed += create_in(door.root, "host", O_RDONLY, 0755, &cred, &st) != 0;
	r->failed += make_dir("dir", 0755, &cred, &st) != 0;
	r->failed += make_node("fifo", S_IFIFO | 0600, 0, &cred, &st) != 0;
	r->failed += make_node("blk", S_IFBLK | 0600, 5, &cred, &st) != 0;
	r->failed += make_symlink("link", "x", &cred, &st) != 0;
	r->failed += make_tmpfile(0600, O_RDWR, &cred, "tmp", &st) != 0;
	r->failed += set_mode("file", 06755, &st) != 0;
	r->failed += kill_by_file("file") != 0;
	r->failed += set_owner("file", 5, 6, &st) != 0;
	link = find("link");
	r->failed += share_readlink(link, buf, sizeof(buf)) != 1;
	share_put(link);
	r->failed += share_open_inode(door.root, O_RDONLY | O_DIRECTORY, &dir) != 0;
	r->failed += share_readdir(dir, 0, check_entry, &good) != 0 || good != 6;
	share_file_close(dir);
}

static void test_iothread(void)
{
	struct ride r = {0};

	begin(SHARE_OWNER_MAPPED);
	need(!iothread_create(&r.io, "fs0", LOOP_AUTO, 8, &share_syscalls));
	need(!iothread_start(r.io, ride_init, NULL));
	loop_call(r.io, ride, &r);
	is(r.failed, 0, "all of it works under the filter");
	iothread_destroy(r.io);
	finish();
}

/* ---- the run ---- */

static void test_all(void)
{
	test_made();
	test_by_name();
	test_failures();
	test_setgid_dirs();
	test_umask();
	test_chown();
	test_kill_priv();
	test_open();
	test_names();
	test_by_hand();
	test_nonsense();
	test_listing();
	test_start();
	test_label();
	need(!sandbox_init());
	test_iothread();
}

/* Where only the host's root could look: the guest is shown no less than that it is there. */
static void test_foreign(void)
{
	struct statx st;

	begin(SHARE_OWNER_MAPPED);
	ok(!look("closed", &st) && shown(&st, 4321, 4322, S_IFREG | 0600),
	   "what we may not read is shown as the host has it");
	is(create_in(door.root, "closed", O_RDWR, 0, &ROOT, &st), -EACCES, "and not opened");
	is(set_owner("closed", 0, 0, &st), -EACCES, "nor owned");
	share_put(door.root);
	share_close(door.s);
}

/* In a directory of his own. */
static void nobodys(void)
{
	host_file("closed", "x", 0600);
	put32("closed", A_UID, 7);
	need(!fchownat(door.dir, "closed", 4321, 4322, 0) && !fchown(door.dir, NOBODY, NOBODY));
	as_nobody(test_foreign);
	host_clear(door.dir);
	as_nobody(test_all);
	need(!fchown(door.dir, 0, 0));
}

static bool has_user_attrs(void)
{
	bool has = !host_setxattr(".", A_UID, "\0\0\0", 4);
	char path[600];

	host_path(path, ".");
	(void)lremovexattr(path, A_UID);
	return has;
}

int main(void)
{
	door_make("t_share_mapped", geteuid(), getegid());
	if (!has_user_attrs()) {
		skip("the file system of TMPDIR keeps no user.* attributes", "mapped shares");
		door_remove();
		return done();
	}
	if (share_owner_passes())
		nobodys();
	test_all();
	door_remove();
	return done();
}
