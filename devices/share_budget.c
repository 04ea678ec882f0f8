// SPDX-License-Identifier: Apache-2.0
/*
 * share_budget.c - who holds a descriptor: as many objects as the budget allows, those used last.
 *
 * Counted are objects, open files and the mounts that handles are opened on. When there are too
 * many, or the process runs out, the object that was used longest ago gives its descriptor up and
 * is found again when it is asked for. Four kinds keep theirs: the root, what is open, what has no
 * name any more (it would be gone for good) unless it is only noted, and what a running call may have
 * borrowed: those are among the SHARE_BORROW_MAX used last, as to borrow is to use, and they are never
 * looked at. What has to keep its descriptor leaves the ring until it is used again, so that nobody
 * looks twice; what is not where it was found waits among the strays.
 * Thread: the owner's. Calls: log.h, share_inode.c, share_handle.c, share_place.c.
 */
#include "share_int.h"
#include <stdio.h>
#include <sys/resource.h>

/*
 * Descriptors that the process needs besides: vCPUs, queues, disks, and the few that a call has
 * open before they are counted.
 */
#define FD_RESERVE 256
/* Half of the rest, so that one share cannot starve another; more than any guest keeps in mind is of no use. */
#define FD_DEFAULT_MAX 262144u
/* The root, its mount, what a call borrows, and an open file with its object. */
#define FD_LEAST (2 + SHARE_BORROW_MAX + 2)
/* How many give theirs up when the process has run out: it may soon want another. */
#define YIELD_MAX 16

/* ---- how many ---- */

bool share_budget_check(const void *number, char err[OPT_ERR_MAX])
{
	uint64_t n = *(const uint64_t *)number;

	if (!n || n >= FD_LEAST)
		return true;
	snprintf(err, OPT_ERR_MAX, "must be 0 or at least %d", FD_LEAST);
	return false;
}

int share_budget_init(struct share *s, const char *name, uint32_t wanted)
{
	struct rlimit limit;

	s->budget = wanted;
	if (!wanted) {
		if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
			return -errno;
		s->budget = (uint32_t)MIN(limit.rlim_cur, (rlim_t)INT32_MAX);
		s->budget -= MIN(s->budget / 2, (uint32_t)FD_RESERVE);
		s->budget = MIN(s->budget / 2, FD_DEFAULT_MAX);
	}
	if (s->budget >= FD_LEAST)
		return 0;
	log_err("%s: fd_budget is %u: give at least %u, or raise ulimit -n", name, s->budget,
		FD_LEAST);
	return -EINVAL;
}

int share_out_of_fds(struct share *s, int error)
{
	/* Before there is a root, who opens the share says so. */
	if (s->root)
		log_once(&s->said_out, LOG_WARN,
			 "%s: no descriptor is left (%s): the guest gets ENFILE", s->name,
			 log_remedy(error, ""));
	return -ENFILE;
}

/* ---- giving up ---- */

/* NULL: there are none but those that may be borrowed. */
static struct share_inode *least_used(struct share *s)
{
	const struct share_ring *at = &s->used;

	for (unsigned i = 0; i <= SHARE_BORROW_MAX; i++) {
		at = at->next;
		if (at == &s->used)
			return NULL;
	}
	return container_of(s->used.prev, struct share_inode, used);
}

enum verdict { STAYS, STRAYS, GOES };

static enum verdict judge(struct share_inode *inode)
{
	struct statx st;
	int found;

	if (inode == inode->share->root || inode->opens)
		return STAYS;
	if (share_inode_statx(inode->fd, "", &st))
		return STAYS;
	if (!st.stx_nlink && inode->refs > inode->notes)
		return STAYS;
	if (!inode->by_name)
		return share_handle_keep(inode) ? STAYS : GOES;
	found = share_place_keep(inode, &st);
	if (found < 0)
		return STAYS;
	return found || !st.stx_nlink ? GOES : STRAYS;
}

static void give_up(struct share_inode *inode)
{
	close_fd(&inode->fd);
	inode->share->nheld--;
}

