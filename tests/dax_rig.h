// SPDX-License-Identifier: Apache-2.0
/*
 * dax_rig.h - a share with a window and the thread that serves it, for tests: what a session would ask runs there, under
 * the share's filter.
 */
#ifndef TESTS_DAX_RIG_H
#define TESTS_DAX_RIG_H

#include "../devices/dax_int.h"
#include "fakeguest.h"
#include "host_dir.h"
#include "tap.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SIZE MIB(8)

static char top[512];
static int top_dir;
static uint64_t page;

/* ---- a share with its thread ---- */

struct rig {
	struct fakeguest *fg;
	struct share *share;
	struct iothread *io;
	struct share_inode *root;
	struct dax *dax;
	struct window *w;
	struct watch watch;
};

/* One call, carried to the iothread. */
struct job {
	struct rig *r;
	enum { MAP, UNMAP, RESET, FIND, PUT, CLOSE, CHANGED, SHOW, WATCH } what;
	struct share_inode *inode;
	uint64_t file_off, off, len;
	bool writable;
	const char *name;
	int result;
};

static int find(struct job *j)
{
	struct statx st;
	struct name n;

	need(!name_check(&n, j->name, strlen(j->name)));
	return share_lookup(j->r->root, &n, &j->inode, &st);
}

static void work(void *arg)
{
	struct job *j = arg;

	switch (j->what) {
	case MAP:
		j->result = dax_map(j->r->dax, j->inode, j->file_off, j->off, j->len, j->writable);
		return;
	case UNMAP:
		j->result = dax_unmap(j->r->dax, j->off, j->len);
		return;
	case RESET:
		dax_reset(j->r->dax);
		return;
	case FIND:
		j->result = find(j);
		return;
	case PUT:
		share_put(j->inode);
		return;
	case CLOSE:
		share_put(j->r->root);
		return;
	case CHANGED:
		dax_changed(j->r->dax);
		return;
	case SHOW:
		dax_show(j->r->dax, j->inode, j->len);
		return;
	case WATCH:
		j->result = loop_watch(j->r->io, &j->r->watch);
		return;
	}
}

__attribute__((unused)) static int map(struct rig *r, struct share_inode *inode, uint64_t file_off,
				       uint64_t off, uint64_t len, bool writable)
{
	struct job j = {.r = r,
			.what = MAP,
			.inode = inode,
			.file_off = file_off,
			.off = off,
			.len = len,
			.writable = writable};

	loop_call(r->io, work, &j);
	return j.result;
}

__attribute__((unused)) static int unmap(struct rig *r, uint64_t off, uint64_t len)
{
	struct job j = {.r = r, .what = UNMAP, .off = off, .len = len};

	loop_call(r->io, work, &j);
	return j.result;
}

__attribute__((unused)) static void simply(struct rig *r, int what, struct share_inode *inode)
{
	struct job j = {.r = r, .what = what, .inode = inode};

	loop_call(r->io, work, &j);
}

/* What the loop would do when there is something. False: there is nothing. */
__attribute__((unused)) static bool changed(struct rig *r)
{
	struct pollfd p = {.fd = dax_events(r->dax), .events = POLLIN};

	if (poll(&p, 1, 0) != 1)
		return false;
	simply(r, CHANGED, NULL);
	return true;
}

__attribute__((unused)) static struct share_inode *inode_of(struct rig *r, const char *name)
{
	struct job j = {.r = r, .what = FIND, .name = name};

	loop_call(r->io, work, &j);
	need(!j.result);
	return j.inode;
}

static int rig_init(void *arg)
{
	struct rig *r = arg;
	int err = share_thread_init(r->share);

	if (!err)
		r->root = share_root(r->share);
	return err;
}

__attribute__((unused)) static void rig_create(struct rig *r, struct fakeguest *fg, bool readonly,
					       uint64_t at, uint64_t size)
{
	struct share_config cfg = {.path = top, .readonly = readonly};

	*r = (struct rig){.fg = fg};
	need(!share_open(&r->share, "fs0", &cfg));
	need(!dax_create(&r->dax, fg->vm, "fs0", size));
	r->w = dax_window(r->dax);
	need(!window_place(r->w, at));
	need(!iothread_create(&r->io, "fs0", LOOP_AUTO, 8, &share_syscalls));
	need(!iothread_start(r->io, rig_init, r));
}

__attribute__((unused)) static struct fakeguest *rig_close(struct rig *r)
{
	simply(r, CLOSE, NULL);
	iothread_destroy(r->io);
	dax_destroy(r->dax);
	share_close(r->share);
	return r->fg;
}

/* ---- the host's side ---- */

/* len bytes of the letter. */
__attribute__((unused)) static int host_file(const char *name, char letter, size_t len)
{
	int fd = openat(top_dir, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	char buf[512];

	need(fd >= 0);
	memset(buf, letter, sizeof(buf));
	for (size_t n = 0; n < len; n += sizeof(buf))
		need(pwrite(fd, buf, MIN(sizeof(buf), len - n), (off_t)n) > 0);
	return fd;
}

__attribute__((unused)) static char look(struct rig *r, uint64_t off)
{
	return *(volatile char *)(r->w->host + off);
}

/* The directory that is shared, with two files of four pages. */
static void set_up(const char *name)
{
	const char *tmp = getenv("TMPDIR");

	page = (uint64_t)sysconf(_SC_PAGESIZE);
	snprintf(top, sizeof(top), "%.400s/%s.XXXXXX", tmp ? tmp : "/tmp", name);
	need(mkdtemp(top));
	top_dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(top_dir >= 0);
	close(host_file("a", 'a', 4 * page));
	close(host_file("b", 'b', 4 * page));
	need(!sandbox_init() && !window_init());
}

static void tear_down(void)
{
	host_clear(top_dir);
	close(top_dir);
	need(!rmdir(top));
}

/* What is there, or -1, asked without touching it: as KVM does, beside whatever maps; so no sanitizer is to see it. */
__attribute__((unused)) static int peek(struct rig *r, uint64_t off)
{
	unsigned char byte;
	int pair[2], c = -1;

	need(!pipe(pair));
	if (syscall(SYS_write, pair[1], r->w->host + off, 1) == 1) {
		need(read(pair[0], &byte, 1) == 1);
		c = byte;
	}
	close(pair[0]);
	close(pair[1]);
	return c;
}

__attribute__((unused)) static bool is_there(struct rig *r, uint64_t off)
{
	return peek(r, off) >= 0;
}

#endif
