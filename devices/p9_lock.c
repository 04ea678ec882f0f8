// SPDX-License-Identifier: Apache-2.0
/*
 * p9_lock.c - record locks.
 *
 * A guest's kernel keeps its locks itself, and asks us too. Where the share leaves them to the guest, what it asks is
 * granted; else they are locks on the host. Who holds one is a process of a client; the protocol does not say whether by
 * fcntl() or flock(). One that is waited for parks the request, not a thread, but only for a while: as long as it is
 * parked nothing but death interrupts the guest's process, and one that is told BLOCKED asks again by itself (hard case
 * E22). On the thread that serves. Protocol: Tlock, Tgetlock. Calls: share.h, loop.h.
 */
#include "p9_int.h"
#include <fcntl.h>

#define PARKED_NS 1000000000ull
#define CLIENT_ID 256

/* ---- locks on the wire ---- */

static const int host_types[] = {
	[P9_LOCK_RDLCK] = F_RDLCK, [P9_LOCK_WRLCK] = F_WRLCK, [P9_LOCK_UNLCK] = F_UNLCK};

static uint8_t wire_type(int type)
{
	return type == F_RDLCK ? P9_LOCK_RDLCK : type == F_WRLCK ? P9_LOCK_WRLCK : P9_LOCK_UNLCK;
}

/* Two processes of one number are two if their clients are. The share wants one number: FNV-1a. */
static uint64_t owner_of(uint32_t process, const char *client)
{
	uint64_t h = 0xcbf29ce484222325;

	while (*client)
		h = (h ^ (uint8_t)*client++) * 0x100000001b3;
	return (h << 32 | h >> 32) ^ process;
}

/* A length of 0 is to whatever end. */
static int wire_lock(const struct p9_call *c, uint8_t type, uint64_t start, uint64_t length,
		     uint32_t process, struct share_lock *lock)
{
	if (type >= ARRAY_LEN(host_types))
		return -EINVAL;
	if (start > INT64_MAX || (length && length - 1 > INT64_MAX - start))
		return -EINVAL;
	*lock = (struct share_lock){
		.start = start,
		.end = length ? start + length - 1 : INT64_MAX,
		.opening = c->fid->fid,
		.type = host_types[type],
		.pid = process,
	};
	return 0;
}

static bool on_host(const struct p9_call *c)
{
	return share_config(c->p9->share)->locks == SHARE_LOCKS_HOST;
}

/* ---- setting ---- */

static void status_put(struct cursor *out, uint8_t status)
{
	const struct p9_rlock o = {status};

	cursor_put(out, &o, sizeof(o));
}

/* What a caller is told otherwise is an error that he knows: not the status, which loses the reason. */
static int told(struct cursor *out, int r)
{
	if (r && r != -EAGAIN)
		return r;
	status_put(out, r ? P9_LOCK_BLOCKED : P9_LOCK_SUCCESS);
	return 0;
}

static void wait_done(struct share_wait *wait, int error)
{
	struct p9_req *req = container_of(wait, struct p9_req, out.lock.wait);
	struct cursor out = p9_late_out(req);

	loop_timer_clear(req->io, &req->out.lock.limit);
	if (error == -EINTR && req->out.lock.given_up)
		error = -EAGAIN;
	p9_finish(req, told(&out, error), sizeof(struct p9_rlock));
}

static void limit_reached(struct loop_timer *timer)
{
	struct p9_req *req = container_of(timer, struct p9_req, out.lock.limit);

	req->out.lock.given_up = true;
	share_lock_cancel(&req->out.lock.wait);
}

void p9_lock_cancel(struct p9_req *req)
{
	if (req->type == P9_TLOCK)
		share_lock_cancel(&req->out.lock.wait);
}

/* A lock that came afterwards would be nobody's to give up. */
void p9_lock_leave(struct p9 *p9, const struct p9_fid *fid)
{
	for (struct p9_req *req = p9->inflight; req; req = req->next)
		if (req->fid == fid)
			p9_lock_cancel(req);
	share_unlock_opening(fid->inode, fid->fid);
}

static int set_on_host(struct p9_call *c, const struct p9_tlock *in, uint64_t owner)
{
	const bool waits = le32_get(in->flags) & P9_LOCK_BLOCK;
	struct p9_req *req = c->req;
	struct share_lock lock;
	int r = wire_lock(c, in->type, le64_get(in->start), le64_get(in->length),
			  le32_get(in->proc_id), &lock);

	if (r)
		return r;
	req->out.lock.wait = (struct share_wait){.done = wait_done};
	req->out.lock.limit = (struct loop_timer){.fn = limit_reached};
	req->out.lock.given_up = false;
	c->fid->locks = true;
	r = share_setlk(c->fid->inode, owner, &lock, req->io, waits ? &req->out.lock.wait : NULL);
	if (r != -EINPROGRESS)
		return told(&c->out, r);
	loop_timer_set(req->io, &req->out.lock.limit, PARKED_NS);
	return p9_pend(c);
}

int p9_lock_set(struct p9_call *c)
{
	char client[CLIENT_ID];
	struct p9_tlock in;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_string(&c->in, client, sizeof(client));
	if (r)
		return r;
	if (on_host(c))
		return set_on_host(c, &in, owner_of(le32_get(in.proc_id), client));
	status_put(&c->out, P9_LOCK_SUCCESS);
	return 0;
}

/* ---- asking ---- */

/* What is in the way, as Tgetlock has it; who holds it on the host has no client's name. */
static void lock_put(struct p9_call *c, const struct share_lock *lock, const char *client)
{
	const struct p9_rgetlock o = {
		.type = wire_type(lock->type),
		.start = le64_of(lock->start),
		.length = le64_of(lock->end == INT64_MAX ? 0 : lock->end - lock->start + 1),
		.proc_id = le32_of(lock->pid),
	};

	cursor_put(&c->out, &o, sizeof(o));
	p9_put_string(&c->out, client, strlen(client));
}

int p9_lock_get(struct p9_call *c)
{
	char client[CLIENT_ID];
	struct share_lock lock;
	struct p9_tgetlock in;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = p9_get_string(&c->in, client, sizeof(client));
	if (!r)
		r = wire_lock(c, in.type, le64_get(in.start), le64_get(in.length),
			      le32_get(in.proc_id), &lock);
	if (r)
		return r;
	/* Linux asks by this type, whichever lock it is about: any that is there is told. */
	if (lock.type == F_UNLCK)
		lock.type = F_WRLCK;
	if (on_host(c))
		r = share_getlk(c->fid->inode, owner_of(le32_get(in.proc_id), client), &lock);
	else
		lock.type = F_UNLCK;
	if (r)
		return r;
	lock_put(c, &lock, client);
	return 0;
}
