// SPDX-License-Identifier: Apache-2.0
/*
 * door.h - a door to a share: what a kernel's file system could ask of it, as a table of functions.
 *
 * The file system suite goes through a door and knows nothing of what is behind it: the file layer itself, or a protocol
 * over it, of which the door is then the client. A door speaks Linux, in the types of share.h: names as they come,
 * -errno as a call of Linux would give it, nothing cached. It does what a kernel does for its protocol beside the
 * request (open flags that a protocol lacks, splitting what is too long for one message) and never checks a permission.
 * One share at a time; any thread but those of the share. Set-up failures end the program.
 */
#ifndef FS_SUITE_DOOR_H
#define FS_SUITE_DOOR_H

#include "../../devices/share.h"

/* Each stands for one lookup or opening, to be given back by forget() or release(). */
struct fs_obj;
struct fs_file;
struct fs_wait; /* a lock that is waited for */

struct fs_dirent {
	uint64_t ino, next;
	unsigned char type; /* DT_* */
	char name[256];
};

/* What the other side holds beside its root. */
struct fs_held {
	size_t objects, files;
};

/* What a protocol may lack, of what tests ask for. */
enum {
	FS_FLAGS = 1,           /* rename with flags */
	FS_TMPFILE = 2,         /* files without a name */
	FS_SPACE = 4,           /* fallocate */
	FS_SEEK = 8,            /* SEEK_DATA and SEEK_HOLE */
	FS_COPY = 16,           /* copy_file_range */
	FS_IOCTL = 32,          /* flags of a file */
	FS_SYNCFS = 64,         /* syncs of a file system */
	FS_BSD_LOCKS = 128,     /* flock() */
	FS_GROUPS = 256,        /* a group of the caller beside his own */
	FS_UMASK = 512,         /* an umask that a default ACL replaces */
	FS_BAD_LOOKUPS = 1024,  /* lookups that are refused for their name */
	FS_EMPTY_VALUES = 2048, /* an empty attribute in place of another that must be there */
	FS_OWN_LOCKS = 4096,    /* being told that locks are the guest's own to keep */
};

/* A row of what a door lacks, and why. Its name completes "the door has no ...". */
struct fs_lack {
	unsigned what; /* FS_*; 0: no test asks for it */
	const char *name, *why;
};

/* A share and how it is entered. */
struct fs_setup {
	const char *name;
	struct share_config share; /* without path */
	bool by_name;              /* idle objects are found again without file handles */
	const void *door;          /* what else the door wants to know */
	const char *engine;        /* of the loop: "uring", "epoll"; NULL: whichever */
	bool tmpfs;                /* not in $TMPDIR but on a tmpfs */
	bool nobody;               /* by a plain user; else by root */
};

/* The least fd_budget there is. */
#define FS_FEWEST 8

/* name, share, and what else is to be other than usual. */
#define FS_SETUP(called, how, ...)                          \
	{                                                   \
		.name = called, .share = how, ##__VA_ARGS__ \
	}
#define FS_SHARE(...)                                         \
	{                                                     \
		.xattr = true, .submounts = true, __VA_ARGS__ \
	}

/* To write(): the caller may not keep set-id bits. */
#define FS_KILL_PRIV 1

struct fs_door {
	const char *name;
	const struct fs_lack *lacks; /* ends with a row of zeros; NULL: nothing */

	/* 0, or -errno if the host cannot do what the setup asks for. */
	int (*mount)(const struct fs_setup *, const char *path);
	void (*unmount)(void);
	struct fs_held (*held)(void);
	/* Something is opened without telling: whether it may be is found out when it is used. NULL: nothing is. */
	bool (*untold)(void);
	/* Faults the door itself saw in what it was told; NULL: it looks for none. */
	unsigned (*faults)(void);

	struct fs_obj *(*root)(void);
	bool (*same)(const struct fs_obj *, const struct fs_obj *);
	int (*lookup)(struct fs_obj *dir, const char *name, struct fs_obj **, struct statx *);
	void (*forget)(struct fs_obj *);
	int (*getattr)(struct fs_obj *, struct fs_file *, struct statx *); /* file may be NULL */
	int (*setattr)(struct fs_obj *, struct fs_file *, const struct share_attr *,
		       struct statx *);
	ssize_t (*readlink)(struct fs_obj *, char *, size_t);
	int (*statfs)(struct fs_obj *, struct statfs *);
	int (*syncfs)(struct fs_obj *);

