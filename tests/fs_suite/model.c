// SPDX-License-Identifier: Apache-2.0
/*
 * model.c - random operations on a share and on a plain directory: who chooses, and who compares. See model.h.
 *
 * The seed is fixed, so a failure comes again: $SUITE_SEED and $SUITE_OPS give another course or a longer one. Modes and
 * callers are chosen so that the plain directory, which knows nothing of owner modes, judges as the share does: in a
 * mapped share of a plain user, who owns nothing but his own, the owner may always do everything.
 */
#include "model.h"
#include <stdarg.h>
#include <sys/xattr.h>

#define OPS   (SANITIZED ? 1500 : 2500)
#define NAMES 6 /* of a directory: few, so that they meet */

unsigned pick(struct model *m, unsigned below)
{
	m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(m->seed >> 33) % below;
}

bool chance(struct model *m, unsigned in)
{
	return pick(m, in) == 0;
}

void note(struct model *m, const char *fmt, ...)
{
	char *line = m->log[m->at % ARRAY_LEN(m->log)];
	va_list ap;
	int n = snprintf(line, sizeof(m->log[0]), "%u: ", m->at);

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(m->log[0]) - (size_t)n, fmt, ap);
	va_end(ap);
}

_Noreturn void disagree(struct model *m, const char *what)
{
	const unsigned n = ARRAY_LEN(m->log);

	for (unsigned i = m->at + 1 > n ? m->at + 1 - n : 0; i <= m->at; i++)
		printf("#   %s\n", m->log[i % n]);
	fail_at(__FILE__, __LINE__, "operation %u: %s", m->at, what);
}

void agree(struct model *m, long long got, long long want_, const char *what)
{
	char said[128];

	if (got == want_)
		return;
	snprintf(said, sizeof(said), "%s: %lld, on the host %lld", what, got, want_);
	disagree(m, said);
}

/* The user we are is the guest's root, unless ids are what they are. */
static uint32_t shown(uint32_t host, uint32_t own)
{
	return !bed.passes && host == own ? 0 : host;
}

void agree_stat(struct model *m, const struct statx *st, int host_fd)
{
	struct stat h;

	host(fstatat(host_fd, "", &h, AT_EMPTY_PATH));
	agree(m, st->stx_mode, h.st_mode, "mode");
	agree(m, st->stx_nlink, (long long)h.st_nlink, "links");
	if (!S_ISDIR(h.st_mode))
		agree(m, (long long)st->stx_size, h.st_size, "size");
	agree(m, st->stx_uid, shown(h.st_uid, geteuid()), "owner");
	agree(m, st->stx_gid, shown(h.st_gid, getegid()), "group");
	if (S_ISCHR(h.st_mode))
		agree(m, st->stx_rdev_minor, minor(h.st_rdev), "device");
}

/* ---- choosing ---- */

static void pick_name(struct model *m, char name[4])
{
	snprintf(name, 4, "%c", 'a' + (char)pick(m, NAMES));
}

void spot_drop(struct spot *s)
{
	if (s->dir != bed.dir) {
		fs->forget(s->dir);
		close(s->host);
	}
}

