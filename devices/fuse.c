// SPDX-License-Identifier: Apache-2.0
/*
 * fuse.c - the FUSE server: dispatch, session (nodes, handles), and the meaning of each opcode.
 *
 * Read the table ops[] at the end first: a row per opcode says how long its body is at least and
 * who serves it. The dispatcher copies and checks the header, finds the node, and writes every
 * reply header and every error; a handler gets fields, makes one call of the share, and puts
 * fields. Node ids and handles are counters looked up in maps: the guest never holds a pointer of
 * ours, and none is used twice (hard cases D9, D13). Protocol: linux/fuse.h. On one iothread; no
 * locks. Calls: share.h, wire.h, cursor.h.
 */
#include "fuse.h"
#include "wire.h"
#include "../vmm/log.h"
#include "../vmm/map.h"
#include <assert.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/sysmacros.h>

#define PAGE 4096u
#define MINOR_MIN \
	23 /* older guests have other struct sizes; none has virtio-fs, which came with 7.31 */

/* An object the guest knows. */
struct node {
	uint64_t id, nlookup;
	struct share_inode *inode; /* one reference */
};

/* An open file; lives until it is released and no operation is on it. */
struct fuse_handle {
	uint64_t id;
	unsigned refs; /* one of the map, one of each operation in flight */
	struct share_file *file;
};

struct fuse {
	char name[32];
	struct share *share;    /* borrowed */
	struct iothread *io;    /* borrowed */
	struct fuse_config cfg; /* with the mode's numbers filled in */
	uint32_t max_io;
	bool ready; /* INIT is done */
	struct node root;
	struct map nodes, by_inode; /* id -> node; inode pointer -> the same node */
	struct map handles;
	uint64_t next_node, next_handle;
};

/* A request being served. */
struct call {
	struct fuse *f;
	struct fuse_req *req;
	struct cursor in, out; /* body; room after the reply's header */
	struct share_inode *inode;
	struct cred cred;
	uint32_t moved; /* bytes of the reply's body that did not go through out */
};

/* ---- nodes: exact lookup counts ---- */

static struct node *node_find(struct fuse *f, uint64_t id)
{
	return id == FUSE_ROOT_ID ? &f->root : map_get(&f->nodes, &id);
}

static void node_free(struct fuse *f, struct node *n)
{
	map_del(&f->nodes, &n->id);
	map_del(&f->by_inode, &n->inode);
	share_put(n->inode);
	free(n);
}

static struct node *node_new(struct fuse *f, struct share_inode *inode)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	*n = (struct node){.id = f->next_node++, .inode = inode};
	if (map_put(&f->nodes, &n->id, n))
		goto fail;
	if (map_put(&f->by_inode, &n->inode, n)) {
		map_del(&f->nodes, &n->id);
		goto fail;
	}
	return n;
fail:
	free(n);
	return NULL;
}

/* The guest learns of inode once more. Takes the reference over, also on failure. */
static int node_enter(struct fuse *f, struct share_inode *inode, uint64_t *id)
{
	struct node *n = inode == f->root.inode ? &f->root : map_get(&f->by_inode, &inode);

	if (n) {
		share_put(inode); /* the node holds one already */
	} else {
		n = node_new(f, inode);
		if (!n) {
			share_put(inode);
			return -ENOMEM;
		}
	}
	n->nlookup++;
	*id = n->id;
	return 0;
}

/* A count above what was given is a lie and means all; an unknown id means nothing; the root stays
 * (D1). */
static void node_forget(struct fuse *f, uint64_t id, uint64_t count)
{
	struct node *n = node_find(f, id);

	if (!n || n == &f->root)
		return;
	n->nlookup -= MIN(count, n->nlookup);
	if (!n->nlookup)
		node_free(f, n);
}

/* ---- handles ---- */

static void handle_put(struct fuse_handle *h)
{
	if (--h->refs)
		return;
	share_file_close(h->file);
	free(h);
}

/* Takes the file over, also on failure. */
static int handle_new(struct fuse *f, struct share_file *file, uint64_t *id)
{
	struct fuse_handle *h = calloc(1, sizeof(*h));

	if (!h) {
		share_file_close(file);
		return -ENOMEM;
	}
	*h = (struct fuse_handle){.id = f->next_handle++, .refs = 1, .file = file};
	if (map_put(&f->handles, &h->id, h)) {
		handle_put(h);
		return -ENOMEM;
	}
	*id = h->id;
	return 0;
}

static struct share_file *file_of(struct fuse *f, uint64_t id)
{
	struct fuse_handle *h = map_get(&f->handles, &id);

	return h ? h->file : NULL;
}

