// SPDX-License-Identifier: Apache-2.0
/*
 * share.c - a share from its opening to its end, and the verbs that change names of what is there.
 *
 * Every name here is one checked component under the descriptor of a directory, and none of these
 * calls follows a final symbolic link: nothing is resolved, so nothing can lead away. Read-only is
 * refused first thing, whatever the guest mounted. Thread: the owner's, but for share_open and
 * share_close. Calls: log.h, share_inode.c, share_path.c, share_owner.c.
 */
#include "share_int.h"
#include <linux/fs.h>
#include <stdio.h>
#include <sys/syscall.h>

int name_check(struct name *out, const char *s, size_t n)
{
	if (n == 0 || memchr(s, '/', n) || memchr(s, '\0', n))
		return -EINVAL;
	if ((n == 1 && s[0] == '.') || (n == 2 && s[0] == '.' && s[1] == '.'))
		return -EINVAL;
	if (n >= sizeof(out->s))
		return -ENAMETOOLONG;
	memcpy(out->s, s, n);
	out->s[n] = '\0';
	return 0;
}

/* ---- set-up ---- */

/*
 * Objects are told apart by mount, so a kernel that does not say which (before 5.8) cannot be used.
 */
static int root_init(struct share *s, const char *name, const char *path)
{
	auto_fd fd = -1;
	struct statx st;
	int err = share_path_root(s, name, path, &fd);

	if (err)
		return err;
	err = share_inode_adopt(s, &fd, &s->root, &st);
	if (!err && !(st.stx_mask & STATX_MNT_ID))
		err = -ENOSYS;
	if (err)
		log_err("%s: %s (%s): %s", name, path,
			log_remedy(-err, "statx must tell the mount: Linux 5.8 or later does"),
			strerror(-err));
	return err;
}

int share_open(struct share **out, const char *name, const struct share_config *cfg)
{
	struct share *s = calloc(1, sizeof(*s));
	int err;

	if (!s) {
		log_err("%s: out of memory", name);
		return -ENOMEM;
	}
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->proc = -1;
	s->handles = true;
	share_ring_init(&s->used);
	share_ring_init(&s->strays);
	share_ring_init(&s->gone);
	s->cfg = *cfg;
	s->cfg.path = s->cfg.uid_map = s->cfg.gid_map = NULL;
	s->readonly = cfg->readonly;
	map_init(&s->inodes, sizeof(struct inode_key));
	map_init(&s->mounts, sizeof(uint32_t));
	map_init(&s->places, 2 * sizeof(uint64_t));
	share_lock_init(s);
	err = share_owner_init(s, name, cfg);
	if (err)
		goto fail;
	err = share_budget_init(s, name, cfg->fd_budget);
	if (err)
		goto fail;
	s->cfg.fd_budget = s->budget;
	err = share_path_init(s, name);
	if (err)
		goto fail;
	err = root_init(s, name, cfg->path);
	if (!err && cfg->owner == SHARE_OWNER_MAPPED)
		err = share_mapped_init(s, name);
	if (err)
		goto fail;
	*out = s;
	return 0;
fail:
	share_close(s);
	return err;
}

const struct share_config *share_config(const struct share *s)
{
	return &s->cfg;
}

void share_close(struct share *s)
{
	if (!s)
		return;
	share_lock_fini(s);
	share_file_close_all(s);
	share_inode_free_all(s);
	share_owner_fini(s);
	close_fd(&s->proc);
	free(s);
}

/* ---- other names for what is there ---- */

/*
 * Through procfs: linking an empty name under the descriptor needs a capability. The link leads to
 * the object itself, also if that is a symbolic link.
 */
int share_link(struct share_inode *inode, struct share_inode *dir, const struct name *name,
	       struct statx *st)
{
	struct share *s = dir->share;
	int from, to;

	if (s->readonly)
		return -EROFS;
	from = share_inode_fd(inode);
	to = share_inode_fd(dir);
	if (from < 0 || to < 0)
		return from < 0 ? from : to;
	if (linkat(s->proc, share_path_fd_name(from).s, to, name->s, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	share_place_set(inode, dir, name);
	return st ? share_getattr(inode, NULL, st) : 0;
}

int share_unlink(struct share_inode *dir, const struct name *name, int flags)
{
	int fd, err;

	if (dir->share->readonly)
		return -EROFS;
	if (flags & ~AT_REMOVEDIR)
		return -EINVAL;
	fd = share_inode_fd(dir);
	if (fd < 0)
		return fd;
	err = share_inode_retain(dir, name);
	if (err)
		return err;
	return unlinkat(fd, name->s, flags) < 0 ? -errno : 0;
}

int share_rename(struct share_inode *dir, const struct name *name, struct share_inode *newdir,
		 const struct name *newname, unsigned flags)
{
	int from, to, err;

	if (dir->share->readonly)
		return -EROFS;
	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	from = share_inode_fd(dir);
	to = share_inode_fd(newdir);
	if (from < 0 || to < 0)
		return from < 0 ? from : to;
	/* What it replaces; what is exchanged keeps a name. */
	err = flags & RENAME_EXCHANGE ? 0 : share_inode_retain(newdir, newname);
	if (err)
		return err;
	/*
	 * By number: libc may turn it into another call when no flag is set, which the thread's
	 * filter lacks.
	 */
	if (syscall(SYS_renameat2, from, name->s, to, newname->s, flags) < 0)
		return -errno;
	share_place_moved(newdir, newname);
	if (flags & RENAME_EXCHANGE)
		share_place_moved(dir, name);
	return 0;
}
