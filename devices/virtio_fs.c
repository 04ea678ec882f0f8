// SPDX-License-Identifier: Apache-2.0
/*
 * virtio_fs.c - virtio-fs: the glue between queues and the FUSE server, and the registry row.
 *
 * Queue 0 is for forgets, the others for everything else. The first two are served by the first iothread, so a forget
 * never waits behind more than the request being served (hard case D1); further ones have a thread each (D68). A chain
 * is a FUSE message: its readable part the request, its writable part the room for the reply. Spec: virtio 1.2, 5.11.
 * On the iothreads but for create and destroy. Calls: fuse.h, dax.h, share.h, virtq.h.
 */
#include "virtio_fs.h"
#include "dax.h"
#include "table.h"
#include "virtio.h"
#include <linux/virtio_fs.h>
#include <stdio.h>

#define HIPRIO_QUEUES 1
#define MAX_QUEUES    32
#define MAX_IO        MIB(1)
#define MAX_DAX       KIB(64) /* in MiB: what window_create() takes */
#define PAGE          4096u
#define HEADER_DESCS  4 /* what a Linux guest keeps of a ring's descriptors for headers (D7) */

struct fs {
	struct virtio_dev v;
	struct virtio_fs_config space;
	struct share *share;
	struct dax *dax; /* NULL: no window */
	struct fuse *fuse;
	struct watch changed; /* of dax */
};

struct fs_request {
	struct chain chain; /* first: the queue's slot is this struct */
	struct fuse_req fuse;
};

/* ---- requests ---- */

static void fs_reply(struct fuse_req *f, uint32_t written)
{
	virtq_push(&container_of(f, struct fs_request, fuse)->chain, written);
}

static int fs_serve(struct fs *fs, struct chain *c)
{
	struct fs_request *req = container_of(c, struct fs_request, chain);
	int r;

	req->fuse.rd = c->iov;
	req->fuse.nrd = c->nrd;
	req->fuse.wr = c->iov + c->nrd;
	req->fuse.nwr = c->nwr;
	req->fuse.io = c->vq->io;
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

	while ((r = virtq_pop(vq, &c)) == 1) {
		r = fs_serve(fs, c);
		if (r)
			break;
	}
	if (r < 0)
		virtio_broken(v, vq, "not a chain with a FUSE message");
}

/* ---- life ---- */

static void fs_changed(struct watch *w)
{
	fuse_window_changed(container_of(w, struct fs, changed)->fuse);
}

/* Changes of mapped files are looked at on the first thread, for as long as that runs. */
static int fs_watch(struct fs *fs)
{
	if (!fs->dax || dax_events(fs->dax) < 0 || !iothread_current(fs->v.io))
		return 0;
	fs->changed = (struct watch){
		.fd = dax_events(fs->dax), .kind = WATCH_READABLE, .ready = fs_changed};
	return loop_watch(fs->v.io, &fs->changed);
}

static int fs_thread_init(struct virtio_dev *v)
{
	struct fs *fs = container_of(v, struct fs, v);
	int r = share_thread_init(fs->share);

	return r ? r : fs_watch(fs);
}

/* The guest's session ends with the device's reset; what is in flight finishes by itself (A18). */
static void fs_stop(struct virtio_dev *v)
{
	fuse_reset(container_of(v, struct fs, v)->fuse);
}

static const struct virtio_ops fs_ops = {
	.thread_init = fs_thread_init, .kick = fs_kick, .stop = fs_stop};

static void fs_destroy(struct device *d)
{
	struct fs *fs = container_of(d, struct fs, v.base);

	fuse_destroy(fs->fuse);
	dax_destroy(fs->dax);
	share_close(fs->share);
	free(fs);
}

static void fs_describe(struct fs *fs, const struct fs_config *cfg)
{
	fs->v.ops = &fs_ops;
	fs->v.id = VIRTIO_ID_FS;
	fs->v.nqueues = (uint16_t)(HIPRIO_QUEUES + cfg->queues);
	fs->v.nthreads = (uint16_t)cfg->queues;
	fs->v.poll_us = cfg->poll_us;
	fs->v.queue_size = (uint16_t)cfg->queue_size;
	fs->v.req_size = sizeof(struct fs_request);
	fs->v.config = &fs->space;
	fs->v.config_len = sizeof(fs->space);
	memcpy(fs->space.tag, cfg->tag, MIN(strlen(cfg->tag), sizeof(fs->space.tag)));
	fs->space.num_request_queues = htole32(cfg->queues);
}

