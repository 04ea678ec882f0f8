// SPDX-License-Identifier: Apache-2.0
/*
 * budget.c - more objects known than there are descriptors.
 *
 * Hard case D55. With a budget that is not tight the same holds, for other reasons.
 */
#include "suite.h"

static unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	must(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Ten directories of ten files, all known at once, each used in an order of its own. */
static void all_known(void)
{
	enum { N = 10 };
	const unsigned budget = bed.setup->share.fd_budget;
	const unsigned before = open_descriptors();
	struct fs_obj *d[N], *f[N][N], *again;
	char name[16], text[16];

	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		d[i] = make_dir(i ? d[i / 2] : bed.dir, name);
		for (unsigned k = 0; k < N; k++) {
			snprintf(name, sizeof(name), "f%u", k);
			snprintf(text, sizeof(text), "%u in %u", k, i);
			f[i][k] = make_file(d[i], name, text);
		}
	}
	want(fs->held().objects, 1 + N + N * N);
	must(!budget || open_descriptors() <= before + budget);
	for (unsigned at = 0; at < N * N; at++) {
		const unsigned i = at * 7 % N, k = at * 13 / N % N;

		snprintf(name, sizeof(name), "f%u", k);
		snprintf(text, sizeof(text), "%u in %u", k, i);
		must(holds(f[i][k], text));
		want(attr_of(f[i][k]).stx_size, strlen(text));
		again = find(d[i], name);
		must(fs->same(again, f[i][k]));
		fs->forget(again);
	}
	must(!budget || open_descriptors() <= before + budget);
	for (unsigned i = N; i--;) {
		for (unsigned k = N; k--;)
			fs->forget(f[i][k]);
		fs->forget(d[i]);
	}
}

/* Many names of a crowd's are removed and moved while all of it is known. */
static void known_and_gone(void)
{
	enum { N = 24 };
	struct fs_obj *o[N], *now;
	char name[16], to[16];

	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		o[i] = make_file(bed.dir, name, name);
	}
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		snprintf(to, sizeof(to), "g%u", i);
		want(fs->rename(bed.dir, name, bed.dir, to, 0), 0);
	}
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		snprintf(to, sizeof(to), "g%u", i);
		must(holds(o[i], name));
		now = find(bed.dir, to);
		must(fs->same(o[i], now));
		fs->forget(now);
		fs->forget(o[i]);
	}
}

static void crowd_remove(struct crowd *c)
{
	char name[16];

	crowd_out(c);
	for (unsigned i = 0; i < ARRAY_LEN(c->o); i++) {
		snprintf(name, sizeof(name), "crowd%u", i);
		want(fs->unlink(bed.dir, name), 0);
	}
}

/* D29: a descriptor is all that is left of it, so it gets one in time. */
static void idle_and_gone(void)
{
	struct fs_obj *o = make_file(bed.dir, "f", "text"), *d = make_dir(bed.dir, "d"), *e;
	struct statx st;
	struct crowd c;

	crowd_in(&c);
	want(fs->unlink(bed.dir, "f"), 0);
	crowd_remove(&c);
	want(attr_of(o).stx_nlink, 0);
	must(holds(o, "text"));
	if (bed.setup->share.fd_budget != FS_FEWEST) { /* of which it takes what creating needs */
		crowd_in(&c);                          /* it does not give its own up again */
		must(holds(o, "text"));
		crowd_remove(&c);
	}
	fs->forget(o);
	o = make_file(bed.dir, "f", "text");
	e = make_dir(bed.dir, "e");
	crowd_in(&c);
	want(fs->rename(bed.dir, "crowd3", bed.dir, "f", 0), 0);
	want(attr_of(o).stx_nlink, 0);
	must(holds(o, "text"));
	fs->forget(o);
	want(fs->rename(bed.dir, "e", bed.dir, "d", 0), 0);
	want(fs->getattr(d, NULL, &st), 0);
	want(st.stx_nlink, 0);
	fs->forget(d);
	want(fs->rmdir(bed.dir, "d"), 0);
	want(fs->getattr(e, NULL, &st), 0);
	fs->forget(e);
	crowd_out(&c);
}

/* Who asks for more than there is is told, and can go on with less. */
static void too_many_open(void)
{
	enum { N = 32 };
	struct fs_obj *o[N];
	struct fs_file *f[N];
	unsigned opened = 0;
	char name[16];
	int err = 0;

	if (!bed.tight)
		return;
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		o[i] = make_file(bed.dir, name, name);
	}
	while (opened < N && !err) {
		err = fs->open(o[opened], O_RDWR, &f[opened]);
		opened += !err;
	}
	if (err || !fs->untold || !fs->untold()) /* it is open only while it is read */
		want(err, -ENFILE);
	must(opened > 0);
	for (unsigned i = 0; i < opened; i++)
		fs->release(f[i]);
	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		must(holds(o[i], name));
		fs->forget(o[i]);
	}
}

const struct fs_test budget_tests[] = {
	{"a hundred objects are known at once", all_known, 0, 0},
	{"what is known is found by its new name", known_and_gone, 0, 0},
	{"what is idle is whole when its name goes", idle_and_gone, 0, 0},
	{"too many open files are refused, and given back", too_many_open, 0, 0},
	{0},
};
