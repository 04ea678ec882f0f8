// SPDX-License-Identifier: Apache-2.0
/*
 * io.c - the data of a file: read, write, append, truncate, offsets beyond 4 GiB, limits, direct I/O,
 * and that everything which was synced, spliced or sent is the same.
 */
#include "suite.h"
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static bool check_write_read(void)
{
	enum { SIZE = 1 << 20, PIECE = 12345 };
	static uint8_t out[SIZE], in[SIZE];
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0);
	fill(out, SIZE, 1);
	for (size_t at = 0; at < SIZE; at += PIECE) {
		size_t n = SIZE - at < PIECE ? SIZE - at : PIECE;

		must(pwrite(fd, out + at, n, (off_t)at) == (ssize_t)n);
	}
	must(close(fd) == 0);
	must((fd = open("f", O_RDONLY)) >= 0);
	must(size_of("f") == SIZE);
	must(read(fd, in, SIZE) == SIZE && read(fd, in, 1) == 0);
	must(pread(fd, in, SIZE, 0) == SIZE && memcmp(out, in, SIZE) == 0);
	must(close(fd) == 0 && unlink("f") == 0);
	return true;
}

static bool check_big_write(void)
{
	enum { SIZE = 3 << 20 };
	static uint8_t out[SIZE], in[SIZE];
	struct iovec iov[2] = {{in, 4097}, {in + 4097, SIZE - 4097}};
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0);
	fill(out, SIZE, 2);
	must(write(fd, out, SIZE) == SIZE);
	must(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	must(preadv(fd, iov, 2, 0) == SIZE && memcmp(out, in, SIZE) == 0);
	must(close(fd) == 0);
	return true;
}

static bool check_vectors(void)
{
	enum { N = 1024, PIECE = 37 };
	static uint8_t out[N * PIECE], in[N * PIECE];
	struct iovec w[N], r[N];
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0);
	fill(out, sizeof(out), 3);
	for (size_t i = 0; i < N; i++) {
		w[i] = (struct iovec){out + i * PIECE, PIECE};
		r[i] = (struct iovec){in + (N - 1 - i) * PIECE, PIECE};
	}
	must(pwritev(fd, w, N, 5) == sizeof(out));
	must(preadv(fd, r, N, 5) == sizeof(in));
	for (size_t i = 0; i < N; i++)
		must(memcmp(out + i * PIECE, in + (N - 1 - i) * PIECE, PIECE) == 0);
	must(pwrite(fd, out, 0, 1 << 30) == 0 && size_of("f") == sizeof(out) + 5);
	return true;
}

static bool check_two_openings(void)
{
	char in[8192], out[8192];
	int a = open("f", O_CREAT | O_EXCL | O_RDWR, 0644), b = open("f", O_RDONLY);

	must(a >= 0 && b >= 0);
	for (unsigned i = 0; i < 20; i++) {
		size_t n = 1 + i * 397;

		fill(out, n, i);
		must(pwrite(a, out, n, i * 13) == (ssize_t)n);
		must(pread(b, in, n, i * 13) == (ssize_t)n && memcmp(in, out, n) == 0);
	}
	must(ftruncate(a, 10) == 0 && pread(b, in, sizeof(in), 0) == 10);
	must(pwrite(a, "tail", 4, 20) == 4 && pread(b, in, sizeof(in), 0) == 24);
	must(all_zero(in + 10, 10) && memcmp(in + 20, "tail", 4) == 0);
	return true;
}

static bool check_append(void)
{
	int a, b;

	must(file_make("f", "0"));
	must((a = open("f", O_WRONLY | O_APPEND)) >= 0);
	must((b = open("f", O_WRONLY | O_APPEND)) >= 0);
	must(write(a, "1", 1) == 1 && write(b, "2", 1) == 1 && write(a, "3", 1) == 1);
	must(pwrite(a, "4", 1, 0) == 1); /* Linux: appends all the same */
	must(lseek(b, 0, SEEK_SET) == 0 && write(b, "5", 1) == 1);
	must(close(a) == 0 && close(b) == 0);
	must(file_holds("f", "012345"));
	must((a = open("f", O_RDWR)) >= 0 && fcntl(a, F_SETFL, O_APPEND) == 0);
	must(write(a, "6", 1) == 1 && fcntl(a, F_SETFL, 0) == 0 && pwrite(a, "x", 1, 0) == 1);
	must(fd_holds(a, "x123456"));
	return true;
}

