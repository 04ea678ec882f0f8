// SPDX-License-Identifier: Apache-2.0
/*
 * t_p9_lock.c - Tlock and Tgetlock: locks that hold on the host, waited for without holding a thread, and given up by
 * whatever ends them.
 *
 * What the file layer does with them is in t_share_lock.c; what is flushed is in t_p9_flush.c. On both engines of the
 * loop. Hard cases E22, E27, E14.
 */
#include "p9_door.h"
#include <sys/file.h>
#include <time.h>

enum { F = 10, G, H };
#define ALL  (uint64_t)0, (uint64_t)0
#define MINE "me"

static const struct share_config on_host = {.xattr = true, .locks = SHARE_LOCKS_HOST};

/* The status, or the error. */
static int ask_lock(uint32_t fid, unsigned type, unsigned flags, uint64_t start, uint64_t len,
		    uint32_t process, const char *client)
{
	struct p9_rlock o;
	int r = ask(P9_TLOCK, &o, sizeof(o), "414884s", fid, type, flags, start, len, process,
		    client);

	return r < 0 ? r : o.status;
}

static struct sent *wait_for(uint32_t fid, unsigned type, uint64_t start, uint64_t len,
			     uint32_t process)
{
	return sent_send(sent_make(P9_TLOCK, 1, "414884s", fid, type, (unsigned)P9_LOCK_BLOCK,
				   start, len, process, MINE));
}

static int status_of(struct sent *s)
{
	struct p9_rlock o;
	int r = sent_finish(s, &o, sizeof(o));

	return r < 0 ? r : o.status;
}

/* What is in the way, or a type of nothing. */
static struct p9_rgetlock ask_getlock(uint32_t fid, unsigned type, uint64_t start, uint64_t len,
				      uint32_t process, const char *client)
{
	struct {
		struct p9_rgetlock o;
		char client[300];
	} __attribute__((packed)) out;
	int r = ask(P9_TGETLOCK, &out, sizeof(out), "41884s", fid, type, start, len, process,
		    client);

	need(r == (int)(sizeof(out.o) + 2 + strlen(client)));
	always(!memcmp(out.client + 2, client, strlen(client)), "the client is told its own name");
	return out.o;
}

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

/* Three open fids of one file. */
static void open_up(void)
{
	door_open_share(PLAIN_9P, on_host);
	session();
	open_at(F, "f", O_RDWR);
	open_at(G, "f", O_RDWR);
	open_at(H, "f", O_RDWR);
}

/* ---- had at once ---- */

static void test_ranges(void)
{
	struct p9_rgetlock got;
	int fd = host_open();

	open_up();
	is(ask_lock(F, P9_LOCK_WRLCK, 0, 2, 4, 1, MINE), P9_LOCK_SUCCESS, "a range is locked");
	got = ask_getlock(G, P9_LOCK_WRLCK, ALL, 2, MINE);
	ok(got.type == P9_LOCK_WRLCK && le64_get(got.start) == 2 && le64_get(got.length) == 4,
	   "another is told of it");
	is(le32_get(got.proc_id), 1, "and who has it");
	is(ask_lock(G, P9_LOCK_RDLCK, 0, 5, 5, 2, MINE), P9_LOCK_BLOCKED, "nor has a part of it");
	is(ask_lock(G, P9_LOCK_RDLCK, 0, 5, 5, 1, "other"), P9_LOCK_BLOCKED,
	   "nor one of the same number elsewhere");
	is(ask_lock(G, P9_LOCK_RDLCK, 0, 5, 5, 1, MINE), P9_LOCK_SUCCESS,
	   "but the one who has it, by any fid");
	is(host_lock(fd, F_WRLCK), -EAGAIN, "nor has the host");
	is(ask_lock(G, P9_LOCK_RDLCK, 0, 10, 0, 2, MINE), P9_LOCK_SUCCESS,
	   "what is beside it is free");
	got = ask_getlock(H, P9_LOCK_WRLCK, (uint64_t)100, (uint64_t)1, 3, MINE);
	ok(le64_get(got.start) == 10 && !le64_get(got.length), "to whatever end");
	is(ask_getlock(H, P9_LOCK_RDLCK, (uint64_t)100, (uint64_t)1, 3, MINE).type, P9_LOCK_UNLCK,
	   "where two may read nothing is in the way");
	is(ask_lock(F, P9_LOCK_UNLCK, 0, ALL, 1, MINE), P9_LOCK_SUCCESS, "it is unlocked");
	is(ask_lock(F, P9_LOCK_UNLCK, 0, ALL, 2, MINE), P9_LOCK_SUCCESS, "both are");
	is(ask_lock(F, P9_LOCK_UNLCK, 0, ALL, 9, MINE), P9_LOCK_SUCCESS, "and what never was");
	is(host_lock(fd, F_WRLCK), 0, "the host has it");
	got = ask_getlock(F, P9_LOCK_RDLCK, ALL, 1, MINE);
	ok(got.type == P9_LOCK_WRLCK && !le32_get(got.proc_id), "and no process of the guest");
	got = ask_getlock(F, P9_LOCK_UNLCK, ALL, 1, MINE);
	is(got.type, P9_LOCK_WRLCK, "of which also who does not say what he wants is told");
	need(!host_lock(fd, F_UNLCK));
	is(ask_getlock(F, P9_LOCK_UNLCK, ALL, 1, MINE).type, P9_LOCK_UNLCK, "or of none");
	close(fd);
	door_close();
}

