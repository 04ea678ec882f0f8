// SPDX-License-Identifier: Apache-2.0
/*
 * tree.h - the directory that a server of files is fuzzed on, and what lies beside it and must not change.
 *
 * Included after the door whose server it is. The share is made anew for each input and taken away afterwards; files in it
 * cannot grow beyond RLIMIT_FSIZE.
 */
#ifndef TESTS_FUZZ_TREE_H
#define TESTS_FUZZ_TREE_H

#include "input.h"
#include <signal.h>
#include <sys/resource.h>

#define FILE_MAX MIB(4)

static int top, outside; /* what holds the share, and what is beside it */
static struct stat before[2];

static void tree_clear(void)
{
	if (unlinkat(top, "share", AT_REMOVEDIR) && errno == ENOENT)
		return;
	must(!fchmodat(top, "share", 0700, 0)); /* whatever it is by now */
	door.dir = openat(top, "share", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(door.dir >= 0);
	host_clear(door.dir);
	close(door.dir);
	must(!unlinkat(top, "share", AT_REMOVEDIR));
}

static void tree_make(void)
{
	must(!mkdirat(top, "share", 0755));
	door.dir = openat(top, "share", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(door.dir >= 0);
	host_write("f", "contents of a file", 18);
	must(!mkdirat(door.dir, "d", 0755));
	host_write("d/g", "", 0);
	must(!symlinkat("../outside/secret", door.dir, "s"));
	must(!mkfifoat(door.dir, "p", 0600));
	close(door.dir);
}

static void look_outside(struct stat st[2])
{
	must(!fstat(outside, &st[0]) && !fstatat(outside, "secret", &st[1], AT_SYMLINK_NOFOLLOW));
}

/* Times too: nobody has so much as tried. */
static void check_outside(void)
{
	struct stat now[2];

	look_outside(now);
	for (unsigned i = 0; i < 2; i++)
		must(now[i].st_ino == before[i].st_ino && now[i].st_mode == before[i].st_mode &&
		     now[i].st_uid == before[i].st_uid && now[i].st_nlink == before[i].st_nlink &&
		     now[i].st_size == before[i].st_size &&
		     !memcmp(&now[i].st_mtim, &before[i].st_mtim, sizeof(struct timespec)) &&
		     !memcmp(&now[i].st_ctim, &before[i].st_ctim, sizeof(struct timespec)));
}

/* What an input's bytes say of the share, as far as every protocol has it. */
static struct share_config share_of(uint8_t bits, uint8_t owner)
{
	const bool root = share_owner_passes();
	struct share_config c = {.path = door.top,
				 .readonly = (bits & 3) == 3,
				 .xattr = !(bits & 4),
				 .locks = bits & 8 ? SHARE_LOCKS_HOST : SHARE_LOCKS_GUEST,
				 .fd_budget = bits & 64 ? 32 : 0,
				 .owner = owner % 4};

	if (c.owner == SHARE_OWNER_PASSTHROUGH && !root)
		c.owner = SHARE_OWNER_AUTO;
	c.posix_acl = root && c.xattr && bits & 128 && c.owner < SHARE_OWNER_SQUASH;
	return c;
}

static void tree_tear_down(void)
{
	iothread_destroy(door.io);
	unlinkat(outside, "secret", 0);
	unlinkat(top, "outside", AT_REMOVEDIR);
	*strrchr(door.top, '/') = 0;
	rmdir(door.top);
}

/* Once: the directories, and the thread that serves every share. */
static void tree_set_up(const char *name)
{
	const struct rlimit limit = {FILE_MAX, FILE_MAX};
	struct share_config share = {.path = door.top};
	size_t n;

	/* The sanitizers make calls that no thread of ours may. */
	setenv("WHERRY_SECCOMP", "off", 1);
	setrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, SIG_IGN);
	door_set_up(name);
	top = door.dir;
	must(!mkdirat(top, "outside", 0755));
	outside = openat(top, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	door.dir = outside;
	host_write("secret", "nobody has a right to this", 26);
	look_outside(before);
	n = strlen(door.top);
	strcpy(door.top + n, "/share");
	tree_make();
	/* What the thread is prepared with is the same for every share. */
	must(!share_open(&door.share, name, &share));
	must(!iothread_create(&door.io, name, LOOP_AUTO, 64, &share_syscalls));
	must(!iothread_start(door.io, door_init, NULL));
	share_close(door.share);
	tree_clear();
	atexit(tree_tear_down);
}

#endif
