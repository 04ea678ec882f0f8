// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_init.c - opening and closing a session: what we and the guest agree on.
 *
 * Each flag that is acknowledged moves a duty to us, so the list is what is implemented and what the share's modes ask
 * for, and nothing else (hard case D6). Guests from Linux 5.4 (7.31) on are known; they differ in the length of the body
 * and in whether there is a second word of flags (D5). What was agreed on is the session's and goes with it (D4). Under
 * the session lock. Protocol: linux/fuse.h, INIT and DESTROY. Calls: fuse_node.c, share.h, dax.h.
 */
#include "fuse_int.h"
#include "dax.h"

#define PAGE 4096u
/* Older guests have other struct sizes; none has virtio-fs, which came with 7.31. */
#define MINOR_MIN 23

static uint64_t cache_flags(const struct fuse *f)
{
	switch (f->cfg.cache) {
	case FUSE_CACHE_NEVER:
		return FUSE_DIRECT_IO_ALLOW_MMAP; /* or MAP_SHARED would fail (D52) */
	case FUSE_CACHE_AUTO:
		return FUSE_AUTO_INVAL_DATA | FUSE_CACHE_SYMLINKS;
	default:
		return FUSE_CACHE_SYMLINKS;
	}
}

static uint64_t share_flags(const struct fuse *f)
{
	const struct share_config *mode = f->mode;
	uint64_t flags = 0;

	if (mode->xattr)
		flags |= FUSE_SETXATTR_EXT;
	if (mode->posix_acl) /* default lists decide the mode in place of the umask (D40) */
		flags |= FUSE_POSIX_ACL | FUSE_DONT_MASK;
	if (mode->security_label)
		flags |= FUSE_SECURITY_CTX;
	if (mode->submounts)
		flags |= FUSE_SUBMOUNTS;
	if (mode->locks == SHARE_LOCKS_HOST)
		flags |= FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS;
	if (f->passes)
		flags |= FUSE_CREATE_SUPP_GROUP;
	return flags;
}

static uint64_t dax_flags(const struct fuse *f)
{
	if (!f->dax)
		return 0;
	return FUSE_MAP_ALIGNMENT | (f->cfg.dax_policy == FUSE_DAX_INODE ? FUSE_HAS_INODE_DAX : 0);
}

static uint64_t served_flags(const struct fuse *f)
{
	uint64_t flags = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_DO_READDIRPLUS |
			 FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS |
			 FUSE_MAX_PAGES | FUSE_HAS_IOCTL_DIR | FUSE_HANDLE_KILLPRIV_V2 |
			 FUSE_INIT_EXT;

	if (f->cfg.writeback)
		flags |= FUSE_WRITEBACK_CACHE;
	if (!f->no_open) /* there is no OPEN to carry it (D23) */
		flags |= FUSE_ATOMIC_O_TRUNC;
	return flags | cache_flags(f) | share_flags(f) | dax_flags(f);
}

/*
 * A guest that caches for good need not tell when it opens. But a host's lock belongs to an open file; and that a share
 * is read-only is said by open, or a program would learn of it from a write that is lost.
 */
static void untold_opens(struct fuse *f, uint64_t offered)
{
	if (f->cfg.cache != FUSE_CACHE_ALWAYS || f->mode->locks == SHARE_LOCKS_HOST)
		return;
	f->no_opendir = offered & FUSE_NO_OPENDIR_SUPPORT;
	f->no_open = offered & FUSE_NO_OPEN_SUPPORT && !f->mode->readonly && f->opens_all;
}

static void negotiate(struct fuse *f, const struct fuse_init_in *in, struct fuse_init_out *o)
{
	uint64_t offered = in->flags;

	if (in->flags & FUSE_INIT_EXT)
		offered |= (uint64_t)in->flags2 << 32;
	untold_opens(f, offered);
	f->flags = offered & served_flags(f);
	o->minor = MIN(in->minor, (uint32_t)FUSE_MINOR_SERVED);
	o->flags = (uint32_t)f->flags;
	o->flags2 = (uint32_t)(f->flags >> 32);
	o->max_readahead = in->max_readahead;
	o->max_write = f->max_io;
	o->max_pages = (uint16_t)(f->max_io / PAGE); /* of data; the headers are not in it (D7) */
	if (f->dax)
		o->map_alignment = (uint16_t)dax_page_shift();
	o->time_gran = 1;
	o->max_background = 64;
	o->congestion_threshold = 48;
	f->ready = true;
}

int fuse_init_open(struct fuse_call *c)
{
	struct fuse_init_out o = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_MINOR_SERVED};
	struct fuse_init_in in = {0};

	/* Guests before 7.36 send a shorter body, also with INIT_EXT; newer ones may send a longer one. */
	cursor_get(&c->in, &in, MIN(sizeof(in), c->in.left));
	/* A guest that starts over has forgotten everything (D4). */
	fuse_session_end(c->f);
	if (in.major < FUSE_KERNEL_VERSION ||
	    (in.major == FUSE_KERNEL_VERSION && in.minor < MINOR_MIN))
		return -EPROTO;
	/* One with a later major tries again with ours (D5). */
	if (in.major == FUSE_KERNEL_VERSION)
		negotiate(c->f, &in, &o);
	cursor_put(&c->out, &o, sizeof(o));
	return 0;
}

int fuse_init_close(struct fuse_call *c)
{
	fuse_session_end(c->f);
	return 0;
}
