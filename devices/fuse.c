// SPDX-License-Identifier: Apache-2.0
/*
 * fuse.c - the FUSE server: the table of opcodes, the dispatcher, and the opening of a session.
 *
 * Read the table ops[] first: a row per opcode says how long its body is at least, how long its
 * reply, and who serves it. The dispatcher copies and checks the header, finds the node, and writes
 * every reply header and every error. Everything but FORGET gets a reply (hard case D2), and its
 * length is what was really written (A11). Protocol: linux/fuse.h. On one iothread; no locks.
 * Calls: cursor.h, fuse_node.c, the handlers in fuse_name.c, fuse_file.c, fuse_dir.c.
 */
#include "fuse_int.h"
#include <assert.h>

#define PAGE 4096u
/* Older guests have other struct sizes; none has virtio-fs, which came with 7.31. */
#define MINOR_MIN 23

/* ---- life ---- */

/* What each cache mode means in time, where the configuration does not say (D51). */
static const struct fuse_config modes[] = {
	[FUSE_CACHE_NEVER] = {.entry_ttl_ms = 0, .attr_ttl_ms = 0, .negative_ttl_ms = 0},
	[FUSE_CACHE_AUTO] = {.entry_ttl_ms = 1000, .attr_ttl_ms = 1000, .negative_ttl_ms = 0},
	[FUSE_CACHE_ALWAYS] = {.entry_ttl_ms = 86400000,
			       .attr_ttl_ms = 86400000,
			       .negative_ttl_ms = 86400000},
};

static uint32_t ttl(uint32_t configured, uint32_t mode)
{
	return configured == UINT32_MAX ? mode : configured;
}

int fuse_create(struct fuse **out, struct share *share, struct iothread *io,
		const struct fuse_config *cfg, uint32_t max_io)
{
	const struct fuse_config *mode = &modes[cfg->cache];
	struct fuse *f = calloc(1, sizeof(*f));

	assert(max_io && max_io % PAGE == 0 && max_io / PAGE <= UINT16_MAX);
	if (!f)
		return -ENOMEM;
	f->io = io;
	f->max_io = max_io;
	f->cfg = (struct fuse_config){.cache = cfg->cache,
				      .entry_ttl_ms = ttl(cfg->entry_ttl_ms, mode->entry_ttl_ms),
				      .attr_ttl_ms = ttl(cfg->attr_ttl_ms, mode->attr_ttl_ms),
				      .negative_ttl_ms =
					      ttl(cfg->negative_ttl_ms, mode->negative_ttl_ms)};
	fuse_session_init(f, share_root(share));
	*out = f;
	return 0;
}

void fuse_destroy(struct fuse *f)
{
	if (!f)
		return;
	fuse_session_fini(f);
	free(f);
}

/* ---- opening and closing a session ---- */

/* What is implemented, and nothing else: each bit moves a duty to us (D6). */
static uint32_t init_flags(const struct fuse *f)
{
	uint32_t flags = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ATOMIC_O_TRUNC |
			 FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO |
			 FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES;

	if (f->cfg.cache != FUSE_CACHE_NEVER)
		flags |= FUSE_AUTO_INVAL_DATA | FUSE_CACHE_SYMLINKS;
	return flags;
}

static void negotiate(struct fuse *f, const struct fuse_init_in *in, struct fuse_init_out *o)
{
	o->minor = MIN(in->minor, (uint32_t)FUSE_KERNEL_MINOR_VERSION);
	o->flags = in->flags & init_flags(f);
	o->max_readahead = in->max_readahead;
	o->max_write = f->max_io;
	o->max_pages = (uint16_t)(f->max_io / PAGE); /* of data; the headers are not in it (D7) */
	o->time_gran = 1;
	o->max_background = 64;
	o->congestion_threshold = 48;
	f->ready = true;
}

static int session_open(struct fuse_call *c)
{
	struct fuse_init_out o = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION};
	struct fuse_init_in in = {0};

	/* Guests before 7.36 send a shorter body. */
	cursor_get(&c->in, &in, MIN(sizeof(in), c->in.left));
	/* A guest that starts over has forgotten everything (D4). */
	fuse_reset(c->f);
	if (in.major < FUSE_KERNEL_VERSION ||
	    (in.major == FUSE_KERNEL_VERSION && in.minor < MINOR_MIN))
		return -EPROTO;
	/* One with a later major tries again with ours (D5). */
	if (in.major == FUSE_KERNEL_VERSION)
		negotiate(c->f, &in, &o);
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

