// SPDX-License-Identifier: Apache-2.0
/*
 * fs.h - a FUSE client over virtio-fs, with the descriptors as Linux lays them out: header, arguments and data apart.
 *
 * Every reply is checked for what Linux checks: its number, and its length against what the queue says was written
 * (hard case A11). fs_faults() counts the replies that failed that.
 * Spec: virtio 1.2, 5.11; linux/fuse.h.
 */
#ifndef PAYLOAD_FS_H
#define PAYLOAD_FS_H

#include "virtio.h"
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/fuse.h>
#include <linux/stat.h>

#define FS_SEGS 24

/* Negotiates if the device is not up, and opens a session as Linux 5.4 does, on one request queue. */
void fs_up(struct vdev *);
/*
 * The same with so many request queues, as far as the device has them, and with FUSE_* beside those flags, which makes it
 * a session of the newest version that the headers know. One that is up already stays if it is like that.
 */
void fs_up_as(struct vdev *, unsigned queues, uint64_t flags);
/* After a reset by others: the next fs_up() begins anew. */
void fs_down(void);
const struct fuse_init_out *fs_session(void);
/* Of both words, what the server took. */
uint64_t fs_session_flags(void);
unsigned fs_faults(void);

/* A request in the slot: its header, in hdr_out. */
struct fuse_in_header *fs_header(uint32_t slot, uint32_t op, uint64_t node, uint32_t body);
/* Request queues there are; which one fs_call() uses from now on; that one. The first after fs_up(). */
unsigned fs_queues(void);
void fs_use_queue(unsigned i);
struct vq *fs_queue(void);

/* One request to its end: bytes of the reply after its header, or -errno. Segments with length 0 are left out. */
long fs_call(uint32_t op, uint64_t node, const struct seg *in, uint32_t nin, const struct seg *out,
	     uint32_t nout);
/* The same with an argument, a name or two (with their NUL) and one buffer for the answer; each may be NULL. */
struct fs_args {
	const void *arg;
	uint32_t arg_len;
	const char *name, *name2;
	void *out;
	uint32_t out_len;
};
long fs_do(uint32_t op, uint64_t node, const struct fs_args *);

long fs_lookup(uint64_t dir, const char *name, struct fuse_entry_out *);
void fs_forget(uint64_t node, uint64_t n);
void fs_forget_many(const struct fuse_forget_one *, uint32_t n);
long fs_getattr(uint64_t node, struct fuse_attr *);
/* op is FUSE_OPEN or FUSE_OPENDIR, FUSE_RELEASE or FUSE_RELEASEDIR. */
long fs_open(uint32_t op, uint64_t node, uint32_t flags, uint64_t *fh);
long fs_release(uint32_t op, uint64_t node, uint64_t fh);
long fs_create(uint64_t dir, const char *name, uint32_t flags, struct fuse_entry_out *,
	       uint64_t *fh);
/* op is FUSE_READ, FUSE_READDIR or FUSE_READDIRPLUS; data are the pieces it goes to or comes from. */
long fs_read(uint32_t op, uint64_t node, uint64_t fh, uint64_t off, const struct seg *data,
	     uint32_t n);
long fs_write(uint64_t node, uint64_t fh, uint64_t off, const struct seg *data, uint32_t n);
long fs_mkdir(uint64_t dir, const char *name, struct fuse_entry_out *);
/* op is FUSE_UNLINK or FUSE_RMDIR. */
long fs_remove(uint32_t op, uint64_t dir, const char *name);
long fs_rename(uint64_t dir, const char *from, const char *to, uint32_t flags);
long fs_setattr(uint64_t node, const struct fuse_setattr_in *, struct fuse_attr *);
/* A whole file of the pattern, in requests of any size, in pieces of any size; how many were wrong. */
unsigned fs_transfer(uint64_t node, uint64_t fh, uint32_t len, uint32_t seed, bool write);

/* Benchmarks that are no loop of requests in slots: dir_bench.c (op as for fs_read()), dax_bench.c. */
struct job;
void dir_job(uint32_t op, struct job *);
void dax_job(struct vdev *, struct job *);

uint32_t seg_sum(const struct seg *, uint32_t n);

#endif
