// SPDX-License-Identifier: Apache-2.0
/*
 * suite.h - the words of the file system suite.
 *
 * A check is a function that runs in a process and an empty directory of its own, and returns true
 * if everything was as on any Linux file system. What it leaves in its directory is removed for it;
 * it may change its ids, umask and limits. main.c has the tables; words.c the helpers.
 */
#ifndef FSSUITE_SUITE_H
#define FSSUITE_SUITE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* What a mount or the caller may lack. Order: feature_names[] of main.c. */
enum {
	ROOT = 1 << 0,      /* we are root, with all capabilities */
	USERS = 1 << 1,     /* other users can own files here and have their rights */
	CHOWN = 1 << 2,     /* root gives files away */
	DEVICES = 1 << 3,   /* device nodes are made, and keep their numbers */
	XATTR = 1 << 4,     /* user.* attributes */
	TRUSTED = 1 << 5,   /* trusted.* and security.* attributes */
	ACL = 1 << 6,       /* access control lists */
	MMAP = 1 << 7,      /* shared writable mappings */
	TMPFILE = 1 << 8,   /* files without a name */
	PUNCH = 1 << 9,     /* fallocate: holes */
	ZERO = 1 << 10,     /* fallocate: ranges of zeros */
	COLLAPSE = 1 << 11, /* fallocate: ranges taken out and put in */
	FLAGS = 1 << 12,    /* FS_IOC_GETFLAGS and SETFLAGS */
	BTIME = 1 << 13,    /* statx tells the time of birth */
	LOCKINTR = 1 << 14, /* a signal ends the wait for a lock */
	DIRECT = 1 << 15,   /* O_DIRECT */
	COPY = 1 << 16,     /* copy_file_range */
	WHITEOUT = 1 << 17, /* renameat2 leaves whiteouts */
	SLINKS = 1 << 18,   /* symbolic links of all lengths up to 4095 */
	TAIL = 1 << 19,     /* what is mapped beyond the end of a file is cut off */
	GROUPS = 1 << 20,   /* the server is told a supplementary group when a file is made */
	HIDDEN = 1 << 21,   /* names of trusted attributes are not listed to others */
	DATED = 1 << 22,    /* what is stored in mapped pages is dated at once */
	RENAMES = 1 << 23,  /* renameat2 has flags */
	ALLOC = 1 << 24,    /* fallocate, if only to have the room */
	FINE = 1 << 25,     /* times are kept to the nanosecond, and those before 1970 */
	APART = 1 << 26,    /* fcntl and flock do not see each other's locks */
	FEATURES = (1 << 27) - 1,
};

struct check {
	const char *name;
	bool (*run)(void);
	const char *sentence;
	unsigned needs; /* not run unless all of these are there */
	unsigned lacks; /* run only where all of these are missing */
};
/* CHECK(name, "sentence"[, needs[, lacks]]) stands for check_name() */
#define CHECK(id, text, ...)                                                    \
	{                                                                       \
		.name = #id, .run = check_##id, .sentence = text, ##__VA_ARGS__ \
	}
/* Each ends with a row of zeros. */
extern const struct check io_checks[], open_checks[], name_checks[], link_checks[], rename_checks[],
	dir_checks[], space_checks[], mode_checks[], user_checks[], time_checks[], xattr_checks[],
	acl_checks[], lock_checks[], map_checks[], special_checks[], crowd_checks[], model_checks[];

/* ---- saying what was wrong ---- */

/* Ends the check it stands in, remembering where. The first failure counts. */
#define must(cond)                                                        \
	do {                                                              \
		errno = 0;                                                \
		if (!(cond))                                              \
			return fail_at(__FILE__, __LINE__, #cond, errno); \
	} while (0)
#define must_fail(call, error)                                                                \
	do {                                                                                  \
		errno = 0;                                                                    \
		if ((call) != -1 || errno != (error))                                         \
			return fail_at(__FILE__, __LINE__, #call " fails by " #error, errno); \
	} while (0)
bool fail_at(const char *file, int line, const char *what, int error);
/* The check cannot be made here: return skip("why"). Counted and said, never silent. */
bool skip(const char *why);

/* ---- the run's parameters ---- */

bool have(unsigned features);
unsigned suite_many(void);   /* files in the large directory */
unsigned suite_rounds(void); /* operations of the random exercise */
/* How often to do what would be done n times beside a large directory of 1000; at least 5. */
unsigned suite_times(unsigned n);

/* ---- words.c ---- */

void fill(void *buf, size_t n, uint64_t seed);
bool file_make(const char *name, const char *text);
bool file_make_mode(const char *name, const char *text, mode_t mode);
bool file_holds(const char *name, const char *text);
bool fd_holds(int fd, const char *text);
bool all_zero(const void *buf, size_t n);
bool absent(const char *name);
mode_t mode_of(const char *name); /* permission bits; (mode_t)-1 if there is none */
ino_t ino_of(const char *name);   /* 0 if there is none */
off_t size_of(const char *name);  /* -1 if there is none */
nlink_t nlink_of(const char *name);
/* Runs fn in a process of its own; what it fails by is what the check fails by. */
bool in_child(bool (*fn)(void));
/* The same as another user with one or no supplementary group (0). Needs ROOT. */
bool as_user(uid_t uid, gid_t gid, gid_t extra, bool (*fn)(void));
/* Waits for a child: true if it ended by exit(0). */
bool child_good(pid_t pid);
/* Two processes take turns: tell() lets the other's wait_turn() go on. */
struct turns {
	int to[2], back[2];
};
bool turns_make(struct turns *);
void tell(const int pair[2]);
bool wait_turn(const int pair[2]);
/* Everything below the directory named, and itself. */
bool remove_tree(int dir, const char *name);

/* ---- other modes of the program ---- */

/* readonly.c: every call that changes something is refused with EROFS. 0 if so. */
int readonly_main(const char *dir);
/* hostmap.c: a mapping and the host see each other; a dialogue with the host on the console. */
int hostmap_main(const char *file, bool dax);
/* The host truncates what is mapped. */
int hostcut_main(const char *file);

#endif
