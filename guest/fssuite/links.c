// SPDX-License-Identifier: Apache-2.0
/*
 * links.c - hard links are one file under several names; symbolic links are bytes that are kept.
 */
#include "suite.h"
#include <sys/file.h>

static bool check_link(void)
{
	struct stat a, b;

	must(file_make("a", "both") && link("a", "b") == 0);
	must(stat("a", &a) == 0 && stat("b", &b) == 0);
	must(a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_nlink == 2 && b.st_nlink == 2);
	must_fail(link("a", "b"), EEXIST);
	must_fail(link("none", "c"), ENOENT);
	must(truncate("a", 2) == 0 && file_holds("b", "bo") && chmod("b", 0600) == 0);
	must(mode_of("a") == 0600);
	must(unlink("a") == 0 && file_holds("b", "bo"));
	must(nlink_of("b") == 1 && unlink("b") == 0);
	return true;
}

/* One file in the kernel's eyes as well: a lock on the one is a lock on the other. */
static bool check_link_same(void)
{
	int a, b;

	must(file_make("a", "x") && link("a", "b") == 0 && mkdir("d", 0755) == 0);
	must(rename("b", "d/b") == 0 && (a = open("a", O_RDWR)) >= 0);
	must((b = open("d/b", O_RDWR)) >= 0 && flock(a, LOCK_EX) == 0);
	must_fail(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK);
	must(pwrite(a, "longer", 6, 0) == 6 && fd_holds(b, "longer"));
	must(ftruncate(b, 3) == 0 && fd_holds(a, "lon") && size_of("a") == 3);
	return true;
}

static bool check_link_kinds(void)
{
	struct stat st;
	ino_t s;

	must(mkdir("d", 0755) == 0 && mkfifo("p", 0600) == 0 && symlink("aim", "s") == 0);
	must(file_make("f", "x") && symlink("f", "t") == 0);
	must_fail(link("d", "e"), EPERM);
	must_fail(link("f", "d"), EEXIST);
	must_fail(link("f", "none/x"), ENOENT);
	must(link("p", "p2") == 0 && nlink_of("p") == 2 && ino_of("p") == ino_of("p2"));
	s = ino_of("s");
	must(link("s", "d/s2") == 0 && lstat("d/s2", &st) == 0 && S_ISLNK(st.st_mode));
	must(st.st_ino == s && st.st_nlink == 2 && unlink("s") == 0 && nlink_of("d/s2") == 1);
	must(linkat(AT_FDCWD, "t", AT_FDCWD, "d/f2", AT_SYMLINK_FOLLOW) == 0);
	must(ino_of("d/f2") == ino_of("f") && file_holds("d/f2", "x"));
	return true;
}

static bool check_link_many(void)
{
	char name[16];
	struct stat st;
	int fd;

	must(file_make("f", "x") && (fd = open("f", O_RDONLY)) >= 0);
	for (nlink_t i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "l%d", (int)i);
		must(link("f", name) == 0 && fstat(fd, &st) == 0 && st.st_nlink == i + 2);
	}
	for (nlink_t i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "l%d", (int)i);
		must(unlink(name) == 0 && fstat(fd, &st) == 0 && st.st_nlink == 60 - i);
	}
	must(unlink("f") == 0 && fstat(fd, &st) == 0 && st.st_nlink == 0 && fd_holds(fd, "x"));
	return true;
}

static bool check_link_by_descriptor(void)
{
	char path[32];
	int fd;

	must(file_make("f", "x") && (fd = open("f", O_PATH)) >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	must(linkat(AT_FDCWD, path, AT_FDCWD, "g", AT_SYMLINK_FOLLOW) == 0);
	must(linkat(fd, "", AT_FDCWD, "h", AT_EMPTY_PATH) == 0);
	must(nlink_of("h") == 3 && file_holds("g", "x"));
	must(unlink("f") == 0 && unlink("g") == 0 && unlink("h") == 0);
	must_fail(linkat(fd, "", AT_FDCWD, "back", AT_EMPTY_PATH), ENOENT);
	return true;
}

static bool check_symlink(void)
{
	char buf[64];
	struct stat st;

	must(file_make("f", "aim") && symlink("f", "s") == 0 && symlink("/nowhere", "t") == 0);
	must(readlink("s", buf, sizeof(buf)) == 1 && buf[0] == 'f');
	must(readlink("t", buf, sizeof(buf)) == 8 && memcmp(buf, "/nowhere", 8) == 0);
	must(readlink("t", buf, 3) == 3 && memcmp(buf, "/no", 3) == 0);
	must(lstat("s", &st) == 0 && S_ISLNK(st.st_mode) && st.st_size == 1);
	must((st.st_mode & 0777) == 0777);
	must(file_holds("s", "aim"));
	must_fail(open("t", O_RDONLY), ENOENT);
	must_fail(readlink("f", buf, sizeof(buf)), EINVAL);
	must_fail(symlink("", "e"), ENOENT);
	must_fail(symlink("x", "s"), EEXIST);
	must(unlink("s") == 0 && unlink("t") == 0 && file_holds("f", "aim"));
	return true;
}

static bool symlink_of(size_t n)
{
	char target[4096], got[4200];
	struct stat st;

	for (size_t i = 0; i < n; i++)
		target[i] = (char)(i % 200 == 199 ? '/' : 1 + (i * 7) % 255);
	target[n] = 0;
	must(symlink(target, "s") == 0);
	must(readlink("s", got, sizeof(got)) == (ssize_t)n && memcmp(got, target, n) == 0);
	must(lstat("s", &st) == 0 && st.st_size == (off_t)n && unlink("s") == 0);
	return true;
}

static bool check_symlink_lengths(void)
{
	static const size_t sizes[] = {1,   2,    58,   59,   60,   61,   127,  255,
				       256, 1023, 1024, 2048, 4000, 4078, 4079, 4095};
	char target[4097];

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		must(symlink_of(sizes[i]));
	memset(target, 'x', 4096);
	target[4096] = 0;
	must_fail(symlink(target, "s"), ENAMETOOLONG);
	return true;
}

const struct check link_checks[] = {
	CHECK(link, "hard links are one file"),
	CHECK(link_same, "a lock, a write and a truncation by one name count by the other"),
	CHECK(link_kinds, "fifos and symbolic links are linked, directories are not"),
	CHECK(link_many, "the number of links is right at every moment"),
	CHECK(link_by_descriptor, "a file is linked by its descriptor, not once it is gone", ROOT),
	CHECK(symlink, "symbolic links are kept and followed"),
	CHECK(symlink_lengths, "targets of symbolic links may have 1 to 4095 bytes", SLINKS),
	{0},
};
