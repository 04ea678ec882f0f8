// SPDX-License-Identifier: Apache-2.0
/*
 * dax.h - the window of a share: files that appear in the guest's address space, and are then read and written without
 * any request.
 *
 * dax_up() negotiates and finds the window; the guest manages it: it says which part of which file is to appear where.
 * Spec: virtio 1.2, 5.11.6.4; linux/fuse.h (FUSE_SETUPMAPPING).
 */
#ifndef PAYLOAD_DAX_H
#define PAYLOAD_DAX_H

#include "fs.h"

struct dax {
	uint8_t *window; /* NULL: the device has none, or the server does not map */
	uint64_t size;
	uint32_t unit; /* what offsets and lengths are multiples of */
};

struct dax dax_up(struct vdev *);
/* len bytes of the file from file_off at off of the window. 0 or -errno. */
long dax_map(uint64_t node, uint64_t file_off, uint64_t off, uint64_t len, bool write);
long dax_unmap(uint64_t off, uint64_t len);

#endif
