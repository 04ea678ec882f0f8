// SPDX-License-Identifier: Apache-2.0
/*
 * words.c - what the checks have in common: files with known contents, questions about a name,
 * processes of other users, turn-taking, removing a tree however deep.
 *
 * Each returns true or the answer; none prints.
 */
#include "suite.h"
#include <dirent.h>
#include <grp.h>

void fill(void *buf, size_t n, uint64_t seed)
{
	uint8_t *p = buf;

	for (size_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		p[i] = (uint8_t)(seed >> 56);
	}
}

bool file_make_mode(const char *name, const char *text, mode_t mode)
{
	int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, mode);

	must(fd >= 0);
	must(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	must(close(fd) == 0);
	return true;
}

bool file_make(const char *name, const char *text)
{
	return file_make_mode(name, text, 0644);
}

bool fd_holds(int fd, const char *text)
{
	char buf[1024];
	ssize_t n = pread(fd, buf, sizeof(buf), 0);

	return n == (ssize_t)strlen(text) && memcmp(buf, text, (size_t)n) == 0;
}

bool file_holds(const char *name, const char *text)
{
	int fd = open(name, O_RDONLY);
	bool good = fd >= 0 && fd_holds(fd, text);

	if (fd >= 0)
		close(fd);
	return good;
}

bool all_zero(const void *buf, size_t n)
{
	const uint8_t *p = buf;

	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

bool absent(const char *name)
{
	struct stat st;

	return lstat(name, &st) == -1 && errno == ENOENT;
}

mode_t mode_of(const char *name)
{
	struct stat st;

	return lstat(name, &st) ? (mode_t)-1 : st.st_mode & 07777;
}

ino_t ino_of(const char *name)
{
	struct stat st;

	return lstat(name, &st) ? 0 : st.st_ino;
}

off_t size_of(const char *name)
{
	struct stat st;

	return lstat(name, &st) ? -1 : st.st_size;
}

nlink_t nlink_of(const char *name)
{
	struct stat st;

	return lstat(name, &st) ? 0 : st.st_nlink;
}

bool child_good(pid_t pid)
{
	int status;

	if (pid < 0)
		return false;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool in_child(bool (*fn)(void))
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn() ? 0 : 1);
	return child_good(pid);
}

bool as_user(uid_t uid, gid_t gid, gid_t extra, bool (*fn)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		if (setgroups(extra ? 1 : 0, &extra) || setresgid(gid, gid, gid) ||
		    setresuid(uid, uid, uid))
			_exit(2);
		_exit(fn() ? 0 : 1);
	}
	return child_good(pid);
}

bool turns_make(struct turns *t)
{
	return pipe(t->to) == 0 && pipe(t->back) == 0;
}

void tell(const int pair[2])
{
	if (write(pair[1], "x", 1) != 1)
		_exit(3);
}

bool wait_turn(const int pair[2])
{
	char c;

	return read(pair[0], &c, 1) == 1;
}

/* One directory deeper at a time: the tree may be deeper than any path, or than the descriptors we may open. */
static bool empty_dir(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	if (!d)
		return false;
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (unlinkat(dir, e->d_name, 0) && errno != ENOENT && !remove_tree(dir, e->d_name))
			break;
	}
	closedir(d);
	return !e;
}

bool remove_tree(int dir, const char *name)
{
	bool good;
	int fd;

	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return true;
	fchmodat(dir, name, 0700, 0);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	good = empty_dir(fd);
	close(fd);
	return good && unlinkat(dir, name, AT_REMOVEDIR) == 0;
}
