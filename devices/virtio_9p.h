// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_9p.h - the configuration of a virtio-9p device: a share's, the 9P server's and its own.
 */
#ifndef DEVICES_VIRTIO_9P_H
#define DEVICES_VIRTIO_9P_H

#include "p9.h"
#include "share.h"

struct p9_device_config {
	char *tag; /* 1..255 bytes */
	struct share_config share;
	struct p9_config p9;
	uint32_t queue_size, poll_us;
};

#endif
