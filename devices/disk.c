// SPDX-License-Identifier: Apache-2.0
/*
 * disk.c - the file or block device behind a virtio-blk.
 *
 * disk_open() learns all there is to know at start-up, on the main thread, and leaves a descriptor;
 * the rest only hands operations to the loop, on the device's iothread. The content of an image is
 * never looked at: raw is the only format, so a guest cannot make its own (hard case F12).
 * Calls: open, fstat, fcntl, ioctl, loop.h.
 */
#include "disk.h"
#include "../vmm/log.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define SECTOR 512

static const char *open_remedy(int err, bool readonly)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
		return "check path_on_host, or make an image with truncate and mkfs";
	case EACCES:
	case EPERM:
		return readonly ? "give this user the right to read it"
				: "give this user the right to read and write it, or set "
				  "is_read_only";
	case EROFS:
	case ETXTBSY:
		return "set is_read_only";
	case EISDIR:
		return "a drive is a raw image file or a block device; a directory can be a share";
	default:
		return log_remedy(err, "check path_on_host");
	}
}

/*
 * Not blocking, or a fifo without a writer would hang us here; the flag is taken back because with
 * it io_uring would return EAGAIN instead of waiting for the disk.
 */
static int open_file(struct disk *d, const char *name, const char *path)
{
	int mode = d->readonly ? O_RDONLY : O_RDWR;
	int fd = open(path, mode | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0) {
		int err = errno;

		log_err("%s: %s (%s): %m", name, path, open_remedy(err, d->readonly));
		return -err;
	}
	d->file = (struct io_file){.fd = fd};
	if (fcntl(fd, F_SETFL, mode) < 0) {
		log_err("%s: %s: flags: %m", name, path);
		return -errno;
	}
	return 0;
}

static int learn_size(struct disk *d, const char *name, const char *path)
{
	struct stat st;
	int sector = SECTOR;

	if (fstat(d->file.fd, &st)) {
		log_err("%s: %s: %m", name, path);
		return -errno;
	}
	d->is_blockdev = S_ISBLK(st.st_mode);
	d->block_size = SECTOR;
	d->size = (uint64_t)st.st_size;
	if (S_ISREG(st.st_mode))
		return 0;
	if (!d->is_blockdev) {
		log_err("%s: %s is %s: a drive is a raw image file or a block device", name, path,
			S_ISDIR(st.st_mode) ? "a directory" : "neither a file nor a block device");
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	}
	if (ioctl(d->file.fd, BLKGETSIZE64, &d->size) || ioctl(d->file.fd, BLKSSZGET, &sector)) {
		log_err("%s: %s: size of the block device: %m", name, path);
		return -errno;
	}
	d->block_size = (uint32_t)sector;
	return 0;
}

/* The guest counts in sectors; a tail that is not a whole one cannot be shown (F11). */
static int check_size(struct disk *d, const char *name, const char *path)
{
	uint64_t whole = ALIGN_DOWN(d->size, SECTOR);

	if (!whole) {
		log_err("%s: %s is %s: give it a size, for example with truncate -s 1G", name, path,
			d->size ? "smaller than a sector of 512 bytes" : "empty");
		return -EINVAL;
	}
	if (whole != d->size)
		log_warn("%s: %s: the last %llu bytes are not a whole sector and not shown to the "
			 "guest",
			 name, path, (unsigned long long)(d->size - whole));
	d->size = whole;
	return 0;
}

/*
 * An open file description lock, because a process-wide one would be dropped whenever any
 * descriptor of the same file is closed, and would not keep two drives of one machine apart
 * (F13).
 */
static int lock_file(const struct disk *d, const char *name, const char *path)
{
	struct flock whole = {.l_type = d->readonly ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};

	if (!fcntl(d->file.fd, F_OFD_SETLK, &whole))
		return 0;
	if (errno == EAGAIN || errno == EACCES) {
		log_err("%s: %s is in use by another process or device: stop that one, or set "
			"is_read_only in both",
			name, path);
		return -EBUSY;
	}
	log_warn("%s: %s: no lock, so nothing keeps a second machine from writing it: %m", name,
		 path);
	return 0;
}

int disk_open(struct disk *d, const char *name, const char *path, bool readonly)
{
	int r;

	*d = (struct disk){.file.fd = -1, .readonly = readonly};
	r = open_file(d, name, path);
	if (!r)
		r = learn_size(d, name, path);
	if (!r)
		r = check_size(d, name, path);
	if (!r)
		r = lock_file(d, name, path);
	if (r)
		disk_close(d);
	return r;
}

void disk_close(struct disk *d)
{
	close_fd(&d->file.fd);
}

int disk_readv(struct disk *d, struct iothread *io, struct io_op *op, struct iovec *iov, unsigned n,
	       uint64_t off)
{
	return loop_readv(io, op, &d->file, iov, n, off);
}

int disk_writev(struct disk *d, struct iothread *io, struct io_op *op, struct iovec *iov,
		unsigned n, uint64_t off)
{
	return loop_writev(io, op, &d->file, iov, n, off);
}

int disk_flush(struct disk *d, struct iothread *io, struct io_op *op)
{
	/* Times need not be durable, the size does, and fdatasync includes it. */
	return loop_fsync(io, op, &d->file, true);
}
