// SPDX-License-Identifier: Apache-2.0
/*
 * capture.h - what goes to standard error between capture_begin() and capture_end(), which gives it back; judge it after that.
 */
#ifndef TESTS_CAPTURE_H
#define TESTS_CAPTURE_H

#include "tap.h"
#include <sys/mman.h>
#include <unistd.h>

struct capture {
	int memfd, saved;
};

static void capture_begin(struct capture *cap)
{
	cap->memfd = memfd_create("stderr", MFD_CLOEXEC);
	cap->saved = dup(STDERR_FILENO);
	need(cap->memfd >= 0 && cap->saved >= 0 && dup2(cap->memfd, STDERR_FILENO) >= 0);
}

/* said is a string afterwards, as much of it as there is room for. */
static void capture_end(struct capture *cap, char *said, size_t size)
{
	ssize_t n = pread(cap->memfd, said, size - 1, 0);

	need(dup2(cap->saved, STDERR_FILENO) >= 0 && n >= 0);
	said[n] = 0;
	close(cap->memfd);
	close(cap->saved);
}

#endif
