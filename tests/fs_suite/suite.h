// SPDX-License-Identifier: Apache-2.0
/*
 * suite.h - the words of the file system suite: what a share must hold to, through whatever door.
 *
 * A test is a function that gets an empty directory, on both sides of the door, and returns if all was well; the first
 * thing that was not ends it. What it leaves there is removed for it; what it was given by the door it gives back, and
 * that is looked after. run.c has the tables and the runner, words.c the helpers. The host's side is plain system calls
 * on bed.dir.
 */
#ifndef FS_SUITE_SUITE_H
#define FS_SUITE_SUITE_H

#include "door.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Everything takes longer then, so less of it is done, where that is quick. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

/* What kind of share a test is for. */
enum {
	RW = 1,     /* may be changed, as most are */
	RO = 2,     /* read-only */
	ACL = 4,    /* RW with access control lists */
	NO_ACL = 8, /* RW without */
	LOCKS = 16, /* RW with locks on the host */
	NO_XATTR = 32,
};

struct fs_test {
	const char *sentence;
	void (*run)(void);
	unsigned kinds; /* of share it is for, any of them; 0: RW */
	unsigned needs; /* FS_* of the door */
};
/* Each ends with a row of zeros. */
extern const struct fs_test name_tests[], attr_tests[], mode_tests[], open_tests[], link_tests[],
	rename_tests[], dir_tests[], list_tests[], data_tests[], space_tests[], xattr_tests[],
	lock_tests[], host_tests[], budget_tests[], readonly_tests[], model_tests[];

/* Where the test is. */
struct fs_bed {
	const struct fs_setup *setup;
	struct fs_obj *dir;          /* its directory, through the door */
	int host;                    /* and on the host */
	bool root;                   /* this process may do anything on the host */
	bool squash, mapped, passes; /* the owner mode */
	bool tight;                  /* the budget is less than a handful of objects needs */
	int beside; /* a directory of the host: "share" is in it, and things that are not shared */
};
extern struct fs_bed bed;
extern const struct fs_door *fs;
/* The door lacks any of these. */
bool lacks(unsigned what);

/* ---- saying what was wrong ---- */

/* Ends the test. */
_Noreturn void fail_at(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The test cannot be made here. */
_Noreturn void skip_test(const char *why);
#define must(cond)                                                \
	do {                                                      \
		if (!(cond))                                      \
			fail_at(__FILE__, __LINE__, "%s", #cond); \
	} while (0)
/* A call gives just this number: 0, bytes, -errno. */
#define want(call, value)                                                                      \
	do {                                                                                   \
		const long long got_ = (long long)(call), want_ = (long long)(value);          \
		if (got_ != want_)                                                             \
			fail_at(__FILE__, __LINE__, "%s: %lld, not %lld", #call, got_, want_); \
	} while (0)
/* A call of the host that must work. */
#define host(call)                                                                           \
	do {                                                                                 \
		if ((call) < 0)                                                              \
			fail_at(__FILE__, __LINE__, "host: %s: %s", #call, strerror(errno)); \
	} while (0)

/* ---- words.c: through the door, as the guest's root; what must work ---- */

extern const struct cred as_root;
struct fs_obj *find(struct fs_obj *dir, const char *name);
/* -errno of a lookup, or 0; st may be NULL. */
int look(struct fs_obj *dir, const char *name, struct statx *st);
struct statx attr_of(struct fs_obj *);
struct fs_file *open_obj(struct fs_obj *, int flags);
struct fs_file *open_dir(struct fs_obj *);
/* New, and closed again: with these bytes in it. */
struct fs_obj *make_file(struct fs_obj *dir, const char *name, const char *text);
struct fs_obj *make_dir(struct fs_obj *dir, const char *name);
/* The same, of which nothing more is to be known. */
void put_file(struct fs_obj *dir, const char *name, const char *text);
void put_dir(struct fs_obj *dir, const char *name);
/* What a file holds is this text. */
bool holds(struct fs_obj *, const char *text);
bool name_holds(struct fs_obj *dir, const char *name, const char *text);
/* Makes something and forgets it: 0 or -errno. kind: S_IF*. */
int try_make(mode_t kind, struct fs_obj *dir, const char *name, mode_t, const struct cred *,
	     struct statx *);
/* -errno of opening, or if a door cannot say no to that, of the first read; or 0. */
int try_open(struct fs_obj *, int flags);
/* All entries, by as much room at a time; the caller frees. */
struct fs_dirent *list_all(struct fs_file *, uint64_t from, size_t room, size_t *n);
const struct fs_dirent *entry_of(const struct fs_dirent *, size_t n, const char *name);

/*
 * Known and idle: where the budget is tight, who was used before has no descriptor any more, and must be found again.
 */
struct crowd {
	struct fs_obj *o[24];
};
void crowd_in(struct crowd *);
void crowd_out(struct crowd *);

/* ---- words.c: on the host ---- */

struct stat host_stat(const char *name);
bool host_has(const char *name);
void host_put(int dir, const char *name, const char *text);
bool host_holds(int dir, const char *name, const char *text);
/* The name of an object of the host for calls that take no descriptor. */
const char *host_path(char path[64], int fd);
void fill(void *, size_t n, uint64_t seed);

/* A number from names, contents and attributes of the whole tree on the host, but for times of access. */
uint64_t tree_sum(int dir);

#endif
