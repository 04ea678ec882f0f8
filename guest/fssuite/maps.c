// SPDX-License-Identifier: Apache-2.0
/*
 * maps.c - mappings of files: shared ones are the file, private ones are not, and both end where the
 * file ends.
 */
#include "suite.h"
#include <setjmp.h>
#include <sys/mman.h>

#define PAGE 4096

static int file_of(off_t size)
{
	int fd = open("f", O_CREAT | O_RDWR | O_TRUNC, 0644);

	return fd >= 0 && ftruncate(fd, size) == 0 ? fd : -1;
}

static char *map(int fd, size_t len, int prot, int flags)
{
	char *m = mmap(NULL, len, prot, flags, fd, 0);

	return m == MAP_FAILED ? NULL : m;
}

static bool check_map(void)
{
	int fd = file_of(2 * PAGE);
	char buf[16], *m;

	must(fd >= 0 && (m = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED)));
	memcpy(m + 4090, "over the page", 13);
	must(msync(m, 2 * PAGE, MS_SYNC) == 0);
	must(pread(fd, buf, 13, 4090) == 13 && memcmp(buf, "over the page", 13) == 0);
	must(pwrite(fd, "written", 7, 100) == 7 && memcmp(m + 100, "written", 7) == 0);
	memcpy(m + 200, "unsynced", 8);
	must(pread(fd, buf, 8, 200) == 8 && memcmp(buf, "unsynced", 8) == 0);
	must(munmap(m, 2 * PAGE) == 0 && close(fd) == 0);
	must((fd = open("f", O_RDONLY)) >= 0 && pread(fd, buf, 13, 4090) == 13);
	must(memcmp(buf, "over the page", 13) == 0);
	must(pread(fd, buf, 8, 200) == 8 && memcmp(buf, "unsynced", 8) == 0);
	return true;
}

static bool check_map_two(void)
{
	int fd = file_of(4 * PAGE), second;
	char *a, *b;
	pid_t pid;

	must(fd >= 0 && (second = open("f", O_RDWR)) >= 0);
	must((a = map(fd, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED)));
	must((b = map(second, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED)));
	for (unsigned i = 0; i < 4 * PAGE; i += 997) {
		a[i] = (char)(i % 251);
		must(b[i] == (char)(i % 251));
	}
	pid = fork();
	if (pid == 0) {
		strcpy(b + PAGE, "by the child");
		_exit(0);
	}
	must(child_good(pid) && strcmp(a + PAGE, "by the child") == 0);
	must(pwrite(second, "by write", 9, 3 * PAGE) == 9 && strcmp(a + 3 * PAGE, "by write") == 0);
	must(strcmp(b + 3 * PAGE, "by write") == 0);
	return true;
}

static bool check_map_private(void)
{
	int fd = file_of(2 * PAGE);
	char *m;

	must(fd >= 0 && pwrite(fd, "file", 5, 0) == 5);
	must((m = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE)));
	must(strcmp(m, "file") == 0);
	strcpy(m, "mine");
	must(msync(m, 2 * PAGE, MS_SYNC) == 0 && close(fd) == 0);
	must((fd = open("f", O_RDONLY)) >= 0);
	{
		char buf[5];

		must(pread(fd, buf, 5, 0) == 5 && strcmp(buf, "file") == 0 &&
		     strcmp(m, "mine") == 0);
	}
	return true;
}

static bool check_map_read_only(void)
{
	char *m;
	int fd;

	must(file_make("f", "to be read") && (fd = open("f", O_RDONLY)) >= 0);
	must((m = map(fd, PAGE, PROT_READ, MAP_PRIVATE)) && memcmp(m, "to be read", 11) == 0);
	must(!map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED) && errno == EACCES);
	must((fd = open("f", O_WRONLY)) >= 0);
	must(!map(fd, PAGE, PROT_READ, MAP_PRIVATE) && errno == EACCES);
	must(unlink("f") == 0 && memcmp(m, "to be read", 11) == 0);
	return true;
}

static bool check_map_shared_reader(void)
{
	char *m;
	int fd;

	must(file_make("f", "to be read") && (fd = open("f", O_RDONLY)) >= 0);
	must((m = map(fd, PAGE, PROT_READ, MAP_SHARED)) && memcmp(m, "to be read", 11) == 0);
	must((fd = open("f", O_RDWR)) >= 0 && pwrite(fd, "is", 2, 3) == 2);
	must(memcmp(m, "to is read", 11) == 0);
	return true;
}

static sigjmp_buf out;

static void on_bus(int n)
{
	(void)n;
	siglongjmp(out, 1);
}

/* Whether touching the byte ends in SIGBUS. */
static bool no_page(volatile char *p)
{
	signal(SIGBUS, on_bus);
	if (sigsetjmp(out, 1))
		return true;
	(void)*p;
	return false;
}

