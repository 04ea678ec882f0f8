// SPDX-License-Identifier: Apache-2.0
/*
 * fuse_door.h - the guest's side of a FUSE server, without a transport: builds requests as Linux does and checks what
 * holds for every reply.
 *
 * The server runs on an iothread of its own with its own filter; each request is carried there by loop_call(), and its
 * reply may come then or later. Buffers are of the exact size, so that a sanitizer sees one byte too many. Set-up
 * failures end the test program.
 */
#ifndef TESTS_FUSE_DOOR_H
#define TESTS_FUSE_DOOR_H

#include "host_dir.h"
#include "tap.h"
#include "../devices/fuse_int.h"
#include "../devices/share_int.h"
#include <dirent.h>
#include <limits.h>
#include <semaphore.h>

#define DOOR_IO      ((uint32_t)MIB(1))
#define DOOR_CANARY  0xa7
#define DOOR_SILENCE 1000000 /* the server refused to answer at all */
#define HDR_IN       ((uint32_t)sizeof(struct fuse_in_header))
#define HDR_OUT      ((uint32_t)sizeof(struct fuse_out_header))
#define ROOT         FUSE_ROOT_ID
#define IN_MODE(mode)                                     \
	((struct fuse_config){.cache = (mode),            \
			      .entry_ttl_ms = UINT32_MAX, \
			      .attr_ttl_ms = UINT32_MAX,  \
			      .negative_ttl_ms = UINT32_MAX})
#define BY_MODE IN_MODE(FUSE_CACHE_AUTO)

/* What a share is unless the test says otherwise. */
#define PLAIN        ((struct share_config){.xattr = true, .submounts = true})
#define DOOR_THREADS 4

struct door {
	char top[64]; /* the directory that is shared, unless the test says otherwise */
	int dir;      /* the host's view of it */
	struct share *share;
	struct dax *dax;                             /* the test's own, or NULL */
	unsigned nthreads;                           /* 0: one; for the next door_open() */
	struct iothread *io, *threads[DOOR_THREADS]; /* io is the first */
	struct fuse *fuse;
	struct fuse_config cfg;
	uint64_t unique; /* atomic */
};

/* A request on its way, with the buffers it was given. */
struct sent {
	struct fuse_req req; /* first: reply() finds us by it */
	struct iovec *iov;
	uint8_t *rd, *wr;
	size_t rd_len, wr_len;
	uint64_t unique;
	sem_t replied;
	unsigned replies;
	uint32_t used;
	int refused; /* what fuse_serve() returned */
};

static struct door door;

/* Said only when it is broken: it holds for each of thousands of requests. */
#define always(cond, what)           \
	do {                         \
		if (!(cond))         \
			ok(0, what); \
	} while (0)

/* ---- the server's life ---- */

static int door_init(void *arg)
{
	(void)arg;
	return share_thread_init(door.share);
}

/* path of the share: NULL means the test's directory. */
__attribute__((unused)) static void door_open_share(struct fuse_config cfg,
						    struct share_config share)
{
	if (!share.path)
		share.path = door.top;
	door.cfg = cfg;
	door.nthreads += !door.nthreads;
	need(!share_open(&door.share, "fs0", &share));
	need(!fuse_create(&door.fuse, door.share, door.dax, &door.cfg, DOOR_IO, door.nthreads > 1));
	for (unsigned i = 0; i < door.nthreads; i++) {
		need(!iothread_create(&door.threads[i], "fs0", LOOP_AUTO, 64, &share_syscalls));
		need(!iothread_start(door.threads[i], door_init, NULL));
	}
	door.io = door.threads[0];
}

__attribute__((unused)) static void door_open_at(const char *path, struct fuse_config cfg,
						 bool readonly)
{
	char copy[PATH_MAX];
	struct share_config share = PLAIN;

	snprintf(copy, sizeof(copy), "%s", path);
	share.path = copy;
	share.readonly = readonly;
	door_open_share(cfg, share);
}

__attribute__((unused)) static void door_open(struct fuse_config cfg, bool readonly)
{
	door_open_at(door.top, cfg, readonly);
}

static void door_end(void *arg)
{
	(void)arg;
	fuse_reset(door.fuse);
}

