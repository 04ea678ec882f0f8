// SPDX-License-Identifier: Apache-2.0
/*
 * fscheck.c - does a directory behave as a Linux file system does? Runs inside the test guests on
 * their shares.
 *
 *   fscheck DIR
 * Works below DIR/fscheck, which must not be there and is gone afterwards. Each check is a function
 * that returns true and leaves nothing behind, and has a sentence; "@@ ok SENTENCE" or "@@ not ok
 * SENTENCE" is printed for each, with the line and errno of the first thing that was not so. Linked
 * statically: the guest has no libraries. Nothing here knows which file system it talks to: run on
 * a local one first, it must find nothing there.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed_line, failed_errno;

static bool fail_at(int line)
{
	failed_errno = errno;
	failed_line = line;
	return false;
}
/* Ends the check it stands in with false, remembering where. */
#define must(cond)                                \
	do {                                      \
		if (!(cond))                      \
			return fail_at(__LINE__); \
	} while (0)
#define must_fail(call, error) must((call) == -1 && errno == (error))

static void fill(uint8_t *buf, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		buf[i] = (uint8_t)(seed >> 56);
	}
}

static bool file_make(const char *name, const char *text)
{
	int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);

	must(fd >= 0);
	must(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	must(close(fd) == 0);
	return true;
}

static bool file_holds(const char *name, const char *text)
{
	char buf[256];
	int fd = open(name, O_RDONLY);
	ssize_t n;

	must(fd >= 0);
	n = read(fd, buf, sizeof(buf));
	must(close(fd) == 0);
	must(n == (ssize_t)strlen(text) && memcmp(buf, text, (size_t)n) == 0);
	return true;
}

static bool absent(const char *name)
{
	struct stat st;

	return lstat(name, &st) == -1 && errno == ENOENT;
}

static bool check_write_read(void)
{
	enum { SIZE = 1 << 20, PIECE = 12345 };
	static uint8_t out[SIZE], in[SIZE];
	struct stat st;
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0);
	fill(out, SIZE, 1);
	for (size_t at = 0; at < SIZE; at += PIECE) {
		size_t n = SIZE - at < PIECE ? SIZE - at : PIECE;

		must(pwrite(fd, out + at, n, (off_t)at) == (ssize_t)n);
	}
	must(close(fd) == 0);
	must((fd = open("f", O_RDONLY)) >= 0);
	must(fstat(fd, &st) == 0 && st.st_size == SIZE);
	must(read(fd, in, SIZE) == SIZE && read(fd, in, 1) == 0);
	must(pread(fd, in, SIZE, 0) == SIZE && memcmp(out, in, SIZE) == 0);
	must(close(fd) == 0 && unlink("f") == 0);
	return true;
}

