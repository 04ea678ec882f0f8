// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_fs.c - virtio-fs: the glue between queues and the FUSE server, and the registry row.
 *
 * Queue 0 is for forgets, queue 1 for everything else; both are served by the one iothread, so a
 * forget never waits behind more than the request being served (hard case D1). A chain is a FUSE
 * message: its readable part the request, its writable part the room for the reply. Spec:
 * virtio 1.2, 5.11. On the iothread but for create and destroy. Calls: fuse.h, share.h, virtq.h.
 */
#include "virtio_fs.h"
#include "table.h"
#include "virtio.h"
#include <linux/virtio_fs.h>

#define NQUEUES      2 /* forgets; requests */
#define MAX_IO       MIB(1)
#define PAGE         4096u
#define HEADER_DESCS 4 /* what a Linux guest keeps of a ring's descriptors for headers (D7) */

struct fs {
	struct virtio_dev v;
	struct virtio_fs_config space;
	struct fuse_config fuse_cfg;
	struct share *share;
	struct fuse *fuse; /* NULL until the first start */
	bool in_kick;      /* the end of the batch announces what is replied to now */
};

struct fs_request {
	struct chain chain; /* first: the queue's slot is this struct */
	struct fuse_req fuse;
};

static void fs_reply(struct fuse_req *f, uint32_t written)
{
	struct fs_request *req = container_of(f, struct fs_request, fuse);
	struct virtq *vq = req->chain.vq;

	virtq_push(&req->chain, written);
	/* One that comes by itself; those of a batch are announced by its end. */
	if (!container_of(vq->dev, struct fs, v)->in_kick)
		virtq_notify(vq);
}

static int fs_serve(struct fs *fs, struct chain *c)
{
	struct fs_request *req = container_of(c, struct fs_request, chain);
	int r;

	req->fuse.rd = c->iov;
	req->fuse.nrd = c->nrd;
	req->fuse.wr = c->iov + c->nrd;
	req->fuse.nwr = c->nwr;
	req->fuse.reply = fs_reply;
	r = fuse_serve(fs->fuse, &req->fuse);
	if (r)
		virtq_push(c, 0);
	return r;
}

static void fs_kick(struct virtio_dev *v, struct virtq *vq)
{
	struct fs *fs = container_of(v, struct fs, v);
	struct chain *c;
	int r;

	fs->in_kick = true;
	while ((r = virtq_pop(vq, &c)) == 1) {
		r = fs_serve(fs, c);
		if (r)
			break;
	}
	fs->in_kick = false;
	if (r < 0)
		virtio_broken(v, vq, "not a chain with a FUSE message");
	virtq_notify(vq);
}

/* The first time, the thread and the server are made: both belong to the iothread. */
static int fs_start(struct virtio_dev *v)
{
	struct fs *fs = container_of(v, struct fs, v);
	uint32_t max_io = MIN((uint32_t)MAX_IO, (v->queue_size - HEADER_DESCS) * PAGE);
	int r;

	if (fs->fuse)
		return 0;
	r = share_thread_init(fs->share);
	return r ? r : fuse_create(&fs->fuse, fs->share, v->io, &fs->fuse_cfg, max_io);
}

/* The guest's session ends with the device's reset; what is in flight finishes by itself (A18). */
static void fs_stop(struct virtio_dev *v)
{
	struct fs *fs = container_of(v, struct fs, v);

	if (fs->fuse)
		fuse_reset(fs->fuse);
}

static const struct virtio_ops fs_ops = {.start = fs_start, .kick = fs_kick, .stop = fs_stop};

static void fs_destroy(struct device *d)
{
	struct fs *fs = container_of(d, struct fs, v.base);

	fuse_destroy(fs->fuse);
	share_close(fs->share);
	free(fs);
}

static int fs_create(struct vm *vm, const void *config, unsigned index, struct device **out)
{
	const struct fs_config *cfg = config;
	struct fs *fs = calloc(1, sizeof(*fs));
	int r;

	(void)vm;
	if (!fs)
		return -ENOMEM;
	device_init(&fs->v.base, &fs_device, index, fs_destroy);
	fs->fuse_cfg = cfg->fuse;
	fs->v.ops = &fs_ops;
	fs->v.id = VIRTIO_ID_FS;
	fs->v.nqueues = NQUEUES;
	fs->v.queue_size = (uint16_t)cfg->queue_size;
	fs->v.req_size = sizeof(struct fs_request);
	fs->v.config = &fs->space;
	fs->v.config_len = sizeof(fs->space);
	memcpy(fs->space.tag, cfg->tag, MIN(strlen(cfg->tag), sizeof(fs->space.tag)));
	fs->space.num_request_queues = htole32(NQUEUES - 1);
	r = share_open(&fs->share, fs->v.base.name, &cfg->share);
	if (r)
		goto fail;
	*out = &fs->v.base;
	return 0;
fail:
	fs_destroy(&fs->v.base);
	return r;
}

static const char *const cache_names[] = {"never", "auto", "always", NULL};

#define F(member) offsetof(struct fs_config, member)
#define TTL(name, what)                                                                     \
	{                                                                                   \
		.key = #name, .kind = OPT_U32, .offset = F(fuse.name), .def = "4294967295", \
		.help = "milliseconds the guest may remember " what                         \
			"; 4294967295: what cache says"                                     \
	}
static const struct opt fs_opts[] = {
	{.key = "tag",
	 .kind = OPT_STR,
	 .offset = F(tag),
	 .required = true,
	 .min = 1,
	 .max = 36,
	 .help = "what the guest mounts: mount -t virtiofs TAG DIR"},
	SHARE_OPTS(struct fs_config, share),
	{.key = "cache",
	 .kind = OPT_ENUM,
	 .offset = F(fuse.cache),
	 .def = "auto",
	 .names = cache_names,
	 .help = "what the guest may keep: never anything, auto a second, always until it forgets"},
	TTL(entry_ttl_ms, "a name"),
	TTL(attr_ttl_ms, "attributes"),
	TTL(negative_ttl_ms, "that a name does not exist"),
	{.key = "queue_size",
	 .kind = OPT_U32,
	 .offset = F(queue_size),
	 .def = "1024",
	 .min = 64,
	 .max = 1024,
	 .check = opt_check_pow2,
	 .help = "descriptors of each queue, a power of two"},
};

const struct device_type fs_device = {
	.name = "fs",
	.section = "fs",
	.flag = "fs",
	.help = "a directory of the host, by virtio-fs",
	.id_key = "tag",
	.class = DEVICE_VIRTIO,
	.many = true,
	.opts = {fs_opts, ARRAY_LEN(fs_opts), sizeof(struct fs_config)},
	.syscalls = &share_syscalls,
	.create = fs_create,
};
