// SPDX-License-Identifier: Apache-2.0
/*
 * door_p9.c - a share through a 9P2000.L session, as Linux speaks it: messages out, answers in, nothing cached.
 *
 * An object is a fid that was walked to and an open file another, cloned from it and opened, so what one of them does never
 * needs the other's name. Linux asks for attributes after each walk, and walks to what it has made. What it does itself for
 * this protocol is done here: another user's requests go by an attach of his own and the way from there; he who creates says
 * which group, umask and set-gid bit count; set-id bits and capabilities that a truncation takes are taken by name; an
 * attribute is a fid that is read or written. What is lacking is in the table. Calls: door_p9_attr.c, door_p9_file.c, and
 * p9_client.c, which sends and judges.
 */
#include "door_p9.h"
#include "../../devices/share_int.h"
#include <linux/xattr.h>
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

struct d9 d9;

/* ---- fids ---- */

int d9_clunk(uint32_t fid)
{
	struct msg *m = msg_new(P9_TCLUNK);
	int r;

	put4(m, fid);
	r = msg_do(m);
	fid_free(fid);
	return r;
}

/* Whatever becomes of it, it is gone. */
void d9_let_go(uint32_t fid)
{
	sound(!d9_clunk(fid));
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
int d9_walk(uint32_t from, const char *name, uint32_t *fid, struct qid *qid)
{
	const uint32_t to = fid_new();
	int r = walk_names(from, to, &name, !!name, qid);

	if (r)
		fid_free(to);
	else
		*fid = to;
	return r;
}

/* ---- objects ---- */

char *d9_way_to(const struct fs_obj *dir, const char *name)
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
	r = d9_ask_attr(fid, st, &o->gen);
	sound(r || (st->stx_ino == qid.path && (qid.type == P9_QTDIR) == S_ISDIR(st->stx_mode)));
	if (!r) {
		*out = o;
		return 0;
	}
	d9_let_go(fid);
	free(way);
	free(o);
	return r;
}

static void d9_forget(struct fs_obj *o)
{
	d9_let_go(o->fid);
	free(o->way);
	free(o);
}

static int d9_lookup(struct fs_obj *dir, const char *name, struct fs_obj **out, struct statx *st)
{
	struct qid qid;
	uint32_t fid;
	int r = d9_walk(dir->fid, name, &fid, &qid);

	return r ? r : obj_new(fid, qid, d9_way_to(dir, name), out, st);
}

/* What was just made there, of which its maker was told what it is. */
int d9_found(struct fs_obj *dir, const char *name, struct qid made, struct fs_obj **out,
	     struct statx *st)
{
	int r = d9_lookup(dir, name, out, st);

	sound(r || ((*out)->qid.path == made.path && (*out)->qid.type == made.type));
	return r;
}

static struct fs_obj *d9_root(void)
{
	struct fs_obj *o;
	struct statx st;
	uint32_t fid;

	need(!d9_walk(d9.root->fid, NULL, &fid, NULL));
	need(!obj_new(fid, d9.root->qid, strdup(""), &o, &st));
	return o;
}

static bool d9_same(const struct fs_obj *a, const struct fs_obj *b)
{
	return a->qid.path == b->qid.path && a->qid.type == b->qid.type && a->gen == b->gen;
}

/* ---- its life ---- */

static void root_get(void)
{
	struct fs_obj *o = calloc(1, sizeof(*o));
	struct statx st;

	need(o && !client_attach(0, &o->fid));
	need(!d9_ask_attr(o->fid, &st, &o->gen));
	o->qid = (struct qid){.type = P9_QTDIR, .path = st.stx_ino};
	o->way = strdup("");
	d9.root = o;
}

static int d9_mount(const struct fs_setup *setup, const char *path)
{
	static const struct fs_p9 plain = {.msize = 128 << 10};
	struct share_config cfg = setup->share;
	char copy[PATH_MAX];
	int err;

	snprintf(copy, sizeof(copy), "%s", path);
	cfg.path = copy;
	err = share_open(&d9.share, "9p0", &cfg);
	if (err)
		return err;
	if (setup->by_name)
		d9.share->handles = false;
	d9.how = setup->door ? *(const struct fs_p9 *)setup->door : plain;
	d9.nfiles = 0;
	client_open(d9.share, &(struct client_how){.msize = d9.how.msize,
						   .piece = d9.how.piece,
						   .multidevs = d9.how.multidevs});
	root_get();
	return 0;
}

static void d9_unmount(void)
{
	d9_forget(d9.root);
	client_close();
	share_close(d9.share);
}

static struct fs_held d9_held(void)
{
	struct fs_held h;

	client_held(&h.objects, &h.files);
	sound(h.files == d9.nfiles);
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
		d9_let_go(to);
	else
		fid_free(to);
	return r;
}

/* A new fid of what root found on this way, for this user. */
int d9_walk_as(uint32_t uid, const char *way, uint64_t path, uint32_t *fid)
{
	struct qid qid = d9.root->qid;
	uint32_t root;
	int r = client_attach(uid, &root);

	if (r)
		return r;
	r = walk_way(root, way, fid, &qid);
	sound(r || qid.path == path);
	d9_let_go(root);
	return r;
}

int d9_clone_as(const struct cred *who, const struct fs_obj *o, uint32_t *fid)
{
	return who->uid ? d9_walk_as(who->uid, o->way, o->qid.path, fid)
			: d9_walk(o->fid, NULL, fid, NULL);
}

/* Of a directory that has a default list nobody's umask counts. */
static bool masks(struct fs_obj *dir)
{
	return d9_getxattr(dir, XATTR_NAME_POSIX_ACL_DEFAULT, NULL, 0) < 0;
}

