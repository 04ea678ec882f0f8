// SPDX-License-Identifier: Apache-2.0
/*
 * locks.c - locks on the host: of two owners, and of programs there.
 *
 * Hard case D50.
 */
#include "suite.h"
#include <sys/file.h>

enum { A = 11, B = 22 }; /* owners */

static struct share_lock range(int type, uint64_t start, uint64_t end)
{
	return (struct share_lock){.type = type, .start = start, .end = end, .pid = 77};
}

static int lock(struct fs_file *f, uint64_t owner, int type, uint64_t start, uint64_t end)
{
	const struct share_lock l = range(type, start, end);

	return fs->setlk(f, owner, &l);
}

/* What is in the way of a write lock of the owner's; F_UNLCK: nothing. */
static struct share_lock in_way(struct fs_file *f, uint64_t owner, uint64_t start, uint64_t end)
{
	struct share_lock l = range(F_WRLCK, start, end);

	want(fs->getlk(f, owner, &l), 0);
	return l;
}

static void two_owners(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "0123456789");
	struct fs_file *f = open_obj(o, O_RDWR);
	struct share_lock l;

	want(lock(f, A, F_WRLCK, 10, 19), 0);
	want(lock(f, B, F_WRLCK, 15, 25), -EAGAIN);
	want(lock(f, B, F_RDLCK, 19, 19), -EAGAIN);
	want(lock(f, B, F_WRLCK, 20, INT64_MAX), 0);
	want(lock(f, A, F_WRLCK, 12, 13), 0); /* his own is not in his way */
	want(in_way(f, A, 0, 19).type, F_UNLCK);
	l = in_way(f, B, 0, INT64_MAX);
	want(l.type, F_WRLCK);
	want(l.start, 10);
	want(l.end, 19);
	/* A part of it goes, in the middle. */
	want(lock(f, A, F_UNLCK, 12, 15), 0);
	want(lock(f, B, F_RDLCK, 12, 15), 0);
	want(lock(f, B, F_RDLCK, 11, 15), -EAGAIN);
	want(lock(f, A, F_UNLCK, 0, INT64_MAX), 0);
	want(lock(f, B, F_WRLCK, 0, INT64_MAX), 0);
	want(lock(f, A, F_RDLCK, 5, 5), -EAGAIN);
	want(lock(f, B, F_RDLCK, 0, INT64_MAX), 0); /* to a weaker one */
	want(lock(f, A, F_RDLCK, 5, 5), 0);
	want(lock(f, B, F_WRLCK, 0, INT64_MAX), -EAGAIN);
	want(lock(f, A, F_UNLCK, 0, INT64_MAX), 0);
	want(lock(f, B, F_UNLCK, 0, INT64_MAX), 0);
	fs->release(f);
	fs->forget(o);
}

/* Closing any descriptor of a file drops its owner's locks, as POSIX has it. */
static void closing(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct fs_file *f = open_obj(o, O_RDWR);

	want(lock(f, A, F_WRLCK, 0, 9), 0);
	want(lock(f, B, F_WRLCK, 10, 19), 0);
	fs->flush(f, A);
	want(lock(f, B, F_WRLCK, 0, 9), 0);
	want(lock(f, A, F_WRLCK, 10, 19), -EAGAIN);
	fs->flush(f, B);
	fs->release(f);
	fs->forget(o);
}

/* Programs on the host see them, and are seen. */
static void with_host(void)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 1};
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct fs_file *f = open_obj(o, O_RDWR);
	int h;

	host(h = openat(bed.host, "f", O_RDWR | O_CLOEXEC));
	want(lock(f, A, F_WRLCK, 0, 9), 0);
	want(fcntl(h, F_OFD_SETLK, &fl), -1);
	fl.l_start = 100;
	host(fcntl(h, F_OFD_SETLK, &fl));
	want(lock(f, A, F_RDLCK, 100, 100), -EAGAIN);
	want(in_way(f, A, 0, INT64_MAX).start, 100);
	want(lock(f, A, F_UNLCK, 0, INT64_MAX), 0);
	close(h);
	fs->release(f);
	fs->forget(o);
}

