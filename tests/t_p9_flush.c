// SPDX-License-Identifier: Apache-2.0
/*
 * t_p9_flush.c - Tflush, and what else meets requests in flight: answers come in the order that tags need.
 *
 * What is in flight here are locks that wait, fsyncs, and reads and writes that the engine does. Several messages are sent
 * in one turn of the loop, so that nothing can be done between two of them. On both engines. Hard cases E2, E14, E15.
 */
#include "p9_door.h"

enum { F = 10, G, SLOW };
#define ALL (uint64_t)0, (uint64_t)0

struct batch {
	struct sent *s[16];
	unsigned n;
};

static struct sent *add(struct batch *b, struct sent *s)
{
	need(b->n < ARRAY_LEN(b->s));
	return b->s[b->n++] = s;
}

static void serve_batch(void *arg)
{
	struct batch *b = arg;

	for (unsigned i = 0; i < b->n; i++)
		sent_serve(b->s[i]);
}

static void send_batch(struct batch *b)
{
	loop_call(door.io, serve_batch, b);
}

/* All are answered; the errors are the test's to see. */
static void judge_batch(struct batch *b, int *results)
{
	for (unsigned i = 0; i < b->n; i++)
		results[i] = sent_judge(b->s[i]);
}

static void free_batch(struct batch *b)
{
	for (unsigned i = 0; i < b->n; i++)
		sent_free(b->s[i]);
	b->n = 0;
}

/* In the order that they are given in. */
static bool in_order(const struct batch *b, const char *order)
{
	unsigned last = 0;

	for (; *order; order++) {
		const unsigned nth = b->s[*order - '0']->nth;

		if (nth <= last)
			return false;
		last = nth;
	}
	return true;
}

static struct sent *flush_of(uint16_t tag)
{
	return sent_make(P9_TFLUSH, 0, "2", (unsigned)tag);
}

/* One that waits: process 1 has it all. */
static struct sent *lock_of(uint32_t process)
{
	return sent_make(P9_TLOCK, 1, "414884s", G, (unsigned)P9_LOCK_WRLCK,
			 (unsigned)P9_LOCK_BLOCK, ALL, process, "me");
}

static struct sent *fsync_of(void)
{
	return sent_make(P9_TFSYNC, 0, "44", F, 0u);
}

static int lock_now(unsigned type, uint32_t process)
{
	uint8_t status;
	int r = ask(P9_TLOCK, &status, 1, "414884s", F, type, 0u, ALL, process, "me");

	return r < 0 ? r : status;
}

static void open_up(void)
{
	door_open_share(PLAIN_9P, (struct share_config){.locks = SHARE_LOCKS_HOST});
	session();
	open_at(F, "f", O_RDWR);
	open_at(G, "f", O_RDWR);
	open_at(SLOW, "f", O_RDWR);
	make_slow(SLOW);
	need(lock_now(P9_LOCK_WRLCK, 1) == P9_LOCK_SUCCESS);
}

/* ---- what is not in flight ---- */

static void test_nothing(void)
{
	struct sent *s;
	uint16_t tag;

	open_up();
	is(tell(P9_TFLUSH, "2", 12345u), 0, "a flush of nothing is answered");
	is(tell(P9_TFLUSH, "2", (unsigned)NO_TAG), 0, "of no tag too");
	need(!tell(P9_TCLUNK, "4", F));
	tag = door.tag;
	is(tell(P9_TFLUSH, "2", (unsigned)tag), 0, "and of what is done");
	s = flush_of((uint16_t)(door.tag + 1));
	is(s->tag, door.tag, "one that flushes itself");
	is(sent_finish(sent_send(s), NULL, 0), 0, "is answered");
	is(held().inflight, 0, "nothing is in flight");
	is(ask_walk(ROOT, F, "f", NULL), 1, "what was done stays done");
	door_close();
}

/* ---- what is ---- */

static void test_lock(void)
{
	struct batch b = {0};
	int r[2];

	open_up();
	add(&b, lock_of(2));
	add(&b, flush_of(door.tag));
	send_batch(&b);
	judge_batch(&b, r);
	is(r[0], -EINTR, "a lock that is flushed is not waited for any more");
	is(r[1], 0, "and its flush is answered");
	ok(in_order(&b, "01"), "after it");
	free_batch(&b);
	is(lock_now(P9_LOCK_UNLCK, 1), P9_LOCK_SUCCESS, "the other lets go");
	is(lock_now(P9_LOCK_WRLCK, 3), P9_LOCK_SUCCESS, "and a third has it");
	door_close();
}

static void test_fsync(void)
{
	struct batch b = {0};
	int r[2];

	open_up();
	add(&b, fsync_of());
	add(&b, flush_of(door.tag));
	send_batch(&b);
	judge_batch(&b, r);
	is(r[0], 0, "what cannot be stopped is done");
	is(r[1], 0, "its flush is answered");
	ok(in_order(&b, "01"), "after it");
	free_batch(&b);
	door_close();
}

