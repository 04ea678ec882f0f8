// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_lock.c - locks that hold on the host, where the share is so configured.
 *
 * Otherwise the guest keeps its locks itself and nothing of this is agreed on (hard case D50). A lock that is waited for
 * holds its request, not a thread: the share calls back when it is there, when it is interrupted, or when the session
 * ends. Under the session lock, but for the call back. Protocol: linux/fuse.h, GETLK, SETLK, SETLKW, INTERRUPT. Calls:
 * share.h, fuse_handle.c.
 */
#include "fuse_int.h"
#include <fcntl.h>

/* ---- requests that wait ---- */

static void waiting_add(struct fuse *f, struct fuse_req *req)
{
	req->out.lock.next = f->waiting;
	req->out.lock.link = &f->waiting;
	if (f->waiting)
		f->waiting->out.lock.link = &req->out.lock.next;
	f->waiting = req;
}

static void waiting_del(struct fuse_req *req)
{
	*req->out.lock.link = req->out.lock.next;
	if (req->out.lock.next)
		req->out.lock.next->out.lock.link = req->out.lock.link;
}

static void wait_done(struct share_wait *wait, int error)
{
	struct fuse_req *req = container_of(wait, struct fuse_req, out.lock.wait);

	fuse_lock(req->fuse);
	waiting_del(req);
	fuse_unlock(req->fuse);
	fuse_finish(req, error, 0);
}

/* It has no reply of its own. What does not wait any more, or never did, is answered or will be. */
int fuse_lock_interrupt(struct fuse_call *c)
{
	struct fuse_interrupt_in in;

	cursor_get(&c->in, &in, sizeof(in));
	for (struct fuse_req *req = c->f->waiting; req; req = req->out.lock.next)
		if (req->in.unique == in.unique) {
			share_lock_cancel(&req->out.lock.wait);
			return 0;
		}
	return 0;
}

/* ---- getting and setting ---- */

static int wire_lock(struct fuse_call *c, struct fuse_lk_in *in, struct share_lock *lock)
{
	if (!fuse_agreed(c->f, FUSE_POSIX_LOCKS))
		return -ENOSYS;
	cursor_get(&c->in, in, sizeof(*in));
	if (in->lk.type != F_RDLCK && in->lk.type != F_WRLCK && in->lk.type != F_UNLCK)
		return -EINVAL;
	if (in->lk.start > in->lk.end || in->lk.end > INT64_MAX)
		return -EINVAL;
	if (!fuse_handle_find(c->f, in->fh, c->inode))
		return -EBADF;
	*lock = (struct share_lock){
		.start = in->lk.start,
		.end = in->lk.end,
		.opening = in->fh,
		.type = (int)in->lk.type,
		.flock = in->lk_flags & FUSE_LK_FLOCK,
		.pid = in->lk.pid,
	};
	return 0;
}

int fuse_lock_get(struct fuse_call *c)
{
	struct share_lock lock;
	struct fuse_lk_out o;
	struct fuse_lk_in in;
	int r = wire_lock(c, &in, &lock);

	if (!r && (lock.flock || lock.type == F_UNLCK))
		r = -EINVAL;
	if (!r)
		r = share_getlk(c->inode, in.owner, &lock);
	if (r)
		return r;
	o.lk = (struct fuse_file_lock){
		.start = lock.start, .end = lock.end, .type = (uint32_t)lock.type, .pid = lock.pid};
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

int fuse_lock_set(struct fuse_call *c)
{
	struct share_lock lock;
	struct fuse_lk_in in;
	int r = wire_lock(c, &in, &lock);

	return r ? r : share_setlk(c->inode, in.owner, &lock, c->req->io, NULL);
}

int fuse_lock_wait(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	struct share_lock lock;
	struct fuse_lk_in in;
	int r = wire_lock(c, &in, &lock);

	if (r)
		return r;
	req->out.lock.wait = (struct share_wait){.done = wait_done};
	r = share_setlk(c->inode, in.owner, &lock, req->io, &req->out.lock.wait);
	if (r != -EINPROGRESS)
		return r;
	waiting_add(c->f, req);
	req->inode = share_get(c->inode);
	return fuse_pend(c);
}
