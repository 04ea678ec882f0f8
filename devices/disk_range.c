// SPDX-License-Identifier: Apache-2.0
/*
 * disk_range.c - discard and zeroes: room given back to the host, and ranges that read as zeros.
 *
 * A host may know neither, either or both, and says so only when it is asked: what it refused is remembered, as a hint.
 * Zeroes are not optional (hard case F4): at the end of the line they are written. All of it on a thread of the pool, where
 * calls may take their time. Spec: fallocate(2); BLKDISCARD is not described anywhere but in the kernel's block/ioctl.c.
 * Calls: fallocate, ioctl, pwrite, loop.h.
 */
#include "disk_int.h"
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

/* Written at once, at most. */
#define ZEROS KIB(256)

enum { RANGE_ZERO, RANGE_ZERO_UNMAP };

/* ---- what the host may know ---- */

/* The result of a call. One that was not known is not made again. */
static int host_said(bool *unknown, int r)
{
	const int err = r < 0 ? errno : 0;

	if (err != EOPNOTSUPP && err != ENOSYS && err != ENOTTY)
		return -err;
	__atomic_store_n(unknown, true, __ATOMIC_RELAXED);
	return -EOPNOTSUPP;
}

static int range_fallocate(const struct disk *d, bool *unknown, int mode,
			   const struct disk_range *r)
{
	int res;

	if (__atomic_load_n(unknown, __ATOMIC_RELAXED))
		return -EOPNOTSUPP;
	do
		res = host_said(unknown, fallocate(d->file.fd, mode | FALLOC_FL_KEEP_SIZE,
						   (off_t)r->off, (off_t)r->len));
	while (res == -EINTR);
	return res;
}

static int range_punch(const struct disk *d, const struct disk_range *r)
{
	return range_fallocate(d, &disk_owner(d)->no_punch, FALLOC_FL_PUNCH_HOLE, r);
}

/* ---- discard ---- */

/* The blocks that lie within r as a whole, of a size that the host's calls for block devices want. */
static struct disk_range whole_blocks(const struct disk *d, const struct disk_range *r)
{
	const uint32_t block = d->is_blockdev ? d->geometry.logical : 1;
	const uint64_t begin = ALIGN_UP(r->off, block), end = ALIGN_DOWN(r->off + r->len, block);

	return (struct disk_range){begin, end > begin ? end - begin : 0};
}

static int range_discard(const struct disk *d, const struct disk_range *r)
{
	const struct disk_range blocks = whole_blocks(d, r);
	const uint64_t arg[2] = {blocks.off, blocks.len};
	bool *unknown = &disk_owner(d)->no_discard;

	if (!d->is_blockdev)
		return range_punch(d, r);
	if (__atomic_load_n(unknown, __ATOMIC_RELAXED))
		return -EOPNOTSUPP;
	/* Less than a block is kept, which a discard may always be. */
	return blocks.len ? host_said(unknown, ioctl(d->file.fd, BLKDISCARD, arg)) : 0;
}

static int discard_run(struct io_op *io)
{
	const struct disk_op *op = container_of(io, struct disk_op, io);
	int r = 0;

	for (unsigned i = 0; i < op->nranges && !r; i++)
		r = range_discard(op->disk, &op->ranges[i]);
	return r;
}

int disk_discard(struct disk *d, struct iothread *io, struct disk_op *op)
{
	if (!d->geometry.discard)
		return -EOPNOTSUPP;
	op->disk = d;
	return loop_offload(io, &op->io, discard_run);
}

/* ---- zeroes ---- */

/* One write of at most len zeros: as much as is whole blocks, or what is missing to the next one. Bytes or -errno. */
static ssize_t write_some(const struct disk *d, const void *zeros, uint64_t off, uint64_t len)
{
	const uint64_t in_block = d->direct ? off & (d->block - 1) : 0;
	int fd = d->file.fd;
	ssize_t n;

	if (d->direct && !in_block && len >= d->block) {
		len = ALIGN_DOWN(len, d->block);
	} else if (d->direct) {
		fd = d->cached.fd;
		len = MIN(len, d->block - in_block);
	}
	n = pwrite(fd, zeros, len, (off_t)off);
	return n < 0 ? -errno : n;
}

static int range_write(const struct disk *d, const struct disk_range *r)
{
	const size_t size = MIN(ALIGN_UP(r->len, DISK_BLOCK_MAX), ZEROS);
	auto_free void *zeros = aligned_alloc(DISK_BLOCK_MAX, size);
	uint64_t done = 0;

	if (!zeros)
		return -ENOMEM;
	memset(zeros, 0, size);
	while (done < r->len) {
		ssize_t n = write_some(d, zeros, r->off + done, MIN(r->len - done, size));

		if (n > 0)
			done += (uint64_t)n;
		else if (n != -EINTR)
			return n ? (int)n : -EIO;
	}
	return 0;
}

static int range_mark_zero(const struct disk *d, const struct disk_range *r)
{
	return range_fallocate(d, &disk_owner(d)->no_zero, FALLOC_FL_ZERO_RANGE, r);
}

/* A hole reads as zeros, and its room is asked for again: the guest was promised that it can write here. */
static int range_renew(const struct disk *d, const struct disk_range *r)
{
	bool *unknown = &disk_owner(d)->no_allocate;
	int res;

	if (__atomic_load_n(unknown, __ATOMIC_RELAXED))
		return -EOPNOTSUPP;
	res = range_punch(d, r);
	return res ? res : range_fallocate(d, unknown, 0, r);
}

/*
 * The host's own ways, best first. One that it knows but that failed is followed by writing at once: into room that is there
 * zeros can be written when there is no more for a note that it is unwritten.
 */
static int range_zero_blocks(const struct disk *d, const struct disk_range *r, bool unmap)
{
	int res = unmap ? range_punch(d, r) : range_mark_zero(d, r);

	if (res == -EOPNOTSUPP)
		res = unmap ? range_mark_zero(d, r) : range_renew(d, r);
	return res ? range_write(d, r) : 0;
}

static int range_zero(const struct disk *d, const struct disk_range *r, bool unmap)
{
	const struct disk_range blocks = whole_blocks(d, r);
	const struct disk_range head = {r->off, blocks.off - r->off};
	const struct disk_range tail = {blocks.off + blocks.len,
					r->off + r->len - blocks.off - blocks.len};
	int res;

	if (!blocks.len)
		return range_write(d, r);
	res = range_zero_blocks(d, &blocks, unmap);
	if (!res && head.len)
		res = range_write(d, &head);
	if (!res && tail.len)
		res = range_write(d, &tail);
	return res;
}

static int zero_run(struct io_op *io)
{
	const struct disk_op *op = container_of(io, struct disk_op, io);
	int r = 0;

	for (unsigned i = 0; i < op->nranges && !r; i++)
		r = range_zero(op->disk, &op->ranges[i], op->kind == RANGE_ZERO_UNMAP);
	return r;
}

int disk_zero(struct disk *d, struct iothread *io, struct disk_op *op, bool unmap)
{
	op->disk = d;
	op->kind = unmap ? RANGE_ZERO_UNMAP : RANGE_ZERO;
	return loop_offload(io, &op->io, zero_run);
}
