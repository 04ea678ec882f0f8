// SPDX-License-Identifier: Apache-2.0
/*
 * p9_client.c - messages of a 9P2000.L client: how they lie in memory, and what every answer must be.
 *
 * Linux has a message in one buffer and its answer in another, but for data of more than a kilobyte, which lies in pages
 * apart (hard case E4). Any other layout is as good (A10): pieces of a few bytes, with a byte between them that nobody may
 * touch. What is made or looked at byte by byte is in one piece here; layouts are copies. Calls: p9.h.
 */
#include "p9_client.h"
#include "../tap.h"
#include "../../devices/share_int.h"
#include <semaphore.h>

#define CANARY    0xa7
#define APART     1024 /* bytes of data that Linux does not copy */
#define PAGE      4096u
#define FIDS      1024
#define MSIZE_MAX MIB(1)

static struct {
	struct share *share;
	struct iothread *io;
	struct p9 *p9;
	struct client_how how;
	uint32_t msize;
	uint16_t tag;
	uint64_t fids[FIDS / 64]; /* in use */
	unsigned nfids, faults;
} client;

void client_fault(const char *file, int line, const char *what)
{
	const char *base = strrchr(file, '/');

	printf("# %s:%d: %s\n", base ? base + 1 : file, line, what);
	__atomic_add_fetch(&client.faults, 1, __ATOMIC_RELAXED);
}

unsigned client_faults(void)
{
	return __atomic_load_n(&client.faults, __ATOMIC_RELAXED);
}

/* ---- layouts ---- */

/* So many bytes in descriptors. */
struct layout {
	uint8_t *mem;
	size_t len, piece;
	unsigned n;
};

static struct layout layout_of(size_t len, size_t piece)
{
	struct layout l = {.len = len};
	size_t size;

	piece = client.how.piece ? client.how.piece : piece;
	l.piece = piece && piece < len ? piece : len;
	if (!len)
		return l;
	l.n = (unsigned)((len + l.piece - 1) / l.piece);
	size = len + l.n - 1; /* a byte more between two */
	l.mem = malloc(size);
	need(l.mem);
	memset(l.mem, CANARY, size);
	return l;
}

static uint8_t *piece_at(const struct layout *l, unsigned i)
{
	return l->mem + i * (l->piece + 1);
}

static size_t piece_len(const struct layout *l, unsigned i)
{
	return MIN(l->piece, l->len - i * l->piece);
}

static unsigned layout_iov(const struct layout *l, struct iovec *iov)
{
	for (unsigned i = 0; i < l->n; i++)
		iov[i] = (struct iovec){piece_at(l, i), piece_len(l, i)};
	return l->n;
}

static void layout_fill(const struct layout *l, const uint8_t *from)
{
	for (unsigned i = 0; i < l->n; i++)
		memcpy(piece_at(l, i), from + i * l->piece, piece_len(l, i));
}

static void layout_take(const struct layout *l, uint8_t *to)
{
	for (unsigned i = 0; i < l->n; i++) {
		memcpy(to + i * l->piece, piece_at(l, i), piece_len(l, i));
		sound(i + 1 == l->n || piece_at(l, i)[l->piece] == CANARY);
	}
}

/* ---- messages ---- */

struct msg {
	struct p9_req req;  /* first: answered() finds us by it */
	uint8_t *out;       /* the message in one piece, */
	size_t nout, apart; /* and how much of its end is data that lies apart */
	uint8_t *in;        /* the answer, of which so much has been taken */
	size_t room, at;
	struct layout head, data, answer, answer_data;
	struct iovec *iov;
	void (*arrived)(struct msg *, void *);
	void *arg;
	sem_t done;
	unsigned answers; /* since it was sent; atomic */
	uint32_t used;
	int refused;
	uint16_t tag;
};

static void put(struct msg *m, const void *p, size_t n)
{
	if (!n)
		return;
	m->out = realloc(m->out, m->nout + n);
	need(m->out);
	memcpy(m->out + m->nout, p, n);
	m->nout += n;
}

static void put_number(struct msg *m, uint64_t v, unsigned n)
{
	for (; n--; v >>= 8)
		put(m, &(uint8_t){(uint8_t)v}, 1);
}

void put1(struct msg *m, uint8_t v)
{
	put_number(m, v, 1);
}

void put2(struct msg *m, uint16_t v)
{
	put_number(m, v, 2);
}

void put4(struct msg *m, uint32_t v)
{
	put_number(m, v, 4);
}

void put8(struct msg *m, uint64_t v)
{
	put_number(m, v, 8);
}

void put_string(struct msg *m, const char *s)
{
	put2(m, (uint16_t)strlen(s));
	put(m, s, strlen(s));
}

void put_data(struct msg *m, const void *p, size_t n)
{
	put(m, p, n);
	m->apart = n > APART ? n : 0;
}

