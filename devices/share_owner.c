// SPDX-License-Identifier: Apache-2.0
/*
 * share_owner.c - whose files they are.
 *
 * passthrough: the guest's ids are the host's, or stand for others by a map. The calls that create
 * run as the caller (share_caller.c); all others run as root, for the guest's kernel has checked
 * them. squash: everything is done as the user we are, who is shown to the guest as its root.
 * mapped: so it is, but who owns what, and what it is, the guest decides alone (share_mapped.c).
 * Thread: any that called share_thread_init(). Calls: log.h, sandbox.h, share_idmap.c,
 * share_mapped.c. Spec: chown(2), chmod(2), write(2) on set-id bits.
 */
#include "share_int.h"
#include <linux/fs.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <linux/xattr.h> /* after it: libc has the flags, the kernel the names */

#define NO_ID ((uint32_t)-1)

const char *const share_owner_names[] = {
	[SHARE_OWNER_AUTO] = "auto",
	[SHARE_OWNER_PASSTHROUGH] = "passthrough",
	[SHARE_OWNER_SQUASH] = "squash",
	[SHARE_OWNER_MAPPED] = "mapped",
	NULL,
};

/* ---- what the thread may call ---- */

#define INT_ARG 0xffffffffu /* the kernel looks at the low half of an int argument only */

#define FCNTL(command, reason)                                                               \
	{                                                                                    \
		.nr = SYS_fcntl, .why = (reason), .masked = true, .arg = 1, .mask = INT_ARG, \
		.value = (command)                                                           \
	}

static const struct syscall_rule share_rules[] = {
	{.nr = SYS_unshare,
	 .why = "the thread's own umask and working directory",
	 .masked = true,
	 .arg = 0,
	 .mask = UINT64_MAX,
	 .value = CLONE_FS},
	{.nr = SYS_fchdir, .why = "where descriptors have names, for calls that take nothing else"},
	{.nr = SYS_umask, .why = "the caller's while something is made for it, else 0"},
	{.nr = SYS_setgroups,
	 .why = "none of ours; one of the caller's while something is made for it",
	 .masked = true,
	 .arg = 0,
	 .mask = INT_ARG & ~1u,
	 .value = 0},
	{.nr = SYS_setfsuid, .why = "creating as the guest's caller, and back"},
	{.nr = SYS_setfsgid, .why = "creating as the guest's caller, and back"},
	{.nr = SYS_capget, .why = "what to return to after creating as the caller"},
	{.nr = SYS_capset, .why = "a caller does not create with our capabilities; and back"},

	{.nr = SYS_openat2,
	 .why = "names, beneath a directory that is open (its flags lie in memory)"},
	{.nr = SYS_openat, .why = "objects opened again for I/O; names on hosts without openat2"},
	{.nr = SYS_close, .why = "objects the guest forgot"},
	{.nr = SYS_name_to_handle_at, .why = "idle objects, to find them again"},
	{.nr = SYS_open_by_handle_at, .why = "idle objects, found again"},
	{.nr = SYS_statx, .why = "attributes; what it is that was opened"},
	{.nr = SYS_fstatfs, .why = "df"},
	{.nr = SYS_readlinkat, .why = "targets of symbolic links"},
	{.nr = SYS_getdents64, .why = "directory listings"},
	{.nr = SYS_lseek, .why = "directory listings from a cookie; data and holes"},

	{.nr = SYS_mknodat, .why = "mknod, mkfifo, sockets bound to a name"},
	{.nr = SYS_mkdirat, .why = "mkdir"},
	{.nr = SYS_symlinkat, .why = "symlink"},
	{.nr = SYS_linkat, .why = "link"},
	{.nr = SYS_unlinkat, .why = "unlink, rmdir"},
	{.nr = SYS_renameat2, .why = "rename, exchange, whiteout"},
	{.nr = SYS_fchmodat, .why = "chmod"},
	{.nr = SYS_fchownat, .why = "chown"},
	{.nr = SYS_utimensat, .why = "times"},
	{.nr = SYS_lgetxattr, .why = "mapped: what an entry of a listing is"},
	{.nr = SYS_getxattr, .why = "extended attributes, by the name of a descriptor"},
	{.nr = SYS_setxattr, .why = "extended attributes, by the name of a descriptor"},
	{.nr = SYS_listxattr, .why = "extended attributes, by the name of a descriptor"},
	{.nr = SYS_removexattr, .why = "extended attributes, by the name of a descriptor"},
	{.nr = SYS_ftruncate, .why = "truncate"},
	{.nr = SYS_fallocate, .why = "fallocate, punching holes"},

	{.nr = SYS_inotify_add_watch,
	 .why = "files that are mapped: the host may make them shorter"},
	{.nr = SYS_inotify_rm_watch, .why = "files that are no longer mapped"},
	{.nr = SYS_copy_file_range, .why = "copies that the guest asks for as such"},
	{.nr = SYS_syncfs, .why = "sync of a file system, on the pool"},
	{.nr = SYS_flock, .why = "the guest's flock() locks on the host"},
	FCNTL(F_OFD_SETLK, "the guest's fcntl() locks on the host"),
	FCNTL(F_OFD_GETLK, "who holds such a lock"),
	SYSCALL_IOCTL(FS_IOC_GETFLAGS, "lsattr; overlayfs copying up"),
	SYSCALL_IOCTL(FS_IOC_SETFLAGS, "chattr"),
	SYSCALL_IOCTL(FS_IOC_FSGETXATTR, "project ids and extended flags"),
	SYSCALL_IOCTL(FS_IOC_FSSETXATTR, "project ids and extended flags"),
};
const struct syscalls share_syscalls = {share_rules, ARRAY_LEN(share_rules)};