static void handle_release(struct fuse *f, uint64_t id)
{
	struct fuse_handle *h = map_del(&f->handles, &id);

	if (h)
		handle_put(h);
}

/* ---- session ---- */

void fuse_reset(struct fuse *f)
{
	const void *key;
	void *value;
	size_t i = 0;

	while (map_next(&f->handles, &i, &key, &value))
		handle_release(f, *(const uint64_t *)key);
	i = 0;
	while (map_next(&f->nodes, &i, &key, &value))
		node_free(f, value);
	f->root.nlookup = 0;
	f->ready = false;
}

void fuse_counts(const struct fuse *f, size_t *nodes, size_t *handles)
{
	*nodes = f->nodes.used;
	*handles = f->handles.used;
}

/* What each cache mode means in time, where the configuration does not say. */
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

int fuse_create(struct fuse **out, const char *name, struct share *share, struct iothread *io,
		const struct fuse_config *cfg, uint32_t max_io)
{
	const struct fuse_config *mode = &modes[cfg->cache];
	struct fuse *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->share = share;
	f->io = io;
	f->max_io = max_io;
	f->cfg = (struct fuse_config){.cache = cfg->cache,
				      .entry_ttl_ms = ttl(cfg->entry_ttl_ms, mode->entry_ttl_ms),
				      .attr_ttl_ms = ttl(cfg->attr_ttl_ms, mode->attr_ttl_ms),
				      .negative_ttl_ms =
					      ttl(cfg->negative_ttl_ms, mode->negative_ttl_ms)};
	strncpy(f->name, name, sizeof(f->name) - 1);
	map_init(&f->nodes, sizeof(uint64_t));
	map_init(&f->by_inode, sizeof(struct share_inode *));
	map_init(&f->handles, sizeof(uint64_t));
	f->root = (struct node){.id = FUSE_ROOT_ID, .inode = share_root(share)};
	f->next_node = FUSE_ROOT_ID + 1;
	f->next_handle = 1;
	*out = f;
	return 0;
}

void fuse_destroy(struct fuse *f)
{
	if (!f)
		return;
	fuse_reset(f);
	share_put(f->root.inode);
	map_fini(&f->nodes);
	map_fini(&f->by_inode);
	map_fini(&f->handles);
	free(f);
}

/* ---- replies ---- */

/* A Linux errno between -1 and -511 and never one that speaks of our own process (D3). */
static int wire_error(int r)
{
	if (r == -EMFILE)
		return -ENFILE;
	return r < 0 && r > -512 ? r : -EIO;
}

static void reply(struct fuse_req *req, int error, uint32_t bytes)
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

/* ---- Linux attributes as FUSE's ---- */

static uint32_t wire_rdev(uint32_t major_nr, uint32_t minor_nr)
{
	return (minor_nr & 0xff) | major_nr << 8 | (minor_nr & ~0xffu) << 12;
}

static void attr_fill(struct fuse_attr *a, const struct statx *st)
{
	*a = (struct fuse_attr){
		.ino = st->stx_ino,
		.size = st->stx_size,
		.blocks = st->stx_blocks,
		.atime = (uint64_t)st->stx_atime.tv_sec,
		.mtime = (uint64_t)st->stx_mtime.tv_sec,
		.ctime = (uint64_t)st->stx_ctime.tv_sec,
		.atimensec = st->stx_atime.tv_nsec,
		.mtimensec = st->stx_mtime.tv_nsec,
		.ctimensec = st->stx_ctime.tv_nsec,
		.mode = st->stx_mode,
		.nlink = st->stx_nlink,
		.uid = st->stx_uid,
		.gid = st->stx_gid,
		.rdev = wire_rdev(st->stx_rdev_major, st->stx_rdev_minor),
		.blksize = st->stx_blksize,
	};
}

static void ttl_split(uint32_t ms, uint64_t *sec, uint32_t *nsec)
{
	*sec = ms / 1000;
	*nsec = ms % 1000 * 1000000;
}

static int attr_put(struct call *c, const struct statx *st)
{
	struct fuse_attr_out o = {0};

	ttl_split(c->f->cfg.attr_ttl_ms, &o.attr_valid, &o.attr_valid_nsec);
	attr_fill(&o.attr, st);
	cursor_put(&c->out, &o, sizeof(o));
	return c->out.err ? -EINVAL : 0;
}

/* The entry of an object the guest learns of: takes the reference over and counts the lookup. */
static int entry_fill(struct fuse *f, struct share_inode *inode, const struct statx *st,
		      struct fuse_entry_out *e)
{
	*e = (struct fuse_entry_out){0};
	ttl_split(f->cfg.entry_ttl_ms, &e->entry_valid, &e->entry_valid_nsec);
	ttl_split(f->cfg.attr_ttl_ms, &e->attr_valid, &e->attr_valid_nsec);
	attr_fill(&e->attr, st);
	return node_enter(f, inode, &e->nodeid);
}