struct msg *msg_new(enum p9_type type)
{
	struct msg *m = calloc(1, sizeof(*m));

	need(m);
	sem_init(&m->done, 0, 0);
	/* The last one is Tversion's. */
	client.tag = client.tag == 0xfffe ? 0 : client.tag + 1;
	m->tag = type == P9_TVERSION ? 0xffff : client.tag;
	put4(m, 0);
	put1(m, (uint8_t)type);
	put2(m, m->tag);
	return m;
}

static void layouts_free(struct msg *m)
{
	free(m->head.mem);
	free(m->data.mem);
	free(m->answer.mem);
	free(m->answer_data.mem);
	free(m->iov);
}

void msg_free(struct msg *m)
{
	layouts_free(m);
	sem_destroy(&m->done);
	free(m->out);
	free(m->in);
	free(m);
}

uint16_t msg_tag(const struct msg *m)
{
	return m->tag;
}

/* ---- on their way ---- */

static void answered(struct p9_req *req, uint32_t written)
{
	struct msg *m = container_of(req, struct msg, req);

	m->used = written;
	__atomic_add_fetch(&m->answers, 1, __ATOMIC_RELEASE);
	if (m->arrived)
		m->arrived(m, m->arg);
	else
		sem_post(&m->done);
}

static void lay_out(struct msg *m, size_t fields, size_t data)
{
	const size_t apart = data > APART ? data : 0;

	/* Every answer may be an error instead. */
	fields = MAX(fields + data - apart, (size_t)4);
	m->head = layout_of(m->nout - m->apart, 0);
	m->data = layout_of(m->apart, PAGE);
	m->answer = layout_of(7 + fields, 0);
	m->answer_data = layout_of(apart, PAGE);
	m->room = 7 + fields + apart;
	m->in = calloc(1, m->room);
	m->iov = calloc(m->head.n + m->data.n + m->answer.n + m->answer_data.n, sizeof(*m->iov));
	need(m->in && m->iov);
}

/* The server may have changed the descriptors of the last time. */
static void make_ready(struct msg *m)
{
	const uint32_t size = (uint32_t)m->nout;
	struct iovec *wr;

	need(size <= (client.msize ? client.msize : MSIZE_MAX));
	for (unsigned i = 0; i < 4; i++)
		m->out[i] = (uint8_t)(size >> 8 * i);
	layout_fill(&m->head, m->out);
	layout_fill(&m->data, m->out + m->head.len);
	m->req = (struct p9_req){.rd = m->iov, .io = client.io, .reply = answered};
	m->req.nrd = layout_iov(&m->head, m->iov);
	m->req.nrd += layout_iov(&m->data, m->iov + m->req.nrd);
	m->req.wr = wr = m->iov + m->req.nrd;
	m->req.nwr = layout_iov(&m->answer, wr);
	m->req.nwr += layout_iov(&m->answer_data, wr + m->req.nwr);
	m->at = 7;
	__atomic_store_n(&m->answers, 0, __ATOMIC_RELAXED);
}

static void serve(void *arg)
{
	struct msg *m = arg;

	m->refused = p9_serve(client.p9, &m->req);
}

void msg_send(struct msg *m, size_t fields, size_t data)
{
	lay_out(m, fields, data);
	make_ready(m);
	loop_call(client.io, serve, m);
	need(!m->refused);
}

void msg_send_to(struct msg *m, size_t fields, void (*arrived)(struct msg *, void *), void *arg)
{
	m->arrived = arrived;
	m->arg = arg;
	msg_send(m, fields, 0);
}

void msg_again(struct msg *m)
{
	make_ready(m);
	serve(m);
	sound(!m->refused);
}

/* ---- what came back ---- */

static uint64_t get_number(struct msg *m, unsigned n)
{
	uint64_t v = 0;

	if (get_left(m) < n) {
		client_fault(__FILE__, __LINE__, "an answer is too short");
		m->at = m->used;
		return 0;
	}
	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)m->in[m->at++] << 8 * i;
	return v;
}

size_t get_left(const struct msg *m)
{
	return m->used - m->at;
}

uint8_t get1(struct msg *m)
{
	return (uint8_t)get_number(m, 1);
}

uint16_t get2(struct msg *m)
{
	return (uint16_t)get_number(m, 2);
}

uint32_t get4(struct msg *m)
{
	return (uint32_t)get_number(m, 4);
}

uint64_t get8(struct msg *m)
{
	return get_number(m, 8);
}

struct qid get_qid(struct msg *m)
{
	struct qid q = {.type = get1(m)};

	q.version = get4(m);
	q.path = get8(m);
	sound(q.path && (q.type == 0 || q.type == 0x80 || q.type == 0x02));
	return q;
}

void get_bytes(struct msg *m, void *to, size_t n)
{
	if (get_left(m) < n) {
		client_fault(__FILE__, __LINE__, "an answer is too short");
		n = get_left(m);
	}
	memcpy(to, m->in + m->at, n);
	m->at += n;
}