static void waiting(void)
{
	const struct share_lock l = range(F_WRLCK, 0, 9);
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct fs_file *f = open_obj(o, O_RDWR);
	struct fs_wait *w;

	want(lock(f, A, F_WRLCK, 0, 9), 0);
	w = fs->setlkw(f, B, &l);
	must(holds(o, "x")); /* nobody else waits */
	want(lock(f, A, F_UNLCK, 0, 9), 0);
	want(fs->waited(w, false), 0);
	want(lock(f, A, F_WRLCK, 5, 5), -EAGAIN);
	/* And one that is given up. */
	w = fs->setlkw(f, A, &l);
	want(fs->waited(w, true), -EINTR);
	fs->flush(f, B);
	want(lock(f, A, F_WRLCK, 5, 5), 0);
	fs->flush(f, A);
	/* Nothing in the way: at once. */
	w = fs->setlkw(f, B, &l);
	want(fs->waited(w, false), 0);
	fs->flush(f, B);
	fs->release(f);
	fs->forget(o);
}

static void circle(void)
{
	const struct share_lock one = range(F_WRLCK, 0, 0), two = range(F_WRLCK, 1, 1);
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct fs_file *f = open_obj(o, O_RDWR);
	struct fs_wait *w;

	want(fs->setlk(f, A, &one), 0);
	want(fs->setlk(f, B, &two), 0);
	w = fs->setlkw(f, A, &two);
	want(fs->waited(fs->setlkw(f, B, &one), false), -EDEADLK);
	fs->flush(f, B);
	want(fs->waited(w, false), 0);
	fs->flush(f, A);
	fs->release(f);
	fs->forget(o);
}

static void whole_files(void)
{
	const struct share_lock shared = {.type = F_RDLCK, .flock = true},
				alone = {.type = F_WRLCK, .flock = true},
				none = {.type = F_UNLCK, .flock = true};
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct fs_file *f = open_obj(o, O_RDWR);
	int h;

	host(h = openat(bed.host, "f", O_RDONLY | O_CLOEXEC));
	want(fs->setlk(f, A, &shared), 0);
	want(fs->setlk(f, B, &shared), 0);
	want(fs->setlk(f, A, &alone), -EAGAIN);
	want(flock(h, LOCK_EX | LOCK_NB), -1);
	want(fs->setlk(f, B, &none), 0);
	want(fs->setlk(f, A, &alone), 0);
	want(flock(h, LOCK_SH | LOCK_NB), -1);
	/* The two kinds do not meet. */
	want(lock(f, B, F_WRLCK, 0, INT64_MAX), 0);
	fs->flush(f, B);
	want(fs->setlk(f, A, &none), 0);
	host(flock(h, LOCK_EX | LOCK_NB));
	want(fs->setlk(f, A, &shared), -EAGAIN);
	close(h);
	fs->release(f);
	fs->forget(o);
}

/* Where the guest keeps them itself, it is told so if that can be said, and nothing is locked. */
static void guests_own(void)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct fs_obj *o = make_file(bed.dir, "f", "x");
	struct fs_file *f = open_obj(o, O_RDWR);
	int h, err = lock(f, A, F_WRLCK, 0, 9);

	host(h = openat(bed.host, "f", O_RDWR | O_CLOEXEC));
	if (bed.setup->share.locks == SHARE_LOCKS_HOST) {
		want(err, 0);
		want(fcntl(h, F_OFD_SETLK, &fl), -1);
	} else {
		must(lacks(FS_OWN_LOCKS) ? !err : err == -EOPNOTSUPP || err == -ENOSYS);
		host(fcntl(h, F_OFD_SETLK, &fl));
	}
	close(h);
	fs->flush(f, A);
	fs->release(f);
	fs->forget(o);
}

const struct fs_test lock_tests[] = {
	{"ranges of two owners", two_owners, LOCKS, 0},
	{"locks go when their owner closes the file", closing, LOCKS, 0},
	{"the host's programs are in the way, and the other way round", with_host, LOCKS, 0},
	{"a lock is waited for, and given up", waiting, LOCKS, 0},
	{"two who wait for each other are told", circle, LOCKS, 0},
	{"flock of two owners and the host", whole_files, LOCKS, FS_BSD_LOCKS},
	{"locks of the guest's own are not asked for here", guests_own, 0, 0},
	{0},
};