/* A flush is flushed with its victim; who flushed first is answered first, as the last answer stands for all (E14). */
static void test_twice(void)
{
	struct batch b = {0};
	uint16_t victim, first;
	int r[7];

	open_up();
	add(&b, lock_of(2));
	victim = door.tag;
	add(&b, flush_of(victim));
	first = door.tag;
	add(&b, flush_of(victim));
	add(&b, flush_of(first));
	add(&b, flush_of(first));
	add(&b, flush_of(victim));
	add(&b, flush_of(door.tag));
	send_batch(&b);
	judge_batch(&b, r);
	is(r[0], -EINTR, "a lock is flushed many times");
	ok(!r[1] && !r[2] && !r[3] && !r[4] && !r[5] && !r[6], "every flush is answered");
	ok(in_order(&b, "0125"), "in the order that they came");
	ok(in_order(&b, "0134"), "and who flushed a flush after it");
	ok(in_order(&b, "056"), "also after the last");
	is(held().inflight, 0, "nothing is in flight");
	free_batch(&b);
	door_close();
}

/* The victim of a flush may be answered by others: the flush is still in its place. */
static void test_others_done(void)
{
	struct sent *lock, *flush;
	struct batch b = {0};
	int r[3];

	open_up();
	lock = add(&b, lock_of(2));
	add(&b, fsync_of());
	flush = add(&b, flush_of(door.tag));
	send_batch(&b);
	is(sent_judge(flush), 0, "the flush of one");
	ok(!sent_answered(lock), "is not that of another");
	is(lock_now(P9_LOCK_UNLCK, 1), P9_LOCK_SUCCESS, "which has its turn");
	is(sent_judge(lock), 1, "later");
	sem_post(&flush->replied);
	sem_post(&lock->replied);
	judge_batch(&b, r);
	is(r[1], 0, "and all are done");
	free_batch(&b);
	door_close();
}

/* ---- data ---- */

static void test_read(void)
{
	struct batch b = {0};
	int r[3];

	open_up();
	add(&b, sent_make(P9_TREAD, 14, "484", SLOW, (uint64_t)2, 10u));
	add(&b, flush_of(door.tag));
	add(&b, sent_make(P9_TREAD, 5, "484", SLOW, (uint64_t)0, UINT32_MAX));
	send_batch(&b);
	judge_batch(&b, r);
	is(r[0], 4 + 8, "a read that was flushed and is done has its data");
	ok(!memcmp(b.s[0]->wr + P9_SHORT, "23456789", 8), "which is right");
	ok(in_order(&b, "01"), "before the answer to the flush");
	is(r[2], 5, "a slow one fills what room it has");
	is(b.s[2]->wr[P9_SHORT], '0', "with data");
	free_batch(&b);
	is(ask_write(SLOW, 100, "abc", 3), 3, "a slow write is told");
	is(host_stat("f").st_size, 103, "and done");
	host_write("f", "0123456789", 10);
	door_close();
}

/* The number goes at once, the file when nothing is on it. */
static void test_clunk(void)
{
	struct batch b = {0};
	int r[5];

	open_up();
	add(&b, sent_make(P9_TREAD, 14, "484", SLOW, (uint64_t)0, 10u));
	add(&b, sent_make(P9_TCLUNK, 0, "4", SLOW));
	add(&b, sent_make(P9_TWALK, 15, "442s", ROOT, SLOW, 1u, "d"));
	add(&b, sent_make(P9_TFSYNC, 0, "4", F));
	add(&b, sent_make(P9_TREMOVE, 0, "4", F));
	send_batch(&b);
	judge_batch(&b, r);
	is(r[0], 14, "a read is done whose fid was let go of meanwhile");
	ok(!memcmp(b.s[0]->wr + P9_SHORT, "0123456789", 10), "as it should be");
	is(r[1], 0, "and the fid is gone");
	is(r[2], 15, "and another");
	is(r[3], 0, "an fsync too");
	is(r[4], 0, "of a file that is gone meanwhile");
	free_batch(&b);
	is(ask_clunk(G), 0, "what else there is");
	is(ask_clunk(SLOW), 0, "is let go of");
	ok(held_only(1), "and nothing is held");
	host_write("f", "0123456789", 10);
	door_close();
}

/* ---- sessions ---- */

static void test_version(void)
{
	struct batch b = {0};
	int r[5];

	open_up();
	add(&b, lock_of(2));
	add(&b, flush_of(door.tag));
	add(&b, fsync_of());
	add(&b, sent_make(P9_TREAD, 14, "484", SLOW, (uint64_t)0, 10u));
	add(&b, sent_make(P9_TVERSION, 14, "4s", 8192u, "9P2000.L"));
	send_batch(&b);
	judge_batch(&b, r);
	ok(r[0] == -EINTR && !r[1] && !r[2] && r[3] == 14, "all of a session is answered");
	is(r[4], 14, "then the next begins");
	ok(in_order(&b, "014") && in_order(&b, "24") && in_order(&b, "34"), "and no sooner");
	free_batch(&b);
	ok(held_only(0), "with nothing");
	door_close();
}

