// SPDX-License-Identifier: Apache-2.0
/*
 * host_dir.h - the host's side of a directory that tests share: taking away what is in it.
 */
#ifndef TESTS_HOST_DIR_H
#define TESTS_HOST_DIR_H

#include "../vmm/base.h"
#include "tap.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

__attribute__((unused)) static void host_clear(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(fd);
	struct dirent *e;

	need(d);
	while ((e = readdir(d))) {
		int sub;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (!unlinkat(dir, e->d_name, 0))
			continue;
		need(!fchmodat(dir, e->d_name, 0700, 0));
		sub = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		need(sub >= 0);
		host_clear(sub);
		close(sub);
		need(!unlinkat(dir, e->d_name, AT_REMOVEDIR));
	}
	closedir(d);
}

#endif
