// SPDX-License-Identifier: Apache-2.0
/*
 * locks.c - fcntl and flock locks between two processes: who is kept out, who is told, who waits and
 * what ends the wait.
 */
#include "suite.h"
#include <sys/file.h>

static int lock_range(int fd, int cmd, short type, off_t start, off_t len)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

	return fcntl(fd, cmd, &l);
}

static bool is_locked(int fd, short type, off_t start, off_t len, struct flock *l)
{
	*l = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
	return fcntl(fd, F_GETLK, l) == 0 && l->l_type != F_UNLCK;
}

static bool refused_lock(int fd, short type, off_t start, off_t len)
{
	return lock_range(fd, F_SETLK, type, start, len) == -1 &&
	       (errno == EAGAIN || errno == EACCES);
}

/* As a wait for the lock, but one that ends: a close may reach a server late, or never. */
static bool lock_soon(int fd, int cmd, short type, off_t start, off_t len)
{
	for (int i = 0; i < 200; i++) {
		if (lock_range(fd, cmd, type, start, len) == 0)
			return true;
		usleep(20000);
	}
	return false;
}

static bool flock_soon(int fd, int how)
{
	for (int i = 0; i < 200; i++) {
		if (flock(fd, how | LOCK_NB) == 0)
			return true;
		usleep(20000);
	}
	return false;
}

static bool other_sees_write_lock(void)
{
	int fd = open("f", O_RDWR);
	struct flock l;

	must(fd >= 0 && refused_lock(fd, F_WRLCK, 15, 1) && refused_lock(fd, F_RDLCK, 0, 0));
	must(lock_range(fd, F_SETLK, F_WRLCK, 0, 10) == 0);
	must(lock_range(fd, F_SETLK, F_WRLCK, 20, 0) == 0);
	must(is_locked(fd, F_RDLCK, 0, 0, &l) && l.l_type == F_WRLCK);
	must(l.l_start == 10 && l.l_len == 10);
	return true;
}

static bool other_sees_none(void)
{
	int fd = open("f", O_RDWR);

	must(fd >= 0 && lock_range(fd, F_SETLK, F_WRLCK, 0, 0) == 0);
	return true;
}

static bool check_lock(void)
{
	struct flock l = {.l_type = F_WRLCK};
	int fd, second;

	must(file_make("f", "") && (fd = open("f", O_RDWR)) >= 0);
	must(fcntl(fd, F_GETLK, &l) == 0 && l.l_type == F_UNLCK);
	must(!is_locked(fd, F_WRLCK, 0, 0, &l));
	must(lock_range(fd, F_SETLK, F_WRLCK, 10, 10) == 0);
	must(in_child(other_sees_write_lock));
	must(lock_range(fd, F_SETLK, F_RDLCK, 0, 30) == 0); /* one's own are no hindrance */
	must(lock_range(fd, F_SETLK, F_UNLCK, 0, 0) == 0 && in_child(other_sees_none));
	must(lock_range(fd, F_SETLK, F_WRLCK, 0, 0) == 0);
	must((second = open("f", O_RDONLY)) >= 0 && close(second) == 0); /* drops them all */
	must(in_child(other_sees_none));
	must_fail(lock_range(fd, F_SETLK, F_WRLCK, -5, 3), EINVAL);
	must((second = open("f", O_RDONLY)) >= 0);
	must_fail(lock_range(second, F_SETLK, F_WRLCK, 0, 1), EBADF);
	return true;
}

static bool other_shares(void)
{
	int fd = open("f", O_RDWR);

	must(fd >= 0 && lock_range(fd, F_SETLK, F_RDLCK, 0, 100) == 0);
	must(refused_lock(fd, F_WRLCK, 0, 100));
	must(lock_range(fd, F_SETLK, F_WRLCK, 40, 20) == 0); /* the hole that was unlocked */
	return true;
}

static bool check_lock_shared(void)
{
	int fd;

	must(file_make("f", "") && (fd = open("f", O_RDWR)) >= 0);
	must(lock_range(fd, F_SETLK, F_RDLCK, 0, 100) == 0);
	must(lock_range(fd, F_SETLK, F_UNLCK, 40, 20) == 0);
	must(in_child(other_shares));
	must(lock_range(fd, F_SETLK, F_WRLCK, 0, 0) == 0); /* the other has ended */
	return true;
}

/* Who waits gets the lock when it is given back, not before. */
static bool check_lock_wait(void)
{
	struct turns t;
	pid_t pid;
	int fd;

	must(turns_make(&t) && file_make("f", "") && (fd = open("f", O_RDWR)) >= 0);
	must(lock_range(fd, F_SETLK, F_WRLCK, 0, 0) == 0);
	pid = fork();
	if (pid == 0) {
		int mine = open("f", O_RDWR);

		tell(t.back);
		if (mine < 0 || lock_range(mine, F_SETLKW, F_WRLCK, 0, 0))
			_exit(1);
		_exit(pwrite(mine, "2", 1, 1) == 1 ? 0 : 1);
	}
	must(wait_turn(t.back));
	usleep(100000);
	must(size_of("f") == 0 && pwrite(fd, "1", 1, 0) == 1);
	must(lock_range(fd, F_SETLK, F_UNLCK, 0, 0) == 0 && child_good(pid));
	must(file_holds("f", "12"));
	return true;
}

static void on_signal(int n)
{
	(void)n;
}

