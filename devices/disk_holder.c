// SPDX-License-Identifier: Apache-2.0
/*
 * disk_holder.c - who has the lock on an image, so that the message can name the process to stop (hard case F13).
 *
 * The kernel does not say: an open file description lock belongs to no process (F_OFD_GETLK answers -1). But the fdinfo of
 * each descriptor lists the locks that its description holds. Looked through only when a lock was refused; what this user
 * may not see, or is not there, is passed over. Calls: /proc (proc(5)).
 */
#include "disk_int.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* The whole search takes a second or so at most, on a host with any number of processes. */
#define FILES_MAX 50000

struct search {
	struct stat file;
	int proc;       /* /proc */
	unsigned files; /* and processes, looked at */
	struct disk_holder found;
};

/* The beginning of /proc/PATH, as a string. False: there is none, or no right to it. */
static bool proc_read(const struct search *s, const char *path, char *buf, size_t size)
{
	auto_fd fd = openat(s->proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[MAX(n, (ssize_t)0)] = '\0';
	return n > 0;
}

/* "lock:	1: OFDLCK  ADVISORY  WRITE -1 fe:00:1234 0 EOF" */
static bool has_lock(const char *fdinfo, ino_t ino)
{
	unsigned long long locked;

	for (const char *line = fdinfo; (line = strstr(line, "lock:")); line++)
		if (sscanf(line, "lock: %*u: %*s %*s %*s %*d %*x:%*x:%llu", &locked) == 1 &&
		    locked == ino)
			return true;
	return false;
}

/*
 * The device number in that line is the superblock's, which is not always what stat() says (btrfs), so the file itself is
 * asked; only now, because a file of a server that is gone would not answer.
 */
static bool is_holder(struct search *s, const char *pid, const char *fd)
{
	char path[600], fdinfo[1024];
	struct stat st;

	s->files++;
	snprintf(path, sizeof(path), "%s/fdinfo/%s", pid, fd);
	if (!proc_read(s, path, fdinfo, sizeof(fdinfo)) || !has_lock(fdinfo, s->file.st_ino))
		return false;
	snprintf(path, sizeof(path), "%s/fd/%s", pid, fd);
	return !fstatat(s->proc, path, &st, 0) && st.st_dev == s->file.st_dev &&
	       st.st_ino == s->file.st_ino;
}

static DIR *list(const struct search *s, const char *path)
{
	int fd = openat(s->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		close_fd(&fd);
	return d;
}

/* A process may call itself anything. */
static void name_holder(struct search *s, const char *pid)
{
	struct disk_holder *h = &s->found;
	char path[300];

	h->pid = atoi(pid);
	snprintf(path, sizeof(path), "%s/comm", pid);
	proc_read(s, path, h->comm, sizeof(h->comm));
	h->comm[strcspn(h->comm, "\n")] = '\0';
	for (char *c = h->comm; *c; c++)
		if (!isprint((unsigned char)*c))
			*c = '?';
}

static void search_process(struct search *s, const char *pid)
{
	char path[300];
	struct dirent *e;
	DIR *d;

	s->files++;
	snprintf(path, sizeof(path), "%s/fdinfo", pid);
	d = list(s, path);
	while (d && !s->found.pid && s->files < FILES_MAX && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]) && is_holder(s, pid, e->d_name))
			name_holder(s, pid);
	if (d)
		closedir(d);
}

struct disk_holder disk_find_holder(int fd)
{
	struct search s = {.proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	struct dirent *e;
	DIR *d = NULL;

	if (s.proc >= 0 && !fstat(fd, &s.file))
		d = list(&s, ".");
	while (d && !s.found.pid && s.files < FILES_MAX && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]))
			search_process(&s, e->d_name);
	if (d)
		closedir(d);
	close_fd(&s.proc);
	return s.found;
}