/* A reply that does not fit must not leave a lookup behind that the guest never saw (D9). */
static int entry_put(struct call *c, struct share_inode *inode, const struct statx *st)
{
	struct fuse_entry_out e;
	int r = entry_fill(c->f, inode, st, &e);

	if (r)
		return r;
	cursor_put(&c->out, &e, sizeof(e));
	if (!c->out.err)
		return 0;
	node_forget(c->f, e.nodeid, 1);
	return -EINVAL;
}

/* ---- opening and closing the session ---- */

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

static int do_init(struct call *c)
{
	struct fuse *f = c->f;
	struct fuse_init_in in = {0};
	struct fuse_init_out o = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION};

	/* Guests before 7.36 send a shorter body. */
	cursor_get(&c->in, &in, MIN(sizeof(in), c->in.left));
	fuse_reset(f); /* a guest that starts over has forgotten everything (D4) */
	if (in.major < FUSE_KERNEL_VERSION ||
	    (in.major == FUSE_KERNEL_VERSION && in.minor < MINOR_MIN))
		return -EPROTO;
	if (in.major == FUSE_KERNEL_VERSION) {
		o.minor = MIN(in.minor, (uint32_t)FUSE_KERNEL_MINOR_VERSION);
		o.flags = in.flags & init_flags(f);
		o.max_readahead = in.max_readahead;
		o.max_write = f->max_io;
		o.max_pages = (uint16_t)(f->max_io / PAGE);
		o.time_gran = 1;
		o.max_background = 64;
		o.congestion_threshold = 48;
		f->ready = true;
	} /* else it tries again with our major (D5) */
	cursor_put(&c->out, &o, sizeof(o));
	return c->out.err ? -EINVAL : 0;
}

static int do_destroy(struct call *c)
{
	fuse_reset(c->f);
	return 0;
}

/* ---- names and objects ---- */

static int do_lookup(struct call *c)
{
	struct fuse_entry_out none = {0};
	struct share_inode *inode = NULL;
	struct name name;
	struct statx st;
	int r = wire_name(&c->in, &name);

	if (!r)
		r = share_lookup(c->inode, &name, &inode, &st);
	if (!r)
		return entry_put(c, inode, &st);
	if (r != -ENOENT || !c->f->cfg.negative_ttl_ms)
		return r;
	/* Node id 0 with a time: the guest may remember that there is nothing (D11). */
	ttl_split(c->f->cfg.negative_ttl_ms, &none.entry_valid, &none.entry_valid_nsec);
	cursor_put(&c->out, &none, sizeof(none));
	return c->out.err ? -EINVAL : 0;
}

static int do_forget(struct call *c)
{
	struct fuse_forget_in in;

	cursor_get(&c->in, &in, sizeof(in));
	node_forget(c->f, c->req->in.nodeid, in.nlookup);
	return 0;
}

static int do_batch_forget(struct call *c)
{
	struct fuse_batch_forget_in in;
	struct fuse_forget_one one;

	cursor_get(&c->in, &in, sizeof(in));
	/* The message ends it, whatever the count says. */
	for (uint32_t i = 0; i < in.count && c->in.left >= sizeof(one); i++) {
		cursor_get(&c->in, &one, sizeof(one));
		node_forget(c->f, one.nodeid, one.nlookup);
	}
	return 0;
}

static int do_getattr(struct call *c)
{
	struct share_file *file = NULL;
	struct fuse_getattr_in in;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	if (in.getattr_flags & FUSE_GETATTR_FH)
		file = file_of(c->f, in.fh);
	r = share_getattr(c->inode, file, &st);
	return r ? r : attr_put(c, &st);
}

static struct timespec wire_time(uint32_t valid, uint32_t now_bit, uint64_t sec, uint32_t nsec)
{
	if (valid & now_bit)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	return (struct timespec){.tv_sec = (time_t)sec, .tv_nsec = nsec};
}

static const struct {
	uint32_t fuse;
	unsigned share;
} attr_bits[] = {
	{FATTR_MODE, SHARE_MODE}, {FATTR_UID, SHARE_UID},     {FATTR_GID, SHARE_GID},
	{FATTR_SIZE, SHARE_SIZE}, {FATTR_ATIME, SHARE_ATIME}, {FATTR_MTIME, SHARE_MTIME},
};

