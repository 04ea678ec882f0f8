// SPDX-License-Identifier: Apache-2.0
/*
 * modes.c - modes, umask and owners as root or the owner sees them. What other users may do: users.c.
 */
#include "suite.h"
#include <sys/sysmacros.h>

static bool check_chmod(void)
{
	static const mode_t modes[] = {0,     0400,  0200,  0100,  0777,  0640,  0750,
				       01777, 02755, 04755, 06755, 07777, 02644, 0444};
	int fd;

	must(file_make("f", "x") && mkdir("d", 0755) == 0 && mkfifo("p", 0600) == 0);
	must((fd = open("f", O_RDWR)) >= 0);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		must(chmod("f", modes[i]) == 0 && mode_of("f") == modes[i]);
		must(chmod("d", modes[i]) == 0 && mode_of("d") == modes[i]);
		must(fchmod(fd, modes[i] ^ 0111) == 0 && mode_of("f") == (modes[i] ^ 0111));
	}
	must(chmod("p", 0622) == 0 && mode_of("p") == 0622);
	must_fail(chmod("none", 0644), ENOENT);
	must(symlink("f", "s") == 0 && chmod("s", 0600) == 0 && mode_of("f") == 0600);
	must(mode_of("s") == 0777);
	return true;
}

static bool check_chmod_ctime(void)
{
	struct stat before, after;

	must(file_make("f", "x") && stat("f", &before) == 0);
	usleep(20000); /* longer than the clock of any file system ticks */
	must(chmod("f", 0600) == 0 && stat("f", &after) == 0);
	must(after.st_ctim.tv_sec > before.st_ctim.tv_sec ||
	     after.st_ctim.tv_nsec != before.st_ctim.tv_nsec);
	must(after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
	     after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
	return true;
}

static bool check_umask(void)
{
	static const mode_t masks[] = {0, 022, 027, 077, 0777};

	for (size_t i = 0; i < ARRAY_LEN(masks); i++) {
		mode_t left = ~masks[i];
		int fd;

		umask(masks[i]);
		must((fd = open("f", O_CREAT | O_EXCL | O_WRONLY, 0666)) >= 0 && close(fd) == 0);
		must(mkdir("d", 0777) == 0 && mkfifo("p", 0666) == 0);
		must(mknod("n", S_IFREG | 0751, 0) == 0 && symlink("x", "s") == 0);
		umask(022);
		must(mode_of("f") == (0666 & left) && mode_of("d") == (0777 & left));
		must(mode_of("p") == (0666 & left) && mode_of("n") == (0751 & left));
		must(mode_of("s") == 0777);
		must(unlink("f") == 0 && rmdir("d") == 0 && unlink("p") == 0 && unlink("n") == 0);
		must(unlink("s") == 0);
	}
	return true;
}

/* The mode an open file was created with does not bind the creator. */
static bool check_create_mode(void)
{
	int fd;

	must((fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0)) >= 0);
	must(write(fd, "x", 1) == 1 && fd_holds(fd, "x") && mode_of("f") == 0);
	must((fd = open("g", O_CREAT | O_EXCL | O_RDWR, 06755)) >= 0 && mode_of("g") == 06755);
	must(mkdir("d", 01777) == 0 && mode_of("d") == 01755);
	return true;
}

static bool check_chown(void)
{
	struct stat st;
	int fd;

	must(file_make("f", "x") && symlink("f", "s") == 0 && mkdir("d", 0755) == 0);
	must(chown("f", 1234, 5678) == 0 && stat("f", &st) == 0);
	must(st.st_uid == 1234 && st.st_gid == 5678);
	must(chown("f", -1u, 1) == 0 && stat("f", &st) == 0);
	must(st.st_uid == 1234 && st.st_gid == 1);
	must(chown("f", 65534, -1u) == 0 && stat("f", &st) == 0);
	must(st.st_uid == 65534 && st.st_gid == 1);
	must(chown("f", 3000000000u, 4000000000u) == 0 && stat("f", &st) == 0);
	must(st.st_uid == 3000000000u && st.st_gid == 4000000000u);
	must(lchown("s", 7, 8) == 0 && lstat("s", &st) == 0 && st.st_uid == 7 && st.st_gid == 8);
	must(stat("f", &st) == 0 && st.st_uid == 3000000000u);
	must(chown("d", 9, 10) == 0 && stat("d", &st) == 0 && st.st_uid == 9);
	must((fd = open("f", O_RDONLY)) >= 0 && fchown(fd, 0, 0) == 0 && fstat(fd, &st) == 0);
	must(st.st_uid == 0 && st.st_gid == 0);
	must(chown("f", -1u, -1u) == 0 && stat("f", &st) == 0 && st.st_uid == 0);
	return true;
}

