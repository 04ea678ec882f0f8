// SPDX-License-Identifier: Apache-2.0
/*
 * door_fuse.c - a share through a FUSE session, as Linux speaks it: requests out, replies in, nothing cached.
 *
 * What the guest's kernel does beside its requests is done here: it remembers what was answered ENOSYS, opens nothing
 * where it need not, truncates itself what OPEN does not, leaves out of modes what the umask takes, splits what is
 * longer than one message. Each lookup is forgotten alone. Sending and judging replies: ../fuse_door.h.
 */
#include "door.h"
#include "../fuse_door.h"
#include <assert.h>
#include <sys/sysmacros.h>

struct fs_file {
	uint64_t node, fh;
	bool given; /* the handle is one of the server's */
	bool dir;
};

static struct {
	struct fs_fuse how;
	bool no_open, no_opendir; /* was answered ENOSYS */
	uint64_t flags;           /* agreed on */
	unsigned turn;
	unsigned faults;
} guest;

/* A node id, in place of a pointer. Whatever is asked of it is asked of the next thread. */
static uint64_t node_of(const struct fs_obj *o)
{
	door_via = door.threads[guest.turn++ % door.nthreads];
	return (uintptr_t)o;
}

static struct fs_obj *obj_of(uint64_t node)
{
	return (struct fs_obj *)(uintptr_t)node;
}

static bool agreed(uint64_t flags)
{
	return (guest.flags & flags) == flags;
}