static bool check_big_write(void)
{
	enum { SIZE = 3 << 20 };
	uint8_t *out = malloc(SIZE), *in = malloc(SIZE);
	struct iovec iov[2] = {{in, 4097}, {in + 4097, SIZE - 4097}};
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(out && in && fd >= 0);
	fill(out, SIZE, 2);
	must(write(fd, out, SIZE) == SIZE);
	must(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
	must(preadv(fd, iov, 2, 0) == SIZE && memcmp(out, in, SIZE) == 0);
	must(close(fd) == 0 && unlink("f") == 0);
	free(out);
	free(in);
	return true;
}

static bool check_exclusive(void)
{
	must(file_make("f", "one"));
	must_fail(open("f", O_CREAT | O_EXCL | O_WRONLY, 0644), EEXIST);
	must_fail(mkdir("f", 0755), EEXIST);
	must(file_holds("f", "one"));
	must(unlink("f") == 0 && absent("f"));
	return true;
}

static bool check_errors(void)
{
	must_fail(open("none", O_RDONLY), ENOENT);
	must_fail(unlink("none"), ENOENT);
	must_fail(rmdir("none"), ENOENT);
	must(file_make("f", "x") && mkdir("d", 0755) == 0);
	must_fail(open("f/x", O_RDONLY), ENOTDIR);
	must_fail(open("d", O_WRONLY), EISDIR);
	must_fail(unlink("d"), EISDIR);
	must_fail(rmdir("f"), ENOTDIR);
	must(unlink("f") == 0 && rmdir("d") == 0);
	return true;
}

static bool check_truncate(void)
{
	static const char zeros[4096];
	char buf[4096];
	struct stat st;
	int fd;

	must(file_make("f", "0123456789"));
	must(truncate("f", 4) == 0 && file_holds("f", "0123"));
	must((fd = open("f", O_RDWR)) >= 0);
	must(ftruncate(fd, 4096) == 0 && fstat(fd, &st) == 0 && st.st_size == 4096);
	must(pread(fd, buf, 4096, 0) == 4096 && memcmp(buf, "0123", 4) == 0);
	must(memcmp(buf + 4, zeros, 4092) == 0);
	must(close(fd) == 0);
	must((fd = open("f", O_WRONLY | O_TRUNC)) >= 0 && close(fd) == 0);
	must(stat("f", &st) == 0 && st.st_size == 0 && unlink("f") == 0);
	return true;
}

static bool check_append(void)
{
	int a, b;

	must(file_make("f", "0"));
	must((a = open("f", O_WRONLY | O_APPEND)) >= 0);
	must((b = open("f", O_WRONLY | O_APPEND)) >= 0);
	must(write(a, "1", 1) == 1 && write(b, "2", 1) == 1 && write(a, "3", 1) == 1);
	must(close(a) == 0 && close(b) == 0);
	must(file_holds("f", "0123") && unlink("f") == 0);
	return true;
}

static bool check_sparse(void)
{
	static const off_t far = 5ll << 30;
	char c = 'x';
	struct stat st;
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0);
	must(pwrite(fd, "end", 3, far) == 3);
	must(fstat(fd, &st) == 0 && st.st_size == far + 3 && st.st_blocks < 1024);
	must(pread(fd, &c, 1, far - 1) == 1 && c == 0);
	must(pread(fd, &c, 1, far + 2) == 1 && c == 'd');
	must(close(fd) == 0 && unlink("f") == 0);
	return true;
}

static bool check_rename(void)
{
	must(file_make("a", "text") && mkdir("d", 0755) == 0);
	must(rename("a", "b") == 0 && absent("a") && file_holds("b", "text"));
	must(rename("b", "d/c") == 0 && absent("b") && file_holds("d/c", "text"));
	must(rename("d", "e") == 0 && absent("d") && file_holds("e/c", "text"));
	must(mkdir("e/sub", 0755) == 0);
	must_fail(rename("e", "e/sub/e"), EINVAL);
	must_fail(rename("none", "x"), ENOENT);
	must(rmdir("e/sub") == 0 && unlink("e/c") == 0 && rmdir("e") == 0);
	return true;
}

static bool check_rename_over(void)
{
	char buf[8];
	int fd;

	must(file_make("old", "old") && file_make("new", "new"));
	must((fd = open("old", O_RDONLY)) >= 0);
	must(rename("new", "old") == 0 && absent("new") && file_holds("old", "new"));
	must(read(fd, buf, sizeof(buf)) == 3 && memcmp(buf, "old", 3) == 0);
	must(close(fd) == 0 && unlink("old") == 0);
	return true;
}

static bool check_rename_flags(void)
{
	must(file_make("a", "a") && file_make("b", "b"));
	must_fail(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE), EEXIST);
	must(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE) == 0);
	must(file_holds("a", "b") && file_holds("b", "a"));
	must(unlink("a") == 0 && unlink("b") == 0);
	return true;
}

static bool check_link(void)
{
	struct stat a, b;

	must(file_make("a", "both") && link("a", "b") == 0);
	must(stat("a", &a) == 0 && stat("b", &b) == 0);
	must(a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_nlink == 2 && b.st_nlink == 2);
	must_fail(link("a", "b"), EEXIST);
	must(unlink("a") == 0 && file_holds("b", "both"));
	must(stat("b", &b) == 0 && b.st_nlink == 1 && unlink("b") == 0);
	return true;
}

