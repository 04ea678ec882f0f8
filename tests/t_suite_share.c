// SPDX-License-Identifier: Apache-2.0
/*
 * t_suite_share.c - the file system suite, through the file layer's own door: each owner mode, by root and by a plain
 * user, with descriptors in plenty and with hardly any, found again by handle and by name, on two file systems.
 */
#include "fs_suite/door.h"

static const struct fs_setup setups[] = {
	FS_SETUP("passthrough", FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH)),
	FS_SETUP("squash by root", FS_SHARE(.owner = SHARE_OWNER_SQUASH), .engine = "epoll",
		 .tmpfs = true),
	FS_SETUP("mapped by root", FS_SHARE(.owner = SHARE_OWNER_MAPPED)),
	FS_SETUP("squash", FS_SHARE(.owner = SHARE_OWNER_AUTO), .nobody = true),
	FS_SETUP("mapped", FS_SHARE(.owner = SHARE_OWNER_MAPPED), .nobody = true),
	FS_SETUP("passthrough, 8 descriptors, by handle",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .fd_budget = FS_FEWEST)),
	FS_SETUP("passthrough, 8 descriptors, by name",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .fd_budget = FS_FEWEST),
		 .by_name = true),
	FS_SETUP("mapped by root, 16 descriptors, by handle",
		 FS_SHARE(.owner = SHARE_OWNER_MAPPED, .fd_budget = 2 * FS_FEWEST), .tmpfs = true),
	FS_SETUP("squash, 8 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_SQUASH, .fd_budget = FS_FEWEST), .nobody = true),
	FS_SETUP("mapped, 8 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_MAPPED, .fd_budget = FS_FEWEST), .nobody = true,
		 .tmpfs = true),
	FS_SETUP("mapped, 16 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_MAPPED, .fd_budget = 2 * FS_FEWEST), .nobody = true),
	FS_SETUP("passthrough on tmpfs", FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH), .tmpfs = true),
	FS_SETUP("passthrough on tmpfs, 16 descriptors, by name",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .fd_budget = 2 * FS_FEWEST),
		 .by_name = true, .tmpfs = true),
	FS_SETUP("mapped on tmpfs", FS_SHARE(.owner = SHARE_OWNER_MAPPED), .tmpfs = true,
		 .nobody = true),
	FS_SETUP("locks and lists", FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .posix_acl = true,
					     .locks = SHARE_LOCKS_HOST)),
	FS_SETUP("locks", FS_SHARE(.owner = SHARE_OWNER_SQUASH, .locks = SHARE_LOCKS_HOST),
		 .nobody = true, .engine = "epoll"),
	FS_SETUP("no attributes", {.submounts = true}, .nobody = true, .tmpfs = true),
	FS_SETUP("read-only", FS_SHARE(.readonly = true)),
	FS_SETUP("read-only, mapped, 8 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_MAPPED, .readonly = true, .fd_budget = FS_FEWEST),
		 .nobody = true),
	FS_SETUP("read-only on tmpfs", FS_SHARE(.readonly = true), .tmpfs = true),
};

int main(void)
{
	return fs_suite(&door_share, setups, ARRAY_LEN(setups));
}
