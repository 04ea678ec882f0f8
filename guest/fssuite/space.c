// SPDX-License-Identifier: Apache-2.0
/*
 * space.c - holes, allocation in every mode, copying inside the file system, sizes of files and of the
 * file system.
 */
#include "suite.h"
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#define BLOCK 65536 /* a multiple of every block size there is */

static bool check_sparse(void)
{
	static const off_t far = 5ll << 30;
	char c = 'x';
	struct stat st;
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0);
	must(pwrite(fd, "end", 3, far) == 3 && fsync(fd) == 0);
	must(fstat(fd, &st) == 0 && st.st_size == far + 3 && st.st_blocks < 1024);
	must(pread(fd, &c, 1, far - 1) == 1 && c == 0);
	must(pread(fd, &c, 1, far + 2) == 1 && c == 'd');
	must(ftruncate(fd, 5ll << 40) == 0 && fstat(fd, &st) == 0 && st.st_size == 5ll << 40);
	must(pread(fd, &c, 1, (5ll << 40) - 1) == 1 && c == 0 && st.st_blocks < 1024);
	return true;
}

static bool check_seek_data(void)
{
	char buf[BLOCK];
	off_t hole;
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0);
	fill(buf, sizeof(buf), 1);
	must(pwrite(fd, buf, BLOCK, 0) == BLOCK && pwrite(fd, buf, BLOCK, 32 * BLOCK) == BLOCK);
	must(fsync(fd) == 0 && lseek(fd, 7, SEEK_SET) == 7);
	must(lseek(fd, 0, SEEK_DATA) == 0 && lseek(fd, 10, SEEK_DATA) == 10);
	hole = lseek(fd, 0, SEEK_HOLE);
	must(hole == BLOCK || hole == 33 * BLOCK); /* the latter: holes are not told */
	must(hole != BLOCK || lseek(fd, BLOCK, SEEK_DATA) == 32 * BLOCK);
	must(lseek(fd, 32 * BLOCK, SEEK_HOLE) == 33 * BLOCK);
	must_fail(lseek(fd, 33 * BLOCK, SEEK_DATA), ENXIO);
	must_fail(lseek(fd, 33 * BLOCK, SEEK_HOLE), ENXIO);
	must_fail(lseek(fd, 1ll << 40, SEEK_DATA), ENXIO);
	must(ftruncate(fd, 40 * BLOCK) == 0);
	must(lseek(fd, 0, SEEK_END) == 40 * BLOCK);
	must(hole != BLOCK || lseek(fd, 33 * BLOCK, SEEK_DATA) == -1);
	must_fail(lseek(fd, 0, 77), EINVAL);
	return true;
}

static bool check_allocate(void)
{
	struct stat st;
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644), reader;

	must(fd >= 0 && write(fd, "data", 4) == 4);
	must(fallocate(fd, 0, 0, 100000) == 0 && size_of("f") == 100000);
	must(fallocate(fd, 0, 0, 512) == 0 && size_of("f") == 100000);
	must(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 300000) == 0 && size_of("f") == 100000);
	must(fstat(fd, &st) == 0 && st.st_blocks * 512 >= 300000);
	must(fallocate(fd, 0, 99990, 20) == 0 && size_of("f") == 100010);
	must_fail(fallocate(fd, 0, 0, 0), EINVAL);
	must_fail(fallocate(fd, 0, -1, 10), EINVAL);
	must_fail(fallocate(fd, 0, INT64_MAX - 5, 10), EFBIG);
	must((reader = open("f", O_RDONLY)) >= 0);
	must_fail(fallocate(reader, 0, 0, 200000), EBADF);
	must(size_of("f") == 100010 && ftruncate(fd, 4) == 0 && file_holds("f", "data"));
	must(unlink("f") == 0 && fallocate(fd, 0, 0, 1000) == 0 && fstat(fd, &st) == 0);
	must(st.st_size == 1000);
	return true;
}

/* Three blocks of data at "f". Closing any descriptor is when a kernel that holds writes back asks for the room taken. */
static int three_blocks(uint8_t *buf)
{
	int fd = open("f", O_CREAT | O_RDWR | O_TRUNC, 0644);

	fill(buf, 3 * BLOCK, 2);
	if (fd < 0 || write(fd, buf, 3 * BLOCK) != 3 * BLOCK || fsync(fd) || close(dup(fd)))
		return -1;
	return fd;
}