static bool check_rwf_append(void)
{
	struct iovec iov = {(char *)"tail", 4};
	int fd;

	must(file_make("f", "head"));
	must((fd = open("f", O_RDWR)) >= 0);
	must(pwritev2(fd, &iov, 1, 0, RWF_APPEND | RWF_DSYNC) == 4);
	must(fd_holds(fd, "headtail"));
	return true;
}

/* The kernel may have to read the page first, through a file that was opened for writing only. */
static bool append_write_only(void)
{
	int fd = open("f", O_WRONLY | O_APPEND);

	must(fd >= 0 && write(fd, "more", 4) == 4 && close(fd) == 0);
	must((fd = open("f", O_WRONLY)) >= 0 && pwrite(fd, "X", 1, 2) == 1 && close(fd) == 0);
	must_fail(open("f", O_RDONLY), EACCES);
	return true;
}

static bool check_write_only(void)
{
	must(file_make("f", "some"));
	must(chmod("f", 0200) == 0);
	if (have(ROOT | USERS | CHOWN)) {
		must(chown("f", 1001, 1001) == 0);
		must(as_user(1001, 1001, 0, append_write_only));
	} else if (geteuid()) {
		must(append_write_only());
	} else {
		int fd = open("f", O_WRONLY | O_APPEND);

		must(fd >= 0 && write(fd, "more", 4) == 4 && pwrite(fd, "!", 1, 0) == 1 &&
		     close(fd) == 0);
		must(chmod("f", 0600) == 0 && file_holds("f", "somemore!"));
		return true;
	}
	must(chmod("f", 0600) == 0 && file_holds("f", "soXemore"));
	return true;
}

static bool check_truncate(void)
{
	char buf[4096];
	int fd;

	must(file_make("f", "0123456789"));
	must(truncate("f", 4) == 0 && file_holds("f", "0123"));
	must((fd = open("f", O_RDWR)) >= 0);
	must(ftruncate(fd, 4096) == 0 && size_of("f") == 4096);
	must(pread(fd, buf, 4096, 0) == 4096 && memcmp(buf, "0123", 4) == 0);
	must(all_zero(buf + 4, 4092));
	must(ftruncate(fd, 2) == 0 && ftruncate(fd, 8) == 0);
	must(pread(fd, buf, 4096, 0) == 8 && memcmp(buf, "01\0\0\0\0\0\0", 8) == 0);
	must(truncate("f", 0) == 0 && size_of("f") == 0);
	return true;
}

static bool check_truncate_errors(void)
{
	int fd;

	must(file_make("f", "x") && mkdir("d", 0755) == 0 && mkfifo("p", 0600) == 0);
	must_fail(truncate("f", -1), EINVAL);
	must_fail(truncate("d", 0), EISDIR);
	must_fail(truncate("p", 0), EINVAL);
	must_fail(truncate("none", 0), ENOENT);
	must_fail(truncate("f/x", 0), ENOTDIR);
	must((fd = open("f", O_RDONLY)) >= 0);
	must_fail(ftruncate(fd, 0), EINVAL);
	must_fail(write(fd, "y", 1), EBADF);
	must(close(fd) == 0 && file_holds("f", "x"));
	return true;
}

static bool check_open_trunc(void)
{
	static const int flags[] = {O_WRONLY,           O_RDWR,           O_RDONLY,
				    O_WRONLY | O_CREAT, O_RDWR | O_CREAT, O_WRONLY | O_APPEND};

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		struct timespec old[2] = {{1000, 0}, {1000, 0}};
		struct stat st;
		int fd, other;

		must(file_make("f", "something"));
		must((other = open("f", O_RDONLY)) >= 0);
		must(utimensat(AT_FDCWD, "f", old, 0) == 0);
		must((fd = open("f", flags[i] | O_TRUNC, 0600)) >= 0);
		must(fstat(other, &st) == 0 && st.st_size == 0 && st.st_mtim.tv_sec > 1000);
		must(stat("f", &st) == 0 && st.st_size == 0 && (st.st_mode & 0777) == 0644);
		must(close(fd) == 0 && close(other) == 0 && unlink("f") == 0);
	}
	must(file_make("f", "kept"));
	must_fail(open("f", O_WRONLY | O_TRUNC | O_CREAT | O_EXCL, 0600), EEXIST);
	must_fail(open("f", O_WRONLY | O_TRUNC | O_DIRECTORY), ENOTDIR);
	must(file_holds("f", "kept"));
	return true;
}