static bool check_map_end(void)
{
	int fd = file_of(3 * PAGE + 10), sharing = have(MMAP) ? MAP_SHARED : MAP_PRIVATE;
	char *m;

	must(fd >= 0 && pwrite(fd, "tail", 4, 3 * PAGE + 6) == 4);
	must((m = map(fd, 8 * PAGE, PROT_READ, sharing)));
	must(memcmp(m + 3 * PAGE + 6, "tail", 5) == 0 && m[4 * PAGE - 1] == 0);
	must(no_page(m + 4 * PAGE) && no_page(m + 7 * PAGE) && !no_page(m));
	must(ftruncate(fd, PAGE) == 0 && no_page(m + PAGE) && no_page(m + 3 * PAGE) && !no_page(m));
	must(ftruncate(fd, 6 * PAGE) == 0 && !no_page(m + 3 * PAGE + 6) && !no_page(m + 5 * PAGE));
	must(m[3 * PAGE + 6] == 0 && no_page(m + 6 * PAGE));
	return true;
}

/* What was mapped beyond the end of the file is not found when the file grows. */
static bool check_map_tail(void)
{
	int fd = file_of(100);
	char buf[200], *m;

	must(fd >= 0 && (m = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED)));
	memset(m, 'x', 200);
	must(msync(m, PAGE, MS_SYNC) == 0 && size_of("f") == 100);
	must(ftruncate(fd, 200) == 0 && pread(fd, buf, 200, 0) == 200);
	must(buf[99] == 'x' && all_zero(buf + 100, 100));
	return true;
}

/* A mapping is written back where it belongs also if the file was opened to append. */
static bool check_map_append(void)
{
	char *m;
	int fd;

	must(file_make("f", "0123456789") && (fd = open("f", O_RDWR | O_APPEND)) >= 0);
	must((m = map(fd, 10, PROT_READ | PROT_WRITE, MAP_SHARED)));
	for (int i = 0; i < 3; i++) {
		m[2]++;
		must(msync(m, 10, MS_SYNC) == 0 && size_of("f") == 10);
	}
	must(munmap(m, 10) == 0 && write(fd, "X", 1) == 1 && close(fd) == 0);
	must(file_holds("f", "0153456789X"));
	return true;
}

static bool check_map_time(void)
{
	struct timespec old[2] = {{1000, 0}, {1000, 0}};
	int fd = file_of(PAGE);
	struct stat st;
	char *m;

	must(fd >= 0 && (m = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED)));
	must(futimens(fd, old) == 0);
	m[0] = 1;
	must(msync(m, PAGE, MS_SYNC) == 0 && fstat(fd, &st) == 0 && st.st_mtim.tv_sec > 1000);
	return true;
}

static bool check_map_big(void)
{
	enum { SIZE = 2 << 20, PIECES = 300 };
	static uint8_t in[64], want[64];
	int fd = file_of(SIZE);
	char *m;

	must(fd >= 0 && (m = map(fd, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED)));
	for (unsigned i = 0; i < PIECES; i++)
		fill(m + i * 6151 % (SIZE - 64) / 64 * 64, 64, i * 6151 % (SIZE - 64) / 64);
	must(munmap(m, SIZE) == 0 && fsync(fd) == 0);
	must(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	for (unsigned i = 0; i < PIECES; i++) {
		unsigned at = i * 6151 % (SIZE - 64) / 64;

		fill(want, 64, at);
		must(pread(fd, in, 64, at * 64) == 64 && memcmp(in, want, 64) == 0);
	}
	return true;
}

/* Reading into memory that is a mapping of another file, and of the same. */
static bool check_map_as_buffer(void)
{
	int a = file_of(4 * PAGE), b = open("g", O_CREAT | O_RDWR, 0644);
	char text[PAGE], *m;

	must(a >= 0 && b >= 0);
	fill(text, PAGE, 1);
	must(write(b, text, PAGE) == PAGE);
	must((m = map(a, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED)));
	must(pread(b, m + PAGE, PAGE, 0) == PAGE && memcmp(m + PAGE, text, PAGE) == 0);
	must(pwrite(b, m, 2 * PAGE, PAGE) == 2 * PAGE && size_of("g") == 3 * PAGE);
	must(pread(a, m + 2 * PAGE, PAGE, PAGE) == PAGE);
	must(memcmp(m + 2 * PAGE, text, PAGE) == 0);
	must(pwrite(a, m + PAGE, PAGE, 3 * PAGE) == PAGE && memcmp(m + 3 * PAGE, text, PAGE) == 0);
	return true;
}

const struct check map_checks[] = {
	CHECK(map, "a shared mapping and read and write see each other", MMAP),
	CHECK(map_two, "two mappings of a file are the same memory, across processes too", MMAP),
	CHECK(map_private, "a private mapping changes nothing"),
	CHECK(map_read_only, "a mapping takes the rights of its opening"),
	CHECK(map_shared_reader, "a shared mapping for reading sees writes", MMAP),
	CHECK(map_end, "a mapping ends where the file ends, also when that moves"),
	CHECK(map_tail, "what is mapped beyond the end does not come into the file", MMAP | TAIL),
	CHECK(map_append, "a mapping of a file opened to append does not make it grow", MMAP),
	CHECK(map_time, "a write through a mapping is dated", MMAP | DATED),
	CHECK(map_big, "what is scattered through a mapping is in the file", MMAP),
	CHECK(map_as_buffer, "a mapping serves as the buffer of reads and writes", MMAP),
	{0},
};