static int do_setattr(struct call *c)
{
	struct share_file *file = NULL;
	struct fuse_setattr_in in;
	struct share_attr attr;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	attr = (struct share_attr){
		.mode = in.mode,
		.uid = in.uid,
		.gid = in.gid,
		.size = in.size,
		.atime = wire_time(in.valid, FATTR_ATIME_NOW, in.atime, in.atimensec),
		.mtime = wire_time(in.valid, FATTR_MTIME_NOW, in.mtime, in.mtimensec)};
	for (unsigned i = 0; i < ARRAY_LEN(attr_bits); i++)
		if (in.valid & attr_bits[i].fuse)
			attr.mask |= attr_bits[i].share;
	if ((in.valid & FATTR_ATIME && !(in.valid & FATTR_ATIME_NOW) && in.atimensec > 999999999) ||
	    (in.valid & FATTR_MTIME && !(in.valid & FATTR_MTIME_NOW) && in.mtimensec > 999999999))
		return -EINVAL;
	if (in.valid & FATTR_FH)
		file = file_of(c->f, in.fh);
	r = share_setattr(c->inode, file, &attr, &st);
	return r ? r : attr_put(c, &st);
}

static int do_readlink(struct call *c)
{
	char target[PAGE];
	ssize_t n = share_readlink(c->inode, target, sizeof(target));

	if (n < 0)
		return (int)n;
	cursor_put(&c->out, target, (size_t)n);
	return c->out.err ? -EINVAL : 0;
}

static int do_symlink(struct call *c)
{
	struct share_inode *inode = NULL;
	char target[PAGE];
	struct name name;
	struct statx st;
	int r = wire_name(&c->in, &name);

	if (!r)
		r = wire_cstr(&c->in, target, sizeof(target));
	if (r < 0)
		return r;
	if (!r)
		return -ENOENT; /* an empty target */
	r = share_symlink(c->inode, &name, target, &c->cred, &inode, &st);
	return r ? r : entry_put(c, inode, &st);
}

static int do_mknod(struct call *c)
{
	struct share_inode *inode = NULL;
	struct fuse_mknod_in in;
	struct name name;
	struct statx st;
	dev_t dev;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_name(&c->in, &name);
	if (r)
		return r;
	dev = makedev(in.rdev >> 8 & 0xfff, (in.rdev & 0xff) | (in.rdev >> 12 & 0xfff00));
	r = share_mknod(c->inode, &name, in.mode, dev, &c->cred, &inode, &st);
	return r ? r : entry_put(c, inode, &st);
}

static int do_mkdir(struct call *c)
{
	struct share_inode *inode = NULL;
	struct fuse_mkdir_in in;
	struct name name;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = wire_name(&c->in, &name);
	if (!r)
		r = share_mkdir(c->inode, &name, in.mode, &c->cred, &inode, &st);
	return r ? r : entry_put(c, inode, &st);
}

static int unlink_flags(struct call *c, int flags)
{
	struct name name;
	int r = wire_name(&c->in, &name);

	return r ? r : share_unlink(c->inode, &name, flags);
}

static int do_unlink(struct call *c)
{
	return unlink_flags(c, 0);
}

static int do_rmdir(struct call *c)
{
	return unlink_flags(c, AT_REMOVEDIR);
}

static int rename_to(struct call *c, uint64_t newdir, uint32_t flags)
{
	struct node *to = node_find(c->f, newdir);
	struct name from, name;
	int r = wire_name(&c->in, &from);

	if (!r)
		r = wire_name(&c->in, &name);
	if (r)
		return r;
	if (!to)
		return -ESTALE;
	return share_rename(c->inode, &from, to->inode, &name, flags);
}

static int do_rename(struct call *c)
{
	struct fuse_rename_in in;

	cursor_get(&c->in, &in, sizeof(in));
	return rename_to(c, in.newdir, 0);
}

static int do_rename2(struct call *c)
{
	struct fuse_rename2_in in;

	cursor_get(&c->in, &in, sizeof(in));
	return rename_to(c, in.newdir, in.flags);
}

static int do_link(struct call *c)
{
	struct fuse_link_in in;
	struct node *from;
	struct name name;
	struct statx st;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	from = node_find(c->f, in.oldnodeid);
	if (!from)
		return -ESTALE;
	r = wire_name(&c->in, &name);
	if (!r)
		r = share_link(from->inode, c->inode, &name, &st);
	return r ? r : entry_put(c, share_get(from->inode), &st);
}

static int do_statfs(struct call *c)
{
	struct fuse_statfs_out o = {0};
	struct statfs s;
	int r = share_statfs(c->inode, &s);

	if (r)
		return r;
	o.st = (struct fuse_kstatfs){.blocks = s.f_blocks,
				     .bfree = s.f_bfree,
				     .bavail = s.f_bavail,
				     .files = s.f_files,
				     .ffree = s.f_ffree,
				     .bsize = (uint32_t)s.f_bsize,
				     .namelen = (uint32_t)s.f_namelen,
				     .frsize = (uint32_t)s.f_frsize};
	cursor_put(&c->out, &o, sizeof(o));
	return c->out.err ? -EINVAL : 0;
}