static bool check_symlink(void)
{
	char buf[64];
	struct stat st;

	must(file_make("f", "aim") && symlink("f", "s") == 0 && symlink("/nowhere", "t") == 0);
	must(readlink("s", buf, sizeof(buf)) == 1 && buf[0] == 'f');
	must(readlink("t", buf, sizeof(buf)) == 8 && memcmp(buf, "/nowhere", 8) == 0);
	must(lstat("s", &st) == 0 && S_ISLNK(st.st_mode) && st.st_size == 1);
	must(file_holds("s", "aim"));
	must_fail(open("s", O_RDONLY | O_NOFOLLOW), ELOOP);
	must_fail(open("t", O_RDONLY), ENOENT);
	must(unlink("s") == 0 && unlink("t") == 0 && file_holds("f", "aim") && unlink("f") == 0);
	return true;
}

static bool check_unlinked_open(void)
{
	char buf[16];
	struct stat st;
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0 && write(fd, "before", 6) == 6);
	must(unlink("f") == 0 && absent("f"));
	must(pwrite(fd, "after", 5, 6) == 5 && pread(fd, buf, 16, 0) == 11);
	must(memcmp(buf, "beforeafter", 11) == 0);
	must(fstat(fd, &st) == 0 && st.st_size == 11 && st.st_nlink == 0);
	must(ftruncate(fd, 3) == 0 && fchmod(fd, 0600) == 0 && fsync(fd) == 0);
	must(fstat(fd, &st) == 0 && st.st_size == 3 && (st.st_mode & 07777) == 0600);
	must(file_make("f", "other") && pread(fd, buf, 16, 0) == 3 && close(fd) == 0);
	must(file_holds("f", "other") && unlink("f") == 0);
	return true;
}

static bool check_mkdir(void)
{
	struct stat st;
	mode_t mask = umask(022);

	must(mkdir("d", 0777) == 0 && stat("d", &st) == 0);
	must(S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0755);
	umask(mask);
	must(mkdir("d/e", 0700) == 0);
	must_fail(mkdir("d", 0755), EEXIST);
	must_fail(rmdir("d"), ENOTEMPTY);
	must(rmdir("d/e") == 0 && rmdir("d") == 0 && absent("d"));
	return true;
}

static bool check_mode_owner(void)
{
	struct stat st;

	must(file_make("f", "x"));
	must(chmod("f", 0640) == 0 && stat("f", &st) == 0 && (st.st_mode & 07777) == 0640);
	must(chmod("f", 04755) == 0 && stat("f", &st) == 0 && (st.st_mode & 07777) == 04755);
	if (geteuid() == 0) {
		must(chown("f", 1234, 5678) == 0 && stat("f", &st) == 0);
		must(st.st_uid == 1234 && st.st_gid == 5678);
	}
	must(unlink("f") == 0);
	return true;
}

static bool check_times(void)
{
	struct timespec set[2] = {{1000000000, 123456789}, {1100000000, 987654321}};
	struct stat st;

	must(file_make("f", "x"));
	must(utimensat(AT_FDCWD, "f", set, 0) == 0 && stat("f", &st) == 0);
	must(st.st_atim.tv_sec == set[0].tv_sec && st.st_mtim.tv_sec == set[1].tv_sec);
	must(st.st_atim.tv_nsec == set[0].tv_nsec && st.st_mtim.tv_nsec == set[1].tv_nsec);
	must(unlink("f") == 0);
	return true;
}

static bool check_statfs(void)
{
	struct statvfs v;

	must(statvfs(".", &v) == 0);
	must(v.f_bsize > 0 && v.f_blocks > 0 && v.f_bfree <= v.f_blocks && v.f_namemax >= 255);
	return true;
}

static bool check_sync(void)
{
	int fd, dir;

	must((fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644)) >= 0);
	must(write(fd, "x", 1) == 1 && fdatasync(fd) == 0 && fsync(fd) == 0 && close(fd) == 0);
	must((dir = open(".", O_RDONLY | O_DIRECTORY)) >= 0 && fsync(dir) == 0 && close(dir) == 0);
	must(unlink("f") == 0);
	return true;
}

