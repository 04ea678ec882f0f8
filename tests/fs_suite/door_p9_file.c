// SPDX-License-Identifier: Apache-2.0
/*
 * door_p9_file.c - open files, what is in them, listings and locks, through a 9P session. See door_p9.h.
 */
#include "door_p9.h"
#include <semaphore.h>

/* ---- opening and closing ---- */

/* Linux's flags by the protocol's numbers; those that do not concern a server are sent too. */
static uint32_t wire_flags(int flags)
{
	static const struct {
		int here;
		uint32_t p9;
	} bits[] = {
		{O_CREAT, 0100},       {O_EXCL, 0200},         {O_TRUNC, 01000},
		{O_APPEND, 02000},     {O_NONBLOCK, 04000},    {O_DSYNC, 010000},
		{O_DIRECT, 040000},    {O_DIRECTORY, 0200000}, {O_NOFOLLOW, 0400000},
		{O_NOATIME, 01000000}, {O_CLOEXEC, 02000000},  {O_SYNC & ~O_DSYNC, 04000000},
	};
	uint32_t out = 0100000 /* as of every 64-bit program */ | (uint32_t)(flags & O_ACCMODE);

	for (unsigned i = 0; i < ARRAY_LEN(bits); i++)
		if (flags & bits[i].here)
			out |= bits[i].p9;
	return out;
}

static struct fs_file *file_new(uint32_t fid, struct qid qid, char *way)
{
	struct fs_file *f = malloc(sizeof(*f));

	need(f);
	*f = (struct fs_file){.fid = fid, .roots = P9_NOFID, .path = qid.path, .way = way};
	d9.nfiles++;
	return f;
}

/* What Rlopen and Rlcreate say. No unit is right: Linux takes what was agreed on (E19). */
static struct qid get_opened(struct msg *m)
{
	const struct qid qid = get_qid(m);

	sound(get4(m) == 0);
	return qid;
}

/* The fid is then open, or as it was. */
static int open_fid(uint32_t fid, int flags, struct qid *qid)
{
	struct msg *m = msg_new(P9_TLOPEN);
	int r;

	put4(m, fid);
	put4(m, wire_flags(flags));
	r = msg_call(m, 13 + 4, 0);
	if (!r)
		*qid = get_opened(m);
	msg_end(m);
	return r;
}

int d9_open(struct fs_obj *o, int flags, struct fs_file **out)
{
	struct qid qid;
	uint32_t fid;
	int r = d9_walk(o->fid, NULL, &fid, NULL);

	if (r)
		return r;
	r = open_fid(fid, flags, &qid);
	if (r) {
		d9_let_go(fid);
		return r;
	}
	sound(qid.path == o->qid.path && qid.type == o->qid.type);
	*out = file_new(fid, qid, strdup(o->way));
	return 0;
}

void d9_release(struct fs_file *f)
{
	d9_let_go(f->fid);
	if (f->roots != P9_NOFID)
		d9_let_go(f->roots);
	d9.nfiles -= 1u + f->roots_open;
	free(f->way);
	free(f);
}

/* The directory's fid becomes the file's. */
static int create_by(uint32_t fid, const char *name, int flags, mode_t mode, uint32_t gid,
		     struct qid *qid)
{
	struct msg *m = msg_new(P9_TLCREATE);
	int r;

	put4(m, fid);
	put_string(m, name);
	put4(m, wire_flags(flags | O_CREAT));
	put4(m, mode);
	put4(m, gid);
	r = msg_call(m, 13 + 4, 0);
	if (!r)
		*qid = get_opened(m);
	msg_end(m);
	return r;
}

int d9_create(struct fs_obj *dir, const char *name, int flags, mode_t mode, const struct cred *who,
	      struct fs_obj **out, struct fs_file **f, struct statx *st)
{
	uint32_t fid = P9_NOFID, gid = 0;
	struct fs_file *file;
	struct qid qid;
	int r;

	mode |= S_IFREG;
	r = d9_make_as(who, dir, &mode, &gid);
	if (!r)
		r = d9_clone_as(who, dir, &fid);
	if (r)
		return r;
	r = create_by(fid, name, flags, mode, gid, &qid);
	if (r) {
		d9_let_go(fid);
		return r;
	}
	file = file_new(fid, qid, d9_way_to(dir, name));
	r = d9_found(dir, name, qid, out, st);
	if (!r && who->uid)
		need(!d9_walk((*out)->fid, NULL, &file->roots, NULL));
	if (r)
		d9_release(file);
	else
		*f = file;
	return r;
}

/* ---- contents ---- */

static size_t unit(void)
{
	return client_msize() - 24; /* as Linux counts */
}

