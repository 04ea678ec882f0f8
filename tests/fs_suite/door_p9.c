// SPDX-License-Identifier: Apache-2.0
/*
 * door_p9.c - a share through a 9P2000.L session, as Linux speaks it: messages out, answers in, nothing cached.
 *
 * An object is a fid that was walked to and an open file another, cloned from it and opened, so what one of them does never
 * needs the other's name. Linux asks for attributes after each walk, and walks to what it has made. What it does itself for
 * this protocol is done here: another user's requests go by an attach of his own and the way from there; he who creates says
 * which group, umask and set-gid bit count; set-id bits and capabilities that a truncation takes are taken by name; an
 * attribute is a fid that is read or written. What is lacking is in the table. Sending and judging: p9_client.c.
 */
#include "door.h"
#include "p9_client.h"
#include "../tap.h"
#include "../../devices/share_int.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/xattr.h>
#include <semaphore.h>
#include <sys/sysmacros.h>

/* What the protocol cannot say. All else is the same through every door. */
static const struct fs_lack lacking[] = {
	{FS_FLAGS, "renames with flags", "Trenameat and Trename have none"},
	{FS_TMPFILE, "files without a name", "Tlcreate takes a name, and no flag for none"},
	{FS_SPACE, "fallocate", "there is no message for it"},
	{FS_SEEK, "holes", "no message finds data or holes: the client takes all for data"},
	{FS_COPY, "copies", "there is no message for it: the client reads and writes"},
	{FS_IOCTL, "flags of files", "there is no message for ioctls"},
	{FS_SYNCFS, "syncs of a file system", "Tfsync is of one file"},
	{FS_BSD_LOCKS, "flock",
	 "Tlock does not say which kind it is: Linux makes it a range of all"},
	{FS_BAD_LOOKUPS, "lookups that are refused for their name",
	 "Twalk goes up by .., and to what cannot be a name there is no way: ENOENT"},
	{FS_EMPTY_VALUES, "empty attributes in place of others that must be there",
	 "Txattrcreate of no bytes that replaces is how Linux removes one"},
	{FS_OWN_LOCKS, "word that locks are the guest's own to keep",
	 "Linux asks for each it has granted itself, and takes a refusal for the caller's"},
	{0, "security labels at creation", "no message carries one: the client sets it afterwards"},
	{0, "word of mount points below",
	 "Rgetattr has no flag for it: qid.path tells objects apart"},
	{0, "flags to drop set-id bits", "Twrite has the fid's user, Tsetattr a whole mode"},
	{0, "sizes of attributes alone", "Txattrwalk takes the value, of which the size is told"},
	{0},
};

struct fs_obj {
	uint32_t fid;
	struct qid qid;
	uint64_t gen; /* of those that had its number */
	char *way;    /* from the root, where it was found */
};

struct fs_file {
	uint32_t fid, roots; /* roots: of another's file, root's own fid; else P9_NOFID */
	bool roots_open;
	uint64_t path; /* of its qid */
	char *way;
};

static struct {
	struct fs_p9 how;
	struct share *share;
	struct fs_obj *root;
	unsigned nfiles;
} guest;

/* ---- fids ---- */

static int clunk(uint32_t fid)
{
	struct msg *m = msg_new(P9_TCLUNK);
	int r;

	put4(m, fid);
	r = msg_do(m);
	fid_free(fid);
	return r;
}

/* Whatever becomes of it, it is gone. */
static void let_go(uint32_t fid)
{
	sound(!clunk(fid));
}

/* n names, one after the other in names; qid is that of the last, and NULL for none. */
static int walk_names(uint32_t from, uint32_t to, const char *const *names, unsigned n,
		      struct qid *qid)
{
	struct msg *m = msg_new(P9_TWALK);
	int r;

