// SPDX-License-Identifier: Apache-2.0
/*
 * fuse.c - the FUSE server: the table of opcodes and the dispatcher.
 *
 * Read the table ops[] first: a row per opcode says how long its body is at least, how long its reply, what must be
 * known before its handler runs, and who that is. The dispatcher copies and checks the header, finds node and handle,
 * and writes every reply header and every error. Everything but FORGET and INTERRUPT gets a reply (hard case D2), and
 * its length is what was really written (A11). Protocol: linux/fuse.h. On any thread that serves; what the session lock
 * is held over is decided here. Calls: cursor.h, fuse_node.c, fuse_handle.c, fuse_kept.c, the handlers.
 */
#include "fuse_int.h"
#include "wire.h"
#include <assert.h>

#define PAGE 4096u

/* ---- life ---- */

/* What each cache mode means in time, where the configuration does not say (D51). */
static const struct fuse_config modes[] = {
	[FUSE_CACHE_NEVER] = {.entry_ttl_ms = 0, .attr_ttl_ms = 0, .negative_ttl_ms = 0},
	[FUSE_CACHE_AUTO] = {.entry_ttl_ms = 1000, .attr_ttl_ms = 1000, .negative_ttl_ms = 0},
	[FUSE_CACHE_ALWAYS] = {.entry_ttl_ms = 86400000,
			       .attr_ttl_ms = 86400000,
			       .negative_ttl_ms = 86400000},
};

static struct fuse_ttl ttl(uint32_t configured, uint32_t mode)
{
	const uint32_t ms = configured == UINT32_MAX ? mode : configured;

	return (struct fuse_ttl){.sec = ms / 1000, .nsec = ms % 1000 * 1000000};
}

/* Files that are kept for a guest that does not say when it opens: a part of the share's descriptors. */
#define KEPT_MAX 1024u

static size_t kept_max(uint32_t budget)
{
	return budget ? MIN(KEPT_MAX, budget / 4 + 1) : KEPT_MAX;
}

int fuse_create(struct fuse **out, struct share *share, struct dax *dax,
		const struct fuse_config *cfg, uint32_t max_io, bool shared)
{
	const struct fuse_config *mode = &modes[cfg->cache];
	struct fuse *f = calloc(1, sizeof(*f));

	assert(max_io && max_io % PAGE == 0 && max_io / PAGE <= UINT16_MAX);
	if (!f)
		return -ENOMEM;
	f->share = share;
	f->dax = dax;
	f->mode = share_config(share);
	f->cfg = *cfg;
	f->max_io = max_io;
	f->shared = shared;
	f->entry_ttl = ttl(cfg->entry_ttl_ms, mode->entry_ttl_ms);
	f->attr_ttl = ttl(cfg->attr_ttl_ms, mode->attr_ttl_ms);
	f->negative_ttl = ttl(cfg->negative_ttl_ms, mode->negative_ttl_ms);
	f->kept_max = kept_max(f->mode->fd_budget);
	f->passes = f->mode->owner == SHARE_OWNER_PASSTHROUGH ||
		    (f->mode->owner == SHARE_OWNER_AUTO && share_owner_passes());
	f->opens_all = f->mode->owner == SHARE_OWNER_MAPPED || share_owner_passes();
	pthread_mutex_init(&f->lock, NULL);
	fuse_session_init(f, share_root(share));
	*out = f;
	return 0;
}

