// SPDX-License-Identifier: Apache-2.0
/*
 * fuse.h - a FUSE server over a share: wire and session (node ids, lookup counts, handles), no transport.
 *
 * It knows neither virtio nor the file system: a request comes as readable and writable iovecs, and reply() is called
 * exactly once with the bytes written (0 for what has no reply). Protocol: linux/fuse.h; what a guest sends is checked
 * by a table row per opcode before its handler runs.
 *
 * Threads: any number of iothreads may serve requests of one session; each request completes on the one that served it.
 * One lock is held while the session or the share is touched, never over a transfer of data or a reply. It is not taken
 * where there is one thread.
 */
#ifndef DEVICES_FUSE_H
#define DEVICES_FUSE_H

#include "../vmm/base.h"
#include "../vmm/cursor.h"
#include "../vmm/loop.h"
#include "fuse_new.h"
#include "share.h"

struct dax;
struct fuse;
struct fuse_handle;

enum fuse_cache { FUSE_CACHE_NEVER, FUSE_CACHE_AUTO, FUSE_CACHE_ALWAYS };
/* Which files are mapped, where there is a window: as the guest mounts; large ones, as we say. */
enum fuse_dax_policy { FUSE_DAX_MOUNT, FUSE_DAX_INODE };

struct fuse_config {
	int cache; /* enum fuse_cache */
	/* UINT32_MAX: what the cache mode says (never 0, always a day, auto a second; negative entries: 0, 0, a day). */
	uint32_t entry_ttl_ms, attr_ttl_ms, negative_ttl_ms;
	bool writeback;        /* the guest may keep what is written; not with FUSE_CACHE_NEVER */
	int dax_policy;        /* enum fuse_dax_policy */
	uint32_t dax_min_size; /* least size of a file that FUSE_DAX_INODE maps */
};

/* One request; its carrier keeps it until reply(). The server may change the iovecs. */
struct fuse_req {
	/* Filled by the carrier. */
	struct iovec *rd, *wr;
	unsigned nrd, nwr;
	struct iothread *io; /* the one that calls fuse_serve() */
	void (*reply)(struct fuse_req *, uint32_t written);

	/* The server's while the request is out. */
	struct fuse *fuse;
	struct fuse_in_header in;
	/* Where the reply's header goes, byte by byte at worst. */
	struct iovec head[sizeof(struct fuse_out_header)];
	unsigned nhead;
	/* What an operation that is out must not lose. */
	struct fuse_handle *handle, *to;
	struct share_inode *inode;
	union {
		struct io_op op;
		struct share_copy copy;
		struct {
			struct io_op op;
			uint64_t off;
		} write;
		struct {
			struct io_op op;
			int mode;
			uint64_t off, len;
		} fallocate;
		struct {
			struct share_wait wait;
			struct fuse_req *next, **link; /* of those that wait for a lock */
		} lock;
	} out;
};

/*
 * share and dax (NULL: no window) are borrowed. max_io: the largest write in bytes, a multiple of 4096; reads are told
 * the same limit and bounded by the room they bring. shared: more than one thread will serve. Any thread, before those.
 */
int fuse_create(struct fuse **out, struct share *, struct dax *, const struct fuse_config *,
		uint32_t max_io, bool shared) must_check;
/* No request is in flight. */
void fuse_destroy(struct fuse *);
/*
 * Serves one request: 0, and reply() comes before this returns or later. -EPROTO, and no reply() ever, if it is shorter
 * than a FUSE header, says it is longer than it is, or leaves no room for the header of a reply it must get.
 */
int fuse_serve(struct fuse *, struct fuse_req *) must_check;
/*
 * Device reset: the session ends, every node, handle and lock is dropped. Requests in flight finish by themselves, those
 * that wait for a lock soon. On a thread that serves.
 */
void fuse_reset(struct fuse *);
/* dax_events() says that there is something. On a thread that serves. */
void fuse_window_changed(struct fuse *);
/* For tests of leaks: node ids and handles the guest holds (the root is not counted), files kept for nodes. */
void fuse_counts(struct fuse *, size_t *nodes, size_t *handles, size_t *kept);

#endif
