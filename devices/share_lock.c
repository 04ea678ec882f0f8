// SPDX-License-Identifier: Apache-2.0
/*
 * share_lock.c - the guest's fcntl and flock locks, taken on the host.
 *
 * Linux keeps both by open file description, so each owner has a descriptor of its own for each
 * object and kind: its locks never meet each other, and those of two owners do, as they do with
 * everybody's on the host (hard case D50). It is opened when first needed and kept until the owner
 * unlocks everything or closes the file; a part unlocked is not counted.
 *
 * Nothing blocks: who has to wait is in a list and tries again, when one of our own owners lets go
 * and else by a timer, for of locks elsewhere on the host there is nothing to hear. Threads: see
 * share.h. Calls: loop.h, map.h, share_inode.c, share_path.c. Spec: fcntl(2) "Open file description
 * locks", flock(2).
 */
#include "share_int.h"
#include <assert.h>
#include <sys/file.h>

/* Between two tries: soon for what is held for a moment only, and the longer the less often. */
#define WAIT_FIRST_NS 5000000u
#define WAIT_MOST_NS  100000000u

/* Ranges that may be locked in a share: each is memory of the host's kernel, which has no limit for them. */
#define RANGES_MAX 32768u
/* To count an owner's takes as long as all of the object's: who has few is not asked. */
#define RANGES_FEW 16u

/* How far a circle of waiters is looked for. */
#define DEADLOCK_HOPS 10

const char *const share_locks_names[] = {
	[SHARE_LOCKS_GUEST] = "guest",
	[SHARE_LOCKS_HOST] = "host",
	NULL,
};

struct lock_key {
	uint64_t inode; /* its address: the reference keeps it from meaning another */
	uint64_t owner, flock;
};

struct share_lock_owner {
	struct lock_key key;
	struct share_inode *inode; /* a reference */
	int fd;
	bool held; /* it may hold a lock */
	unsigned waits;
	unsigned ranges;  /* it has locked no more */
	uint32_t pid;     /* who last locked */
	uint64_t opening; /* and through which opening */
};

void share_lock_init(struct share *s)
{
	pthread_mutex_init(&s->locks.mutex, NULL);
	map_init(&s->locks.owners, sizeof(struct lock_key));
	s->locks.waits = NULL;
	s->locks.waits_end = &s->locks.waits;
}

/* ---- owners ---- */

static struct lock_key key_of(const struct share_inode *inode, uint64_t owner, bool flock)
{
	return (struct lock_key){(uintptr_t)inode, owner, flock};
}

static struct share_lock_owner *owner_find(struct share_inode *inode, uint64_t owner, bool flock)
{
	const struct lock_key key = key_of(inode, owner, flock);

	return map_get(&inode->share->locks.owners, &key);
}

static bool no_right(int err)
{
	return err == -EACCES || err == -EPERM || err == -EROFS || err == -ETXTBSY;
}

/*
 * Both rights where they can be had, as a read lock may become a write lock and the descriptor
 * cannot be changed for another without letting go. Else what the type needs; flock() needs either.
 */
static int lock_open(struct share_inode *inode, const struct share_lock *lock, int *fd)
{
	const bool shared = lock->flock || lock->type == F_RDLCK;
	int err = -EACCES;

	if (inode->type == S_IFREG && !inode->share->readonly)
		err = share_path_reopen(inode, O_RDWR, fd);
	if (no_right(err) && shared)
		err = share_path_reopen(inode, O_RDONLY, fd);
	if (no_right(err) && (lock->flock || !shared) && inode->type == S_IFREG &&
	    !inode->share->readonly)
		err = share_path_reopen(inode, O_WRONLY, fd);
	/* fcntl() of a descriptor without the right. */
	return err == -EACCES && !shared ? -EBADF : err;
}

static int owner_create(struct share_inode *inode, uint64_t id, const struct share_lock *lock,
			struct share_lock_owner **out)
{
	struct share *s = inode->share;
	struct share_lock_owner *o;
	auto_fd fd = -1;
	int err = share_inode_fd(inode);

	if (err < 0)
		return err;
	err = share_reserve(s, 1);
	if (!err)
		err = lock_open(inode, lock, &fd);
	if (err)
		return err;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->key = key_of(inode, id, lock->flock);
	err = map_put(&s->locks.owners, &o->key, o);
	if (err) {
		free(o);
		return err;
	}
	o->inode = share_get(inode);
	o->fd = take_fd(&fd);
	s->nfiles++;
	*out = o;
	return 0;
}

