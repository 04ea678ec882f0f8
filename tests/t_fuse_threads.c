// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_threads.c - one session served by several threads at once: each client has a thread of the server to itself and
 * all work in one tree, on the same nodes and files.
 *
 * What each is told is checked as if it were alone; what is left in the end is nothing. The thread sanitizer sees the
 * rest. Hard cases D9, D10, D29, D68, D72, A18.
 */
#include "fuse_door.h"
#include <pthread.h>

#define CLIENTS DOOR_THREADS
#define ROUNDS  60
#define SHARED  8

static bool chaos; /* sessions end at any time: any answer will do */
static bool untold;

struct client {
	unsigned nth;
	pthread_t thread;
	unsigned wrong;
};

#define expect(c, cond)                                                                     \
	do {                                                                                \
		if (!(cond) && !__atomic_load_n(&chaos, __ATOMIC_RELAXED) && !(c)->wrong++) \
			printf("# client %u: %s\n", (c)->nth, #cond);                       \
	} while (0)

/* ---- what a client does ---- */

static uint64_t client_open(uint64_t node, uint32_t flags)
{
	struct fuse_open_out o = {0};
	int r = untold ? 0 : ask_open_as(FUSE_OPEN, node, flags, &o);

	return r < 0 ? 0 : o.fh;
}

static void client_close(uint64_t node, uint64_t fh)
{
	const struct fuse_release_in in = {.fh = fh};
	int r = ask(FUSE_RELEASE, node, &in, sizeof(in), NULL, 0);

	(void)r;
}

/* A file of its own, from birth to death. */
static void own_file(struct client *c, unsigned round)
{
	char name[32], data[64], back[64];
	struct fuse_entry_out e = {0};
	uint64_t fh = 0;
	int n;

	snprintf(name, sizeof(name), "own-%u-%u", c->nth, round);
	n = snprintf(data, sizeof(data), "%s of client %u", name, c->nth) + 1;
	expect(c, ask_create(ROOT, name, 0, &e, &fh) == 0);
	expect(c, ask_write(e.nodeid, fh, 0, data, (uint32_t)n) == n);
	if (round % 8 == 0)
		expect(c, ask(FUSE_FSYNC, e.nodeid, &(struct fuse_fsync_in){.fh = fh}, 16, NULL,
			      0) == 0);
	expect(c, ask_read(FUSE_READ, e.nodeid, fh, 0, back, sizeof(back)) == n);
	expect(c, !memcmp(data, back, (size_t)n));
	expect(c, ask(FUSE_UNLINK, ROOT, name, strlen(name) + 1, NULL, 0) == 0);
	expect(c, ask_read(FUSE_READ, e.nodeid, fh, 0, back, sizeof(back)) == n);
	client_close(e.nodeid, fh);
	if (e.nodeid)
		forget(e.nodeid, 1);
}

/* The same few files as everybody: found, read, forgotten. */
static void shared_file(struct client *c, unsigned round)
{
	struct fuse_entry_out e = {0};
	struct fuse_attr a = {0};
	char name[16], buf[4096];
	uint64_t fh;

	snprintf(name, sizeof(name), "s%u", (round + c->nth) % SHARED);
	expect(c, ask_lookup(ROOT, name, &e) == sizeof(e));
	expect(c, ask_attr(e.nodeid, &a) == 0 && a.size == 4096);
	fh = client_open(e.nodeid, O_RDWR);
	expect(c, ask_read(FUSE_READ, e.nodeid, fh, 0, buf, sizeof(buf)) == sizeof(buf));
	expect(c, buf[0] == buf[4095]);
	/* Everybody writes the same. */
	expect(c, ask_write(e.nodeid, fh, 100, buf, 1000) == 1000);
	client_close(e.nodeid, fh);
	if (e.nodeid)
		forget(e.nodeid, 1);
}

/* All that is there, with a lookup of each. */
static void listing(struct client *c)
{
	static _Thread_local uint8_t buf[16384];
	struct fuse_open_out o = {0};
	unsigned seen = 0;
	uint64_t off = 0;
	int len;

	if (!untold)
		expect(c, ask_open_as(FUSE_OPENDIR, ROOT, 0, &o) == sizeof(o));
	while ((len = ask_read(FUSE_READDIRPLUS, ROOT, o.fh, off, buf, sizeof(buf))) > 0) {
		for (int at = 0; at < len;) {
			const struct fuse_direntplus *d = (const void *)(buf + at);

			off = d->dirent.off;
			at += (int)FUSE_DIRENTPLUS_SIZE(d);
			seen += d->dirent.name[0] == 's';
			if (d->entry_out.nodeid)
				forget(d->entry_out.nodeid, 1);
		}
	}
	expect(c, len == 0 && seen == SHARED);
	client_close(ROOT, o.fh);
}

static void *client_run(void *arg)
{
	struct client *c = arg;

	door_via = door.threads[c->nth];
	for (unsigned i = 0; i < ROUNDS; i++) {
		own_file(c, i);
		shared_file(c, i);
		if (i % 8 == c->nth)
			listing(c);
	}
	return NULL;
}

/* ---- all together ---- */

static unsigned everybody(void)
{
	struct client c[CLIENTS] = {{0}};
	unsigned wrong = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		c[i].nth = i;
		need(!pthread_create(&c[i].thread, NULL, client_run, &c[i]));
	}
	for (unsigned i = 0; i < 40 && __atomic_load_n(&chaos, __ATOMIC_RELAXED); i++)
		session_of(45, untold ? UINT64_MAX : TELLS);
	for (unsigned i = 0; i < CLIENTS; i++) {
		pthread_join(c[i].thread, NULL);
		wrong += c[i].wrong;
	}
	return wrong;
}

static void shared_make(void)
{
	char name[16], data[4096];

	for (unsigned i = 0; i < SHARED; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		memset(data, 'a' + (int)i, sizeof(data));
		host_write(name, data, sizeof(data));
	}
}

static void test_work(int mode, struct share_config share, const char *what)
{
	untold = mode == FUSE_CACHE_ALWAYS && share_owner_passes();
	if (mode == FUSE_CACHE_ALWAYS && !untold) {
		skip("not root, or without other ids", "%s", what);
		return;
	}
	shared_make();
	door.nthreads = CLIENTS;
	door_open_share(IN_MODE(mode), share);
	session_of(45, untold ? UINT64_MAX : TELLS);
	is(everybody(), 0, "%s: all that clients are told is right", what);
	ok(!held().nodes && !held().handles, "%s: they have given all back", what);
	session_of(45, TELLS);
	ok(nothing_held(), "%s: and nothing is kept", what);
	__atomic_store_n(&chaos, true, __ATOMIC_RELAXED);
	session_of(45, untold ? UINT64_MAX : TELLS);
	everybody();
	__atomic_store_n(&chaos, false, __ATOMIC_RELAXED);
	session_of(45, TELLS);
	ok(nothing_held(), "%s: nor when sessions end under them", what);
	door_close();
	host_clear(door.dir);
}

int main(void)
{
	unsigned fds;

	door_set_up("t_fuse_threads");
	fds = host_descriptors();
	test_work(FUSE_CACHE_AUTO, PLAIN, "auto");
	test_work(FUSE_CACHE_ALWAYS, PLAIN, "without opening");
	setenv("WHERRY_ENGINE", "epoll", 1);
	test_work(FUSE_CACHE_NEVER, PLAIN, "never, by epoll");
	is(host_descriptors(), fds, "nothing is left open");
	door_tear_down();
	return done();
}
