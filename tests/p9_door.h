// SPDX-License-Identifier: Apache-2.0
/*
 * p9_door.h - the guest's side of a 9P server, without a transport: builds messages and checks what holds for every
 * answer.
 *
 * The server runs on an iothread of its own with its own filter; each message is carried there by loop_call(), and its
 * answer may come then or later. Buffers are of the exact size, so that a sanitizer sees one byte too many, and are cut
 * as door.layout says. A body is written by a format: 1, 2, 4 and 8 are numbers of that many bytes, s a string, d bytes
 * and how many. Set-up failures end the test program.
 */
#ifndef TESTS_P9_DOOR_H
#define TESTS_P9_DOOR_H

#include "host_dir.h"
#include "tap.h"
#include "../devices/p9_int.h"
#include "../devices/share_int.h"
#include <dirent.h>
#include <limits.h>
#include <semaphore.h>

#define DOOR_MSIZE   65536u
#define DOOR_CANARY  0xa7
#define DOOR_SILENCE 1000000 /* the server refused to answer at all */
#define ROOT         1u      /* the fid that session() attaches */
#define NO_TAG       0xffffu
#define PLAIN_9P     ((struct p9_config){.msize_max = (uint32_t)MIB(1)})
/* What a share is unless the test says otherwise. */
#define PLAIN ((struct share_config){.xattr = true})

enum layout {
	WHOLE, /* a buffer for the message, one for the answer */
	LINUX, /* data apart: of Twrite, and behind 11 bytes of the answers of Tread and Treaddir */
	BYTES, /* each byte by itself, with nothing between two */
	CUT,   /* both in two, after door.cut bytes */
};

struct door {
	char top[64]; /* the directory that is shared, unless the test says otherwise */
	int dir;      /* the host's view of it */
	struct share *share;
	struct iothread *io;
	struct p9 *p9;
	uint32_t msize; /* agreed on */
	uint16_t tag;   /* of the last message */
	enum layout layout;
	size_t cut;
};

/* A message on its way, with the buffers it was given. */
struct sent {
	struct p9_req req; /* first: reply() finds us by it */
	struct iovec *iov;
	uint8_t *rd, *wr;
	size_t rd_len, wr_len;
	uint8_t type;
	uint16_t tag;
	sem_t replied;
	unsigned replies; /* atomic */
	unsigned nth;     /* of all answers, in their order */
	uint32_t used;
	int refused; /* what p9_serve() returned */
};

static struct door door;
static unsigned door_answers; /* atomic */

/* Said only when it is broken: it holds for each of thousands of messages. */
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
__attribute__((unused)) static void door_open_share(struct p9_config cfg, struct share_config share)
{
	if (!share.path)
		share.path = door.top;
	door.msize = 0;
	need(!share_open(&door.share, "p9", &share));
	need(!p9_create(&door.p9, "p9", door.share, &cfg));
	need(!iothread_create(&door.io, "p9", LOOP_AUTO, 64, &share_syscalls));
	need(!iothread_start(door.io, door_init, NULL));
}

__attribute__((unused)) static void door_open(void)
{
	door_open_share(PLAIN_9P, PLAIN);
}

static void door_end(void *arg)
{
	(void)arg;
	p9_reset(door.p9);
}

