// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_fs.h - a virtio-fs share as it is configured.
 */
#ifndef DEVICES_VIRTIO_FS_H
#define DEVICES_VIRTIO_FS_H

#include "fuse.h"
#include "share.h"

struct fs_config {
	char *tag;
	struct share_config share;
	struct fuse_config fuse;
	uint32_t dax;    /* MiB of the window that files are mapped in; 0: none */
	uint32_t queues; /* for requests, each with a thread */
	uint32_t queue_size;
	uint32_t poll_us; /* how long a thread looks for requests before it sleeps */
};

#endif
