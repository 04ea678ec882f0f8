// SPDX-License-Identifier: Apache-2.0
/*
 * door_p9.h - what the files of the door 9P know of each other: door_p9.c has its life, objects, names and who asks,
 * door_p9_attr.c attributes of both kinds, door_p9_file.c open files, listings and locks.
 */
#ifndef FS_SUITE_DOOR_P9_H
#define FS_SUITE_DOOR_P9_H

#include "door.h"
#include "p9_client.h"
#include "../tap.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>

struct fs_obj {
	uint32_t fid;
	struct qid qid;
	uint64_t gen; /* of those that had its number */
	char *way;    /* from the root, where it was found */
};

struct fs_file {
	uint32_t fid, roots; /* roots: of another's file, root's own fid; else P9_NOFID */
	bool roots_open;
	uint64_t path; /* of its qid */
	char *way;
};

extern struct d9 {
	struct fs_p9 how;
	struct share *share;
	struct fs_obj *root;
	unsigned nfiles;
} d9;

/* ---- door_p9.c ---- */

int d9_clunk(uint32_t fid);
/* Whatever becomes of it, it is gone. */
void d9_let_go(uint32_t fid);
/* To a new fid. name NULL: of the same object; qid may then be. */
int d9_walk(uint32_t from, const char *name, uint32_t *fid, struct qid *);
/* A new fid of what root found on this way, for this user; of what root knows, for who asks. */
int d9_walk_as(uint32_t uid, const char *way, uint64_t path, uint32_t *fid);
int d9_clone_as(const struct cred *, const struct fs_obj *, uint32_t *fid);
/* What is to be made in there by him is of this group, and its mode changes. */
int d9_make_as(const struct cred *, struct fs_obj *dir, mode_t *, uint32_t *gid);
/* What was just made there, of which its maker was told what it is. */
int d9_found(struct fs_obj *dir, const char *name, struct qid made, struct fs_obj **,
	     struct statx *);
char *d9_way_to(const struct fs_obj *dir, const char *name);

/* ---- door_p9_attr.c ---- */

int d9_ask_attr(uint32_t fid, struct statx *, uint64_t *gen);
int d9_getattr(struct fs_obj *, struct fs_file *, struct statx *);
int d9_setattr(struct fs_obj *, struct fs_file *, const struct share_attr *, struct statx *);
int d9_statfs(struct fs_obj *, struct statfs *);
ssize_t d9_getxattr(struct fs_obj *, const char *name, void *, size_t);
ssize_t d9_listxattr(struct fs_obj *, char *, size_t);
int d9_setxattr(struct fs_obj *, const char *name, const void *, size_t, int flags, bool kill_sgid);
int d9_removexattr(struct fs_obj *, const char *name);

/* ---- door_p9_file.c ---- */

int d9_open(struct fs_obj *, int flags, struct fs_file **);
int d9_create(struct fs_obj *dir, const char *name, int flags, mode_t, const struct cred *,
	      struct fs_obj **, struct fs_file **, struct statx *);
void d9_release(struct fs_file *);
/* In as many messages as it takes. */
ssize_t d9_read_all(uint32_t fid, void *, size_t, uint64_t off);
ssize_t d9_write_all(uint32_t fid, const void *, size_t, uint64_t off);
ssize_t d9_read(struct fs_file *, void *, size_t, uint64_t off);
ssize_t d9_write(struct fs_file *, const void *, size_t, uint64_t off, unsigned how);
int d9_fsync(struct fs_file *, bool data_only);
ssize_t d9_readdir(struct fs_file *, uint64_t off, size_t room, struct fs_dirent *, size_t max);
int d9_getlk(struct fs_file *, uint64_t owner, struct share_lock *);
int d9_setlk(struct fs_file *, uint64_t owner, const struct share_lock *);
struct fs_wait *d9_setlkw(struct fs_file *, uint64_t owner, const struct share_lock *);
int d9_waited(struct fs_wait *, bool cancel);
void d9_flush(struct fs_file *, uint64_t owner);

#endif
