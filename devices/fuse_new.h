// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_new.h - what newer guests send that the build's linux/fuse.h does not know yet.
 *
 * Each group stands under the version of the protocol that brought it, so that a newer header takes over by itself.
 * Numbers and layouts are the wire's: they do not change any more.
 */
#ifndef DEVICES_FUSE_NEW_H
#define DEVICES_FUSE_NEW_H

#include <linux/fuse.h>
#include <stdint.h>

/* The newest minor version of which every message for a directory is served. */
#define FUSE_MINOR_SERVED 45

/* 7.38, but not in every header that says so. */
#ifndef FUSE_CREATE_SUPP_GROUP
#define FUSE_CREATE_SUPP_GROUP (1ull << 34)
#define FUSE_EXT_GROUPS        32
struct fuse_supp_groups {
	uint32_t nr_groups;
	uint32_t groups[];
};
#endif

#if FUSE_KERNEL_MINOR_VERSION < 39
#define FUSE_DIRECT_IO_ALLOW_MMAP (1ull << 36)
#define FUSE_STATX                52

struct fuse_sx_time {
	int64_t tv_sec;
	uint32_t tv_nsec;
	int32_t reserved;
};
struct fuse_statx {
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, spare0[1];
	uint64_t ino, size, blocks, attributes_mask;
	struct fuse_sx_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t spare2[14];
};
struct fuse_statx_in {
	uint32_t getattr_flags, reserved;
	uint64_t fh;
	uint32_t sx_flags, sx_mask;
};
struct fuse_statx_out {
	uint64_t attr_valid;
	uint32_t attr_valid_nsec, flags;
	uint64_t spare[2];
	struct fuse_statx stat;
};
#endif

#if FUSE_KERNEL_MINOR_VERSION < 45
#define FUSE_COPY_FILE_RANGE_64 53

struct fuse_copy_file_range_out {
	uint64_t bytes_copied;
};
#endif

_Static_assert(sizeof(struct fuse_statx_in) == 24, "a wire struct");
_Static_assert(sizeof(struct fuse_statx) == 256, "a wire struct");
_Static_assert(sizeof(struct fuse_statx_out) == 288, "a wire struct");

#endif
