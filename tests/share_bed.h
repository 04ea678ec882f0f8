// SPDX-License-Identifier: Apache-2.0
/*
 * share_bed.h - a directory to share, and a thread to use it from: for the tests of the share layer's parts.
 *
 * The same tests run in several places, as file systems differ: $TMPDIR (or /tmp), and /dev/shm, which is a tmpfs. What
 * is done to a share from ride() runs on an iothread under its filter, so that a call that the list lacks ends the test.
 */
#ifndef TESTS_SHARE_BED_H
#define TESTS_SHARE_BED_H

#include "host_dir.h"
#include "tap.h"
#include "../devices/share_int.h"

struct place {
	const char *base;
	char top[512];
	int dir; /* the host's view of the shared directory */
};

__attribute__((unused)) static const char *place_base(unsigned i)
{
	const char *tmp = getenv("TMPDIR");

	return i == 0 ? (tmp ? tmp : "/tmp") : i == 1 ? "/dev/shm" : NULL;
}

/* False, and said, where nothing may be made. */
__attribute__((unused)) static bool place_make(struct place *p, const char *base)
{
	p->base = base;
	snprintf(p->top, sizeof(p->top), "%s/t_share.XXXXXX", base);
	if (!mkdtemp(p->top)) {
		skip("no directory can be made there", "%s", base);
		return false;
	}
	p->dir = open(p->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(p->dir >= 0);
	return true;
}

__attribute__((unused)) static void place_end(struct place *p)
{
	host_clear(p->dir);
	close(p->dir);
	need(rmdir(p->top) == 0);
}

/* cfg's path is set here. */
__attribute__((unused)) static struct share *place_open(struct place *p, struct share_config cfg)
{
	struct share *s;

	cfg.path = p->top;
	need(share_open(&s, "fs0", &cfg) == 0);
	return s;
}

__attribute__((unused)) static struct name nm(const char *s)
{
	struct name n;

	need(name_check(&n, s, strlen(s)) == 0);
	return n;
}

__attribute__((unused)) static struct share_inode *find(struct share_inode *dir, const char *name)
{
	struct share_inode *inode = NULL;
	struct name n = nm(name);
	struct statx st;

	need(share_lookup(dir, &n, &inode, &st) == 0);
	return inode;
}

__attribute__((unused)) static struct share_file *open_file(struct share_inode *inode, int flags)
{
	struct share_file *file;

	need(share_open_inode(inode, flags, &file) == 0);
	return file;
}

__attribute__((unused)) static void host_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	need(fd >= 0);
	need(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

__attribute__((unused)) static unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	need(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int ride_init(void *arg)
{
	return share_thread_init(arg);
}

/* An iothread that is ready for s, or NULL where the host refuses the engine. */
__attribute__((unused)) static struct iothread *ride_begin(struct share *s, enum loop_engine engine)
{
	struct iothread *io;

	if (iothread_create(&io, "fs0", engine, 8, &share_syscalls))
		return NULL;
	need(iothread_start(io, ride_init, s) == 0);
	return io;
}

#endif
