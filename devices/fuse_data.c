// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_data.c - what is in open files.
 *
 * Data goes straight between the file and the guest's own buffers: the iovecs of the request are cut to it and handed to
 * the share, which may answer at once or later; the handle then stays until the operation is done. What may take long is
 * done on another thread or in the ring. Beside each other, but for what says that it locks. Protocol: linux/fuse.h,
 * READ, WRITE, FSYNC, FALLOCATE, LSEEK, COPY_FILE_RANGE, SYNCFS. Calls: share.h, fuse_handle.c, fuse_kept.c.
 */
#include "fuse_int.h"
#include <assert.h>
#include <fcntl.h>
#include <limits.h>

/* Of one copy: what its result can say, in whole pages. */
#define COPY_MAX ((uint64_t)INT_MAX & ~4095ull)

/* Each begins with the operation, so that one container_of() serves all. */
#define OUT_OP(member)                                                                            \
	static_assert(offsetof(struct fuse_req, out.member) == offsetof(struct fuse_req, out.op), \
		      "begins with op")
OUT_OP(copy.op);
OUT_OP(write.op);
OUT_OP(fallocate.op);

static struct fuse_req *req_of(struct io_op *op)
{
	return container_of(op, struct fuse_req, out.op);
}

/* Set-id bits go, as a write of one without the right to keep them has it (D33). */
static int kill_priv(struct fuse_call *c)
{
	int r;

	fuse_lock(c->f);
	r = share_kill_priv(c->handle->file);
	fuse_unlock(c->f);
	return r;
}

/* ---- reading and writing ---- */

static void read_done(struct io_op *op, int res)
{
	fuse_finish(req_of(op), MIN(res, 0), (uint32_t)MAX(res, 0));
}

int fuse_data_read(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	struct iovec *iov = req->wr;
	struct fuse_read_in in;
	unsigned n;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	/* Buffers that overlap have room for gigabytes: no read is longer than was agreed on. */
	in.size = MIN(in.size, c->f->max_io);
	n = iov_cut(&iov, req->nwr, sizeof(struct fuse_out_header),
		    MIN((size_t)in.size, c->out.left));
	req->out.op.done = read_done;
	r = share_readv(c->handle->file, req->io, &req->out.op, iov, n, in.offset);
	if (r == -EINPROGRESS)
		return fuse_pend(c);
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
	struct fuse_req *req = req_of(op);
	struct cursor out = fuse_room(req);

	if (res >= 0) {
		fuse_dax_wrote(req->fuse, req->handle->file, req->out.write.off + (uint64_t)res);
		write_put(&out, res);
	}
	fuse_finish(req, MIN(res, 0), sizeof(struct fuse_write_out));
}

/* The data is the rest of the message, no more and no less. */
int fuse_data_write(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	struct iovec *iov = req->rd;
	struct fuse_write_in in;
	unsigned n;
	int r = 0;

	cursor_get(&c->in, &in, sizeof(in));
	if (in.size != c->in.left || in.size > c->f->max_io)
		return -EINVAL;
	/* Linux says so of what goes past its cache, whatever was agreed on. */
	if (in.write_flags & FUSE_WRITE_KILL_SUIDGID)
		r = kill_priv(c);
	if (r)
		return r;
	n = iov_cut(&iov, req->nrd, sizeof(struct fuse_in_header) + sizeof(in), in.size);
	req->out.write.off = in.offset;
	req->out.op.done = write_done;
	r = share_writev(c->handle->file, req->io, &req->out.op, iov, n, in.offset);
	if (r == -EINPROGRESS)
		return fuse_pend(c);
	if (r < 0)
		return r;
	fuse_dax_wrote(c->f, c->handle->file, in.offset + (uint64_t)r);
	write_put(&c->out, r);
	return 0;
}

/* ---- to the disk ---- */

static void plain_done(struct io_op *op, int res)
{
	fuse_finish(req_of(op), res, 0);
}

/* Directories too: dpkg and databases do it (D49). */
int fuse_data_fsync(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	struct fuse_fsync_in in;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	req->out.op.done = plain_done;
	r = share_fsync(c->handle->file, req->io, &req->out.op,
			in.fsync_flags & FUSE_FSYNC_FDATASYNC);
	return r == -EINPROGRESS ? fuse_pend(c) : r;
}

/* Locks. The guest asks once for each of its mounts; that of the root stands for those it was not told of (D49). */
int fuse_data_syncfs(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	int r;

	req->out.op.done = plain_done;
	r = share_syncfs(c->inode, req->io, &req->out.op, c->node == &c->f->root);
	if (r != -EINPROGRESS)
		return r;
	req->inode = share_get(c->inode);
	return fuse_pend(c);
}

/* ---- space and holes ---- */