/* What a mount without foreign owners still takes: an owner that is so already, as tar and cp -a give. */
static bool check_chown_same(void)
{
	struct stat st;

	must(file_make("f", "x") && stat("f", &st) == 0);
	must(chown("f", st.st_uid, st.st_gid) == 0 && chown("f", -1u, st.st_gid) == 0);
	must_fail(chown("f", st.st_uid + 1000, -1u), EPERM);
	must(stat("f", &st) == 0 && chown("f", st.st_uid, -1u) == 0);
	return true;
}

/* Also root's chown takes set-id bits away, but from directories and from files without group execute. */
static bool check_chown_setid(void)
{
	must(file_make("f", "x") && mkdir("d", 0755) == 0);
	must(chmod("f", 06755) == 0 && chown("f", 1001, 1001) == 0 && mode_of("f") == 0755);
	must(chmod("f", 02644) == 0 && chown("f", 0, 0) == 0 && mode_of("f") == 02644);
	must(chmod("f", 04644) == 0 && chown("f", 1001, -1u) == 0 && mode_of("f") == 0644);
	must(chmod("d", 06755) == 0 && chown("d", 1001, 1001) == 0 && mode_of("d") == 06755);
	return true;
}

/* Root's writes keep them. */
static bool check_write_setid(void)
{
	int fd;

	must(file_make("f", "x") && chmod("f", 06755) == 0);
	must((fd = open("f", O_WRONLY)) >= 0 && write(fd, "y", 1) == 1 && close(fd) == 0);
	must(mode_of("f") == 06755 && truncate("f", 5) == 0 && mode_of("f") == 06755);
	return true;
}

static bool check_setgid_dir(void)
{
	struct stat st;

	must(mkdir("d", 0755) == 0 && chown("d", 0, 4321) == 0 && chmod("d", 02775) == 0);
	must(file_make("d/f", "x") && mkdir("d/e", 0755) == 0 && mkfifo("d/p", 0600) == 0);
	must(symlink("x", "d/s") == 0 && mkdir("d/e/g", 0700) == 0);
	must(stat("d/f", &st) == 0 && st.st_gid == 4321 && (st.st_mode & 07777) == 0644);
	must(stat("d/e", &st) == 0 && st.st_gid == 4321 && (st.st_mode & 07777) == 02755);
	must(stat("d/e/g", &st) == 0 && st.st_gid == 4321 && (st.st_mode & 07777) == 02700);
	must(stat("d/p", &st) == 0 && st.st_gid == 4321);
	must(lstat("d/s", &st) == 0 && st.st_gid == 4321);
	return true;
}

static bool check_devices(void)
{
	struct stat st;
	int fd;

	must(mknod("null", S_IFCHR | 0666, makedev(1, 3)) == 0);
	must(mknod("big", S_IFBLK | 0600, makedev(259, 70000)) == 0);
	must(lstat("null", &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
	must(lstat("big", &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == makedev(259, 70000));
	must(chmod("null", 0600) == 0 && rename("null", "n") == 0 && mode_of("n") == 0600);
	fd = open("n", O_WRONLY);
	if (fd < 0 && errno == EACCES)
		return skip("the mount is nodev");
	must(fd >= 0 && write(fd, "gone", 4) == 4 && close(fd) == 0);
	must(lstat("n", &st) == 0 && st.st_rdev == makedev(1, 3) && st.st_size == 0);
	return true;
}

const struct check mode_checks[] = {
	CHECK(chmod, "modes of every kind are set and kept"),
	CHECK(chmod_ctime, "a change of mode changes ctime alone"),
	CHECK(umask, "the umask is taken off once, whatever is made"),
	CHECK(create_mode, "a file is created with its mode and may be written by its creator"),
	CHECK(chown, "owners and groups are given, each alone and both", ROOT | CHOWN),
	CHECK(chown_same, "an owner that is so already may be given, no other", 0, CHOWN),
	CHECK(chown_setid, "a change of owner takes set-id bits away from files", ROOT | CHOWN),
	CHECK(write_setid, "root's writes keep set-id bits", ROOT | CHOWN),
	CHECK(setgid_dir, "what is made in a set-gid directory is of its group", ROOT | CHOWN),
	CHECK(devices, "device nodes keep their numbers and work in here", ROOT | DEVICES),
	{0},
};
