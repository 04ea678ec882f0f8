// SPDX-License-Identifier: Apache-2.0
/*
 * xattrs.c - extended attributes: their names, sizes and errors, on every kind of object, and the file
 * capabilities that a change of the file must take away.
 */
#include "suite.h"
#include <linux/capability.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

static bool holds(const char *file, const char *name, const char *value)
{
	char buf[64];
	ssize_t n = lgetxattr(file, name, buf, sizeof(buf));

	return n == (ssize_t)strlen(value) && memcmp(buf, value, (size_t)n) == 0;
}

static bool lists(const char *list, ssize_t n, const char *name)
{
	for (const char *p = list; p < list + n; p += strlen(p) + 1)
		if (!strcmp(p, name))
			return true;
	return false;
}

static bool check_xattr(void)
{
	char buf[64];

	must(file_make("f", "x"));
	must_fail(getxattr("f", "user.a", buf, sizeof(buf)), ENODATA);
	must_fail(removexattr("f", "user.a"), ENODATA);
	must(setxattr("f", "user.a", "one", 3, 0) == 0 && holds("f", "user.a", "one"));
	must(setxattr("f", "user.a", "longer", 6, 0) == 0 && holds("f", "user.a", "longer"));
	must(setxattr("f", "user.empty", "", 0, 0) == 0 && holds("f", "user.empty", ""));
	must(setxattr("f", "user.nul", "a\0b", 3, 0) == 0);
	must(getxattr("f", "user.nul", buf, 64) == 3 && memcmp(buf, "a\0b", 3) == 0);
	must(removexattr("f", "user.a") == 0);
	must_fail(getxattr("f", "user.a", buf, sizeof(buf)), ENODATA);
	must(file_holds("f", "x") && rename("f", "g") == 0 && holds("g", "user.empty", ""));
	return true;
}

static bool check_xattr_flags(void)
{
	must(file_make("f", "x"));
	must_fail(setxattr("f", "user.a", "1", 1, XATTR_REPLACE), ENODATA);
	must(setxattr("f", "user.a", "1", 1, XATTR_CREATE) == 0);
	must_fail(setxattr("f", "user.a", "2", 1, XATTR_CREATE), EEXIST);
	must(holds("f", "user.a", "1"));
	must(setxattr("f", "user.a", "3", 1, XATTR_REPLACE) == 0 && holds("f", "user.a", "3"));
	must_fail(setxattr("f", "user.a", "1", 1, 7), EINVAL);
	return true;
}

static bool check_xattr_sizes(void)
{
	static char huge[65537];
	char value[2000], got[4096];

	must(file_make("f", "x"));
	fill(value, sizeof(value), 1);
	must(setxattr("f", "user.big", value, sizeof(value), 0) == 0);
	must(getxattr("f", "user.big", NULL, 0) == sizeof(value));
	must(getxattr("f", "user.big", got, sizeof(got)) == sizeof(value));
	must(memcmp(got, value, sizeof(value)) == 0);
	must_fail(getxattr("f", "user.big", got, sizeof(value) - 1), ERANGE);
	must_fail(setxattr("f", "user.huge", huge, sizeof(huge), 0), E2BIG);
	must(getxattr("f", "user.big", got, sizeof(value)) == sizeof(value));
	return true;
}

static bool check_xattr_names(void)
{
	char name[300], got[16];

	must(file_make("f", "x"));
	memset(name, 'n', sizeof(name));
	memcpy(name, "user.", 5);
	name[255] = 0;
	must(setxattr("f", name, "v", 1, 0) == 0 && holds("f", name, "v"));
	must(removexattr("f", name) == 0);
	name[255] = 'n';
	name[256] = 0;
	must_fail(setxattr("f", name, "v", 1, 0), ERANGE);
	must_fail(getxattr("f", name, got, sizeof(got)), ERANGE);
	must(setxattr("f", "user.", "v", 1, 0) == -1 && (errno == EINVAL || errno == EOPNOTSUPP));
	must_fail(setxattr("f", "", "v", 1, 0), ERANGE);
	must_fail(setxattr("f", "nonsense", "v", 1, 0), EOPNOTSUPP);
	must_fail(setxattr("f", "other.space", "v", 1, 0), EOPNOTSUPP);
	must_fail(getxattr("f", "other.space", got, sizeof(got)), EOPNOTSUPP);
	must(setxattr("f", "user.\xff\n ", "v", 1, 0) == 0 && holds("f", "user.\xff\n ", "v"));
	return true;
}