void fuse_destroy(struct fuse *f)
{
	if (!f)
		return;
	fuse_session_fini(f);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* ---- the table ---- */

enum {
	NODE = 1,     /* the header's node must be known */
	ANYTIME = 2,  /* also before INIT */
	NO_REPLY = 4, /* the protocol has none (D1) */
	/* The body begins with the handle of a file, or of a directory, that must be open on the node. */
	ON_FILE = 8,
	ON_DIR = 16,
	READS = 32, /* of the file */
	WRITES = 64,
	BESIDE = 128, /* other threads may use the session meanwhile */
};

#define IN(type)  sizeof(struct fuse_##type##_in)
#define OUT(type) sizeof(struct fuse_##type##_out)
#define NAME      2 /* the shortest, with its NUL */

#define SERVE(f, b, r, fl)                                       \
	{                                                        \
		.fn = (f), .body = (b), .room = (r), .flags = fl \
	}
/* Refused on purpose, with ENOSYS. The guest then does without, once and for all. */
#define REFUSE(reason)        \
	{                     \
		.why = reason \
	}

static const struct op {
	int (*fn)(struct fuse_call *);
	uint16_t body, room; /* least bytes: of the request after its header, of a good reply */
	uint8_t flags;
	const char *why;
} ops[] = {
	[FUSE_LOOKUP] = SERVE(fuse_name_lookup, NAME, OUT(entry), NODE),
	[FUSE_FORGET] = SERVE(fuse_name_forget, IN(forget), 0, NO_REPLY),
	[FUSE_GETATTR] = SERVE(fuse_attr_get, IN(getattr), OUT(attr), NODE),
	[FUSE_SETATTR] = SERVE(fuse_attr_set, IN(setattr), OUT(attr), NODE),
	[FUSE_READLINK] = SERVE(fuse_name_readlink, 0, 0, NODE),
	[FUSE_SYMLINK] = SERVE(fuse_name_symlink, NAME + 1, OUT(entry), NODE),
	[FUSE_MKNOD] = SERVE(fuse_name_mknod, IN(mknod) + NAME, OUT(entry), NODE),
	[FUSE_MKDIR] = SERVE(fuse_name_mkdir, IN(mkdir) + NAME, OUT(entry), NODE),
	[FUSE_UNLINK] = SERVE(fuse_name_unlink, NAME, 0, NODE),
	[FUSE_RMDIR] = SERVE(fuse_name_rmdir, NAME, 0, NODE),
	[FUSE_RENAME] = SERVE(fuse_name_rename, IN(rename) + NAME + NAME, 0, NODE),
	[FUSE_LINK] = SERVE(fuse_name_link, IN(link) + NAME, OUT(entry), NODE),
	[FUSE_OPEN] = SERVE(fuse_file_open, IN(open), OUT(open), NODE),
	[FUSE_READ] = SERVE(fuse_data_read, IN(read), 0, NODE | ON_FILE | READS | BESIDE),
	[FUSE_WRITE] =
		SERVE(fuse_data_write, IN(write), OUT(write), NODE | ON_FILE | WRITES | BESIDE),
	[FUSE_STATFS] = SERVE(fuse_attr_statfs, 0, OUT(statfs), NODE),
	[FUSE_RELEASE] = SERVE(fuse_file_release, IN(release), 0, 0),
	[FUSE_FSYNC] = SERVE(fuse_data_fsync, IN(fsync), 0, NODE | ON_FILE | BESIDE),
	[FUSE_SETXATTR] = SERVE(fuse_xattr_set, FUSE_COMPAT_SETXATTR_IN_SIZE + NAME, 0, NODE),
	[FUSE_GETXATTR] = SERVE(fuse_xattr_get, IN(getxattr) + NAME, 0, NODE),
	[FUSE_LISTXATTR] = SERVE(fuse_xattr_list, IN(getxattr), 0, NODE),
	[FUSE_REMOVEXATTR] = SERVE(fuse_xattr_remove, NAME, 0, NODE),
	[FUSE_FLUSH] = SERVE(fuse_file_flush, IN(flush), 0, NODE),
	[FUSE_INIT] =
		SERVE(fuse_init_open, offsetof(struct fuse_init_in, flags2), OUT(init), ANYTIME),
	[FUSE_OPENDIR] = SERVE(fuse_dir_open, IN(open), OUT(open), NODE),
	[FUSE_READDIR] = SERVE(fuse_dir_read, IN(read), 0, NODE | ON_DIR),
	[FUSE_RELEASEDIR] = SERVE(fuse_file_release_dir, IN(release), 0, 0),
	[FUSE_FSYNCDIR] = SERVE(fuse_data_fsync, IN(fsync), 0, NODE | ON_DIR | BESIDE),
	[FUSE_GETLK] = SERVE(fuse_lock_get, IN(lk), OUT(lk), NODE),
	[FUSE_SETLK] = SERVE(fuse_lock_set, IN(lk), 0, NODE),
	[FUSE_SETLKW] = SERVE(fuse_lock_wait, IN(lk), 0, NODE),
	[FUSE_ACCESS] = REFUSE("virtio-fs mounts check permissions in the guest"),
	[FUSE_CREATE] = SERVE(fuse_file_create, IN(create) + NAME, OUT(entry) + OUT(open), NODE),
	[FUSE_INTERRUPT] = SERVE(fuse_lock_interrupt, IN(interrupt), 0, NO_REPLY),
	[FUSE_BMAP] = REFUSE("there is no block device below"),
	[FUSE_DESTROY] = SERVE(fuse_init_close, 0, 0, ANYTIME),
	[FUSE_IOCTL] = SERVE(fuse_attr_ioctl, IN(ioctl), OUT(ioctl), NODE),
	[FUSE_POLL] = REFUSE("files are always ready, which is what the guest takes this for"),
	[FUSE_NOTIFY_REPLY] = REFUSE("no notification that asks for data is sent"),
	[FUSE_BATCH_FORGET] = SERVE(fuse_name_batch_forget, IN(batch_forget), 0, NO_REPLY),
	[FUSE_FALLOCATE] =
		SERVE(fuse_data_fallocate, IN(fallocate), 0, NODE | ON_FILE | WRITES | BESIDE),
	[FUSE_READDIRPLUS] = SERVE(fuse_dir_read_plus, IN(read), 0, NODE | ON_DIR),
	[FUSE_RENAME2] = SERVE(fuse_name_rename2, IN(rename2) + NAME + NAME, 0, NODE),
	[FUSE_LSEEK] = SERVE(fuse_data_lseek, IN(lseek), OUT(lseek), NODE | ON_FILE | BESIDE),
	[FUSE_COPY_FILE_RANGE] =
		SERVE(fuse_data_copy, IN(copy_file_range), OUT(write), NODE | ON_FILE | READS),
	[FUSE_SETUPMAPPING] = SERVE(fuse_dax_map, IN(setupmapping), 0, NODE),
	[FUSE_REMOVEMAPPING] = SERVE(fuse_dax_unmap, IN(removemapping), 0, 0),
	[FUSE_SYNCFS] = SERVE(fuse_data_syncfs, IN(syncfs), 0, NODE),
	[FUSE_TMPFILE] = SERVE(fuse_file_tmpfile, IN(create) + NAME, OUT(entry) + OUT(open), NODE),
	[FUSE_STATX] = SERVE(fuse_attr_statx, IN(statx), OUT(statx), NODE),
	[FUSE_COPY_FILE_RANGE_64] = SERVE(fuse_data_copy, IN(copy_file_range), OUT(copy_file_range),
					  NODE | ON_FILE | READS),
};

/* ---- dispatch ---- */

/* Opcodes this version of the protocol does not have are refused like those that are left out. */
static const struct op *op_find(uint32_t opcode)
{
	static const struct op unknown = {0};

	return opcode < ARRAY_LEN(ops) ? &ops[opcode] : &unknown;
}

/* The table's bits are the kept files' in another place. */
static unsigned access_of(const struct op *op)
{
	return (op->flags & READS ? FUSE_READS : 0) | (op->flags & WRITES ? FUSE_WRITES : 0);
}

static int find_handle(struct fuse_call *c, const struct op *op)
{
	const bool untold = op->flags & ON_DIR ? c->f->no_opendir : c->f->no_open;
	uint64_t fh;
	int r = -EBADF;

	cursor_peek(&c->in, &fh, sizeof(fh));
	c->handle = fuse_handle_find(c->f, fh, c->inode);
	if (!c->handle && untold)
		r = fuse_kept_get(c->f, c->node, access_of(op), &c->handle);
	if (!c->handle)
		return r;
	c->handle->refs++;
	return 0;
}

static int prepare(struct fuse_call *c, const struct op *op)
{
	if (!c->f->ready && !(op->flags & ANYTIME))
		return -EIO; /* no session */
	if (!(op->flags & NODE))
		return 0;
	c->node = fuse_node_find(c->f, c->req->in.nodeid);
	if (!c->node)
		return -ESTALE;
	c->inode = c->node->inode;
	return op->flags & (ON_FILE | ON_DIR) ? find_handle(c, op) : 0;
}

/* As before the handler ran: no handler that may be begun again changes an iovec. */
rare static void begin_again(struct fuse_call *c)
{
	struct fuse_req *req = c->req;

	c->in = cursor_of(req->rd, req->nrd);
	cursor_skip(&c->in, sizeof(req->in));
	cursor_trim(&c->in, req->in.len - sizeof(req->in));
	c->out = fuse_room(req);
	c->cred = (struct cred){.uid = req->in.uid, .gid = req->in.gid};
	c->direct = 0;
}

/*
 * ENFILE is said before anything is done or counted: where files are kept for the guest, fewer are, and it is begun
 * again.
 */
static int serve_locked(struct fuse_call *c, const struct op *op)
{
	int r = op->fn(c);

	while (r == -ENFILE && fuse_kept_yield(c->f)) {
		begin_again(c);
		r = op->fn(c);
	}
	return r;
}

static int run(struct fuse_call *c, const struct op *op)
{
	int r;

	fuse_lock(c->f);
	r = prepare(c, op);
	if (!r && op->flags & BESIDE) {
		fuse_unlock(c->f);
		r = op->fn(c);
		fuse_lock(c->f);
	} else if (!r) {
		r = serve_locked(c, op);
	}
	if (c->handle)
		fuse_handle_put(c->f, c->handle);
	fuse_unlock(c->f);
	return r;
}

static int dispatch(struct fuse_call *c, const struct op *op)
{
	if (!op->fn)
		return -ENOSYS;
	/* Before anything is done or counted that could then not be told (A26, D9). */
	if (c->in.left < op->body || c->out.left < op->room)
		return -EINVAL;
	return run(c, op);
}

/* ---- replies ---- */

/* In one piece, nearly always, and then of one length. */
static void put_header(struct fuse_req *req, const struct fuse_out_header *h)
{
	const uint8_t *from = (const uint8_t *)h;

	if (req->nhead == 1) {
		memcpy(req->head->iov_base, h, sizeof(*h));
		return;
	}
	for (unsigned i = 0; i < req->nhead; i++) {
		memcpy(req->head[i].iov_base, from, req->head[i].iov_len);
		from += req->head[i].iov_len;
	}
}

static void reply(struct fuse_req *req, int error, uint32_t bytes)
{
	struct fuse_out_header h = {.len = (uint32_t)sizeof(h), .unique = req->in.unique};

	if (error)
		h.error = wire_error(error);
	else
		h.len += bytes;
	put_header(req, &h);
	req->reply(req, h.len);
}

int fuse_pend(struct fuse_call *c)
{
	c->req->handle = take_ptr(&c->handle);
	return FUSE_PENDING;
}

void fuse_finish(struct fuse_req *req, int error, uint32_t bytes)
{
	struct fuse *f = req->fuse;

	fuse_lock(f);
	if (req->handle)
		fuse_handle_put(f, req->handle);
	if (req->to)
		fuse_handle_put(f, req->to);
	if (req->inode)
		share_put(req->inode);
	fuse_unlock(f);
	reply(req, error, bytes);
}

/* ---- a request ---- */

/* Headers may lie in any number of pieces, or share one with what follows (A10). */
static int read_header(struct fuse_call *c)
{
	struct fuse_in_header *h = &c->req->in;

	cursor_get(&c->in, h, sizeof(*h));
	if (c->in.err || h->len < sizeof(*h) || h->len - sizeof(*h) > c->in.left)
		return -EPROTO;
	/* Overlapping buffers can make gigabytes of a few descriptors; no honest message is longer than this. */
	if (h->len > c->f->max_io + PAGE)
		return -EPROTO;
	/* What is behind the message in the buffer is not part of it. */
	cursor_trim(&c->in, h->len - sizeof(*h));
	c->cred.uid = h->uid;
	c->cred.gid = h->gid;
	return 0;
}

/* For the header of the reply, of which out is what follows. */
static int find_room(struct fuse_call *c)
{
	struct fuse_req *req = c->req;
	int r = cursor_iov(&c->out, sizeof(struct fuse_out_header), req->head,
			   ARRAY_LEN(req->head));

	if (r < 0)
		return r;
	req->nhead = (unsigned)r;
	return 0;
}

static int serve(struct fuse_call *c, const struct op *op)
{
	const bool silent = op->flags & NO_REPLY;
	size_t room;
	int r;

	if (!silent && find_room(c))
		return -EPROTO;
	room = c->out.left;
	r = dispatch(c, op);
	if (silent)
		c->req->reply(c->req, 0);
	if (silent || r == FUSE_PENDING)
		return 0;
	/* What has no fixed length may have found no room. */
	if (!r && c->out.err)
		r = -EINVAL;
	reply(c->req, r, (uint32_t)(room - c->out.left) + c->direct);
	return 0;
}

int fuse_serve(struct fuse *f, struct fuse_req *req)
{
	struct fuse_call c = {.f = f,
			      .req = req,
			      .in = cursor_of(req->rd, req->nrd),
			      .out = cursor_of(req->wr, req->nwr)};
	int r = read_header(&c);

	if (r)
		return r;
	req->fuse = f;
	req->handle = req->to = NULL;
	req->inode = NULL;
	return serve(&c, op_find(req->in.opcode));
}
