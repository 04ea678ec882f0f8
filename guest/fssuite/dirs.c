// SPDX-License-Identifier: Apache-2.0
/*
 * dirs.c - making, removing and above all listing directories: every entry exactly once, however
 * small the buffer and whatever is removed meanwhile; numbers and types that agree with stat.
 */
#include "suite.h"
#include <dirent.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

struct entry { /* as getdents64 writes it */
	uint64_t ino;
	int64_t next;
	unsigned short len;
	unsigned char type;
	char name[];
};

static long list_some(int fd, void *buf, size_t n)
{
	return syscall(SYS_getdents64, fd, buf, n);
}

static bool check_mkdir(void)
{
	struct stat st;
	nlink_t n;

	must(mkdir("d", 0777) == 0 && stat("d", &st) == 0);
	must(S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0755);
	n = st.st_nlink;
	must(mkdir("d/e", 0700) == 0 && mode_of("d/e") == 0700);
	must(n == 1 || nlink_of("d") == n + 1); /* 1: a file system that does not count */
	must_fail(mkdir("d", 0755), EEXIST);
	must(rmdir("d") == -1 && (errno == ENOTEMPTY || errno == EEXIST));
	must(rmdir("d/e") == 0 && nlink_of("d") == n && rmdir("d") == 0 && absent("d"));
	return true;
}

static bool check_dir_times(void)
{
	struct timespec old[2] = {{1000, 0}, {1000, 0}};
	struct stat st;

#define touched(call)                                                  \
	do {                                                           \
		must(utimensat(AT_FDCWD, ".", old, 0) == 0);           \
		must(call);                                            \
		must(stat(".", &st) == 0 && st.st_mtim.tv_sec > 1000); \
	} while (0)
	touched(file_make("f", "x"));
	touched(link("f", "g") == 0);
	touched(rename("g", "h") == 0);
	touched(mkdir("d", 0755) == 0);
	touched(symlink("x", "s") == 0);
	touched(unlink("f") == 0);
	touched(rmdir("d") == 0);
	must(utimensat(AT_FDCWD, ".", old, 0) == 0 && truncate("h", 5) == 0);
	must(stat(".", &st) == 0 && st.st_mtim.tv_sec == 1000);
#undef touched
	return true;
}

/* How many of the names f0..f(many-1) a listing shows, or -1 when one comes twice or is not ours. */
static int many_listed(unsigned many)
{
	bool *seen = calloc(many, 1);
	DIR *dir = opendir("many");
	struct dirent *e = NULL;
	int n = 0;

	while (dir && seen && (e = readdir(dir))) {
		unsigned long k;

		if (e->d_name[0] == '.')
			continue;
		k = strtoul(e->d_name + 1, NULL, 10);
		if (e->d_name[0] != 'f' || k >= many || seen[k])
			break;
		seen[k] = true;
		n++;
	}
	if (!dir || !seen || e)
		n = -1;
	if (dir)
		closedir(dir);
	free(seen);
	return n;
}

static bool check_many(void)
{
	unsigned many = suite_many();
	char name[32];

	must(mkdir("many", 0755) == 0);
	for (unsigned i = 0; i < many; i++) {
		snprintf(name, sizeof(name), "many/f%u", i);
		must(mknod(name, S_IFREG | 0644, 0) == 0);
	}
	must(many_listed(many) == (int)many);
	must_fail(mknod("many/f0", S_IFREG | 0644, 0), EEXIST);
	for (unsigned i = 0; i < many; i += 2) {
		snprintf(name, sizeof(name), "many/f%u", i);
		must(unlink(name) == 0);
	}
	must(many_listed(many) == (int)(many / 2));
	must(rmdir("many") == -1 && (errno == ENOTEMPTY || errno == EEXIST));
	for (unsigned i = 1; i < many; i += 2) {
		snprintf(name, sizeof(name), "many/f%u", i);
		must(unlink(name) == 0);
	}
	must(many_listed(many) == 0 && rmdir("many") == 0);
	return true;
}