	put4(m, from);
	put4(m, to);
	put2(m, (uint16_t)n);
	for (unsigned i = 0; i < n; i++)
		put_string(m, names[i]);
	r = msg_call(m, 2 + 13 * n, 0);
	if (!r && get2(m) != n)
		r = -ENOENT; /* some of the way */
	while (!r && get_left(m))
		*qid = get_qid(m);
	if (r)
		get_bytes(m, &(uint8_t[13 * P9_WALK_MAX]){0}, get_left(m));
	msg_end(m);
	return r;
}

/* To a new fid. name NULL: of the same object. */
static int walk(uint32_t from, const char *name, uint32_t *fid, struct qid *qid)
{
	const uint32_t to = fid_new();
	int r = walk_names(from, to, &name, !!name, qid);

	if (r)
		fid_free(to);
	else
		*fid = to;
	return r;
}

/* ---- attributes as Linux has them ---- */

static struct statx_timestamp get_time(struct msg *m)
{
	struct statx_timestamp t = {.tv_sec = (int64_t)get8(m)};
	const uint64_t nsec = get8(m);

	sound(nsec < 1000000000);
	t.tv_nsec = (uint32_t)nsec;
	return t;
}

static void get_attr(struct msg *m, struct statx *st, uint64_t *gen)
{
	const uint64_t valid = get8(m);
	const struct qid qid = get_qid(m);
	uint64_t rdev;

	*st = (struct statx){.stx_mask = STATX_BASIC_STATS, .stx_ino = qid.path};
	st->stx_mode = (uint16_t)get4(m);
	st->stx_uid = get4(m);
	st->stx_gid = get4(m);
	st->stx_nlink = (uint32_t)get8(m);
	rdev = get8(m);
	st->stx_rdev_major = rdev >> 8 & 0xfff;
	st->stx_rdev_minor = (rdev & 0xff) | (rdev >> 12 & 0xfff00);
	st->stx_size = get8(m);
	st->stx_blksize = (uint32_t)get8(m);
	st->stx_blocks = get8(m);
	st->stx_atime = get_time(m);
	st->stx_mtime = get_time(m);
	st->stx_ctime = get_time(m);
	st->stx_btime = get_time(m);
	st->stx_mask |= valid & P9_GETATTR_BTIME ? STATX_BTIME : 0;
	*gen = get8(m);
	get8(m); /* data_version */
	sound((valid & P9_GETATTR_BASIC) == P9_GETATTR_BASIC && (int64_t)st->stx_size >= 0);
	sound(!(valid & ~0x3fffull) && rdev <= UINT32_MAX);
	sound((qid.type == P9_QTDIR) == S_ISDIR(st->stx_mode));
	sound((qid.type == P9_QTSYMLINK) == S_ISLNK(st->stx_mode));
}

static int getattr(uint32_t fid, struct statx *st, uint64_t *gen)
{
	struct msg *m = msg_new(P9_TGETATTR);
	int r;

	put4(m, fid);
	put8(m, P9_GETATTR_BASIC | P9_GETATTR_BTIME | P9_GETATTR_GEN);
	r = msg_call(m, 153, 0);
	if (!r)
		get_attr(m, st, gen);
	msg_end(m);
	return r;
}

static int door_getattr(struct fs_obj *o, struct fs_file *f, struct statx *st)
{
	uint64_t gen;

	return getattr(f ? f->fid : o->fid, st, &gen);
}

static uint32_t valid_of(const struct share_attr *a)
{
	static const uint32_t valid[][2] = {
		{SHARE_MODE, P9_SETATTR_MODE},   {SHARE_UID, P9_SETATTR_UID},
		{SHARE_GID, P9_SETATTR_GID},     {SHARE_SIZE, P9_SETATTR_SIZE},
		{SHARE_ATIME, P9_SETATTR_ATIME}, {SHARE_MTIME, P9_SETATTR_MTIME},
	};
	uint32_t out = 0;

	for (unsigned i = 0; i < ARRAY_LEN(valid); i++)
		if (a->mask & valid[i][0])
			out |= valid[i][1];
	if (a->mask & SHARE_ATIME && a->atime.tv_nsec != UTIME_NOW)
		out |= P9_SETATTR_ATIME_SET;
	if (a->mask & SHARE_MTIME && a->mtime.tv_nsec != UTIME_NOW)
		out |= P9_SETATTR_MTIME_SET;
	return out;
}

