// SPDX-License-Identifier: Apache-2.0
/*
 * users.c - what one user may do to the files of another: modes, owners, set-id bits, sticky
 * directories, groups. Run as root, who plays the users; ALICE and BOB have a group each, and STAFF.
 */
#include "suite.h"

#define ALICE 1001
#define BOB   1002
#define STAFF 2001

static bool owned(const char *name, uid_t uid, gid_t gid)
{
	struct stat st;

	return lstat(name, &st) == 0 && st.st_uid == uid && st.st_gid == gid;
}

static bool alice_makes(void)
{
	must(file_make("f", "alice's") && mkdir("d", 0755) == 0 && symlink("f", "s") == 0);
	must(mkfifo("p", 0600) == 0 && owned("f", ALICE, ALICE) && owned("d", ALICE, ALICE));
	must(owned("s", ALICE, ALICE) && owned("p", ALICE, ALICE));
	must(chmod("f", 0600) == 0 && file_holds("f", "alice's"));
	return true;
}

static bool bob_meddles(void)
{
	struct timespec set[2] = {{1000, 0}, {1000, 0}};

	must_fail(open("f", O_RDONLY), EACCES);
	must_fail(open("f", O_WRONLY), EACCES);
	must_fail(truncate("f", 0), EACCES);
	must_fail(chmod("f", 0666), EPERM);
	must_fail(chown("f", BOB, -1u), EPERM);
	must_fail(utimensat(AT_FDCWD, "f", set, 0), EPERM);
	must_fail(utimensat(AT_FDCWD, "f", NULL, 0), EACCES);
	must_fail(open("d/new", O_CREAT | O_WRONLY, 0644), EACCES);
	must_fail(mkdir("d/new", 0755), EACCES);
	must_fail(unlink("d/none"), ENOENT);
	must(access("f", F_OK) == 0);
	must_fail(access("f", R_OK), EACCES);
	return true;
}

static bool check_strangers(void)
{
	must(chmod(".", 0777) == 0);
	must(as_user(ALICE, ALICE, 0, alice_makes) && as_user(BOB, BOB, 0, bob_meddles));
	must(mode_of("f") == 0600 && file_holds("f", "alice's"));
	return true;
}

static bool alice_chowns(void)
{
	must(chown("f", ALICE, STAFF) == 0 && owned("f", ALICE, STAFF));
	must(chown("f", -1u, ALICE) == 0 && owned("f", ALICE, ALICE));
	must_fail(chown("f", BOB, -1u), EPERM);
	must_fail(chown("f", -1u, BOB), EPERM);
	must(chmod("f", 06755) == 0 && mode_of("f") == 06755);
	must(chown("f", ALICE, STAFF) == 0 && mode_of("f") == 0755);
	return true;
}

static bool check_owner_chown(void)
{
	must(file_make("f", "x") && chown("f", ALICE, ALICE) == 0);
	must(as_user(ALICE, ALICE, STAFF, alice_chowns));
	return true;
}

/* An owner who is not of the file's group gets no set-gid bit. */
static bool alice_chmods(void)
{
	must(chmod("f", 02755) == 0 && mode_of("f") == 0755);
	must(chmod("f", 04755) == 0 && mode_of("f") == 04755);
	must(chmod("g", 02755) == 0 && mode_of("g") == 02755);
	return true;
}

static bool check_chmod_setgid(void)
{
	must(file_make("f", "x") && chown("f", ALICE, BOB) == 0);
	must(file_make("g", "x") && chown("g", ALICE, STAFF) == 0);
	must(as_user(ALICE, ALICE, STAFF, alice_chmods));
	return true;
}

static bool bob_writes(void)
{
	int fd;

	must((fd = open("w", O_WRONLY)) >= 0 && write(fd, "y", 1) == 1 && close(fd) == 0);
	must((fd = open("t", O_RDWR)) >= 0 && ftruncate(fd, 5) == 0 && close(fd) == 0);
	must(truncate("u", 0) == 0);
	must((fd = open("o", O_WRONLY | O_TRUNC)) >= 0 && close(fd) == 0);
	must((fd = open("n", O_WRONLY)) >= 0 && write(fd, "y", 1) == 1 && close(fd) == 0);
	must((fd = open("a", O_WRONLY)) >= 0);
	must((have(ALLOC) ? fallocate(fd, 0, 0, 4096) == 0 : write(fd, "y", 1) == 1));
	must(close(fd) == 0);
	return true;
}

