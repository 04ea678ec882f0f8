// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_blk.c - a disk for the guest: parse, submit, finish.
 *
 * A request is two byte streams: readable (header, then data to write) and writable (data read,
 * then one status byte, the last of all). Where descriptors begin and end means nothing (hard case
 * A10). Every request that has room for a status gets one, whatever is wrong with it (A23, F6);
 * only one without breaks the queue. Requests complete in any order.
 * Runs on the device's iothread only; takes no locks. Spec: virtio 1.2, 5.2. Calls: disk.h.
 */
#include "virtio_blk.h"
#include "disk.h"
#include "table.h"
#include "virtio.h"
#include "../vmm/log.h"
#include <limits.h>
#include <linux/virtio_blk.h>
#include <stdio.h>

#define SECTOR         512
#define BLK_QUEUE_SIZE 256

struct blk {
	struct virtio_dev v;
	struct disk disk;
	struct virtio_blk_config config;
	char id[VIRTIO_BLK_ID_BYTES]; /* zero padded, not terminated (F7) */
	char drive_id[65];
	bool unsafe;
	struct log_limit errors;
	struct log_once said_full;
};

struct blk_req {
	struct chain chain; /* first: the queue keeps these */
	struct io_op op;
	uint32_t type;
	uint32_t len;       /* of the data, at most INT_MAX; 0 for a flush */
	uint64_t off;       /* in the disk, bytes */
	struct iovec *data; /* within chain.iov; consumed by the loop */
	unsigned ndata;
	struct iovec status; /* one byte */
	uint32_t written;    /* into the writable stream, without the status */
	bool syncing;        /* a write that is done but for its flush */
};