/* ---- open files ---- */

/* The handle of an opened file into the reply; takes the file over. */
static int open_put(struct call *c, struct share_file *file, uint32_t open_flags)
{
	struct fuse_open_out o = {.open_flags = open_flags};
	int r = handle_new(c->f, file, &o.fh);

	if (r)
		return r;
	cursor_put(&c->out, &o, sizeof(o));
	if (!c->out.err)
		return 0;
	handle_release(c->f, o.fh);
	return -EINVAL;
}

/* never: nothing stays in the guest's page cache. always: it stays over close and open. auto: open
 * looks again. */
static uint32_t file_flags(const struct fuse *f)
{
	static const uint32_t flags[] = {
		[FUSE_CACHE_NEVER] = FOPEN_DIRECT_IO, [FUSE_CACHE_ALWAYS] = FOPEN_KEEP_CACHE};

	return flags[f->cfg.cache];
}

static int do_open(struct call *c)
{
	struct share_file *file = NULL;
	struct fuse_open_in in;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	r = share_open_inode(c->inode, (int)(in.flags & ~(uint32_t)O_DIRECTORY), &file);
	return r ? r : open_put(c, file, file_flags(c->f));
}

static int do_opendir(struct call *c)
{
	struct share_file *file = NULL;
	uint32_t flags =
		c->f->cfg.cache == FUSE_CACHE_ALWAYS ? FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR : 0;
	int r = share_open_inode(c->inode, O_RDONLY | O_DIRECTORY, &file);

	return r ? r : open_put(c, file, flags);
}

static int do_create(struct call *c)
{
	struct share_inode *inode = NULL;
	struct fuse_entry_out e;
	struct share_file *file = NULL;
	struct fuse_create_in in;
	struct name name;
	struct statx st;
	int r;

	if (c->out.left < sizeof(e) + sizeof(struct fuse_open_out))
		return -EINVAL; /* before anything was made */
	cursor_get(&c->in, &in, sizeof(in));
	r = wire_name(&c->in, &name);
	if (!r)
		r = share_create(c->inode, &name, (int)in.flags, in.mode, &c->cred, &inode, &file,
				 &st);
	if (r)
		return r;
	r = entry_fill(c->f, inode, &st, &e);
	if (r) {
		share_file_close(file);
		return r;
	}
	cursor_put(&c->out, &e, sizeof(e));
	r = open_put(c, file, file_flags(c->f));
	if (r)
		node_forget(c->f, e.nodeid, 1);
	return r;
}

static int do_release(struct call *c)
{
	struct fuse_release_in in;

	cursor_get(&c->in, &in, sizeof(in));
	handle_release(c->f, in.fh);
	return 0;
}

/* ---- data: straight between the file and the guest's own buffers ---- */

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

/* Gives the request its file for as long as the operation is out. */
static struct share_file *hold(struct call *c, uint64_t fh)
{
	struct fuse_handle *h = map_get(&c->f->handles, &fh);

	if (!h)
		return NULL;
	h->refs++;
	c->req->handle = h;
	return h->file;
}

static void let_go(struct fuse_req *req)
{
	if (req->handle)
		handle_put(req->handle);
	req->handle = NULL;
}

static void read_done(struct io_op *op, int res)
{
	struct fuse_req *req = container_of(op, struct fuse_req, op);

	let_go(req);
	reply(req, MIN(res, 0), (uint32_t)MAX(res, 0));
}

static int do_read(struct call *c)
{
	struct fuse_req *req = c->req;
	struct iovec *iov = req->wr;
	struct share_file *file = NULL;
	struct fuse_read_in in;
	uint32_t size;
	unsigned n;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	file = hold(c, in.fh);
	if (!file)
		return -EBADF;
	size = MIN(in.size, (uint32_t)c->out.left);
	n = iov_cut(&iov, req->nwr, sizeof(struct fuse_out_header), size);
	req->op.done = read_done;
	r = share_readv(file, c->f->io, &req->op, iov, n, in.offset);
	if (r == -EINPROGRESS)
		return r;
	let_go(req);
	if (r > 0)
		c->moved = (uint32_t)r;
	return MIN(r, 0);
}

static int write_put(struct fuse_req *req, int res)
{
	struct fuse_write_out o = {.size = (uint32_t)MAX(res, 0)};
	struct cursor out = cursor_of(req->wr, req->nwr);

	if (res < 0)
		return res;
	cursor_skip(&out, sizeof(struct fuse_out_header));
	cursor_put(&out, &o, sizeof(o));
	return out.err ? -EINVAL : 0;
}

