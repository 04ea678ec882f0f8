// SPDX-License-Identifier: Apache-2.0
/*
 * fs.c - the FUSE client: session, one request to its end, forgets.
 * Spec: virtio 1.2, 5.11.6; linux/fuse.h. Calls: vq.c.
 */
#include "fs.h"
#include <linux/virtio_fs.h>

/* What every session asks for. */
#define FLAGS                                                                            \
	(FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES | FUSE_DO_READDIRPLUS | \
	 FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES)

/* Static: devices read and write them. */
static struct {
	struct vdev *dev;
	unsigned queues, current;
	uint64_t wanted; /* flags, beside FLAGS */
	uint64_t unique;
	unsigned faults;
	struct fuse_init_out init;
} fs;

struct vq *fs_queue(void)
{
	return &fs.dev->q[1 + fs.current];
}

unsigned fs_queues(void)
{
	return fs.queues;
}

void fs_use_queue(unsigned i)
{
	fs.current = i;
}

const struct fuse_init_out *fs_session(void)
{
	return &fs.init;
}

uint64_t fs_session_flags(void)
{
	return fs.init.flags | (fs.init.flags & FUSE_INIT_EXT ? (uint64_t)fs.init.flags2 << 32 : 0);
}

unsigned fs_faults(void)
{
	return fs.faults;
}

uint32_t seg_sum(const struct seg *s, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += s[i].len;
	return sum;
}

static uint32_t seg_append(struct seg *to, uint32_t n, const struct seg *s, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (s[i].len)
			to[n++] = s[i];
	return n;
}

struct fuse_in_header *fs_header(uint32_t slot, uint32_t op, uint64_t node, uint32_t body)
{
	struct fuse_in_header *h = (void *)hdr_out[slot];

	*h = (struct fuse_in_header){.len = (uint32_t)sizeof(*h) + body,
				     .opcode = op,
				     .unique = fs.unique += 2,
				     .nodeid = node};
	return h;
}

long fs_call(uint32_t op, uint64_t node, const struct seg *in, uint32_t nin, const struct seg *out,
	     uint32_t nout)
{
	struct fuse_out_header *o = (void *)hdr_in[0];
	struct fuse_in_header *h = fs_header(0, op, node, seg_sum(in, nin));
	struct seg s[2 * FS_SEGS] = {{h, sizeof(*h)}};
	uint32_t n = seg_append(s, 1, in, nin), readable = n, len;

	s[n] = (struct seg){o, sizeof(*o)};
	n = seg_append(s, n + 1, out, nout);
	*o = (struct fuse_out_header){0};
	len = vq_call(fs_queue(), s, readable, n - readable);
	if (o->unique != h->unique || o->len != len || len < sizeof(*o) || o->error > 0 ||
	    o->error <= -512) {
		fs.faults++;
		return -EPROTO;
	}
	return o->error ? o->error : (long)(len - sizeof(*o));
}

long fs_do(uint32_t op, uint64_t node, const struct fs_args *a)
{
	struct seg in[] = {{a->arg, a->arg_len},
			   {a->name, a->name ? (uint32_t)strlen(a->name) + 1 : 0},
			   {a->name2, a->name2 ? (uint32_t)strlen(a->name2) + 1 : 0}};
	struct seg out = {a->out, a->out_len};

	return fs_call(op, node, in, ARRAY_LEN(in), &out, 1);
}

void fs_down(void)
{
	fs.dev = NULL;
}

static void session_begin(uint64_t flags)
{
	static struct fuse_init_in in;
	uint64_t all = FLAGS | flags | (flags ? FUSE_INIT_EXT : 0);

	in = (struct fuse_init_in){.major = FUSE_KERNEL_VERSION,
				   .minor = flags ? FUSE_KERNEL_MINOR_VERSION : 31,
				   .max_readahead = 131072,
				   .flags = (uint32_t)all,
				   .flags2 = (uint32_t)(all >> 32)};
	fs.init = (struct fuse_init_out){0};
	/* The body of 7.31 ends before flags2. */
	if (fs_do(FUSE_INIT, 0,
		  &(struct fs_args){.arg = &in,
				    .arg_len = flags ? sizeof(in)
						     : offsetof(struct fuse_init_in, flags2),
				    .out = &fs.init,
				    .out_len = sizeof(fs.init)}) < 0)
		give_up("fs: FUSE_INIT is refused");
}

void fs_up_as(struct vdev *d, unsigned queues, uint64_t flags)
{
	unsigned most = (unsigned)virtio_config(
		d, offsetof(struct virtio_fs_config, num_request_queues), 4);

	queues = MIN(MIN(MAX(queues, 1u), most), VDEV_QUEUES - 1u);
	if (fs.dev == d && fs.queues == queues && fs.wanted == flags &&
	    virtio_status(d) == STATUS_DRIVER_OK) {
		fs.current = 0;
		return;
	}
	fs.dev = d;
	fs.queues = queues;
	fs.wanted = flags;
	virtio_up(d, virtio_ring_features(), 1 + queues);
	for (unsigned i = 0; i < queues; i++)
		vq_depth(&d->q[1 + i], 1, 2 * FS_SEGS);
	fs.current = 0;
	session_begin(flags);
}

void fs_up(struct vdev *d)
{
	fs_up_as(d, 1, 0);
}

/* ---- forgets ---- */

/* To the high-priority queue; there is no reply. */
void fs_forget(uint64_t node, uint64_t n)
{
	static struct {
		struct fuse_in_header h;
		struct fuse_forget_in in;
	} m;
	struct seg s = {&m, sizeof(m)};

	m.h = (struct fuse_in_header){
		.len = sizeof(m), .opcode = FUSE_FORGET, .unique = fs.unique += 2, .nodeid = node};
	m.in.nlookup = n;
	vq_call(&fs.dev->q[0], &s, 1, 0);
}

void fs_forget_many(const struct fuse_forget_one *ones, uint32_t n)
{
	static struct {
		struct fuse_in_header h;
		struct fuse_batch_forget_in in;
	} m;
	uint32_t len = n * (uint32_t)sizeof(*ones);
	struct seg s[] = {{&m, sizeof(m)}, {ones, len}};

	m.h = (struct fuse_in_header){.len = (uint32_t)sizeof(m) + len,
				      .opcode = FUSE_BATCH_FORGET,
				      .unique = fs.unique += 2};
	m.in.count = n;
	vq_call(&fs.dev->q[0], s, ARRAY_LEN(s), 0);
}
