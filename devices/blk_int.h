// SPDX-License-Identifier: Apache-2.0
/*
 * blk_int.h - what the files of virtio-blk share; nobody else includes it.
 *
 *   virtio_blk.c   the device: options, configuration space, queues and their limits, another file in its place
 *   blk_request.c  one request: parse, submit, settle, finish
 */
#ifndef DEVICES_BLK_INT_H
#define DEVICES_BLK_INT_H

#include "disk.h"
#include "rate.h"
#include "virtio.h"
#include "virtio_blk.h"
#include "../vmm/log.h"
#include <linux/virtio_blk.h>

#define BLK_SECTOR 512u
/*
 * What one segment may ask for at most, in sectors: the end of the machine waits for a request that is under way, and
 * zeroes may have to be written one by one.
 */
#define BLK_DISCARD_MAX (GIB(2) / BLK_SECTOR)
#define BLK_ZEROES_MAX  (MIB(64) / BLK_SECTOR)
#define BLK_ZEROES_SEGS 1

/* One queue, on its own iothread. */
struct blk_line {
	struct blk *blk;
	struct disk *disk; /* where its next request goes; a reference */
	struct disk_bounce bounce;
	struct loop_timer limit; /* set: the queue is held until the rate limiter lets it go on */
	struct rate_turn turn;   /* of its next request */
};

struct blk {
	struct virtio_dev v;
	struct virtio_blk_config config;
	char id[VIRTIO_BLK_ID_BYTES]; /* zero padded, not terminated (F7) */
	char drive_id[65];
	bool unsafe, discard;
	bool limited; /* by rate */
	struct rate rate;
	struct disk *disk;      /* the newest; a reference; blk_change()'s thread */
	struct blk_line *lines; /* one per queue */
	struct log_limit errors;
	struct log_once said_full;
};

struct blk_req {
	struct chain chain; /* first: the queue keeps these */
	struct disk *disk;  /* that it is for; a reference while an operation is out */
	uint32_t type;
	uint32_t len;       /* of the data, at most INT_MAX; 0 for what has none */
	uint64_t off;       /* in the disk, bytes */
	struct iovec *data; /* within chain.iov; consumed by the disk */
	unsigned ndata;
	struct iovec status; /* one byte */
	uint32_t written;    /* into the writable stream, without the status */
	bool out;            /* an operation of it is */
	bool syncing;        /* a change that is done but for its flush */
	bool unmap;          /* of zeroes */
	struct disk_op op;
};

/*
 * What the request wants, for the disk of its queue. No effects outside the request. 0; -EOPNOTSUPP (unknown type or flags),
 * -EINVAL, -EROFS: for its status; -EPROTO: there is no room for a status.
 */
int blk_parse(struct blk_req *) must_check;
/* What it costs the bandwidth's limiter, bytes. */
uint32_t blk_cost(const struct blk_req *);
/* Does it: finished now or later, on its queue's thread. */
void blk_run(struct blk_req *);
/* The one place that writes a status and gives the request back: res is what blk_parse() said. */
void blk_finish(struct blk_req *, int res);

#endif