/* As a device goes: the session, then the thread, then the rest. */
__attribute__((unused)) static void door_close(void)
{
	loop_call(door.io, door_end, NULL);
	iothread_destroy(door.io);
	p9_destroy(door.p9);
	share_close(door.share);
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

__attribute__((unused)) static struct stat host_stat(const char *name)
{
	struct stat st;

	need(!fstatat(door.dir, name, &st, AT_SYMLINK_NOFOLLOW));
	return st;
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

/* ---- messages ---- */

struct msg {
	uint8_t *bytes; /* header and body */
	size_t len, room;
};

static void msg_add(struct msg *m, const void *p, size_t n)
{
	if (!n)
		return;
	if (m->len + n > m->room) {
		m->room = 2 * (m->len + n);
		m->bytes = realloc(m->bytes, m->room);
		need(m->bytes);
	}
	memcpy(m->bytes + m->len, p, n);
	m->len += n;
}

static void msg_add_string(struct msg *m, const char *s)
{
	const le16 n = le16_of((uint16_t)strlen(s));

	msg_add(m, &n, sizeof(n));
	msg_add(m, s, strlen(s));
}

static void msg_add_fields(struct msg *m, const char *format, va_list ap)
{
	const void *p;
	uint64_t v;

	for (; *format; format++) {
		switch (*format) {
		case 's':
			msg_add_string(m, va_arg(ap, const char *));
			break;
		case 'd':
			p = va_arg(ap, const void *);
			msg_add(m, p, va_arg(ap, size_t));
			break;
		case '8':
			v = va_arg(ap, uint64_t);
			msg_add(m, &v, sizeof(v)); /* this machine is little-endian too */
			break;
		default:
			v = va_arg(ap, unsigned);
			msg_add(m, &v, (size_t)(*format - '0'));
		}
	}
}

static uint16_t next_tag(void)
{
	door.tag = (uint16_t)((door.tag + 1) % NO_TAG);
	return door.tag;
}

static void sent_reply(struct p9_req *req, uint32_t written)
{
	struct sent *s = container_of(req, struct sent, req);

	s->used = written;
	s->nth = __atomic_add_fetch(&door_answers, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->replies, 1, __ATOMIC_RELEASE);
	sem_post(&s->replied);
}

/* Where data begins, by the type of the message. */
static size_t data_at(const struct sent *s, bool answer)
{
	if (answer)
		return s->type == P9_TREAD || s->type == P9_TREADDIR ? P9_SHORT : s->wr_len;
	return s->type == P9_TWRITE ? P9_HEADER + sizeof(struct p9_twrite) : s->rd_len;
}

/* From buf to iovecs; how many. */
static unsigned lay_out(struct iovec *iov, uint8_t *buf, size_t len, size_t data)
{
	const size_t at = door.layout == LINUX ? data : door.cut;
	unsigned n = 0;

	if (door.layout == WHOLE) {
		iov[0] = (struct iovec){buf, len};
		return len > 0;
	}
	if (door.layout != BYTES) {
		iov[0] = (struct iovec){buf, MIN(at, len)};
		iov[1] = (struct iovec){buf + MIN(at, len), len - MIN(at, len)};
		return 2;
	}
	for (size_t i = 0; i < len; i++) {
		iov[n++] = (struct iovec){buf, 0};
		iov[n++] = (struct iovec){buf + i, 1};
	}
	return n;
}

static void sent_lay_out(struct sent *s)
{
	const size_t most = door.layout == BYTES ? 2 * (s->rd_len + s->wr_len) : 4;

	free(s->iov);
	s->iov = calloc(most + 1, sizeof(*s->iov));
	need(s->iov);
	s->req.rd = s->iov;
	s->req.nrd = lay_out(s->iov, s->rd, s->rd_len, data_at(s, false));
	s->req.wr = s->iov + s->req.nrd;
	s->req.nwr = lay_out(s->req.wr, s->wr, s->wr_len, data_at(s, true));
}

/* Takes the bytes over, whatever they are. room: of the whole answer. */
static struct sent *sent_of(struct msg *m, uint8_t type, uint16_t tag, size_t room)
{
	struct sent *s = calloc(1, sizeof(*s));

	need(s);
	*s = (struct sent){.rd_len = m->len, .wr_len = room, .type = type, .tag = tag};
	s->rd = malloc(m->len + !m->len);
	s->wr = malloc(room + !room);
	need(s->rd && s->wr);
	if (m->len)
		memcpy(s->rd, m->bytes, m->len);
	free(m->bytes);
	*m = (struct msg){0};
	memset(s->wr, DOOR_CANARY, room);
	sem_init(&s->replied, 0, 0);
	s->req = (struct p9_req){.reply = sent_reply};
	sent_lay_out(s);
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

static struct sent *sent_vmake(uint8_t type, uint16_t tag, size_t room, const char *format,
			       va_list ap)
{
	struct p9_header h = {.type = type, .tag = le16_of(tag)};
	struct msg m = {0};

	msg_add(&m, &h, sizeof(h));
	msg_add_fields(&m, format, ap);
	h.size = le32_of((uint32_t)m.len);
	memcpy(m.bytes, &h, sizeof(h));
	return sent_of(&m, type, tag, P9_HEADER + room);
}

/* room: of the answer's body; there is at least enough for an error. */
__attribute__((unused)) static struct sent *sent_make(uint8_t type, size_t room, const char *format,
						      ...)
{
	struct sent *s;
	va_list ap;

	va_start(ap, format);
	s = sent_vmake(type, next_tag(), MAX(room, (size_t)4), format, ap);
	va_end(ap);
	return s;
}

/* On the iothread. */
static void sent_serve(void *arg)
{
	struct sent *s = arg;

	s->req.io = door.io;
	s->refused = p9_serve(door.p9, &s->req);
}

static struct sent *sent_send(struct sent *s)
{
	loop_call(door.io, sent_serve, s);
	return s;
}

__attribute__((unused)) static bool sent_answered(const struct sent *s)
{
	return __atomic_load_n(&s->replies, __ATOMIC_ACQUIRE);
}

/*
 * What every answer must be: one, as long as it says in both places and no longer than agreed, of the message's tag and of
 * its type or an error that is one, nothing behind it touched. Returns the error, or the body's length.
 */
static int sent_judge(struct sent *s)
{
	struct p9_rlerror e;
	struct p9_header h;

	if (s->refused) {
		always(s->refused == -EPROTO, "a message is refused with EPROTO");
		always(!sent_answered(s), "and then not answered");
		return DOOR_SILENCE;
	}
	/* The fuzzer's clock is a signal. */
	while (sem_wait(&s->replied) && errno == EINTR)
		;
	always(s->replies == 1, "a message is answered once");
	need(s->used >= P9_HEADER && s->used <= s->wr_len);
	memcpy(&h, s->wr, sizeof(h));
	always(le32_get(h.size) == s->used, "the size in the answer is that which is reported");
	always(le16_get(h.tag) == s->tag, "the answer carries the message's tag");
	always(!door.msize || s->used <= door.msize, "no answer is longer than agreed");
	for (size_t i = s->used; i < s->wr_len && h.type != P9_RLERROR; i++)
		always(s->wr[i] == DOOR_CANARY, "nothing is written behind an answer");
	if (h.type != P9_RLERROR) {
		always(h.type == (uint8_t)(s->type + 1), "the answer is of the message's type");
		return (int)(s->used - P9_HEADER);
	}
	need(s->used == P9_SHORT);
	memcpy(&e, s->wr + P9_HEADER, sizeof(e));
	always(le32_get(e.ecode) > 0 && le32_get(e.ecode) < 512, "an error is a Linux one");
	return -(int)le32_get(e.ecode);
}

/* The error, or the length of the body that is now in out. */
static int sent_finish(struct sent *s, void *out, size_t room)
{
	int r = sent_judge(s);

	if (out && r > 0 && r != DOOR_SILENCE) {
		need((size_t)r <= room);
		memcpy(out, s->wr + P9_HEADER, (size_t)r);
	}
	sent_free(s);
	return r;
}

/* The whole of it. */
__attribute__((unused)) static int ask(uint8_t type, void *out, size_t room, const char *format,
				       ...)
{
	struct sent *s;
	va_list ap;

	va_start(ap, format);
	s = sent_vmake(type, next_tag(), MAX(room, (size_t)4), format, ap);
	va_end(ap);
	return sent_finish(sent_send(s), out, room);
}

/* What is answered with no body at all: 0 or the error. */
#define tell(type, ...)                                                    \
	({                                                                 \
		int told_ = ask((type), NULL, 0, __VA_ARGS__);             \
		always(told_ <= 0, "an answer has no body that has none"); \
		told_;                                                     \
	})

/* ---- sessions ---- */

/* What was agreed on, 0 for no dialect, or the error. */
__attribute__((unused)) static int ask_version(uint32_t msize, const char *version)
{
	uint8_t out[64];
	struct p9_rversion o;
	int r = ask(P9_TVERSION, out, sizeof(out), "4s", msize, version);

	if (r < 0)
		return r;
	memcpy(&o, out, sizeof(o));
	if (r == sizeof(o) + 2 + 8 && !memcmp(out + sizeof(o) + 2, "9P2000.L", 8))
		door.msize = le32_get(o.msize);
	else
		door.msize = 0;
	always(door.msize || (r == sizeof(o) + 2 + 7 && !memcmp(out + sizeof(o) + 2, "unknown", 7)),
	       "a dialect is ours or unknown");
	return (int)door.msize;
}

__attribute__((unused)) static int ask_attach(uint32_t fid, const char *aname, uint32_t uid)
{
	struct p9_rattach o;
	int r = ask(P9_TATTACH, &o, sizeof(o), "44ss4", fid, P9_NOFID, "user", aname, uid);

	always(r < 0 || (r == sizeof(o) && o.qid.type == P9_QTDIR),
	       "what is attached to is a directory");
	return MIN(r, 0);
}

__attribute__((unused)) static void session_of(uint32_t msize)
{
	need(ask_version(msize, "9P2000.L") > 0);
	need(!ask_attach(ROOT, "", 0));
}

__attribute__((unused)) static void session(void)
{
	session_of(DOOR_MSIZE);
}

/* ---- fids ---- */

static struct msg walk_names(const char *path, uint16_t *n)
{
	struct msg m = {0};
	size_t len;

	for (*n = 0; *path; path += len + (path[len] == '/'), ++*n) {
		const le16 l = le16_of((uint16_t)(len = strcspn(path, "/")));

		msg_add(&m, &l, sizeof(l));
		msg_add(&m, path, len);
	}
	return m;
}

/* How many names of path ("a/b/c") were walked, or the error; qids (of 16) may be NULL. */
__attribute__((unused)) static int ask_walk(uint32_t fid, uint32_t newfid, const char *path,
					    struct p9_qid *qids)
{
	struct {
		le16 n;
		struct p9_qid qids[P9_WALK_MAX];
	} __attribute__((packed)) o;
	uint16_t n;
	struct msg names = walk_names(path, &n);
	int r = ask(P9_TWALK, &o, sizeof(o), "442d", fid, newfid, n,
		    names.bytes ? names.bytes : (void *)"", names.len);

	free(names.bytes);
	if (r < 0)
		return r;
	always(r == 2 + 13 * le16_get(o.n), "a walk tells as many as it says");
	if (qids)
		memcpy(qids, o.qids, le16_get(o.n) * sizeof(*qids));
	return le16_get(o.n);
}

/* All of it, to a new fid. */
__attribute__((unused)) static void walk(uint32_t fid, uint32_t newfid, const char *path)
{
	unsigned n = *path != 0;

	for (const char *p = path; *p; p++)
		n += *p == '/';
	need(ask_walk(fid, newfid, path, NULL) == (int)n);
}

__attribute__((unused)) static int ask_clunk(uint32_t fid)
{
	return tell(P9_TCLUNK, "4", fid);
}

__attribute__((unused)) static int ask_remove(uint32_t fid)
{
	return tell(P9_TREMOVE, "4", fid);
}

__attribute__((unused)) static int ask_lopen(uint32_t fid, uint32_t flags)
{
	struct p9_rlopen o;
	int r = ask(P9_TLOPEN, &o, sizeof(o), "44", fid, flags);

	always(r < 0 || (r == sizeof(o) && !le32_get(o.iounit)), "no unit of I/O is better");
	return MIN(r, 0);
}

/* One of its own, open. */
__attribute__((unused)) static void open_at(uint32_t newfid, const char *path, uint32_t flags)
{
	walk(ROOT, newfid, path);
	need(!ask_lopen(newfid, flags));
}

__attribute__((unused)) static int ask_lcreate(uint32_t fid, const char *name, uint32_t flags,
					       uint32_t mode)
{
	struct p9_rlopen o;
	int r = ask(P9_TLCREATE, &o, sizeof(o), "4s444", fid, name, flags, mode, 0u);

	always(r < 0 || (r == sizeof(o) && o.qid.type == P9_QTFILE), "what is created is a file");
	return MIN(r, 0);
}

/* ---- data and attributes ---- */

/* Bytes that are in out, or the error. */
__attribute__((unused)) static int ask_data(uint8_t type, uint32_t fid, uint64_t off, void *out,
					    uint32_t count)
{
	struct sent *s = sent_send(sent_make(type, 4 + (size_t)count, "484", fid, off, count));
	int r = sent_judge(s);
	le32 n;

	if (r >= 0) {
		memcpy(&n, s->wr + P9_HEADER, sizeof(n));
		always(r == (int)(4 + le32_get(n)), "data is as long as it says");
		r = (int)le32_get(n);
		memcpy(out, s->wr + P9_SHORT, (size_t)r);
	}
	sent_free(s);
	return r;
}

__attribute__((unused)) static int ask_read(uint32_t fid, uint64_t off, void *out, uint32_t count)
{
	return ask_data(P9_TREAD, fid, off, out, count);
}

__attribute__((unused)) static int ask_write(uint32_t fid, uint64_t off, const void *data,
					     uint32_t count)
{
	le32 n;
	int r = ask(P9_TWRITE, &n, sizeof(n), "484d", fid, off, count, data, (size_t)count);

	always(r < 0 || r == sizeof(n), "a write is answered with a count");
	return r < 0 ? r : (int)le32_get(n);
}

__attribute__((unused)) static int ask_getattr(uint32_t fid, struct p9_rgetattr *o)
{
	int r = ask(P9_TGETATTR, o, sizeof(*o), "48", fid, (uint64_t)P9_GETATTR_BASIC);

	always(r < 0 || r == sizeof(*o), "attributes are 153 bytes");
	return MIN(r, 0);
}

__attribute__((unused)) static struct p9_rgetattr attr_of(uint32_t fid)
{
	struct p9_rgetattr o;

	need(!ask_getattr(fid, &o));
	return o;
}

/* in without its fid. */
__attribute__((unused)) static int ask_setattr(uint32_t fid, struct p9_tsetattr in)
{
	in.fid = le32_of(fid);
	return tell(P9_TSETATTR, "d", &in, sizeof(in));
}

static void slow_it(void *arg)
{
	struct p9_fid *fid = p9_fid_find(door.p9, *(uint32_t *)arg);

	need(fid && fid->file);
	fid->file->io.no_nowait_read = fid->file->io.no_nowait_write = true;
	fid->file->io.read_pace.away = fid->file->io.write_pace.away = IO_PACE_NEVER;
}

/* From here on reads and writes through the fid are never settled at once. */
__attribute__((unused)) static void make_slow(uint32_t fid)
{
	loop_call(door.io, slow_it, &fid);
}

/* ---- what the server holds ---- */

struct held {
	size_t fids, inflight, xattrs, inodes, files;
};

static void held_look(void *arg)
{
	struct held *h = arg;

	p9_counts(door.p9, &h->fids, &h->inflight);
	h->xattrs = door.p9->nxattrs;
	h->inodes = share_ninodes(door.share);
	h->files = door.share->nfiles;
}

__attribute__((unused)) static struct held held(void)
{
	struct held h;

	loop_call(door.io, held_look, &h);
	return h;
}

/* Nothing but these fids, all of the root. */
__attribute__((unused)) static bool held_only(size_t fids)
{
	struct held h = held();

	return h.fids == fids && !h.inflight && !h.xattrs && h.inodes == 1 && !h.files;
}

#endif
