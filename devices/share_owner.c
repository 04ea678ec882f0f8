// SPDX-License-Identifier: Apache-2.0
/*
 * share_owner.c - whose files they are, and acting as someone else for the length of one call.
 *
 * passthrough: the guest's ids are the host's. The calls that create run with the caller's file
 * system ids, so that owner, set-gid directories and quotas come out as on a local disk; all others
 * run as root, for the guest's kernel has checked them. squash: everything is done as the user we
 * are, who is shown to the guest as its root.
 *
 * Ids and capabilities of Linux belong to threads, but the C library changes those of all threads:
 * every id syscall here is made by number. Thread: any that called share_thread_init(). Calls:
 * log.h, sandbox.h. Spec: setfsuid(2), capabilities(7) "Effect of user ID changes on capabilities".
 */
#include "share_int.h"
#include <assert.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/syscall.h>

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
	{.nr = SYS_getxattr, .why = "extended attributes, by the name of a descriptor"},
	{.nr = SYS_setxattr, .why = "extended attributes, by the name of a descriptor"},
	{.nr = SYS_listxattr, .why = "extended attributes, by the name of a descriptor"},
	{.nr = SYS_removexattr, .why = "extended attributes, by the name of a descriptor"},
	{.nr = SYS_ftruncate, .why = "truncate"},
	{.nr = SYS_fallocate, .why = "fallocate, punching holes"},

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

/* ---- acting as the caller ---- */

#define CAP_BIT(cap) (1ull << (cap))

/* By number: capget as the C library declares it lives in another library. */
static int caps_get(struct __user_cap_data_struct caps[2])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capget, &head, caps) < 0 ? -errno : 0;
}

static int caps_set(const struct __user_cap_data_struct caps[2])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capset, &head, caps) < 0 ? -errno : 0;
}

/*
 * By number, and asked again with an id that no one has: the call has no error, it just leaves
 * things as they are.
 */
static bool ids_set(uid_t uid, gid_t gid)
{
	syscall(SYS_setfsgid, gid);
	syscall(SYS_setfsuid, uid);
	return (gid_t)syscall(SYS_setfsgid, NO_ID) == gid &&
	       (uid_t)syscall(SYS_setfsuid, NO_ID) == uid;
}

/*
 * Leaving user 0 costs a thread the capabilities that bypass file permissions, unless the process
 * was started with that rule switched off: so both ends are set by hand. Of them only the override
 * of permissions may stay. In particular CAP_FSETID must not: a user could make programs that are
 * set-gid to a directory's group.
 */
static int caps_lower(const struct __user_cap_data_struct saved[2], bool override)
{
	const uint64_t file_caps = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) |
				   CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_FOWNER) |
				   CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_LINUX_IMMUTABLE) |
				   CAP_BIT(CAP_MKNOD) | CAP_BIT(CAP_MAC_OVERRIDE);
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {saved[0], saved[1]};

	caps[0].effective &= ~(uint32_t)file_caps;
	caps[1].effective &= ~(uint32_t)(file_caps >> 32);
	if (override)
		caps[0].effective |= saved[0].permitted & (uint32_t)CAP_BIT(CAP_DAC_OVERRIDE);
	return caps_set(caps);
}

int share_owner_enter(struct owner_scope *scope, const struct share *s, const struct cred *cred,
		      bool override)
{
	int err;

	scope->share = NULL;
	if (s->squash || (cred->uid == s->uid && cred->gid == s->gid))
		return 0;
	err = caps_get(scope->caps);
	if (err)
		return err;
	scope->share = s; /* from here on leaving the scope undoes it */
	if (cred->uid == NO_ID || cred->gid == NO_ID || !ids_set(cred->uid, cred->gid))
		return -EINVAL; /* an id this host's user namespace does not have */
	return cred->uid == 0 ? 0 : caps_lower(scope->caps, override);
}

/*
 * Returning to what the thread's other ids are cannot be refused; going on as someone else would be
 * our bug.
 */
void share_owner_leave(struct owner_scope *scope)
{
	const int saved = errno;
	bool back;

	if (!scope->share)
		return;
	back = ids_set(scope->share->uid, scope->share->gid);
	back &= caps_set(scope->caps) == 0;
	assert(back);
	(void)back;
	scope->share = NULL;
	errno = saved;
}

/* ---- modes ---- */

/*
 * Tried, not concluded from being root: in a container root may lack the capabilities, and in a
 * user namespace the ids.
 */
static bool may_act_as_others(const struct share *s)
{
	static const struct cred other = {.uid = 1, .gid = 1};
	auto_owner scope = {0};

	return s->uid == 0 && share_owner_enter(&scope, s, &other, true) == 0 &&
	       scope.caps[0].effective & CAP_BIT(CAP_CHOWN);
}

bool share_owner_passes(void)
{
	const struct share s = {.uid = geteuid(), .gid = getegid()};

	return may_act_as_others(&s);
}

int share_owner_init(struct share *s, const char *name, int owner)
{
	bool able;

	s->uid = geteuid();
	s->gid = getegid();
	able = may_act_as_others(s);
	if (owner == SHARE_OWNER_PASSTHROUGH && !able) {
		log_err("%s: owner=passthrough needs root with CAP_SETUID, CAP_SETGID, CAP_CHOWN "
			"and more than one id: run as root or use owner=squash",
			name);
		return -EPERM;
	}
	s->squash = owner == SHARE_OWNER_SQUASH || !able;
	return 0;
}

void share_owner_show(const struct share *s, struct statx *st)
{
	if (!s->squash)
		return;
	if (st->stx_uid == s->uid)
		st->stx_uid = 0;
	if (st->stx_gid == s->gid)
		st->stx_gid = 0;
}

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
int share_owner_change(struct share_inode *inode, const struct share_attr *attr)
{
	const uid_t uid = attr->mask & SHARE_UID ? attr->uid : NO_ID;
	const gid_t gid = attr->mask & SHARE_GID ? attr->gid : NO_ID;
	int fd;

	if (inode->share->squash)
		return owner_keep(inode, uid, gid);
	fd = share_inode_fd(inode);
	if (fd < 0)
		return fd;
	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int share_kill_priv(struct share_file *file)
{
	(void)file;
	return -EOPNOTSUPP;
}
