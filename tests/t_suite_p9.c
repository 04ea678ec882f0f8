// SPDX-License-Identifier: Apache-2.0
/*
 * t_suite_p9.c - the file system suite, through a 9P session: each owner mode, small messages and large ones, clients that
 * remove and rename by name and by fid, messages as Linux has them and in pieces, both engines of the loop.
 */
#include "fs_suite/door.h"
#include "../devices/p9.h"

#define P9(...) (&(const struct fs_p9){__VA_ARGS__})

static const struct fs_setup setups[] = {
	FS_SETUP("passthrough, 512000", FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH),
		 .door = P9(.msize = 512000)),
	FS_SETUP("squash, 8k, an old client", FS_SHARE(.owner = SHARE_OWNER_SQUASH), .nobody = true,
		 .door = P9(.msize = 8192, .old = true), .engine = "epoll"),
	FS_SETUP("mapped, 4500", FS_SHARE(.owner = SHARE_OWNER_MAPPED), .nobody = true,
		 .door = P9(.msize = 4500)),
	FS_SETUP("passthrough, 1M, an old client", FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH),
		 .door = P9(.msize = 1 << 20, .old = true), .engine = "epoll", .tmpfs = true),
	FS_SETUP("passthrough, more than there is, on uring",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH),
		 .door = P9(.msize = 64 << 20, .multidevs = P9_FORBID), .tmpfs = true,
		 .engine = "uring"),
	FS_SETUP("mapped by root, in pieces", FS_SHARE(.owner = SHARE_OWNER_MAPPED),
		 .door = P9(.msize = 8192, .piece = 13)),
	FS_SETUP("squash by root, 128k", FS_SHARE(.owner = SHARE_OWNER_SQUASH), .tmpfs = true,
		 .door = P9(.msize = 128 << 10)),
	FS_SETUP("squash, in pieces", FS_SHARE(.owner = SHARE_OWNER_AUTO), .nobody = true,
		 .door = P9(.msize = 16384, .piece = 29)),
	FS_SETUP("mapped, an old client", FS_SHARE(.owner = SHARE_OWNER_MAPPED), .nobody = true,
		 .tmpfs = true, .door = P9(.msize = 128 << 10, .old = true)),
	FS_SETUP("passthrough, 8 descriptors, by handle",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .fd_budget = FS_FEWEST),
		 .door = P9(.msize = 512000)),
	FS_SETUP("passthrough, 8 descriptors, by name",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .fd_budget = FS_FEWEST),
		 .by_name = true, .door = P9(.msize = 512000, .old = true)),
	FS_SETUP("squash, 8 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_SQUASH, .fd_budget = FS_FEWEST), .nobody = true,
		 .tmpfs = true, .door = P9(.msize = 128 << 10, .old = true)),
	FS_SETUP("mapped, 8 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_MAPPED, .fd_budget = FS_FEWEST), .nobody = true,
		 .door = P9(.msize = 128 << 10)),
	FS_SETUP("mapped, 16 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_MAPPED, .fd_budget = 2 * FS_FEWEST), .nobody = true,
		 .door = P9(.msize = 128 << 10)),
	FS_SETUP("passthrough on tmpfs, 16 descriptors, by name",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .fd_budget = 2 * FS_FEWEST),
		 .by_name = true, .tmpfs = true, .door = P9(.msize = 128 << 10)),
	FS_SETUP("locks and lists",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .posix_acl = true,
			  .locks = SHARE_LOCKS_HOST),
		 .door = P9(.msize = 512000)),
	FS_SETUP("locks", FS_SHARE(.owner = SHARE_OWNER_SQUASH, .locks = SHARE_LOCKS_HOST),
		 .nobody = true, .engine = "epoll", .door = P9(.msize = 8192)),
	FS_SETUP("no attributes", {.submounts = true}, .nobody = true, .tmpfs = true,
		 .door = P9(.msize = 8192)),
	FS_SETUP("read-only", FS_SHARE(.readonly = true), .door = P9(.msize = 512000)),
	FS_SETUP("read-only, mapped, 8 descriptors, an old client",
		 FS_SHARE(.owner = SHARE_OWNER_MAPPED, .readonly = true, .fd_budget = FS_FEWEST),
		 .nobody = true, .door = P9(.msize = 8192, .old = true)),
};

int main(void)
{
	return fs_suite(&door_p9, setups, ARRAY_LEN(setups));
}
