// SPDX-License-Identifier: Apache-2.0
/*
 * p9_int.h - what the files of the 9P server (p9*.c) know of each other, and nobody else.
 *
 * A handler gets fields from in, makes one call of the share, and puts fields to out. The dispatcher has checked before
 * that the body is as long as its fixed part and its strings' lengths, that the answer's fixed part has room, and that the
 * fid which the body begins with is there and in the state that the row asks for.
 */
#ifndef DEVICES_P9_INT_H
#define DEVICES_P9_INT_H

#include "p9.h"
#include "../vmm/log.h"
#include "../vmm/map.h"

/* The value of an extended attribute, or the list of their names: read in pieces, or written in pieces and set at the end. */
struct p9_xattr {
	bool writing; /* Txattrcreate: set when the fid is let go of (E20) */
	int flags;
	size_t size, done; /* done: bytes that were written */
	char name[256];
	uint8_t value[];
};

/* Where a fid was found: that may lead elsewhere by now. */
struct p9_place {
	struct share_inode *dir; /* a reference: share_note() */
	char name[];
};

/*
 * What a fid stands for. It is one object for good: what makes a fid another puts another p9_fid under its number. It lives
 * until the guest has let go of it and no operation is on it.
 */
struct p9_fid {
	uint32_t fid, refs;
	uid_t uid;                 /* who attached */
	struct share_inode *inode; /* a reference each */
	struct share_inode *top;   /* where that attach began: ".." goes no further */
	struct p9_place *place;    /* NULL: top itself, or by ".." */
	struct share_file *file;   /* NULL: not open */
	bool writes;               /* it is open for that */
	struct p9_xattr *xattr;    /* not NULL: it is for this, and for nothing else */
	bool locks;                /* on the host, through it */
};

struct p9 {
	struct share *share; /* borrowed */
	struct p9_config cfg;
	char name[32];
	struct log_once said_devices;
	uint32_t root_major, root_minor; /* the device of the share's root, known from Tattach on */

	/* The session. */
	uint32_t msize;  /* 0: there is none */
	struct map fids; /* number -> p9_fid */
	size_t nxattrs;
	struct p9_req *inflight;
	size_t ninflight;
	struct p9_req *version; /* Tversion: waits for what is in flight */
	/* What must lie in one piece: targets of links. */
	char scratch[4096];
};

/* A request being served. */
struct p9_call {
	struct p9 *p9;
	struct p9_req *req;
	struct cursor in, out; /* body; room for the answer's, msize considered */
	struct p9_fid *fid;    /* of the row's kind; borrowed */
	uint32_t direct; /* bytes of the answer that went past out, straight into the iovecs */
};

/* A handler returns 0, -errno, or this: the answer comes later. */
#define P9_PENDING 1

/* ---- p9.c ---- */

/* An operation is out: it holds the call's fid until p9_finish(). P9_PENDING. */
int p9_pend(struct p9_call *);
/* It is over: answers, and whoever flushed it. bytes: of the body, already written. */
void p9_finish(struct p9_req *, int error, uint32_t bytes);
/* The answer's body of an operation that is out, its first four bytes. */
struct cursor p9_late_out(const struct p9_req *);
/* The answer to one that is not in flight, by its error and bytes. */
void p9_answer(struct p9_req *);

/* ---- p9_session.c ---- */

int p9_session_version(struct p9_call *);
/* Nothing of the old session is in flight any more: the answer to Tversion, as p9_session_version(). */
int p9_session_begin(struct p9_call *);
int p9_session_auth(struct p9_call *);
int p9_session_attach(struct p9_call *);
int p9_session_flush(struct p9_call *);
/* Every fid is let go of, who waits for a lock or for the next session is told. */
void p9_session_end(struct p9 *);

/* ---- p9_fid.c ---- */

/*
 * Puts a fid under number, in the place of what is there if replace. Takes inode over, also on failure; the rest is borrowed.
 * dir and name: where it was found; NULL: it is a top. -EINVAL: the number is in use; -ENFILE: too many.
 */
struct p9_found {
	struct share_inode *inode, *top, *dir;
	const struct name *name;
	uid_t uid;
};
int p9_fid_put_new(struct p9 *, uint32_t number, bool replace, const struct p9_found *,
		   struct p9_fid **) must_check;
/* It has another place from now on. dir is borrowed. -ENOMEM, and it has the old one. */
int p9_fid_move(struct p9_fid *, struct share_inode *dir, const struct name *) must_check;
/* NULL: unknown. Borrowed. */
struct p9_fid *p9_fid_find(const struct p9 *, uint32_t number);
struct p9_fid *p9_fid_get(struct p9_fid *);
void p9_fid_put(struct p9 *, struct p9_fid *);
/* The guest lets go of it: what remains to be done with it, and its result (E20). */
int p9_fid_clunk(struct p9 *, struct p9_fid *);
void p9_fid_clunk_all(struct p9 *);

/* ---- p9_walk.c ---- */

/*
 * One step from dir: an object with a reference, and what it is. ".." is answered at top by top. What a name may not be is
 * -ENOENT, as nothing has it.
 */
int p9_walk_step(struct p9 *, struct share_inode *top, struct share_inode *dir, const char *s,
		 size_t len, struct share_inode **, struct statx *) must_check;
int p9_walk(struct p9_call *);
int p9_walk_clunk(struct p9_call *);
int p9_walk_remove(struct p9_call *);
int p9_walk_rename(struct p9_call *);

/* ---- p9_attr.c ---- */

int p9_attr_get(struct p9_call *);
int p9_attr_set(struct p9_call *);
int p9_attr_statfs(struct p9_call *);

/* ---- p9_name.c ---- */

int p9_name_symlink(struct p9_call *);
int p9_name_readlink(struct p9_call *);
int p9_name_mknod(struct p9_call *);
int p9_name_mkdir(struct p9_call *);
int p9_name_link(struct p9_call *);
int p9_name_renameat(struct p9_call *);
int p9_name_unlinkat(struct p9_call *);

/* ---- p9_file.c ---- */

int p9_file_open(struct p9_call *);
int p9_file_create(struct p9_call *);
int p9_file_read(struct p9_call *);
int p9_file_write(struct p9_call *);
int p9_file_fsync(struct p9_call *);

/* ---- p9_dir.c ---- */

int p9_dir_read(struct p9_call *);

/* ---- p9_xattr.c ---- */

int p9_xattr_walk(struct p9_call *);
int p9_xattr_create(struct p9_call *);
int p9_xattr_read(struct p9_call *);
int p9_xattr_write(struct p9_call *);
/* The fid that was for writing goes: sets the attribute. */
int p9_xattr_set(struct p9_fid *);

/* ---- p9_lock.c ---- */

int p9_lock_set(struct p9_call *);
int p9_lock_get(struct p9_call *);
/* If it waits for a lock it is soon told that it has none. */
void p9_lock_cancel(struct p9_req *);
/* The fid goes: so do who waits by it and what was locked by it. */
void p9_lock_leave(struct p9 *, const struct p9_fid *);

#endif