static void ranges_set(struct share_lock_owner *o, unsigned n)
{
	o->inode->share->locks.ranges += (size_t)n - o->ranges;
	o->ranges = n;
}

/* With the descriptor go its locks. */
static void owner_free(struct share_lock_owner *o)
{
	struct share *s = o->inode->share;

	ranges_set(o, 0);
	map_del(&s->locks.owners, &o->key);
	close_fd(&o->fd);
	s->nfiles--;
	share_put(o->inode);
	free(o);
}

static void owner_free_idle(struct share_lock_owner *o)
{
	if (!o->held && !o->waits)
		owner_free(o);
}

/* ---- one lock ---- */

static bool is_whole(const struct share_lock *lock)
{
	return lock->flock || (lock->start == 0 && lock->end == INT64_MAX);
}

static void ranges_recount(struct share *s)
{
	const void *key;
	size_t iter = 0;
	void *value;
	unsigned n;

	while (map_next(&s->locks.owners, &iter, &key, &value)) {
		struct share_lock_owner *o = value;

		if (o->ranges > RANGES_FEW && !share_lock_count(s, o->fd, &n))
			ranges_set(o, n);
	}
}

/* To let go of a part may leave one more, too. */
static bool ranges_have_room(struct share *s, const struct share_lock *lock)
{
	if (is_whole(lock) || s->locks.ranges < RANGES_MAX)
		return true;
	ranges_recount(s);
	return s->locks.ranges < RANGES_MAX;
}

/* In the middle of one of another kind it makes three of one. */
static unsigned ranges_after(const struct share_lock_owner *o, const struct share_lock *lock)
{
	if (is_whole(lock) || !o->ranges)
		return lock->type != F_UNLCK;
	return o->ranges + 2;
}

static struct flock host_lock(const struct share_lock *lock)
{
	return (struct flock){
		.l_type = (short)lock->type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)lock->start,
		.l_len = lock->end == INT64_MAX ? 0 : (off_t)(lock->end - lock->start + 1),
	};
}

static int host_flock(const struct share_lock_owner *o, int type)
{
	const int op = type == F_RDLCK ? LOCK_SH : type == F_WRLCK ? LOCK_EX : LOCK_UN;

	return flock(o->fd, op | LOCK_NB);
}

/* 0, -EAGAIN, -errno. */
static int lock_try(struct share_lock_owner *o, const struct share_lock *lock)
{
	struct flock fl = host_lock(lock);
	int r = lock->flock ? host_flock(o, lock->type) : fcntl(o->fd, F_OFD_SETLK, &fl);

	if (r < 0 && errno != EAGAIN && errno != EACCES)
		return -errno;
	if (r < 0) {
		/* flock() of another kind gives up the old lock first, and may not get the new. */
		o->held &= !lock->flock;
		return -EAGAIN;
	}
	o->held = lock->type != F_UNLCK || (o->held && !is_whole(lock));
	ranges_set(o, ranges_after(o, lock));
	if (lock->type != F_UNLCK) {
		o->pid = lock->pid;
		o->opening = lock->opening;
	}
	return 0;
}

/* ---- waiting ---- */

/* It was to be told, on its iothread; only there may its timer be cleared. */
static void wait_done(struct loop_work *work)
{
	struct share_wait *w = container_of(work, struct share_wait, work);

	loop_timer_clear(w->io, &w->timer);
	w->done(w, w->error);
}

/* From here on nothing but wait_done() has to do with it. */
static void wait_end(struct share *s, struct share_wait *w, int error)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	else
		s->locks.waits_end = w->link;
	w->link = NULL;
	w->owner->waits--;
	w->error = error;
	loop_post(w->io, &w->work);
}

static void wait_try(struct share_wait *w)
{
	int err = lock_try(w->owner, &w->lock);

	if (err != -EAGAIN)
		wait_end(w->share, w, err);
}

/*
 * Something was let go: in the order they came, so that who waited longest has the first try. All
 * of them, as on the host: to hold back who could be served, for the sake of one before him, may be
 * to wait for oneself.
 */
static void wait_retry(struct share_inode *inode)
{
	struct share_wait *w = inode->share->locks.waits, *next;

	for (; w; w = next) {
		next = w->next;
		if (w->owner->inode == inode)
			wait_try(w);
	}
}

static bool wants_same(const struct share_wait *a, const struct share_wait *b)
{
	if (a->owner->inode != b->owner->inode || a->lock.flock != b->lock.flock)
		return false;
	return a->lock.flock || (a->lock.start <= b->lock.end && b->lock.start <= a->lock.end);
}

