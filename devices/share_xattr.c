// SPDX-License-Identifier: Apache-2.0
/*
 * share_xattr.c - extended attributes.
 */
#include "share_int.h"

ssize_t share_getxattr(struct share_inode *inode, const char *name, void *value, size_t size)
{
	(void)inode, (void)name, (void)value, (void)size;
	return -EOPNOTSUPP;
}

ssize_t share_listxattr(struct share_inode *inode, char *list, size_t size)
{
	(void)inode, (void)list, (void)size;
	return -EOPNOTSUPP;
}

int share_setxattr(struct share_inode *inode, const char *name, const void *value, size_t size,
		   int flags, bool kill_sgid)
{
	(void)inode, (void)name, (void)value, (void)size, (void)flags, (void)kill_sgid;
	return -EOPNOTSUPP;
}

int share_removexattr(struct share_inode *inode, const char *name)
{
	(void)inode, (void)name;
	return -EOPNOTSUPP;
}
