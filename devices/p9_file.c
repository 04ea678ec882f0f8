// SPDX-License-Identifier: Apache-2.0
/*
 * p9_file.c - opening and creating files, and what is in them.
 *
 * Data goes straight between the file and the guest's own buffers: the iovecs of the request are cut to it and handed to
 * the share, which may answer at once or later (hard case E4); the fid then stays until the operation is done. A count is
 * bounded by what was agreed on and by the room there is. On the thread that serves. Protocol: Tlopen, Tlcreate, Tread,
 * Twrite, Tfsync. Calls: share.h, cursor.h, p9_fid.c, p9_xattr.c.
 */
#include "p9_int.h"
#include <fcntl.h>

/* ---- opening ---- */

/* Flags have the protocol's numbers here (E18); appending is the client's, who sends offsets (D24). */
static int host_flags(uint32_t flags)
{
	static const struct {
		uint32_t p9;
		int host;
	} bits[] = {{P9_O_EXCL, O_EXCL}, {P9_O_TRUNC, O_TRUNC}, {P9_O_DIRECTORY, O_DIRECTORY}};
	int out = (int)(flags & P9_O_ACCMODE);

	for (unsigned i = 0; i < ARRAY_LEN(bits); i++)
		if (flags & bits[i].p9)
			out |= bits[i].host;
	return out;
}

/* The fid is for the file from now on, which is taken over. No unit of I/O is better than what was agreed on (E19). */
static int opened(struct p9_call *c, struct p9_fid *fid, struct share_file *file, uint32_t flags)
{
	struct p9_rlopen o = {.iounit = le32_of(0)};
	struct statx st;
	int r = share_getattr(fid->inode, file, &st);

	if (r) {
		share_file_close(file);
		return r;
	}
	fid->file = file;
	fid->writes = (flags & P9_O_ACCMODE) != O_RDONLY;
	o.qid = p9_qid_of(&st);
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

int p9_file_open(struct p9_call *c)
{
	struct share_file *file = NULL;
	struct p9_tlopen in;
	uint32_t flags;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	flags = le32_get(in.flags);
	r = share_open_inode(c->fid->inode, host_flags(flags) & ~O_EXCL, &file);
	return r ? r : opened(c, c->fid, file, flags);
}

/* The directory's fid becomes the file's (E18); with nothing done to it if anything fails. */
static int become(struct p9_call *c, struct share_inode *inode, const struct name *name,
		  struct p9_fid **out)
{
	const struct p9_found found = {.inode = inode,
				       .top = c->fid->top,
				       .dir = c->fid->inode,
				       .name = name,
				       .uid = c->fid->uid};

	return p9_fid_put_new(c->p9, c->fid->fid, true, &found, out);
}

int p9_file_create(struct p9_call *c)
{
	struct share_file *file = NULL;
	struct p9_tlcreate_rest rest;
	struct share_inode *inode;
	struct p9_tlcreate in;
	struct p9_fid *fid;
	struct name name;
	struct statx st;
	struct cred cred;
	uint32_t flags;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_name_and(&c->in, &name, &rest, sizeof(rest));
	if (r)
		return r;
	flags = le32_get(rest.flags);
	cred = (struct cred){.uid = c->fid->uid, .gid = le32_get(rest.gid)};
	r = share_create(c->fid->inode, &name, host_flags(flags), le32_get(rest.mode), &cred,
			 &inode, &file, &st);
	if (r)
		return r;
	r = become(c, inode, &name, &fid);
	if (!r)
		return opened(c, fid, file, flags);
	share_file_close(file);
	return r;
}

/* ---- reading and writing ---- */

static struct p9_req *req_of(struct io_op *op)
{
	return container_of(op, struct p9_req, out.op);
}

static void count_put(struct cursor *out, int n)
{
	const le32 count = le32_of((uint32_t)n);

	cursor_put(out, &count, sizeof(count));
}

static void read_done(struct io_op *op, int res)
{
	struct p9_req *req = req_of(op);
	struct cursor out = p9_late_out(req);

	if (res >= 0)
		count_put(&out, res);
	p9_finish(req, MIN(res, 0), (uint32_t)(sizeof(struct p9_rread) + (size_t)MAX(res, 0)));
}

int p9_file_read(struct p9_call *c)
{
	struct p9_req *req = c->req;
	struct iovec *iov = req->wr;
	struct p9_tread in;
	struct cursor out;
	size_t count;
	unsigned n;
	int r;

	if (c->fid->xattr)
		return p9_xattr_read(c);
	cursor_get(&c->in, &in, sizeof(in));
	count = MIN((size_t)le32_get(in.count), c->out.left - sizeof(struct p9_rread));
	n = iov_cut(&iov, req->nwr, P9_SHORT, count);
	req->out.op.done = read_done;
	r = share_readv(c->fid->file, req->io, &req->out.op, iov, n, le64_get(in.offset));
	if (r == -EINPROGRESS)
		return p9_pend(c);
	if (r < 0)
		return r;
	/* c->out stands in iovecs that were cut. */
	out = p9_late_out(req);
	count_put(&out, r);
	c->direct = (uint32_t)sizeof(struct p9_rread) + (uint32_t)r;
	return 0;
}

static void write_done(struct io_op *op, int res)
{
	struct p9_req *req = req_of(op);
	struct cursor out = p9_late_out(req);

	if (res >= 0)
		count_put(&out, res);
	p9_finish(req, MIN(res, 0), sizeof(struct p9_rwrite));
}

/*
 * Set-id bits go with what anyone but root writes (D33): a guest that writes past its cache leaves that to us. Data of which
 * not all is in the message is none.
 */
int p9_file_write(struct p9_call *c)
{
	struct p9_req *req = c->req;
	struct iovec *iov = req->rd;
	struct p9_twrite in;
	unsigned n;
	int r;

	if (c->fid->xattr)
		return p9_xattr_write(c);
	cursor_get(&c->in, &in, sizeof(in));
	if (le32_get(in.count) > c->in.left)
		return -EINVAL;
	r = c->fid->uid && c->fid->writes ? share_kill_priv(c->fid->file) : 0;
	if (r)
		return r;
	n = iov_cut(&iov, req->nrd, P9_HEADER + sizeof(in), le32_get(in.count));
	req->out.op.done = write_done;
	r = share_writev(c->fid->file, req->io, &req->out.op, iov, n, le64_get(in.offset));
	if (r == -EINPROGRESS)
		return p9_pend(c);
	if (r < 0)
		return r;
	count_put(&c->out, r);
	return 0;
}

/* ---- to the disk ---- */

static void sync_done(struct io_op *op, int res)
{
	p9_finish(req_of(op), res, 0);
}

/* Directories too (E21). */
int p9_file_fsync(struct p9_call *c)
{
	struct p9_req *req = c->req;
	struct p9_tfsync in;
	bool data_only = false;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	if (c->in.left >= sizeof(le32))
		data_only = p9_get_u32(&c->in);
	req->out.op.done = sync_done;
	r = share_fsync(c->fid->file, req->io, &req->out.op, data_only);
	return r == -EINPROGRESS ? p9_pend(c) : r;
}
