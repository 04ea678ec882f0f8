// SPDX-License-Identifier: Apache-2.0
/*
 * rename.c - renames of every kind onto every kind, with every flag.
 */
#include "suite.h"
#include <sys/sysmacros.h>

static int rename_flags(const char *from, const char *to, unsigned flags)
{
	return renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}

static bool check_rename(void)
{
	ino_t n;

	must(file_make("a", "text") && mkdir("d", 0755) == 0 && (n = ino_of("a")) != 0);
	must(rename("a", "b") == 0 && absent("a") && file_holds("b", "text"));
	must(rename("b", "d/c") == 0 && absent("b") && file_holds("d/c", "text"));
	must(rename("d", "e") == 0 && absent("d") && file_holds("e/c", "text"));
	must(ino_of("e/c") == n && rename("e/c", "e/c") == 0);
	must(mkdir("f", 0755) == 0 && rename("e", "f/g") == 0 && file_holds("f/g/c", "text"));
	must(ino_of("f/g/..") == ino_of("f"));
	return true;
}

static bool check_rename_onto(void)
{
	must(file_make("a", "a") && file_make("b", "b") && symlink("a", "s") == 0);
	must(mkdir("empty", 0755) == 0 && mkdir("full", 0755) == 0 && file_make("full/x", "x"));
	must(mkdir("d", 0755) == 0);
	must_fail(rename("none", "x"), ENOENT);
	must_fail(rename("a", "none/x"), ENOENT);
	must_fail(rename("a", "empty"), EISDIR);
	must_fail(rename("d", "a"), ENOTDIR);
	must_fail(rename("a", "b/x"), ENOTDIR);
	must(rename("d", "full") == -1 && (errno == ENOTEMPTY || errno == EEXIST));
	must_fail(rename("full", "full/sub"), EINVAL);
	must(rename("full/x", "full") == -1 && (errno == ENOTEMPTY || errno == EISDIR));
	must_fail(rename(".", "x"), EBUSY);
	must_fail(rename("a", ".."), EBUSY);
	must(rename("full", "empty") == 0 && file_holds("empty/x", "x") && absent("full"));
	must(rename("a", "s") == 0 && file_holds("s", "a") && absent("a"));
	must(rename("s", "b") == 0 && file_holds("b", "a"));
	return true;
}

/* By the rule of old, two names of one file are renamed by doing nothing. */
static bool check_rename_links(void)
{
	must(file_make("a", "x") && link("a", "b") == 0);
	must(rename("a", "b") == 0 && nlink_of("a") == 2 && nlink_of("b") == 2);
	if (!have(RENAMES))
		return true;
	must_fail(rename_flags("a", "b", RENAME_NOREPLACE), EEXIST);
	must(rename_flags("a", "b", RENAME_EXCHANGE) == 0 && nlink_of("a") == 2);
	return true;
}

static bool check_noreplace(void)
{
	must(file_make("a", "a") && file_make("b", "b") && mkdir("d", 0755) == 0);
	must(symlink("nowhere", "s") == 0);
	must_fail(rename_flags("a", "b", RENAME_NOREPLACE), EEXIST);
	must_fail(rename_flags("a", "d", RENAME_NOREPLACE), EEXIST);
	must_fail(rename_flags("a", "s", RENAME_NOREPLACE), EEXIST);
	must_fail(rename_flags("none", "x", RENAME_NOREPLACE), ENOENT);
	must(file_holds("a", "a") && file_holds("b", "b"));
	must(rename_flags("a", "c", RENAME_NOREPLACE) == 0 && file_holds("c", "a") && absent("a"));
	must(rename_flags("d", "e", RENAME_NOREPLACE) == 0 && absent("d"));
	return true;
}

static bool check_exchange(void)
{
	ino_t a, d;
	int fd;

	must(file_make("a", "a") && file_make("b", "b") && mkdir("d", 0755) == 0);
	must(file_make("d/x", "inside") && symlink("aim", "s") == 0);
	must((fd = open("a", O_RDONLY)) >= 0);
	must(rename_flags("a", "b", RENAME_EXCHANGE) == 0);
	must(file_holds("a", "b") && file_holds("b", "a") && fd_holds(fd, "a"));
	a = ino_of("a");
	d = ino_of("d");
	must(rename_flags("a", "d", RENAME_EXCHANGE) == 0 && file_holds("d", "b"));
	must(file_holds("a/x", "inside") && ino_of("a") == d && ino_of("d") == a);
	must(ino_of("a/..") == ino_of("."));
	must(rename_flags("a/x", "s", RENAME_EXCHANGE) == 0 && file_holds("s", "inside"));
	must_fail(rename_flags("d", "none", RENAME_EXCHANGE), ENOENT);
	must_fail(rename_flags("none", "d", RENAME_EXCHANGE), ENOENT);
	must_fail(rename_flags("a", "a/x", RENAME_EXCHANGE), EINVAL);
	must(unlink("a/x") == 0 && rmdir("a") == 0 && unlink("b") == 0 && unlink("s") == 0);
	return true;
}

