// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_blk.h - a drive as it is configured: for the code that builds the guest's command line.
 */
#ifndef DEVICES_VIRTIO_BLK_H
#define DEVICES_VIRTIO_BLK_H

#include "../vmm/base.h"

enum blk_cache {
	BLK_CACHE_UNSAFE,    /* no flush is offered: a host crash may lose anything */
	BLK_CACHE_WRITEBACK, /* a flush is complete when the host's disk has the data */
};

struct blk_config {
	char *drive_id, *path_on_host;
	char *partuuid; /* NULL: none */
	char *serial;   /* NULL: drive_id */
	bool is_root_device, is_read_only;
	int cache_type; /* enum blk_cache */
	uint32_t poll_us;
	int io_engine; /* accepted for Firecracker's files, without effect */
};

#endif
