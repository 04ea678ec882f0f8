// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_blk.h - a drive as it is configured: for the code that builds the guest's command line.
 */
#ifndef DEVICES_VIRTIO_BLK_H
#define DEVICES_VIRTIO_BLK_H

#include "../vmm/base.h"
#include "rate.h"

struct device;

enum blk_cache {
	BLK_CACHE_UNSAFE,    /* no flush is offered: a host crash may lose anything */
	BLK_CACHE_WRITEBACK, /* a flush is complete when the host's disk has the data */
};

enum blk_engine {
	BLK_ENGINE_SYNC,  /* threads */
	BLK_ENGINE_ASYNC, /* io_uring, or threads where the host refuses it */
};

struct blk_config {
	char *drive_id, *path_on_host;
	char *partuuid; /* NULL: none */
	char *serial;   /* NULL: drive_id */
	bool is_root_device, is_read_only;
	int cache_type; /* enum blk_cache */
	bool direct, discard;
	uint32_t queues; /* 0: one per vCPU */
	uint32_t queue_size, poll_us;
	int io_engine; /* enum blk_engine */
	struct rate_config rate_limiter;
};

/*
 * Another file in the drive's place (path), or its own as large as it is now (NULL). What was submitted before ends on the
 * old one; the guest gets a configuration interrupt. Any thread but an iothread. Errors as disk_again(), logged: the drive
 * is as before.
 */
int blk_change(struct device *, const char *path) must_check;

#endif