static bool check_xattr_list(void)
{
	char name[32], list[2048];
	ssize_t n, before;

	must(file_make("f", "x") && (before = listxattr("f", NULL, 0)) >= 0);
	must(listxattr("f", list, sizeof(list)) == before);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "user.name-%d", i);
		must(setxattr("f", name, name, strlen(name), 0) == 0);
	}
	must((n = listxattr("f", NULL, 0)) > before && listxattr("f", list, sizeof(list)) == n);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "user.name-%d", i);
		must(lists(list, n, name) && holds("f", name, name));
	}
	must_fail(listxattr("f", list, (size_t)n - 1), ERANGE);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "user.name-%d", i);
		must(removexattr("f", name) == 0);
	}
	must(listxattr("f", list, sizeof(list)) == before);
	return true;
}

static bool check_xattr_objects(void)
{
	char buf[16];
	int fd;

	must(mkdir("d", 0755) == 0 && mkfifo("p", 0600) == 0 && file_make("f", "x"));
	must(symlink("f", "s") == 0);
	must(setxattr("d", "user.a", "1", 1, 0) == 0 && holds("d", "user.a", "1"));
	must_fail(setxattr("p", "user.a", "1", 1, 0), EPERM);
	must_fail(lsetxattr("s", "user.a", "1", 1, 0), EPERM);
	must(setxattr("s", "user.a", "1", 1, 0) == 0 && holds("f", "user.a", "1"));
	must_fail(setxattr("none", "user.a", "1", 1, 0), ENOENT);
	must((fd = open("f", O_RDONLY)) >= 0 && fsetxattr(fd, "user.b", "2", 1, 0) == 0);
	must(unlink("f") == 0 && fgetxattr(fd, "user.b", buf, sizeof(buf)) == 1);
	must(fsetxattr(fd, "user.c", "3", 1, 0) == 0 && flistxattr(fd, NULL, 0) >= 21);
	must(fremovexattr(fd, "user.b") == 0);
	must_fail(fgetxattr(fd, "user.b", buf, sizeof(buf)), ENODATA);
	return true;
}

static bool stranger_asks(void)
{
	char buf[16];

	must(getxattr("f", "user.a", buf, sizeof(buf)) == 1);
	must_fail(setxattr("f", "user.a", "2", 1, 0), EACCES);
	must_fail(removexattr("f", "user.a"), EACCES);
	must_fail(getxattr("closed", "user.a", buf, sizeof(buf)), EACCES);
	return true;
}

static bool check_xattr_strangers(void)
{
	must(file_make("f", "x") && file_make("closed", "x") && chmod("closed", 0600) == 0);
	must(setxattr("f", "user.a", "1", 1, 0) == 0);
	must(setxattr("closed", "user.a", "1", 1, 0) == 0);
	must(as_user(1001, 1001, 0, stranger_asks) && holds("f", "user.a", "1"));
	return true;
}

static bool stranger_of_trusted(void)
{
	char list[256];
	ssize_t n = listxattr("f", list, sizeof(list));

	must(n >= 0 && (!have(HIDDEN) || !lists(list, n, "trusted.a")));
	must_fail(getxattr("f", "trusted.a", list, sizeof(list)), ENODATA);
	must_fail(setxattr("f", "trusted.a", "2", 1, 0), EPERM);
	return true;
}

static bool check_xattr_trusted(void)
{
	char list[256];
	ssize_t n;

	must(file_make("f", "x") && symlink("f", "s") == 0 && mknod("p", S_IFIFO | 0600, 0) == 0);
	must(chmod("f", 0666) == 0 && setxattr("f", "trusted.a", "1", 1, 0) == 0);
	must(lsetxattr("s", "trusted.a", "link", 4, 0) == 0 && holds("s", "trusted.a", "link"));
	must(setxattr("p", "trusted.a", "fifo", 4, 0) == 0 && holds("p", "trusted.a", "fifo"));
	must(holds("f", "trusted.a", "1") && (n = listxattr("f", list, sizeof(list))) > 0);
	must(lists(list, n, "trusted.a"));
	must(chmod("f", 0) == 0 && holds("f", "trusted.a", "1") && chmod("f", 0666) == 0);
	if (have(USERS))
		must(as_user(1001, 1001, 0, stranger_of_trusted));
	return true;
}

static bool capable_make(const char *name)
{
	struct vfs_cap_data cap = {.magic_etc = VFS_CAP_REVISION_2,
				   .data = {{.permitted = 1 << CAP_NET_RAW}}};

	must(file_make_mode(name, "x", 0755) && chmod(name, 0777) == 0);
	must(setxattr(name, "security.capability", &cap, sizeof(cap), 0) == 0);
	must(getxattr(name, "security.capability", NULL, 0) > 0);
	return true;
}