/* Nobody overtakes the one who waits longest for the same; to try all of them would cost too much. */
static void wait_turn(struct share_wait *w)
{
	struct share_wait *first = w->share->locks.waits;

	while (!wants_same(first, w))
		first = first->next;
	wait_try(first);
	if (first != w)
		wait_try(w);
}

/* On its iothread, whoever else is in the share: an owner is not freed from here. */
static void wait_tick(struct loop_timer *timer)
{
	struct share_wait *w = container_of(timer, struct share_wait, timer);
	struct share *s = w->share;

	pthread_mutex_lock(&s->locks.mutex);
	if (w->link)
		wait_turn(w);
	if (w->link) {
		w->pause = MIN(w->pause * 2, WAIT_MOST_NS);
		loop_timer_set(w->io, timer, w->pause);
	}
	pthread_mutex_unlock(&s->locks.mutex);
}

static void wait_begin(struct share_wait *w, struct share_lock_owner *o,
		       const struct share_lock *lock, struct iothread *io)
{
	struct share *s = o->inode->share;

	w->share = s;
	w->owner = o;
	w->lock = *lock;
	w->io = io;
	w->work = (struct loop_work){.fn = wait_done};
	w->timer = (struct loop_timer){.fn = wait_tick};
	w->pause = WAIT_FIRST_NS;
	w->next = NULL;
	w->link = s->locks.waits_end;
	*w->link = w;
	s->locks.waits_end = &w->next;
	o->waits++;
	loop_timer_set(io, &w->timer, w->pause);
}

void share_lock_cancel(struct share_wait *w)
{
	struct share *s = w->share;
	struct share_lock_owner *o;

	pthread_mutex_lock(&s->locks.mutex);
	if (w->link) {
		o = w->owner;
		wait_end(s, w, -EINTR);
		owner_free_idle(o);
	}
	pthread_mutex_unlock(&s->locks.mutex);
}

/* ---- who is in the way ---- */

/*
 * Which of our own owners holds a lock: the one for whom the place is free. Several that share a
 * read lock hide each other, and then it is nobody's.
 */
static const struct share_lock_owner *holder_find(const struct share_inode *inode,
						  const struct flock *held)
{
	const void *key;
	size_t iter = 0;
	void *value;

	while (map_next(&inode->share->locks.owners, &iter, &key, &value)) {
		const struct share_lock_owner *o = value;
		struct flock ask = *held;

		if (o->inode != inode || o->key.flock)
			continue;
		ask.l_type = F_WRLCK;
		ask.l_pid = 0;
		if (fcntl(o->fd, F_OFD_GETLK, &ask) == 0 && ask.l_type == F_UNLCK)
			return o;
	}
	return NULL;
}

static const struct share_wait *wait_of(const struct share *s, uint64_t owner)
{
	const struct share_wait *w = s->locks.waits;

	while (w && (w->lock.flock || w->owner->key.owner != owner))
		w = w->next;
	return w;
}

/*
 * Whether o would wait for somebody who waits for him, over a few others perhaps. The host does not
 * look for that among such locks, and programs count on EDEADLK.
 */
static bool would_deadlock(const struct share_lock_owner *o, const struct share_lock *lock)
{
	const uint64_t me = o->key.owner;
	const struct share_wait *w;

	for (unsigned i = 0; i < DEADLOCK_HOPS; i++) {
		struct flock fl = host_lock(lock);

		if (fcntl(o->fd, F_OFD_GETLK, &fl) < 0 || fl.l_type == F_UNLCK)
			return false;
		o = holder_find(o->inode, &fl);
		if (!o || o->key.owner == me)
			return o;
		w = wait_of(o->inode->share, o->key.owner);
		if (!w)
			return false;
		o = w->owner;
		lock = &w->lock;
	}
	return false;
}

/* ---- locking ---- */

static int lock_check(const struct share_inode *inode, const struct share_lock *lock)
{
	if (inode->share->cfg.locks != SHARE_LOCKS_HOST)
		return -EOPNOTSUPP;
	if (lock->type != F_RDLCK && lock->type != F_WRLCK && lock->type != F_UNLCK)
		return -EINVAL;
	if (!lock->flock && (lock->end > INT64_MAX || lock->start > lock->end))
		return -EINVAL;
	return 0;
}

static int setlk(struct share_inode *inode, uint64_t owner, const struct share_lock *lock,
		 struct iothread *io, struct share_wait *wait)
{
	struct share_lock_owner *o = owner_find(inode, owner, lock->flock);
	int err;

