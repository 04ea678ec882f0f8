// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_blk.c - a disk for the guest: its queues, its configuration space, its options.
 *
 * Each queue has an iothread of its own and its own way to the file (struct blk_line), so that queues share nothing but the
 * rate limiter's clock. What the file and the driver agree on is in the configuration space; it changes when the file does
 * (blk_change()). Spec: virtio 1.2, 5.2. Calls: blk_request.c, disk.h, rate.h.
 */
#include "blk_int.h"
#include "table.h"
#include "../vmm/vm.h"
#include <limits.h>
#include <stdio.h>

#define MAX_QUEUES 32

static struct blk *blk_of(struct virtio_dev *v)
{
	return container_of(v, struct blk, v);
}

/* ---- queues ---- */

/* A request that may not be made yet goes back into the ring, and the queue rests until it may. */
static bool line_may(struct blk_line *line, struct blk_req *req)
{
	struct virtq *vq = req->chain.vq;
	uint64_t wait;

	if (!line->blk->limited)
		return true;
	wait = rate_take(&line->blk->rate, &line->turn, blk_cost(req), loop_now());
	if (!wait)
		return true;
	virtq_putback(&req->chain);
	virtq_hold(vq);
	loop_timer_set(vq->io, &line->limit, wait);
	return false;
}

static void blk_kick(struct virtio_dev *v, struct virtq *vq)
{
	struct blk_line *line = &blk_of(v)->lines[vq->index];
	struct chain *c;
	int r;

	while ((r = virtq_pop(vq, &c)) == 1) {
		struct blk_req *req = container_of(c, struct blk_req, chain);

		r = blk_parse(req);
		if (r == -EPROTO) {
			virtq_push(c, 0);
			break;
		}
		if (r)
			blk_finish(req, r);
		else if (line_may(line, req))
			blk_run(req);
	}
	if (r < 0)
		virtio_broken(v, vq,
			      "descriptor chain against the rules, or without a status byte");
}

static void line_go_on(struct loop_timer *t)
{
	struct blk_line *line = container_of(t, struct blk_line, limit);
	struct virtio_dev *v = &line->blk->v;
	struct virtq *vq = &v->vq[line - line->blk->lines];

	virtq_release(vq);
	if (!vq->broken)
		blk_kick(v, vq);
}

static void blk_rest(struct virtio_dev *v, struct virtq *vq)
{
	loop_timer_clear(vq->io, &blk_of(v)->lines[vq->index].limit);
}

/* 5.2.5.2: without FLUSH there is no cache to be flushed; else there is one after each reset. */
static void blk_negotiated(struct virtio_dev *v)
{
	__atomic_store_n(&blk_of(v)->config.wce, virtio_has(v, VIRTIO_BLK_F_FLUSH),
			 __ATOMIC_RELAXED);
}

static const struct virtio_ops blk_ops = {
	.negotiated = blk_negotiated, .kick = blk_kick, .rest = blk_rest};

/* ---- another file ---- */

struct line_change {
	struct blk_line *line;
	struct disk *disk;
};

static void line_change(void *arg)
{
	struct line_change *c = arg;

	disk_put(c->line->disk);
	c->line->disk = disk_get(c->disk);
}

static void show_capacity(struct virtio_dev *v, void *disk)
{
	blk_of(v)->config.capacity = htole64(((struct disk *)disk)->size / BLK_SECTOR);
}

/* The queues first: the driver is told of a larger disk when all of it is there. */
int blk_change(struct device *d, const char *path)
{
	struct virtio_dev *v = container_of(d, struct virtio_dev, base);
	struct blk *blk = blk_of(v);
	struct disk *disk, *old = blk->disk;
	int r = disk_again(&disk, old, d->name, path);

	if (r)
		return r;
	if (!path && disk->size == old->size) {
		disk_put(disk);
		return 0;
	}
	for (unsigned i = 0; i < v->nqueues; i++) {
		struct line_change c = {.line = &blk->lines[i], .disk = disk};

		loop_call(v->vq[i].io, line_change, &c);
	}
	blk->disk = disk;
	virtio_config_changed(v, show_capacity, disk);
	log_info("%s: drive \"%s\" has %llu bytes now", d->name, blk->drive_id,
		 (unsigned long long)disk->size);
	disk_put(old);
	return 0;
}