/* What the single options cannot say. */
static int fs_check(const char *name, const struct fs_config *cfg)
{
	if (!cfg->fuse.writeback || cfg->fuse.cache != FUSE_CACHE_NEVER)
		return 0;
	log_err("%s: writeback is a cache, and cache is never: choose cache auto or always, or "
		"leave "
		"writeback out",
		name);
	return -EINVAL;
}

static int fs_window(struct fs *fs, struct vm *vm, uint32_t mib)
{
	int r = dax_create(&fs->dax, vm, fs->v.base.name, MIB(mib));

	if (r)
		return r;
	fs->v.shm = dax_window(fs->dax);
	fs->v.shm_id = VIRTIO_FS_SHMCAP_ID_CACHE;
	return 0;
}

static int fs_create(struct vm *vm, const void *config, unsigned index, struct device **out)
{
	const struct fs_config *cfg = config;
	const uint32_t max_io = MIN((uint32_t)MAX_IO, (cfg->queue_size - HEADER_DESCS) * PAGE);
	struct fs *fs = calloc(1, sizeof(*fs));
	int r;

	if (!fs)
		return -ENOMEM;
	device_init(&fs->v.base, &fs_device, index, fs_destroy);
	fs_describe(fs, cfg);
	r = fs_check(fs->v.base.name, cfg);
	if (!r)
		r = share_open(&fs->share, fs->v.base.name, &cfg->share);
	if (!r && cfg->dax)
		r = fs_window(fs, vm, cfg->dax);
	if (!r)
		r = fuse_create(&fs->fuse, fs->share, fs->dax, &cfg->fuse, max_io, cfg->queues > 1);
	if (r)
		goto fail;
	*out = &fs->v.base;
	return 0;
fail:
	fs_destroy(&fs->v.base);
	return r;
}

/* ---- options ---- */

static const char *const cache_names[] = {"never", "auto", "always", NULL};
static const char *const dax_names[] = {"mount", "inode", NULL};

static bool dax_check(const void *number, char err[OPT_ERR_MAX])
{
	const uint64_t mib = *(const uint64_t *)number;

	if (!mib || (mib != 1 && is_pow2(mib)))
		return true;
	snprintf(err, OPT_ERR_MAX, "must be 0, or a power of two from 2 on");
	return false;
}

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
	{.key = "security_label",
	 .kind = OPT_BOOL,
	 .offset = F(share.security_label),
	 .def = "false",
	 .help = "create objects with the security label that the guest asks for"},
	{.key = "submounts",
	 .kind = OPT_BOOL,
	 .offset = F(share.submounts),
	 .def = "true",
	 .help = "mount points below the directory are such in the guest too; false for overlayfs "
		 "above the share"},
	{.key = "cache",
	 .kind = OPT_ENUM,
	 .offset = F(fuse.cache),
	 .def = "auto",
	 .names = cache_names,
	 .help = "what the guest may keep: never anything, auto a second, always until it forgets"},
	TTL(entry_ttl_ms, "a name"),
	TTL(attr_ttl_ms, "attributes"),
	TTL(negative_ttl_ms, "that a name does not exist"),
	{.key = "writeback",
	 .kind = OPT_BOOL,
	 .offset = F(fuse.writeback),
	 .def = "false",
	 .help = "the guest may hold writes back: for files that only it changes"},
	{.key = "dax",
	 .kind = OPT_U32,
	 .offset = F(dax),
	 .def = "0",
	 .max = MAX_DAX,
	 .check = dax_check,
	 .help = "MiB of the window that files are mapped in, so that reading them makes no "
		 "request; "
		 "0: none"},
	{.key = "dax_policy",
	 .kind = OPT_ENUM,
	 .offset = F(fuse.dax_policy),
	 .def = "mount",
	 .names = dax_names,
	 .help = "which files are mapped: mount, all where the guest mounts with -o dax; inode, "
		 "those of dax_min_size or more"},
	{.key = "dax_min_size",
	 .kind = OPT_U32,
	 .offset = F(fuse.dax_min_size),
	 .def = "32768",
	 .help = "bytes of the smallest file that dax_policy inode maps"},
	{.key = "queues",
	 .kind = OPT_U32,
	 .offset = F(queues),
	 .def = "1",
	 .min = 1,
	 .max = MAX_QUEUES,
	 .help = "request queues, each with a thread; Linux 6.9 and later use more than one"},
	{.key = "queue_size",
	 .kind = OPT_U32,
	 .offset = F(queue_size),
	 .def = "1024",
	 .min = 64,
	 .max = 1024,
	 .check = opt_check_pow2,
	 .help = "descriptors of each queue, a power of two"},
	{.key = "poll_us",
	 .kind = OPT_U32,
	 .offset = F(poll_us),
	 .def = "50",
	 .max = 1000,
	 .help = "microseconds a thread looks for requests before it sleeps"},
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
