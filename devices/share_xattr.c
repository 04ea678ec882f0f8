// SPDX-License-Identifier: Apache-2.0
/*
 * share_xattr.c - extended attributes of any object, access control lists among them.
 *
 * An O_PATH descriptor has no attribute calls of its own, so the object is named by what procfs
 * calls its descriptor, relative to the thread's working directory (share_thread_init()). That link
 * leads to the object itself, also if it is a symbolic link, a device or unlinked, and is the only
 * one followed (hard case D41). Names and values are the guest's as they are; what is kept from it
 * is one table. Thread: the owner's. Calls: share_inode.c, share_path.c. Spec: xattr(7),
 * proc_pid_fd(5).
 */
#include "share_int.h"
#include <linux/limits.h>
#include <sys/xattr.h>

#define ACL_PREFIX "system.posix_acl_"
#define ACL_ACCESS "system.posix_acl_access"

/* ---- what is not for the guest ---- */

static bool is_mapped(const struct share_inode *inode)
{
	return inode->share->cfg.owner == SHARE_OWNER_MAPPED;
}

/* The host keeps as a regular file what is none in the guest: Linux has no such names there. */
static bool stands_for_other(const struct share_inode *inode)
{
	return is_mapped(inode) && inode->type != S_IFREG && inode->type != S_IFDIR;
}

static bool without_acl(const struct share_inode *inode)
{
	return !inode->share->cfg.posix_acl;
}

/* Such a name is not listed and not found. */
static const struct rule {
	const char *prefix;
	bool (*hides)(const struct share_inode *);
	int change; /* what an attempt to set or remove it gets */
} rules[] = {
	{"user.virtfs.", is_mapped, -EOPNOTSUPP},
	{"user.", stands_for_other, -EPERM},
	{ACL_PREFIX, without_acl, -EOPNOTSUPP},
};

static const struct rule *hidden_by(const struct share_inode *inode, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (!strncmp(name, rules[i].prefix, strlen(rules[i].prefix)) &&
		    rules[i].hides(inode))
			return &rules[i];
	return NULL;
}

static int reach(struct share_inode *inode, struct fd_name *path)
{
	int fd;

	if (!inode->share->cfg.xattr)
		return -EOPNOTSUPP;
	fd = share_inode_fd(inode);
	if (fd < 0)
		return fd;
	*path = share_path_fd_name(fd);
	return 0;
}

static int reach_to_change(struct share_inode *inode, const char *name, struct fd_name *path)
{
	const struct rule *rule = hidden_by(inode, name);
	int err = reach(inode, path);

	if (err)
		return err;
	if (inode->share->readonly)
		return -EROFS;
	return rule ? rule->change : share_owner_may_change(inode->share, share_inode_fd(inode));
}

/* ---- asking ---- */

ssize_t share_getxattr(struct share_inode *inode, const char *name, void *value, size_t size)
{
	struct fd_name path;
	int err = reach(inode, &path);
	ssize_t n;

	if (err)
		return err;
	if (hidden_by(inode, name))
		return -ENODATA;
	n = getxattr(path.s, name, value, size);
	return n < 0 ? -errno : n;
}

/* Moves the names the guest may see to the front; their length. */
static size_t list_filter(const struct share_inode *inode, char *list, size_t len)
{
	size_t kept = 0, n;

	for (size_t at = 0; at < len; at += n) {
		n = strnlen(list + at, len - at - 1) + 1;
		if (hidden_by(inode, list + at))
			continue;
		memmove(list + kept, list + at, n);
		kept += n;
	}
	return kept;
}

/* Read whole, as only then it is known how long it is without what is hidden. */
ssize_t share_listxattr(struct share_inode *inode, char *list, size_t size)
{
	auto_free char *all = NULL;
	struct fd_name path;
	int err = reach(inode, &path);
	ssize_t n;

	if (err)
		return err;
	all = malloc(XATTR_LIST_MAX + 1);
	if (!all)
		return -ENOMEM;
	n = listxattr(path.s, all, XATTR_LIST_MAX);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	all[n] = '\0';
	n = (ssize_t)list_filter(inode, all, (size_t)n);
	if (size && (size_t)n > size)
		return -ERANGE;
	if (size)
		memcpy(list, all, (size_t)n);
	return n;
}

/* ---- changing ---- */

/*
 * With CAP_FSETID the host leaves the bit, whoever the guest's caller is (D40). chmod keeps the
 * list: the mode's group bits are its mask already. Afterwards, so that a list that was refused
 * changes nothing.
 */
static int clear_sgid(struct share_inode *inode, const struct fd_name *path)
{
	struct statx st;
	int fd = share_inode_fd(inode), err = fd < 0 ? fd : share_inode_statx(fd, "", &st);

	if (err || !(st.stx_mode & S_ISGID))
		return err;
	if (fchmodat(inode->share->proc, path->s, st.stx_mode & 07777 & ~S_ISGID, 0) < 0)
		return -errno;
	return 0;
}

int share_setxattr(struct share_inode *inode, const char *name, const void *value, size_t size,
		   int flags, bool kill_sgid)
{
	struct fd_name path;
	int err = reach_to_change(inode, name, &path);

	if (err)
		return err;
	if (setxattr(path.s, name, value, size, flags) < 0)
		return -errno;
	/* A default list does not decide about the directory itself. */
	return kill_sgid && !strcmp(name, ACL_ACCESS) ? clear_sgid(inode, &path) : 0;
}

int share_removexattr(struct share_inode *inode, const char *name)
{
	struct fd_name path;
	int err = reach_to_change(inode, name, &path);

	if (err)
		return err;
	return removexattr(path.s, name) < 0 ? -errno : 0;
}