static void test_lies(void)
{
	char client[257];
	const uint64_t most = INT64_MAX;

	open_up();
	memset(client, 'c', sizeof(client));
	client[256] = 0;
	is(ask_lock(F, 3, 0, ALL, 1, MINE), -EINVAL, "a type that is none");
	is(ask_lock(F, 255, P9_LOCK_BLOCK, ALL, 1, MINE), -EINVAL, "however wrong");
	is(ask_lock(F, P9_LOCK_WRLCK, 0, most + 1, 1, 1, MINE), -EINVAL,
	   "a start beyond all files");
	is(ask_lock(F, P9_LOCK_WRLCK, 0, UINT64_MAX, UINT64_MAX, 1, MINE), -EINVAL,
	   "a range that wraps");
	is(ask_lock(F, P9_LOCK_WRLCK, 0, 1, most + 1, 1, MINE), -EINVAL, "an end beyond all files");
	is(ask_lock(F, P9_LOCK_WRLCK, 0, most, 1, 1, MINE), P9_LOCK_SUCCESS, "the last byte");
	is(ask_lock(F, P9_LOCK_WRLCK, 0, 0, most + 1, 1, MINE), P9_LOCK_SUCCESS, "all of them");
	is(ask_lock(F, P9_LOCK_WRLCK, 0, ALL, 1, client), -ENAMETOOLONG,
	   "a client's name has 255 bytes");
	is(ask(P9_TLOCK, NULL, 1, "4148842d", F, 0u, 0u, ALL, 1u, 3u, "a\0b", (size_t)3), -EINVAL,
	   "and no NUL");
	is(ask(P9_TGETLOCK, NULL, 30, "41884s", F, 7u, ALL, 1u, MINE), -EINVAL,
	   "a question of no type");
	is(ask(P9_TGETLOCK, NULL, 23, "41884s", F, 1u, ALL, 1u, MINE), -EMSGSIZE,
	   "the answer has a name in it");
	is(ask_lock(F, P9_LOCK_WRLCK, P9_LOCK_RECLAIM | 0xf0, 0, 1, 1, MINE), P9_LOCK_SUCCESS,
	   "flags that mean nothing here change nothing");
	door_close();
}