static int setattr(uint32_t fid, const struct share_attr *a)
{
	struct msg *m = msg_new(P9_TSETATTR);

	put4(m, fid);
	put4(m, valid_of(a));
	put4(m, a->mode);
	put4(m, a->uid);
	put4(m, a->gid);
	put8(m, a->size);
	put8(m, (uint64_t)a->atime.tv_sec);
	put8(m, (uint64_t)a->atime.tv_nsec);
	put8(m, (uint64_t)a->mtime.tv_sec);
	put8(m, (uint64_t)a->mtime.tv_nsec);
	return msg_do(m);
}

static ssize_t door_getxattr(struct fs_obj *, const char *name, void *, size_t);
static int door_removexattr(struct fs_obj *, const char *name);

/* What the kernel does before a truncation by one who may not keep them: capabilities go, and the mode is set without bits. */
static int kill_priv(struct fs_obj *o, struct share_attr *a)
{
	struct statx st;
	int r;

	if (door_getxattr(o, XATTR_NAME_CAPS, NULL, 0) > 0) {
		r = door_removexattr(o, XATTR_NAME_CAPS);
		if (r)
			return r;
	}
	r = door_getattr(o, NULL, &st);
	if (r)
		return r;
	a->mask |= SHARE_MODE;
	a->mode = st.stx_mode & 07777 & ~(mode_t)S_ISUID;
	if (a->mode & S_IXGRP)
		a->mode &= ~(mode_t)S_ISGID;
	return 0;
}

static int door_setattr(struct fs_obj *o, struct fs_file *f, const struct share_attr *attr,
			struct statx *st)
{
	struct share_attr a = *attr;
	int r = a.mask & SHARE_KILL_PRIV ? kill_priv(o, &a) : 0;

	if (!r)
		r = setattr(f ? f->fid : o->fid, &a);
	return r ? r : door_getattr(o, f, st);
}

static int door_statfs(struct fs_obj *o, struct statfs *st)
{
	struct msg *m = msg_new(P9_TSTATFS);
	int r;

	put4(m, o->fid);
	r = msg_call(m, 60, 0);
	if (!r) {
		*st = (struct statfs){.f_type = get4(m)};
		st->f_bsize = get4(m);
		st->f_blocks = get8(m);
		st->f_bfree = get8(m);
		st->f_bavail = get8(m);
		st->f_files = get8(m);
		st->f_ffree = get8(m);
		get8(m);
		st->f_namelen = get4(m);
		st->f_frsize = st->f_bsize; /* as statfs() has it where there is none */
	}
	msg_end(m);
	return r;
}

/* ---- objects ---- */

static char *way_to(const struct fs_obj *dir, const char *name)
{
	char *way = NULL;

	need(asprintf(&way, "%s%s%s", dir->way, *dir->way ? "/" : "", name) >= 0);
	return way;
}

/* Takes the fid and the way over, also on failure. */
static int obj_new(uint32_t fid, struct qid qid, char *way, struct fs_obj **out, struct statx *st)
{
	struct fs_obj *o = calloc(1, sizeof(*o));
	int r;

	need(o);
	*o = (struct fs_obj){.fid = fid, .qid = qid, .way = way};
	r = getattr(fid, st, &o->gen);
	sound(r || (st->stx_ino == qid.path && (qid.type == P9_QTDIR) == S_ISDIR(st->stx_mode)));
	if (!r) {
		*out = o;
		return 0;
	}
	let_go(fid);
	free(way);
	free(o);
	return r;
}

static void door_forget(struct fs_obj *o)
{
	let_go(o->fid);
	free(o->way);
	free(o);
}

