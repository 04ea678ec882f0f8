// SPDX-License-Identifier: Apache-2.0
/*
 * blk_request.c - one request of a disk: parse, submit, settle, finish.
 *
 * A request is two byte streams: readable (header, then data to write or ranges) and writable (data read, then one status
 * byte, the last of all). Where descriptors begin and end means nothing (hard case A10). Every request that has room for a
 * status gets one, whatever is wrong with it (A23, F6); only one without breaks the queue. Requests complete in any order.
 * On the queue's iothread only; takes no locks. Spec: virtio 1.2, 5.2.6. Calls: disk.h.
 */
#include "blk_int.h"
#include <limits.h>
#include <stdio.h>

static struct blk *blk_of(const struct blk_req *req)
{
	return container_of(req->chain.vq->dev, struct blk, v);
}

static struct blk_line *line_of(const struct blk_req *req)
{
	return &blk_of(req)->lines[req->chain.vq->index];
}

/* ---- parse: no effects outside the request ---- */

/* Takes n bytes off the front; the caller knows that they are there. */
static void data_skip(struct blk_req *req, size_t n)
{
	for (; req->ndata && n >= req->data->iov_len; req->data++, req->ndata--)
		n -= req->data->iov_len;
	if (!n)
		return;
	req->data->iov_base = (char *)req->data->iov_base + n;
	req->data->iov_len -= n;
}

/* Takes the last byte off. */
static void data_chop(struct blk_req *req)
{
	while (req->ndata && !req->data[req->ndata - 1].iov_len)
		req->ndata--;
	if (req->ndata)
		req->data[req->ndata - 1].iov_len--;
}

/* Bytes, checked before they are multiplied (F3). */
static int sectors_in(const struct disk *disk, uint64_t sector, uint64_t bytes, uint64_t *off)
{
	if (__builtin_mul_overflow(sector, (uint64_t)BLK_SECTOR, off) || *off > disk->size)
		return -EINVAL;
	return bytes > disk->size - *off ? -EINVAL : 0;
}

/* The sum of all descriptors counts, not each by itself (F1), and sectors are not split (F2). */
static int parse_transfer(struct blk_req *req, uint64_t sector)
{
	/* An operation's result is an int. */
	if (req->len > INT_MAX || req->len % BLK_SECTOR)
		return -EINVAL;
	return sectors_in(req->disk, sector, req->len, &req->off);
}

static int parse_in(struct blk_req *req, uint64_t sector)
{
	req->data = req->chain.iov + req->chain.nrd;
	req->ndata = req->chain.nwr;
	data_chop(req);
	req->len = req->chain.wr_len - 1;
	return req->type == VIRTIO_BLK_T_GET_ID ? 0 : parse_transfer(req, sector);
}

static int parse_out(struct blk_req *req, uint64_t sector)
{
	if (req->disk->readonly)
		return -EROFS; /* F9 */
	req->data = req->chain.iov;
	req->ndata = req->chain.nrd;
	data_skip(req, sizeof(struct virtio_blk_outhdr));
	req->len = req->chain.rd_len - (uint32_t)sizeof(struct virtio_blk_outhdr);
	return parse_transfer(req, sector);
}

/* 5.2.6.2: what a segment may say, for either of the two types that have them. */
static int parse_segment(struct blk_req *req, const struct virtio_blk_discard_write_zeroes *seg)
{
	const bool zeroes = req->type == VIRTIO_BLK_T_WRITE_ZEROES;
	const uint32_t flags = le32toh(seg->flags), sectors = le32toh(seg->num_sectors);
	const uint32_t known = zeroes ? VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP : 0;
	struct disk_range *range = &req->op.ranges[req->op.nranges];

	if (flags & ~known)
		return -EOPNOTSUPP;
	if (sectors > (zeroes ? BLK_ZEROES_MAX : BLK_DISCARD_MAX))
		return -EINVAL;
	range->len = (uint64_t)sectors * BLK_SECTOR;
	/* Linux sets it whatever the device says that it may. */
	req->unmap = blk_of(req)->discard && flags & VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP;
	if (sectors)
		req->op.nranges++;
	return sectors_in(req->disk, le64toh(seg->sector), range->len, &range->off);
}

static int parse_ranges(struct blk_req *req, struct cursor *rd, unsigned feature)
{
	const uint32_t max = req->type == VIRTIO_BLK_T_DISCARD ? DISK_RANGES_MAX : BLK_ZEROES_SEGS;
	const uint32_t bytes = req->chain.rd_len - (uint32_t)sizeof(struct virtio_blk_outhdr);
	struct virtio_blk_discard_write_zeroes seg;
	int r = 0;

	req->op.nranges = 0;
	if (!(blk_of(req)->v.features & 1ull << feature))
		return req->disk->readonly ? -EROFS : -EOPNOTSUPP;
	if (!bytes || bytes % sizeof(seg) || bytes / sizeof(seg) > max)
		return -EINVAL;
	for (uint32_t n = bytes / sizeof(seg); n && !r; n--) {
		cursor_get(rd, &seg, sizeof(seg));
		r = parse_segment(req, &seg);
	}
	return r;
}