static bool check_mmap(void)
{
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);
	char buf[16], *map;

	must(fd >= 0 && ftruncate(fd, 8192) == 0);
	map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(map != MAP_FAILED);
	memcpy(map + 4090, "over the page", 13);
	must(msync(map, 8192, MS_SYNC) == 0);
	must(pread(fd, buf, 13, 4090) == 13 && memcmp(buf, "over the page", 13) == 0);
	must(pwrite(fd, "written", 7, 100) == 7 && memcmp(map + 100, "written", 7) == 0);
	must(munmap(map, 8192) == 0 && close(fd) == 0);
	must((fd = open("f", O_RDONLY)) >= 0 && pread(fd, buf, 13, 4090) == 13);
	must(memcmp(buf, "over the page", 13) == 0 && close(fd) == 0 && unlink("f") == 0);
	return true;
}

static bool check_direct(void)
{
	static _Alignas(4096) uint8_t out[16384], in[16384];
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR | O_DIRECT, 0644);

	must(fd >= 0);
	fill(out, sizeof(out), 3);
	must(pwrite(fd, out, sizeof(out), 0) == sizeof(out));
	must(pread(fd, in, sizeof(in), 0) == sizeof(in) && memcmp(in, out, sizeof(in)) == 0);
	must(close(fd) == 0 && unlink("f") == 0);
	return true;
}

enum { MANY = 1000 };

/* How many of the names f0..f999 a listing of "many" shows, or -1 when one comes twice or is not
 * ours. */
static int many_listed(void)
{
	static bool seen[MANY];
	DIR *dir = opendir("many");
	struct dirent *e;
	int n = 0;

	if (!dir)
		return -1;
	memset(seen, 0, sizeof(seen));
	while ((e = readdir(dir))) {
		long k;

		if (e->d_name[0] == '.')
			continue;
		k = strtol(e->d_name + 1, NULL, 10);
		if (e->d_name[0] != 'f' || k < 0 || k >= MANY || seen[k])
			break;
		seen[k] = true;
		n++;
	}
	closedir(dir);
	return e ? -1 : n;
}

static bool check_readdir(void)
{
	char name[32];
	int fd;

	must(mkdir("many", 0755) == 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many/f%d", i);
		must((fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644)) >= 0 && close(fd) == 0);
	}
	must(many_listed() == MANY);
	for (int i = 0; i < MANY; i += 2) {
		snprintf(name, sizeof(name), "many/f%d", i);
		must(unlink(name) == 0);
	}
	must(many_listed() == MANY / 2);
	must_fail(rmdir("many"), ENOTEMPTY);
	for (int i = 1; i < MANY; i += 2) {
		snprintf(name, sizeof(name), "many/f%d", i);
		must(unlink(name) == 0);
	}
	must(many_listed() == 0 && rmdir("many") == 0);
	return true;
}

static bool check_readdir_seek(void)
{
	struct dirent *e;
	long middle = 0;
	char name[256] = "";
	DIR *dir;

	must(mkdir("d", 0755) == 0 && file_make("d/a", "") && file_make("d/b", "") &&
	     file_make("d/c", ""));
	must((dir = opendir("d")) != NULL);
	for (int i = 0; i < 3; i++)
		must(readdir(dir) != NULL);
	middle = telldir(dir);
	must((e = readdir(dir)) != NULL);
	strcpy(name, e->d_name);
	rewinddir(dir);
	for (int i = 0; i < 5; i++)
		must(readdir(dir) != NULL);
	must(readdir(dir) == NULL);
	seekdir(dir, middle);
	must((e = readdir(dir)) != NULL && strcmp(e->d_name, name) == 0);
	must(closedir(dir) == 0);
	must(unlink("d/a") == 0 && unlink("d/b") == 0 && unlink("d/c") == 0 && rmdir("d") == 0);
	return true;
}

static bool check_names(void)
{
	char name[257];

	memset(name, 'n', sizeof(name));
	name[256] = 0;
	must_fail(open(name, O_CREAT | O_WRONLY, 0644), ENAMETOOLONG);
	name[255] = 0;
	must(file_make(name, "long") && file_holds(name, "long") && unlink(name) == 0);
	must(file_make("new\nline \xff\x80 \\ -", "odd") &&
	     file_holds("new\nline \xff\x80 \\ -", "odd"));
	must(unlink("new\nline \xff\x80 \\ -") == 0);
	return true;
}