/* The right to write was checked when the file was opened. */
static bool check_truncate_0444(void)
{
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0444);

	must(fd >= 0 && write(fd, "0123456789", 10) == 10);
	must(ftruncate(fd, 4) == 0 && fd_holds(fd, "0123"));
	must(fchmod(fd, 0) == 0 && ftruncate(fd, 2) == 0 && fd_holds(fd, "01"));
	must(write(fd, "x", 1) == 1 && size_of("f") == 11);
	return true;
}

static bool check_beyond_4g(void)
{
	static const off_t edge = 1ll << 32;
	static uint8_t out[100000], in[100000];
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0);
	fill(out, sizeof(out), 4);
	must(pwrite(fd, out, sizeof(out), edge - 50000) == sizeof(out));
	must(size_of("f") == edge + 50000);
	must(pread(fd, in, sizeof(in), edge - 50000) == sizeof(in));
	must(memcmp(in, out, sizeof(in)) == 0);
	must(pread(fd, in, 1, 50000) == 1 && in[0] == 0); /* not wrapped to the start */
	must(lseek(fd, -1, SEEK_END) == edge + 49999 && read(fd, in, 2) == 1);
	must(in[0] == out[sizeof(out) - 1]);
	must(ftruncate(fd, edge - 1) == 0 && size_of("f") == edge - 1);
	must(pread(fd, in, 10, edge - 2) == 1 && in[0] == out[49998]);
	return true;
}

static bool check_offsets(void)
{
	char c = 'x';
	int fd;

	must(file_make("f", "abc"));
	must((fd = open("f", O_RDWR)) >= 0);
	must(pread(fd, &c, 1, 3) == 0 && pread(fd, &c, 1, 1ll << 40) == 0);
	must_fail(pread(fd, &c, 1, -1), EINVAL);
	must_fail(pwrite(fd, &c, 1, -1), EINVAL);
	must_fail(pwrite(fd, "xy", 2, INT64_MAX - 1), EINVAL);
	must(pwrite(fd, "x", 1, INT64_MAX - 1) == 1 || errno == EFBIG || errno == EINVAL);
	must(truncate("f", 3) == 0);
	/* A cache may have tried to write that back: asked here, or the next one to ask is told. */
	(void)!syncfs(fd);
	must_fail(lseek(fd, -1, SEEK_SET), EINVAL);
	must(file_holds("f", "abc"));
	return true;
}

static bool check_file_limit(void)
{
	struct rlimit limit = {8192, 8192};
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);
	char buf[4096] = "";

	must(fd >= 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	must(pwrite(fd, buf, sizeof(buf), 8000) == 192);
	must_fail(pwrite(fd, buf, 1, 8192), EFBIG);
	must_fail(ftruncate(fd, 8193), EFBIG);
	must(size_of("f") == 8192 && pwrite(fd, "x", 1, 0) == 1);
	return true;
}

static bool check_sync_flags(void)
{
	static const int flags[] = {O_SYNC, O_DSYNC};

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		int fd = open("f", O_CREAT | O_RDWR | O_TRUNC | flags[i], 0644);

		must(fd >= 0 && write(fd, "synced", 6) == 6 && fd_holds(fd, "synced"));
		must(close(fd) == 0);
	}
	return true;
}

static bool check_sync(void)
{
	int fd, dir;

	must((fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644)) >= 0);
	must(write(fd, "x", 1) == 1 && fdatasync(fd) == 0 && fsync(fd) == 0);
	must(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0);
	must(close(fd) == 0 && (fd = open("f", O_RDONLY)) >= 0 && fsync(fd) == 0);
	must((dir = open(".", O_RDONLY | O_DIRECTORY)) >= 0);
	must(fsync(dir) == 0 && fdatasync(dir) == 0);
	must(syncfs(fd) == 0 && syncfs(dir) == 0);
	sync();
	must(unlink("f") == 0 && fsync(fd) == 0 && fsync(dir) == 0);
	return true;
}

