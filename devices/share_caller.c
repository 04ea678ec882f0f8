// SPDX-License-Identifier: Apache-2.0
/*
 * share_caller.c - acting as someone else for the length of one call.
 *
 * What is made must come out as on a local disk: the caller's file system ids (in passthrough), the
 * one group of his that counts, his umask, and the label he asked for. Ids, groups and capabilities
 * of Linux belong to threads, but the C library changes those of all threads: every such call is
 * made by number. A scope undoes on every path what was done, in reverse. Thread: any that called
 * share_thread_init(). Calls: share_idmap.c. Spec: setfsuid(2), capabilities(7) "Effect of user ID
 * changes on capabilities", proc_pid_attr(5).
 */
#include "share_int.h"
#include <assert.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <linux/xattr.h> /* after it: libc has the flags, the kernel the names */

#define NO_ID        ((uint32_t)-1)
#define CAP_BIT(cap) (1ull << (cap))

/* ---- capabilities and ids ---- */

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

static bool caps_have(const struct __user_cap_data_struct caps[2], unsigned cap)
{
	return caps[cap / 32].effective >> cap % 32 & 1;
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

/*
 * Of the caller's groups the one that owns the directory: it decides whether he may make set-gid
 * programs there, and whether he may open what is there. EPERM: a user namespace that forbids
 * groups; what he lacks is then refused, for the directory itself the override stands in.
 */
static int group_enter(struct owner_scope *scope, const struct cred *cred)
{
	gid_t group;

	if (!cred->has_group)
		return 0;
	if (!share_idmap_host(&scope->share->gids, cred->group, &group))
		return -EOVERFLOW;
	if (syscall(SYS_setgroups, 1, &group) < 0)
		return errno == EPERM ? 0 : -errno;
	scope->group = true;
	return 0;
}

/*
 * A guest's root whose id stands for another's on the host keeps no capability either, as in a user
 * namespace: nor does who stands for the host's root.
 */
static int ids_enter(struct owner_scope *scope, const struct cred *cred, bool override)
{
	const struct share *s = scope->share;
	uid_t uid;
	gid_t gid;
	int err;

	if (cred->uid == NO_ID || cred->gid == NO_ID)
		return -EINVAL;
	if (!share_idmap_host(&s->uids, cred->uid, &uid) ||
	    !share_idmap_host(&s->gids, cred->gid, &gid))
		return -EOVERFLOW;
	if (!cred->uid && uid == s->uid && gid == s->gid)
		return 0;
	err = caps_get(scope->caps);
	if (!err)
		err = group_enter(scope, cred);
	if (err)
		return err;
	scope->ids = true; /* from here on leaving the scope undoes it */
	if (!ids_set(uid, gid))
		return -EINVAL; /* an id this host's user namespace does not have */
	return cred->uid || uid ? caps_lower(scope->caps, override) : 0;
}

/*
 * Returning to what the thread's other ids are cannot be refused; going on as someone else would be
 * our bug.
 */
static void ids_leave(struct owner_scope *scope)
{
	bool back = true;

	if (scope->ids) {
		back = ids_set(scope->share->uid, scope->share->gid);
		back &= caps_set(scope->caps) == 0;
	}
	if (scope->group)
		back &= syscall(SYS_setgroups, 0, NULL) == 0;
	assert(back);
	(void)back;
}

/*
 * Tried, not concluded from being root: in a container root may lack the capabilities, and in a
 * user namespace the ids.
 */
bool share_owner_passes(void)
{
	static const struct cred other = {.uid = 1, .gid = 1};
	const struct share plain = {.uid = geteuid(), .gid = getegid()};
	struct owner_scope scope = {.share = &plain, .label = -1};
	bool able;

	if (plain.uid)
		return false;
	able = !ids_enter(&scope, &other, true) && caps_have(scope.caps, CAP_CHOWN);
	ids_leave(&scope);
	return able;
}

/* ---- labels ---- */

/* Only what security modules keep: not a way to other attributes, where those are off. */
static int label_check(const struct share_label *label)
{
	if (strncmp(label->name, XATTR_SECURITY_PREFIX, XATTR_SECURITY_PREFIX_LEN) != 0 ||
	    strcmp(label->name, XATTR_NAME_CAPS) == 0)
		return -EINVAL;
	return 0;
}

/* The host's own module applies it while the object is made. */
static bool label_by_host(const struct share *s, const struct cred *cred)
{
	return s->fscreate && s->cfg.security_label && cred->label &&
	       strcmp(cred->label->name, XATTR_NAME_SELINUX) == 0;
}

/* From the descriptor that is kept, by the thread's number: /proc may have gone. */
static int label_enter(struct owner_scope *scope, const struct cred *cred)
{
	char path[64];

	if (!label_by_host(scope->share, cred))
		return 0;
	snprintf(path, sizeof(path), "../task/%d/attr/fscreate", (int)gettid());
	scope->label = openat(scope->share->proc, path, O_WRONLY | O_CLOEXEC);
	if (scope->label < 0)
		return -errno;
	if (write(scope->label, cred->label->value, cred->label->len) >= 0)
		return 0;
	close_fd(&scope->label); /* there is nothing to take back */
	return -errno;
}

/* Nothing written is what takes it back. */
static void label_leave(struct owner_scope *scope)
{
	bool back = scope->label < 0 || write(scope->label, NULL, 0) >= 0;

	close_fd(&scope->label);
	assert(back);
	(void)back;
}

int share_caller_label(const struct share *s, int fd, const struct cred *cred)
{
	const struct share_label *label = cred->label;
	int err;

	if (!label || !s->cfg.security_label || label_by_host(s, cred))
		return 0;
	err = label_check(label);
	if (err)
		return err;
	if (setxattr(share_path_fd_name(fd).s, label->name, label->value, label->len, 0) < 0)
		return -errno;
	return 0;
}

/*
 * Without a security module on the host a label is an attribute like any other, which takes
 * CAP_SYS_ADMIN: said when the share is opened, rather than by each creation.
 */
int share_caller_init(struct share *s, const char *name)
{
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	struct statfs fs;

	if (!s->cfg.security_label)
		return 0;
	s->fscreate = statfs("/sys/fs/selinux", &fs) == 0 && (unsigned)fs.f_type == SELINUX_MAGIC &&
		      access("/proc/thread-self/attr/fscreate", W_OK) == 0;
	if (s->fscreate || (caps_get(caps) == 0 && caps_have(caps, CAP_SYS_ADMIN)))
		return 0;
	log_err("%s: security_label needs CAP_SYS_ADMIN, or SELinux on the host: run as root or "
		"leave security_label out",
		name);
	return -EPERM;
}

/* ---- the scope ---- */

mode_t share_caller_mode(const struct share *s, const struct cred *cred, mode_t mode)
{
	return s->own_umask && !s->mapped ? mode : mode & ~(cred->umask & 0777);
}

int share_owner_enter(struct owner_scope *scope, const struct share *s, const struct cred *cred,
		      bool override)
{
	int err;

	*scope = (struct owner_scope){.share = s, .label = -1};
	err = label_enter(scope, cred);
	if (err)
		return err;
	if (cred->umask && s->own_umask && !s->mapped) {
		umask(cred->umask & 0777);
		scope->umask = true;
	}
	return s->squash || s->mapped ? 0 : ids_enter(scope, cred, override);
}

void share_owner_leave(struct owner_scope *scope)
{
	const int saved = errno;

	if (!scope->share)
		return;
	ids_leave(scope);
	if (scope->umask)
		umask(0);
	label_leave(scope);
	scope->share = NULL;
	errno = saved;
}