static void write_done(struct io_op *op, int res)
{
	struct fuse_req *req = container_of(op, struct fuse_req, op);
	int error;

	let_go(req);
	error = write_put(req, res);
	reply(req, error, sizeof(struct fuse_write_out));
}

static int do_write(struct call *c)
{
	struct fuse_req *req = c->req;
	struct iovec *iov = req->rd;
	struct share_file *file = NULL;
	struct fuse_write_in in;
	unsigned n;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	if (in.size != c->in.left || in.size > c->f->max_io ||
	    c->out.left < sizeof(struct fuse_write_out))
		return -EINVAL;
	file = hold(c, in.fh);
	if (!file)
		return -EBADF;
	n = iov_cut(&iov, req->nrd, sizeof(struct fuse_in_header) + sizeof(in), in.size);
	req->op.done = write_done;
	r = share_writev(file, c->f->io, &req->op, iov, n, in.offset);
	if (r == -EINPROGRESS)
		return r;
	let_go(req);
	c->moved = sizeof(struct fuse_write_out);
	return write_put(req, r);
}

static void fsync_done(struct io_op *op, int res)
{
	struct fuse_req *req = container_of(op, struct fuse_req, op);

	let_go(req);
	reply(req, MIN(res, 0), 0);
}

/* Directories too: dpkg and databases do it (D49). */
static int do_fsync(struct call *c)
{
	struct share_file *file = NULL;
	struct fuse_fsync_in in;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	file = hold(c, in.fh);
	if (!file)
		return -EBADF;
	c->req->op.done = fsync_done;
	r = share_fsync(file, c->f->io, &c->req->op, in.fsync_flags & FUSE_FSYNC_FDATASYNC);
	if (r != -EINPROGRESS)
		let_go(c->req);
	return r;
}

/* Nothing is held back here that close(2) could still write or fail on. */
static int do_flush(struct call *c)
{
	struct fuse_flush_in in;

	cursor_get(&c->in, &in, sizeof(in));
	return file_of(c->f, in.fh) ? 0 : -EBADF;
}

static int do_fallocate(struct call *c)
{
	struct fuse_fallocate_in in;
	struct share_file *file = NULL;

	cursor_get(&c->in, &in, sizeof(in));
	file = file_of(c->f, in.fh);
	return file ? share_fallocate(file, (int)in.mode, in.offset, in.length) : -EBADF;
}

static int do_lseek(struct call *c)
{
	struct fuse_lseek_out o = {0};
	struct fuse_lseek_in in;
	struct share_file *file = NULL;
	int64_t r;

	cursor_get(&c->in, &in, sizeof(in));
	file = file_of(c->f, in.fh);
	if (!file)
		return -EBADF;
	r = share_lseek(file, in.offset, (int)in.whence);
	if (r < 0)
		return (int)r;
	o.offset = (uint64_t)r;
	cursor_put(&c->out, &o, sizeof(o));
	return c->out.err ? -EINVAL : 0;
}

/* ENOSYS would break overlayfs above the share; ENOTTY is "no such control here" (D45). */
static int do_ioctl(struct call *c)
{
	(void)c;
	return -ENOTTY;
}

/* ---- directories ---- */

struct listing {
	struct call *c;
	struct cursor out; /* what the guest asked for and has room for */
	bool plus;
	unsigned n;
};

static bool put_dirent(struct listing *l, const struct share_dirent *d)
{
	static const char zeros[sizeof(uint64_t)];
	struct fuse_dirent de = {
		.ino = d->ino, .off = d->next, .namelen = (uint32_t)d->len, .type = d->type};
	size_t pad = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + d->len) - FUSE_NAME_OFFSET - d->len;

	cursor_put(&l->out, &de, FUSE_NAME_OFFSET);
	cursor_put(&l->out, d->name, d->len);
	cursor_put(&l->out, zeros, pad);
	l->n++;
	return true;
}

/* Gone since it was listed: false. Anything else that fails is listed without attributes (D19). */
static bool plus_entry(struct listing *l, const struct share_dirent *d, struct fuse_entry_out *e)
{
	struct share_inode *inode = NULL;
	struct name name;
	struct statx st;
	int r = name_check(&name, d->name, d->len);

	*e = (struct fuse_entry_out){0};
	if (r)
		return true; /* "." and ".." are not looked up and not counted (D20) */
	r = share_lookup(l->c->inode, &name, &inode, &st);
	if (r)
		return r != -ENOENT;
	if (entry_fill(l->c->f, inode, &st, e))
		*e = (struct fuse_entry_out){0};
	return true;
}