static int blk_refresh(struct device *d)
{
	return blk_change(d, NULL);
}

/* ---- the configuration space ---- */

static uint64_t features_of(const struct blk *blk)
{
	uint64_t f = 1ull << VIRTIO_BLK_F_SEG_MAX | 1ull << VIRTIO_BLK_F_SIZE_MAX |
		     1ull << VIRTIO_BLK_F_BLK_SIZE | 1ull << VIRTIO_BLK_F_TOPOLOGY;

	if (blk->v.nqueues > 1)
		f |= 1ull << VIRTIO_BLK_F_MQ;
	if (blk->disk->readonly)
		return f | 1ull << VIRTIO_BLK_F_RO; /* F9 */
	f |= 1ull << VIRTIO_BLK_F_WRITE_ZEROES;
	if (!blk->unsafe)
		f |= 1ull << VIRTIO_BLK_F_FLUSH | 1ull << VIRTIO_BLK_F_CONFIG_WCE;
	if (blk->discard)
		f |= 1ull << VIRTIO_BLK_F_DISCARD;
	return f;
}

/* 5.2.4, in logical blocks. No more than the driver has a field for. */
static void describe_topology(struct virtio_blk_config *c, const struct disk_geometry *g)
{
	const uint32_t block = g->logical;

	c->blk_size = htole32(block);
	c->physical_block_exp = (uint8_t)(__builtin_ctz(g->physical) - __builtin_ctz(g->logical));
	c->alignment_offset = (uint8_t)MIN(g->align / block, (uint32_t)UINT8_MAX);
	c->min_io_size = htole16((uint16_t)MIN(g->io_min / block, (uint32_t)UINT16_MAX));
	c->opt_io_size = htole32(g->io_opt / block);
}

/* Zero values would be misread by drivers (F5). */
static void describe_space(struct blk *blk)
{
	struct virtio_blk_config *c = &blk->config;
	/* Header and status take two descriptors of the ring. */
	const uint32_t segs = blk->v.queue_size - 2u;

	c->capacity = htole64(blk->disk->size / BLK_SECTOR);
	c->seg_max = htole32(segs);
	/* The largest request that these two allow is one that is served. */
	c->size_max = htole32(1u << (31 - __builtin_clz(INT_MAX / segs)));
	c->num_queues = htole16(blk->v.nqueues);
	describe_topology(c, &blk->disk->geometry);
	c->max_discard_sectors = htole32(BLK_DISCARD_MAX);
	c->max_discard_seg = htole32(DISK_RANGES_MAX);
	c->discard_sector_alignment = htole32(MAX(blk->disk->geometry.discard / BLK_SECTOR, 1u));
	c->max_write_zeroes_sectors = htole32(BLK_ZEROES_MAX);
	c->max_write_zeroes_seg = htole32(BLK_ZEROES_SEGS);
	c->write_zeroes_may_unmap = blk->discard;
}

static void blk_describe(struct blk *blk, const struct blk_config *cfg)
{
	struct virtio_dev *v = &blk->v;

	v->ops = &blk_ops;
	v->id = VIRTIO_ID_BLOCK;
	v->queue_size = (uint16_t)cfg->queue_size;
	v->req_size = sizeof(struct blk_req);
	v->poll_us = cfg->poll_us;
	v->engine = cfg->io_engine == BLK_ENGINE_SYNC ? LOOP_EPOLL : LOOP_AUTO;
	v->features = features_of(blk);
	describe_space(blk);
	v->config = &blk->config;
	v->config_len = sizeof(blk->config);
	if (v->features & 1ull << VIRTIO_BLK_F_CONFIG_WCE) {
		v->config_rw = offsetof(struct virtio_blk_config, wce);
		v->config_rw_len = sizeof(blk->config.wce);
	}
}

/* ---- life ---- */