enum { HALF = 60 };

static bool twins_make(void)
{
	char name[64];

	for (int i = 0; i < HALF; i++) {
		snprintf(name, sizeof(name), "d/stays-with-a-longer-name-%03d", i);
		must(mknod(name, S_IFREG | 0644, 0) == 0);
		snprintf(name, sizeof(name), "d/goes-%03d", i);
		must(mknod(name, S_IFREG | 0644, 0) == 0);
	}
	return true;
}

/* Removes what a small listing returned, until the directory is empty: nothing may be passed over. */
static bool check_list_and_unlink(void)
{
	_Alignas(8) char buf[400];
	int fd, gone = 0;
	long n;

	must(mkdir("d", 0755) == 0 && twins_make());
	must((fd = open("d", O_RDONLY | O_DIRECTORY)) >= 0);
	while ((n = list_some(fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			struct entry *e = (struct entry *)(buf + at);

			at += e->len;
			if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
				continue;
			must(unlinkat(fd, e->name, 0) == 0);
			gone++;
		}
	}
	must(n == 0 && gone == 2 * HALF && rmdir("d") == 0);
	return true;
}

/* Half of the entries is removed while the listing goes on: the other half comes exactly once. */
static bool check_list_meanwhile(void)
{
	_Alignas(8) char buf[300];
	int seen[HALF] = {0}, fd, calls = 0;
	long n;

	must(mkdir("d", 0755) == 0 && twins_make());
	must((fd = open("d", O_RDONLY | O_DIRECTORY)) >= 0);
	while ((n = list_some(fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			struct entry *e = (struct entry *)(buf + at);
			int k;

			at += e->len;
			if (sscanf(e->name, "stays-with-a-longer-name-%d", &k) == 1)
				seen[k]++;
		}
		for (int i = calls * 3; i < calls * 3 + 3 && i < HALF; i++) {
			char name[32];

			snprintf(name, sizeof(name), "d/goes-%03d", i);
			must(unlink(name) == 0);
		}
		calls++;
	}
	must(n == 0);
	for (int i = 0; i < HALF; i++)
		must(seen[i] == 1);
	return true;
}

static bool check_list_small(void)
{
	_Alignas(8) char buf[64];
	int fd = open(".", O_RDONLY | O_DIRECTORY), n = 0;
	long got;

	must(file_make("a-name-that-takes-more-than-the-room-which-is-left-in-this-buffer", ""));
	must(fd >= 0);
	do { /* "." and ".." may come first */
		must(++n <= 3);
		errno = 0;
		got = list_some(fd, buf, sizeof(buf));
	} while (got > 0);
	must_fail(list_some(fd, buf, sizeof(buf)), EINVAL);
	must(file_make("f", "") && unlink("f") == 0);
	return true;
}

static bool shows(DIR *dir, const char *name)
{
	struct dirent *e;

	while ((e = readdir(dir)))
		if (!strcmp(e->d_name, name))
			return true;
	return false;
}

static bool check_rewind(void)
{
	DIR *dir = opendir(".");

	must(dir && !shows(dir, "f"));
	must(file_make("f", "x"));
	rewinddir(dir);
	must(shows(dir, "f"));
	must(rename("f", "g") == 0);
	rewinddir(dir);
	must(shows(dir, "g"));
	rewinddir(dir);
	must(!shows(dir, "f") && unlink("g") == 0);
	rewinddir(dir);
	must(!shows(dir, "g") && closedir(dir) == 0);
	return true;
}

static bool check_seek(void)
{
	enum { N = 60 };
	char names[N + 2][256];
	long at[N + 2];
	struct dirent *e;
	unsigned n = 0;
	DIR *dir;

	must(mkdir("d", 0755) == 0);
	for (int i = 0; i < N; i++) {
		char name[32];

		snprintf(name, sizeof(name), "d/entry-%d", i);
		must(mknod(name, S_IFREG | 0644, 0) == 0);
	}
	must((dir = opendir("d")) != NULL);
	for (at[0] = telldir(dir); (e = readdir(dir)); at[n] = telldir(dir)) {
		strcpy(names[n], e->d_name);
		if (++n == N + 2)
			break;
	}
	must(n == N + 2 && readdir(dir) == NULL);
	for (unsigned i = 0; i < n; i++) {
		unsigned k = (i * 37 + 11) % n;

		seekdir(dir, at[k]);
		must((e = readdir(dir)) != NULL && strcmp(e->d_name, names[k]) == 0);
		must(k + 1 == n || ((e = readdir(dir)) && strcmp(e->d_name, names[k + 1]) == 0));
	}
	must(closedir(dir) == 0);
	return true;
}

static bool kinds_make(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "d/socket"};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	must(mkdir("d", 0755) == 0 && mkdir("d/dir", 0755) == 0 && file_make("d/file", "x"));
	must(symlink("x", "d/symlink") == 0 && mkfifo("d/fifo", 0600) == 0);
	must(link("d/file", "d/link") == 0);
	must(s >= 0 && bind(s, (struct sockaddr *)&to, sizeof(to)) == 0 && close(s) == 0);
	if (have(DEVICES))
		must(mknod("d/char", S_IFCHR | 0600, 0x0103) == 0 &&
		     mknod("d/block", S_IFBLK | 0600, 0x0700) == 0);
	return true;
}

static bool check_list_agrees(void)
{
	_Alignas(8) char buf[4096];
	int fd, dots = 0, n = 0;
	struct stat st;
	long got;

	must(kinds_make() && (fd = open("d", O_RDONLY | O_DIRECTORY)) >= 0);
	while ((got = list_some(fd, buf, sizeof(buf))) > 0)
		for (long at = 0; at < got; n++) {
			struct entry *e = (struct entry *)(buf + at);

			must(e->len % 8 == 0 && e->ino != 0);
			must(fstatat(fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0);
			must(e->ino == st.st_ino && e->type == IFTODT(st.st_mode));
			dots += !strcmp(e->name, ".") || !strcmp(e->name, "..");
			at += e->len;
		}
	must(got == 0 && dots == 2 && n == (have(DEVICES) ? 10 : 8));
	return true;
}

static bool list_forbidden(void)
{
	must_fail(open("d", O_RDONLY | O_DIRECTORY), EACCES);
	must(file_holds("d/f", "x")); /* execute alone lets through */
	must_fail(open("e/f", O_RDONLY), EACCES);
	return true;
}

static bool check_list_forbidden(void)
{
	must(mkdir("d", 0755) == 0 && mkdir("e", 0755) == 0);
	must(file_make("d/f", "x") && file_make("e/f", "x"));
	must(chmod("d", 0711) == 0 && chmod("e", 0744) == 0);
	must(as_user(1001, 1001, 0, list_forbidden));
	return true;
}

const struct check dir_checks[] = {
	CHECK(mkdir, "directories come and go, with their mode and their links"),
	CHECK(dir_times, "whatever changes a directory changes its time"),
	CHECK(many, "a large directory lists each file once, also after half are gone"),
	CHECK(list_and_unlink, "what a small listing returned is removed until nothing is left"),
	CHECK(list_meanwhile, "entries that stay come exactly once while others are removed"),
	CHECK(list_small, "a buffer too small for an entry is refused"),
	CHECK(rewind, "a listing begun anew sees what changed"),
	CHECK(seek, "a listing goes on at every place it was at"),
	CHECK(list_agrees, "numbers and types of a listing are those of stat"),
	CHECK(list_forbidden, "a directory's rights hold for listing and for passing",
	      ROOT | USERS),
	{0},
};
