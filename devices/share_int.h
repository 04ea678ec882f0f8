// SPDX-License-Identifier: Apache-2.0
/*
 * share_int.h - what the files of the share layer (share*.c) know of each other, and nobody else.
 *
 * Two rules hold it together. A descriptor of an object is borrowed through share_inode_fd() and
 * nobody but the table knows where it came from. Opening, by name or again, happens in share_path.c
 * only.
 */
#ifndef DEVICES_SHARE_INT_H
#define DEVICES_SHARE_INT_H

#include "share.h"
#include "../vmm/log.h"
#include "../vmm/map.h"
#include <fcntl.h>
#include <linux/capability.h>

#define DIR_BUF_SIZE 32768

/*
 * Where an object lies: two mounts of one directory have equal dev and ino, and are not the same
 * (ro and rw).
 */
struct inode_key {
	uint64_t mnt, dev, ino;
};

struct share_inode {
	struct share *share; /* borrowed */
	struct inode_key key;
	uint64_t ino; /* what the guest is shown */
	mode_t type;  /* S_IFMT bits; an inode never changes them */
	unsigned refs;
	int fd; /* O_PATH, for share_inode.c alone; pins the inode, so that ino means no other */
};

struct share_file {
	struct share_inode *inode; /* a reference */
	struct io_file io;         /* owns io.fd */
	uint64_t dir_at;           /* directories: where the host's position stands */
	struct share_file *next, **link;
};

struct share {
	char name[32];
	struct share_config cfg; /* without the strings, which are the configuration's */
	bool readonly, squash;
	bool openat2; /* the host has it and lets us */
	uid_t uid;    /* what we are, and return to after acting for a caller */
	gid_t gid;
	int proc; /* O_PATH on /proc/self/fd, kept as /proc may be gone later */
	uint32_t budget;
	struct log_once said_out; /* of descriptors */

	struct map inodes; /* struct inode_key -> struct share_inode, not counted in refs */
	struct map places; /* (mnt, dev) -> its index in the ids shown */
	struct share_inode *root;
	struct share_file *files;
	size_t nfiles;

	/*
	 * What getdents returned beyond what the guest had room for, kept for the handle that read
	 * last. One for the whole share, so that a guest with many half-read directories costs
	 * nothing; a handle that lost it seeks.
	 */
	struct {
		struct share_file *owner;
		size_t pos, len;
		uint64_t at; /* cookie that the entry at pos continues */
		_Alignas(8) char buf[DIR_BUF_SIZE];
	} dir;
};

/* ---- share_inode.c ---- */

/*
 * The object's descriptor, O_PATH, or -errno. Borrowed until the share_*() call that asked for it
 * returns: an object is free to come by its descriptor in any way, and to give it up between calls.
 */
int share_inode_fd(struct share_inode *) must_check;
/*
 * The object behind an O_PATH descriptor, with a reference. Takes *fd on success. -ENFILE: it would
 * be one too many.
 */
int share_inode_adopt(struct share *, int *fd, struct share_inode **, struct statx *) must_check;
/* What fd (O_PATH or not) is, in the host's words. */
int share_inode_statx(int fd, const char *name, struct statx *) must_check;
struct inode_key share_inode_key(const struct statx *);
/* The number shown for an object. -ENOMEM. */
int share_inode_number(struct share *, const struct inode_key *, uint64_t *ino) must_check;
/* 0 if n more descriptors may be held, else -ENFILE (said once). */
int share_reserve(struct share *, unsigned n) must_check;
void share_inode_free_all(struct share *);

/* ---- share_path.c ---- */

/* What procfs calls a descriptor, relative to share->proc. */
struct fd_name {
	char s[16];
};
struct fd_name share_path_fd_name(int fd);
/* Opens share->proc. Logs. */
int share_path_init(struct share *, const char *name) must_check;
/* The share's own directory: *fd is O_PATH. Finds out whether openat2 may be used. Logs. */
int share_path_root(struct share *, const char *name, const char *path, int *fd) must_check;
/* One component under dir, whatever it is: *fd is O_PATH. */
int share_path_open(struct share_inode *dir, const struct name *, int *fd) must_check;
/* A new regular file under dir: *fd is for I/O. -EEXIST if there is anything of that name. */
int share_path_create(struct share_inode *dir, const struct name *, int flags, mode_t, int *fd)
	must_check;
/* O_PATH for what is open for I/O. */
int share_path_pin(struct share *, int io_fd, int *fd) must_check;
/* Opens the object again, for I/O: regular files and directories only. */
int share_path_reopen(struct share_inode *, int flags, int *fd) must_check;

/* ---- share_io.c ---- */

void share_file_close_all(struct share *);
/* What of a guest's O_* flags reaches the host. */
int share_host_flags(int flags);
/* Takes *fd, and a reference of its own to inode, on success. */
int share_file_new(struct share_inode *, int *fd, struct share_file **) must_check;
/* Opens the object again, flags as the guest gave them, and whatever the share allows. */
int share_file_open(struct share_inode *, int flags, struct share_file **) must_check;

/* ---- share_owner.c ---- */

/* Decides the mode, learns who we are. Logs. */
int share_owner_init(struct share *, const char *name, int owner) must_check;
/* What a caller is shown as owner. */
void share_owner_show(const struct share *, struct statx *);
/* chown by the rules of the mode. */
int share_owner_change(struct share_inode *, const struct share_attr *) must_check;

/*
 * From share_owner_enter() to the end of the scope the thread acts as the caller. override: the
 * caller's right to the directory was checked by the guest, which knows all its groups; without it
 * the host checks again.
 */
struct owner_scope {
	const struct share *share; /* NULL: nothing to undo */
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
};
int share_owner_enter(struct owner_scope *, const struct share *, const struct cred *,
		      bool override) must_check;
void share_owner_leave(struct owner_scope *);
#define auto_owner __attribute__((cleanup(share_owner_leave))) struct owner_scope

#endif