static int read_part(uint32_t fid, enum p9_type type, void *buf, size_t n, uint64_t off)
{
	struct msg *m = msg_new(type);
	int r;

	put4(m, fid);
	put8(m, off);
	put4(m, (uint32_t)n);
	r = msg_call(m, 4, n);
	if (!r) {
		r = (int)get4(m);
		sound((size_t)r <= n && (size_t)r == get_left(m));
		r = (int)MIN((size_t)r, n);
		get_bytes(m, buf, (size_t)r);
	}
	msg_end(m);
	return r;
}

ssize_t d9_read_all(uint32_t fid, void *buf, size_t n, uint64_t off)
{
	size_t at = 0;
	int r;

	do {
		r = read_part(fid, P9_TREAD, (char *)buf + at, MIN(n - at, unit()), off + at);
		if (r < 0)
			return at ? (ssize_t)at : r;
		at += (size_t)r;
	} while (r && at < n);
	return (ssize_t)at;
}

ssize_t d9_read(struct fs_file *f, void *buf, size_t n, uint64_t off)
{
	return d9_read_all(f->fid, buf, n, off);
}

static int write_part(uint32_t fid, const void *buf, size_t n, uint64_t off)
{
	struct msg *m = msg_new(P9_TWRITE);
	int r;

	put4(m, fid);
	put8(m, off);
	put4(m, (uint32_t)n);
	put_data(m, buf, n);
	r = msg_call(m, 4, 0);
	if (!r)
		r = (int)get4(m);
	msg_end(m);
	sound(r <= (int)n);
	return r;
}

ssize_t d9_write_all(uint32_t fid, const void *buf, size_t n, uint64_t off)
{
	size_t at = 0;
	int r;

	do {
		r = write_part(fid, (const char *)buf + at, MIN(n - at, unit()), off + at);
		if (r < 0)
			return at ? (ssize_t)at : r;
		at += (size_t)r;
	} while (r && at < n);
	return (ssize_t)at;
}

/* Who may not keep set-id bits is another user, with the file open by himself. */
static ssize_t write_as_user(const struct fs_file *f, const void *buf, size_t n, uint64_t off)
{
	struct qid qid;
	uint32_t fid;
	ssize_t r = d9_walk_as(1000, f->way, f->path, &fid);

	if (r)
		return r;
	r = open_fid(fid, O_WRONLY, &qid);
	if (!r)
		r = d9_write_all(fid, buf, n, off);
	d9_let_go(fid);
	return r;
}

/* Who may keep them is root, also if another has made the file. */
static ssize_t write_as_root(struct fs_file *f, const void *buf, size_t n, uint64_t off)
{
	struct qid qid;
	int r = f->roots_open ? 0 : open_fid(f->roots, O_WRONLY, &qid);

	if (r)
		return r;
	d9.nfiles += !f->roots_open;
	f->roots_open = true;
	return d9_write_all(f->roots, buf, n, off);
}

ssize_t d9_write(struct fs_file *f, const void *buf, size_t n, uint64_t off, unsigned how)
{
	if (how & FS_KILL_PRIV)
		return write_as_user(f, buf, n, off);
	if (f->roots != P9_NOFID)
		return write_as_root(f, buf, n, off);
	return d9_write_all(f->fid, buf, n, off);
}

int d9_fsync(struct fs_file *f, bool data_only)
{
	struct msg *m = msg_new(P9_TFSYNC);

	put4(m, f->fid);
	if (!d9.how.old) /* those did not say */
		put4(m, data_only);
	return msg_do(m);
}

/* ---- listing ---- */

static uint8_t *entry_get(uint8_t *p, const uint8_t *end, struct fs_dirent *d)
{
	uint16_t len;

	need(end - p >= 24);
	memcpy(&len, p + 22, sizeof(len));
	need(end - p >= 24 + len && len < sizeof(d->name));
	*d = (struct fs_dirent){.type = p[21]};
	memcpy(&d->ino, p + 5, sizeof(d->ino));
	memcpy(&d->next, p + 13, sizeof(d->next));
	memcpy(d->name, p + 24, len);
	sound(p[0] == (d->type == DT_DIR ? P9_QTDIR : d->type == DT_LNK ? P9_QTSYMLINK : 0));
	return p + 24 + len;
}

/* Of an answer that has more than max the rest is asked for again. */
ssize_t d9_readdir(struct fs_file *f, uint64_t off, size_t room, struct fs_dirent *out, size_t max)
{
	uint8_t buf[65536], *at = buf;
	ssize_t n = 0;
	int r;

	need(room <= sizeof(buf));
	r = read_part(f->fid, P9_TREADDIR, buf, MIN(room, unit()), off);
	if (r < 0)
		return r;
	while (at < buf + r && (size_t)n < max)
		at = entry_get(at, buf + r, &out[n++]);
	return n;
}

