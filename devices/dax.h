// SPDX-License-Identifier: Apache-2.0
/*
 * dax.h - the files of a share mapped into the guest, for FUSE_SETUPMAPPING and REMOVEMAPPING (virtio 1.2, 5.11.6.4).
 *
 * The guest manages the window: it says which part of which file is to appear where. We check that, and map. A file may be
 * shorter than its mapping. What is touched behind its end, after the host has cut it, is zeros and no longer the file: from
 * then on the guest writes them to nowhere, until it maps those pages again.
 * Threads: create, destroy: any, nothing runs. The others: serialised by the session that owns it.
 */
#ifndef DEVICES_DAX_H
#define DEVICES_DAX_H

#include "share.h"

struct dax;
struct vm;
struct window;

/* A window of size bytes for a device called name. -errno (logged). */
int dax_create(struct dax **out, struct vm *, const char *name, uint64_t size) must_check;
/* After the iothreads have ended. NULL is fine. */
void dax_destroy(struct dax *);
struct window *dax_window(struct dax *);
/* The least unit the guest may map, as a power of two (fuse_init_out.map_alignment): the host's page. */
unsigned dax_page_shift(void);
/*
 * len bytes of the file from file_off appear at off of the window, instead of what was there. -EINVAL: not aligned, beyond
 * the window, nothing, not a regular file; -EROFS; -ENOMEM: too many pieces; what opening and mmap say. After an error what
 * was there is still there.
 */
int dax_map(struct dax *, struct share_inode *, uint64_t file_off, uint64_t off, uint64_t len,
	    bool writable) must_check;
/* -EINVAL, -ENOMEM. Any part of what was mapped, also what was not. */
int dax_unmap(struct dax *, uint64_t off, uint64_t len) must_check;
/* The session ended: everything goes. */
void dax_reset(struct dax *);

#endif