/* In the buffers behind it there is nothing. */
static void sound_behind(const struct msg *m)
{
	bool untouched = true;

	for (size_t i = m->used; i < m->answer.len; i++)
		untouched &= m->in[i] == CANARY;
	sound(untouched);
}

int msg_error(struct msg *m)
{
	uint32_t size, code;
	uint8_t type;

	sound(__atomic_load_n(&m->answers, __ATOMIC_ACQUIRE) == 1);
	need(m->used >= 7 && m->used <= m->room);
	sound(m->used <= (client.msize ? client.msize : MSIZE_MAX));
	layout_take(&m->answer, m->in);
	layout_take(&m->answer_data, m->in + m->answer.len);
	sound_behind(m);
	m->at = 0;
	size = get4(m);
	type = get1(m);
	sound(size == m->used);
	sound(get2(m) == m->tag);
	if (type != P9_RLERROR) {
		sound(type == m->out[4] + 1);
		return 0;
	}
	code = get4(m);
	sound(code && code < 512 && code != EMFILE && !get_left(m));
	return -(int)code;
}

int msg_wait(struct msg *m)
{
	while (sem_wait(&m->done) && errno == EINTR)
		;
	return msg_error(m);
}

int msg_call(struct msg *m, size_t fields, size_t data)
{
	msg_send(m, fields, data);
	return msg_wait(m);
}

void msg_end(struct msg *m)
{
	sound(!get_left(m));
	msg_free(m);
}

int msg_do(struct msg *m)
{
	int r = msg_call(m, 0, 0);

	msg_end(m);
	return r;
}

/* ---- fids ---- */

uint32_t fid_new(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(client.fids); i++)
		if (~client.fids[i]) {
			const unsigned bit = (unsigned)__builtin_ctzll(~client.fids[i]);

			client.fids[i] |= 1ull << bit;
			client.nfids++;
			return i * 64 + bit;
		}
	printf("Bail out! more fids than a client of tests has\n");
	exit(1);
}

void fid_free(uint32_t fid)
{
	client.fids[fid / 64] &= ~(1ull << fid % 64);
	client.nfids--;
}

/* ---- the session ---- */

static int thread_init(void *arg)
{
	return share_thread_init(arg);
}

static void version(uint32_t msize)
{
	struct msg *m = msg_new(P9_TVERSION);
	char said[9] = "";

	put4(m, msize);
	put_string(m, "9P2000.L");
	need(!msg_call(m, 4 + 2 + 8, 0));
	client.msize = get4(m);
	sound(client.msize == MIN((uint64_t)msize, MSIZE_MAX));
	sound(get2(m) == 8);
	get_bytes(m, said, 8);
	sound(!strcmp(said, "9P2000.L"));
	msg_end(m);
}

void client_open(struct share *share, const struct client_how *how)
{
	const struct p9_config cfg = {.multidevs = how->multidevs, .msize_max = MSIZE_MAX};
	const unsigned faults = client.faults;

	memset(&client, 0, sizeof(client));
	client.faults = faults;
	client.share = share;
	client.how = *how;
	need(!p9_create(&client.p9, "9p0", share, &cfg));
	need(!iothread_create(&client.io, "9p0", LOOP_AUTO, 64, &share_syscalls));
	need(!iothread_start(client.io, thread_init, share));
	version(how->msize);
}

static void reset(void *arg)
{
	(void)arg;
	p9_reset(client.p9);
}

/* As a device goes. */
void client_close(void)
{
	loop_call(client.io, reset, NULL);
	iothread_destroy(client.io);
	p9_destroy(client.p9);
}

struct iothread *client_io(void)
{
	return client.io;
}

uint32_t client_msize(void)
{
	return client.msize;
}

int client_attach(uint32_t uid, uint32_t *fid)
{
	struct msg *m = msg_new(P9_TATTACH);
	const uint32_t number = fid_new();
	int r;

	put4(m, number);
	put4(m, P9_NOFID);
	put_string(m, "a user");
	put_string(m, "");
	put4(m, uid);
	r = msg_call(m, 13, 0);
	if (r)
		fid_free(number);
	else
		sound(get_qid(m).type == 0x80);
	msg_end(m);
	if (!r)
		*fid = number;
	return r;
}

struct count {
	size_t fids, inflight, inodes, files;
};

static void look(void *arg)
{
	struct count *c = arg;

	p9_counts(client.p9, &c->fids, &c->inflight);
	c->inodes = share_ninodes(client.share);
	c->files = client.share->nfiles;
}

void client_held(size_t *inodes, size_t *files)
{
	struct count c;

	loop_call(client.io, look, &c);
	sound(c.fids == client.nfids);
	sound(!c.inflight);
	*inodes = c.inodes;
	*files = c.files;
}
