// SPDX-License-Identifier: Apache-2.0
/*
 * dax.c - the window of a share: finding it, and mapping into it. Calls: fs.c, map.c.
 * Spec: virtio 1.2, 5.11.6.4, 2.10.
 */
#include "dax.h"

#define SHM_ID_CACHE 0 /* VIRTIO_FS_SHMCAP_ID_CACHE, which user space headers do not have */

struct dax dax_up(struct vdev *d)
{
	struct dax x = {0};

	fs_up_as(d, 1, FUSE_MAP_ALIGNMENT);
	if (!d->shm || d->shm_id != SHM_ID_CACHE || !(fs_session_flags() & FUSE_MAP_ALIGNMENT) ||
	    !map_memory(d->shm, d->shm_len))
		return x;
	x.window = (uint8_t *)d->shm;
	x.size = d->shm_len;
	x.unit = 1u << (fs_session()->map_alignment & 31);
	return x;
}

/* As Linux does, without a handle. */
long dax_map(uint64_t node, uint64_t file_off, uint64_t off, uint64_t len, bool write)
{
	struct fuse_setupmapping_in in = {.fh = UINT64_MAX,
					  .foffset = file_off,
					  .len = len,
					  .flags = FUSE_SETUPMAPPING_FLAG_READ |
						   (write ? FUSE_SETUPMAPPING_FLAG_WRITE : 0),
					  .moffset = off};

	return fs_do(FUSE_SETUPMAPPING, node, &(struct fs_args){.arg = &in, .arg_len = sizeof(in)});
}

long dax_unmap(uint64_t off, uint64_t len)
{
	struct {
		struct fuse_removemapping_in in;
		struct fuse_removemapping_one one;
	} __attribute__((packed)) m = {{1}, {off, len}};

	return fs_do(FUSE_REMOVEMAPPING, FUSE_ROOT_ID,
		     &(struct fs_args){.arg = &m, .arg_len = sizeof(m)});
}
