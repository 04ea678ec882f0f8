// SPDX-License-Identifier: Apache-2.0
/*
 * share_ioctl.c - the few ioctls that are about a file as such.
 */
#include "share_int.h"

ssize_t share_ioctl(struct share_inode *inode, struct share_file *file, unsigned cmd, void *arg,
		    size_t in, size_t out)
{
	(void)inode, (void)file, (void)cmd, (void)arg, (void)in, (void)out;
	return -ENOTTY;
}