static int door_lookup(struct fs_obj *dir, const char *name, struct fs_obj **out, struct statx *st)
{
	struct qid qid;
	uint32_t fid;
	int r = walk(dir->fid, name, &fid, &qid);

	return r ? r : obj_new(fid, qid, way_to(dir, name), out, st);
}

/* What was just made there, of which its maker was told what it is. */
static int found(struct fs_obj *dir, const char *name, struct qid made, struct fs_obj **out,
		 struct statx *st)
{
	int r = door_lookup(dir, name, out, st);

	sound(r || ((*out)->qid.path == made.path && (*out)->qid.type == made.type));
	return r;
}

static struct fs_obj *door_root(void)
{
	struct fs_obj *o;
	struct statx st;
	uint32_t fid;

	need(!walk(guest.root->fid, NULL, &fid, NULL));
	need(!obj_new(fid, guest.root->qid, strdup(""), &o, &st));
	return o;
}

static bool door_same(const struct fs_obj *a, const struct fs_obj *b)
{
	return a->qid.path == b->qid.path && a->qid.type == b->qid.type && a->gen == b->gen;
}

/* ---- its life ---- */

static void root_get(void)
{
	struct fs_obj *o = calloc(1, sizeof(*o));
	struct statx st;

	need(o && !client_attach(0, &o->fid));
	need(!getattr(o->fid, &st, &o->gen));
	o->qid = (struct qid){.type = P9_QTDIR, .path = st.stx_ino};
	o->way = strdup("");
	guest.root = o;
}

static int door_mount(const struct fs_setup *setup, const char *path)
{
	static const struct fs_p9 plain = {.msize = 128 << 10};
	struct share_config cfg = setup->share;
	char copy[PATH_MAX];
	int err;

	snprintf(copy, sizeof(copy), "%s", path);
	cfg.path = copy;
	err = share_open(&guest.share, "9p0", &cfg);
	if (err)
		return err;
	if (setup->by_name)
		guest.share->handles = false;
	guest.how = setup->door ? *(const struct fs_p9 *)setup->door : plain;
	guest.nfiles = 0;
	client_open(guest.share, &(struct client_how){.msize = guest.how.msize,
						      .piece = guest.how.piece,
						      .multidevs = guest.how.multidevs});
	root_get();
	return 0;
}

static void door_unmount(void)
{
	door_forget(guest.root);
	client_close();
	share_close(guest.share);
}

static struct fs_held door_held(void)
{
	struct fs_held h;

	client_held(&h.objects, &h.files);
	sound(h.files == guest.nfiles);
	h.objects--; /* the root */
	return h;
}

/* ---- who asks ---- */

static unsigned split_way(char *way, const char *names[P9_WALK_MAX], char **rest)
{
	unsigned n = 0;

	while (n < P9_WALK_MAX && *way) {
		char *end = strchrnul(way, '/');

		names[n++] = way;
		way = *end ? end + 1 : end;
		*end = '\0';
	}
	*rest = way;
	return n;
}

/* From his root on, under a new fid: the first walk makes it, the next ones move it. */
static int walk_way(uint32_t root, const char *way, uint32_t *fid, struct qid *qid)
{
	const char *names[P9_WALK_MAX];
	const uint32_t to = fid_new();
	char *copy = strdup(way), *rest = copy;
	uint32_t from = root;
	int r;

	need(copy);
	do {
		const unsigned n = split_way(rest, names, &rest);

		r = walk_names(from, to, names, n, qid);
		if (!r)
			from = to;
	} while (!r && *rest);
	free(copy);
	if (!r)
		*fid = to;
	else if (from == to)
		let_go(to);
	else
		fid_free(to);
	return r;
}

/* A new fid of what root found on this way, for this user. */
static int walk_as(uint32_t uid, const char *way, uint64_t path, uint32_t *fid)
{
	struct qid qid = guest.root->qid;
	uint32_t root;
	int r = client_attach(uid, &root);

	if (r)
		return r;
	r = walk_way(root, way, fid, &qid);
	sound(r || qid.path == path);
	let_go(root);
	return r;
}

