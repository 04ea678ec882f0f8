// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_siege.c - several clients without manners at one session: any operation on any object and any handle that
 * anybody was ever told of, while others forget, close, lock, map, interrupt and begin the session anew.
 *
 * No answer is expected but one, in the form that fuse_door.h checks; what is left in the end is nothing. The sanitizers
 * see the rest. Hard cases D9, D10, D29, D50, D67, A16, A18.
 */
#include "fakeguest.h"
#include "fuse_door.h"
#include "../devices/dax.h"
#include "../vmm/window.h"
#include <pthread.h>

#define CLIENTS DOOR_THREADS
#define ROUNDS  4000
#define KNOWN   12
#define PARKED  32
#define SIZE    MIB(8)

/* What anybody was told, for everybody: atomic words. */
static uint64_t nodes[KNOWN], handles[KNOWN], opened[KNOWN]; /* opened: the node of the handle */
static uint64_t uniques[KNOWN];
static struct window *win;
static bool untold;

struct client {
	unsigned nth;
	uint64_t state;
	pthread_t thread;
	struct sent *parked[PARKED];
	unsigned nparked;
};

static uint32_t dice(struct client *c, uint32_t n)
{
	c->state = c->state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(c->state >> 33) % n;
}

static uint64_t pick(struct client *c, uint64_t *from)
{
	return __atomic_load_n(&from[dice(c, KNOWN)], __ATOMIC_RELAXED);
}

static void tell(struct client *c, uint64_t *to, uint64_t value)
{
	__atomic_store_n(&to[dice(c, KNOWN)], value, __ATOMIC_RELAXED);
}

static void tell_handle(struct client *c, uint64_t node, uint64_t fh)
{
	const unsigned i = dice(c, KNOWN);

	__atomic_store_n(&opened[i], node, __ATOMIC_RELAXED);
	__atomic_store_n(&handles[i], fh, __ATOMIC_RELAXED);
}

/* One that is open on the node, mostly; where nothing is opened any node will do. */
static uint64_t a_handle(struct client *c, uint64_t *node)
{
	const unsigned i = dice(c, KNOWN);

	if (!untold && dice(c, 16))
		*node = __atomic_load_n(&opened[i], __ATOMIC_RELAXED);
	return __atomic_load_n(&handles[i], __ATOMIC_RELAXED);
}

static uint64_t a_node(struct client *c)
{
	uint64_t n = pick(c, nodes);

	return n && dice(c, 4) ? n : ROOT;
}

static const char *a_name(struct client *c)
{
	static const char *const names[] = {"a", "b", "c", "d", "e", "f", "dir", "dir2"};

	return names[dice(c, ARRAY_LEN(names))];
}

static int ask_name(struct client *c, uint32_t op, const void *arg, size_t n)
{
	const char *name = a_name(c);
	uint8_t out[512];
	int r = ask2(op, a_node(c), arg, n, name, strlen(name) + 1, out, sizeof(out));
	struct fuse_entry_out e;

	if (r >= (int)sizeof(e)) {
		memcpy(&e, out, sizeof(e));
		tell(c, nodes, e.nodeid);
	}
	if (r == (int)(sizeof(e) + sizeof(struct fuse_open_out))) {
		struct fuse_open_out o;

		memcpy(&o, out + sizeof(e), sizeof(o));
		tell_handle(c, e.nodeid, o.fh);
	}
	return r;
}