/* A child that waits for a lock is sent signals until it says that one ended the wait. */
static bool wait_interrupted(int (*wait_for)(int fd))
{
	struct sigaction sa = {.sa_handler = on_signal}; /* no SA_RESTART */
	struct turns t;
	int status = 0;
	pid_t pid;

	must(turns_make(&t));
	pid = fork();
	if (pid == 0) {
		int fd = open("f", O_RDWR);

		if (fd < 0 || sigaction(SIGUSR1, &sa, NULL))
			_exit(1);
		tell(t.back);
		_exit(wait_for(fd) == -1 && errno == EINTR ? 0 : 1);
	}
	must(wait_turn(t.back));
	for (int i = 0; i < 200 && waitpid(pid, &status, WNOHANG) == 0; i++) {
		usleep(50000);
		kill(pid, SIGUSR1);
	}
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return true;
}

static int wait_fcntl(int fd)
{
	return lock_range(fd, F_SETLKW, F_WRLCK, 0, 0);
}

static int wait_flock(int fd)
{
	return flock(fd, LOCK_EX);
}

static bool check_lock_interrupted(void)
{
	int fd;

	must(file_make("f", "") && (fd = open("f", O_RDWR)) >= 0);
	must(lock_range(fd, F_SETLK, F_WRLCK, 0, 0) == 0 && wait_interrupted(wait_fcntl));
	must(lock_range(fd, F_SETLK, F_UNLCK, 0, 0) == 0 && in_child(other_sees_none));
	must(flock(fd, LOCK_EX) == 0 && wait_interrupted(wait_flock));
	must(flock(fd, LOCK_UN) == 0 && file_holds("f", ""));
	return true;
}

/* The lock of one who died is free. */
static bool check_lock_killed(void)
{
	struct turns t;
	const char *other = have(APART) ? "f" : "g";
	int fd, flocked;
	pid_t pid;

	must(turns_make(&t) && file_make("f", "") && (fd = open("f", O_RDWR)) >= 0);
	must((flocked = open(other, O_CREAT | O_RDWR, 0644)) >= 0);
	pid = fork();
	if (pid == 0) {
		int mine = open("f", O_RDWR), too = open(other, O_RDWR);

		if (mine < 0 || lock_range(mine, F_SETLK, F_WRLCK, 0, 0) || flock(too, LOCK_EX))
			_exit(1);
		tell(t.back);
		pause();
	}
	must(wait_turn(t.back) && refused_lock(fd, F_RDLCK, 0, 1));
	must_fail(flock(flocked, LOCK_SH | LOCK_NB), EWOULDBLOCK);
	must(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	must(lock_soon(fd, F_SETLK, F_WRLCK, 0, 0) && flock_soon(flocked, LOCK_EX));
	return true;
}

static bool check_flock(void)
{
	int a, b, c;

	must(file_make("f", "") && (a = open("f", O_RDWR)) >= 0 && (b = open("f", O_RDONLY)) >= 0);
	must(flock(a, LOCK_EX) == 0);
	must_fail(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK);
	must_fail(flock(b, LOCK_SH | LOCK_NB), EWOULDBLOCK);
	must((c = dup(a)) >= 0 && flock(c, LOCK_SH) == 0); /* one opening, one lock */
	must(flock(b, LOCK_SH | LOCK_NB) == 0);
	must_fail(flock(a, LOCK_EX | LOCK_NB), EWOULDBLOCK);
	must(flock(b, LOCK_UN) == 0 && flock(a, LOCK_EX | LOCK_NB) == 0);
	must(close(a) == 0);
	must_fail(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK); /* c is open still */
	must(close(c) == 0 && flock_soon(b, LOCK_EX));
	return true;
}

/* Locks of an open file description: between two openings of one process. */
static bool check_lock_ofd(void)
{
	int a, b, c;

	must(file_make("f", "") && (a = open("f", O_RDWR)) >= 0 && (b = open("f", O_RDWR)) >= 0);
	must(lock_range(a, F_OFD_SETLK, F_WRLCK, 0, 10) == 0);
	must_fail(lock_range(b, F_OFD_SETLK, F_WRLCK, 5, 10), EAGAIN);
	must(lock_range(b, F_OFD_SETLK, F_WRLCK, 10, 10) == 0);
	must((c = open("f", O_RDWR)) >= 0 && close(c) == 0); /* drops none */
	must_fail(lock_range(b, F_OFD_SETLK, F_RDLCK, 0, 1), EAGAIN);
	must(lock_range(a, F_OFD_SETLK, F_UNLCK, 0, 5) == 0);
	must(lock_range(b, F_OFD_SETLK, F_WRLCK, 0, 5) == 0);
	must(close(a) == 0 && lock_soon(b, F_OFD_SETLK, F_WRLCK, 0, 0));
	return true;
}

const struct check lock_checks[] = {
	CHECK(lock, "a lock keeps the other process out of its range, and goes with any close"),
	CHECK(lock_shared, "read locks are shared, and a hole in one is free"),
	CHECK(lock_wait, "who waits for a lock gets it when it is free"),
	CHECK(lock_interrupted, "a signal ends the wait for a lock", LOCKINTR),
	CHECK(lock_killed, "the locks of a killed process are free"),
	CHECK(flock, "flock is between openings, and ends with the last descriptor"),
	CHECK(lock_ofd, "locks of open file descriptions are between openings"),
	{0},
};