/* Who may not write may not keep others from it; reading is his (E27). */
static void test_rights(void)
{
	struct share_config ro = on_host;

	ro.readonly = true;
	door_open_share(PLAIN_9P, ro);
	session();
	open_at(F, "f", O_RDONLY);
	open_at(G, "d", O_RDONLY);
	is(ask_lock(F, P9_LOCK_RDLCK, 0, ALL, 1, MINE), P9_LOCK_SUCCESS,
	   "what may be read can be locked for it");
	is(ask_lock(F, P9_LOCK_WRLCK, 0, ALL, 1, MINE), -EBADF, "not for writing");
	is(ask_lock(G, P9_LOCK_RDLCK, 0, ALL, 1, MINE), P9_LOCK_SUCCESS, "a directory too");
	is(ask_lock(F, P9_LOCK_UNLCK, 0, ALL, 1, MINE), P9_LOCK_SUCCESS, "and unlocked");
	door_close();
}

/* ---- waited for ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_wait(void)
{
	struct p9_rgetattr o;
	struct sent *a, *b;
	int fd = host_open();
	double began;

	open_up();
	need(!host_lock(fd, F_WRLCK));
	a = wait_for(F, P9_LOCK_WRLCK, ALL, 1);
	ok(!sent_answered(a), "what the host has is waited for");
	is(held().inflight, 1, "by a request, not by a thread");
	is(ask_getattr(F, &o), 0, "others are served");
	need(!host_lock(fd, F_UNLCK));
	is(status_of(a), P9_LOCK_SUCCESS, "when the host lets go it is had");
	b = wait_for(G, P9_LOCK_RDLCK, ALL, 2);
	ok(!sent_answered(b), "what another has is waited for");
	is(ask_lock(F, P9_LOCK_UNLCK, 0, ALL, 1, MINE), P9_LOCK_SUCCESS, "until he lets go");
	is(status_of(b), P9_LOCK_SUCCESS, "and then had");
	is(status_of(wait_for(H, P9_LOCK_RDLCK, ALL, 3)), P9_LOCK_SUCCESS,
	   "what is free is had at once");
	began = now();
	is(status_of(wait_for(F, P9_LOCK_WRLCK, ALL, 1)), P9_LOCK_BLOCKED,
	   "who waits for long is told that it is blocked");
	ok(now() - began > 0.9, "but not before a second");
	is(held().inflight, 0, "then nobody waits");
	is(ask_lock(G, P9_LOCK_UNLCK, 0, ALL, 2, MINE), P9_LOCK_SUCCESS, "the one lets go");
	is(ask_lock(H, P9_LOCK_UNLCK, 0, ALL, 3, MINE), P9_LOCK_SUCCESS, "and the other");
	is(host_lock(fd, F_WRLCK), 0, "he who gave up has nothing");
	close(fd);
	door_close();
}

static void test_deadlock(void)
{
	struct sent *a;

	open_up();
	need(!ask_lock(F, P9_LOCK_WRLCK, 0, 0, 1, 1, MINE));
	need(!ask_lock(G, P9_LOCK_WRLCK, 0, 1, 1, 2, MINE));
	a = wait_for(F, P9_LOCK_WRLCK, 1, 1, 1);
	is(status_of(wait_for(G, P9_LOCK_WRLCK, 0, 1, 2)), -EDEADLK,
	   "two do not wait for each other");
	ok(!sent_answered(a), "the first goes on waiting");
	is(ask_lock(G, P9_LOCK_UNLCK, 0, ALL, 2, MINE), P9_LOCK_SUCCESS,
	   "until the second gives in");
	is(status_of(a), P9_LOCK_SUCCESS, "and has both");
	door_close();
}

/* Many wait, and each gets its turn. */
static void test_crowd(void)
{
	struct sent *s[40];
	unsigned good = 0;

	open_up();
	need(!ask_lock(F, P9_LOCK_WRLCK, 0, ALL, 1000, MINE));
	for (uint32_t i = 0; i < ARRAY_LEN(s); i++)
		s[i] = wait_for(F + i % 3, P9_LOCK_WRLCK, i, 1, i);
	is(held().inflight, ARRAY_LEN(s), "many wait");
	need(!ask_lock(F, P9_LOCK_UNLCK, 0, ALL, 1000, MINE));
	for (uint32_t i = 0; i < ARRAY_LEN(s); i++)
		good += status_of(s[i]) == P9_LOCK_SUCCESS;
	is(good, ARRAY_LEN(s), "and all have what they waited for");
	is(held().inflight, 0, "then nobody waits");
	door_close();
}