static bool check_write_kills_setid(void)
{
	static const char *const names[] = {"w", "t", "u", "o", "a"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		must(file_make(names[i], "x") && chmod(names[i], 06777) == 0);
	must(file_make("n", "x") && chmod("n", 06767) == 0); /* no group execute: set-gid stays */
	must(as_user(BOB, BOB, 0, bob_writes));
	must(mode_of("w") == 0777);
	must(mode_of("t") == 0777);
	must(mode_of("u") == 0777);
	must(mode_of("o") == 0777);
	must(mode_of("a") == 0777);
	must((mode_of("n") & 04000) == 0);
	return true;
}

static bool bob_in_sticky(void)
{
	must_fail(unlink("t/f"), EPERM);
	must_fail(rmdir("t/d"), EPERM);
	must_fail(rename("t/f", "t/g"), EPERM);
	must_fail(rename("t/f", "f"), EPERM);
	must(file_make("t/mine", "x"));
	must_fail(rename("t/mine", "t/f"), EPERM);
	must(rename("t/mine", "t/own") == 0 && unlink("t/own") == 0);
	must(link("t/f", "t/linked") == 0); /* as for any file one may read and write */
	must_fail(unlink("t/linked"), EPERM);
	return true;
}

static bool alice_in_sticky(void)
{
	must(unlink("t/linked") == 0 && rename("t/f", "t/g") == 0 && unlink("t/g") == 0);
	must(rmdir("t/d") == 0);
	return true;
}

static bool check_sticky(void)
{
	must(chmod(".", 0777) == 0 && mkdir("t", 0777) == 0 && chmod("t", 01777) == 0);
	must(file_make("t/f", "x") && chown("t/f", ALICE, ALICE) == 0 && chmod("t/f", 0666) == 0);
	must(mkdir("t/d", 0777) == 0 && chown("t/d", ALICE, ALICE) == 0);
	must(as_user(BOB, BOB, 0, bob_in_sticky));
	must(as_user(ALICE, ALICE, 0, alice_in_sticky));
	return true;
}

/* A directory that only its group may write: the right comes by a supplementary group. */
static bool alice_by_group(void)
{
	must(file_make("d/f", "x") && mkdir("d/e", 0755) == 0 && symlink("x", "d/s") == 0);
	must(mkfifo("d/p", 0600) == 0 && rename("d/f", "d/g") == 0 && link("d/g", "d/h") == 0);
	must(owned("d/g", ALICE, ALICE));
	must(unlink("d/h") == 0 && rmdir("d/e") == 0);
	return true;
}

static bool bob_without_group(void)
{
	must_fail(open("d/x", O_CREAT | O_WRONLY, 0644), EACCES);
	must_fail(open("d/g", O_RDONLY), EACCES);
	return true;
}

static bool check_supplementary_group(void)
{
	must(mkdir("d", 0755) == 0 && chown("d", 0, STAFF) == 0 && chmod("d", 0770) == 0);
	must(as_user(ALICE, ALICE, STAFF, alice_by_group));
	must(as_user(BOB, BOB, 0, bob_without_group));
	return true;
}

static bool alice_in_setgid_dir(void)
{
	int fd = open("d/f", O_CREAT | O_EXCL | O_RDWR, 02755);

	must(fd >= 0 && owned("d/f", ALICE, STAFF));
	/* A server that cannot know that she is of STAFF may be careful. */
	must(mode_of("d/f") == 02755 || (!have(GROUPS) && mode_of("d/f") == 0755));
	must(mkdir("d/e", 0755) == 0 && owned("d/e", ALICE, STAFF) && mode_of("d/e") == 02755);
	return true;
}

/* A program of a group one is not in must not come into being. */
static bool bob_in_setgid_dir(void)
{
	int fd = open("d/b", O_CREAT | O_EXCL | O_RDWR, 02755);

	must(fd >= 0 && owned("d/b", BOB, STAFF) && (mode_of("d/b") & 07777) == 0755);
	must(mknod("d/c", S_IFREG | 02755, 0) == 0 && (mode_of("d/c") & 07777) == 0755);
	must(mkdir("d/bd", 0755) == 0 && owned("d/bd", BOB, STAFF) && mode_of("d/bd") == 02755);
	return true;
}

static bool check_setgid_dir_users(void)
{
	must(mkdir("d", 0755) == 0 && chown("d", 0, STAFF) == 0 && chmod("d", 03777) == 0);
	must(as_user(ALICE, ALICE, STAFF, alice_in_setgid_dir));
	must(as_user(BOB, BOB, 0, bob_in_setgid_dir));
	return true;
}

static bool bob_makes_devices(void)
{
	must_fail(mknod("c", S_IFCHR | 0666, 0x0103), EPERM);
	must_fail(mknod("b", S_IFBLK | 0666, 0x0700), EPERM);
	must(mknod("f", S_IFREG | 0644, 0) == 0 && mkfifo("p", 0644) == 0);
	return true;
}

static bool check_devices_users(void)
{
	must(chmod(".", 0777) == 0 && as_user(BOB, BOB, 0, bob_makes_devices));
	return true;
}

/* Two users create side by side: what one makes is never the other's. */
static bool alice_crowds(void)
{
	char name[32];

	for (unsigned i = 0; i < suite_times(50); i++) {
		snprintf(name, sizeof(name), "u%d-%u", (int)getuid(), i);
		must(i % 2 ? mkdir(name, 0755) == 0 : file_make(name, "x"));
		must(owned(name, getuid(), getgid()));
	}
	return true;
}

static bool check_users_at_once(void)
{
	static const uid_t ids[] = {ALICE, BOB, 0, 65534};
	pid_t pids[ARRAY_LEN(ids)];
	bool good = true;

	must(chmod(".", 0777) == 0);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(as_user(ids[i], ids[i], 0, alice_crowds) ? 0 : 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		good = child_good(pids[i]) && good;
	must(good);
	return true;
}

const struct check user_checks[] = {
	CHECK(strangers, "what is one user's is closed to another", ROOT | USERS),
	CHECK(owner_chown, "an owner gives a file to a group of his, to no other",
	      ROOT | USERS | CHOWN),
	CHECK(chmod_setgid, "an owner outside the group gets no set-gid bit", ROOT | USERS | CHOWN),
	CHECK(write_kills_setid, "another's write or truncation takes set-id bits away",
	      ROOT | USERS),
	CHECK(sticky, "in a sticky directory each removes only his own", ROOT | USERS | CHOWN),
	CHECK(supplementary_group, "the right to make files comes by any of one's groups",
	      ROOT | USERS | CHOWN),
	CHECK(setgid_dir_users,
	      "a set-gid directory gives its group, and set-gid programs to members alone",
	      ROOT | USERS | CHOWN),
	CHECK(devices_users, "users make fifos but no device nodes", ROOT | USERS),
	CHECK(users_at_once, "users who create at the same time each get their own", ROOT | USERS),
	{0},
};