static bool list_entry(void *ctx, const struct share_dirent *d)
{
	struct listing *l = ctx;
	size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + d->len);
	struct fuse_entry_out e;

	/* Room first, or a lookup would be counted that the guest never sees (D9). */
	if (size + (l->plus ? sizeof(e) : 0) > l->out.left)
		return false;
	if (l->plus && !plus_entry(l, d, &e))
		return true;
	if (l->plus)
		cursor_put(&l->out, &e, sizeof(e));
	return put_dirent(l, d);
}

static int list(struct call *c, bool plus)
{
	struct listing l = {.c = c, .plus = plus};
	struct share_file *file = NULL;
	struct fuse_read_in in;
	size_t room;
	int r;

	cursor_get(&c->in, &in, sizeof(in));
	file = file_of(c->f, in.fh);
	if (!file)
		return -EBADF;
	if (share_file_inode(file) != c->inode)
		return -EBADF; /* entries would be looked up under another directory */
	room = MIN((size_t)in.size, c->out.left);
	l.out = cursor_split(&c->out, room);
	r = share_readdir(file, in.offset, list_entry, &l);
	c->moved = (uint32_t)(room - l.out.left);
	return r;
}

static int do_readdir(struct call *c)
{
	return list(c, false);
}

static int do_readdirplus(struct call *c)
{
	return list(c, true);
}

/* ---- dispatch ---- */

enum {
	NODE = 1,     /* the header's node must be known */
	ANYTIME = 2,  /* also before INIT */
	NO_REPLY = 4, /* the protocol has none (D1) */
};

/* why: an opcode that is refused on purpose. The guest then does without, once and for all. */
#define SERVE(f, m, fl)                              \
	{                                            \
		.fn = (f), .min = (m), .flags = (fl) \
	}
#define REFUSE(reason)        \
	{                     \
		.why = reason \
	}
static const struct op {
	int (*fn)(struct call *);
	uint16_t min; /* bytes of body */
	uint8_t flags;
	const char *why;
} ops[] = {
	[FUSE_LOOKUP] = SERVE(do_lookup, 2, NODE),
	[FUSE_FORGET] = SERVE(do_forget, sizeof(struct fuse_forget_in), NO_REPLY),
	[FUSE_GETATTR] = SERVE(do_getattr, sizeof(struct fuse_getattr_in), NODE),
	[FUSE_SETATTR] = SERVE(do_setattr, sizeof(struct fuse_setattr_in), NODE),
	[FUSE_READLINK] = SERVE(do_readlink, 0, NODE),
	[FUSE_SYMLINK] = SERVE(do_symlink, 3, NODE),
	[FUSE_MKNOD] = SERVE(do_mknod, sizeof(struct fuse_mknod_in) + 2, NODE),
	[FUSE_MKDIR] = SERVE(do_mkdir, sizeof(struct fuse_mkdir_in) + 2, NODE),
	[FUSE_UNLINK] = SERVE(do_unlink, 2, NODE),
	[FUSE_RMDIR] = SERVE(do_rmdir, 2, NODE),
	[FUSE_RENAME] = SERVE(do_rename, sizeof(struct fuse_rename_in) + 4, NODE),
	[FUSE_LINK] = SERVE(do_link, sizeof(struct fuse_link_in) + 2, NODE),
	[FUSE_OPEN] = SERVE(do_open, sizeof(struct fuse_open_in), NODE),
	[FUSE_READ] = SERVE(do_read, sizeof(struct fuse_read_in), NODE),
	[FUSE_WRITE] = SERVE(do_write, sizeof(struct fuse_write_in), NODE),
	[FUSE_STATFS] = SERVE(do_statfs, 0, NODE),
	[FUSE_RELEASE] = SERVE(do_release, sizeof(struct fuse_release_in), 0),
	[FUSE_FSYNC] = SERVE(do_fsync, sizeof(struct fuse_fsync_in), NODE),
	[FUSE_SETXATTR] = REFUSE("extended attributes are not built yet"),
	[FUSE_GETXATTR] = REFUSE("extended attributes are not built yet"),
	[FUSE_LISTXATTR] = REFUSE("extended attributes are not built yet"),
	[FUSE_REMOVEXATTR] = REFUSE("extended attributes are not built yet"),
	[FUSE_FLUSH] = SERVE(do_flush, sizeof(struct fuse_flush_in), NODE),
	[FUSE_INIT] = SERVE(do_init, 16, ANYTIME),
	[FUSE_OPENDIR] = SERVE(do_opendir, sizeof(struct fuse_open_in), NODE),
	[FUSE_READDIR] = SERVE(do_readdir, sizeof(struct fuse_read_in), NODE),
	[FUSE_RELEASEDIR] = SERVE(do_release, sizeof(struct fuse_release_in), 0),
	[FUSE_FSYNCDIR] = SERVE(do_fsync, sizeof(struct fuse_fsync_in), NODE),
	[FUSE_GETLK] = REFUSE("POSIX_LOCKS is not acknowledged: locks are the guest's own"),
	[FUSE_SETLK] = REFUSE("POSIX_LOCKS is not acknowledged: locks are the guest's own"),
	[FUSE_SETLKW] = REFUSE("POSIX_LOCKS is not acknowledged: locks are the guest's own"),
	[FUSE_ACCESS] = REFUSE("virtio-fs mounts check permissions in the guest"),
	[FUSE_CREATE] = SERVE(do_create, sizeof(struct fuse_create_in) + 2, NODE),
	[FUSE_INTERRUPT] = REFUSE("virtio-fs guests send none: a request cannot overtake another"),
	[FUSE_BMAP] = REFUSE("there is no block device below"),
	[FUSE_DESTROY] = SERVE(do_destroy, 0, ANYTIME),
	[FUSE_IOCTL] = SERVE(do_ioctl, 0, NODE),
	[FUSE_POLL] = REFUSE("files are always ready, which is what the guest takes this for"),
	[FUSE_NOTIFY_REPLY] = REFUSE("no notification that asks for data is sent"),
	[FUSE_BATCH_FORGET] = SERVE(do_batch_forget, sizeof(struct fuse_batch_forget_in), NO_REPLY),
	[FUSE_FALLOCATE] = SERVE(do_fallocate, sizeof(struct fuse_fallocate_in), NODE),
	[FUSE_READDIRPLUS] = SERVE(do_readdirplus, sizeof(struct fuse_read_in), NODE),
	[FUSE_RENAME2] = SERVE(do_rename2, sizeof(struct fuse_rename2_in) + 4, NODE),
	[FUSE_LSEEK] = SERVE(do_lseek, sizeof(struct fuse_lseek_in), NODE),
	[FUSE_COPY_FILE_RANGE] = REFUSE("not built yet: the guest copies by reading and writing"),
	[FUSE_SETUPMAPPING] = REFUSE("DAX is not built yet"),
	[FUSE_REMOVEMAPPING] = REFUSE("DAX is not built yet"),
	[FUSE_SYNCFS] = REFUSE("not built yet: fsync reaches the disk"),
};