static int session_close(struct fuse_call *c)
{
	fuse_reset(c->f);
	return 0;
}

/* ---- the table ---- */

enum {
	NODE = 1,     /* the header's node must be known */
	ANYTIME = 2,  /* also before INIT */
	NO_REPLY = 4, /* the protocol has none (D1) */
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
	[FUSE_GETATTR] = SERVE(fuse_name_getattr, IN(getattr), OUT(attr), NODE),
	[FUSE_SETATTR] = SERVE(fuse_name_setattr, IN(setattr), OUT(attr), NODE),
	[FUSE_READLINK] = SERVE(fuse_name_readlink, 0, 0, NODE),
	[FUSE_SYMLINK] = SERVE(fuse_name_symlink, NAME + 1, OUT(entry), NODE),
	[FUSE_MKNOD] = SERVE(fuse_name_mknod, IN(mknod) + NAME, OUT(entry), NODE),
	[FUSE_MKDIR] = SERVE(fuse_name_mkdir, IN(mkdir) + NAME, OUT(entry), NODE),
	[FUSE_UNLINK] = SERVE(fuse_name_unlink, NAME, 0, NODE),
	[FUSE_RMDIR] = SERVE(fuse_name_rmdir, NAME, 0, NODE),
	[FUSE_RENAME] = SERVE(fuse_name_rename, IN(rename) + NAME + NAME, 0, NODE),
	[FUSE_LINK] = SERVE(fuse_name_link, IN(link) + NAME, OUT(entry), NODE),
	[FUSE_OPEN] = SERVE(fuse_file_open, IN(open), OUT(open), NODE),
	[FUSE_READ] = SERVE(fuse_file_read, IN(read), 0, NODE),
	[FUSE_WRITE] = SERVE(fuse_file_write, IN(write), OUT(write), NODE),
	[FUSE_STATFS] = SERVE(fuse_name_statfs, 0, OUT(statfs), NODE),
	[FUSE_RELEASE] = SERVE(fuse_file_release, IN(release), 0, 0),
	[FUSE_FSYNC] = SERVE(fuse_file_fsync, IN(fsync), 0, NODE),
	[FUSE_SETXATTR] = REFUSE("extended attributes are not built yet"),
	[FUSE_GETXATTR] = REFUSE("extended attributes are not built yet"),
	[FUSE_LISTXATTR] = REFUSE("extended attributes are not built yet"),
	[FUSE_REMOVEXATTR] = REFUSE("extended attributes are not built yet"),
	[FUSE_FLUSH] = REFUSE("nothing is held back that close could write: one request less"),
	[FUSE_INIT] =
		SERVE(session_open, offsetof(struct fuse_init_in, flags2), OUT(init), ANYTIME),
	[FUSE_OPENDIR] = SERVE(fuse_dir_open, IN(open), OUT(open), NODE),
	[FUSE_READDIR] = SERVE(fuse_dir_read, IN(read), 0, NODE),
	[FUSE_RELEASEDIR] = SERVE(fuse_file_release, IN(release), 0, 0),
	[FUSE_FSYNCDIR] = SERVE(fuse_file_fsync, IN(fsync), 0, NODE),
	[FUSE_GETLK] = REFUSE("POSIX_LOCKS is not acknowledged: locks are the guest's own"),
	[FUSE_SETLK] = REFUSE("POSIX_LOCKS is not acknowledged: locks are the guest's own"),
	[FUSE_SETLKW] = REFUSE("POSIX_LOCKS is not acknowledged: locks are the guest's own"),
	[FUSE_ACCESS] = REFUSE("virtio-fs mounts check permissions in the guest"),
	[FUSE_CREATE] = SERVE(fuse_file_create, IN(create) + NAME, OUT(entry) + OUT(open), NODE),
	[FUSE_INTERRUPT] = REFUSE("virtio-fs guests send none: a request cannot overtake another"),
	[FUSE_BMAP] = REFUSE("there is no block device below"),
	[FUSE_DESTROY] = SERVE(session_close, 0, 0, ANYTIME),
	[FUSE_IOCTL] = SERVE(fuse_file_ioctl, 0, 0, NODE),
	[FUSE_POLL] = REFUSE("files are always ready, which is what the guest takes this for"),
	[FUSE_NOTIFY_REPLY] = REFUSE("no notification that asks for data is sent"),
	[FUSE_BATCH_FORGET] = SERVE(fuse_name_batch_forget, IN(batch_forget), 0, NO_REPLY),
	[FUSE_FALLOCATE] = SERVE(fuse_file_fallocate, IN(fallocate), 0, NODE),
	[FUSE_READDIRPLUS] = SERVE(fuse_dir_read_plus, IN(read), 0, NODE),
	[FUSE_RENAME2] = SERVE(fuse_name_rename2, IN(rename2) + NAME + NAME, 0, NODE),
	[FUSE_LSEEK] = SERVE(fuse_file_lseek, IN(lseek), OUT(lseek), NODE),
	[FUSE_COPY_FILE_RANGE] = REFUSE("not built yet: the guest copies by reading and writing"),
	[FUSE_SETUPMAPPING] = REFUSE("DAX is not built yet"),
	[FUSE_REMOVEMAPPING] = REFUSE("DAX is not built yet"),
	[FUSE_SYNCFS] = REFUSE("not built yet: fsync reaches the disk"),
	[FUSE_TMPFILE] = REFUSE("not built yet: programs create a file and unlink it"),
};