static bool check_punch(void)
{
	static uint8_t out[3 * BLOCK], in[3 * BLOCK];
	struct stat before, after;
	int fd = three_blocks(out);

	must(fd >= 0 && fstat(fd, &before) == 0);
	must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, BLOCK, BLOCK) == 0);
	must(pread(fd, in, sizeof(in), 0) == sizeof(in) && all_zero(in + BLOCK, BLOCK));
	must(memcmp(in, out, BLOCK) == 0 && memcmp(in + 2 * BLOCK, out + 2 * BLOCK, BLOCK) == 0);
	must(fstat(fd, &after) == 0 && after.st_size == before.st_size);
	must(after.st_blocks < before.st_blocks);
	must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 50) == 0);
	must(pread(fd, in, 200, 0) == 200 && all_zero(in + 100, 50) && in[99] == out[99]);
	must(memcmp(in + 150, out + 150, 50) == 0);
	must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 10 * BLOCK) == 0);
	must(size_of("f") == 3 * BLOCK && pread(fd, in, sizeof(in), 0) == sizeof(in));
	must(all_zero(in, sizeof(in)));
	must_fail(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, BLOCK), EOPNOTSUPP);
	return true;
}

static bool check_zero(void)
{
	static uint8_t out[3 * BLOCK], in[4 * BLOCK];
	int fd = three_blocks(out);

	must(fd >= 0);
	must(fallocate(fd, FALLOC_FL_ZERO_RANGE, 100, BLOCK) == 0);
	must(pread(fd, in, 3 * BLOCK, 0) == 3 * BLOCK && all_zero(in + 100, BLOCK));
	must(memcmp(in, out, 100) == 0);
	must(memcmp(in + BLOCK + 100, out + BLOCK + 100, 2 * BLOCK - 100) == 0);
	must(fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 2 * BLOCK, 2 * BLOCK) == 0);
	must(size_of("f") == 3 * BLOCK);
	must(fallocate(fd, FALLOC_FL_ZERO_RANGE, 2 * BLOCK, 2 * BLOCK) == 0);
	must(size_of("f") == 4 * BLOCK && pread(fd, in, sizeof(in), 0) == sizeof(in));
	must(all_zero(in + 2 * BLOCK, 2 * BLOCK));
	return true;
}

static bool check_collapse(void)
{
	static uint8_t out[3 * BLOCK], in[3 * BLOCK];
	int fd = three_blocks(out);

	must(fd >= 0);
	must(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, BLOCK, BLOCK) == 0);
	must(size_of("f") == 2 * BLOCK && pread(fd, in, sizeof(in), 0) == 2 * BLOCK);
	must(memcmp(in, out, BLOCK) == 0 && memcmp(in + BLOCK, out + 2 * BLOCK, BLOCK) == 0);
	must(fallocate(fd, FALLOC_FL_INSERT_RANGE, BLOCK, BLOCK) == 0);
	must(size_of("f") == 3 * BLOCK && pread(fd, in, sizeof(in), 0) == 3 * BLOCK);
	must(all_zero(in + BLOCK, BLOCK));
	must(memcmp(in + 2 * BLOCK, out + 2 * BLOCK, BLOCK) == 0);
	return true;
}

/* Not supported is one thing, no such call another: programs go another way only at the first. */
static bool refused(int mode)
{
	static uint8_t out[3 * BLOCK];
	int fd = three_blocks(out);

	must(fd >= 0);
	must_fail(fallocate(fd, mode, BLOCK, BLOCK), EOPNOTSUPP);
	must(size_of("f") == 3 * BLOCK && (!have(ALLOC) || fallocate(fd, 0, 0, 4 * BLOCK) == 0));
	return true;
}