/* ---- given up ---- */

static void test_clunk(void)
{
	int fd = host_open();

	open_up();
	need(!ask_lock(F, P9_LOCK_WRLCK, 0, ALL, 1, MINE));
	is(ask_clunk(G), 0, "another fid goes");
	is(host_lock(fd, F_WRLCK), -EAGAIN, "and takes nothing with it");
	is(ask_clunk(F), 0, "the lock's own goes");
	is(host_lock(fd, F_WRLCK), 0, "and the lock with it");
	need(!host_lock(fd, F_UNLCK));
	need(!ask_lock(H, P9_LOCK_WRLCK, 0, ALL, 1, MINE));
	is(ask_remove(H), 0, "one that removes its file goes too");
	is(host_lock(fd, F_WRLCK), 0, "in the same way");
	close(fd);
	host_write("f", "0123456789", 10);
	door_close();
}

/* Whoever let go of the fid wants nothing by it any more: nor may he get it when nobody looks. */
static void test_clunk_waiting(void)
{
	struct sent *a, *b;
	int fd = host_open();

	open_up();
	need(!host_lock(fd, F_WRLCK));
	a = wait_for(F, P9_LOCK_WRLCK, ALL, 1);
	b = wait_for(G, P9_LOCK_WRLCK, ALL, 2);
	is(ask_clunk(F), 0, "a fid goes while a lock is waited for by it");
	is(status_of(a), -EINTR, "which ends the wait");
	ok(!sent_answered(b), "and no other");
	need(!host_lock(fd, F_UNLCK));
	is(status_of(b), P9_LOCK_SUCCESS, "the other has what it waited for");
	is(ask_clunk(G), 0, "and lets it go");
	is(host_lock(fd, F_WRLCK), 0, "so nothing is locked");
	close(fd);
	door_close();
}

/* A guest that goes away leaves nothing behind: neither what it waits for nor what it has. */
static void test_end(bool reset)
{
	const char *const what = reset ? "a reset" : "Tversion";
	struct sent *a, *b;
	int fd = host_open();

	open_up();
	need(!ask_lock(F, P9_LOCK_WRLCK, 0, ALL, 1, MINE));
	a = wait_for(G, P9_LOCK_WRLCK, ALL, 2);
	b = wait_for(H, P9_LOCK_RDLCK, ALL, 3);
	if (reset)
		loop_call(door.io, door_end, NULL);
	else
		need(ask_version(8192, "9P2000.L") == 8192);
	is(status_of(a), -EINTR, "%s ends what is waited for", what);
	is(status_of(b), -EINTR, "all of it");
	is(host_lock(fd, F_WRLCK), 0, "and what was had");
	ok(held_only(0), "and nothing is held");
	close(fd);
	door_close();
}

static struct sent *send_version(const char *bytes, size_t n, size_t behind)
{
	struct sent *s = sent_make(P9_TVERSION, 14, "42d", 8192u, (unsigned)n, bytes, n);
	const uint32_t size = (uint32_t)(s->rd_len - behind);

	memcpy(s->rd, &size, sizeof(size));
	return sent_send(s);
}

