// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_dax.c - parts of files that appear in the guest's window, and vanish; and what the guest knows of their ends.
 *
 * Handles do not count: Linux sends none, and what may be mapped is the object's to say. That a list is there is checked
 * before the first of it is done (hard case D67). Under the session lock, unless it is taken here. Protocol:
 * linux/fuse.h, SETUPMAPPING, REMOVEMAPPING; virtio 1.2, 5.11.6.4. Calls: dax.h.
 */
#include "fuse_int.h"

#define MAP_FLAGS (FUSE_SETUPMAPPING_FLAG_READ | FUSE_SETUPMAPPING_FLAG_WRITE)

/* ---- what is shown of files that change ---- */

void fuse_window_changed(struct fuse *f)
{
	fuse_lock(f);
	dax_changed(f->dax);
	fuse_unlock(f);
}

/* The lock is not taken for writes as long as the window hides nothing. */
void fuse_dax_wrote(struct fuse *f, struct share_file *file, uint64_t end)
{
	if (!f->dax || !dax_hides(f->dax))
		return;
	fuse_lock(f);
	dax_show(f->dax, share_file_inode(file), end);
	fuse_unlock(f);
}

/* ---- mapping ---- */

int fuse_dax_map(struct fuse_call *c)
{
	struct fuse_setupmapping_in in;

	if (!c->f->dax)
		return -ENOSYS;
	cursor_get(&c->in, &in, sizeof(in));
	/* What is mapped can be read; a request for less does not mean this. */
	if (in.flags & ~MAP_FLAGS || !(in.flags & FUSE_SETUPMAPPING_FLAG_READ))
		return -EINVAL;
	return dax_map(c->f->dax, c->inode, in.foffset, in.moffset, in.len,
		       in.flags & FUSE_SETUPMAPPING_FLAG_WRITE);
}

int fuse_dax_unmap(struct fuse_call *c)
{
	struct fuse_removemapping_in in;
	struct fuse_removemapping_one one;

	if (!c->f->dax)
		return -ENOSYS;
	cursor_get(&c->in, &in, sizeof(in));
	if (in.count > c->in.left / sizeof(one))
		return -EINVAL;
	for (uint32_t i = 0; i < in.count; i++) {
		int r;

		cursor_get(&c->in, &one, sizeof(one));
		r = dax_unmap(c->f->dax, one.moffset, one.len);
		if (r)
			return r;
	}
	return 0;
}
