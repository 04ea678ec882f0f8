// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_9p.c - virtio-9p: the glue between the queue and the 9P server, and the registry row.
 *
 * One queue, one thread. A chain is a message: its readable part the request, its writable part the room for the answer.
 * The device has no chapter in the specification; Linux include/uapi/linux/virtio_9p.h and net/9p/trans_virtio.c say what a
 * guest expects. On the iothread but for create and destroy. Calls: p9.h, share.h, virtq.h.
 */
#include "virtio_9p.h"
#include "table.h"
#include "virtio.h"
#include <linux/virtio_9p.h>
#include <linux/virtio_ids.h>

#define TAG_MAX      255
#define PAGE         4096u
#define MSIZE_LIMIT  (MIB(4) - 4 * PAGE)
#define HEADER_DESCS 4 /* of a ring, beside those for data */

struct p9_device {
	struct virtio_dev v;
	struct share *share;
	struct p9 *p9;
	struct {
		le16 len;
		char tag[TAG_MAX];
	} __attribute__((packed)) space; /* struct virtio_9p_config */
};

struct p9_request {
	struct chain chain; /* first: the queue's slot is this struct */
	struct p9_req req;
};

/* ---- requests ---- */

static void reply(struct p9_req *req, uint32_t written)
{
	virtq_push(&container_of(req, struct p9_request, req)->chain, written);
}

static int serve(struct p9_device *d, struct chain *c)
{
	struct p9_request *request = container_of(c, struct p9_request, chain);
	int r;

	request->req.rd = c->iov;
	request->req.nrd = c->nrd;
	request->req.wr = c->iov + c->nrd;
	request->req.nwr = c->nwr;
	request->req.io = c->vq->io;
	request->req.reply = reply;
	r = p9_serve(d->p9, &request->req);
	if (r)
		virtq_push(c, 0);
	return r;
}

static void p9_kick(struct virtio_dev *v, struct virtq *vq)
{
	struct p9_device *d = container_of(v, struct p9_device, v);
	struct chain *c;
	int r;

	while ((r = virtq_pop(vq, &c)) == 1) {
		r = serve(d, c);
		if (r)
			break;
	}
	if (r < 0)
		virtio_broken(v, vq, "not a chain with a 9P message");
}

/* ---- life ---- */

static int p9_thread_init(struct virtio_dev *v)
{
	return share_thread_init(container_of(v, struct p9_device, v)->share);
}

/* The guest's session ends with the device's reset; what is in flight finishes by itself (A18). */
static void p9_stop(struct virtio_dev *v)
{
	p9_reset(container_of(v, struct p9_device, v)->p9);
}

static const struct virtio_ops p9_ops = {
	.thread_init = p9_thread_init, .kick = p9_kick, .stop = p9_stop};

static void p9_device_destroy(struct device *base)
{
	struct p9_device *d = container_of(base, struct p9_device, v.base);

	p9_destroy(d->p9);
	share_close(d->share);
	free(d);
}

static void describe(struct p9_device *d, const struct p9_device_config *cfg)
{
	const size_t len = strlen(cfg->tag);

	d->v.ops = &p9_ops;
	d->v.id = VIRTIO_ID_9P;
	d->v.features = 1ull << VIRTIO_9P_MOUNT_TAG;
	d->v.nqueues = 1;
	d->v.poll_us = cfg->poll_us;
	d->v.queue_size = (uint16_t)cfg->queue_size;
	d->v.req_size = sizeof(struct p9_request);
	d->v.config = &d->space;
	d->v.config_len = (uint32_t)(sizeof(d->space.len) + len);
	d->space.len = le16_of((uint16_t)len);
	memcpy(d->space.tag, cfg->tag, MIN(len, sizeof(d->space.tag)));
}

/* What the single options cannot say: a message has to fit into a ring, page by page (E1). */
static int check(const char *name, const struct p9_device_config *cfg)
{
	const uint32_t most = (cfg->queue_size - HEADER_DESCS) * PAGE;

	if (cfg->p9.msize_max <= most)
		return 0;
	log_err("%s: msize_max %u needs a larger queue: raise queue_size or set at most %u", name,
		cfg->p9.msize_max, most);
	return -EINVAL;
}

static int p9_device_create(struct vm *vm, const void *config, unsigned index, struct device **out)
{
	const struct p9_device_config *cfg = config;
	struct p9_device *d = calloc(1, sizeof(*d));
	int r;

	(void)vm;
	if (!d)
		return -ENOMEM;
	device_init(&d->v.base, &p9_device, index, p9_device_destroy);
	describe(d, cfg);
	r = check(d->v.base.name, cfg);
	if (!r)
		r = share_open(&d->share, d->v.base.name, &cfg->share);
	if (!r)
		r = p9_create(&d->p9, d->v.base.name, d->share, &cfg->p9);
	if (r)
		goto fail;
	*out = &d->v.base;
	return 0;
fail:
	p9_device_destroy(&d->v.base);
	return r;
}

/* ---- options ---- */

static const char *const multidevs_names[] = {"remap", "forbid", "warn", NULL};

#define F(member) offsetof(struct p9_device_config, member)
static const struct opt p9_opts[] = {
	{.key = "tag",
	 .kind = OPT_STR,
	 .offset = F(tag),
	 .required = true,
	 .min = 1,
	 .max = TAG_MAX,
	 .help = "what the guest mounts: mount -t 9p -o trans=virtio,version=9p2000.L TAG DIR"},
	SHARE_OPTS(struct p9_device_config, share),
	{.key = "multidevs",
	 .kind = OPT_ENUM,
	 .offset = F(p9.multidevs),
	 .def = "remap",
	 .names = multidevs_names,
	 .help = "file systems mounted below the directory: remap, their files' numbers are made "
		 "unique; warn, and it is said; forbid, they are not there"},
	{.key = "msize_max",
	 .kind = OPT_U32,
	 .offset = F(p9.msize_max),
	 .def = "1048576",
	 .min = P9_MSIZE_MIN,
	 .max = MSIZE_LIMIT,
	 .help = "bytes of the largest message; the guest asks for its own with -o msize="},
	{.key = "queue_size",
	 .kind = OPT_U32,
	 .offset = F(queue_size),
	 .def = "512",
	 .min = 64,
	 .max = 1024,
	 .check = opt_check_pow2,
	 .help = "descriptors of the queue, a power of two"},
	{.key = "poll_us",
	 .kind = OPT_U32,
	 .offset = F(poll_us),
	 .def = "50",
	 .max = 1000,
	 .help = "microseconds the thread looks for requests before it sleeps"},
};

const struct device_type p9_device = {
	.name = "9p",
	.section = "p9",
	.flag = "p9",
	.help = "a directory of the host, by virtio-9p",
	.id_key = "tag",
	.class = DEVICE_VIRTIO,
	.many = true,
	.opts = {p9_opts, ARRAY_LEN(p9_opts), sizeof(struct p9_device_config)},
	.syscalls = &share_syscalls,
	.create = p9_device_create,
};
