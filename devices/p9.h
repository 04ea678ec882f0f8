// SPDX-License-Identifier: Apache-2.0
/*
 * p9.h - a 9P2000.L server over a share: wire and session (fids, tags), no transport.
 *
 * It knows neither virtio nor the file system: a message comes as readable iovecs, the answer goes to writable ones, and
 * reply() is called exactly once with the bytes written. Protocol: p9_wire.h; what a guest sends is checked by a table row
 * per type before its handler runs. Other dialects are answered "unknown".
 *
 * Threads: one iothread calls everything and completes every request; many may be in flight.
 */
#ifndef DEVICES_P9_H
#define DEVICES_P9_H

#include "../vmm/base.h"
#include "../vmm/cursor.h"
#include "../vmm/loop.h"
#include "p9_wire.h"
#include "share.h"

struct p9;
struct p9_fid;

/* Directories below the share that are of other file systems than its root. */
enum p9_multidevs {
	P9_REMAP,  /* every object has a qid.path of its own, as always here */
	P9_FORBID, /* they are not there: -ENODEV */
	P9_WARN,   /* as remap, and said once */
};

struct p9_config {
	int multidevs;      /* enum p9_multidevs */
	uint32_t msize_max; /* the largest message that is agreed on, P9_MSIZE_MIN or more */
};

/* One request; its carrier keeps it until reply(). The server may change the iovecs. */
struct p9_req {
	/* Filled by the carrier. */
	struct iovec *rd, *wr;
	unsigned nrd, nwr;
	struct iothread *io; /* the one that calls p9_serve() */
	void (*reply)(struct p9_req *, uint32_t written);

	/* The server's while the request is out. */
	struct p9 *p9;
	uint8_t type;
	uint16_t tag;
	/* Where the answer's header and first number go, byte by byte at worst. */
	struct iovec head[P9_SHORT];
	unsigned nhead;
	struct p9_fid *fid;                  /* held by an operation that is out; or NULL */
	int error;                           /* what is to be answered, once it is */
	uint32_t bytes;                      /* of its body; while Tversion waits, of that one's */
	struct p9_req *next, **link;         /* of those in flight */
	struct p9_req *flushes, *flush_next; /* Tflush requests that are answered after this one */
	union {
		struct io_op op;
		struct {
			struct share_wait wait;
			struct loop_timer limit;
			bool given_up; /* by us, so that the guest may see to its signals */
		} lock;
	} out;
};

/* name is for messages. The share is borrowed. Any thread, before the one that serves. */
int p9_create(struct p9 **out, const char *name, struct share *, const struct p9_config *)
	must_check;
/* No request is in flight. */
void p9_destroy(struct p9 *);
/*
 * Serves one request: 0, and reply() comes before this returns or later. -EPROTO, and no reply() ever, if it has no whole
 * header or leaves no room for Rlerror.
 */
int p9_serve(struct p9 *, struct p9_req *) must_check;
/*
 * Device reset: the session ends, every fid and lock is dropped. Requests in flight finish by themselves, those that wait
 * for a lock soon. On the thread that serves.
 */
void p9_reset(struct p9 *);
/* For tests of leaks: fids the guest holds, requests in flight. */
void p9_counts(const struct p9 *, size_t *fids, size_t *inflight);

#endif
