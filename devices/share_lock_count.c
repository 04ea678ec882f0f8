// SPDX-License-Identifier: Apache-2.0
/*
 * share_lock_count.c - how many ranges of a file a descriptor has locked.
 *
 * The host keeps each in memory of its own and knows no limit, so the guest must have one. What it locks is counted by
 * who calls, by the most it can have become; that is soon too much, as ranges meet and are let go in part, and then the
 * host is asked. Thread: see share_lock.c. Calls: procfs. Spec: proc_pid_fdinfo(5), "lock".
 */
#include "share_int.h"
#include <stdio.h>

/* Lines that begin with it, in pieces as they are read. */
struct lines {
	size_t at; /* characters of the line that are as expected; beyond its length: it is another */
	unsigned n;
};

static void lines_count(struct lines *l, const char *buf, size_t len)
{
	static const char word[] = "lock:";
	const size_t whole = sizeof(word) - 1;

	for (size_t i = 0; i < len; i++) {
		if (buf[i] == '\n')
			l->at = 0;
		else if (l->at < whole && buf[i] == word[l->at])
			l->n += ++l->at == whole;
		else
			l->at = whole;
	}
}

int share_lock_count(const struct share *s, int fd, unsigned *count)
{
	struct lines lines = {0};
	char buf[4096];
	auto_fd info = -1;
	ssize_t n;

	snprintf(buf, sizeof(buf), "../fdinfo/%d", fd);
	info = openat(s->proc, buf, O_RDONLY | O_CLOEXEC);
	if (info < 0)
		return -errno;
	while ((n = read(info, buf, sizeof(buf))) > 0)
		lines_count(&lines, buf, (size_t)n);
	if (n < 0)
		return -errno;
	*count = lines.n;
	return 0;
}
