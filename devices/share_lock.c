// SPDX-License-Identifier: Apache-2.0
/*
 * share_lock.c - locks on the host.
 */
#include "share_int.h"

const char *const share_locks_names[] = {
	[SHARE_LOCKS_GUEST] = "guest",
	[SHARE_LOCKS_HOST] = "host",
	NULL,
};

int share_getlk(struct share_inode *inode, uint64_t owner, struct share_lock *lock)
{
	(void)inode, (void)owner, (void)lock;
	return -EOPNOTSUPP;
}

int share_setlk(struct share_inode *inode, uint64_t owner, const struct share_lock *lock,
		struct iothread *io, struct share_wait *wait)
{
	(void)inode, (void)owner, (void)lock, (void)io, (void)wait;
	return -EOPNOTSUPP;
}

void share_lock_cancel(struct share_wait *wait)
{
	(void)wait;
}

void share_unlock(struct share_inode *inode, uint64_t owner, bool flock)
{
	(void)inode, (void)owner, (void)flock;
}

void share_unlock_all(struct share *s)
{
	(void)s;
}
