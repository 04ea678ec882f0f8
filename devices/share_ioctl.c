// SPDX-License-Identifier: Apache-2.0
/*
 * share_ioctl.c - the few ioctls that are about a file as such: its flags and its project.
 *
 * One table says which: request numbers of programs of either word size, and how many bytes they
 * really move (the numbers of the flags speak of a long, but always meant an int). Whatever else a
 * guest asks is ENOTTY, which programs and overlayfs take for "there is no such thing here" (hard
 * case D45). Thread: the owner's. Calls: share_path.c. Spec: ioctl_iflags(2),
 * ioctl_xfs_fsgetxattr(2).
 */
#include "share_int.h"
#include <linux/fs.h>
#include <sys/ioctl.h>

static const struct request {
	unsigned cmd, host; /* as it came; what the host is asked */
	unsigned size;
	bool change;
} requests[] = {
	{FS_IOC_GETFLAGS, FS_IOC_GETFLAGS, sizeof(int), false},
	{FS_IOC32_GETFLAGS, FS_IOC_GETFLAGS, sizeof(int), false},
	{FS_IOC_SETFLAGS, FS_IOC_SETFLAGS, sizeof(int), true},
	{FS_IOC32_SETFLAGS, FS_IOC_SETFLAGS, sizeof(int), true},
	{FS_IOC_FSGETXATTR, FS_IOC_FSGETXATTR, sizeof(struct fsxattr), false},
	{FS_IOC_FSSETXATTR, FS_IOC_FSSETXATTR, sizeof(struct fsxattr), true},
};

static const struct request *request_find(unsigned cmd)
{
	for (size_t i = 0; i < ARRAY_LEN(requests); i++)
		if (requests[i].cmd == cmd)
			return &requests[i];
	return NULL;
}

/* What the request moves, or as much as its number says. */
static bool size_fits(const struct request *r, size_t n)
{
	return n == r->size || n == _IOC_SIZE(r->cmd);
}

/* A file system without flags says so in several ways; of one flag it does not have, in one. */
static int host_errno(const struct request *r)
{
	return errno == EOPNOTSUPP && !r->change ? -ENOTTY : -errno;
}

ssize_t share_ioctl(struct share_inode *inode, struct share_file *file, unsigned cmd, void *arg,
		    size_t in, size_t out)
{
	const struct request *r = request_find(cmd);
	_Alignas(8) unsigned char buf[SHARE_IOCTL_MAX] = {0};
	auto_fd opened = -1;
	int err;

	if (!r || (inode->type != S_IFREG && inode->type != S_IFDIR))
		return -ENOTTY;
	if (!size_fits(r, r->change ? in : out))
		return -EINVAL;
	if (r->change && inode->share->readonly)
		return -EROFS;
	if (!file) {
		err = share_path_reopen(inode, O_RDONLY, &opened);
		if (err)
			return err;
	}
	if (r->change) {
		err = share_owner_may_change(inode->share, file ? file->io.fd : opened);
		if (err)
			return err;
		memcpy(buf, arg, r->size);
	}
	if (ioctl(file ? file->io.fd : opened, r->host, buf) < 0)
		return host_errno(r);
	if (r->change)
		return 0;
	memcpy(arg, buf, r->size);
	return r->size;
}
