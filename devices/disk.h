// SPDX-License-Identifier: Apache-2.0
/*
 * disk.h - the file or block device behind a virtio-blk: size, reading, writing, flushing, and nothing of virtio.
 *
 * Images are raw, always: the format is never guessed (hard case F12). The file is locked with an OFD lock, shared for
 * read-only and exclusive for read-write (F13).
 */
#ifndef DEVICES_DISK_H
#define DEVICES_DISK_H

#include "../vmm/base.h"
#include "../vmm/loop.h"

struct disk {
	struct io_file file;
	uint64_t
		size; /* bytes; a multiple of 512, the rest of the file is not shown (logged once) */
	bool readonly;
	bool is_blockdev;
	uint32_t block_size; /* logical block size: 512 for files */
};

/* 0; -errno, logged with path and remedy (missing, directory, no right, locked by another process, empty). */
int disk_open(struct disk *, const char *name, const char *path, bool readonly) must_check;
void disk_close(struct disk *);

/* As loop_readv/loop_writev/loop_fsync; the caller has checked off and length against size. */
int disk_readv(struct disk *, struct iothread *, struct io_op *, struct iovec *, unsigned n,
	       uint64_t off) must_check;
int disk_writev(struct disk *, struct iothread *, struct io_op *, struct iovec *, unsigned n,
		uint64_t off) must_check;
int disk_flush(struct disk *, struct iothread *, struct io_op *) must_check;

#endif