static int clone_as(const struct cred *who, const struct fs_obj *o, uint32_t *fid)
{
	return who->uid ? walk_as(who->uid, o->way, o->qid.path, fid)
			: walk(o->fid, NULL, fid, NULL);
}

/* Of a directory that has a default list nobody's umask counts. */
static bool masks(struct fs_obj *dir)
{
	return door_getxattr(dir, XATTR_NAME_POSIX_ACL_DEFAULT, NULL, 0) < 0;
}

/* As Linux says whose it is to be: he sees to the umask, and to what a set-gid directory does to modes and groups. */
static int make_as(const struct cred *who, struct fs_obj *dir, mode_t *mode, uint32_t *gid)
{
	struct statx st;
	bool member;
	int r = door_getattr(dir, NULL, &st);

	if (r)
		return r;
	if (who->umask && masks(dir))
		*mode &= ~who->umask;
	*gid = who->gid;
	if (!(st.stx_mode & S_ISGID))
		return 0;
	member =
		!who->uid || who->gid == st.stx_gid || (who->has_group && who->group == st.stx_gid);
	*gid = st.stx_gid;
	if (S_ISDIR(*mode))
		*mode |= S_ISGID;
	else if (!member && *mode & S_IXGRP)
		*mode &= ~(mode_t)S_ISGID;
	return 0;
}

/* A message about a directory: with its fid, as the caller has it, in *own if it was made for this. */
static int begin_as(const struct cred *who, struct fs_obj *dir, enum p9_type type, struct msg **m,
		    uint32_t *own)
{
	*own = P9_NOFID;
	if (who->uid) {
		int r = clone_as(who, dir, own);

		if (r)
			return r;
	}
	*m = msg_new(type);
	put4(*m, who->uid ? *own : dir->fid);
	return 0;
}

/* Sends it; made is what the answer says of what was made. */
static int end_as(struct msg *m, uint32_t own, struct qid *made)
{
	int r = msg_call(m, 13, 0);

	if (!r)
		*made = get_qid(m);
	msg_end(m);
	if (own != P9_NOFID)
		let_go(own);
	return r;
}

/* ---- names ---- */

static int door_mknod(struct fs_obj *dir, const char *name, mode_t mode, dev_t rdev,
		      const struct cred *who, struct fs_obj **out, struct statx *st)
{
	uint32_t own, gid;
	struct qid made;
	struct msg *m;
	int r = make_as(who, dir, &mode, &gid);

	if (!r)
		r = begin_as(who, dir, P9_TMKNOD, &m, &own);
	if (r)
		return r;
	put_string(m, name);
	put4(m, mode);
	put4(m, major(rdev));
	put4(m, minor(rdev));
	put4(m, gid);
	r = end_as(m, own, &made);
	return r ? r : found(dir, name, made, out, st);
}

static int door_mkdir(struct fs_obj *dir, const char *name, mode_t mode, const struct cred *who,
		      struct fs_obj **out, struct statx *st)
{
	uint32_t own, gid;
	struct qid made;
	struct msg *m;
	int r;

	mode |= S_IFDIR;
	r = make_as(who, dir, &mode, &gid);
	if (!r)
		r = begin_as(who, dir, P9_TMKDIR, &m, &own);
	if (r)
		return r;
	put_string(m, name);
	put4(m, mode);
	put4(m, gid);
	r = end_as(m, own, &made);
	return r ? r : found(dir, name, made, out, st);
}

static int door_symlink(struct fs_obj *dir, const char *name, const char *target,
			const struct cred *who, struct fs_obj **out, struct statx *st)
{
	mode_t mode = S_IFLNK;
	uint32_t own, gid;
	struct qid made;
	struct msg *m;
	int r = make_as(who, dir, &mode, &gid);

	if (!r)
		r = begin_as(who, dir, P9_TSYMLINK, &m, &own);
	if (r)
		return r;
	put_string(m, name);
	put_string(m, target);
	put4(m, gid);
	r = end_as(m, own, &made);
	return r ? r : found(dir, name, made, out, st);
}