static bool check_negative(void)
{
	for (int i = 0; i < 20; i++) {
		must(absent("f"));
		must(file_make("f", "now") && file_holds("f", "now"));
		must(unlink("f") == 0);
	}
	return true;
}

static bool check_fifo(void)
{
	struct stat st;
	char c;
	int fd;

	must(mkfifo("p", 0600) == 0 && lstat("p", &st) == 0 && S_ISFIFO(st.st_mode));
	must((fd = open("p", O_RDWR)) >= 0);
	must(write(fd, "x", 1) == 1 && read(fd, &c, 1) == 1 && c == 'x');
	must(close(fd) == 0 && unlink("p") == 0);
	return true;
}

static bool crowd_member(int id)
{
	char name[32], text[32];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "crowd-%d-%d", id, i);
		snprintf(text, sizeof(text), "%d wrote %d", id, i);
		must(file_make(name, text) && file_holds(name, text));
		must(rename(name, "crowd-shared") == 0);
	}
	return true;
}

/* Four at once, each with its own files, all renaming over one name. */
static bool check_crowd(void)
{
	int status, good = 0;

	for (int id = 0; id < 4; id++)
		if (fork() == 0)
			_exit(crowd_member(id) ? 0 : 1);
	while (wait(&status) > 0)
		good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	must(good == 4);
	must(unlink("crowd-shared") == 0);
	return true;
}

static const struct {
	bool (*run)(void);
	const char *sentence;
} checks[] = {
	{check_write_read, "a file written in odd pieces reads back the same"},
	{check_big_write, "a write of 3 MiB reads back the same from the server"},
	{check_exclusive, "creating what exists is refused"},
	{check_errors, "wrong kinds and missing names give the right errno"},
	{check_truncate, "truncation cuts, and grows with zeros"},
	{check_append, "two appenders lose nothing"},
	{check_sparse, "a sparse file of 5 GiB keeps its hole and its end"},
	{check_rename, "files and directories are renamed and moved"},
	{check_rename_over, "a file renamed over stays readable where it is open"},
	{check_rename_flags, "rename exchanges, and refuses to replace when told"},
	{check_link, "hard links are one file"},
	{check_symlink, "symbolic links are kept and followed by the guest"},
	{check_unlinked_open, "an unlinked file lives as long as it is open"},
	{check_mkdir, "directories come and go, with their mode"},
	{check_mode_owner, "mode and owner change"},
	{check_times, "times are set to the nanosecond"},
	{check_statfs, "the file system tells its size"},
	{check_sync, "files and directories are synced"},
	{check_mmap, "a shared mapping and read and write see each other"},
	{check_direct, "direct I/O reads what it wrote"},
	{check_readdir, "a directory of 1000 files lists each once, also after half are gone"},
	{check_readdir_seek, "a listing goes on where telldir was"},
	{check_names, "names of 255 bytes and of any bytes work, 256 is too long"},
	{check_negative, "a name that was missing is found once it is made"},
	{check_fifo, "a fifo works inside the guest"},
	{check_crowd, "four processes at once do not disturb each other"},
};

int main(int argc, char **argv)
{
	int bad = 0;

	if (argc != 2 || chdir(argv[1]) || mkdir("fscheck", 0755) || chdir("fscheck")) {
		printf("@@ not ok a directory for the checks can be made\n");
		return 1;
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		bool good = checks[i].run();

		printf("@@ %s %s", good ? "ok" : "not ok", checks[i].sentence);
		if (!good)
			printf(" (line %d: %s)", failed_line, strerror(failed_errno));
		printf("\n");
		fflush(stdout);
		bad += !good;
	}
	if (chdir("..") || (rmdir("fscheck") && !bad)) {
		printf("@@ not ok nothing is left behind: %s\n", strerror(errno));
		bad++;
	}
	return bad ? 1 : 0;
}
