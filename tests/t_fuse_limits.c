// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_limits.c - what a guest can make grow, and where that ends: descriptors of syncs.
 *
 * Hard case D55.
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

int main(void)
{
	door_set_up("t_fuse_limits");
	test_syncs();
	door_tear_down();
	return done();
}
