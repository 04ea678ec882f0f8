// SPDX-License-Identifier: Apache-2.0
/*
 * t_suite_fuse.c - the file system suite, through a FUSE session: each cache mode and owner mode, old guests and new
 * ones, those that do not say what they open, one thread and several, both engines of the loop.
 */
#include "fs_suite/door.h"
#include "../devices/fuse.h"

#define FUSE(...) (&(const struct fs_fuse){__VA_ARGS__})

static const struct fs_setup setups[] = {
	FS_SETUP("auto, passthrough", FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH),
		 .door = FUSE(.cache = FUSE_CACHE_AUTO, .newest = true)),
	FS_SETUP("auto, squash, an old guest", FS_SHARE(.owner = SHARE_OWNER_SQUASH),
		 .nobody = true, .door = FUSE(.cache = FUSE_CACHE_AUTO), .engine = "epoll"),
	FS_SETUP("never, mapped", FS_SHARE(.owner = SHARE_OWNER_MAPPED), .nobody = true,
		 .door = FUSE(.cache = FUSE_CACHE_NEVER, .newest = true, .plus = true)),
	FS_SETUP("never, passthrough, an old guest", FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH),
		 .door = FUSE(.cache = FUSE_CACHE_NEVER), .engine = "epoll", .tmpfs = true),
	FS_SETUP("always and untold, passthrough", FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH),
		 .door = FUSE(.cache = FUSE_CACHE_ALWAYS, .untold = true, .newest = true,
			      .plus = true)),
	FS_SETUP("always and untold, mapped", FS_SHARE(.owner = SHARE_OWNER_MAPPED), .nobody = true,
		 .door = FUSE(.cache = FUSE_CACHE_ALWAYS, .untold = true, .newest = true)),
	FS_SETUP("always and untold, squash", FS_SHARE(.owner = SHARE_OWNER_SQUASH), .nobody = true,
		 .door = FUSE(.cache = FUSE_CACHE_ALWAYS, .untold = true), .tmpfs = true),
	FS_SETUP("auto, writeback, squash", FS_SHARE(.owner = SHARE_OWNER_SQUASH), .nobody = true,
		 .door = FUSE(.cache = FUSE_CACHE_AUTO, .writeback = true, .newest = true)),
	FS_SETUP("always, writeback, passthrough", FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH),
		 .door = FUSE(.cache = FUSE_CACHE_ALWAYS, .writeback = true, .newest = true,
			      .plus = true),
		 .tmpfs = true, .engine = "uring"),
	FS_SETUP("auto, passthrough, 8 descriptors, by handle",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .fd_budget = FS_FEWEST),
		 .door = FUSE(.cache = FUSE_CACHE_AUTO, .newest = true, .plus = true)),
	FS_SETUP("auto, squash, 8 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_SQUASH, .fd_budget = FS_FEWEST), .nobody = true,
		 .tmpfs = true, .door = FUSE(.cache = FUSE_CACHE_AUTO, .plus = true)),
	FS_SETUP("always and untold, passthrough, 8 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .fd_budget = FS_FEWEST),
		 .door = FUSE(.cache = FUSE_CACHE_ALWAYS, .untold = true, .newest = true)),
	FS_SETUP("auto, locks and lists",
		 FS_SHARE(.owner = SHARE_OWNER_PASSTHROUGH, .posix_acl = true,
			  .locks = SHARE_LOCKS_HOST),
		 .door = FUSE(.cache = FUSE_CACHE_AUTO, .newest = true, .threads = 2)),
	FS_SETUP("auto, mapped, three threads, 16 descriptors",
		 FS_SHARE(.owner = SHARE_OWNER_MAPPED, .fd_budget = 2 * FS_FEWEST), .nobody = true,
		 .door = FUSE(.cache = FUSE_CACHE_AUTO, .newest = true, .threads = 3)),
	FS_SETUP("auto, no attributes", {.submounts = true}, .nobody = true, .tmpfs = true,
		 .door = FUSE(.cache = FUSE_CACHE_AUTO)),
	FS_SETUP("never, read-only", FS_SHARE(.readonly = true),
		 .door = FUSE(.cache = FUSE_CACHE_NEVER)),
	FS_SETUP("always and untold, read-only", FS_SHARE(.readonly = true),
		 .door = FUSE(.cache = FUSE_CACHE_ALWAYS, .untold = true, .newest = true)),
};

int main(void)
{
	return fs_suite(&door_fuse, setups, ARRAY_LEN(setups));
}
