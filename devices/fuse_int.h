// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_int.h - what the files of the FUSE server (fuse*.c) know of each other, and nobody else.
 *
 * Node ids and handles are counters looked up in maps: the guest never holds a pointer of ours, and
 * none is used twice (hard cases D9, D13). A handler gets fields from in, makes one call of the
 * share, and puts fields to out; the dispatcher has checked before that the body is long enough and
 * that a reply of fixed length has room, so only what has no fixed length can fail to fit, and the
 * cursor remembers that.
 */
#ifndef DEVICES_FUSE_INT_H
#define DEVICES_FUSE_INT_H

#include "fuse.h"
#include "../vmm/map.h"

/* An object the guest knows. */
struct fuse_node {
	uint64_t id, nlookup;
	struct share_inode *inode; /* one reference */
};

/* An open file; lives until it is released and no operation is on it. */
struct fuse_handle {
	uint64_t id;
	unsigned refs; /* one of the map, one of each operation in flight */
	struct share_file *file;
};

struct fuse {
	struct iothread *io;    /* borrowed */
	struct fuse_config cfg; /* with the mode's numbers filled in */
	uint32_t max_io;
	bool ready; /* INIT is done */
	struct fuse_node root;
	struct map nodes, by_inode; /* id -> node; inode pointer -> the same node */
	struct map handles;
	uint64_t next_node, next_handle;
};

/* A request being served. */
struct fuse_call {
	struct fuse *f;
	struct fuse_req *req;
	struct cursor in, out; /* body; room after the reply's header */
	struct share_inode *inode;
	struct cred cred;
	uint32_t direct; /* bytes of the reply that went past out, straight into the iovecs */
};

/* A handler returns 0, -errno, or this: the reply comes from the operation's done(). */
#define FUSE_PENDING 1

/* ---- fuse.c ---- */

/* bytes: of the body, already written. */
void fuse_reply(struct fuse_req *, int error, uint32_t bytes);

/* ---- fuse_node.c ---- */

/* Takes the reference to the share's root over. */
void fuse_session_init(struct fuse *, struct share_inode *root);
void fuse_session_fini(struct fuse *);

struct fuse_node *fuse_node_find(struct fuse *, uint64_t id);
/* The guest learns of inode once more. Takes the reference over, also on failure. */
int fuse_node_enter(struct fuse *, struct share_inode *, uint64_t *id) must_check;
void fuse_node_forget(struct fuse *, uint64_t id, uint64_t count);

/* Takes the file over, also on failure. */
int fuse_handle_new(struct fuse *, struct share_file *, uint64_t *id) must_check;
/* The handle, if it is open on the call's node; else NULL. Borrowed. */
struct fuse_handle *fuse_handle_find(const struct fuse_call *, uint64_t id);
void fuse_handle_put(struct fuse_handle *);
/* The guest closes it. -EBADF. */
int fuse_handle_release(struct fuse *, uint64_t id);

/* ---- fuse_name.c ---- */

/* The entry of an object the guest learns of: takes the reference over and counts the lookup. */
int fuse_entry_fill(struct fuse *, struct share_inode *, const struct statx *,
		    struct fuse_entry_out *) must_check;

int fuse_name_lookup(struct fuse_call *);
int fuse_name_forget(struct fuse_call *);
int fuse_name_batch_forget(struct fuse_call *);
int fuse_name_getattr(struct fuse_call *);
int fuse_name_setattr(struct fuse_call *);
int fuse_name_readlink(struct fuse_call *);
int fuse_name_symlink(struct fuse_call *);
int fuse_name_mknod(struct fuse_call *);
int fuse_name_mkdir(struct fuse_call *);
int fuse_name_unlink(struct fuse_call *);
int fuse_name_rmdir(struct fuse_call *);
int fuse_name_rename(struct fuse_call *);
int fuse_name_rename2(struct fuse_call *);
int fuse_name_link(struct fuse_call *);
int fuse_name_statfs(struct fuse_call *);

/* ---- fuse_file.c ---- */

int fuse_file_open(struct fuse_call *);
int fuse_file_create(struct fuse_call *);
int fuse_file_release(struct fuse_call *);
int fuse_file_read(struct fuse_call *);
int fuse_file_write(struct fuse_call *);
int fuse_file_fsync(struct fuse_call *);
int fuse_file_fallocate(struct fuse_call *);
int fuse_file_lseek(struct fuse_call *);
int fuse_file_ioctl(struct fuse_call *);

/* ---- fuse_dir.c ---- */

int fuse_dir_open(struct fuse_call *);
int fuse_dir_read(struct fuse_call *);
int fuse_dir_read_plus(struct fuse_call *);

#endif
