// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_lock.c - locks that hold on the host: asked for, taken, waited for, interrupted, given up by closing.
 *
 * What the file layer does with them is in t_share_lock.c. Hard cases D50, A16.
 */
#include "fuse_door.h"
#include <sys/file.h>

enum { ALICE = 0xa11ce, BOB = 0xb0b };

static uint64_t f, fh;

static struct fuse_lk_in lk(uint64_t owner, uint32_t type, uint64_t start, uint64_t end)
{
	return (struct fuse_lk_in){
		.fh = fh,
		.owner = owner,
		.lk = {.start = start, .end = end, .type = type, .pid = (uint32_t)owner}};
}

static struct fuse_lk_in whole(uint64_t owner, uint32_t type)
{
	return lk(owner, type, 0, INT64_MAX);
}

static struct fuse_lk_in flocked(uint64_t owner, uint32_t type)
{
	struct fuse_lk_in in = whole(owner, type);

	in.lk_flags = FUSE_LK_FLOCK;
	return in;
}

static int set(struct fuse_lk_in in)
{
	return ask(FUSE_SETLK, f, &in, sizeof(in), NULL, 0);
}

static struct fuse_file_lock get(struct fuse_lk_in in)
{
	struct fuse_lk_out o;

	need(ask(FUSE_GETLK, f, &in, sizeof(in), &o, sizeof(o)) == sizeof(o));
	return o.lk;
}

/* The host's own lock on the file, by an open file description of its own. */
static int host_open(void)
{
	int fd = openat(door.dir, "f", O_RDWR | O_CLOEXEC);

	need(fd >= 0);
	return fd;
}

static int host_lock(int fd, short type)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &fl) < 0 ? -errno : 0;
}

static void open_up(void)
{
	door_open_share(BY_MODE, (struct share_config){.locks = SHARE_LOCKS_HOST});
	session_of(45, UINT64_MAX);
	f = find(ROOT, "f");
	fh = open_file(f, O_RDWR);
}

/* ---- taken ---- */

static void test_ranges(void)
{
	struct fuse_file_lock got;
	int fd = host_open();

	open_up();
	is(set(lk(ALICE, F_WRLCK, 2, 5)), 0, "a range is locked");
	got = get(lk(BOB, F_WRLCK, 0, INT64_MAX));
	ok(got.type == F_WRLCK && got.start == 2 && got.end == 5, "another is told of it");
	is(got.pid, ALICE, "and who has it");
	is(set(lk(BOB, F_RDLCK, 5, 9)), -EAGAIN, "and cannot have a part of it");
	is(host_lock(fd, F_RDLCK), -EAGAIN, "nor can the host");
	is(set(lk(BOB, F_RDLCK, 6, INT64_MAX)), 0, "but what is beside it");
	is(get(lk(BOB, F_RDLCK, 6, 8)).type, F_UNLCK, "where nothing is in his way");
	is(set(lk(ALICE, F_UNLCK, 2, 5)), 0, "it is unlocked");
	is(set(lk(BOB, F_UNLCK, 0, INT64_MAX)), 0, "both are");
	is(host_lock(fd, F_WRLCK), 0, "the host has it");
	got = get(whole(ALICE, F_RDLCK));
	ok(got.type == F_WRLCK && got.end == INT64_MAX && !got.pid, "which is told without a name");
	is(set(whole(ALICE, F_RDLCK)), -EAGAIN, "and the guest has not");
	close(fd);
	is(set(whole(ALICE, F_RDLCK)), 0, "until the host lets go");
	door_close();
}

static void test_flock(void)
{
	struct fuse_release_in closing = {.release_flags = FUSE_RELEASE_FLOCK_UNLOCK,
					  .lock_owner = ALICE};
	int fd = host_open();

	open_up();
	is(set(flocked(ALICE, F_WRLCK)), 0, "a file is locked as a whole");
	is(flock(fd, LOCK_SH | LOCK_NB), -1, "for the host too");
	is(set(flocked(BOB, F_RDLCK)), -EAGAIN, "and for another");
	is(set(whole(BOB, F_WRLCK)), 0, "which says nothing of ranges");
	closing.fh = fh;
	is(ask(FUSE_RELEASE, f, &closing, sizeof(closing), NULL, 0), 0, "closing");
	is(flock(fd, LOCK_EX | LOCK_NB), 0, "unlocks it");
	close(fd);
	door_close();
}