static void blk_destroy(struct device *d)
{
	struct blk *blk = container_of(d, struct blk, v.base);

	for (unsigned i = 0; blk->lines && i < blk->v.nqueues; i++) {
		disk_bounce_fini(&blk->lines[i].bounce);
		disk_put(blk->lines[i].disk);
	}
	disk_put(blk->disk);
	free(blk->lines);
	free(blk);
}

/* As many queues as the guest has CPUs, unless told otherwise: each submits without waiting for another. */
static int lines_create(struct blk *blk, unsigned n)
{
	blk->lines = calloc(n, sizeof(*blk->lines));
	if (!blk->lines)
		return -ENOMEM;
	blk->v.nqueues = blk->v.nthreads = (uint16_t)n;
	for (unsigned i = 0; i < n; i++) {
		blk->lines[i].blk = blk;
		blk->lines[i].disk = disk_get(blk->disk);
		blk->lines[i].limit.fn = line_go_on;
	}
	return 0;
}

static void name_drive(struct blk *blk, const struct blk_config *cfg)
{
	const char *id = cfg->serial ? cfg->serial : cfg->drive_id;

	memcpy(blk->id, id, strnlen(id, sizeof(blk->id)));
	snprintf(blk->drive_id, sizeof(blk->drive_id), "%s", cfg->drive_id);
}

static int blk_create(struct vm *vm, const void *config, unsigned index, struct device **out)
{
	const struct blk_config *cfg = config;
	const struct disk_config disk = {
		.path = cfg->path_on_host, .readonly = cfg->is_read_only, .direct = cfg->direct};
	const unsigned queues = cfg->queues ? cfg->queues : MIN(vm->ncpus, (unsigned)MAX_QUEUES);
	struct blk *blk = calloc(1, sizeof(*blk));
	int r;

	if (!blk)
		return -ENOMEM;
	device_init(&blk->v.base, &blk_device, index, blk_destroy);
	blk->v.base.refresh = blk_refresh;
	r = disk_open(&blk->disk, blk->v.base.name, &disk);
	if (!r)
		r = lines_create(blk, queues);
	if (r)
		goto fail;
	name_drive(blk, cfg);
	blk->unsafe = cfg->cache_type == BLK_CACHE_UNSAFE;
	blk->discard = cfg->discard && blk->disk->geometry.discard;
	rate_init(&blk->rate, &cfg->rate_limiter, loop_now());
	blk->limited = rate_limited(&blk->rate);
	blk_describe(blk, cfg);
	*out = &blk->v.base;
	return 0;
fail:
	blk_destroy(&blk->v.base);
	return r;
}

/* ---- options ---- */

static const char *const cache_names[] = {
	[BLK_CACHE_UNSAFE] = "Unsafe", [BLK_CACHE_WRITEBACK] = "Writeback", NULL};
static const char *const engine_names[] = {
	[BLK_ENGINE_SYNC] = "Sync", [BLK_ENGINE_ASYNC] = "Async", NULL};

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
	 .help = "Async: io_uring, or threads where the host refuses it; Sync: threads"},
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
	{.key = "queues",
	 .kind = OPT_U32,
	 AT(queues),
	 .def = "0",
	 .max = MAX_QUEUES,
	 .help = "request queues, each with a thread; 0: one for each vCPU"},
	{.key = "queue_size",
	 .kind = OPT_U32,
	 AT(queue_size),
	 .def = "256",
	 .min = 4,
	 .max = VIRTQ_MAX_SIZE,
	 .check = opt_check_pow2,
	 .help = "descriptors of each queue, a power of two"},
	{.key = "direct",
	 .kind = OPT_BOOL,
	 AT(direct),
	 .def = "false",
	 .help = "O_DIRECT: past the host's page cache"},
	{.key = "discard",
	 .kind = OPT_BOOL,
	 AT(discard),
	 .def = "true",
	 .help = "what the guest discards is given back to the host; false: the image keeps its "
		 "room"},
	{.key = "rate_limiter",
	 .kind = OPT_OBJECT,
	 AT(rate_limiter),
	 .sub = &rate_opts,
	 .help = "how much the guest may do in a time"},
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
	.syscalls = &disk_syscalls,
	.create = blk_create,
};
