// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_file.c - opening, creating and closing files.
 *
 * What the guest's page cache may do with a file is said when it is opened. A guest that opens without telling is given
 * no handle, not even for what it creates: it would never give it back; the file is kept for the node instead. Under the
 * session lock. Protocol: linux/fuse.h. Calls: share.h, wire.h, fuse_handle.c, fuse_kept.c, fuse_attr.c, fuse_ext.c.
 */
#include "fuse_int.h"
#include "wire.h"
#include <fcntl.h>

/*
 * never: nothing stays in the guest's page cache; writes to one file may pass each other, as the host's locking of the
 * file orders them. always: it stays over close and open. auto: open looks again. DIRECT_IO may cost shared mappings, so
 * it is for never alone (hard case D52).
 */
static uint32_t open_flags(const struct fuse *f)
{
	static const uint32_t flags[] = {
		[FUSE_CACHE_NEVER] = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES,
		[FUSE_CACHE_ALWAYS] = FOPEN_KEEP_CACHE,
	};

	return flags[f->cfg.cache];
}

/* A write-back cache reads the rest of a page that is written in part (D25); so does who writes through a mapping. */
static int with_reading(const struct fuse *f, int flags)
{
	if ((f->dax || fuse_agreed(f, FUSE_WRITEBACK_CACHE)) && (flags & O_ACCMODE) == O_WRONLY)
		return (flags & ~O_ACCMODE) | O_RDWR;
	return flags;
}

/* O_TRUNC is a write (D33). Where it was not agreed on that flags say who may keep set-id bits, root may. */
static int kill_on_trunc(struct fuse_call *c, struct share_file *file, int flags, uint32_t how)
{
	const bool told = fuse_agreed(c->f, FUSE_HANDLE_KILLPRIV_V2);
	const bool kill = told ? how & FUSE_OPEN_KILL_SUIDGID : c->cred.uid != 0;

	return flags & O_TRUNC && kill ? share_kill_priv(file) : 0;
}

/* ---- opening ---- */

static int open_node(struct fuse_call *c, const struct fuse_open_in *in, struct share_file **out)
{
	const int flags = (int)in->flags, more = with_reading(c->f, flags);
	struct share_file *file = NULL;
	int r = share_open_inode(c->inode, more, &file);

	if (r == -EACCES && more != flags)
		r = share_open_inode(c->inode, flags, &file);
	if (r)
		return r;
	r = kill_on_trunc(c, file, flags, in->open_flags);
	if (r) {
		share_file_close(file);
		return r;
	}
	*out = file;
	return 0;
}

int fuse_file_open(struct fuse_call *c)
{
	struct fuse_open_out o = {.open_flags = open_flags(c->f)};
	struct share_file *file = NULL;
	struct fuse_open_in in;
	int r;

	if (c->f->no_open)
		return -ENOSYS;
	cursor_get(&c->in, &in, sizeof(in));
	r = open_node(c, &in, &file);
	if (!r)
		r = fuse_handle_open(c->f, file, &o.fh);
	if (r)
		return r;
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/* ---- creating ---- */

/* What was made, of which the guest is now told: both are taken over, also on failure. */
static int made_put(struct fuse_call *c, struct share_inode *inode, struct share_file *file,
		    int flags, const struct statx *st)
{
	struct fuse_open_out o = {.open_flags = open_flags(c->f)};
	uninit struct fuse_entry_out e;
	int r = fuse_entry_fill(c->f, inode, st, &e);

	if (r) {
		share_file_close(file);
		return r;
	}
	if (c->f->no_open)
		fuse_kept_put(c->f, fuse_node_find(c->f, e.nodeid), file, flags);
	else
		r = fuse_handle_open(c->f, file, &o.fh);
	if (r) {
		fuse_node_forget(c->f, e.nodeid, 1);
		return r;
	}
	cursor_put(&c->out, &e, sizeof(e));
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

static int create(struct fuse_call *c, const struct name *name, const struct fuse_create_in *in)
{
	const int flags = (int)in->flags;
	int more = with_reading(c->f, flags);
	struct share_inode *inode = NULL;
	struct share_file *file = NULL;
	uninit struct statx st;
	int r = share_create(c->inode, name, more, in->mode, &c->cred, &inode, &file, &st);

	if (r == -EACCES && more != flags) {
		more = flags;
		r = share_create(c->inode, name, more, in->mode, &c->cred, &inode, &file, &st);
	}
	if (r)
		return r;
	r = kill_on_trunc(c, file, flags, in->open_flags);
	if (!r)
		return made_put(c, inode, file, more, &st);
	share_file_close(file);
	share_put(inode);
	return r;
}

int fuse_file_create(struct fuse_call *c)
{
	struct fuse_create_in in;
	uninit struct name name;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_name(&c->in, &name);
	if (!r)
		r = fuse_ext_cred(c, in.umask);
	return r ? r : create(c, &name, &in);
}

/* It has no name; what stands in the name's place is not one ("/", from Linux) and is not looked at. */
int fuse_file_tmpfile(struct fuse_call *c)
{
	struct share_inode *inode = NULL;
	struct share_file *file = NULL;
	char nothing[sizeof(struct name)];
	struct fuse_create_in in;
	uninit struct statx st;
	int r, flags;

	cursor_get(&c->in, &in, sizeof(in));
	flags = with_reading(c->f, (int)in.flags);
	r = wire_cstr(&c->in, nothing, sizeof(nothing));
	if (r >= 0)
		r = fuse_ext_cred(c, in.umask);
	if (!r)
		r = share_tmpfile(c->inode, flags, in.mode, &c->cred, &inode, &file, &st);
	return r ? r : made_put(c, inode, file, flags, &st);
}

/* ---- closing ---- */

/* It may come late, after the guest has forgotten the node (D72). */
static int release(struct fuse_call *c, bool untold)
{
	struct fuse_release_in in;
	struct fuse_handle *h;

	cursor_get(&c->in, &in, sizeof(in));
	h = fuse_handle_get(c->f, in.fh);
	if (!h)
		return untold ? 0 : -EBADF;
	if (in.release_flags & FUSE_RELEASE_FLOCK_UNLOCK && fuse_agreed(c->f, FUSE_FLOCK_LOCKS))
		share_unlock(share_file_inode(h->file), in.lock_owner, true);
	if (fuse_agreed(c->f, FUSE_POSIX_LOCKS))
		share_unlock_opening(share_file_inode(h->file), in.fh);
	fuse_handle_close(c->f, h);
	return 0;
}

int fuse_file_release(struct fuse_call *c)
{
	return release(c, c->f->no_open);
}

int fuse_file_release_dir(struct fuse_call *c)
{
	return release(c, c->f->no_opendir);
}

/* Nothing is held back that close() could write; only a host's locks are given up by it. */
int fuse_file_flush(struct fuse_call *c)
{
	struct fuse_flush_in in;

	if (!fuse_agreed(c->f, FUSE_POSIX_LOCKS))
		return -ENOSYS;
	cursor_get(&c->in, &in, sizeof(in));
	if (!fuse_handle_find(c->f, in.fh, c->inode))
		return -EBADF;
	share_unlock(c->inode, in.lock_owner, false);
	return 0;
}