/* ---- locks ---- */

static const uint8_t lock_types[] = {
	[F_RDLCK] = P9_LOCK_RDLCK, [F_WRLCK] = P9_LOCK_WRLCK, [F_UNLCK] = P9_LOCK_UNLCK};

static void put_range(struct msg *m, const struct share_lock *lock, uint64_t owner)
{
	put8(m, lock->start);
	put8(m, lock->end == INT64_MAX ? 0 : lock->end - lock->start + 1);
	put4(m, (uint32_t)owner);
	put_string(m, "a guest");
}

static struct msg *lock_msg(const struct fs_file *f, uint64_t owner, const struct share_lock *lock,
			    uint32_t flags)
{
	struct msg *m = msg_new(P9_TLOCK);

	put4(m, f->fid);
	put1(m, lock_types[lock->type]);
	put4(m, flags);
	put_range(m, lock, owner);
	return m;
}

int d9_getlk(struct fs_file *f, uint64_t owner, struct share_lock *lock)
{
	struct msg *m = msg_new(P9_TGETLOCK);
	uint64_t len;
	uint8_t type;
	char by[16];
	int r;

	put4(m, f->fid);
	put1(m, lock_types[lock->type]);
	put_range(m, lock, owner);
	r = msg_call(m, 1 + 8 + 8 + 4 + 2 + 7, 0);
	if (!r) {
		type = get1(m);
		*lock = (struct share_lock){.start = get8(m)};
		len = get8(m);
		lock->end = len ? lock->start + len - 1 : INT64_MAX;
		lock->type = type == P9_LOCK_RDLCK   ? F_RDLCK
			     : type == P9_LOCK_WRLCK ? F_WRLCK
						     : F_UNLCK;
		lock->pid = get4(m);
		get_bytes(m, by, get2(m));
	}
	msg_end(m);
	return r;
}

int d9_setlk(struct fs_file *f, uint64_t owner, const struct share_lock *lock)
{
	struct msg *m = lock_msg(f, owner, lock, 0);
	int r = msg_call(m, 1, 0);
	uint8_t status = r ? 0 : get1(m);

	msg_end(m);
	sound(status == P9_LOCK_SUCCESS || status == P9_LOCK_BLOCKED);
	return r ? r : status == P9_LOCK_BLOCKED ? -EAGAIN : 0;
}

void d9_flush(struct fs_file *f, uint64_t owner)
{
	const struct share_lock all = {.type = F_UNLCK, .end = INT64_MAX};

	sound(!d9_setlk(f, owner, &all));
}

/* Whoever is told BLOCKED asks again, until he gives up. All but msg and done is the iothread's. */
struct fs_wait {
	struct msg *msg;
	struct loop_work again;
	bool given_up;
	int result;
	sem_t done;
};

static void wait_over(struct fs_wait *w, int result)
{
	w->result = result;
	sem_post(&w->done);
}

static void wait_again(struct loop_work *work)
{
	struct fs_wait *w = container_of(work, struct fs_wait, again);

	if (w->given_up)
		wait_over(w, -EINTR);
	else
		msg_again(w->msg);
}

static void wait_arrived(struct msg *m, void *arg)
{
	struct fs_wait *w = arg;
	const int r = msg_error(m);
	const uint8_t status = r ? 0 : get1(m);

	sound(!get_left(m));
	if (r || status == P9_LOCK_SUCCESS)
		wait_over(w, r);
	else
		loop_post(client_io(), &w->again);
}

struct fs_wait *d9_setlkw(struct fs_file *f, uint64_t owner, const struct share_lock *lock)
{
	struct fs_wait *w = calloc(1, sizeof(*w));

	need(w);
	sem_init(&w->done, 0, 0);
	w->again.fn = wait_again;
	w->msg = lock_msg(f, owner, lock, P9_LOCK_BLOCK);
	msg_send_to(w->msg, 1, wait_arrived, w);
	return w;
}

static void give_up(void *arg)
{
	struct fs_wait *w = arg;

	w->given_up = true;
}

/* A signal: the message is flushed. */
static void flush(struct fs_wait *w)
{
	struct msg *m = msg_new(P9_TFLUSH);

	loop_call(client_io(), give_up, w);
	put2(m, msg_tag(w->msg));
	sound(!msg_do(m));
}

int d9_waited(struct fs_wait *w, bool cancel)
{
	int r;

	if (cancel)
		flush(w);
	while (sem_wait(&w->done) && errno == EINTR)
		;
	r = w->result;
	sem_destroy(&w->done);
	msg_free(w->msg);
	free(w);
	return r;
}