/*
 * The kernel keeps umask and working directory together. Where it does not give a thread its own
 * (containers forbid unshare) both are those of the whole process, which opens nothing by a relative
 * name once its threads run: 0 and /proc/self/fd are then everybody's, and nobody may borrow another
 * umask for a while.
 */
static int fs_init(struct share *s)
{
	s->own_umask = unshare(CLONE_FS) == 0;
	if (!s->own_umask && errno != EPERM && errno != ENOSYS)
		return -errno;
	umask(0);
	return fchdir(s->proc) < 0 ? -errno : 0;
}

/*
 * EPERM from setgroups: we are not root, or that of a user namespace which may not switch to other
 * ids either, so there is no one who could use our groups.
 */
int share_thread_init(struct share *s)
{
	int err = fs_init(s);

	if (err)
		return err;
	/*
	 * By number: this thread only. A caller who creates with root's groups could make programs
	 * set-gid to them.
	 */
	if (syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
		return -errno;
	return 0;
}

/* ---- modes ---- */

static bool is_set(const char *text)
{
	return text && *text;
}

/* What cannot go together is said before anything is shared. */
static int owner_check(const struct share *s, const char *name, const struct share_config *cfg)
{
	const char *owner = share_owner_names[cfg->owner];
	const bool maps = is_set(cfg->uid_map) || is_set(cfg->gid_map);
	const char *key = is_set(cfg->uid_map)   ? "uid_map"
			  : is_set(cfg->gid_map) ? "gid_map"
						 : "posix_acl";

	if (!maps && !cfg->posix_acl)
		return 0;
	if (s->squash || cfg->owner == SHARE_OWNER_MAPPED) {
		log_err("%s: %s needs owner=passthrough and owner is %s%s: leave %s out, or run as "
			"root with owner=passthrough",
			name, key, owner, cfg->owner == SHARE_OWNER_AUTO ? ", here squash" : "",
			key);
		return -EINVAL;
	}
	if (cfg->posix_acl && !cfg->xattr) {
		log_err("%s: posix_acl needs xattr, as lists are attributes, and xattr is false: "
			"leave one of "
			"them out",
			name);
		return -EINVAL;
	}
	if (!maps || !cfg->posix_acl)
		return 0;
	/* The ids in the lists are the file system's own: no one would translate them (D40). */
	log_err("%s: posix_acl and %s cannot go together: leave one of them out", name, key);
	return -EINVAL;
}

static int maps_init(struct share *s, const char *name, const struct share_config *cfg)
{
	char err[OPT_ERR_MAX];
	int r = share_idmap_init(&s->uids, cfg->uid_map, err);

	if (r) {
		log_err("%s: uid_map %s", name, err);
		return r;
	}
	r = share_idmap_init(&s->gids, cfg->gid_map, err);
	if (r)
		log_err("%s: gid_map %s", name, err);
	return r;
}

int share_owner_init(struct share *s, const char *name, const struct share_config *cfg)
{
	const bool able = share_owner_passes();
	int err;

	s->uid = geteuid();
	s->gid = getegid();
	if (cfg->owner == SHARE_OWNER_PASSTHROUGH && !able) {
		log_err("%s: owner=passthrough needs root with CAP_SETUID, CAP_SETGID, CAP_CHOWN "
			"and more than one id: run as root or use owner=squash",
			name);
		return -EPERM;
	}
	s->squash = cfg->owner == SHARE_OWNER_SQUASH || (cfg->owner == SHARE_OWNER_AUTO && !able);
	err = owner_check(s, name, cfg);
	if (!err)
		err = maps_init(s, name, cfg);
	return err ? err : share_caller_init(s, name);
}

void share_owner_fini(struct share *s)
{
	share_idmap_fini(&s->uids);
	share_idmap_fini(&s->gids);
}

/* ---- who is shown ---- */

int share_owner_show(const struct share *s, int fd, struct statx *st)
{
	if (s->mapped)
		return share_mapped_show(fd, st);
	if (s->squash) {
		st->stx_uid = st->stx_uid == s->uid ? 0 : st->stx_uid;
		st->stx_gid = st->stx_gid == s->gid ? 0 : st->stx_gid;
		return 0;
	}
	st->stx_uid = share_idmap_guest(&s->uids, st->stx_uid);
	st->stx_gid = share_idmap_guest(&s->gids, st->stx_gid);
	return 0;
}

/* ---- what may be changed ---- */

static bool lends_group(const struct statx *st)
{
	return S_ISREG(st->stx_mode) && st->stx_mode & S_ISGID;
}

/*
 * The guest's root is root to its own kernel, whoever owns the object on the host; and we are root there. So for those
 * that by the maps do not exist this is all there is: nothing of a user that the guest does not have is the guest's to
 * rewrite, to make set-id, or to take, and no program that lends a group that it does not have. Linux does not let the
 * root of a user namespace either.
 */
int share_owner_may_change(const struct share *s, int fd)
{
	struct statx st;
	int err;

	if (!s->uids.n && !s->gids.n)
		return 0;
	err = share_inode_statx(fd, "", &st);
	if (err)
		return err;
	if (!share_idmap_knows(&s->uids, st.stx_uid))
		return -EPERM;
	return lends_group(&st) && !share_idmap_knows(&s->gids, st.stx_gid) ? -EPERM : 0;
}

/* ---- chown, chmod ---- */

/* To what it is already: tar and cp -a of the guest's root ask for that, and need no right. */
static int owner_keep(struct share_inode *inode, uid_t uid, gid_t gid)
{
	struct statx st;
	int err = share_getattr(inode, NULL, &st);

	if (err)
		return err;
	if ((uid != NO_ID && uid != st.stx_uid) || (gid != NO_ID && gid != st.stx_gid))
		return -EPERM;
	return 0;
}

/* By descriptor; fchownat takes an O_PATH one with an empty name from everyone. */
static int owner_pass(struct share_inode *inode, uid_t uid, gid_t gid)
{
	const struct share *s = inode->share;
	int fd = share_inode_fd(inode);

	if (fd < 0)
		return fd;
	if ((uid != NO_ID && !share_idmap_host(&s->uids, uid, &uid)) ||
	    (gid != NO_ID && !share_idmap_host(&s->gids, gid, &gid)))
		return -EINVAL;
	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Looked for first, as that is the cheaper one of the two by far and there is hardly ever any. */
static void drop_caps(int fd)
{
	const struct fd_name name = share_path_fd_name(fd);

	if (getxattr(name.s, XATTR_NAME_CAPS, NULL, 0) >= 0)
		(void)removexattr(name.s, XATTR_NAME_CAPS);
}

/* The host, whose owner stays, drops no capabilities of a mapped one (D34). */
static int owner_map(struct share_inode *inode, uid_t uid, gid_t gid)
{
	int fd = share_inode_fd(inode);

	if (fd < 0)
		return fd;
	if (inode->type == S_IFREG)
		drop_caps(fd);
	return share_mapped_chown(inode, uid, gid);
}

int share_owner_change(struct share_inode *inode, const struct share_attr *attr)
{
	const uid_t uid = attr->mask & SHARE_UID ? attr->uid : NO_ID;
	const gid_t gid = attr->mask & SHARE_GID ? attr->gid : NO_ID;

	if (inode->share->mapped)
		return owner_map(inode, uid, gid);
	return inode->share->squash ? owner_keep(inode, uid, gid) : owner_pass(inode, uid, gid);
}

/*
 * Through procfs, as fchmod refuses O_PATH; the link leads to the object itself, also if that is a
 * symbolic link.
 */
static int chmod_fd(const struct share *s, int fd, mode_t mode)
{
	return fchmodat(s->proc, share_path_fd_name(fd).s, mode, 0) < 0 ? -errno : 0;
}

/* A directory's bit lends nothing. Linux takes it silently from who is not in the group. */
static int without_foreign_group(const struct share *s, int fd, mode_t *mode)
{
	struct statx st;
	int err;

	if (!s->gids.n || !(*mode & S_ISGID))
		return 0;
	err = share_inode_statx(fd, "", &st);
	if (!err && !S_ISDIR(st.stx_mode) && !share_idmap_knows(&s->gids, st.stx_gid))
		*mode &= ~(mode_t)S_ISGID;
	return err;
}

int share_owner_chmod(struct share_inode *inode, mode_t mode)
{
	int fd = share_inode_fd(inode), err;

	if (fd < 0)
		return fd;
	mode &= 07777;
	err = without_foreign_group(inode->share, fd, &mode);
	if (err)
		return err;
	return inode->share->mapped ? share_mapped_set_mode(fd, inode->type | mode)
				    : chmod_fd(inode->share, fd, mode);
}

/* ---- privileges that a change takes away ---- */

mode_t share_owner_drop_setid(mode_t mode)
{
	return mode & ~((mode & S_IXGRP ? S_ISGID : 0u) | S_ISUID);
}

/*
 * What the host refuses here is no reason to fail a write: who may not change the mode, or take the
 * capabilities away, has no CAP_FSETID either, so that the write itself makes the kernel do it; and
 * file capabilities it drops at every write.
 */
static int kill_priv(const struct share *s, int fd)
{
	struct statx st;
	mode_t mode;
	int err = share_inode_statx(fd, "", &st);

	if (err || !S_ISREG(st.stx_mode))
		return err;
	mode = share_owner_drop_setid(st.stx_mode);
	if (mode != st.stx_mode)
		err = chmod_fd(s, fd, mode & 07777);
	st.stx_mode = (uint16_t)mode;
	/* In a mapped share that was a file of the host's; the guest's own bits lie beside it. */
	if (!err || err == -EPERM)
		err = share_owner_show(s, fd, &st);
	if (err)
		return err;
	if (st.stx_mode & 0111)
		drop_caps(fd);
	mode = share_owner_drop_setid(st.stx_mode);
	return s->mapped && mode != st.stx_mode ? share_mapped_set_mode(fd, mode) : 0;
}

int share_owner_kill_priv(struct share_inode *inode)
{
	int fd = share_inode_fd(inode);

	return fd < 0 ? fd : kill_priv(inode->share, fd);
}

int share_kill_priv(struct share_file *file)
{
	const struct share *s = file->inode->share;

	return s->readonly ? -EROFS : kill_priv(s, file->io.fd);
}
