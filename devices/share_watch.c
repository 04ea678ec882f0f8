// SPDX-License-Identifier: Apache-2.0
/*
 * share_watch.c - learning that the contents of a file have changed.
 *
 * By inotify, which raises IN_MODIFY for writes and for changes of size alike, once the call that makes them is over. A
 * file is named as for extended attributes, by what procfs calls its descriptor, relative to the thread's working
 * directory: that link is the only one followed, so the object itself is watched, whatever its names become. What many
 * writes have raised is one event as long as nobody has read it. Thread: the owner's. Calls: share_budget.c,
 * share_path.c. Spec: inotify(7).
 */
#include "share_int.h"
#include <assert.h>
#include <sys/inotify.h>

int share_watches_open(int *fd)
{
	int opened = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (opened < 0)
		return -errno;
	*fd = opened;
	return 0;
}

int share_watch(struct share_inode *inode, int fd, int *number)
{
	int object = share_inode_fd(inode), wd;

	if (object < 0)
		return object;
	wd = inotify_add_watch(fd, share_path_fd_name(object).s, IN_MODIFY);
	if (wd < 0)
		return -errno;
	*number = wd;
	return 0;
}

/* The host may have ended the watch already. */
void share_unwatch(int fd, int number)
{
	(void)!inotify_rm_watch(fd, number);
}

/* Events of files carry no name, so that the buffer is never too short for one. */
unsigned share_changes(int fd, int number[SHARE_CHANGES])
{
	_Alignas(8) char buf[SHARE_CHANGES * sizeof(struct inotify_event)];
	ssize_t got = read(fd, buf, sizeof(buf));
	size_t at = 0;
	unsigned n = 0;

	static_assert(SHARE_CHANGED_ANY == -1, "the wd of IN_Q_OVERFLOW");
	while (got > 0 && at < (size_t)got) {
		const struct inotify_event *e = (const struct inotify_event *)(buf + at);

		number[n++] = e->wd;
		at += sizeof(*e) + e->len;
	}
	return n;
}
