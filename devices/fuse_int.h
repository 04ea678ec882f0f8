// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_int.h - what the files of the FUSE server (fuse*.c) know of each other, and nobody else.
 *
 * Node ids and handles are numbers that are looked up: the guest never holds a pointer of ours, and none is used twice
 * (hard cases D9, D13). A handler gets fields from in, makes one call of the share, and puts fields to out; the
 * dispatcher has checked before that the body is long enough and that a reply of fixed length has room, so only what has
 * no fixed length can fail to fit, and the cursor remembers that.
 *
 * Handlers run under the session's lock, unless their row says BESIDE: those touch nothing but the open file they were
 * given, which is theirs until they let it go.
 */
#ifndef DEVICES_FUSE_INT_H
#define DEVICES_FUSE_INT_H

#include "dax.h"
#include "fuse.h"
#include <linux/limits.h>
#include <linux/xattr.h>
#include <pthread.h>

/* An object the guest knows; a place for one, if nlookup is 0. */
struct fuse_node {
	uint64_t id, nlookup;
	union {
		struct share_inode *inode; /* one reference */
		struct fuse_node *unused;  /* the next such place */
	};
	struct fuse_handle *kept; /* how it is open for a guest that does not say when; or NULL */
};

/* Places lie in pieces that never move, so that finding one is no search, and most often neither is making one. */
#define FUSE_NODE_PIECE 512
struct fuse_nodes {
	struct fuse_node **pieces;
	uint32_t npieces;
	struct fuse_node *unused;
	size_t used;
};

/* An open file; lives until nobody holds it and no operation is on it. */
struct fuse_handle {
	uint64_t id;
	uint32_t refs;  /* one of the guest or of keeping it, one of each operation in flight */
	uint8_t access; /* kept: what it is open for, FUSE_READS | FUSE_WRITES */
	bool open;      /* the guest has its number */
	struct share_file *file;
	struct fuse_node *node; /* kept: for this one */
	struct fuse_handle *newer,
		*older; /* kept: by last use; not in use: older is the next such */
};

/* Handles live in pieces that never move, so that opening and closing allocates nothing. */
#define FUSE_PIECE 64
struct fuse_handles {
	struct fuse_handle **pieces;
	uint32_t npieces;
	struct fuse_handle *unused;
	size_t open;
};

struct fuse_ttl {
	uint64_t sec;
	uint32_t nsec;
};

struct fuse {
	struct share *share; /* borrowed, as dax */
	struct dax *dax;
	const struct share_config *mode; /* the share's */
	struct fuse_config cfg;
	struct fuse_ttl entry_ttl, attr_ttl, negative_ttl;
	uint32_t max_io;
	size_t kept_max;
	bool passes;    /* objects are made as the guest's caller, not as whoever we are */
	bool opens_all; /* what the guest's kernel lets its caller open, we can open at any time */
	bool shared;    /* there is more than one thread */
	pthread_mutex_t lock;

	/* The session; from here on everything is under the lock. */
	bool ready;      /* INIT is done */
	uint64_t flags;  /* what was agreed on: FUSE_*, both words */
	bool no_open;    /* the guest opens files without telling */
	bool no_opendir; /* and directories */
	struct fuse_node root;
	struct fuse_nodes nodes; /* the share's object knows its node too */
	struct fuse_handles handles;
	struct {
		struct fuse_handle *newest, *oldest;
		size_t n;
	} kept;
	struct fuse_req *waiting; /* for a lock on the host */
	/* What must lie in one piece: values of attributes, labels, targets of links. */
	uint8_t scratch[XATTR_SIZE_MAX];
	struct share_label label; /* the call's cred.label, if there is one; in scratch */
};

/* A request being served. */
struct fuse_call {
	struct fuse *f;
	struct fuse_req *req;
	struct cursor in, out; /* body; room after the reply's header */
	struct fuse_node *node;
	struct share_inode *inode;  /* the node's */
	struct fuse_handle *handle; /* of rows that ask for one: held until the handler returns */
	struct cred cred;
	uint32_t direct; /* bytes of the reply that went past out, straight into the iovecs */
};

/* A handler returns 0, -errno, or this: the reply comes from the operation's done(). */
#define FUSE_PENDING 1

/* ---- fuse.c ---- */

static inline void fuse_lock(struct fuse *f)
{
	if (f->shared)
		pthread_mutex_lock(&f->lock);
}
static inline void fuse_unlock(struct fuse *f)
{
	if (f->shared)
		pthread_mutex_unlock(&f->lock);
}
/* Where the body of a reply goes, also of one that comes later. */
static inline struct cursor fuse_room(const struct fuse_req *req)
{
	struct cursor out = cursor_of(req->wr, req->nwr);

	cursor_skip(&out, sizeof(struct fuse_out_header));
	return out;
}
/* An operation is out: it has the call's handle until fuse_finish(). FUSE_PENDING. */
int fuse_pend(struct fuse_call *);
/* It is over: lets go of what it held and replies. bytes: of the body, already written. Without the lock. */
void fuse_finish(struct fuse_req *, int error, uint32_t bytes);

/* ---- fuse_init.c ---- */

int fuse_init_open(struct fuse_call *);
int fuse_init_close(struct fuse_call *);
/* All of these flags were agreed on. */
static inline bool fuse_agreed(const struct fuse *f, uint64_t flags)
{
	return (f->flags & flags) == flags;
}

/* ---- fuse_node.c ---- */

/* Takes the reference to the share's root over. */
void fuse_session_init(struct fuse *, struct share_inode *root);
void fuse_session_fini(struct fuse *);
/* fuse_reset() under the lock. */
void fuse_session_end(struct fuse *);