static bool incapable(const char *name)
{
	return getxattr(name, "security.capability", NULL, 0) == -1 && errno == ENODATA;
}

static bool stranger_writes(void)
{
	int fd = open("u", O_WRONLY);

	must(fd >= 0 && write(fd, "y", 1) == 1 && close(fd) == 0);
	return true;
}

static bool check_capability(void)
{
	int fd;

	must(capable_make("w") && capable_make("t") && capable_make("c") && capable_make("u"));
	must(capable_make("kept"));
	must((fd = open("w", O_WRONLY)) >= 0 && write(fd, "y", 1) == 1 && close(fd) == 0);
	must(truncate("t", 0) == 0 && chown("c", 0, 0) == 0);
	must(incapable("w") && incapable("t") && incapable("c"));
	if (have(USERS))
		must(as_user(1001, 1001, 0, stranger_writes) && incapable("u"));
	must(chmod("kept", 0755) == 0 && rename("kept", "k") == 0 && file_holds("k", "x"));
	must(getxattr("k", "security.capability", NULL, 0) > 0);
	return true;
}

static bool check_xattr_refused(void)
{
	char buf[16];

	must(file_make("f", "x"));
	must_fail(setxattr("f", "user.a", "1", 1, 0), EOPNOTSUPP);
	must(getxattr("f", "user.a", buf, sizeof(buf)) == -1 &&
	     (errno == EOPNOTSUPP || errno == ENODATA));
	must(listxattr("f", buf, sizeof(buf)) == 0 || errno == EOPNOTSUPP);
	must(file_holds("f", "x"));
	return true;
}

/* Where a server is not asked to open files, the write is what is refused. */
static bool append_only(const char *name)
{
	int fd = open(name, O_WRONLY);

	if (fd < 0)
		return errno == EPERM;
	must(pwrite(fd, "y", 1, 0) == -1 || fsync(fd) == -1);
	close(fd);
	return true;
}

static bool check_flags(void)
{
	int flags = 0, dir_flags, fd, dir;
	struct fsxattr x;

	must(file_make("f", "x") && (fd = open("f", O_RDONLY)) >= 0);
	must((dir = open(".", O_RDONLY | O_DIRECTORY)) >= 0);
	must(ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_IMMUTABLE_FL));
	must(ioctl(dir, FS_IOC_GETFLAGS, &dir_flags) == 0);
	flags |= FS_NOATIME_FL;
	must(ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0);
	must(ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && flags & FS_NOATIME_FL);
	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0)
		must(x.fsx_xflags & FS_XFLAG_NOATIME);
	else
		must(errno == ENOTTY || errno == EOPNOTSUPP);
	if (have(ROOT | TRUSTED)) {
		flags |= FS_APPEND_FL;
		must(ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0);
		must(append_only("f"));
		must_fail(unlink("f"), EPERM);
		flags &= ~FS_APPEND_FL;
	}
	flags &= ~FS_NOATIME_FL;
	must(ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0 && unlink("f") == 0);
	must(ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_NOATIME_FL));
	return true;
}

static bool check_flags_refused(void)
{
	int flags = 0, fd;

	must(file_make("f", "x") && (fd = open("f", O_RDONLY)) >= 0);
	must_fail(ioctl(fd, FS_IOC_GETFLAGS, &flags), ENOTTY);
	must_fail(ioctl(fd, FS_IOC_SETFLAGS, &flags), ENOTTY);
	return true;
}

const struct check xattr_checks[] = {
	CHECK(xattr, "extended attributes are set, read and removed", XATTR),
	CHECK(xattr_flags, "an attribute is only created or only replaced when told", XATTR),
	CHECK(xattr_sizes, "attributes tell their size, and too small a buffer is refused", XATTR),
	CHECK(xattr_names, "attribute names of every kind are kept or refused right", XATTR),
	CHECK(xattr_list, "a list of attributes has all of them, also none", XATTR),
	CHECK(xattr_objects, "attributes of directories, links, fifos and unlinked files", XATTR),
	CHECK(xattr_strangers, "attributes are read and written by whom the mode lets",
	      ROOT | USERS | XATTR),
	CHECK(xattr_trusted, "trusted attributes are root's, on every kind of object",
	      ROOT | XATTR | TRUSTED),
	CHECK(capability, "a change of a program takes its capabilities away", ROOT | TRUSTED),
	CHECK(xattr_refused, "extended attributes are refused as not supported", 0, XATTR),
	CHECK(flags, "file flags are read, set and obeyed", FLAGS),
	CHECK(flags_refused, "file flags are refused as an unknown ioctl", 0, FLAGS),
	{0},
};