static void make(struct client *c)
{
	switch (dice(c, 8)) {
	case 0:
		ask_name(c, FUSE_MKDIR, &(struct fuse_mkdir_in){.mode = 0755},
			 sizeof(struct fuse_mkdir_in));
		return;
	case 1:
		ask_name(c, FUSE_MKNOD, &(struct fuse_mknod_in){.mode = S_IFIFO | 0644},
			 sizeof(struct fuse_mknod_in));
		return;
	case 2:
		ask_name(c, FUSE_UNLINK, NULL, 0);
		return;
	case 3:
		ask_name(c, FUSE_RMDIR, NULL, 0);
		return;
	case 4:
		ask_name(c, FUSE_LINK, &(struct fuse_link_in){a_node(c)},
			 sizeof(struct fuse_link_in));
		return;
	case 5: {
		const char *to = a_name(c);
		struct fuse_rename2_in in = {.newdir = a_node(c), .flags = dice(c, 4)};
		char both[64];
		int n = snprintf(both, sizeof(both), "%s%c%s", a_name(c), 0, to);

		ask2(FUSE_RENAME2, a_node(c), &in, sizeof(in), both, (size_t)n + 1, NULL, 0);
		return;
	}
	case 6:
		ask_name(c, FUSE_TMPFILE,
			 &(struct fuse_create_in){.flags = O_RDWR, .mode = S_IFREG | 0600},
			 sizeof(struct fuse_create_in));
		return;
	default:
		ask_name(c, FUSE_CREATE,
			 &(struct fuse_create_in){.flags = O_RDWR | O_CREAT,
						  .mode = S_IFREG | 06755},
			 sizeof(struct fuse_create_in));
	}
}

static void data(struct client *c)
{
	uint64_t node = a_node(c), fh = a_handle(c, &node), to = a_node(c), to_fh;
	static _Thread_local uint8_t buf[70000];

	switch (dice(c, 9)) {
	case 0:
	case 1:
		ask_read(FUSE_READ, node, fh, dice(c, 100000), buf, dice(c, sizeof(buf)));
		return;
	case 2: {
		uint32_t n = dice(c, sizeof(buf));
		const struct fuse_write_in in = {
			.fh = fh, .offset = dice(c, 100000), .size = n, .write_flags = dice(c, 8)};
		struct fuse_write_out o;

		ask2(FUSE_WRITE, node, &in, sizeof(in), buf, n, &o, sizeof(o));
		return;
	}
	case 3: {
		const struct fuse_fsync_in in = {.fh = fh};

		ask(dice(c, 2) ? FUSE_FSYNC : FUSE_FSYNCDIR, node, &in, sizeof(in), NULL, 0);
		return;
	}
	case 4: {
		const struct fuse_fallocate_in in = {.fh = fh,
						     .offset = dice(c, 100000),
						     .length = dice(c, 100000),
						     .mode = dice(c, 4)};

		ask(FUSE_FALLOCATE, node, &in, sizeof(in), NULL, 0);
		return;
	}
	case 5: {
		const struct fuse_lseek_in in = {.fh = fh, .whence = 2 + dice(c, 3)};
		struct fuse_lseek_out o;

		ask(FUSE_LSEEK, node, &in, sizeof(in), &o, sizeof(o));
		return;
	}
	case 6: {
		to_fh = a_handle(c, &to);
		const struct fuse_copy_file_range_in in = {.fh_in = fh,
							   .nodeid_out = to,
							   .fh_out = to_fh,
							   .off_out = dice(c, 200000),
							   .len = dice(c, 2) ? 1000 : 1u << 20};
		uint64_t o;

		ask(FUSE_COPY_FILE_RANGE, node, &in, sizeof(in), &o, sizeof(o));
		return;
	}
	case 7:
		ask_read(dice(c, 2) ? FUSE_READDIR : FUSE_READDIRPLUS, node, fh, dice(c, 2), buf,
			 2000);
		return;
	default:
		ask(FUSE_SYNCFS, node, &(struct fuse_syncfs_in){0}, 8, NULL, 0);
	}
}

