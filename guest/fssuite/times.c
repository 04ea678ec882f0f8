// SPDX-License-Identifier: Apache-2.0
/*
 * times.c - times are set to the nanosecond, singly, before 1970 and after 2038; who may set them; and
 * that changes are dated.
 */
#include "suite.h"
#include <sys/sysmacros.h>

#define OLD 1000000000

static bool times_are(const char *name, time_t a, long an, time_t m, long mn)
{
	struct stat st;

	return lstat(name, &st) == 0 && st.st_atim.tv_sec == a && st.st_mtim.tv_sec == m &&
	       (!have(FINE) || (st.st_atim.tv_nsec == an && st.st_mtim.tv_nsec == mn));
}

static bool set(const char *name, time_t a, long an, time_t m, long mn)
{
	struct timespec t[2] = {{a, an}, {m, mn}};

	return utimensat(AT_FDCWD, name, t, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool check_times(void)
{
	struct timespec t[2] = {{OLD, 5}, {OLD + 1, 999999999}};
	int fd;

	must(file_make("f", "x") && mkdir("d", 0755) == 0 && symlink("f", "s") == 0);
	must(mkfifo("p", 0600) == 0);
	must(set("f", OLD, 123456789, OLD + 7, 987654321));
	must(times_are("f", OLD, 123456789, OLD + 7, 987654321));
	must(set("d", OLD, 1, OLD, 2) && times_are("d", OLD, 1, OLD, 2));
	must(set("p", OLD, 3, OLD, 4) && times_are("p", OLD, 3, OLD, 4));
	must(set("s", OLD, 5, OLD, 6) && times_are("s", OLD, 5, OLD, 6));
	must(times_are("f", OLD, 123456789, OLD + 7, 987654321));
	must((fd = open("f", O_RDONLY)) >= 0 && futimens(fd, t) == 0);
	must(times_are("f", OLD, 5, OLD + 1, 999999999));
	return true;
}

static bool check_times_single(void)
{
	struct stat st;

	must(file_make("f", "x") && set("f", OLD, 1, OLD, 2));
	must(set("f", OLD + 5, 3, 0, UTIME_OMIT) && times_are("f", OLD + 5, 3, OLD, 2));
	must(set("f", 0, UTIME_OMIT, OLD + 6, 4) && times_are("f", OLD + 5, 3, OLD + 6, 4));
	must(set("f", 0, UTIME_OMIT, 0, UTIME_OMIT) && times_are("f", OLD + 5, 3, OLD + 6, 4));
	must(set("f", 0, UTIME_NOW, 0, UTIME_OMIT) && lstat("f", &st) == 0);
	must(st.st_atim.tv_sec > OLD + 100 && st.st_mtim.tv_sec == OLD + 6);
	must(set("f", OLD, 0, 0, UTIME_NOW) && lstat("f", &st) == 0);
	must(st.st_atim.tv_sec == OLD && st.st_mtim.tv_sec > OLD + 100);
	must(set("f", OLD, 0, OLD, 0) && utimensat(AT_FDCWD, "f", NULL, 0) == 0);
	must(lstat("f", &st) == 0 && st.st_atim.tv_sec > OLD && st.st_mtim.tv_sec > OLD);
	must(!set("f", OLD, 1000000000, OLD, 0) && errno == EINVAL);
	must(!set("f", OLD, -1, OLD, 0) && errno == EINVAL);
	must(!set("none", OLD, 0, OLD, 0) && errno == ENOENT);
	return true;
}

static bool check_times_far(void)
{
	must(file_make("f", "x"));
	if (have(FINE))
		must(set("f", -1, 500000000, -86400, 1) &&
		     times_are("f", -1, 500000000, -86400, 1));
	must(set("f", 0, 0, 0, 1) && times_are("f", 0, 0, 0, 1));
	must(set("f", 2147483648, 0, 4294967296, 5) &&
	     times_are("f", 2147483648, 0, 4294967296, 5));
	return true;
}

static bool stranger_touches(void)
{
	struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
	struct timespec one[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};

	must(utimensat(AT_FDCWD, "open", NULL, 0) == 0);
	must(utimensat(AT_FDCWD, "open", now, 0) == 0);
	must_fail(utimensat(AT_FDCWD, "open", one, 0), EPERM);
	must(!set("open", OLD, 0, OLD, 0) && errno == EPERM);
	must_fail(utimensat(AT_FDCWD, "closed", NULL, 0), EACCES);
	must(!set("closed", OLD, 0, OLD, 0) && errno == EPERM);
	return true;
}

static bool check_times_strangers(void)
{
	must(file_make("open", "x") && chmod("open", 0666) == 0 && file_make("closed", "x"));
	must(set("open", OLD, 0, OLD, 0) && set("closed", OLD, 0, OLD, 0));
	must(as_user(1001, 1001, 0, stranger_touches));
	must(!times_are("open", OLD, 0, OLD, 0) && times_are("closed", OLD, 0, OLD, 0));
	return true;
}

/* Everything that changes the data changes mtime, and nothing else does. */
static bool check_times_of_changes(void)
{
	struct stat st;
	int fd;

#define dated(change, call)                                                         \
	do {                                                                        \
		must(set("f", OLD, 0, OLD, 0));                                     \
		must(call);                                                         \
		must(stat("f", &st) == 0 && (st.st_mtim.tv_sec > OLD) == (change)); \
		must(st.st_ctim.tv_sec > OLD);                                      \
	} while (0)
	must(file_make("f", "text") && (fd = open("f", O_RDWR)) >= 0);
	if (have(DATED))
		dated(true, pwrite(fd, "x", 1, 0) == 1 && fsync(fd) == 0);
	dated(true, ftruncate(fd, 100) == 0);
	dated(true, truncate("f", 50) == 0);
	dated(false, pwrite(fd, "x", 0, 0) == 0);
	dated(false, chmod("f", 0600) == 0);
	dated(false, link("f", "g") == 0 && unlink("g") == 0);
	dated(false, rename("f", "g") == 0 && rename("g", "f") == 0);
	dated(false, fd_holds(fd, "anything") || true);
	dated(true, pwrite(fd, "longer", 6, 50) == 6 && close(fd) == 0);
#undef dated
	return true;
}

static bool check_statx(void)
{
	struct statx x;
	struct stat st;

	must(file_make("f", "12345") && stat("f", &st) == 0);
	must(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS, &x) == 0);
	must((x.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
	must(x.stx_ino == st.st_ino && x.stx_size == 5 && x.stx_mode == st.st_mode);
	must(makedev(x.stx_dev_major, x.stx_dev_minor) == st.st_dev);
	must(x.stx_nlink == 1 && x.stx_mtime.tv_sec == st.st_mtim.tv_sec);
	must(statx(AT_FDCWD, "f", AT_STATX_FORCE_SYNC, STATX_ALL, &x) == 0 && x.stx_size == 5);
	must(statx(AT_FDCWD, "f", AT_STATX_DONT_SYNC, STATX_SIZE, &x) == 0 && x.stx_size == 5);
	must_fail(statx(AT_FDCWD, "none", 0, STATX_ALL, &x), ENOENT);
	return true;
}

static bool check_btime(void)
{
	struct statx a, b;

	must(file_make("f", "x") && statx(AT_FDCWD, "f", 0, STATX_BTIME, &a) == 0);
	must(a.stx_mask & STATX_BTIME && a.stx_btime.tv_sec > OLD);
	must(set("f", 1000, 0, 1000, 0) && chmod("f", 0600) == 0 && rename("f", "g") == 0);
	must(statx(AT_FDCWD, "g", 0, STATX_BTIME, &b) == 0 && b.stx_mask & STATX_BTIME);
	must(a.stx_btime.tv_sec == b.stx_btime.tv_sec &&
	     a.stx_btime.tv_nsec == b.stx_btime.tv_nsec);
	return true;
}

const struct check time_checks[] = {
	CHECK(times, "times are set to the nanosecond on files, directories, links and fifos"),
	CHECK(times_single, "each time is set alone, to now, or left"),
	CHECK(times_far, "times before 1970 and after 2038 are kept"),
	CHECK(times_strangers, "who may only write a file sets its times to now alone",
	      ROOT | USERS),
	CHECK(times_of_changes, "changes of data are dated, and nothing else is"),
	CHECK(statx, "statx says what stat says"),
	CHECK(btime, "the time of birth is told and stays", BTIME),
	{0},
};