static void test_flush(void)
{
	struct fuse_flush_in in;
	int fd = host_open();

	open_up();
	in = (struct fuse_flush_in){.fh = fh, .lock_owner = ALICE};
	need(!set(whole(ALICE, F_WRLCK)));
	in.lock_owner = BOB;
	is(ask(FUSE_FLUSH, f, &in, sizeof(in), NULL, 0), 0, "one who has no locks closes");
	is(host_lock(fd, F_WRLCK), -EAGAIN, "and gives up none");
	in.lock_owner = ALICE;
	is(ask(FUSE_FLUSH, f, &in, sizeof(in), NULL, 0), 0, "one who has closes");
	is(host_lock(fd, F_WRLCK), 0, "and gives them up");
	in.fh = 4711;
	is(ask(FUSE_FLUSH, f, &in, sizeof(in), NULL, 0), -EBADF, "what is not open is not closed");
	close(fd);
	door_close();
}

/* F_OFD_SETLK: the owner is the opening, which no FLUSH names. */
static void test_opening(void)
{
	struct fuse_release_in closing = {0};
	uint64_t other;
	int fd = host_open();

	open_up();
	other = open_file(f, O_RDWR);
	need(!set(lk(ALICE, F_WRLCK, 0, 4)));
	closing.fh = other;
	is(ask(FUSE_RELEASE, f, &closing, sizeof(closing), NULL, 0), 0, "another opening ends");
	is(host_lock(fd, F_WRLCK), -EAGAIN, "and takes nothing with it");
	closing.fh = fh;
	is(ask(FUSE_RELEASE, f, &closing, sizeof(closing), NULL, 0), 0, "its own ends");
	is(host_lock(fd, F_WRLCK), 0, "and the lock with it");
	close(fd);
	door_close();
}

static void test_lies(void)
{
	struct fuse_lk_in in;
	struct fuse_lk_out o;

	open_up();
	is(set(lk(ALICE, 77, 0, 9)), -EINVAL, "a type that is none");
	is(set(lk(ALICE, F_WRLCK, 9, 0)), -EINVAL, "a range that ends before it begins");
	is(set(lk(ALICE, F_WRLCK, 0, UINT64_MAX)), -EINVAL, "one that ends nowhere");
	is(set(lk(ALICE, F_WRLCK, UINT64_MAX, UINT64_MAX)), -EINVAL, "or begins there");
	in = lk(ALICE, F_UNLCK, 0, 9);
	is(ask(FUSE_GETLK, f, &in, sizeof(in), &o, sizeof(o)), -EINVAL,
	   "who wants nothing asks nothing");
	in = flocked(ALICE, F_WRLCK);
	is(ask(FUSE_GETLK, f, &in, sizeof(in), &o, sizeof(o)), -EINVAL, "nor of a whole file");
	in = whole(ALICE, F_WRLCK);
	in.fh = 4711;
	is(set(in), -EBADF, "a handle that is none");
	door_close();
}

/* ---- waited for ---- */

static struct sent *wait_for(struct fuse_lk_in in)
{
	struct sent *s = sent_make(FUSE_SETLKW, f, &in, sizeof(in), NULL, 0, 0);

	loop_call(door.io, sent_serve, s);
	return s;
}

static void interrupt(uint64_t unique)
{
	const struct fuse_interrupt_in in = {unique};
	struct sent *s = sent_make(FUSE_INTERRUPT, 0, &in, sizeof(in), NULL, 0, 0);

	s->req.nwr = 0;
	loop_call(door.io, sent_serve, s);
	is(sent_finish(s, NULL, 0), 0, "an interrupt has no reply");
}

static unsigned replies_now(struct sent *s)
{
	return __atomic_load_n(&s->replies, __ATOMIC_ACQUIRE);
}