static int fallocate_now(struct io_op *op)
{
	struct fuse_req *req = req_of(op);

	return share_fallocate(req->handle->file, req->out.fallocate.mode, req->out.fallocate.off,
			       req->out.fallocate.len);
}

static void fallocate_done(struct io_op *op, int res)
{
	struct fuse_req *req = req_of(op);

	if (!res && !(req->out.fallocate.mode & FALLOC_FL_KEEP_SIZE))
		fuse_dax_wrote(req->fuse, req->handle->file,
			       req->out.fallocate.off + req->out.fallocate.len);
	fuse_finish(req, res, 0);
}

/* No flag says what its caller may: nobody but root keeps set-id bits. */
int fuse_data_fallocate(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	struct fuse_fallocate_in in;
	int r = 0;

	cursor_get(&c->in, &in, sizeof(in));
	if (c->cred.uid)
		r = kill_priv(c);
	if (r)
		return r;
	req->out.fallocate.mode = (int)in.mode;
	req->out.fallocate.off = in.offset;
	req->out.fallocate.len = in.length;
	req->out.op.done = fallocate_done;
	/* Before it is handed over: the other thread takes it from there. */
	fuse_pend(c);
	r = loop_offload(req->io, &req->out.op, fallocate_now);
	if (r == -EINPROGRESS)
		return FUSE_PENDING;
	c->handle = take_ptr(&req->handle);
	return r;
}

/*
 * Linux asks without writing out first what it keeps: that would be a hole here, and a copy without it would be taken
 * for whole. ENOSYS makes it take all for data.
 */
int fuse_data_lseek(struct fuse_call *c)
{
	struct fuse_lseek_out o;
	struct fuse_lseek_in in;
	int64_t r;

	if (fuse_agreed(c->f, FUSE_WRITEBACK_CACHE))
		return -ENOSYS;
	cursor_get(&c->in, &in, sizeof(in));
	r = share_lseek(c->handle->file, in.offset, (int)in.whence);
	if (r < 0)
		return (int)r;
	o.offset = (uint64_t)r;
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

/* ---- copying within the share ---- */

static void copied_put(struct fuse_req *req, struct cursor *out, int copied)
{
	const struct fuse_copy_file_range_out o = {.bytes_copied = (uint64_t)copied};

	if (req->in.opcode == FUSE_COPY_FILE_RANGE)
		write_put(out, copied);
	else
		cursor_put(out, &o, sizeof(o));
}

static void copy_done(struct io_op *op, int res)
{
	struct fuse_req *req = req_of(op);
	struct cursor out = fuse_room(req);

	if (res >= 0) {
		fuse_dax_wrote(req->fuse, req->to->file, req->out.copy.to_off + (uint64_t)res);
		copied_put(req, &out, res);
	}
	/* Both replies are of one length. */
	static_assert(sizeof(struct fuse_copy_file_range_out) == sizeof(struct fuse_write_out),
		      "one length");
	fuse_finish(req, MIN(res, 0), sizeof(struct fuse_write_out));
}

/* The file that is written: req->to holds it. */
static int copy_to(struct fuse_call *c, const struct fuse_copy_file_range_in *in)
{
	struct fuse_node *n = fuse_node_find(c->f, in->nodeid_out);
	struct fuse_handle *h;
	int r = -EBADF;

	if (!n)
		return -ESTALE;
	h = fuse_handle_find(c->f, in->fh_out, n->inode);
	if (!h && c->f->no_open)
		r = fuse_kept_get(c->f, n, FUSE_WRITES, &h);
	if (!h)
		return r;
	h->refs++;
	c->req->to = h;
	return c->cred.uid ? share_kill_priv(h->file) : 0;
}

static int copy_begin(struct fuse_call *c)
{
	struct fuse_copy_file_range_in in;
	struct fuse_req *req = c->req;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	if (in.flags)
		return -EINVAL;
	in.len = MIN(in.len, COPY_MAX);
	r = copy_to(c, &in);
	if (r)
		return r;
	req->out.copy = (struct share_copy){
		.op = {.done = copy_done},
		.from = c->handle->file,
		.to = req->to->file,
		.from_off = in.off_in,
		.to_off = in.off_out,
		.len = in.len,
	};
	return share_copy(&req->out.copy, req->io);
}

/* Locks. */
int fuse_data_copy(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	int r = copy_begin(c);

	if (r == -EINPROGRESS)
		return fuse_pend(c);
	if (r > 0)
		fuse_dax_told(c->f, share_file_inode(req->to->file),
			      req->out.copy.to_off + (uint64_t)r);
	if (req->to)
		fuse_handle_put(c->f, take_ptr(&req->to));
	if (r < 0)
		return r;
	copied_put(req, &c->out, r);
	return 0;
}