static bool check_splice(void)
{
	enum { SIZE = 60000 };
	static uint8_t out[SIZE], in[SIZE];
	int from = open("from", O_CREAT | O_EXCL | O_RDWR, 0644);
	int to = open("to", O_CREAT | O_EXCL | O_RDWR, 0644), p[2];
	off_t at = 0;

	must(from >= 0 && to >= 0 && pipe(p) == 0);
	fill(out, SIZE, 5);
	must(write(from, out, SIZE) == SIZE);
	while (at < SIZE) {
		ssize_t n = splice(from, &at, p[1], NULL, 16384, 0);

		must(n > 0 && splice(p[0], NULL, to, NULL, (size_t)n, 0) == n);
	}
	must(pread(to, in, SIZE, 0) == SIZE && memcmp(in, out, SIZE) == 0);
	must(ftruncate(to, 0) == 0 && lseek(to, 0, SEEK_SET) == 0);
	for (at = 0; at < SIZE;)
		must(sendfile(to, from, &at, SIZE) > 0);
	memset(in, 0, SIZE);
	must(pread(to, in, SIZE, 0) == SIZE && memcmp(in, out, SIZE) == 0);
	return true;
}

static bool check_direct(void)
{
	static _Alignas(4096) uint8_t out[16384], in[16384];
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR | O_DIRECT, 0644), plain;

	must(fd >= 0);
	fill(out, sizeof(out), 6);
	must(pwrite(fd, out, sizeof(out), 0) == sizeof(out));
	must(pread(fd, in, sizeof(in), 0) == sizeof(in) && memcmp(in, out, sizeof(in)) == 0);
	must((plain = open("f", O_RDWR)) >= 0 && pread(plain, in, 4096, 4096) == 4096);
	must(memcmp(in, out + 4096, 4096) == 0);
	must(pwrite(plain, "buffered", 8, 8192) == 8 && pread(fd, in, 4096, 8192) == 4096);
	must(memcmp(in, "buffered", 8) == 0 && memcmp(in + 8, out + 8200, 4088) == 0);
	must(pwrite(fd, out, 4096, 8192) == 4096 && pread(plain, in, 8, 8192) == 8);
	must(memcmp(in, out, 8) == 0);
	must(ftruncate(fd, 5000) == 0 && pread(fd, in, 8192, 0) == 5000);
	must(pread(fd, in, 4096, 8192) == 0);
	return true;
}

static bool check_poll(void)
{
	struct pollfd p = {.events = POLLIN | POLLOUT};
	int n = -1;

	must(file_make("f", "12345"));
	must((p.fd = open("f", O_RDWR)) >= 0);
	must(poll(&p, 1, 0) == 1 && p.revents == (POLLIN | POLLOUT));
	must(lseek(p.fd, 2, SEEK_SET) == 2 && ioctl(p.fd, FIONREAD, &n) == 0 && n == 3);
	must_fail(ioctl(p.fd, 0x5401, &n), ENOTTY); /* TCGETS: a file is no terminal */
	must_fail(ioctl(p.fd, _IO(0xee, 99), &n), ENOTTY);
	return true;
}

const struct check io_checks[] = {
	CHECK(write_read, "a file written in odd pieces reads back the same"),
	CHECK(big_write, "a write of 3 MiB reads back the same from the server"),
	CHECK(vectors, "1024 pieces are written and read in one call"),
	CHECK(two_openings, "two openings of a file see each other's writes and truncations"),
	CHECK(append, "appenders lose nothing, wherever their offset is"),
	CHECK(rwf_append, "a single write can be an append, and synced"),
	CHECK(write_only,
	      "a file of mode 0200 is appended to and patched by one who may only write"),
	CHECK(truncate, "truncation cuts, and grows with zeros"),
	CHECK(truncate_errors, "truncation of what cannot be truncated gives the right errno"),
	CHECK(open_trunc, "O_TRUNC empties a file in every access mode, and only where it may"),
	CHECK(truncate_0444,
	      "who has a file open for writing truncates it whatever its mode is now"),
	CHECK(beyond_4g, "data around 4 GiB is where it was put"),
	CHECK(offsets, "offsets past the end and past all bounds are answered right"),
	CHECK(file_limit, "a process's file size limit holds"),
	CHECK(sync_flags, "synchronous writes work"),
	CHECK(sync, "files, directories and file systems are synced"),
	CHECK(splice, "splice and sendfile move the right bytes"),
	CHECK(direct, "direct and buffered I/O see each other", DIRECT),
	CHECK(poll, "a file is always ready, and unknown ioctls are ENOTTY"),
	{0},
};