static ssize_t door_readlink(struct fs_obj *o, char *buf, size_t n)
{
	struct msg *m = msg_new(P9_TREADLINK);
	ssize_t r;

	put4(m, o->fid);
	r = msg_call(m, 2 + PATH_MAX, 0);
	if (!r) {
		const size_t len = get2(m);

		r = (ssize_t)MIN(len, n);
		sound(len == get_left(m) && len < PATH_MAX);
		get_bytes(m, buf, (size_t)r);
		get_bytes(m, &(char[PATH_MAX]){0}, get_left(m));
	}
	msg_end(m);
	return r;
}

static int door_link(struct fs_obj *o, struct fs_obj *dir, const char *name, struct statx *st)
{
	struct msg *m = msg_new(P9_TLINK);
	int r;

	put4(m, dir->fid);
	put4(m, o->fid);
	put_string(m, name);
	r = msg_do(m);
	return r ? r : door_getattr(o, NULL, st);
}

/* A fid of a name, for who removes and renames objects. What is not there, or is no name, is told of by its name. */
static int by_name(struct fs_obj *dir, const char *s, uint32_t *fid, struct qid *qid)
{
	struct name name;
	int r = name_check(&name, s, strlen(s));

	return r ? r : walk(dir->fid, s, fid, qid);
}

static int unlinkat_name(struct fs_obj *dir, const char *name, uint32_t flags)
{
	struct msg *m = msg_new(P9_TUNLINKAT);

	put4(m, dir->fid);
	put_string(m, name);
	put4(m, flags);
	return msg_do(m);
}

/* Whatever it is, so that only what is of the right kind is removed like this. */
static int remove_object(struct fs_obj *dir, const char *name, uint32_t flags)
{
	struct msg *m;
	struct qid qid;
	uint32_t fid;
	int r;

	if (by_name(dir, name, &fid, &qid))
		return unlinkat_name(dir, name, flags);
	if ((qid.type == P9_QTDIR) != !!flags) {
		let_go(fid);
		return unlinkat_name(dir, name, flags);
	}
	m = msg_new(P9_TREMOVE);
	put4(m, fid);
	r = msg_do(m);
	fid_free(fid); /* also if that failed */
	return r;
}

static int remove_name(struct fs_obj *dir, const char *name, uint32_t flags)
{
	return guest.how.old ? remove_object(dir, name, flags) : unlinkat_name(dir, name, flags);
}

static int door_unlink(struct fs_obj *dir, const char *name)
{
	return remove_name(dir, name, 0);
}

static int door_rmdir(struct fs_obj *dir, const char *name)
{
	return remove_name(dir, name, P9_AT_REMOVEDIR);
}

static int renameat_name(struct fs_obj *dir, const char *name, struct fs_obj *newdir,
			 const char *newname)
{
	struct msg *m = msg_new(P9_TRENAMEAT);

	put4(m, dir->fid);
	put_string(m, name);
	put4(m, newdir->fid);
	put_string(m, newname);
	return msg_do(m);
}

static int rename_object(struct fs_obj *dir, const char *name, struct fs_obj *newdir,
			 const char *newname)
{
	struct msg *m;
	struct qid qid;
	uint32_t fid;
	int r;

	if (by_name(dir, name, &fid, &qid))
		return renameat_name(dir, name, newdir, newname);
	m = msg_new(P9_TRENAME);
	put4(m, fid);
	put4(m, newdir->fid);
	put_string(m, newname);
	r = msg_do(m);
	let_go(fid);
	return r;
}

static int door_rename(struct fs_obj *dir, const char *name, struct fs_obj *newdir,
		       const char *newname, unsigned flags)
{
	need(!flags);
	return guest.how.old ? rename_object(dir, name, newdir, newname)
			     : renameat_name(dir, name, newdir, newname);
}

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
	guest.nfiles++;
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