/* What holds of each of thousands of replies. */
#define sound(cond)                                                        \
	do {                                                               \
		if (!(cond)) {                                             \
			printf("# door_fuse.c:%d: %s\n", __LINE__, #cond); \
			guest.faults++;                                    \
		}                                                          \
	} while (0)

/* ---- its life ---- */

static void session_begin(void)
{
	const uint64_t tells = FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT;
	const uint64_t newer = guest.how.newest ? UINT64_MAX : UINT32_MAX & ~FUSE_INIT_EXT;
	struct fuse_init_out out;

	need(ask_init(7, guest.how.newest ? 45 : 31, guest.how.untold ? newer : newer & ~tells,
		      &out) == sizeof(out));
	guest.flags = out.flags | (uint64_t)out.flags2 << 32;
	sound(out.max_write == DOOR_IO);
}

static int door_mount(const struct fs_setup *setup, const char *path)
{
	static const struct fs_fuse plain = {.cache = FUSE_CACHE_AUTO};
	struct share_config share = setup->share;
	struct fuse_config cfg;
	struct share *try;
	char copy[PATH_MAX];
	int err;

	snprintf(copy, sizeof(copy), "%s", path);
	share.path = copy;
	err = share_open(&try, "fs0", &share);
	if (err)
		return err;
	share_close(try);
	guest.how = setup->door ? *(const struct fs_fuse *)setup->door : plain;
	guest.no_open = guest.no_opendir = false;
	door_via = NULL; /* of a door that was closed */
	cfg = IN_MODE(guest.how.cache);
	cfg.writeback = guest.how.writeback;
	door.nthreads = guest.how.threads;
	door_open_share(cfg, share);
	if (setup->by_name)
		door.share->handles = false;
	session_begin();
	return 0;
}

/* The root is never forgotten, so what is kept of it stays: it is not one of those that are looked for. */
static void root_close(void *arg)
{
	(void)arg;
	fuse_lock(door.fuse);
	fuse_kept_drop(door.fuse, &door.fuse->root);
	fuse_unlock(door.fuse);
}

static struct fs_held door_held(void)
{
	struct held h;

	loop_call(door.io, root_close, NULL);
	h = held();

	sound(h.inodes == h.nodes + 1);
	return (struct fs_held){.objects = h.nodes, .files = h.handles + h.kept + h.files};
}

static unsigned door_faults(void)
{
	return guest.faults + (unsigned)tap_failed;
}

static bool door_untold(void)
{
	return guest.no_open || guest.no_opendir;
}

/* ---- asking ---- */

/* Bytes or -errno. who: NULL is root. */
static int ask_as(const struct cred *who, uint32_t opcode, uint64_t node, const void *arg,
		  size_t arg_len, const void *more, size_t more_len, void *out, size_t room)
{
	const uint32_t group[] = {16, FUSE_EXT_GROUPS, 1, who ? who->group : 0};
	const bool grouped = who && who->has_group && agreed(FUSE_CREATE_SUPP_GROUP);
	uint8_t *rest = malloc(more_len + sizeof(group));
	struct fuse_in_header h;
	struct sent *s;

	need(rest);
	if (more_len)
		memcpy(rest, more, more_len);
	memcpy(rest + more_len, group, sizeof(group));
	s = sent_make(opcode, node, arg, arg_len, rest, more_len + (grouped ? sizeof(group) : 0),
		      room);
	free(rest);
	memcpy(&h, s->rd, sizeof(h));
	h.uid = who ? who->uid : 0;
	h.gid = who ? who->gid : 0;
	h.total_extlen = grouped ? 2 : 0;
	memcpy(s->rd, &h, sizeof(h));
	sent_send(s);
	return sent_finish(s, out, room);
}

static int ask_name(uint32_t opcode, uint64_t node, const char *name)
{
	return MIN(ask(opcode, node, name, strlen(name) + 1, NULL, 0), 0);
}

/* Two names, one after the other. */
static size_t join(char *out, const char *a, const char *b)
{
	const size_t na = strlen(a) + 1, nb = strlen(b) + 1;

	memcpy(out, a, na);
	memcpy(out + na, b, nb);
	return na + nb;
}

/* ---- attributes as Linux has them ---- */

static struct statx_timestamp time_of(uint64_t sec, uint32_t nsec)
{
	return (struct statx_timestamp){.tv_sec = (int64_t)sec, .tv_nsec = nsec};
}

static void attr_get(const struct fuse_attr *a, struct statx *st)
{
	*st = (struct statx){
		.stx_mask = STATX_BASIC_STATS,
		.stx_ino = a->ino,
		.stx_size = a->size,
		.stx_blocks = a->blocks,
		.stx_atime = time_of(a->atime, a->atimensec),
		.stx_mtime = time_of(a->mtime, a->mtimensec),
		.stx_ctime = time_of(a->ctime, a->ctimensec),
		.stx_mode = (uint16_t)a->mode,
		.stx_nlink = a->nlink,
		.stx_uid = a->uid,
		.stx_gid = a->gid,
		.stx_blksize = a->blksize,
		.stx_rdev_major = a->rdev >> 8 & 0xfff,
		.stx_rdev_minor = (a->rdev & 0xff) | (a->rdev >> 12 & 0xfff00),
	};
	sound(a->mode <= UINT16_MAX && a->ino && (int64_t)a->size >= 0);
}

static struct statx_timestamp newer_time(struct fuse_sx_time t)
{
	return (struct statx_timestamp){.tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec};
}

static int statx_get(uint64_t node, uint32_t flags, uint64_t fh, struct statx *st)
{
	const struct fuse_statx_in in = {
		.getattr_flags = flags, .fh = fh, .sx_mask = STATX_BASIC_STATS | STATX_BTIME};
	struct fuse_statx_out o;
	int r = ask(FUSE_STATX, node, &in, sizeof(in), &o, sizeof(o));

	if (r < 0)
		return r;
	*st = (struct statx){
		.stx_mask = o.stat.mask,
		.stx_ino = o.stat.ino,
		.stx_size = o.stat.size,
		.stx_blocks = o.stat.blocks,
		.stx_atime = newer_time(o.stat.atime),
		.stx_btime = newer_time(o.stat.btime),
		.stx_mtime = newer_time(o.stat.mtime),
		.stx_ctime = newer_time(o.stat.ctime),
		.stx_mode = o.stat.mode,
		.stx_nlink = o.stat.nlink,
		.stx_uid = o.stat.uid,
		.stx_gid = o.stat.gid,
		.stx_blksize = o.stat.blksize,
		.stx_rdev_major = o.stat.rdev_major,
		.stx_rdev_minor = o.stat.rdev_minor,
	};
	sound((o.stat.mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
	return 0;
}

static int door_getattr(struct fs_obj *o, struct fs_file *f, struct statx *st)
{
	const bool by_file = f && f->given;
	const struct fuse_getattr_in in = {.getattr_flags = by_file ? FUSE_GETATTR_FH : 0,
					   .fh = by_file ? f->fh : 0};
	struct fuse_attr_out out;
	int r;

	if (guest.how.newest)
		return statx_get(node_of(o), in.getattr_flags, in.fh, st);
	r = ask(FUSE_GETATTR, node_of(o), &in, sizeof(in), &out, sizeof(out));
	if (r < 0)
		return r;
	attr_get(&out.attr, st);
	return 0;
}

static void time_put(const struct timespec *t, bool *now, uint64_t *sec, uint32_t *nsec)
{
	*now = t->tv_nsec == UTIME_NOW;
	*sec = *now ? 0 : (uint64_t)t->tv_sec;
	*nsec = *now ? 0 : (uint32_t)t->tv_nsec;
}

static void setattr_put(const struct share_attr *a, struct fuse_setattr_in *in)
{
	static const uint32_t valid[][2] = {
		{SHARE_MODE, FATTR_MODE},
		{SHARE_UID, FATTR_UID},
		{SHARE_GID, FATTR_GID},
		{SHARE_SIZE, FATTR_SIZE},
		{SHARE_ATIME, FATTR_ATIME},
		{SHARE_MTIME, FATTR_MTIME},
		{SHARE_KILL_PRIV, FATTR_KILL_SUIDGID},
	};
	bool now;

	*in = (struct fuse_setattr_in){
		.mode = a->mode, .uid = a->uid, .gid = a->gid, .size = a->size};
	for (unsigned i = 0; i < ARRAY_LEN(valid); i++)
		if (a->mask & valid[i][0])
			in->valid |= valid[i][1];
	time_put(&a->atime, &now, &in->atime, &in->atimensec);
	if (now && a->mask & SHARE_ATIME)
		in->valid |= FATTR_ATIME_NOW;
	time_put(&a->mtime, &now, &in->mtime, &in->mtimensec);
	if (now && a->mask & SHARE_MTIME)
		in->valid |= FATTR_MTIME_NOW;
}

static int door_setattr(struct fs_obj *o, struct fs_file *f, const struct share_attr *a,
			struct statx *st)
{
	struct fuse_setattr_in in;
	struct fuse_attr_out out;
	int r;

	setattr_put(a, &in);
	if (f && f->given) {
		in.valid |= FATTR_FH;
		in.fh = f->fh;
	}
	r = ask(FUSE_SETATTR, node_of(o), &in, sizeof(in), &out, sizeof(out));
	if (r < 0)
		return r;
	attr_get(&out.attr, st);
	return 0;
}

static int door_statfs(struct fs_obj *o, struct statfs *st)
{
	struct fuse_statfs_out out;
	int r = ask(FUSE_STATFS, node_of(o), NULL, 0, &out, sizeof(out));

	if (r < 0)
		return r;
	*st = (struct statfs){
		.f_blocks = out.st.blocks,
		.f_bfree = out.st.bfree,
		.f_bavail = out.st.bavail,
		.f_files = out.st.files,
		.f_ffree = out.st.ffree,
		.f_bsize = out.st.bsize,
		.f_namelen = out.st.namelen,
		.f_frsize = out.st.frsize,
	};
	return 0;
}

static int door_syncfs(struct fs_obj *o)
{
	const struct fuse_syncfs_in in = {0};

	return MIN(ask(FUSE_SYNCFS, node_of(o), &in, sizeof(in), NULL, 0), 0);
}

/* ---- objects and names ---- */

static struct fs_obj *door_root(void)
{
	return obj_of(ROOT);
}

static bool door_same(const struct fs_obj *a, const struct fs_obj *b)
{
	return a == b;
}

static void door_forget(struct fs_obj *o)
{
	if (node_of(o) != ROOT)
		forget(node_of(o), 1);
}

static int entry_get(int r, const struct fuse_entry_out *e, struct fs_obj **out, struct statx *st)
{
	if (r < 0)
		return r;
	if (!e->nodeid)
		return -ENOENT;
	attr_get(&e->attr, st);
	*out = obj_of(e->nodeid);
	return 0;
}

static int door_lookup(struct fs_obj *dir, const char *name, struct fs_obj **out, struct statx *st)
{
	struct fuse_entry_out e = {0};
	int r = ask_lookup(node_of(dir), name, &e);

	sound(r < 0 || e.nodeid || guest.how.cache == FUSE_CACHE_ALWAYS);
	return entry_get(r, &e, out, st);
}

static ssize_t door_readlink(struct fs_obj *o, char *buf, size_t n)
{
	return ask(FUSE_READLINK, node_of(o), NULL, 0, buf, n);
}

static mode_t masked(mode_t mode, const struct cred *who)
{
	return agreed(FUSE_DONT_MASK) ? mode : mode & ~who->umask;
}

static int door_mknod(struct fs_obj *dir, const char *name, mode_t mode, dev_t rdev,
		      const struct cred *who, struct fs_obj **out, struct statx *st)
{
	const uint32_t min = minor(rdev);
	const struct fuse_mknod_in in = {
		.mode = masked(mode, who),
		.rdev = (min & 0xff) | major(rdev) << 8 | (min & ~0xffu) << 12,
		.umask = who->umask,
	};
	struct fuse_entry_out e;
	int r = ask_as(who, FUSE_MKNOD, node_of(dir), &in, sizeof(in), name, strlen(name) + 1, &e,
		       sizeof(e));

	return entry_get(r, &e, out, st);
}

static int door_mkdir(struct fs_obj *dir, const char *name, mode_t mode, const struct cred *who,
		      struct fs_obj **out, struct statx *st)
{
	const struct fuse_mkdir_in in = {.mode = masked(mode, who), .umask = who->umask};
	struct fuse_entry_out e;
	int r = ask_as(who, FUSE_MKDIR, node_of(dir), &in, sizeof(in), name, strlen(name) + 1, &e,
		       sizeof(e));

	return entry_get(r, &e, out, st);
}

static int door_symlink(struct fs_obj *dir, const char *name, const char *target,
			const struct cred *who, struct fs_obj **out, struct statx *st)
{
	char both[2 * PATH_MAX];
	struct fuse_entry_out e;
	int r = ask_as(who, FUSE_SYMLINK, node_of(dir), both, join(both, name, target), NULL, 0, &e,
		       sizeof(e));

	return entry_get(r, &e, out, st);
}

static int door_link(struct fs_obj *o, struct fs_obj *dir, const char *name, struct statx *st)
{
	const struct fuse_link_in in = {.oldnodeid = node_of(o)};
	struct fs_obj *again = NULL;
	struct fuse_entry_out e;
	int r = ask2(FUSE_LINK, node_of(dir), &in, sizeof(in), name, strlen(name) + 1, &e,
		     sizeof(e));

	r = entry_get(r, &e, &again, st);
	if (r)
		return r;
	sound(again == o);
	door_forget(again);
	return 0;
}

static int door_unlink(struct fs_obj *dir, const char *name)
{
	return ask_name(FUSE_UNLINK, node_of(dir), name);
}

static int door_rmdir(struct fs_obj *dir, const char *name)
{
	return ask_name(FUSE_RMDIR, node_of(dir), name);
}

static int door_rename(struct fs_obj *dir, const char *name, struct fs_obj *newdir,
		       const char *newname, unsigned flags)
{
	const struct fuse_rename_in plain = {.newdir = node_of(newdir)};
	const struct fuse_rename2_in in = {.newdir = node_of(newdir), .flags = flags};
	char both[1024];
	const size_t n = join(both, name, newname);

	if (!flags)
		return MIN(ask2(FUSE_RENAME, node_of(dir), &plain, sizeof(plain), both, n, NULL, 0),
			   0);
	return MIN(ask2(FUSE_RENAME2, node_of(dir), &in, sizeof(in), both, n, NULL, 0), 0);
}

/* ---- opening and closing ---- */

static struct fs_file *file_new(uint64_t node, bool dir, const struct fuse_open_out *o)
{
	struct fs_file *f = malloc(sizeof(*f));

	need(f);
	*f = (struct fs_file){.node = node, .dir = dir, .given = o, .fh = o ? o->fh : 0};
	return f;
}

/* Without an OPEN that does it. */
static int truncate_it(struct fs_obj *o, struct fs_file *f)
{
	const struct share_attr attr = {.mask = SHARE_SIZE};
	struct statx st;

	return door_setattr(o, f, &attr, &st);
}

static int open_told(struct fs_obj *o, int flags, bool dir, struct fs_file **out)
{
	struct fuse_open_out opened;
	int r = ask_open_as(dir ? FUSE_OPENDIR : FUSE_OPEN, node_of(o), (uint32_t)flags, &opened);

	if (r < 0)
		return r;
	/* The page cache is not used only where nothing is to be cached. */
	sound(dir ||
	      !(opened.open_flags & FOPEN_DIRECT_IO) == (guest.how.cache != FUSE_CACHE_NEVER));
	*out = file_new(node_of(o), dir, &opened);
	return 0;
}

static int door_open_obj(struct fs_obj *o, int flags, struct fs_file **out)
{
	const bool dir = flags & O_DIRECTORY;
	bool *untold = dir ? &guest.no_opendir : &guest.no_open;
	int r = *untold ? -ENOSYS : open_told(o, flags, dir, out);

	if (r != -ENOSYS)
		return r;
	sound(guest.how.untold);
	*untold = true;
	r = flags & O_TRUNC ? truncate_it(o, NULL) : 0;
	if (!r)
		*out = file_new(node_of(o), dir, NULL);
	return r;
}

static void door_release(struct fs_file *f)
{
	const struct fuse_release_in in = {.fh = f->fh};

	if (f->given)
		sound(ask(f->dir ? FUSE_RELEASEDIR : FUSE_RELEASE, f->node, &in, sizeof(in), NULL,
			  0) == 0);
	free(f);
}

static int create_by(uint32_t opcode, struct fs_obj *dir, const char *name, int flags, mode_t mode,
		     const struct cred *who, struct fs_obj **out, struct fs_file **f,
		     struct statx *st)
{
	const struct fuse_create_in in = {.flags = (uint32_t)(flags | O_CREAT),
					  .mode = masked(S_IFREG | mode, who),
					  .umask = who->umask};
	struct {
		struct fuse_entry_out e;
		struct fuse_open_out o;
	} both;
	int r = ask_as(who, opcode, node_of(dir), &in, sizeof(in), name, strlen(name) + 1, &both,
		       sizeof(both));

	r = entry_get(r, &both.e, out, st);
	if (r)
		return r;
	*f = file_new(both.e.nodeid, false, &both.o);
	/* It is released by Linux even if it is none. */
	(*f)->given = both.o.fh || !guest.how.untold;
	return 0;
}

static int door_create(struct fs_obj *dir, const char *name, int flags, mode_t mode,
		       const struct cred *who, struct fs_obj **out, struct fs_file **f,
		       struct statx *st)
{
	int r = create_by(FUSE_CREATE, dir, name, flags, mode, who, out, f, st);

	if (r || !(flags & O_TRUNC) || agreed(FUSE_ATOMIC_O_TRUNC))
		return r;
	r = truncate_it(*out, *f);
	return r ? r : door_getattr(*out, *f, st);
}

static int door_tmpfile(struct fs_obj *dir, int flags, mode_t mode, const struct cred *who,
			struct fs_obj **out, struct fs_file **f, struct statx *st)
{
	return create_by(FUSE_TMPFILE, dir, "/", flags, mode, who, out, f, st);
}

/* ---- contents ---- */

static ssize_t door_read(struct fs_file *f, void *buf, size_t n, uint64_t off)
{
	size_t at = 0;
	int r;

	do {
		const uint32_t part = (uint32_t)MIN(n - at, (size_t)DOOR_IO);

		r = ask_read(FUSE_READ, f->node, f->fh, off + at, (char *)buf + at, part);
		if (r < 0)
			return at ? (ssize_t)at : r;
		at += (size_t)r;
	} while (r && at < n);
	return (ssize_t)at;
}

static int write_part(struct fs_file *f, const void *buf, uint32_t n, uint64_t off, unsigned how)
{
	const uint32_t cached = agreed(FUSE_WRITEBACK_CACHE) ? FUSE_WRITE_CACHE : 0;
	const struct fuse_write_in in = {
		.fh = f->fh,
		.offset = off,
		.size = n,
		.write_flags = cached | (how & FS_KILL_PRIV ? FUSE_WRITE_KILL_SUIDGID : 0),
	};
	struct fuse_write_out o;
	int r = ask2(FUSE_WRITE, f->node, &in, sizeof(in), buf, n, &o, sizeof(o));

	return r < 0 ? r : (int)o.size;
}

static ssize_t door_write(struct fs_file *f, const void *buf, size_t n, uint64_t off, unsigned how)
{
	size_t at = 0;
	int r;

	do {
		r = write_part(f, (const char *)buf + at, (uint32_t)MIN(n - at, (size_t)DOOR_IO),
			       off + at, how);
		if (r < 0)
			return at ? (ssize_t)at : r;
		at += (size_t)r;
	} while (r && at < n);
	return (ssize_t)at;
}

static int door_fsync(struct fs_file *f, bool data_only)
{
	const struct fuse_fsync_in in = {.fh = f->fh,
					 .fsync_flags = data_only ? FUSE_FSYNC_FDATASYNC : 0};

	return MIN(ask(f->dir ? FUSE_FSYNCDIR : FUSE_FSYNC, f->node, &in, sizeof(in), NULL, 0), 0);
}

static int door_fallocate(struct fs_file *f, int mode, uint64_t off, uint64_t len)
{
	const struct fuse_fallocate_in in = {
		.fh = f->fh, .offset = off, .length = len, .mode = (uint32_t)mode};

	return MIN(ask(FUSE_FALLOCATE, f->node, &in, sizeof(in), NULL, 0), 0);
}

static int64_t door_lseek(struct fs_file *f, uint64_t off, int whence)
{
	const struct fuse_lseek_in in = {.fh = f->fh, .offset = off, .whence = (uint32_t)whence};
	struct fuse_lseek_out o;
	int r = ask(FUSE_LSEEK, f->node, &in, sizeof(in), &o, sizeof(o));

	sound(r != -ENOSYS || guest.how.writeback);
	return r < 0 ? r : (int64_t)o.offset;
}

static int64_t door_copy(struct fs_file *from, uint64_t from_off, struct fs_file *to,
			 uint64_t to_off, uint64_t len)
{
	const struct fuse_copy_file_range_in in = {
		.fh_in = from->fh,
		.off_in = from_off,
		.nodeid_out = to->node,
		.fh_out = to->fh,
		.off_out = to_off,
		.len = len,
	};
	union {
		struct fuse_write_out old;
		struct fuse_copy_file_range_out now;
	} o;
	const bool newest = guest.how.newest;
	int r = ask(newest ? FUSE_COPY_FILE_RANGE_64 : FUSE_COPY_FILE_RANGE, from->node, &in,
		    sizeof(in), &o, sizeof(o));

	if (r < 0)
		return r;
	return newest ? (int64_t)o.now.bytes_copied : o.old.size;
}

static ssize_t door_ioctl(struct fs_file *f, unsigned cmd, void *arg, size_t in_n, size_t out_n)
{
	const struct fuse_ioctl_in in = {
		.fh = f->fh,
		.flags = f->dir ? FUSE_IOCTL_DIR : 0,
		.cmd = cmd,
		.in_size = (uint32_t)in_n,
		.out_size = (uint32_t)out_n,
	};
	struct {
		struct fuse_ioctl_out o;
		uint8_t data[256];
	} out;
	int r = ask2(FUSE_IOCTL, f->node, &in, sizeof(in), arg, in_n, &out, sizeof(out.o) + out_n);

	if (r < 0)
		return r;
	sound(!out.o.result && !out.o.flags);
	r -= (int)sizeof(out.o);
	memcpy(arg, out.data, (size_t)r);
	return r;
}

/* ---- listing ---- */

/* With attributes: an entry that was looked up is one more lookup of it. */
static void plus_get(const struct fuse_entry_out *e, const struct fs_dirent *d)
{
	const bool dots = !strcmp(d->name, ".") || !strcmp(d->name, "..");

	sound(!dots || !e->nodeid);
	if (!e->nodeid)
		return;
	sound(e->attr.ino == d->ino && IFTODT(e->attr.mode) == d->type);
	forget(e->nodeid, 1);
}

static size_t entries_get(const uint8_t *buf, size_t len, bool plus, struct fs_dirent *out)
{
	struct fuse_entry_out e = {0};
	struct fuse_dirent d;
	size_t n = 0, at = 0;

	while (at < len) {
		if (plus)
			memcpy(&e, buf + at, sizeof(e));
		at += plus ? sizeof(e) : 0;
		memcpy(&d, buf + at, FUSE_NAME_OFFSET);
		need(at + FUSE_NAME_OFFSET + d.namelen <= len && d.namelen < sizeof(out[n].name));
		out[n] = (struct fs_dirent){
			.ino = d.ino, .next = d.off, .type = (unsigned char)d.type};
		memcpy(out[n].name, buf + at + FUSE_NAME_OFFSET, d.namelen);
		if (plus)
			plus_get(&e, &out[n]);
		at += FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + d.namelen);
		n++;
	}
	sound(at == len);
	return n;
}

/* room is as if attributes took none. */
static ssize_t door_readdir(struct fs_file *f, uint64_t off, size_t room, struct fs_dirent *out,
			    size_t max)
{
	const bool plus = guest.how.plus;
	const size_t least = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + 1), per = plus ? 128 : 0;
	uint8_t buf[65536];
	int r;

	static_assert(sizeof(struct fuse_entry_out) == 128, "a wire struct");
	room = MIN(room, max * least);
	room += per * (1 + room / 280);
	need(room <= sizeof(buf));
	r = ask_read(plus ? FUSE_READDIRPLUS : FUSE_READDIR, f->node, f->fh, off, buf,
		     (uint32_t)room);
	return r < 0 ? r : (ssize_t)entries_get(buf, (size_t)r, plus, out);
}

/* ---- extended attributes ---- */

/* A kernel that was answered ENOSYS says this to everyone. */
static int no_xattr(int r)
{
	return r == -ENOSYS ? -EOPNOTSUPP : r;
}

static ssize_t xattr_got(int r, size_t n, const uint8_t *value, void *buf)
{
	struct fuse_getxattr_out o;

	if (r < 0)
		return no_xattr(r);
	if (!n) {
		memcpy(&o, value, sizeof(o));
		return o.size;
	}
	memcpy(buf, value, (size_t)r);
	return r;
}

static ssize_t xattr_ask(uint32_t opcode, uint64_t node, const char *name, void *buf, size_t n)
{
	const struct fuse_getxattr_in in = {.size = (uint32_t)n};
	const size_t room = n ? n : sizeof(struct fuse_getxattr_out);
	uint8_t *value = malloc(room);
	ssize_t r;

	need(value);
	r = ask2(opcode, node, &in, sizeof(in), name, name ? strlen(name) + 1 : 0, value, room);
	r = xattr_got((int)r, n, value, buf);
	free(value);
	return r;
}

static ssize_t door_getxattr(struct fs_obj *o, const char *name, void *buf, size_t n)
{
	return xattr_ask(FUSE_GETXATTR, node_of(o), name, buf, n);
}

static ssize_t door_listxattr(struct fs_obj *o, char *buf, size_t n)
{
	return xattr_ask(FUSE_LISTXATTR, node_of(o), NULL, buf, n);
}

static int door_setxattr(struct fs_obj *o, const char *name, const void *value, size_t n, int flags,
			 bool kill_sgid)
{
	const struct fuse_setxattr_in in = {
		.size = (uint32_t)n,
		.flags = (uint32_t)flags,
		.setxattr_flags = kill_sgid ? FUSE_SETXATTR_ACL_KILL_SGID : 0,
	};
	const size_t name_n = strlen(name) + 1;
	char *both = malloc(name_n + n);
	int r;

	need(both);
	memcpy(both, name, name_n);
	memcpy(both + name_n, value, n);
	r = ask2(FUSE_SETXATTR, node_of(o), &in,
		 agreed(FUSE_SETXATTR_EXT) ? sizeof(in) : FUSE_COMPAT_SETXATTR_IN_SIZE, both,
		 name_n + n, NULL, 0);
	free(both);
	return no_xattr(MIN(r, 0));
}

static int door_removexattr(struct fs_obj *o, const char *name)
{
	return no_xattr(ask_name(FUSE_REMOVEXATTR, node_of(o), name));
}

/* ---- locks ---- */

static struct fuse_lk_in lock_put(const struct fs_file *f, uint64_t owner,
				  const struct share_lock *lock)
{
	return (struct fuse_lk_in){
		.fh = f->fh,
		.owner = owner,
		.lk = {.start = lock->start,
		       .end = lock->flock ? INT64_MAX : lock->end,
		       .type = (uint32_t)lock->type,
		       .pid = lock->pid},
		.lk_flags = lock->flock ? FUSE_LK_FLOCK : 0,
	};
}

static int door_getlk(struct fs_file *f, uint64_t owner, struct share_lock *lock)
{
	const struct fuse_lk_in in = lock_put(f, owner, lock);
	struct fuse_lk_out o;
	int r = ask(FUSE_GETLK, f->node, &in, sizeof(in), &o, sizeof(o));

	if (r < 0)
		return r;
	*lock = (struct share_lock){
		.start = o.lk.start, .end = o.lk.end, .type = (int)o.lk.type, .pid = o.lk.pid};
	return 0;
}

static int door_setlk(struct fs_file *f, uint64_t owner, const struct share_lock *lock)
{
	const struct fuse_lk_in in = lock_put(f, owner, lock);

	return MIN(ask(FUSE_SETLK, f->node, &in, sizeof(in), NULL, 0), 0);
}

/* Not dereferenced as such. */
static struct fs_wait *door_setlkw(struct fs_file *f, uint64_t owner, const struct share_lock *lock)
{
	const struct fuse_lk_in in = lock_put(f, owner, lock);
	struct sent *s = sent_make(FUSE_SETLKW, f->node, &in, sizeof(in), NULL, 0, 0);

	sent_send(s);
	return (struct fs_wait *)s;
}

static int door_waited(struct fs_wait *w, bool cancel)
{
	struct sent *s = (struct sent *)w, *end;
	const struct fuse_interrupt_in in = {.unique = s->unique};

	if (cancel) {
		end = sent_make(FUSE_INTERRUPT, 0, &in, sizeof(in), NULL, 0, 0);
		end->req.nwr = 0;
		sent_send(end);
		need(sent_finish(end, NULL, 0) == 0);
	}
	return sent_finish(s, NULL, 0);
}

static void door_flush(struct fs_file *f, uint64_t owner)
{
	const struct fuse_flush_in in = {.fh = f->fh, .lock_owner = owner};
	int r = ask(FUSE_FLUSH, f->node, &in, sizeof(in), NULL, 0);

	sound(r == 0 || (r == -ENOSYS && !agreed(FUSE_POSIX_LOCKS)));
}

const struct fs_door door_fuse = {
	.name = "fuse",
	.mount = door_mount,
	.unmount = door_close,
	.held = door_held,
	.untold = door_untold,
	.faults = door_faults,
	.root = door_root,
	.same = door_same,
	.lookup = door_lookup,
	.forget = door_forget,
	.getattr = door_getattr,
	.setattr = door_setattr,
	.readlink = door_readlink,
	.statfs = door_statfs,
	.syncfs = door_syncfs,
	.mknod = door_mknod,
	.mkdir = door_mkdir,
	.symlink = door_symlink,
	.link = door_link,
	.unlink = door_unlink,
	.rmdir = door_rmdir,
	.rename = door_rename,
	.open = door_open_obj,
	.create = door_create,
	.tmpfile = door_tmpfile,
	.release = door_release,
	.read = door_read,
	.write = door_write,
	.fsync = door_fsync,
	.fallocate = door_fallocate,
	.lseek = door_lseek,
	.copy = door_copy,
	.readdir = door_readdir,
	.ioctl = door_ioctl,
	.getxattr = door_getxattr,
	.listxattr = door_listxattr,
	.setxattr = door_setxattr,
	.removexattr = door_removexattr,
	.getlk = door_getlk,
	.setlk = door_setlk,
	.setlkw = door_setlkw,
	.waited = door_waited,
	.flush = door_flush,
};
