// SPDX-License-Identifier: Apache-2.0
/*
 * data.c - what is in files: reading, writing, their ends, holes, space, copies.
 *
 * Hard cases D46, D47, D48, D61. Where file systems differ, the same is done to a file of the host's and compared.
 */
#include "suite.h"

/* ---- reading and writing ---- */

static void ends(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "0123456789");
	struct fs_file *f = open_obj(o, O_RDWR);
	char buf[32];

	want(fs->read(f, buf, sizeof(buf), 0), 10);
	want(fs->read(f, buf, sizeof(buf), 9), 1);
	want(fs->read(f, buf, sizeof(buf), 10), 0);
	want(fs->read(f, buf, sizeof(buf), 1 << 20), 0);
	want(fs->read(f, buf, 0, 0), 0);
	want(fs->write(f, buf, 0, 5, 0), 0);
	want(attr_of(o).stx_size, 10);
	want(fs->write(f, "x", 1, 20, 0), 1);
	want(fs->read(f, buf, sizeof(buf), 0), 21);
	must(!memcmp(buf, "0123456789\0\0\0\0\0\0\0\0\0\0x", 21));
	want(fs->read(f, buf, 1, UINT64_MAX), -EINVAL);
	want(fs->read(f, buf, 1, (uint64_t)INT64_MAX + 1), -EINVAL);
	want(fs->write(f, buf, 1, UINT64_MAX, 0), -EINVAL);
	must(fs->write(f, buf, 16, INT64_MAX - 3, 0) < 0); /* EFBIG, or EINVAL as it overflows */
	want(attr_of(o).stx_size, 21);
	fs->release(f);
	fs->forget(o);
}

static void large(void)
{
	static const size_t sizes[] = {4096, 65537, MIB(1), MIB(2) + 12345};
	struct fs_obj *o = make_file(bed.dir, "f", "");
	struct fs_file *f = open_obj(o, O_RDWR);
	const size_t most = MIB(3);
	uint8_t *out = malloc(most), *in = malloc(most);

	must(out && in);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		const uint64_t at = i * 1001;

		fill(out, sizes[i], i);
		want(fs->write(f, out, sizes[i], at, 0), sizes[i]);
		memset(in, 0, most);
		want(fs->read(f, in, sizes[i], at), sizes[i]);
		must(!memcmp(in, out, sizes[i]));
	}
	want(fs->fsync(f, false), 0);
	free(out);
	free(in);
	fs->release(f);
	fs->forget(o);
}

/* D61: offsets have 64 bits, holes cost nothing. */
static void sparse(void)
{
	static const uint64_t at[] = {0, GIB(4) - 3, GIB(4) + 4096, (uint64_t)1 << 40};
	struct fs_obj *o = make_file(bed.dir, "f", "");
	struct fs_file *f = open_obj(o, O_RDWR);
	struct statx st;
	char buf[16];

	for (unsigned i = 0; i < ARRAY_LEN(at); i++)
		want(fs->write(f, "sparse", 6, at[i], 0), 6);
	want(fs->fsync(f, false), 0);
	st = attr_of(o);
	want(st.stx_size, at[3] + 6);
	must(st.stx_blocks > 0 && st.stx_blocks < 1024);
	want(st.stx_blocks, host_stat("f").st_blocks);
	for (unsigned i = 0; i < ARRAY_LEN(at); i++) {
		want(fs->read(f, buf, 6, at[i]), 6);
		must(!memcmp(buf, "sparse", 6));
	}
	want(fs->read(f, buf, 8, GIB(2)), 8);
	must(!memcmp(buf, "\0\0\0\0\0\0\0\0", 8));
	fs->release(f);
	fs->forget(o);
}

/* ---- holes ---- */

static void holes(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "");
	struct fs_file *f = open_obj(o, O_RDWR);
	int h;

	want(fs->write(f, "data", 4, KIB(64), 0), 4);
	want(fs->write(f, "data", 4, MIB(1), 0), 4);
	want(fs->fsync(f, false), 0);
	/* A guest that may keep what is written takes all for data. */
	if (fs->lseek(f, 0, SEEK_DATA) == -ENOSYS) {
		fs->release(f);
		fs->forget(o);
		return;
	}
	host(h = openat(bed.host, "f", O_RDONLY | O_CLOEXEC));
	for (uint64_t at = 0; at < MIB(1) + KIB(16); at += 4093) {
		for (unsigned i = 0; i < 2; i++) {
			const int whence = i ? SEEK_HOLE : SEEK_DATA;
			const off_t there = lseek(h, (off_t)at, whence);

			want(fs->lseek(f, at, whence), there < 0 ? -errno : there);
		}
	}
	want(fs->lseek(f, MIB(1) + 4, SEEK_DATA), -ENXIO);
	want(fs->lseek(f, MIB(1) + 4, SEEK_HOLE), -ENXIO);
	want(fs->lseek(f, GIB(9), SEEK_HOLE), -ENXIO);
	must(fs->lseek(f, UINT64_MAX, SEEK_DATA) < 0);
	want(fs->lseek(f, 0, 77), -EINVAL);
	close(h);
	fs->release(f);
	fs->forget(o);
}

/* ---- space: D47 ---- */

/* Both files hold the same. */
static void alike(struct fs_file *f, int h)
{
	static char a[KIB(256)], b[KIB(256)];
	const ssize_t n = pread(h, b, sizeof(b), 0);

	want(fs->read(f, a, sizeof(a), 0), n);
	must(!memcmp(a, b, (size_t)n));
}