static bool check_allocate_refused(void)
{
	return refused(0) && refused(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
}

static bool check_zero_refused(void)
{
	return refused(FALLOC_FL_ZERO_RANGE);
}

static bool check_collapse_refused(void)
{
	return refused(FALLOC_FL_COLLAPSE_RANGE) && refused(FALLOC_FL_INSERT_RANGE);
}

static bool check_copy(void)
{
	static uint8_t out[3 * BLOCK], in[4 * BLOCK];
	off_t from_at = 1000, to_at = 10;
	int from = three_blocks(out), to = open("to", O_CREAT | O_EXCL | O_RDWR, 0644);
	size_t left = 2 * BLOCK;

	must(from >= 0 && to >= 0);
	while (left) {
		ssize_t n = copy_file_range(from, &from_at, to, &to_at, left, 0);

		must(n > 0 && (size_t)n <= left);
		left -= (size_t)n;
	}
	must(from_at == 1000 + 2 * BLOCK && to_at == 10 + 2 * BLOCK);
	must(pread(to, in, sizeof(in), 0) == 10 + 2 * BLOCK && all_zero(in, 10));
	must(memcmp(in + 10, out + 1000, 2 * BLOCK) == 0);
	must(lseek(from, 0, SEEK_SET) == 0 && lseek(to, 0, SEEK_SET) == 0);
	for (left = 0; left < sizeof(out);) { /* more than there is: as much as there is */
		ssize_t n = copy_file_range(from, NULL, to, NULL, 1ul << 40, 0);

		must(n > 0);
		left += (size_t)n;
	}
	must(left == sizeof(out) && copy_file_range(from, NULL, to, NULL, BLOCK, 0) == 0);
	must(pread(to, in, sizeof(in), 0) == sizeof(out) && memcmp(in, out, sizeof(out)) == 0);
	return true;
}

static bool check_copy_errors(void)
{
	static uint8_t out[3 * BLOCK], in[BLOCK];
	off_t a = 0, b = 2 * BLOCK;
	int fd = three_blocks(out), reader, appender, dir;

	must(fd >= 0 && (reader = open("f", O_RDONLY)) >= 0 && file_make("to", "kept"));
	must((appender = open("to", O_WRONLY | O_APPEND)) >= 0);
	must((dir = open(".", O_RDONLY | O_DIRECTORY)) >= 0);
	must_fail(copy_file_range(fd, NULL, reader, NULL, 10, 0), EBADF);
	must_fail(copy_file_range(fd, NULL, appender, NULL, 10, 0), EBADF);
	must_fail(copy_file_range(dir, NULL, fd, NULL, 10, 0), EISDIR);
	must_fail(copy_file_range(fd, NULL, fd, NULL, 10, 1), EINVAL);
	must_fail(copy_file_range(fd, &a, fd, &a, 10, 0), EINVAL); /* overlapping */
	must(copy_file_range(fd, &a, fd, &b, BLOCK, 0) == BLOCK);
	must(pread(fd, in, BLOCK, 2 * BLOCK) == BLOCK && memcmp(in, out, BLOCK) == 0);
	must(file_holds("to", "kept"));
	return true;
}

static bool check_clone(void)
{
	static uint8_t out[3 * BLOCK], in[3 * BLOCK];
	int from = three_blocks(out), to = open("to", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(from >= 0 && to >= 0);
	must(ioctl(to, FICLONE, from) == 0 || errno == EOPNOTSUPP || errno == ENOTTY ||
	     errno == EINVAL || errno == EXDEV);
	must(size_of("to") == 0 ||
	     (read(to, in, sizeof(in)) == sizeof(in) && memcmp(in, out, sizeof(in)) == 0));
	return true;
}

static bool check_statfs(void)
{
	struct statvfs v;
	struct statfs a, b;
	int fd;

	must(statvfs(".", &v) == 0);
	must(v.f_bsize > 0 && v.f_blocks > 0 && v.f_bfree <= v.f_blocks && v.f_namemax == 255);
	must(v.f_bavail <= v.f_bfree);
	must(file_make("f", "x") && (fd = open("f", O_RDONLY)) >= 0);
	must(fstatfs(fd, &a) == 0 && statfs(".", &b) == 0);
	must(a.f_type == b.f_type && a.f_blocks == b.f_blocks && a.f_bsize == b.f_bsize);
	must(unlink("f") == 0 && fstatfs(fd, &b) == 0 && a.f_blocks == b.f_blocks);
	return true;
}

static bool check_blocks(void)
{
	static uint8_t buf[3 * BLOCK];
	struct stat st;
	int fd = three_blocks(buf);

	must(fd >= 0 && fstat(fd, &st) == 0);
	must(st.st_blocks * 512 >= 3 * BLOCK && st.st_blocks * 512 < 6 * BLOCK);
	must(st.st_blksize >= 512 && (st.st_blksize & (st.st_blksize - 1)) == 0);
	return true;
}

const struct check space_checks[] = {
	CHECK(sparse, "sparse files of 5 GiB and 5 TiB keep their holes and their ends"),
	CHECK(seek_data, "data and holes are found, and past the end there are none"),
	CHECK(allocate, "allocation grows a file, never shrinks it, and needs the right to write",
	      ALLOC),
	CHECK(allocate_refused, "allocation is refused as not supported", 0, ALLOC | PUNCH),
	CHECK(punch, "a hole punched reads as zeros and takes no room", PUNCH),
	CHECK(zero, "a range is zeroed, with and without growing the file", ZERO),
	CHECK(zero_refused, "zeroing a range is refused as not supported", 0, ZERO),
	CHECK(collapse, "ranges are taken out and put in", COLLAPSE),
	CHECK(collapse_refused, "taking out a range is refused as not supported", 0, COLLAPSE),
	CHECK(copy, "a range is copied inside the file system, as far as there is any", COPY),
	CHECK(copy_errors, "a wrong copy is refused, and one within a file works", COPY),
	CHECK(clone, "a clone works or is refused so that programs copy"),
	CHECK(statfs, "the file system tells its size"),
	CHECK(blocks, "a file tells how much room it takes"),
	{0},
};