static void test_wait(void)
{
	struct sent *a, *b;
	int fd = host_open();

	open_up();
	need(!host_lock(fd, F_WRLCK));
	a = wait_for(whole(ALICE, F_WRLCK));
	is(replies_now(a), 0, "what the host has is waited for");
	is(ask_attr(ROOT, &(struct fuse_attr){0}), 0, "while other requests are served");
	need(!host_lock(fd, F_UNLCK));
	is(sent_finish(a, NULL, 0), 0, "and had when the host lets go");
	b = wait_for(whole(BOB, F_RDLCK));
	is(replies_now(b), 0, "what another has is waited for");
	is(set(whole(ALICE, F_UNLCK)), 0, "until he lets go");
	is(sent_finish(b, NULL, 0), 0, "and then had");
	a = wait_for(whole(BOB, F_RDLCK));
	is(sent_finish(a, NULL, 0), 0, "what is free is had at once");
	close(fd);
	door_close();
}

static void test_interrupt(void)
{
	struct sent *a, *b, *c;

	open_up();
	need(!set(whole(ALICE, F_WRLCK)));
	a = wait_for(whole(BOB, F_WRLCK));
	b = wait_for(whole(BOB + 1, F_WRLCK));
	c = wait_for(flocked(BOB, F_WRLCK));
	is(sent_finish(c, NULL, 0), 0, "a lock of the other kind is not in the way");
	interrupt(b->unique);
	is(sent_judge(b), -EINTR, "who is interrupted does not wait any longer");
	is(replies_now(a), 0, "who is not does");
	interrupt(b->unique);
	interrupt(0);
	interrupt(UINT64_MAX);
	is(replies_now(a), 0, "whoever else is interrupted");
	interrupt(a->unique);
	is(sent_finish(a, NULL, 0), -EINTR, "until his turn comes");
	sent_free(b);
	is(set(whole(ALICE, F_UNLCK)), 0, "nothing is left in the way");
	is(set(whole(BOB, F_WRLCK)), 0, "of anybody");
	door_close();
}

/* A guest that goes away leaves nothing behind: neither what it waits for nor what it has. */
static void test_end(bool reset)
{
	const char *const what = reset ? "a reset" : "INIT";
	struct sent *a, *b;
	int fd = host_open();

	open_up();
	need(!set(whole(ALICE, F_WRLCK)));
	a = wait_for(whole(BOB, F_WRLCK));
	b = wait_for(whole(BOB + 1, F_RDLCK));
	if (reset)
		loop_call(door.io, door_end, NULL);
	else
		session_of(45, UINT64_MAX);
	is(sent_finish(a, NULL, 0), -EINTR, "%s ends what is waited for", what);
	is(sent_finish(b, NULL, 0), -EINTR, "all of it");
	is(host_lock(fd, F_WRLCK), 0, "and what was had");
	ok(nothing_held(), "and nothing is held");
	close(fd);
	door_close();
}

static void test_guest_locks(void)
{
	struct fuse_lk_in in;
	struct fuse_lk_out o;

	door_open(BY_MODE, false);
	session();
	f = find(ROOT, "f");
	fh = open_file(f, O_RDWR);
	in = whole(ALICE, F_WRLCK);
	is(set(in), -ENOSYS, "where locks are the guest's they are not asked for");
	is(ask(FUSE_SETLKW, f, &in, sizeof(in), NULL, 0), -ENOSYS, "nor waited for");
	is(ask(FUSE_GETLK, f, &in, sizeof(in), &o, sizeof(o)), -ENOSYS, "nor looked at");
	is(ask(FUSE_FLUSH, f, &(struct fuse_flush_in){.fh = fh}, 24, NULL, 0), -ENOSYS,
	   "nor given up");
	door_close();
}

int main(void)
{
	unsigned fds;

	door_set_up("t_fuse_lock");
	host_write("f", "0123456789", 10);
	fds = host_descriptors();
	for (unsigned i = 0; i < 2; i++) {
		setenv("WHERRY_ENGINE", i ? "epoll" : "uring", 1);
		test_ranges();
		test_flock();
		test_flush();
		test_opening();
		test_lies();
		test_wait();
		test_interrupt();
		test_end(true);
		test_end(false);
		test_guest_locks();
	}
	is(host_descriptors(), fds, "nothing is left open");
	door_tear_down();
	return done();
}
