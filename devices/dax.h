// SPDX-License-Identifier: Apache-2.0
/*
 * dax.h - the files of a share mapped into the guest, for FUSE_SETUPMAPPING and REMOVEMAPPING (virtio 1.2, 5.11.6.4).
 *
 * The guest manages the window: it says which part of which file is to appear where. We check that, and map.
 *
 * A file may be shorter than its mapping, and the host may make it shorter at any time. A guest that touches a page behind
 * the end must not be left to the host's kernel: KVM asks that for the page over and over, and the guest's thread hangs
 * (hard case D67). So whole pages behind the end are zeros of the machine's own, from when they are mapped; what the guest
 * writes there is lost, and is memory of the host's beside the guest's RAM, no more than the window has. Of a file that is
 * cut while it is mapped we hear by its watch, and the guest that is faster waits for as long as that takes. A file that
 * grows is shown again before the guest is told of it (dax_show()), or by its watch.
 *
 * Threads: create, destroy: any, nothing runs. dax_hides(): any. The others: serialised by the session that owns it.
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
/*
 * The guest is about to know that the file has size bytes, as it is told so or did it itself: so many are the file's where
 * it is mapped. Under the same lock as what is told was asked under.
 */
void dax_show(struct dax *, const struct share_inode *, uint64_t size);
/*
 * After a write that was not under that lock: dax_show() may have something to do. False: neither has it, nor has a look
 * at a file begun that does not know of that write.
 */
bool dax_hides(const struct dax *);
/* Readable: files that are mapped have changed, and dax_changed() is to be called. -1: there is no such. */
int dax_events(const struct dax *);
void dax_changed(struct dax *);
/* The session ended: everything goes. */
void dax_reset(struct dax *);

#endif
