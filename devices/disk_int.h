// SPDX-License-Identifier: Apache-2.0
/*
 * disk_int.h - what the files of the disk share; nobody else includes it.
 */
#ifndef DEVICES_DISK_INT_H
#define DEVICES_DISK_INT_H

#include "disk.h"
#include <sys/stat.h>

#define DISK_SECTOR 512u
/* No block and no alignment is larger: a buffer that begins at a multiple of it suits any disk. */
#define DISK_BLOCK_MAX KIB(64)

/*
 * Whose descriptors d uses. What is learnt of the file is there, and atomic: the only part of a disk that changes, also of
 * one that its user sees as constant.
 */
static inline struct disk *disk_owner(const struct disk *d)
{
	return d->lender ? d->lender : (struct disk *)d;
}

/* ---- disk_holder.c ---- */

/* As much as /proc tells of a process; the kernel's names have 15 bytes. */
struct disk_holder {
	pid_t pid; /* 0: not found */
	char comm[16];
};
/* One that has a lock on the file fd is open to, other than by fd itself. */
struct disk_holder disk_find_holder(int fd);

/* ---- disk_probe.c ---- */

/*
 * Of a disk that is open, with its size, and the file's stat(): geometry, and with direct, mem_align and block. 0 or -errno
 * (logged): it cannot be read, or there is no O_DIRECT (-EINVAL).
 */
int disk_probe(struct disk *, const struct stat *, const char *name, const char *path) must_check;
/* Numbers as the host gave them become such as its readers may shift and divide by, see struct disk_geometry. */
void disk_geometry_mend(struct disk_geometry *);

/* ---- disk_bounce.c ---- */

/*
 * One operation by way of the buffer: op's disk, data and off are set, and are whole blocks. As loop_readv/loop_writev;
 * -ENOMEM.
 */
int disk_bounce_move(struct disk_bounce *, struct iothread *, struct disk_op *, bool write)
	must_check;

#endif