/* As Linux says whose it is to be: he sees to the umask, and to what a set-gid directory does to modes and groups. */
int d9_make_as(const struct cred *who, struct fs_obj *dir, mode_t *mode, uint32_t *gid)
{
	struct statx st;
	bool member;
	int r = d9_getattr(dir, NULL, &st);

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

/* Something is being made: the message, begun with the directory's fid as the caller has it. */
struct making {
	struct msg *m;
	mode_t mode;
	uint32_t own, gid; /* own: a fid for this alone; else P9_NOFID */
};

static int begin_as(const struct cred *who, struct fs_obj *dir, enum p9_type type, mode_t mode,
		    struct making *n)
{
	int r;

	*n = (struct making){.mode = mode, .own = P9_NOFID};
	r = d9_make_as(who, dir, &n->mode, &n->gid);
	if (!r && who->uid)
		r = d9_clone_as(who, dir, &n->own);
	if (r)
		return r;
	n->m = msg_new(type);
	put4(n->m, who->uid ? n->own : dir->fid);
	return 0;
}

/* Sends it; made is what the answer says of what was made. */
static int end_as(struct making *n, struct qid *made)
{
	int r = msg_call(n->m, 13, 0);

	if (!r)
		*made = get_qid(n->m);
	msg_end(n->m);
	if (n->own != P9_NOFID)
		d9_let_go(n->own);
	return r;
}

/* ---- names ---- */

static int d9_mknod(struct fs_obj *dir, const char *name, mode_t mode, dev_t rdev,
		    const struct cred *who, struct fs_obj **out, struct statx *st)
{
	struct making n;
	struct qid made;
	int r = begin_as(who, dir, P9_TMKNOD, mode, &n);

	if (r)
		return r;
	put_string(n.m, name);
	put4(n.m, n.mode);
	put4(n.m, major(rdev));
	put4(n.m, minor(rdev));
	put4(n.m, n.gid);
	r = end_as(&n, &made);
	return r ? r : d9_found(dir, name, made, out, st);
}

static int d9_mkdir(struct fs_obj *dir, const char *name, mode_t mode, const struct cred *who,
		    struct fs_obj **out, struct statx *st)
{
	struct making n;
	struct qid made;
	int r = begin_as(who, dir, P9_TMKDIR, S_IFDIR | mode, &n);

	if (r)
		return r;
	put_string(n.m, name);
	put4(n.m, n.mode);
	put4(n.m, n.gid);
	r = end_as(&n, &made);
	return r ? r : d9_found(dir, name, made, out, st);
}

static int d9_symlink(struct fs_obj *dir, const char *name, const char *target,
		      const struct cred *who, struct fs_obj **out, struct statx *st)
{
	struct making n;
	struct qid made;
	int r = begin_as(who, dir, P9_TSYMLINK, S_IFLNK, &n);

	if (r)
		return r;
	put_string(n.m, name);
	put_string(n.m, target);
	put4(n.m, n.gid);
	r = end_as(&n, &made);
	return r ? r : d9_found(dir, name, made, out, st);
}

static ssize_t d9_readlink(struct fs_obj *o, char *buf, size_t n)
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

static int d9_link(struct fs_obj *o, struct fs_obj *dir, const char *name, struct statx *st)
{
	struct msg *m = msg_new(P9_TLINK);
	int r;

	put4(m, dir->fid);
	put4(m, o->fid);
	put_string(m, name);
	r = msg_do(m);
	return r ? r : d9_getattr(o, NULL, st);
}

/* A fid of a name, for who removes and renames objects. What is not there, or is no name, is told of by its name. */
static int by_name(struct fs_obj *dir, const char *s, uint32_t *fid, struct qid *qid)
{
	struct name name;
	int r = name_check(&name, s, strlen(s));

	return r ? r : d9_walk(dir->fid, s, fid, qid);
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
		d9_let_go(fid);
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
	return d9.how.old ? remove_object(dir, name, flags) : unlinkat_name(dir, name, flags);
}

static int d9_unlink(struct fs_obj *dir, const char *name)
{
	return remove_name(dir, name, 0);
}

static int d9_rmdir(struct fs_obj *dir, const char *name)
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
	d9_let_go(fid);
	return r;
}

static int d9_rename(struct fs_obj *dir, const char *name, struct fs_obj *newdir,
		     const char *newname, unsigned flags)
{
	need(!flags);
	return d9.how.old ? rename_object(dir, name, newdir, newname)
			  : renameat_name(dir, name, newdir, newname);
}

const struct fs_door door_p9 = {
	.name = "9p",
	.lacks = lacking,
	.mount = d9_mount,
	.unmount = d9_unmount,
	.held = d9_held,
	.faults = client_faults,
	.root = d9_root,
	.same = d9_same,
	.lookup = d9_lookup,
	.forget = d9_forget,
	.getattr = d9_getattr,
	.setattr = d9_setattr,
	.readlink = d9_readlink,
	.statfs = d9_statfs,
	.mknod = d9_mknod,
	.mkdir = d9_mkdir,
	.symlink = d9_symlink,
	.link = d9_link,
	.unlink = d9_unlink,
	.rmdir = d9_rmdir,
	.rename = d9_rename,
	.open = d9_open,
	.create = d9_create,
	.release = d9_release,
	.read = d9_read,
	.write = d9_write,
	.fsync = d9_fsync,
	.readdir = d9_readdir,
	.getxattr = d9_getxattr,
	.listxattr = d9_listxattr,
	.setxattr = d9_setxattr,
	.removexattr = d9_removexattr,
	.getlk = d9_getlk,
	.setlk = d9_setlk,
	.setlkw = d9_setlkw,
	.waited = d9_waited,
	.flush = d9_flush,
};
