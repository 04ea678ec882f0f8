// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_limits.c - what a guest can make grow, and where that ends: descriptors of syncs, ranges that are locked, bytes of
 * one answer.
 *
 * Hard cases D50, D55, A26.
 */
#include "fuse_door.h"

#define SYNCS  100
#define BUDGET 24

/* ---- syncs ---- */

static struct sent *syncs[SYNCS];
static sem_t begun, looked;

/* In one go: none of them can end before all have begun. */
static void sync_all(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < SYNCS; i++) {
		syncs[i]->req.io = door.io;
		syncs[i]->refused = fuse_serve(door.fuse, &syncs[i]->req);
	}
	sem_post(&begun);
	sem_wait(&looked);
}

static void *sync_carry(void *arg)
{
	loop_call(door.io, sync_all, arg);
	return NULL;
}

/* How many descriptors they hold together while none has been answered. */
static unsigned syncs_hold(void)
{
	unsigned before = host_descriptors(), n;
	pthread_t carrier;

	need(!sem_init(&begun, 0, 0) && !sem_init(&looked, 0, 0));
	need(!pthread_create(&carrier, NULL, sync_carry, NULL));
	need(!sem_wait(&begun));
	n = host_descriptors() - before;
	sem_post(&looked);
	pthread_join(carrier, NULL);
	return n;
}

static void test_syncs(void)
{
	const struct fuse_syncfs_in in = {0};
	struct share_config share = PLAIN;
	unsigned most, good = 0, full = 0;

	share.fd_budget = BUDGET;
	door_open_share(BY_MODE, share);
	session();
	for (unsigned i = 0; i < SYNCS; i++)
		syncs[i] = sent_make(FUSE_SYNCFS, ROOT, &in, sizeof(in), NULL, 0, 0);
	most = syncs_hold();
	for (unsigned i = 0; i < SYNCS; i++) {
		int r = sent_finish(syncs[i], NULL, 0);

		good += !r;
		full += r == -ENFILE;
	}
	ok(most <= BUDGET, "%u syncs at once hold no more descriptors than the budget has: %u",
	   SYNCS, most);
	is(good + full, SYNCS, "those that find none left are told so");
	ok(good, "the others are done");
	is(ask(FUSE_SYNCFS, ROOT, &in, sizeof(in), NULL, 0), 0, "and later ones too");
	ok(!door.share->nsyncs, "nothing of them is counted in the end");
	door_close();
}

/* ---- locks ---- */

#define RANGES 32768u
#define FILES  32u /* the host looks at all that are locked in one */

static struct {
	uint64_t f, fh;
} files[FILES];

static void files_open(void)
{
	char name[16];

	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		host_write(name, "x", 1);
		files[i].f = find(ROOT, name);
		files[i].fh = open_file(files[i].f, O_RDWR);
	}
}

static int lock_byte(unsigned nth, uint64_t owner, uint32_t type, uint64_t at)
{
	const struct fuse_lk_in in = {.fh = files[nth % FILES].fh,
				      .owner = owner,
				      .lk = {.start = at, .end = at, .type = type}};

	return ask(FUSE_SETLK, files[nth % FILES].f, &in, sizeof(in), NULL, 0);
}

static int unlock_all(unsigned nth, uint64_t owner)
{
	const struct fuse_flush_in in = {.fh = files[nth].fh, .lock_owner = owner};

	return ask(FUSE_FLUSH, files[nth].f, &in, sizeof(in), NULL, 0);
}

static void test_locks(void)
{
	struct share_config share = PLAIN;
	unsigned i, wrong = 0;

	share.locks = SHARE_LOCKS_HOST;
	door_open_share(BY_MODE, share);
	session();
	files_open();
	need(!lock_byte(0, 1, F_RDLCK, 1));
	for (i = 0; i < RANGES; i++) {
		wrong += lock_byte(0, 1, F_WRLCK, 10 + i % 2) != 0;
		wrong += lock_byte(0, 1, F_UNLCK, 10 + i % 2) != 0;
	}
	is(wrong, 0, "a range may be locked and let go any number of times");
	for (i = 0; i < 2 * RANGES && !lock_byte(i, 2, F_WRLCK, 4 * RANGES - 2 * i); i++)
		;
	ok(i > RANGES - RANGES / 8 && i <= RANGES, "as many as there may be can be held: %u", i);
	is(lock_byte(0, 3, F_WRLCK, 3), -ENOLCK, "beyond that there is none for anybody");
	is(lock_byte(0, 2, F_WRLCK, 9 * RANGES), -ENOLCK, "nor by trying again");
	is(unlock_all(5, 2), 0, "who closes a file gives his up");
	is(lock_byte(0, 3, F_WRLCK, 3), 0, "for others to take");
	door_close();
	host_clear(door.dir);
}

/* ---- one answer ---- */

#define COPIES 64

/* Room of many times the same memory, as descriptors of a ring may be. */
static uint32_t answered(uint32_t opcode, uint64_t node, uint64_t fh)
{
	static uint8_t same[MIB(1)];
	const struct fuse_read_in in = {.fh = fh, .size = UINT32_MAX};
	struct sent *s = sent_make(opcode, node, &in, sizeof(in), NULL, 0, 0);
	struct iovec iov[COPIES + 1] = {s->iov[1]};
	uint32_t used;

	for (unsigned i = 1; i <= COPIES; i++)
		iov[i] = (struct iovec){same, sizeof(same)};
	s->req.wr = iov;
	s->req.nwr = COPIES + 1;
	sent_send(s);
	need(!s->refused);
	while (sem_wait(&s->replied) && errno == EINTR)
		;
	used = s->used;
	sent_free(s);
	return used - HDR_OUT;
}

static void test_answers(void)
{
	uint64_t f;
	int fd;

	door_open(BY_MODE, false);
	session();
	host_write("f", "x", 1);
	fd = openat(door.dir, "f", O_WRONLY | O_CLOEXEC);
	need(fd >= 0 && !ftruncate(fd, MIB(1) * COPIES));
	close(fd);
	for (unsigned i = 0; i < 4000; i++) {
		char name[256];

		memset(name, 'n', 250);
		snprintf(name + 240, sizeof(name) - 240, "%u", i);
		need(!mknodat(door.dir, name, S_IFREG | 0600, 0));
	}
	f = find(ROOT, "f");
	is(answered(FUSE_READ, f, open_file(f, O_RDONLY)), DOOR_IO,
	   "a read brings no more than was agreed on, whatever room it has");
	ok(answered(FUSE_READDIRPLUS, ROOT, open_dir(ROOT)) <= DOOR_IO, "nor does a listing");
	ok(held().nodes < 4000, "which makes no more known than it tells");
	door_close();
	host_clear(door.dir);
}

int main(void)
{
	door_set_up("t_fuse_limits");
	test_syncs();
	test_locks();
	test_answers();
	door_tear_down();
	return done();
}