	if (!o && lock->type == F_UNLCK)
		return 0;
	if (!o) {
		err = owner_create(inode, owner, lock, &o);
		if (err)
			return err;
	}
	err = ranges_have_room(inode->share, lock) ? lock_try(o, lock) : -ENOLCK;
	if (err == -EAGAIN && wait && !lock->flock && would_deadlock(o, lock)) {
		err = -EDEADLK;
	} else if (err == -EAGAIN && wait) {
		wait_begin(wait, o, lock, io);
		err = -EINPROGRESS;
	}
	/* It let go of something, if only to take less; flock() does so even if it fails. */
	if (lock->flock || (!err && lock->type != F_WRLCK))
		wait_retry(inode);
	owner_free_idle(o);
	return err;
}

int share_setlk(struct share_inode *inode, uint64_t owner, const struct share_lock *lock,
		struct iothread *io, struct share_wait *wait)
{
	struct share *s = inode->share;
	int err = lock_check(inode, lock);

	if (err)
		return err;
	pthread_mutex_lock(&s->locks.mutex);
	err = setlk(inode, owner, lock, io, wait);
	pthread_mutex_unlock(&s->locks.mutex);
	return err;
}

static int getlk(struct share_inode *inode, uint64_t owner, struct share_lock *lock)
{
	const struct share_lock_owner *o = owner_find(inode, owner, false);
	const struct share_lock any = {.flock = true}; /* asking takes whatever right there is */
	struct flock fl = host_lock(lock);
	auto_fd opened = -1;
	int err;

	if (!o) {
		err = lock_open(inode, &any, &opened);
		if (err)
			return err;
	}
	if (fcntl(o ? o->fd : opened, F_OFD_GETLK, &fl) < 0)
		return -errno;
	lock->type = fl.l_type;
	if (fl.l_type == F_UNLCK)
		return 0;
	lock->start = (uint64_t)fl.l_start;
	lock->end = fl.l_len ? (uint64_t)(fl.l_start + fl.l_len - 1) : INT64_MAX;
	o = holder_find(inode, &fl);
	lock->pid = o ? o->pid : 0;
	return 0;
}

int share_getlk(struct share_inode *inode, uint64_t owner, struct share_lock *lock)
{
	struct share *s = inode->share;
	int err = lock_check(inode, lock);

	if (err)
		return err;
	if (lock->flock || lock->type == F_UNLCK)
		return -EINVAL;
	pthread_mutex_lock(&s->locks.mutex);
	err = getlk(inode, owner, lock);
	pthread_mutex_unlock(&s->locks.mutex);
	return err;
}

/* ---- the end of an owner, and of all ---- */

/* One of its threads may still wait for another lock: that goes on, as on the host. */
static void owner_unlock(struct share_lock_owner *o)
{
	const struct share_lock all = {.end = INT64_MAX, .type = F_UNLCK, .flock = o->key.flock};

	if (o->waits)
		(void)!lock_try(o, &all);
	else
		owner_free(o);
}

void share_unlock(struct share_inode *inode, uint64_t owner, bool flock)
{
	struct share *s = inode->share;
	struct share_lock_owner *o;

	pthread_mutex_lock(&s->locks.mutex);
	o = owner_find(inode, owner, flock);
	if (o)
		owner_unlock(o);
	if (o)
		wait_retry(inode);
	pthread_mutex_unlock(&s->locks.mutex);
}

void share_unlock_opening(struct share_inode *inode, uint64_t opening)
{
	struct share *s = inode->share;
	bool any = false;
	const void *key;
	size_t iter = 0;
	void *value;

	pthread_mutex_lock(&s->locks.mutex);
	while (map_next(&s->locks.owners, &iter, &key, &value)) {
		struct share_lock_owner *o = value;

		if (o->inode != inode || o->opening != opening || o->key.flock)
			continue;
		owner_unlock(o);
		any = true;
	}
	if (any)
		wait_retry(inode);
	pthread_mutex_unlock(&s->locks.mutex);
}

void share_unlock_all(struct share *s)
{
	const void *key;
	size_t iter = 0;
	void *value;

	pthread_mutex_lock(&s->locks.mutex);
	while (s->locks.waits)
		wait_end(s, s->locks.waits, -EINTR);
	while (map_next(&s->locks.owners, &iter, &key, &value))
		owner_free(value);
	pthread_mutex_unlock(&s->locks.mutex);
}

void share_lock_fini(struct share *s)
{
	assert(!s->locks.waits);
	share_unlock_all(s);
	map_fini(&s->locks.owners);
	pthread_mutex_destroy(&s->locks.mutex);
}