static struct share_inode *last_stray(struct share *s)
{
	if (s->strays.prev == &s->strays)
		return NULL;
	return container_of(s->strays.prev, struct share_inode, used);
}

/*
 * A stray would be ESTALE until its new name is looked up, so it goes last of all. But it goes: a
 * directory that the host moves makes strays of all that is below it.
 */
static bool yield_one(struct share *s)
{
	struct share_inode *inode;
	enum verdict verdict;

	while ((inode = least_used(s))) {
		share_ring_del(&inode->used);
		verdict = judge(inode);
		if (verdict == GOES) {
			give_up(inode);
			return true;
		}
		if (verdict == STRAYS)
			share_ring_add(&s->strays, &inode->used);
	}
	while ((inode = last_stray(s))) {
		share_ring_del(&inode->used);
		if (judge(inode) == STAYS)
			continue;
		give_up(inode);
		return true;
	}
	return false;
}

bool share_yield(struct share *s)
{
	unsigned n = 0;

	while (n < YIELD_MAX && yield_one(s))
		n++;
	return n > 0;
}

static bool has_room(struct share *s, unsigned n)
{
	const size_t fixed = s->nfiles + s->nmounts + __atomic_load_n(&s->nsyncs, __ATOMIC_RELAXED);

	while (s->nheld + fixed + n > s->budget)
		if (!yield_one(s))
			return false;
	return true;
}

bool share_has_room(struct share *s)
{
	return has_room(s, 1);
}

int share_reserve(struct share *s, unsigned n)
{
	if (has_room(s, n))
		return 0;
	log_once(&s->said_out, LOG_WARN,
		 "%s: the guest has more in use at once than fd_budget allows (%u) and gets "
		 "ENFILE: raise fd_budget, and ulimit -n for it",
		 s->name, s->budget);
	return -ENFILE;
}

/* ---- holding ---- */

void share_inode_hold(struct share_inode *inode, int *fd)
{
	inode->fd = take_fd(fd);
	inode->share->nheld++;
	share_inode_use(inode);
}

void share_inode_opens(struct share_inode *inode, int change)
{
	inode->opens = (inode->opens + (unsigned)change) & INT32_MAX;
	if (!inode->opens)
		share_inode_use(inode);
}

/*
 * The directory that was opened on the way to an object may well be asked for the next one. It was
 * not asked for itself: it must not push out of the first places what is borrowed.
 */
static void hold_dir(struct share_inode *dir, int *fd)
{
	struct share *s = dir->share;
	struct share_ring *at = &s->used;
	struct statx st;

	if (dir->fd != -1 || share_inode_statx(*fd, "", &st) ||
	    share_inode_same(dir, *fd, &st) != 1 || !share_has_room(s))
		return;
	for (unsigned i = 0; i < SHARE_BORROW_MAX && at->next != &s->used; i++)
		at = at->next;
	dir->fd = take_fd(fd);
	s->nheld++;
	share_ring_add(at, &dir->used);
}

static int find_again(struct share_inode *inode, int *fd, int *dirfd)
{
	if (inode->fd == SHARE_GONE)
		return -ESTALE;
	if (inode->by_name)
		return share_place_open(inode, fd, dirfd);
	return share_handle_open(inode, fd);
}

int share_inode_recall(struct share_inode *inode)
{
	struct share *s = inode->share;
	auto_fd fd = -1;
	auto_fd dirfd = -1;
	int err = find_again(inode, &fd, &dirfd);

	if ((err == -EMFILE || err == -ENFILE) && share_yield(s))
		err = find_again(inode, &fd, &dirfd);
	if (err == -EMFILE || err == -ENFILE)
		return share_out_of_fds(s, -err);
	if (!err)
		err = share_reserve(s, 1);
	if (err)
		return err;
	share_inode_hold(inode, &fd);
	if (dirfd >= 0)
		hold_dir(share_place_dir(inode), &dirfd);
	return inode->fd;
}