static int door_open(struct fs_obj *o, int flags, struct fs_file **out)
{
	struct qid qid;
	uint32_t fid;
	int r = walk(o->fid, NULL, &fid, NULL);

	if (r)
		return r;
	r = open_fid(fid, flags, &qid);
	if (r) {
		let_go(fid);
		return r;
	}
	sound(qid.path == o->qid.path && qid.type == o->qid.type);
	*out = file_new(fid, qid, strdup(o->way));
	return 0;
}

static void door_release(struct fs_file *f)
{
	let_go(f->fid);
	if (f->roots != P9_NOFID)
		let_go(f->roots);
	guest.nfiles -= 1u + f->roots_open;
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

static int door_create(struct fs_obj *dir, const char *name, int flags, mode_t mode,
		       const struct cred *who, struct fs_obj **out, struct fs_file **f,
		       struct statx *st)
{
	struct fs_file *file;
	uint32_t fid, gid;
	struct qid qid;
	int r;

	mode |= S_IFREG;
	r = make_as(who, dir, &mode, &gid);
	if (!r)
		r = clone_as(who, dir, &fid);
	if (r)
		return r;
	r = create_by(fid, name, flags, mode, gid, &qid);
	if (r) {
		let_go(fid);
		return r;
	}
	file = file_new(fid, qid, way_to(dir, name));
	r = found(dir, name, qid, out, st);
	if (!r && who->uid)
		need(!walk((*out)->fid, NULL, &file->roots, NULL));
	if (r)
		door_release(file);
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

static ssize_t read_all(uint32_t fid, void *buf, size_t n, uint64_t off)
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

static ssize_t door_read(struct fs_file *f, void *buf, size_t n, uint64_t off)
{
	return read_all(f->fid, buf, n, off);
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

static ssize_t write_all(uint32_t fid, const void *buf, size_t n, uint64_t off)
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
	ssize_t r = walk_as(1000, f->way, f->path, &fid);

	if (r)
		return r;
	r = open_fid(fid, O_WRONLY, &qid);
	if (!r)
		r = write_all(fid, buf, n, off);
	let_go(fid);
	return r;
}

/* Who may keep them is root, also if another has made the file. */
static ssize_t write_as_root(struct fs_file *f, const void *buf, size_t n, uint64_t off)
{
	struct qid qid;
	int r = f->roots_open ? 0 : open_fid(f->roots, O_WRONLY, &qid);

	if (r)
		return r;
	guest.nfiles += !f->roots_open;
	f->roots_open = true;
	return write_all(f->roots, buf, n, off);
}

static ssize_t door_write(struct fs_file *f, const void *buf, size_t n, uint64_t off, unsigned how)
{
	if (how & FS_KILL_PRIV)
		return write_as_user(f, buf, n, off);
	if (f->roots != P9_NOFID)
		return write_as_root(f, buf, n, off);
	return write_all(f->fid, buf, n, off);
}

static int door_fsync(struct fs_file *f, bool data_only)
{
	struct msg *m = msg_new(P9_TFSYNC);

	put4(m, f->fid);
	if (!guest.how.old) /* those did not say */
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
static ssize_t door_readdir(struct fs_file *f, uint64_t off, size_t room, struct fs_dirent *out,
			    size_t max)
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

/* ---- extended attributes ---- */

/* A fid of a value, or of the list of names, and how long that is. */
static int xattr_open(const struct fs_obj *o, const char *name, uint32_t *fid, uint64_t *size)
{
	struct msg *m = msg_new(P9_TXATTRWALK);
	const uint32_t to = fid_new();
	int r;

	put4(m, o->fid);
	put4(m, to);
	put_string(m, name);
	r = msg_call(m, 8, 0);
	if (!r)
		*size = get8(m);
	msg_end(m);
	if (r)
		fid_free(to);
	else
		*fid = to;
	return r;
}

static ssize_t xattr_ask(const struct fs_obj *o, const char *name, void *buf, size_t n)
{
	uint64_t size;
	uint32_t fid;
	ssize_t r = xattr_open(o, name, &fid, &size);

	if (r)
		return r;
	if (!n)
		r = (ssize_t)size;
	else if (size > n)
		r = -ERANGE;
	else if (size)
		r = read_all(fid, buf, (size_t)size, 0);
	sound(r < 0 || (uint64_t)r == size);
	let_go(fid);
	return r;
}

static ssize_t door_getxattr(struct fs_obj *o, const char *name, void *buf, size_t n)
{
	return xattr_ask(o, name, buf, n);
}

static ssize_t door_listxattr(struct fs_obj *o, char *buf, size_t n)
{
	return xattr_ask(o, "", buf, n);
}

/* Written to a clone, and set when that is let go of, which says what came of it. */
static int xattr_set(const struct fs_obj *o, const char *name, const void *value, size_t n,
		     int flags)
{
	struct msg *m;
	uint32_t fid;
	ssize_t r = walk(o->fid, NULL, &fid, NULL);
	int set;

	if (r)
		return (int)r;
	m = msg_new(P9_TXATTRCREATE);
	put4(m, fid);
	put_string(m, name);
	put8(m, n);
	put4(m, (uint32_t)flags);
	r = msg_do(m);
	if (r) {
		let_go(fid);
		return (int)r;
	}
	if (n)
		r = write_all(fid, value, n, 0);
	sound(r == (ssize_t)n);
	set = clunk(fid);
	return r < 0 ? (int)r : set;
}

/* A list is more than a mode: what chmod would take is taken before. */
static int door_setxattr(struct fs_obj *o, const char *name, const void *value, size_t n, int flags,
			 bool kill_sgid)
{
	struct share_attr a = {.mask = SHARE_MODE};
	struct statx st;
	int r = 0;

	if (kill_sgid)
		r = door_getattr(o, NULL, &st);
	if (!r && kill_sgid) {
		a.mode = st.stx_mode & 07777 & ~(mode_t)S_ISGID;
		r = setattr(o->fid, &a);
	}
	return r ? r : xattr_set(o, name, value, n, flags);
}

static int door_removexattr(struct fs_obj *o, const char *name)
{
	return xattr_set(o, name, NULL, 0, XATTR_REPLACE);
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

static int door_getlk(struct fs_file *f, uint64_t owner, struct share_lock *lock)
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

static int door_setlk(struct fs_file *f, uint64_t owner, const struct share_lock *lock)
{
	struct msg *m = lock_msg(f, owner, lock, 0);
	int r = msg_call(m, 1, 0);
	uint8_t status = r ? 0 : get1(m);

	msg_end(m);
	sound(status == P9_LOCK_SUCCESS || status == P9_LOCK_BLOCKED);
	return r ? r : status == P9_LOCK_BLOCKED ? -EAGAIN : 0;
}

static void door_flush(struct fs_file *f, uint64_t owner)
{
	const struct share_lock all = {.type = F_UNLCK, .end = INT64_MAX};

	sound(!door_setlk(f, owner, &all));
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

static struct fs_wait *door_setlkw(struct fs_file *f, uint64_t owner, const struct share_lock *lock)
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

static int door_waited(struct fs_wait *w, bool cancel)
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

const struct fs_door door_p9 = {
	.name = "9p",
	.lacks = lacking,
	.mount = door_mount,
	.unmount = door_unmount,
	.held = door_held,
	.faults = client_faults,
	.root = door_root,
	.same = door_same,
	.lookup = door_lookup,
	.forget = door_forget,
	.getattr = door_getattr,
	.setattr = door_setattr,
	.readlink = door_readlink,
	.statfs = door_statfs,
	.mknod = door_mknod,
	.mkdir = door_mkdir,
	.symlink = door_symlink,
	.link = door_link,
	.unlink = door_unlink,
	.rmdir = door_rmdir,
	.rename = door_rename,
	.open = door_open,
	.create = door_create,
	.release = door_release,
	.read = door_read,
	.write = door_write,
	.fsync = door_fsync,
	.readdir = door_readdir,
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
