// SPDX-License-Identifier: Apache-2.0
/*
 * t_p9_siege.c - a client without manners: messages of every type on any fid, spoiled in every way, dozens in flight, while
 * sessions and devices end under them.
 *
 * No answer is expected but one, in the form that p9_door.h checks, and never longer than the server's most; what is left in
 * the end is nothing, and beside the share nothing has changed. The sanitizers see the rest. Hard cases A16, A18, E5, E13,
 * E14, E15, E29.
 */
#include "p9_guess.h"
#include <time.h>

#define PARKED   48
#define FOR_NS   700000000ull
#define MSIZE    8192u
#define A_LITTLE 300 /* bytes of chance for a message */

static uint64_t state;
static struct sent *parked[PARKED];
static unsigned nparked;

static uint32_t dice(uint32_t n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % n;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void unpark(unsigned i)
{
	sent_judge(parked[i]);
	sent_free(parked[i]);
	parked[i] = parked[--nparked];
}

static void unpark_all(void)
{
	while (nparked)
		unpark(nparked - 1);
}

/* Those that are answered, whichever. */
static void unpark_some(void)
{
	for (unsigned i = nparked; i--;)
		if (parked[i]->refused || sent_answered(parked[i]))
			unpark(i);
}

static struct sent *a_message(void)
{
	uint8_t bytes[A_LITTLE];
	struct input in = {bytes, sizeof(bytes)};

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)dice(256);
	/* Few types and few spoils are the interesting ones. */
	if (dice(4))
		bytes[1] = (uint8_t)(dice(2) ? 0 : 1u << dice(8));
	if (bytes[0] % ARRAY_LEN(guess_shapes) == 19 && dice(40))
		bytes[0]++; /* another session ends all there is */
	return guess(&in);
}

/* Several in one turn of the loop. */
static void serve_some(void *arg)
{
	const unsigned n = *(unsigned *)arg;

	for (unsigned i = nparked - n; i < nparked; i++)
		sent_serve(parked[i]);
}

static void send_some(void)
{
	unsigned n = 1 + dice(6);

	if (nparked + n > PARKED)
		unpark_some();
	if (nparked + n > PARKED)
		unpark(dice(nparked));
	n = MIN(n, PARKED - nparked);
	for (unsigned i = 0; i < n; i++)
		parked[nparked++] = a_message();
	loop_call(door.io, serve_some, &n);
}

/* Where there is no file any more nothing is slow. */
static void slow_if_open(void *arg)
{
	struct p9_fid *fid = p9_fid_find(door.p9, 2);

	(void)arg;
	if (!fid || !fid->file)
		return;
	fid->file->io.no_nowait_read = fid->file->io.no_nowait_write = true;
	fid->file->io.read_pace.away = fid->file->io.write_pace.away = IO_PACE_NEVER;
}

static void begin(void)
{
	guess_session(MSIZE);
	loop_call(door.io, slow_if_open, NULL);
	door.msize = MSIZE; /* the server's most, whatever is agreed on */
}

static void tree_make(void)
{
	host_write("f", "contents of a file", 18);
	need(!mkdirat(door.dir, "d", 0755));
	host_write("d/g", "", 0);
	need(!symlinkat("../away", door.dir, "s"));
	need(!mkfifoat(door.dir, "p", 0600));
}

static void siege(struct share_config share, uint64_t seed, const char *what)
{
	const struct p9_config cfg = {.msize_max = MSIZE};
	const unsigned fds = host_descriptors();
	const uint64_t until = now() + FOR_NS;
	unsigned rounds = 0;

	state = seed;
	tree_make();
	door_open_share(cfg, share);
	begin();
	for (; now() < until; rounds++) {
		send_some();
		if (dice(300))
			continue;
		if (dice(2))
			loop_call(door.io, door_end, NULL);
		unpark_all();
		begin();
	}
	loop_call(door.io, door_end, NULL);
	unpark_all();
	ok(rounds > 50, "%s: it went on for a while", what);
	ok(held_only(0), "%s: nothing is held in the end", what);
	/* And once more with all of it out. */
	begin();
	for (unsigned i = 0; i < 20; i++)
		send_some();
	door_close();
	unpark_all();
	is(host_descriptors(), fds, "%s: nor open", what);
	need(!fchmod(door.dir, 0700)); /* whatever it is by now */
	host_clear(door.dir);
}

int main(void)
{
	struct share_config locks = PLAIN, small = PLAIN, mapped = PLAIN, ro = PLAIN;
	const char *name;

	locks.locks = SHARE_LOCKS_HOST;
	small.fd_budget = 24;
	small.locks = SHARE_LOCKS_HOST;
	mapped.owner = SHARE_OWNER_MAPPED;
	ro.readonly = true;
	door_set_up("t_p9_siege");
	for (unsigned i = 0; i < 2; i++) {
		name = i ? "epoll" : "uring";
		setenv("WHERRY_ENGINE", name, 1);
		printf("# %s\n", name);
		siege(locks, 1 + i, "locks");
		siege(small, 3 + i, "few descriptors");
		siege(mapped, 5 + i, "mapped");
		siege(ro, 7 + i, "read-only");
	}
	door_tear_down();
	return done();
}