static void meta(struct client *c)
{
	uint64_t node = a_node(c);
	struct fuse_open_out o;
	uint8_t out[512];

	switch (dice(c, 12)) {
	case 9:
	case 10:
	case 0:
		if (ask_open_as(FUSE_OPEN, node, dice(c, 3), &o) == sizeof(o))
			tell_handle(c, node, o.fh);
		return;
	case 1:
		if (ask_open_as(FUSE_OPENDIR, node, 0, &o) == sizeof(o))
			tell_handle(c, node, o.fh);
		return;
	case 2:
		release(node, pick(c, handles));
		return;
	case 3:
		if (!dice(c, 4))
			forget(node, 1 + dice(c, 3));
		return;
	case 4: {
		const struct fuse_setattr_in in = {.valid = dice(c, 1u << 12),
						   .fh = pick(c, handles),
						   .size = dice(c, 200000),
						   .mode = 0700 | dice(c, 4096)};

		ask(FUSE_SETATTR, node, &in, sizeof(in), out, sizeof(struct fuse_attr_out));
		return;
	}
	case 5: {
		const struct fuse_setxattr_in in = {.size = 3};
		char more[] = "user.x\0abc";

		ask2(FUSE_SETXATTR, node, &in, sizeof(in), more, 10, NULL, 0);
		return;
	}
	case 6: {
		const struct fuse_getxattr_in in = {.size = dice(c, 300)};

		ask(FUSE_LISTXATTR, node, &in, sizeof(in), out, 300);
		return;
	}
	case 7: {
		const struct fuse_flush_in in = {.fh = a_handle(c, &node),
						 .lock_owner = dice(c, 4)};

		ask(FUSE_FLUSH, node, &in, sizeof(in), NULL, 0);
		return;
	}
	default:
		ask_name(c, FUSE_LOOKUP, NULL, 0);
	}
}

static void unpark(struct client *c)
{
	for (unsigned i = 0; i < c->nparked; i++)
		sent_finish(c->parked[i], NULL, 0);
	c->nparked = 0;
}

static void lock(struct client *c)
{
	uint64_t node = a_node(c);
	const struct fuse_lk_in in = {
		.fh = a_handle(c, &node),
		.owner = dice(c, 4),
		.lk = {.start = dice(c, 3), .end = 3 + dice(c, 3), .type = dice(c, 3)},
		.lk_flags = dice(c, 2)};
	const struct fuse_interrupt_in stop = {pick(c, uniques)};
	struct fuse_lk_out o;
	struct sent *s;

	switch (dice(c, 4)) {
	case 0:
		ask(FUSE_SETLK, node, &in, sizeof(in), NULL, 0);
		return;
	case 1:
		ask(FUSE_GETLK, node, &in, sizeof(in), &o, sizeof(o));
		return;
	case 2:
		s = sent_make(FUSE_INTERRUPT, 0, &stop, sizeof(stop), NULL, 0, 0);
		s->req.nwr = 0;
		sent_send(s);
		sent_finish(s, NULL, 0);
		return;
	default:
		if (c->nparked == PARKED)
			return;
		s = sent_make(FUSE_SETLKW, node, &in, sizeof(in), NULL, 0, 0);
		c->parked[c->nparked++] = s;
		tell(c, uniques, s->unique);
		sent_send(s);
	}
}

static void map(struct client *c)
{
	const struct fuse_setupmapping_in in = {.foffset = 4096ull * dice(c, 8),
						.moffset = 4096ull * dice(c, 1024),
						.len = 4096ull * (1 + dice(c, 32)),
						.flags = 2 | dice(c, 2)};
	const struct fuse_removemapping_one one = {4096ull * dice(c, 1024),
						   4096ull * (1 + dice(c, 1024))};
	const struct fuse_removemapping_in un = {1};

	if (dice(c, 2))
		ask(FUSE_SETUPMAPPING, a_node(c), &in, sizeof(in), NULL, 0);
	else
		ask2(FUSE_REMOVEMAPPING, 0, &un, sizeof(un), &one, sizeof(one), NULL, 0);
}

