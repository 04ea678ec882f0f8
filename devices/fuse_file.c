// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_file.c - open files and their data.
 *
 * Data goes straight between the file and the guest's own buffers: the iovecs of the request are
 * cut to it and handed to the share, which may answer at once or later; a handle then stays until
 * the operation is done, whatever the guest releases or resets meanwhile. Calls: share.h,
 * fuse_node.c, fuse_name.c. Protocol: linux/fuse.h.
 */
#include "fuse_int.h"
#include "wire.h"

/* ---- opening and closing ---- */

/*
 * never: nothing stays in the guest's page cache. always: it stays over close and open. auto: open
 * looks again. DIRECT_IO costs shared mappings, so it is for never alone (hard case D52).
 */
static uint32_t file_flags(const struct fuse *f)
{
	static const uint32_t flags[] = {
		[FUSE_CACHE_NEVER] = FOPEN_DIRECT_IO, [FUSE_CACHE_ALWAYS] = FOPEN_KEEP_CACHE};

	return flags[f->cfg.cache];
}

int fuse_file_open(struct fuse_call *c)
{
	struct fuse_open_out o = {.open_flags = file_flags(c->f)};
	struct share_file *file = NULL;
	struct fuse_open_in in;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = share_open_inode(c->inode, (int)in.flags, &file);
	if (!r)
		r = fuse_handle_new(c->f, file, &o.fh);
	if (r)
		return r;
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

int fuse_file_create(struct fuse_call *c)
{
	struct fuse_open_out o = {.open_flags = file_flags(c->f)};
	struct share_inode *inode = NULL;
	struct share_file *file = NULL;
	struct fuse_create_in in;
	struct fuse_entry_out e;
	struct name name;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_name(&c->in, &name);
	if (!r)
		r = share_create(c->inode, &name, (int)in.flags, in.mode, &c->cred, &inode, &file,
				 &st);
	if (r)
		return r;
	r = fuse_entry_fill(c->f, inode, &st, &e);
	if (r) {
		share_file_close(file);
		return r;
	}
	r = fuse_handle_new(c->f, file, &o.fh);
	if (r) {
		fuse_node_forget(c->f, e.nodeid, 1);
		return r;
	}
	cursor_put(&c->out, &e, sizeof(e));
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/* It may come late, after the guest has forgotten the node (D72). */
int fuse_file_release(struct fuse_call *c)
{
	struct fuse_release_in in;

	cursor_get(&c->in, &in, sizeof(in));
	return fuse_handle_release(c->f, in.fh);
}

/* ---- data ---- */

/* Cuts the array to n bytes after the first skip bytes; the caller knows that they are there. */
static unsigned iov_cut(struct iovec **iov, unsigned niov, size_t skip, size_t n)
{
	unsigned used = 0;

	while (niov && skip >= (*iov)->iov_len) {
		skip -= (*iov)->iov_len;
		++*iov;
		niov--;
	}
	if (!n || !niov)
		return 0;
	(*iov)->iov_base = (char *)(*iov)->iov_base + skip;
	(*iov)->iov_len -= skip;
	while (n) {
		struct iovec *v = &(*iov)[used++];

		v->iov_len = MIN(v->iov_len, n);
		n -= v->iov_len;
	}
	return used;
}

/* The operation has its handle for as long as it is out. */
static int pend(struct fuse_req *req, struct fuse_handle *h)
{
	h->refs++;
	req->handle = h;
	return FUSE_PENDING;
}

static void read_done(struct io_op *op, int res)
{
	struct fuse_req *req = container_of(op, struct fuse_req, op);

	fuse_handle_put(req->handle);
	fuse_reply(req, MIN(res, 0), (uint32_t)MAX(res, 0));
}

int fuse_file_read(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	struct iovec *iov = req->wr;
	struct fuse_read_in in;
	struct fuse_handle *h;
	unsigned n;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	h = fuse_handle_find(c, in.fh);
	if (!h)
		return -EBADF;
	n = iov_cut(&iov, req->nwr, sizeof(struct fuse_out_header),
		    MIN((size_t)in.size, c->out.left));
	req->op.done = read_done;
	r = share_readv(h->file, c->f->io, &req->op, iov, n, in.offset);
	if (r == -EINPROGRESS)
		return pend(req, h);
	if (r < 0)
		return r;
	c->direct = (uint32_t)r;
	return 0;
}

static void write_put(struct cursor *out, int written)
{
	const struct fuse_write_out o = {.size = (uint32_t)written};

	cursor_put(out, &o, sizeof(o));
}

static void write_done(struct io_op *op, int res)
{
	struct fuse_req *req = container_of(op, struct fuse_req, op);
	struct cursor out = cursor_of(req->wr, req->nwr);

	fuse_handle_put(req->handle);
	cursor_skip(&out, sizeof(struct fuse_out_header));
	if (res >= 0)
		write_put(&out, res);
	fuse_reply(req, MIN(res, 0), sizeof(struct fuse_write_out));
}

/* The data is the rest of the message, no more and no less. */
int fuse_file_write(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	struct iovec *iov = req->rd;
	struct fuse_write_in in;
	struct fuse_handle *h;
	unsigned n;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	if (in.size != c->in.left || in.size > c->f->max_io)
		return -EINVAL;
	h = fuse_handle_find(c, in.fh);
	if (!h)
		return -EBADF;
	n = iov_cut(&iov, req->nrd, sizeof(struct fuse_in_header) + sizeof(in), in.size);
	req->op.done = write_done;
	r = share_writev(h->file, c->f->io, &req->op, iov, n, in.offset);
	if (r == -EINPROGRESS)
		return pend(req, h);
	if (r < 0)
		return r;
	write_put(&c->out, r);
	return 0;
}

static void fsync_done(struct io_op *op, int res)
{
	struct fuse_req *req = container_of(op, struct fuse_req, op);

	fuse_handle_put(req->handle);
	fuse_reply(req, res, 0);
}

/* Directories too: dpkg and databases do it (D49). */
int fuse_file_fsync(struct fuse_call *c)
{
	struct fuse_fsync_in in;
	struct fuse_handle *h;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	h = fuse_handle_find(c, in.fh);
	if (!h)
		return -EBADF;
	c->req->op.done = fsync_done;
	r = share_fsync(h->file, c->f->io, &c->req->op, in.fsync_flags & FUSE_FSYNC_FDATASYNC);
	return r == -EINPROGRESS ? pend(c->req, h) : r;
}

/* ---- the rest that is done to an open file ---- */

int fuse_file_fallocate(struct fuse_call *c)
{
	struct fuse_fallocate_in in;
	struct fuse_handle *h;

	cursor_get(&c->in, &in, sizeof(in));
	h = fuse_handle_find(c, in.fh);
	return h ? share_fallocate(h->file, (int)in.mode, in.offset, in.length) : -EBADF;
}

int fuse_file_lseek(struct fuse_call *c)
{
	struct fuse_lseek_out o;
	struct fuse_lseek_in in;
	struct fuse_handle *h;
	int64_t r;

	cursor_get(&c->in, &in, sizeof(in));
	h = fuse_handle_find(c, in.fh);
	if (!h)
		return -EBADF;
	r = share_lseek(h->file, in.offset, (int)in.whence);
	if (r < 0)
		return (int)r;
	o.offset = (uint64_t)r;
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/* ENOSYS would break overlayfs above the share; ENOTTY is "no such control here" (D45). */
int fuse_file_ioctl(struct fuse_call *c)
{
	(void)c;
	return -ENOTTY;
}