static int parse_type(struct blk_req *req, struct cursor *rd, uint64_t sector)
{
	switch (req->type) {
	case VIRTIO_BLK_T_IN:
	case VIRTIO_BLK_T_GET_ID:
		return parse_in(req, sector);
	case VIRTIO_BLK_T_OUT:
		return parse_out(req, sector);
	case VIRTIO_BLK_T_FLUSH:
		/* Where none is offered, OK would be a lie about the data. */
		return blk_of(req)->v.features & 1ull << VIRTIO_BLK_F_FLUSH ? 0 : -EOPNOTSUPP;
	case VIRTIO_BLK_T_DISCARD:
		return parse_ranges(req, rd, VIRTIO_BLK_F_DISCARD);
	case VIRTIO_BLK_T_WRITE_ZEROES:
		return parse_ranges(req, rd, VIRTIO_BLK_F_WRITE_ZEROES);
	default:
		return -EOPNOTSUPP; /* F4: what is not known is not done, and not said to be */
	}
}

int blk_parse(struct blk_req *req)
{
	struct cursor rd = chain_rd(&req->chain), wr = chain_wr(&req->chain);
	struct virtio_blk_outhdr hdr;

	req->disk = line_of(req)->disk;
	req->written = req->len = 0;
	req->off = 0;
	req->out = req->syncing = false;
	if (!req->chain.wr_len)
		return -EPROTO;
	cursor_skip(&wr, req->chain.wr_len - 1);
	if (cursor_iov(&wr, 1, &req->status, 1) != 1)
		return -EPROTO;
	cursor_get(&rd, &hdr, sizeof(hdr));
	if (rd.err)
		return -EINVAL;
	req->type = le32toh(hdr.type);
	return parse_type(req, &rd, le64toh(hdr.sector));
}

uint32_t blk_cost(const struct blk_req *req)
{
	return req->type <= VIRTIO_BLK_T_OUT ? req->len : 0;
}

/* ---- submit: the result, or -EINPROGRESS ---- */

static int get_id(struct blk_req *req)
{
	struct cursor c = cursor_of(req->data, req->ndata);
	uint32_t n = MIN(req->len, (uint32_t)VIRTIO_BLK_ID_BYTES);

	cursor_put(&c, blk_of(req)->id, n);
	return (int)n;
}

static int submit_ranges(struct blk_req *req, struct iothread *io)
{
	if (!req->op.nranges)
		return 0;
	if (req->type == VIRTIO_BLK_T_DISCARD)
		return disk_discard(req->disk, io, &req->op);
	return disk_zero(req->disk, io, &req->op, req->unmap);
}

static int submit_transfer(struct blk_req *req, struct iothread *io)
{
	struct disk_bounce *bounce = &line_of(req)->bounce;

	if (!req->len)
		return 0;
	if (req->type == VIRTIO_BLK_T_OUT)
		return disk_writev(req->disk, io, bounce, &req->op, req->data, req->ndata,
				   req->off);
	return disk_readv(req->disk, io, bounce, &req->op, req->data, req->ndata, req->off);
}

static int submit(struct blk_req *req)
{
	struct iothread *io = req->chain.vq->io;

	if (req->syncing)
		return disk_flush(req->disk, io, &req->op);
	switch (req->type) {
	case VIRTIO_BLK_T_GET_ID:
		return get_id(req);
	case VIRTIO_BLK_T_FLUSH:
		return disk_flush(req->disk, io, &req->op);
	case VIRTIO_BLK_T_DISCARD:
	case VIRTIO_BLK_T_WRITE_ZEROES:
		return submit_ranges(req, io);
	default:
		return submit_transfer(req, io);
	}
}

/* ---- settle: what became of it ---- */

static bool has_ranges(const struct blk_req *req)
{
	return req->type == VIRTIO_BLK_T_DISCARD || req->type == VIRTIO_BLK_T_WRITE_ZEROES;
}

static bool is_transfer(const struct blk_req *req)
{
	return req->type <= VIRTIO_BLK_T_OUT && !req->syncing;
}

/* Sparse images fill up with what the guest writes. A write stops short when the rest finds no room (F15). */
static bool is_full(const struct blk_req *req, int res)
{
	return res == -ENOSPC || res == -EDQUOT ||
	       (res >= 0 && req->type == VIRTIO_BLK_T_OUT && is_transfer(req));
}