/* Header and data lie in the window, in pages of this client's alone; what is there comes and goes. */
static void through_window(struct client *c)
{
	uint8_t *page = win->host + (size_t)c->nth * MIB(2) + 4096ull * dice(c, 256);
	uint64_t node = a_node(c);
	struct fuse_write_in in = {.fh = a_handle(c, &node), .size = 8192};
	struct sent *s = sent_make(dice(c, 2) ? FUSE_WRITE : FUSE_READ, node, &in, sizeof(in), NULL,
				   0, sizeof(struct fuse_write_out));
	struct fuse_in_header h;
	struct iovec iov[2];

	memcpy(&h, s->rd, sizeof(h));
	if (h.opcode == FUSE_WRITE) {
		h.len += 8192;
		memcpy(s->rd, &h, sizeof(h));
		iov[0] = s->iov[0];
		iov[1] = (struct iovec){page, 8192};
		s->req.rd = iov;
		s->req.nrd = 2;
	} else {
		iov[0] = s->iov[1];
		iov[0].iov_len = HDR_OUT;
		iov[1] = (struct iovec){page, 8192};
		s->wr_len = HDR_OUT + 8192;
		s->req.wr = iov;
		s->req.nwr = 2;
	}
	sent_send(s);
	if (!s->refused)
		while (sem_wait(&s->replied) && errno == EINTR)
			;
	sent_free(s);
}

static void *client_run(void *arg)
{
	struct client *c = arg;

	door_via = door.threads[c->nth];
	for (unsigned i = 0; i < ROUNDS; i++) {
		switch (dice(c, 8)) {
		case 0:
			make(c);
			break;
		case 1:
		case 2:
			data(c);
			break;
		case 3:
			lock(c);
			break;
		case 4:
			if (win)
				map(c);
			break;
		case 5:
			if (win)
				through_window(c);
			break;
		default:
			meta(c);
		}
		if (dice(c, 1500))
			continue;
		if (dice(c, 2))
			ask(FUSE_DESTROY, 0, NULL, 0, NULL, 0);
		session_of(45, untold ? UINT64_MAX : TELLS);
		unpark(c);
	}
	return NULL;
}

static void siege(struct fuse_config cfg, struct share_config share, bool window, const char *what)
{
	struct client c[CLIENTS] = {{0}};
	struct fakeguest *fg = NULL;

	if (window) {
		fg = fg_create(MIB(4));
		need(!dax_create(&door.dax, fg->vm, "fs0", SIZE));
		win = dax_window(door.dax);
	}
	door.nthreads = CLIENTS;
	door_open_share(cfg, share);
	untold = cfg.cache == FUSE_CACHE_ALWAYS && share_owner_passes();
	session_of(45, untold ? UINT64_MAX : TELLS);
	for (unsigned i = 0; i < CLIENTS; i++) {
		c[i].nth = i;
		c[i].state = i * 7919 + 1;
		need(!pthread_create(&c[i].thread, NULL, client_run, &c[i]));
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(c[i].thread, NULL);
	session_of(45, TELLS);
	for (unsigned i = 0; i < CLIENTS; i++)
		unpark(&c[i]);
	ok(nothing_held(), "%s: nothing is held when they have gone", what);
	door_close();
	if (window) {
		dax_destroy(door.dax);
		fg_destroy(fg);
	}
	door.dax = NULL;
	win = NULL;
	host_clear(door.dir);
}

int main(void)
{
	struct share_config small = PLAIN, locks = PLAIN, mapped = PLAIN;
	unsigned fds;

	small.fd_budget = 24;
	locks.locks = SHARE_LOCKS_HOST;
	mapped.owner = SHARE_OWNER_MAPPED;
	mapped.fd_budget = 24;
	door_set_up("t_fuse_siege");
	need(!window_init());
	fds = host_descriptors();
	siege(BY_MODE, locks, true, "locks, window");
	siege(IN_MODE(FUSE_CACHE_ALWAYS), small, true, "no opening, few descriptors");
	siege(IN_MODE(FUSE_CACHE_NEVER), mapped, false, "mapped");
	is(host_descriptors(), fds, "nothing is left open");
	door_tear_down();
	return done();
}