bool pair_in(struct model *m, const struct spot *s, struct pair *p)
{
	struct statx st;
	int err = fs->lookup(s->dir, s->name, &p->o, &st);

	p->host = openat(s->host, s->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	agree(m, err, p->host < 0 ? -errno : 0, "lookup");
	if (err)
		return false;
	p->borrowed = false;
	p->linked = st.stx_nlink > 1 && !S_ISDIR(st.stx_mode);
	agree_stat(m, &st, p->host);
	return true;
}

mode_t pair_type(const struct pair *p)
{
	struct stat st;

	host(fstatat(p->host, "", &st, AT_EMPTY_PATH));
	return st.st_mode & S_IFMT;
}

/* Down as far as chance has it, but no further than there are directories. */
struct spot spot_find(struct model *m)
{
	struct spot s = m->top;

	for (unsigned depth = 0; depth < 3 && !chance(m, 3); depth++) {
		struct pair p;

		pick_name(m, s.name);
		if (!pair_in(m, &s, &p))
			continue;
		if (pair_type(&p) != S_IFDIR) {
			pair_drop(&p);
			continue;
		}
		spot_drop(&s);
		s.dir = p.o;
		s.host = p.host;
	}
	pick_name(m, s.name);
	return s;
}

void pair_drop(struct pair *p)
{
	if (!p->o || p->borrowed)
		return;
	fs->forget(p->o);
	close(p->host);
	p->o = NULL;
}

bool pair_find(struct model *m, struct pair *p)
{
	struct pair *held = &m->held[pick(m, HELD)];
	struct spot s;
	bool found;

	if (held->o && chance(m, 2)) {
		*p = *held;
		p->borrowed = true;
		return true;
	}
	s = spot_find(m);
	found = pair_in(m, &s, p);
	spot_drop(&s);
	return found;
}

bool pair_nameless(const struct pair *p)
{
	struct stat st;

	host(fstatat(p->host, "", &st, AT_EMPTY_PATH));
	return st.st_nlink == 0;
}

void pair_keep(struct model *m, struct pair *p)
{
	struct pair *held = &m->held[pick(m, HELD)];

	if (p->borrowed)
		return;
	pair_drop(held);
	*held = *p;
}

/*
 * By name, an object that lost the name it was last found by is found again only when it is looked up: which of several
 * it was is not for the guest to know.
 */
bool pair_lost(struct model *m, struct pair *p, int err)
{
	const bool may = bed.tight && p->borrowed && (bed.setup->by_name || !bed.root);

	if (err != -ESTALE || !may)
		return false;
	for (unsigned i = 0; i < HELD; i++)
		if (m->held[i].o && m->held[i].host == p->host) {
			if (!m->held[i].linked)
				return false;
			pair_drop(&m->held[i]);
			return true;
		}
	return false;
}

/* It lost its last name just now, and is whole. */
static void shed_one(struct model *m, struct pair *p)
{
	struct statx st;

	agree(m, fs->getattr(p->o, NULL, &st), 0, "getattr of what has no name");
	agree_stat(m, &st, p->host);
	pair_drop(p);
}

/* Those without a name keep their descriptors: where there are few, none is held. */
static void shed(struct model *m)
{
	for (unsigned i = 0; bed.tight && i < HELD; i++)
		if (m->held[i].o && pair_nameless(&m->held[i]))
			shed_one(m, &m->held[i]);
	for (unsigned i = 0; bed.tight && i < m->nopen; i++)
		if (m->open[i].f && pair_nameless(&m->open[i].p))
			open_drop(&m->open[i]);
}

void open_drop(struct opened *f)
{
	if (!f->f)
		return;
	fs->release(f->f);
	pair_drop(&f->p);
	close(f->host);
	f->f = NULL;
}

void open_keep(struct model *m, struct opened *f)
{
	struct opened *old = m->nopen ? &m->open[pick(m, m->nopen)] : f;

	open_drop(old);
	*old = *f;
}

struct opened *open_any(struct model *m, bool writes)
{
	struct opened *f = &m->open[m->nopen ? pick(m, m->nopen) : 0];

	return f->f && (f->writes || !writes) ? f : NULL;
}

mode_t pick_mode(struct model *m, bool dir)
{
	static const mode_t shut[] = {0, 0400, 0200, 0500, 0300, 0644};

	if (bed.root)
		return pick(m, 010000);
	if (bed.mapped)
		return 0700 | pick(m, 0100);
	if (!bed.tight && chance(m, dir ? 12 : 4))
		return shut[pick(m, ARRAY_LEN(shut))];
	return 0700 | pick(m, 0100) | (chance(m, 4) ? pick(m, 8) << 9 : 0);
}

/* Others than root where the host can tell them apart. */
const struct cred *pick_caller(struct model *m)
{
	static const struct cred user = {.uid = 1000, .gid = 1001};

	return bed.root && !bed.squash && chance(m, 4) ? &user : &as_root;
}

void host_give(int dir, const char *name, const struct cred *who, mode_t mode)
{
	struct stat up, st;
	char path[64];
	int fd;

	if (!who->uid)
		return;
	host(fstatat(dir, "", &up, AT_EMPTY_PATH));
	host(fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	host(fchownat(fd, "", who->uid, up.st_mode & S_ISGID ? (gid_t)-1 : who->gid,
		      AT_EMPTY_PATH));
	host(fstatat(fd, "", &st, AT_EMPTY_PATH));
	if (!S_ISLNK(st.st_mode) && !S_ISDIR(st.st_mode))
		host(fchmodat(AT_FDCWD, host_path(path, fd), mode, 0));
	close(fd);
}

/* ---- the course ---- */

static void begin(struct model *m)
{
	const char *seed = getenv("SUITE_SEED");

	memset(m, 0, sizeof(*m));
	m->seed = seed ? strtoull(seed, NULL, 0) : 1;
	for (const char *p = bed.setup->name; !seed && *p; p++)
		m->seed = m->seed * 31 + (uint8_t)*p;
	/* Each holds two descriptors, and one more while it is opened. */
	m->nopen = bed.tight ? (bed.setup->share.fd_budget - FS_FEWEST) / 3 : OPEN;
	m->top.dir = bed.dir;
	host(m->top.host = openat(bed.beside, "plain", O_PATH | O_DIRECTORY | O_CLOEXEC));
	m->devices = bed.root && !mknodat(m->top.host, "probe", S_IFCHR, makedev(1, 3));
	if (m->devices)
		host(unlinkat(m->top.host, "probe", 0));
	printf("# %s, %s: seed %#llx\n", fs->name, bed.setup->name, (unsigned long long)m->seed);
}

static void end(struct model *m)
{
	for (unsigned i = 0; i < OPEN; i++)
		open_drop(&m->open[i]);
	for (unsigned i = 0; i < HELD; i++)
		pair_drop(&m->held[i]);
	close(m->top.host);
}

static unsigned weights(const struct model_op *ops)
{
	unsigned sum = 0;

	for (; ops->run; ops++)
		sum += ops->weight;
	return sum;
}

static void do_one(struct model *m, const struct model_op *ops)
{
	unsigned at = pick(m, weights(ops));

	while (at >= ops->weight)
		at -= ops++->weight;
	note(m, "?");
	ops->run(m);
}

static void same_as_plain(void)
{
	static struct model m;
	const char *ops = getenv("SUITE_OPS");
	const unsigned n = ops ? (unsigned)strtoul(ops, NULL, 0) : OPS;

	begin(&m);
	for (m.at = 0; m.at < n; m.at++) {
		do_one(&m, m.at % 2 ? model_name_ops : model_data_ops);
		shed(&m);
	}
	note(&m, "the trees");
	tree_agree(&m, bed.dir, m.top.host, 0);
	end(&m);
}

const struct fs_test model_tests[] = {
	{"what is done at random comes out as in a plain directory", same_as_plain, NO_ACL, 0},
	{0},
};
