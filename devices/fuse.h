// SPDX-License-Identifier: Apache-2.0
/*
 * fuse.h - a FUSE server over a share: wire and session (node ids, lookup counts, handles), no
 * transport.
 *
 * It knows neither virtio nor the file system: a request comes as readable and writable iovecs, and
 * reply() is called exactly once with the bytes written (0 for FORGET, which has no reply).
 * Protocol: linux/fuse.h; what a guest sends is checked by a table row per opcode before its
 * handler runs. All on one iothread.
 */
#ifndef DEVICES_FUSE_H
#define DEVICES_FUSE_H

#include "../vmm/base.h"
#include "../vmm/cursor.h"
#include "../vmm/loop.h"
#include "share.h"
#include <linux/fuse.h>

struct fuse;
struct fuse_handle;

enum fuse_cache { FUSE_CACHE_NEVER, FUSE_CACHE_AUTO, FUSE_CACHE_ALWAYS };

struct fuse_config {
	int cache; /* enum fuse_cache */
	/* UINT32_MAX: what the cache mode says (never 0, always a day, auto a second; negative
	 * entries: 0, 0, a day). */
	uint32_t entry_ttl_ms, attr_ttl_ms, negative_ttl_ms;
};

/* One request; its carrier keeps it until reply(). The server may change the iovecs. */
struct fuse_req {
	/* Filled by the carrier. */
	struct iovec *rd, *wr;
	unsigned nrd, nwr;
	void (*reply)(struct fuse_req *, uint32_t written);

	/* The server's while the request is out. */
	struct fuse_in_header in;
	/* Where the reply's header goes, byte by byte at worst. */
	struct iovec head[sizeof(struct fuse_out_header)];
	unsigned nhead;
	struct io_op op;
	struct fuse_handle *handle;
};

/*
 * share is borrowed; io is where asynchronous calls complete. max_io: the largest write in bytes, a
 * multiple of 4096; reads are told the same limit and bounded by the room they bring.
 */
int fuse_create(struct fuse **out, struct share *, struct iothread *io, const struct fuse_config *,
		uint32_t max_io) must_check;
/* No request is in flight. */
void fuse_destroy(struct fuse *);
/*
 * Serves one request: 0, and reply() comes before this returns or later. -EPROTO, and no reply()
 * ever, if it is shorter than a FUSE header, says it is longer than it is, or leaves no room for
 * the header of a reply it must get.
 */
int fuse_serve(struct fuse *, struct fuse_req *) must_check;
/* Device reset: the session ends, every node and handle is dropped. Requests in flight finish by
 * themselves. */
void fuse_reset(struct fuse *);
/* For tests of leaks: node ids and handles the guest holds (the root is not counted). */
void fuse_counts(const struct fuse *, size_t *nodes, size_t *handles);

#endif