static struct blk *blk_of(const struct blk_req *req)
{
	return container_of(req->chain.vq->dev, struct blk, v);
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

/* The sum of all descriptors counts, not each by itself (F1), and sectors are not split (F2). */
static int parse_range(struct blk_req *req, uint64_t sector)
{
	uint64_t size = blk_of(req)->disk.size;

	if (__builtin_mul_overflow(sector, SECTOR, &req->off) || req->off > size)
		return -EINVAL;
	if (req->len % SECTOR || req->len > size - req->off)
		return -EINVAL;
	return 0;
}

static int parse_in(struct blk_req *req, uint64_t sector)
{
	req->data = req->chain.iov + req->chain.nrd;
	req->ndata = req->chain.nwr;
	data_chop(req);
	req->len = req->chain.wr_len - 1;
	/* An operation's result is an int. */
	if (req->len > INT_MAX)
		return -EINVAL;
	return req->type == VIRTIO_BLK_T_GET_ID ? 0 : parse_range(req, sector);
}

static int parse_out(struct blk_req *req, uint64_t sector)
{
	if (blk_of(req)->disk.readonly)
		return -EROFS; /* F9 */
	req->data = req->chain.iov;
	req->ndata = req->chain.nrd;
	data_skip(req, sizeof(struct virtio_blk_outhdr));
	req->len = req->chain.rd_len - (uint32_t)sizeof(struct virtio_blk_outhdr);
	if (req->len > INT_MAX)
		return -EINVAL;
	return parse_range(req, sector);
}

/*
 * 0; -EOPNOTSUPP (unknown type), -EINVAL, -EROFS: for the status; -EPROTO: there is no status byte.
 */
static int blk_parse(struct blk_req *req)
{
	struct cursor rd = chain_rd(&req->chain), wr = chain_wr(&req->chain);
	struct virtio_blk_outhdr hdr;

	req->written = req->len = 0;
	req->off = 0;
	req->syncing = false;
	if (!req->chain.wr_len)
		return -EPROTO;
	cursor_skip(&wr, req->chain.wr_len - 1);
	if (cursor_iov(&wr, 1, &req->status, 1) != 1)
		return -EPROTO;
	cursor_get(&rd, &hdr, sizeof(hdr));
	if (rd.err)
		return -EINVAL;
	req->type = le32toh(hdr.type);
	switch (req->type) {
	case VIRTIO_BLK_T_IN:
	case VIRTIO_BLK_T_GET_ID:
		return parse_in(req, le64toh(hdr.sector));
	case VIRTIO_BLK_T_OUT:
		return parse_out(req, le64toh(hdr.sector));
	case VIRTIO_BLK_T_FLUSH:
		/* Where none is offered, OK would be a lie about the data. */
		return blk_of(req)->v.features & 1ull << VIRTIO_BLK_F_FLUSH ? 0 : -EOPNOTSUPP;
	default:
		return -EOPNOTSUPP;
	}
}

/* ---- submit: the result, or -EINPROGRESS ---- */

static int blk_get_id(struct blk_req *req)
{
	struct cursor c = cursor_of(req->data, req->ndata);
	uint32_t n = MIN(req->len, (uint32_t)VIRTIO_BLK_ID_BYTES);

	cursor_put(&c, blk_of(req)->id, n);
	return (int)n;
}

static int blk_submit(struct blk *blk, struct blk_req *req)
{
	struct disk *disk = &blk->disk;

	switch (req->type) {
	case VIRTIO_BLK_T_GET_ID:
		return blk_get_id(req);
	case VIRTIO_BLK_T_FLUSH:
		return disk_flush(disk, blk->v.io, &req->op);
	case VIRTIO_BLK_T_OUT:
		if (!req->len)
			return 0;
		return disk_writev(disk, blk->v.io, &req->op, req->data, req->ndata, req->off);
	default:
		if (!req->len)
			return 0;
		return disk_readv(disk, blk->v.io, &req->op, req->data, req->ndata, req->off);
	}
}

/* ---- finish: the one place that writes a status and gives the request back ---- */

static uint8_t status_of(int res)
{
	if (res >= 0)
		return VIRTIO_BLK_S_OK;
	return res == -EOPNOTSUPP ? VIRTIO_BLK_S_UNSUPP : VIRTIO_BLK_S_IOERR;
}

static void blk_finish(struct blk_req *req, int res)
{
	uint8_t status = status_of(res);
	struct cursor c = cursor_of(&req->status, 1);

	cursor_put(&c, &status, sizeof(status));
	/* What was really written, the status too (A11). */
	virtq_push(&req->chain, req->written + 1);
}

/* Sparse images fill up with what the guest writes. A write stops short when the rest finds no room (F15). */
static bool is_full(const struct blk_req *req, int res)
{
	return res == -ENOSPC || res == -EDQUOT ||
	       (res >= 0 && req->type == VIRTIO_BLK_T_OUT && !req->syncing);
}

/*
 * The host refused: the guest gets an error and goes on, the administrator a line (F14). res >=
 * 0: it stopped short.
 */
static int blk_failed(struct blk *blk, const struct blk_req *req, int res)
{
	const char *what = req->type == VIRTIO_BLK_T_IN ? "read" : "write";

	if (is_full(req, res)) {
		log_once(&blk->said_full, LOG_WARN,
			 "%s: drive \"%s\": the host has no room for what the guest writes, which "
			 "gets I/O errors: free space, or raise the quota or ulimit -f",
			 blk->v.base.name, blk->drive_id);
		return -EIO;
	}
	if (req->syncing || req->type == VIRTIO_BLK_T_FLUSH)
		what = "flush";
	errno = res < 0 ? -res : ENODATA;
	log_limited(&blk->errors, LOG_ERR, "%s: %s of %u bytes at %llu: %m", blk->v.base.name, what,
		    req->len, (unsigned long long)req->off);
	return -EIO;
}

/* A write that is complete may still have to be made durable (5.2.6.2, F8). */
static bool needs_flush(const struct blk *blk, const struct blk_req *req)
{
	return req->type == VIRTIO_BLK_T_OUT && !req->syncing && !blk->unsafe &&
	       !virtio_has(&blk->v, VIRTIO_BLK_F_FLUSH);
}

/* Takes the result of an operation: finishes the request, unless it needs another. */
static void blk_settle(struct blk_req *req, int res)
{
	struct blk *blk = blk_of(req);
	bool transfer = req->type <= VIRTIO_BLK_T_OUT && !req->syncing;

	if (res > 0 && req->type != VIRTIO_BLK_T_OUT)
		req->written = (uint32_t)res;
	/* Stopped short: a file that shrank or a disk that filled up (F11, F15). */
	if (res < 0 || (transfer && res != (int)req->len))
		res = blk_failed(blk, req, res);
	if (res >= 0 && needs_flush(blk, req)) {
		/* Only now: a flush that starts before the write is complete need not cover it. */
		req->syncing = true;
		res = disk_flush(&blk->disk, blk->v.io, &req->op);
		if (res == -EINPROGRESS)
			return;
		if (res < 0)
			res = blk_failed(blk, req, res);
	}
	blk_finish(req, res);
}

static void blk_done(struct io_op *op, int res)
{
	blk_settle(container_of(op, struct blk_req, op), res);
}

static void blk_kick(struct virtio_dev *v, struct virtq *vq)
{
	struct blk *blk = container_of(v, struct blk, v);
	struct chain *c;
	int r;

	while ((r = virtq_pop(vq, &c)) == 1) {
		struct blk_req *req = container_of(c, struct blk_req, chain);

		r = blk_parse(req);
		if (r == -EPROTO) {
			virtq_push(c, 0);
			break;
		}
		if (r) {
			blk_finish(req, r);
			continue;
		}
		req->op.done = blk_done;
		r = blk_submit(blk, req);
		if (r != -EINPROGRESS)
			blk_settle(req, r);
	}
	if (r < 0)
		virtio_broken(v, vq,
			      "descriptor chain against the rules, or without a status byte");
}

static const struct virtio_ops blk_ops = {.kick = blk_kick};

/* ---- life ---- */

static void blk_destroy(struct device *d)
{
	struct blk *blk = container_of(d, struct blk, v.base);

	disk_close(&blk->disk);
	free(blk);
}

static void blk_describe(struct blk *blk)
{
	struct virtio_dev *v = &blk->v;

	v->ops = &blk_ops;
	v->id = VIRTIO_ID_BLOCK;
	v->nqueues = 1;
	v->queue_size = BLK_QUEUE_SIZE;
	v->req_size = sizeof(struct blk_req);
	v->features = 1ull << VIRTIO_BLK_F_SEG_MAX | 1ull << VIRTIO_BLK_F_BLK_SIZE;
	if (blk->disk.readonly)
		v->features |= 1ull << VIRTIO_BLK_F_RO;
	else if (!blk->unsafe)
		v->features |= 1ull << VIRTIO_BLK_F_FLUSH;
	blk->config = (struct virtio_blk_config){
		.capacity = htole64(blk->disk.size / SECTOR),
		/* Header and status take two descriptors of the ring (F5). */
		.seg_max = htole32(BLK_QUEUE_SIZE - 2),
		.blk_size = htole32(blk->disk.block_size),
	};
	v->config = &blk->config;
	v->config_len = sizeof(blk->config);
}

static int blk_create(struct vm *vm, const void *config, unsigned index, struct device **out)
{
	const struct blk_config *cfg = config;
	const char *id = cfg->serial ? cfg->serial : cfg->drive_id;
	struct blk *blk = calloc(1, sizeof(*blk));
	int r;

	(void)vm;
	if (!blk)
		return -ENOMEM;
	device_init(&blk->v.base, &blk_device, index, blk_destroy);
	blk->disk.file.fd = -1;
	r = disk_open(&blk->disk, blk->v.base.name, cfg->path_on_host, cfg->is_read_only);
	if (r)
		goto fail;
	memcpy(blk->id, id, strnlen(id, sizeof(blk->id)));
	snprintf(blk->drive_id, sizeof(blk->drive_id), "%s", cfg->drive_id);
	blk->unsafe = cfg->cache_type == BLK_CACHE_UNSAFE;
	blk->v.poll_us = cfg->poll_us;
	blk_describe(blk);
	*out = &blk->v.base;
	return 0;
fail:
	blk_destroy(&blk->v.base);
	return r;
}

static const char *const cache_names[] = {
	[BLK_CACHE_UNSAFE] = "Unsafe", [BLK_CACHE_WRITEBACK] = "Writeback", NULL};
static const char *const engine_names[] = {"Sync", "Async", NULL};

/* It goes into the kernel's command line, where a blank would begin another parameter. */
static bool check_partuuid(const void *text, char err[OPT_ERR_MAX])
{
	const char *s = text;

	if (!s[strspn(s, "0123456789abcdefABCDEF-")])
		return true;
	snprintf(err, OPT_ERR_MAX, "must be of hexadecimal digits and -, as blkid shows it");
	return false;
}

#define AT(field) .offset = offsetof(struct blk_config, field)
static const struct opt blk_opts[] = {
	{.key = "drive_id",
	 .kind = OPT_STR,
	 AT(drive_id),
	 .required = true,
	 .min = 1,
	 .max = 64,
	 .check = opt_check_id,
	 .help = "unique name: letters, digits and _"},
	{.key = "path_on_host",
	 .kind = OPT_STR,
	 AT(path_on_host),
	 .required = true,
	 .min = 1,
	 .max = 4095,
	 .help = "raw image file or block device"},
	{.key = "is_root_device",
	 .kind = OPT_BOOL,
	 AT(is_root_device),
	 .def = "false",
	 .help = "adds root= to the kernel command line"},
	{.key = "is_read_only",
	 .kind = OPT_BOOL,
	 AT(is_read_only),
	 .def = "false",
	 .help = "the guest cannot write; several machines may share the image"},
	{.key = "partuuid",
	 .kind = OPT_STR,
	 AT(partuuid),
	 .min = 1,
	 .max = 64,
	 .check = check_partuuid,
	 .help = "of the root partition, with is_root_device: root=PARTUUID=..."},
	{.key = "cache_type",
	 .kind = OPT_ENUM,
	 AT(cache_type),
	 .def = "Writeback",
	 .names = cache_names,
	 .help = "Writeback: a flush reaches the host's disk; Unsafe (Firecracker's default): none "
		 "is offered"},
	{.key = "io_engine",
	 .kind = OPT_ENUM,
	 AT(io_engine),
	 .def = "Async",
	 .names = engine_names,
	 .help = "accepted; every drive uses io_uring, or threads where the host refuses it"},
	{.key = "serial",
	 .kind = OPT_STR,
	 AT(serial),
	 .min = 1,
	 .max = VIRTIO_BLK_ID_BYTES,
	 .help = "serial number the guest sees; without it the first 20 characters of drive_id"},
	{.key = "poll_us",
	 .kind = OPT_U32,
	 AT(poll_us),
	 .def = "50",
	 .max = 1000,
	 .help = "how many microseconds the drive's thread may look for requests before it sleeps; "
		 "it "
		 "learns how long is worth while; 0: not at all"},
	{.key = "rate_limiter", .kind = OPT_LATER, .help = "rate limits come with a later version"},
	{.key = "socket", .kind = OPT_LATER, .help = "vhost-user drives come with a later version"},
};
#undef AT

const struct device_type blk_device = {
	.name = "blk",
	.section = "drives",
	.flag = "drive",
	.help = "virtio-blk: a raw image file or block device as a disk",
	.id_key = "drive_id",
	.class = DEVICE_VIRTIO,
	.many = true,
	.opts = {.opts = blk_opts, .n = ARRAY_LEN(blk_opts), .size = sizeof(struct blk_config)},
	.create = blk_create,
};