	int (*mknod)(struct fs_obj *dir, const char *name, mode_t, dev_t, const struct cred *,
		     struct fs_obj **, struct statx *);
	int (*mkdir)(struct fs_obj *dir, const char *name, mode_t, const struct cred *,
		     struct fs_obj **, struct statx *);
	int (*symlink)(struct fs_obj *dir, const char *name, const char *target,
		       const struct cred *, struct fs_obj **, struct statx *);
	int (*link)(struct fs_obj *, struct fs_obj *dir, const char *name, struct statx *);
	int (*unlink)(struct fs_obj *dir, const char *name);
	int (*rmdir)(struct fs_obj *dir, const char *name);
	int (*rename)(struct fs_obj *dir, const char *name, struct fs_obj *newdir,
		      const char *newname, unsigned flags);

	int (*open)(struct fs_obj *, int flags, struct fs_file **);
	int (*create)(struct fs_obj *dir, const char *name, int flags, mode_t, const struct cred *,
		      struct fs_obj **, struct fs_file **, struct statx *);
	int (*tmpfile)(struct fs_obj *dir, int flags, mode_t, const struct cred *, struct fs_obj **,
		       struct fs_file **, struct statx *);
	void (*release)(struct fs_file *);
	ssize_t (*read)(struct fs_file *, void *, size_t, uint64_t off);
	ssize_t (*write)(struct fs_file *, const void *, size_t, uint64_t off, unsigned how);
	int (*fsync)(struct fs_file *, bool data_only);
	int (*fallocate)(struct fs_file *, int mode, uint64_t off, uint64_t len);
	int64_t (*lseek)(struct fs_file *, uint64_t off, int whence);
	int64_t (*copy)(struct fs_file *from, uint64_t, struct fs_file *to, uint64_t, uint64_t len);
	/*
	 * Entries after the cookie, as many as fit into max and into room bytes as getdents64() counts them. How many, 0 at
	 * the end, -EINVAL if not even one fits.
	 */
	ssize_t (*readdir)(struct fs_file *, uint64_t off, size_t room, struct fs_dirent *,
			   size_t max);
	ssize_t (*ioctl)(struct fs_file *, unsigned cmd, void *arg, size_t in, size_t out);

	ssize_t (*getxattr)(struct fs_obj *, const char *name, void *, size_t);
	ssize_t (*listxattr)(struct fs_obj *, char *, size_t);
	int (*setxattr)(struct fs_obj *, const char *name, const void *, size_t, int flags,
			bool kill_sgid);
	int (*removexattr)(struct fs_obj *, const char *name);

	int (*getlk)(struct fs_file *, uint64_t owner, struct share_lock *);
	int (*setlk)(struct fs_file *, uint64_t owner, const struct share_lock *);
	/* To be ended by waited(), which cancels it first or waits until it is there. */
	struct fs_wait *(*setlkw)(struct fs_file *, uint64_t owner, const struct share_lock *);
	int (*waited)(struct fs_wait *, bool cancel);
	/* The owner closes a descriptor of the file. */
	void (*flush)(struct fs_file *, uint64_t owner);
};

extern const struct fs_door door_share, door_fuse, door_p9;

/* setup->door of door_fuse: the session, and what of it is used. */
struct fs_fuse {
	int cache; /* enum fuse_cache */
	bool writeback;
	bool untold;      /* the guest offers not to tell what it opens */
	bool newest;      /* 7.45, and what came since 7.31: STATX, COPY_FILE_RANGE_64 */
	bool plus;        /* lists by READDIRPLUS */
	unsigned threads; /* that serve, in turns; 0: one */
};

/* setup->door of door_p9: the client. */
struct fs_p9 {
	uint32_t msize;
	bool old;       /* removes and renames what a fid stands for, not names in directories */
	unsigned piece; /* messages lie in pieces of so many bytes; 0: as Linux has them */
	int multidevs;  /* enum p9_multidevs */
};

/* Every test that is for it, with each setup, as TAP; returns what main() is to return. */
int fs_suite(const struct fs_door *, const struct fs_setup *, size_t n);

#endif