/* The answer to Tversion comes after all that is of the session it ends (E2). */
static void test_version_waits(void)
{
	struct sent *a, *v, *w;
	struct p9_rgetattr o;

	open_up();
	need(!ask_lock(F, P9_LOCK_WRLCK, 0, ALL, 1, MINE));
	a = wait_for(G, P9_LOCK_WRLCK, ALL, 2);
	v = send_version("9P2000.L", 8, 0);
	is(sent_judge(v), 14, "a session begins");
	ok(sent_answered(a) && a->nth < v->nth, "after the end of all that was before");
	is(status_of(a), -EINTR, "which is told so");
	sent_free(v);
	door.msize = 8192;
	need(!ask_attach(ROOT, "", 0));
	open_at(F, "f", O_RDWR);
	open_at(G, "f", O_RDWR);
	need(!ask_lock(F, P9_LOCK_WRLCK, 0, ALL, 1, MINE));
	a = wait_for(G, P9_LOCK_WRLCK, ALL, 2);
	v = send_version("9P2000.L", 8, 3);
	is(sent_finish(v, NULL, 0), -EINVAL,
	   "a name that ends behind its message is none, also later");
	is(status_of(a), -EINTR, "of what was before this is the end too");
	is(ask_getattr(ROOT, &o), -EIO, "and there is no session");
	w = send_version("9P2000.L", 8, 0);
	is(sent_finish(w, NULL, 0), 14, "until there is");
	door_close();
}

/* Two of them before what they wait for has ended. */
static void two_versions(void *arg)
{
	struct sent **s = arg;

	for (unsigned i = 0; i < 4; i++)
		sent_serve(s[i]);
}

static void test_versions(void)
{
	struct sent *s[4], *a;

	open_up();
	need(!ask_lock(F, P9_LOCK_WRLCK, 0, ALL, 1, MINE));
	a = wait_for(G, P9_LOCK_WRLCK, ALL, 2);
	s[0] = sent_make(P9_TVERSION, 14, "4s", 8192u, "9P2000.L");
	s[1] = sent_make(P9_TGETATTR, 153, "48", ROOT, (uint64_t)0);
	s[2] = sent_make(P9_TVERSION, 14, "4s", 4096u, "9P2000.L");
	s[3] = sent_make(P9_TATTACH, 13, "44ss4", ROOT, P9_NOFID, "u", "", 0u);
	loop_call(door.io, two_versions, s);
	is(sent_finish(s[0], NULL, 0), -EIO, "a session that ends before it began is none");
	is(sent_finish(s[1], NULL, 0), -EIO, "nothing is served between two sessions");
	is(sent_finish(s[3], NULL, 0), -EIO, "nobody attaches");
	is(status_of(a), -EINTR, "what was in flight ends");
	is(sent_finish(s[2], NULL, 0), 14, "and the last one begins");
	door.msize = 4096;
	is(ask_attach(ROOT, "", 0), 0, "where one attaches");
	door_close();
}

/* ---- in the guest ---- */

static void test_guest_locks(void)
{
	int fd = host_open();

	door_open();
	session();
	open_at(F, "f", O_RDWR);
	open_at(G, "f", O_RDWR);
	need(!host_lock(fd, F_WRLCK));
	is(ask_lock(F, P9_LOCK_WRLCK, P9_LOCK_BLOCK, ALL, 1, MINE), P9_LOCK_SUCCESS,
	   "where locks are the guest's any is granted");
	is(ask_lock(G, P9_LOCK_WRLCK, 0, ALL, 2, MINE), P9_LOCK_SUCCESS,
	   "to anybody: it has asked itself");
	is(ask_getlock(G, P9_LOCK_WRLCK, ALL, 2, MINE).type, P9_LOCK_UNLCK,
	   "and nothing is in the way");
	close(fd);
	door_close();
}

static void (*const tests[])(void) = {
	test_ranges,   test_lies,        test_rights,        test_wait,
	test_deadlock, test_crowd,       test_clunk,         test_clunk_waiting,
	test_versions, test_guest_locks, test_version_waits,
};

int main(void)
{
	unsigned fds;

	door_set_up("t_p9_lock");
	host_write("f", "0123456789", 10);
	need(!mkdirat(door.dir, "d", 0755));
	fds = host_descriptors();
	for (unsigned i = 0; i < 2; i++) {
		setenv("WHERRY_ENGINE", i ? "epoll" : "uring", 1);
		for (unsigned k = 0; k < ARRAY_LEN(tests); k++)
			tests[k]();
		test_end(true);
		test_end(false);
	}
	is(host_descriptors(), fds, "nothing is left open");
	door_tear_down();
	return done();
}