/* As a device goes: the session, then the threads, then the rest. */
__attribute__((unused)) static void door_close(void)
{
	loop_call(door.io, door_end, NULL);
	for (unsigned i = door.nthreads; i--;)
		iothread_destroy(door.threads[i]);
	fuse_destroy(door.fuse);
	share_close(door.share);
	door.nthreads = 0;
}

__attribute__((unused)) static void door_set_up(const char *name)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(door.top, sizeof(door.top), "%.40s/%s.XXXXXX", tmp ? tmp : "/tmp", name);
	need(mkdtemp(door.top));
	door.dir = open(door.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	need(door.dir >= 0);
	need(!sandbox_init());
}

__attribute__((unused)) static void door_tear_down(void)
{
	host_clear(door.dir);
	close(door.dir);
	need(!rmdir(door.top));
}

/* ---- the host's side of the tree ---- */

__attribute__((unused)) static void host_write(const char *name, const void *data, size_t n)
{
	int fd = openat(door.dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	need(fd >= 0);
	need(write(fd, data, n) == (ssize_t)n);
	close(fd);
}

__attribute__((unused)) static bool host_has(const char *name)
{
	return !faccessat(door.dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

__attribute__((unused)) static int64_t host_size(const char *name)
{
	struct stat st;

	return fstatat(door.dir, name, &st, AT_SYMLINK_NOFOLLOW) ? -errno : st.st_size;
}

__attribute__((unused)) static unsigned host_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	need(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- what is sent ---- */

static void sent_reply(struct fuse_req *req, uint32_t written)
{
	struct sent *s = container_of(req, struct sent, req);

	__atomic_add_fetch(&s->replies, 1, __ATOMIC_RELEASE);
	s->used = written;
	sem_post(&s->replied);
}

/* Buffers for a message of rd_len bytes and a reply of wr_len, each one iovec. */
static struct sent *sent_new(size_t rd_len, size_t wr_len)
{
	struct sent *s = calloc(1, sizeof(*s));

	need(s);
	*s = (struct sent){.rd_len = rd_len, .wr_len = wr_len};
	s->rd = calloc(1, rd_len + !rd_len);
	s->wr = malloc(wr_len + !wr_len);
	s->iov = calloc(2, sizeof(*s->iov));
	need(s->rd && s->wr && s->iov);
	memset(s->wr, DOOR_CANARY, wr_len);
	sem_init(&s->replied, 0, 0);
	s->iov[0] = (struct iovec){s->rd, rd_len};
	s->iov[1] = (struct iovec){s->wr, wr_len};
	s->req = (struct fuse_req){.rd = s->iov,
				   .nrd = rd_len > 0,
				   .wr = s->iov + 1,
				   .nwr = wr_len > 0,
				   .reply = sent_reply};
	return s;
}

static void sent_free(struct sent *s)
{
	sem_destroy(&s->replied);
	free(s->rd);
	free(s->wr);
	free(s->iov);
	free(s);
}

/* A message: header, then arg, then more. room is for the reply's body. */
static struct sent *sent_make(uint32_t opcode, uint64_t node, const void *arg, size_t arg_len,
			      const void *more, size_t more_len, size_t room)
{
	size_t len = HDR_IN + arg_len + more_len;
	struct sent *s = sent_new(len, HDR_OUT + room);
	struct fuse_in_header h = {.len = (uint32_t)len,
				   .opcode = opcode,
				   .unique = __atomic_add_fetch(&door.unique, 2, __ATOMIC_RELAXED),
				   .nodeid = node};

	s->unique = h.unique;
	memcpy(s->rd, &h, sizeof(h));
	if (arg_len)
		memcpy(s->rd + HDR_IN, arg, arg_len);
	if (more_len)
		memcpy(s->rd + HDR_IN + arg_len, more, more_len);
	return s;
}

/* Where this thread's requests are served, if not by the first. */
__attribute__((unused)) static _Thread_local struct iothread *door_via;

/* On an iothread. */
static void sent_serve(void *arg)
{
	struct sent *s = arg;

	if (!s->req.io)
		s->req.io = door.io;
	s->refused = fuse_serve(door.fuse, &s->req);
}

static void sent_send(struct sent *s)
{
	s->req.io = door_via ? door_via : door.io;
	loop_call(s->req.io, sent_serve, s);
}

/*
 * What every reply must be: one, as long as it says in both places, with the request's unique, nothing behind it
 * touched, no body with an error. Returns the error, or the body's length.
 */
static int sent_judge(struct sent *s)
{
	struct fuse_out_header h;

	if (s->refused) {
		always(s->refused == -EPROTO, "a message is refused with EPROTO");
		always(!s->replies, "and then not answered");
		return DOOR_SILENCE;
	}
	/* The fuzzer's clock is a signal. */
	while (sem_wait(&s->replied) && errno == EINTR)
		;
	always(s->replies == 1, "a request is answered once");
	if (!s->used)
		return 0;
	need(s->used >= HDR_OUT && s->used <= s->wr_len);
	memcpy(&h, s->wr, sizeof(h));
	always(h.len == s->used, "the length in the reply is that which is reported");
	always(h.unique == s->unique, "the reply carries the request's number");
	always(h.error <= 0 && h.error > -512, "an error is a Linux one");
	always(!h.error || h.len == HDR_OUT, "an error has no body");
	for (size_t i = s->used; i < s->wr_len && h.error; i++)
		always(s->wr[i] == DOOR_CANARY, "nothing is written behind an error");
	return h.error ? h.error : (int)(h.len - HDR_OUT);
}

static int sent_finish(struct sent *s, void *out, size_t room)
{
	int r = sent_judge(s);

	if (out && r > 0 && r != DOOR_SILENCE) {
		need((size_t)r <= room);
		memcpy(out, s->wr + HDR_OUT, (size_t)r);
	}
	sent_free(s);
	return r;
}

/* The whole of it: the error, or the length of the body that is now in out. */
static int ask2(uint32_t opcode, uint64_t node, const void *arg, size_t arg_len, const void *more,
		size_t more_len, void *out, size_t room)
{
	struct sent *s = sent_make(opcode, node, arg, arg_len, more, more_len, room);

	sent_send(s);
	return sent_finish(s, out, room);
}

static int ask(uint32_t opcode, uint64_t node, const void *arg, size_t arg_len, void *out,
	       size_t room)
{
	return ask2(opcode, node, arg, arg_len, NULL, 0, out, room);
}

/* ---- requests ---- */

__attribute__((unused)) static int ask_init(uint32_t major, uint32_t minor, uint64_t flags,
					    struct fuse_init_out *out)
{
	struct fuse_init_in in = {.major = major,
				  .minor = minor,
				  .max_readahead = 131072,
				  .flags = (uint32_t)flags,
				  .flags2 = (uint32_t)(flags >> 32)};
	/* 7.36 made it longer. */
	size_t len = minor < 36 ? offsetof(struct fuse_init_in, flags2) : sizeof(in);

	return ask(FUSE_INIT, 0, &in, len, out, sizeof(*out));
}

/* What a guest offers that opens everything by a request. */
#define TELLS (UINT64_MAX & ~(FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT))

__attribute__((unused)) static void session_of(uint32_t minor, uint64_t flags)
{
	struct fuse_init_out out;

	need(ask_init(7, minor, flags, &out) == sizeof(out));
}

__attribute__((unused)) static void session(void)
{
	session_of(31, UINT32_MAX);
}

__attribute__((unused)) static int ask_lookup(uint64_t dir, const char *name,
					      struct fuse_entry_out *e)
{
	return ask(FUSE_LOOKUP, dir, name, strlen(name) + 1, e, sizeof(*e));
}

/* One more lookup of it. */
__attribute__((unused)) static uint64_t find(uint64_t dir, const char *name)
{
	struct fuse_entry_out e;

	need(ask_lookup(dir, name, &e) == sizeof(e));
	return e.nodeid;
}

/* Has no reply, so no room for one. */
__attribute__((unused)) static void forget(uint64_t node, uint64_t n)
{
	const struct fuse_forget_in in = {n};
	struct sent *s = sent_make(FUSE_FORGET, node, &in, sizeof(in), NULL, 0, 0);

	s->req.nwr = 0;
	sent_send(s);
	need(sent_finish(s, NULL, 0) == 0);
}

__attribute__((unused)) static int ask_open_as(uint32_t opcode, uint64_t node, uint32_t flags,
					       struct fuse_open_out *o)
{
	const struct fuse_open_in in = {.flags = flags};

	return ask(opcode, node, &in, sizeof(in), o, sizeof(*o));
}

__attribute__((unused)) static uint64_t open_file(uint64_t node, uint32_t flags)
{
	struct fuse_open_out o;

	need(ask_open_as(FUSE_OPEN, node, flags, &o) == sizeof(o));
	return o.fh;
}

__attribute__((unused)) static uint64_t open_dir(uint64_t node)
{
	struct fuse_open_out o;

	need(ask_open_as(FUSE_OPENDIR, node, 0, &o) == sizeof(o));
	return o.fh;
}

__attribute__((unused)) static int release(uint64_t node, uint64_t fh)
{
	const struct fuse_release_in in = {.fh = fh};

	return ask(FUSE_RELEASE, node, &in, sizeof(in), NULL, 0);
}

__attribute__((unused)) static int ask_read(uint32_t opcode, uint64_t node, uint64_t fh,
					    uint64_t off, void *out, uint32_t size)
{
	const struct fuse_read_in in = {.fh = fh, .offset = off, .size = size};

	return ask(opcode, node, &in, sizeof(in), out, size);
}

/* The bytes written, or -errno. */
__attribute__((unused)) static int ask_write(uint64_t node, uint64_t fh, uint64_t off,
					     const void *data, uint32_t size)
{
	const struct fuse_write_in in = {.fh = fh, .offset = off, .size = size};
	struct fuse_write_out o = {0};
	int r = ask2(FUSE_WRITE, node, &in, sizeof(in), data, size, &o, sizeof(o));

	always(r < 0 || r == sizeof(o), "a write is answered with its size");
	return r < 0 ? r : (int)o.size;
}

/* Flags or 0 for O_RDWR; both out parts may be NULL. */
__attribute__((unused)) static int ask_create(uint64_t dir, const char *name, uint32_t flags,
					      struct fuse_entry_out *e, uint64_t *fh)
{
	const struct fuse_create_in in = {.flags = (flags ? flags : O_RDWR) | O_CREAT,
					  .mode = S_IFREG | 0644};
	struct {
		struct fuse_entry_out e;
		struct fuse_open_out o;
	} out;
	int r = ask2(FUSE_CREATE, dir, &in, sizeof(in), name, strlen(name) + 1, &out, sizeof(out));

	if (r < 0)
		return r;
	need(r == sizeof(out));
	if (e)
		*e = out.e;
	if (fh)
		*fh = out.o.fh;
	return 0;
}

__attribute__((unused)) static int ask_mkdir(uint64_t dir, const char *name,
					     struct fuse_entry_out *e)
{
	const struct fuse_mkdir_in in = {.mode = 0755};
	struct fuse_entry_out own;
	int r = ask2(FUSE_MKDIR, dir, &in, sizeof(in), name, strlen(name) + 1, e ? e : &own,
		     sizeof(own));

	return MIN(r, 0);
}

__attribute__((unused)) static int ask_attr(uint64_t node, struct fuse_attr *attr)
{
	const struct fuse_getattr_in in = {0};
	struct fuse_attr_out o;
	int r = ask(FUSE_GETATTR, node, &in, sizeof(in), &o, sizeof(o));

	if (r == sizeof(o))
		*attr = o.attr;
	return MIN(r, 0);
}

static void slow_it(void *arg)
{
	struct fuse_handle *h;

	fuse_lock(door.fuse);
	h = fuse_handle_get(door.fuse, *(uint64_t *)arg);
	need(h);
	h->file->io.no_nowait_read = h->file->io.no_nowait_write = true;
	h->file->io.read_pace.away = h->file->io.write_pace.away = IO_PACE_NEVER;
	fuse_unlock(door.fuse);
}

/* From here on reads and writes through the handle are never settled at once. */
__attribute__((unused)) static void make_slow(uint64_t fh)
{
	loop_call(door.io, slow_it, &fh);
}

/* ---- what the server holds ---- */

struct held {
	size_t nodes, handles, kept, inodes, files;
};

static void held_look(void *arg)
{
	struct held *h = arg;

	fuse_counts(door.fuse, &h->nodes, &h->handles, &h->kept);
	h->inodes = share_ninodes(door.share);
	h->files = door.share->nfiles;
}

__attribute__((unused)) static struct held held(void)
{
	struct held h;

	loop_call(door.io, held_look, &h);
	return h;
}

/* Nothing but the root. */
__attribute__((unused)) static bool nothing_held(void)
{
	struct held h = held();

	return !h.nodes && !h.handles && !h.kept && h.inodes == 1 && !h.files;
}

#endif