static const struct op *op_find(uint32_t opcode)
{
	static const struct op unknown = REFUSE("not an opcode of this protocol version");

	return opcode < ARRAY_LEN(ops) && (ops[opcode].fn || ops[opcode].why) ? &ops[opcode]
									      : &unknown;
}

static int dispatch(struct call *c, const struct op *op)
{
	const struct fuse_in_header *in = &c->req->in;
	struct node *n = node_find(c->f, in->nodeid);

	if (!op->fn)
		return -ENOSYS;
	if (c->in.left < op->min)
		return -EINVAL;
	if (!c->f->ready && !(op->flags & ANYTIME))
		return -EIO; /* no session */
	if (op->flags & NODE) {
		if (!n)
			return -ESTALE; /* the guest looks the name up again (D53) */
		c->inode = n->inode;
	}
	return op->fn(c);
}

int fuse_serve(struct fuse *f, struct fuse_req *req)
{
	struct call c = {.f = f,
			 .req = req,
			 .in = cursor_of(req->rd, req->nrd),
			 .out = cursor_of(req->wr, req->nwr)};
	const struct op *op;
	size_t room;
	int r;

	cursor_get(&c.in, &req->in, sizeof(req->in));
	/* What is behind the message in the buffer is not part of it. */
	if (c.in.err || req->in.len < sizeof(req->in) || req->in.len > req->rd_len)
		return -EPROTO;
	c.in.left = req->in.len - sizeof(req->in);
	op = op_find(req->in.opcode);
	if (op->flags & NO_REPLY) {
		if (dispatch(&c, op))
			log_debug("%s: a forget message was not understood", f->name);
		req->reply(req, 0);
		return 0;
	}
	r = cursor_iov(&c.out, sizeof(struct fuse_out_header), req->head, ARRAY_LEN(req->head));
	if (r < 0)
		return -EPROTO;
	req->nhead = (unsigned)r;
	req->fuse = f;
	req->handle = NULL;
	c.cred = (struct cred){.uid = req->in.uid, .gid = req->in.gid};
	room = c.out.left;
	r = dispatch(&c, op);
	if (r != -EINPROGRESS)
		reply(req, r, c.moved ? c.moved : (uint32_t)(room - c.out.left));
	return 0;
}