static void modes(void)
{
	static const struct {
		int mode;
		uint64_t off, len;
	} some[] = {
		{0, 0, 100},
		{0, 0, KIB(40)},
		{0, KIB(8), KIB(4)}, /* never shrinks */
		{FALLOC_FL_KEEP_SIZE, KIB(60), KIB(40)},
		{FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5000, 10000},
		{FALLOC_FL_PUNCH_HOLE, 0, 4096}, /* not without the other */
		{FALLOC_FL_ZERO_RANGE, 20000, 4000},
		{FALLOC_FL_ZERO_RANGE, KIB(36), KIB(8)},
		{FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, KIB(44), KIB(60)},
		{FALLOC_FL_COLLAPSE_RANGE, 0, KIB(4)},
		{FALLOC_FL_COLLAPSE_RANGE, 1, KIB(4)},
		{FALLOC_FL_INSERT_RANGE, KIB(4), KIB(8)},
		{0x4000, 0, 4096},
		{0, 0, 0},
	};
	struct fs_obj *o = make_file(bed.dir, "f", "");
	struct fs_file *f = open_obj(o, O_RDWR);
	static char data[KIB(32)];
	int h;

	host(h = openat(bed.beside, "plain/f", O_RDWR | O_CREAT | O_CLOEXEC, 0644));
	fill(data, sizeof(data), 1);
	want(fs->write(f, data, sizeof(data), 0, 0), sizeof(data));
	must(pwrite(h, data, sizeof(data), 0) == sizeof(data));
	for (unsigned i = 0; i < ARRAY_LEN(some); i++) {
		const int r = fallocate(h, some[i].mode, (off_t)some[i].off, (off_t)some[i].len);

		want(fs->fallocate(f, some[i].mode, some[i].off, some[i].len), r ? -errno : 0);
		alike(f, h);
	}
	must(fs->fallocate(f, 0, (uint64_t)INT64_MAX - 1, 4096) < 0);
	must(fs->fallocate(f, 0, UINT64_MAX, UINT64_MAX) < 0);
	close(h);
	fs->release(f);
	fs->forget(o);
}

/* ---- copies: D48 ---- */

static void copies(void)
{
	struct fs_obj *a = make_file(bed.dir, "a", ""), *b = make_file(bed.dir, "b", "");
	struct fs_file *from = open_obj(a, O_RDWR), *to = open_obj(b, O_RDWR);
	static char data[KIB(96)], back[KIB(96)];

	fill(data, sizeof(data), 2);
	want(fs->write(from, data, sizeof(data), 0, 0), sizeof(data));
	want(fs->copy(from, 0, to, 0, sizeof(data)), sizeof(data));
	want(fs->read(to, back, sizeof(back), 0), sizeof(data));
	must(!memcmp(data, back, sizeof(data)));
	want(fs->copy(from, 1000, to, 77, 5000), 5000);
	want(fs->read(to, back, 5000, 77), 5000);
	must(!memcmp(data + 1000, back, 5000));
	/* To the end and no further, whatever is asked for. */
	want(fs->copy(from, sizeof(data) - 10, to, 0, UINT32_MAX), 10);
	want(fs->copy(from, sizeof(data), to, 0, 100), 0);
	want(fs->copy(from, 0, to, 0, 0), 0);
	/* Within one file: not onto itself. */
	want(fs->copy(from, 0, from, 10, 100), -EINVAL);
	want(fs->copy(from, 0, from, sizeof(data), 1000), 1000);
	want(attr_of(a).stx_size, sizeof(data) + 1000);
	must(fs->copy(from, 0, to, INT64_MAX, 100) < 0);
	must(fs->copy(from, UINT64_MAX, to, 0, 100) < 0);
	fs->release(from);
	fs->release(to);
	fs->forget(a);
	fs->forget(b);
}

/* ---- flags of a file ---- */

static void file_flags(void)
{
	enum { GETFLAGS = 0x80086601, SETFLAGS = 0x40086602, NODUMP = 0x40 };
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct fs_file *f = open_obj(o, O_RDWR);
	uint32_t flags = 0, now = 0;
	ssize_t n = fs->ioctl(f, (unsigned)GETFLAGS, &flags, 0, sizeof(flags));

	if (n == -ENOTTY)
		skip_test("the host's file system has none");
	want(n, sizeof(flags));
	flags |= NODUMP;
	want(fs->ioctl(f, SETFLAGS, &flags, sizeof(flags), 0), 0);
	want(fs->ioctl(f, (unsigned)GETFLAGS, &now, 0, sizeof(now)), sizeof(now));
	want(now, flags);
	/* D45: what is not in the list there is not. */
	want(fs->ioctl(f, 0x1234, &now, 0, sizeof(now)), -ENOTTY);
	want(fs->ioctl(f, 0x5401, &now, 0, sizeof(now)), -ENOTTY);
	want(fs->ioctl(f, 0xc0045877, &now, sizeof(now), sizeof(now)), -ENOTTY); /* FIFREEZE */
	fs->release(f);
	fs->forget(o);
}

static void syncs(void)
{
	struct fs_obj *root = fs->root(), *o = make_file(bed.dir, "f", "x");

	want(fs->syncfs(o), 0);
	want(fs->syncfs(bed.dir), 0);
	want(fs->syncfs(root), 0);
	fs->forget(root);
	fs->forget(o);
}

const struct fs_test data_tests[] = {
	{"reading and writing at the end and past it", ends, 0, 0},
	{"large pieces come back as they were", large, 0, 0},
	{"a file of a tebibyte, most of it holes", sparse, 0, 0},
	{"syncs of a file system", syncs, 0, FS_SYNCFS},
	{0},
};

const struct fs_test space_tests[] = {
	{"data and holes are where the host has them", holes, 0, FS_SEEK},
	{"fallocate does what it does on the host", modes, 0, FS_SPACE},
	{"ranges are copied", copies, 0, FS_COPY},
	{"flags of a file", file_flags, 0, FS_IOCTL},
	{0},
};