struct fuse_node *fuse_node_find(struct fuse *, uint64_t id);
/* The guest learns of inode once more. Takes the reference over, also on failure. */
int fuse_node_enter(struct fuse *, struct share_inode *, struct fuse_node **) must_check;
void fuse_node_forget(struct fuse *, uint64_t id, uint64_t count);

/* ---- fuse_handle.c ---- */

/* Takes the file over, also on failure. One reference. */
int fuse_handle_new(struct fuse *, struct share_file *, struct fuse_handle **) must_check;
void fuse_handle_put(struct fuse *, struct fuse_handle *);
/* The guest is given a number for a new file. Takes the file over, also on failure. */
int fuse_handle_open(struct fuse *, struct share_file *, uint64_t *id) must_check;
/* Whatever node it is of, or NULL. Borrowed. */
struct fuse_handle *fuse_handle_get(const struct fuse *, uint64_t id);
/* If it is open on this object; else NULL. Borrowed. */
struct fuse_handle *fuse_handle_find(const struct fuse *, uint64_t id, const struct share_inode *);
/* The guest closes it. */
void fuse_handle_close(struct fuse *, struct fuse_handle *);
void fuse_handle_close_all(struct fuse *);
void fuse_handle_fini(struct fuse *);

/* ---- fuse_kept.c ---- */

enum { FUSE_READS = 1, FUSE_WRITES = 2 };
/* The file that is kept for a node, opened now if need be. access: 0 for any. Borrowed. */
int fuse_kept_get(struct fuse *, struct fuse_node *, unsigned access, struct fuse_handle **)
	must_check;
/* Keeps a file that is open already, for what is in flags (O_*). Takes it over. */
void fuse_kept_put(struct fuse *, struct fuse_node *, struct share_file *, int flags);
void fuse_kept_drop(struct fuse *, struct fuse_node *);
void fuse_kept_drop_all(struct fuse *);
/* Closes the one that was not used for longest and that nobody uses now; false: there is none. */
bool fuse_kept_yield(struct fuse *);

/* ---- fuse_ext.c ---- */

/* The rest of c->cred, for what is created: umask as the request has it, and what follows the names. */
int fuse_ext_cred(struct fuse_call *, uint32_t umask) must_check;

/* ---- fuse_attr.c ---- */

/* The entry of an object the guest learns of: takes the reference over and counts the lookup. */
int fuse_entry_fill(struct fuse *, struct share_inode *, const struct statx *,
		    struct fuse_entry_out *) must_check;
/* The file that a request names only if it says so. NULL: the object itself. -EBADF. */
int fuse_attr_file(struct fuse_call *, bool named, uint64_t fh, struct share_file **) must_check;

int fuse_attr_get(struct fuse_call *);
int fuse_attr_statx(struct fuse_call *);
int fuse_attr_set(struct fuse_call *);
int fuse_attr_statfs(struct fuse_call *);
int fuse_attr_ioctl(struct fuse_call *);

/* ---- fuse_name.c ---- */

int fuse_name_lookup(struct fuse_call *);
int fuse_name_forget(struct fuse_call *);
int fuse_name_batch_forget(struct fuse_call *);
int fuse_name_readlink(struct fuse_call *);
int fuse_name_symlink(struct fuse_call *);
int fuse_name_mknod(struct fuse_call *);
int fuse_name_mkdir(struct fuse_call *);
int fuse_name_unlink(struct fuse_call *);
int fuse_name_rmdir(struct fuse_call *);
int fuse_name_rename(struct fuse_call *);
int fuse_name_rename2(struct fuse_call *);
int fuse_name_link(struct fuse_call *);

/* ---- fuse_file.c ---- */

int fuse_file_open(struct fuse_call *);
int fuse_file_create(struct fuse_call *);
int fuse_file_tmpfile(struct fuse_call *);
int fuse_file_release(struct fuse_call *);
int fuse_file_release_dir(struct fuse_call *);
int fuse_file_flush(struct fuse_call *);

/* ---- fuse_data.c ---- */

int fuse_data_read(struct fuse_call *);
int fuse_data_write(struct fuse_call *);
int fuse_data_fsync(struct fuse_call *);
int fuse_data_fallocate(struct fuse_call *);
int fuse_data_lseek(struct fuse_call *);
int fuse_data_copy(struct fuse_call *);
int fuse_data_syncfs(struct fuse_call *);

/* ---- fuse_dir.c ---- */

int fuse_dir_open(struct fuse_call *);
int fuse_dir_read(struct fuse_call *);
int fuse_dir_read_plus(struct fuse_call *);

/* ---- fuse_xattr.c ---- */

int fuse_xattr_set(struct fuse_call *);
int fuse_xattr_get(struct fuse_call *);
int fuse_xattr_list(struct fuse_call *);
int fuse_xattr_remove(struct fuse_call *);

/* ---- fuse_lock.c ---- */

int fuse_lock_get(struct fuse_call *);
int fuse_lock_set(struct fuse_call *);
int fuse_lock_wait(struct fuse_call *);
int fuse_lock_interrupt(struct fuse_call *);

/* ---- fuse_dax.c ---- */

/* The guest is about to be told that the object has size bytes. Under the lock, as when they were asked for. */
static inline void fuse_dax_told(struct fuse *f, const struct share_inode *inode, uint64_t size)
{
	if (f->dax)
		dax_show(f->dax, inode, size);
}
/* It has written up to end, and is about to hear that it has. Without the lock. */
void fuse_dax_wrote(struct fuse *, struct share_file *, uint64_t end);
int fuse_dax_map(struct fuse_call *);
int fuse_dax_unmap(struct fuse_call *);

#endif