/* For the administrator: "write of 4096 bytes at 512". Of several ranges, where the first begins and how much they are. */
static void describe(const struct blk_req *req, char *text, size_t size)
{
	static const char *const names[] = {
		[VIRTIO_BLK_T_IN] = "read",
		[VIRTIO_BLK_T_OUT] = "write",
		[VIRTIO_BLK_T_DISCARD] = "discard",
		[VIRTIO_BLK_T_WRITE_ZEROES] = "write of zeroes",
	};
	uint64_t off = req->off, len = req->len;

	if (req->syncing || req->type == VIRTIO_BLK_T_FLUSH) {
		snprintf(text, size, "flush");
		return;
	}
	if (has_ranges(req)) {
		off = req->op.ranges[0].off;
		len = 0;
		for (unsigned i = 0; i < req->op.nranges; i++)
			len += req->op.ranges[i].len;
	}
	snprintf(text, size, "%s of %llu bytes at %llu", names[req->type], (unsigned long long)len,
		 (unsigned long long)off);
}

/*
 * The host refused: the guest gets an error and goes on, the administrator a line (F14). res >= 0: it stopped short.
 */
static int refused(const struct blk_req *req, int res)
{
	struct blk *blk = blk_of(req);
	char what[80];

	if (res == -EOPNOTSUPP && has_ranges(req) && !req->syncing)
		return res; /* The driver does not ask again. */
	if (is_full(req, res)) {
		log_once(&blk->said_full, LOG_WARN,
			 "%s: drive \"%s\": the host has no room for what the guest writes, which "
			 "gets I/O errors: free space, or raise the quota or ulimit -f",
			 blk->v.base.name, blk->drive_id);
		return -EIO;
	}
	describe(req, what, sizeof(what));
	errno = res < 0 ? -res : ENODATA;
	log_limited(&blk->errors, LOG_ERR, "%s: %s: %m", blk->v.base.name, what);
	return -EIO;
}

/* 5.2.6.2: there is a cache that the driver has to flush, or every change is durable when it is said to be done (F8). */
static bool has_cache(const struct blk *blk)
{
	if (!virtio_has(&blk->v, VIRTIO_BLK_F_FLUSH))
		return false;
	return !virtio_has(&blk->v, VIRTIO_BLK_F_CONFIG_WCE) ||
	       __atomic_load_n(&blk->config.wce, __ATOMIC_RELAXED);
}

static bool needs_flush(const struct blk_req *req)
{
	const struct blk *blk = blk_of(req);

	if (req->syncing || blk->unsafe)
		return false;
	return (req->type == VIRTIO_BLK_T_OUT || has_ranges(req)) && !has_cache(blk);
}

/* The result of an operation, for the guest: refusals are logged. */
static int result_of(struct blk_req *req, int res)
{
	if (res > 0 && (req->type == VIRTIO_BLK_T_IN || req->type == VIRTIO_BLK_T_GET_ID))
		req->written = (uint32_t)res;
	/* Stopped short: a file that shrank or a disk that filled up (F11, F15). */
	if (res < 0 || (is_transfer(req) && res != (int)req->len))
		return refused(req, res);
	return 0;
}

/* ---- finish ---- */

static uint8_t status_of(int res)
{
	if (res >= 0)
		return VIRTIO_BLK_S_OK;
	return res == -EOPNOTSUPP ? VIRTIO_BLK_S_UNSUPP : VIRTIO_BLK_S_IOERR;
}

void blk_finish(struct blk_req *req, int res)
{
	uint8_t status = status_of(res);
	struct cursor c = cursor_of(&req->status, 1);
	struct disk *disk = req->out ? req->disk : NULL;

	cursor_put(&c, &status, sizeof(status));
	/* What was really written, the status too (A11). */
	virtq_push(&req->chain, req->written + 1);
	disk_put(disk);
}

/* On from the result of its last operation, if that is over: to the next one or to the end. */
static void carry_on(struct blk_req *req, int res)
{
	while (res != -EINPROGRESS) {
		res = result_of(req, res);
		if (res || !needs_flush(req)) {
			blk_finish(req, res);
			return;
		}
		/* Only now: a flush that starts before the change is complete need not cover it. */
		req->syncing = true;
		res = submit(req);
	}
	/* The disk may be changed for another before this is over. */
	if (!req->out)
		disk_get(req->disk);
	req->out = true;
}

static void op_done(struct io_op *op, int res)
{
	carry_on(container_of(op, struct blk_req, op.io), res);
}

void blk_run(struct blk_req *req)
{
	req->op.io.done = op_done;
	carry_on(req, submit(req));
}
