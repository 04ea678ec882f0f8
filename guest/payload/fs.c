// SPDX-License-Identifier: Apache-2.0
/*
 * fs.c - the FUSE client: session and single requests.
 * Spec: virtio 1.2, 5.11.6; linux/fuse.h. Calls: vq.c.
 */
#include "fs.h"

/* Static: devices read and write them. */
static struct {
	struct vdev *dev;
	uint64_t unique;
	unsigned faults;
	struct fuse_init_out init;
} fs;

struct vq *fs_queue(void)
{
	return &fs.dev->q[1];
}

const struct fuse_init_out *fs_session(void)
{
	return &fs.init;
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

void fs_up(struct vdev *d)
{
	static struct fuse_init_in in;

	if (fs.dev == d)
		return;
	fs.dev = d;
	virtio_up(d, virtio_ring_features(), 2);
	vq_depth(fs_queue(), 1, 2 * FS_SEGS);
	in = (struct fuse_init_in){.major = FUSE_KERNEL_VERSION,
				   .minor = 31,
				   .max_readahead = 131072,
				   .flags = FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC |
					    FUSE_BIG_WRITES | FUSE_DO_READDIRPLUS |
					    FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO |
					    FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES};
	/* The body of 7.31 ends before flags2. */
	if (fs_do(FUSE_INIT, 0,
		  &(struct fs_args){.arg = &in,
				    .arg_len = offsetof(struct fuse_init_in, flags2),
				    .out = &fs.init,
				    .out_len = sizeof(fs.init)}) < 0)
		give_up("fs: FUSE_INIT is refused");
}

/* ---- single requests ---- */

long fs_lookup(uint64_t dir, const char *name, struct fuse_entry_out *e)
{
	*e = (struct fuse_entry_out){0};
	return fs_do(FUSE_LOOKUP, dir,
		     &(struct fs_args){.name = name, .out = e, .out_len = sizeof(*e)});
}

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

long fs_getattr(uint64_t node, struct fuse_attr *a)
{
	static struct fuse_getattr_in in;
	static struct fuse_attr_out out;
	long r = fs_do(
		FUSE_GETATTR, node,
		&(struct fs_args){
			.arg = &in, .arg_len = sizeof(in), .out = &out, .out_len = sizeof(out)});

	*a = out.attr;
	return r;
}

long fs_open(uint32_t op, uint64_t node, uint32_t flags, uint64_t *fh)
{
	struct fuse_open_in in = {.flags = flags};
	struct fuse_open_out out = {0};
	long r = fs_do(
		op, node,
		&(struct fs_args){
			.arg = &in, .arg_len = sizeof(in), .out = &out, .out_len = sizeof(out)});

	*fh = out.fh;
	return r;
}

long fs_release(uint32_t op, uint64_t node, uint64_t fh)
{
	struct fuse_release_in in = {.fh = fh};

	return fs_do(op, node, &(struct fs_args){.arg = &in, .arg_len = sizeof(in)});
}

long fs_create(uint64_t dir, const char *name, uint32_t flags, struct fuse_entry_out *e,
	       uint64_t *fh)
{
	struct fuse_create_in in = {.flags = flags | O_CREAT, .mode = S_IFREG | 0644};
	struct {
		struct fuse_entry_out e;
		struct fuse_open_out o;
	} out = {0};
	long r = fs_do(FUSE_CREATE, dir,
		       &(struct fs_args){.arg = &in,
					 .arg_len = sizeof(in),
					 .name = name,
					 .out = &out,
					 .out_len = sizeof(out)});

	*e = out.e;
	*fh = out.o.fh;
	return r;
}

long fs_read(uint32_t op, uint64_t node, uint64_t fh, uint64_t off, const struct seg *data,
	     uint32_t n)
{
	struct fuse_read_in in = {.fh = fh, .offset = off, .size = seg_sum(data, n)};

	return fs_call(op, node, &(struct seg){&in, sizeof(in)}, 1, data, n);
}

long fs_write(uint64_t node, uint64_t fh, uint64_t off, const struct seg *data, uint32_t n)
{
	struct fuse_write_in in = {.fh = fh, .offset = off, .size = seg_sum(data, n)};
	struct fuse_write_out out = {0};
	struct seg all[FS_SEGS] = {{&in, sizeof(in)}};
	long r;

	memcpy(all + 1, data, n * sizeof(*data));
	r = fs_call(FUSE_WRITE, node, all, n + 1, &(struct seg){&out, sizeof(out)}, 1);
	return r < 0 ? r : (long)out.size;
}