/* What is between two sessions is flushed too, and the beginning of one: then it does not begin. */
static void test_between(void)
{
	struct batch b = {0};
	uint16_t sync;
	int r[6];

	open_up();
	add(&b, fsync_of());
	sync = door.tag;
	add(&b, lock_of(2));
	add(&b, sent_make(P9_TVERSION, 14, "4s", 8192u, "9P2000.L"));
	add(&b, flush_of(sync));
	add(&b, flush_of(b.s[2]->tag));
	add(&b, flush_of(12345));
	send_batch(&b);
	judge_batch(&b, r);
	ok(!r[0] && r[1] == -EINTR, "all of a session is answered");
	is(r[2], -EINTR, "the next was flushed before it began");
	ok(!r[3] && !r[4] && !r[5], "each flush is answered, and by no error");
	ok(in_order(&b, "03") && in_order(&b, "24"), "after what it flushed");
	free_batch(&b);
	is(ask_clunk(F), -EIO, "there is no session");
	is(tell(P9_TFLUSH, "2", 12345u), 0, "in which a flush is answered all the same");
	session();
	is(ask_walk(ROOT, F, "f", NULL), 1, "until there is");
	door_close();
}

/* The device is reset: the thread goes on until all is done. */
static void test_reset(void)
{
	struct batch b = {0};
	int r[5];

	open_up();
	add(&b, lock_of(2));
	add(&b, flush_of(door.tag));
	add(&b, fsync_of());
	add(&b, sent_make(P9_TREAD, 14, "484", SLOW, (uint64_t)0, 10u));
	add(&b, sent_make(P9_TVERSION, 14, "4s", 8192u, "9P2000.L"));
	send_batch(&b);
	door_close();
	judge_batch(&b, r);
	ok(r[0] == -EINTR && !r[1] && !r[2] && r[3] == 14, "what is in flight at the end ends");
	ok(r[4] == -EIO || r[4] == 14, "a session that was to begin has or has not");
	free_batch(&b);
}

/* Two requests of one tag are the guest's own fault: both are answered, and so is who flushes it. */
static void test_same_tag(void)
{
	struct batch b = {0};
	int r[4];

	open_up();
	add(&b, lock_of(2));
	door.tag--;
	add(&b, lock_of(3));
	add(&b, flush_of(door.tag));
	send_batch(&b);
	is(sent_judge(b.s[2]), 0, "one flush");
	ok(sent_answered(b.s[0]) + sent_answered(b.s[1]) == 1, "is of one of the two");
	sem_post(&b.s[2]->replied);
	add(&b, flush_of(b.s[0]->tag));
	sent_send(b.s[3]);
	judge_batch(&b, r);
	ok(r[0] == -EINTR && r[1] == -EINTR && !r[3], "and another of the other");
	free_batch(&b);
	door_close();
}

/* As a guest kills those who wait: over and over, and tags are used again as soon as they are free (E15). */
static void test_storm(void)
{
	unsigned good = 0, fds;

	open_up();
	fds = host_descriptors();
	for (unsigned i = 0; i < 1000; i++) {
		struct batch b = {0};
		int r[4];

		door.tag = (uint16_t)(i & 1);
		add(&b, i % 3 ? lock_of(2 + i % 5) : fsync_of());
		add(&b, sent_make(P9_TREAD, 14, "484", SLOW, (uint64_t)0, 10u));
		add(&b, flush_of(b.s[i & 1]->tag));
		add(&b, flush_of(b.s[~i & 1]->tag));
		send_batch(&b);
		judge_batch(&b, r);
		good += r[0] == (i % 3 ? -EINTR : 0) && r[1] == 14 && !r[2] && !r[3];
		free_batch(&b);
	}
	is(good, 1000, "a thousand times two are flushed, and all are answered");
	is(held().inflight, 0, "nothing is in flight");
	is(host_descriptors(), fds, "and nothing left open");
	door_close();
}

static void (*const tests[])(void) = {
	test_nothing, test_lock,  test_fsync,   test_twice, test_others_done, test_read,
	test_clunk,   test_reset, test_version, test_storm, test_same_tag,    test_between,
};

int main(void)
{
	unsigned fds;

	door_set_up("t_p9_flush");
	host_write("f", "0123456789", 10);
	need(!mkdirat(door.dir, "d", 0755));
	fds = host_descriptors();
	for (unsigned i = 0; i < 2; i++) {
		setenv("WHERRY_ENGINE", i ? "epoll" : "uring", 1);
		for (unsigned k = 0; k < ARRAY_LEN(tests); k++)
			tests[k]();
	}
	is(host_descriptors(), fds, "nothing is left open");
	door_tear_down();
	return done();
}