/* ---- dispatch ---- */

/* Opcodes this version of the protocol does not have are refused like those that are left out. */
static const struct op *op_find(uint32_t opcode)
{
	static const struct op unknown = {0};

	return opcode < ARRAY_LEN(ops) ? &ops[opcode] : &unknown;
}

static int dispatch(struct fuse_call *c, const struct op *op)
{
	struct fuse_node *n;

	if (!op->fn)
		return -ENOSYS;
	/* Before anything is done or counted that could then not be told (A26, D9). */
	if (c->in.left < op->body || c->out.left < op->room)
		return -EINVAL;
	if (!c->f->ready && !(op->flags & ANYTIME))
		return -EIO; /* no session */
	if (op->flags & NODE) {
		n = fuse_node_find(c->f, c->req->in.nodeid);
		if (!n)
			return -ESTALE;
		c->inode = n->inode;
	}
	return op->fn(c);
}

/* A Linux errno between -1 and -511 and never one that speaks of our own process (D3). */
static int wire_error(int r)
{
	if (r == -EMFILE)
		return -ENFILE;
	return r > -512 ? r : -EIO;
}

void fuse_reply(struct fuse_req *req, int error, uint32_t bytes)
{
	struct fuse_out_header h = {.len = (uint32_t)sizeof(h), .unique = req->in.unique};
	struct cursor out = cursor_of(req->head, req->nhead);

	if (error)
		h.error = wire_error(error);
	else
		h.len += bytes;
	cursor_put(&out, &h, sizeof(h));
	req->reply(req, h.len);
}

static void serve(struct fuse_call *c, const struct op *op)
{
	size_t room = c->out.left;
	int r = dispatch(c, op);

	if (r == FUSE_PENDING)
		return;
	/* What has no fixed length may have found no room. */
	if (!r && c->out.err)
		r = -EINVAL;
	fuse_reply(c->req, r, (uint32_t)(room - c->out.left) + c->direct);
}

int fuse_serve(struct fuse *f, struct fuse_req *req)
{
	struct fuse_call c = {.f = f,
			      .req = req,
			      .in = cursor_of(req->rd, req->nrd),
			      .out = cursor_of(req->wr, req->nwr)};
	const struct op *op;
	int r;

	/* Headers may lie in any number of pieces, or share one with what follows (A10). */
	cursor_get(&c.in, &req->in, sizeof(req->in));
	if (c.in.err || req->in.len < sizeof(req->in) || req->in.len - sizeof(req->in) > c.in.left)
		return -EPROTO;
	/* Overlapping buffers can make gigabytes of a few descriptors; no honest message is longer than this. */
	if (req->in.len > f->max_io + PAGE)
		return -EPROTO;
	/* What is behind the message in the buffer is not part of it. */
	c.in.left = req->in.len - sizeof(req->in);
	c.cred = (struct cred){.uid = req->in.uid, .gid = req->in.gid};
	op = op_find(req->in.opcode);
	if (op->flags & NO_REPLY) {
		dispatch(&c, op);
		req->reply(req, 0);
		return 0;
	}
	r = cursor_iov(&c.out, sizeof(struct fuse_out_header), req->head, ARRAY_LEN(req->head));
	if (r < 0)
		return -EPROTO;
	req->nhead = (unsigned)r;
	serve(&c, op);
	return 0;
}
