// SPDX-License-Identifier: Apache-2.0
/*
 * fs_op.c - the FUSE client's single requests: a struct of arguments out, a struct of results back.
 * Spec: linux/fuse.h. Calls: fs.c.
 */
#include "fs.h"
#include "pattern.h"

#define PIECES   12
#define DATA_MAX (64u << 10)

long fs_lookup(uint64_t dir, const char *name, struct fuse_entry_out *e)
{
	*e = (struct fuse_entry_out){0};
	return fs_do(FUSE_LOOKUP, dir,
		     &(struct fs_args){.name = name, .out = e, .out_len = sizeof(*e)});
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

long fs_mkdir(uint64_t dir, const char *name, struct fuse_entry_out *e)
{
	struct fuse_mkdir_in in = {.mode = 0755};

	return fs_do(FUSE_MKDIR, dir,
		     &(struct fs_args){.arg = &in,
				       .arg_len = sizeof(in),
				       .name = name,
				       .out = e,
				       .out_len = sizeof(*e)});
}

long fs_remove(uint32_t op, uint64_t dir, const char *name)
{
	return fs_do(op, dir, &(struct fs_args){.name = name});
}

long fs_rename(uint64_t dir, const char *from, const char *to, uint32_t flags)
{
	struct fuse_rename2_in in = {.newdir = dir, .flags = flags};

	return fs_do(
		FUSE_RENAME2, dir,
		&(struct fs_args){.arg = &in, .arg_len = sizeof(in), .name = from, .name2 = to});
}

long fs_setattr(uint64_t node, const struct fuse_setattr_in *in, struct fuse_attr *a)
{
	struct fuse_attr_out out = {0};
	long r = fs_do(
		FUSE_SETATTR, node,
		&(struct fs_args){
			.arg = in, .arg_len = sizeof(*in), .out = &out, .out_len = sizeof(out)});

	*a = out.attr;
	return r;
}

unsigned fs_transfer(uint64_t node, uint64_t fh, uint32_t len, uint32_t seed, bool write)
{
	unsigned bad = 0;
	uint32_t n;

	for (uint32_t off = 0; off < len; off += n) {
		struct seg s[PIECES];
		uint32_t pieces;

		n = 1 + random_below(MIN(len - off, DATA_MAX));
		memset(pool, 0, n + 16 * PIECES);
		pieces = seg_scatter(s, pool, n, 1 + random_below(PIECES));
		if (write) {
			seg_fill(s, pieces, seed, off);
			bad += fs_write(node, fh, off, s, pieces) != n;
		} else {
			bad += fs_read(FUSE_READ, node, fh, off, s, pieces) != n ||
			       !seg_check(s, pieces, seed, off);
		}
	}
	return bad;
}
