// SPDX-License-Identifier: Apache-2.0
/*
 * readonly.c - a share that is read-only on the host: every call that would change something is
 * refused with EROFS, while reading goes on.
 *
 * The guest has mounted it read-write, so its own kernel refuses nothing; the host looks afterwards
 * that nothing has changed. DIR has the file "f", the directory "d", the link "s" and the empty
 * directory "empty".
 */
#include "suite.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

static int sentences, bad;

static void refused(const char *what, long result)
{
	bool good = result == -1 && errno == EROFS;

	sentences++;
	if (good)
		return;
	bad++;
	printf("@@ not ok a read-only share refuses %s (%ld: %s)\n", what, result, strerror(errno));
}
#define REFUSED(call) refused(#call, (errno = 0, (long)(call)))

static void opens(void)
{
	REFUSED(open("f", O_WRONLY));
	REFUSED(open("f", O_RDWR));
	REFUSED(open("f", O_RDONLY | O_TRUNC));
	REFUSED(open("f", O_WRONLY | O_TRUNC));
	REFUSED(open("f", O_WRONLY | O_APPEND));
	REFUSED(open("f", O_RDWR | O_CREAT, 0644));
	REFUSED(open("new", O_WRONLY | O_CREAT, 0644));
	REFUSED(open("new", O_RDONLY | O_CREAT | O_EXCL, 0644));
	REFUSED(truncate("f", 0));
	REFUSED(truncate("f", 1 << 20));
}

static void names(void)
{
	REFUSED(mkdir("new", 0755));
	REFUSED(mknod("new", S_IFREG | 0644, 0));
	REFUSED(mknod("new", S_IFCHR | 0644, 0x0103));
	REFUSED(mkfifo("new", 0644));
	REFUSED(symlink("x", "new"));
	REFUSED(link("f", "new"));
	REFUSED(unlink("f"));
	REFUSED(unlink("s"));
	REFUSED(rmdir("empty"));
	REFUSED(rename("f", "new"));
	REFUSED(rename("f", "s"));
	REFUSED(rename("d", "empty"));
}

static void attributes(void)
{
	struct timespec t[2] = {{1000, 0}, {1000, 0}};

	REFUSED(chmod("f", 0777));
	REFUSED(chmod("d", 0777));
	REFUSED(chown("f", 1, 1));
	REFUSED(lchown("s", 1, 1));
	REFUSED(utimensat(AT_FDCWD, "f", t, 0));
	REFUSED(utimensat(AT_FDCWD, "f", NULL, 0));
	REFUSED(utimensat(AT_FDCWD, "s", t, AT_SYMLINK_NOFOLLOW));
}

/* Refused before it is asked whether the share has such a thing at all, or because it has not. */
static void extras(void)
{
	int fd = open("f", O_RDONLY), flags = FS_NOATIME_FL, r;

#define REFUSED_OR(error, call)                  \
	do {                                     \
		errno = 0;                       \
		r = (int)(call);                 \
		if (r == -1 && errno == (error)) \
			errno = EROFS;           \
		refused(#call, r);               \
	} while (0)
	REFUSED_OR(EOPNOTSUPP, open(".", O_TMPFILE | O_RDWR, 0644));
	REFUSED_OR(EOPNOTSUPP, setxattr("f", "user.a", "1", 1, 0));
	REFUSED_OR(EOPNOTSUPP, setxattr("d", "trusted.a", "1", 1, 0));
	REFUSED_OR(EOPNOTSUPP, removexattr("f", "user.there"));
	REFUSED_OR(EINVAL, renameat2(AT_FDCWD, "f", AT_FDCWD, "s", RENAME_EXCHANGE));
	REFUSED_OR(EINVAL, renameat2(AT_FDCWD, "f", AT_FDCWD, "new", RENAME_NOREPLACE));
	REFUSED_OR(EINVAL, renameat2(AT_FDCWD, "f", AT_FDCWD, "new", RENAME_WHITEOUT));
	REFUSED_OR(ENOTTY, ioctl(fd, FS_IOC_SETFLAGS, &flags));
#undef REFUSED_OR
	/* Without the right to write there is nothing to write with: this kernel's own refusal. */
	if (write(fd, "x", 1) != -1 || ftruncate(fd, 0) != -1 || fallocate(fd, 0, 0, 9999) != -1 ||
	    copy_file_range(fd, NULL, fd, NULL, 1, 0) != -1) {
		printf("@@ not ok a file opened for reading is not written\n");
		bad++;
	}
	close(fd);
}

int readonly_main(const char *dir)
{
	int n;

	if (chdir(dir) || !S_ISLNK(({
		    struct stat st = {0};
		    (void)lstat("s", &st);
		    st.st_mode;
	    }))) {
		printf("@@ not ok %s has what the read-only checks need\n", dir);
		return 1;
	}
	opens();
	names();
	attributes();
	extras();
	n = open("f", O_RDONLY);
	if (n < 0 || access("f", R_OK) || access("d", X_OK)) {
		printf("@@ not ok a read-only share is read\n");
		bad++;
	}
	printf("@@ %s a read-only share refuses all %d kinds of change\n", bad ? "not ok" : "ok",
	       sentences);
	return bad ? 1 : 0;
}