static bool check_rename_no_flags(void)
{
	must(file_make("a", "a") && file_make("b", "b"));
	must_fail(rename_flags("a", "new", RENAME_NOREPLACE), EINVAL);
	must_fail(rename_flags("a", "b", RENAME_NOREPLACE), EEXIST);
	must_fail(rename_flags("a", "b", RENAME_EXCHANGE), EINVAL);
	must_fail(rename_flags("a", "new", RENAME_WHITEOUT), EINVAL);
	must(file_holds("a", "a") && file_holds("b", "b") && absent("new"));
	must(rename_flags("a", "b", 0) == 0 && file_holds("b", "a"));
	return true;
}

static bool check_rename_bad_flags(void)
{
	must(file_make("a", "a") && file_make("b", "b"));
	must_fail(rename_flags("a", "b", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL);
	must_fail(rename_flags("a", "b", RENAME_EXCHANGE | RENAME_WHITEOUT), EINVAL);
	must_fail(rename_flags("a", "b", 0x80), EINVAL);
	must(file_holds("a", "a") && file_holds("b", "b"));
	/* Refusing one must not have switched the others off. */
	must(rename_flags("a", "b", RENAME_EXCHANGE) == 0 && file_holds("a", "b"));
	return true;
}

static bool whiteout(const char *name)
{
	struct stat st;

	must(lstat(name, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
	return true;
}

static bool check_whiteout(void)
{
	must(file_make("a", "a") && file_make("b", "b") && mkdir("d", 0755) == 0);
	must(rename_flags("a", "new", RENAME_WHITEOUT) == 0 && file_holds("new", "a"));
	must(whiteout("a"));
	must(rename_flags("new", "b", RENAME_WHITEOUT) == 0 && file_holds("b", "a"));
	must(whiteout("new"));
	must(rename_flags("d", "e", RENAME_WHITEOUT | RENAME_NOREPLACE) == 0 && whiteout("d"));
	must_fail(rename_flags("b", "a", RENAME_WHITEOUT | RENAME_NOREPLACE), EEXIST);
	must(rename("b", "a") == 0 && file_holds("a", "a"));
	return true;
}

/* ctime of the file, mtime of both directories. */
static bool check_rename_times(void)
{
	struct timespec old[2] = {{1000, 0}, {1000, 0}};
	struct stat before, after;

	must(mkdir("from", 0755) == 0 && mkdir("to", 0755) == 0 && file_make("from/f", "x"));
	must(utimensat(AT_FDCWD, "from/f", old, 0) == 0 && stat("from/f", &before) == 0);
	must(utimensat(AT_FDCWD, "from", old, 0) == 0 && utimensat(AT_FDCWD, "to", old, 0) == 0);
	must(rename("from/f", "to/f") == 0 && stat("to/f", &after) == 0);
	must(after.st_mtim.tv_sec == 1000 && after.st_ino == before.st_ino);
	must(stat("from", &after) == 0 && after.st_mtim.tv_sec > 1000);
	must(stat("to", &after) == 0 && after.st_mtim.tv_sec > 1000);
	return true;
}

const struct check rename_checks[] = {
	CHECK(rename, "files and directories are renamed and moved"),
	CHECK(rename_onto, "a rename replaces what it may and refuses what it may not"),
	CHECK(rename_links, "a rename of a file onto itself does nothing"),
	CHECK(noreplace, "a rename refuses to replace when told", RENAMES),
	CHECK(exchange, "a rename exchanges files, directories and links", RENAMES),
	CHECK(rename_bad_flags, "wrong rename flags are refused, and right ones work after that",
	      RENAMES),
	CHECK(rename_no_flags, "rename flags are refused, and change nothing", 0, RENAMES),
	CHECK(whiteout, "a rename leaves a whiteout when told", ROOT | RENAMES | WHITEOUT),
	CHECK(rename_times, "a rename changes the times of its directories, not the file's"),
	{0},
};
