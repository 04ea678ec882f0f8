// SPDX-License-Identifier: Apache-2.0
/*
 * dax_file.c - the files that are mapped, each watched for changes by the host.
 *
 * A file is known, and kept, from its first piece in the window to its last. A watch is what the host may refuse: then
 * the file is mapped all the same. Calls: share.h, log.h. Spec: inotify(7).
 */
#include "dax_int.h"

/* Events read at a time, as often as this: as many as the host keeps. */
#define READS (16384 / SHARE_CHANGES)

/* ---- watching ---- */

static const char *remedy(int error)
{
	switch (error) {
	case -EMFILE:
		return "raise fs.inotify.max_user_instances, or ulimit -n";
	case -ENOSPC:
		return "raise fs.inotify.max_user_watches";
	case -EACCES:
		return "give this user the right to read them";
	default:
		return log_remedy(-error, "inotify(7) does not have them");
	}
}

static void say_unwatched(struct dax *d, const char *name, int error)
{
	log_once(&d->said_unwatched, LOG_WARN,
		 "%s: files that are mapped cannot be watched (%s): a guest may hang that reads "
		 "one which the host has made shorter: %s",
		 name, strerror(-error), remedy(error));
}

/* The file's watch, if that is not another's already. */
static int watch_find(struct dax *d, int number, struct dax_watch **out)
{
	struct dax_watch *w = map_get(&d->watched, &number);
	int r;

	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w)
			return -ENOMEM;
		w->number = number;
		r = map_put(&d->watched, &number, w);
		if (r) {
			free(w);
			return r;
		}
	}
	*out = w;
	return 0;
}

void dax_file_watch(struct dax *d, struct dax_file *f)
{
	struct dax_watch *w;
	int number, r;

	if (f->watch || d->watches < 0)
		return;
	r = share_watch(f->inode, d->watches, &number);
	if (r) {
		say_unwatched(d, d->window->name, r);
		return;
	}
	r = watch_find(d, number, &w);
	if (r) {
		share_unwatch(d->watches, number);
		say_unwatched(d, d->window->name, r);
		return;
	}
	f->watch = w;
	f->twin = w->files;
	w->files = f;
}

static void unwatch(struct dax *d, struct dax_file *f)
{
	struct dax_watch *w = f->watch;
	struct dax_file **link;

	if (!w)
		return;
	for (link = &w->files; *link != f; link = &(*link)->twin)
		;
	*link = f->twin;
	if (w->files)
		return;
	map_del(&d->watched, &w->number);
	if (d->watches >= 0)
		share_unwatch(d->watches, w->number);
	free(w);
}

/* ---- what has changed ---- */

static void mark(struct dax_file *f, struct dax_file **list)
{
	if (f->changed)
		return;
	f->changed = true;
	f->next_changed = *list;
	*list = f;
}

static void mark_all(struct dax *d, struct dax_file **list)
{
	const void *key;
	void *file;
	size_t i = 0;

	while (map_next(&d->files, &i, &key, &file))
		mark(file, list);
}

static void mark_number(struct dax *d, int number, struct dax_file **list)
{
	const struct dax_watch *w = map_get(&d->watched, &number);

	for (struct dax_file *f = w ? w->files : NULL; f; f = f->twin)
		mark(f, list);
}

/* However often a file was written, it is looked at once. */
struct dax_file *dax_file_changes(struct dax *d)
{
	struct dax_file *list = NULL;
	int number[SHARE_CHANGES];
	unsigned n = SHARE_CHANGES;

	for (unsigned reads = 0; n && reads < READS; reads++) {
		n = share_changes(d->watches, number);
		for (unsigned i = 0; i < n; i++)
			if (number[i] == SHARE_CHANGED_ANY)
				mark_all(d, &list);
			else
				mark_number(d, number[i], &list);
	}
	for (struct dax_file *f = list; f; f = f->next_changed)
		f->changed = false;
	return list;
}

/* ---- files ---- */

void dax_file_init(struct dax *d, const char *name)
{
	int r;

	d->watches = -1;
	map_init(&d->files, sizeof(struct share_inode *));
	map_init(&d->watched, sizeof(int));
	r = share_watches_open(&d->watches);
	if (r)
		say_unwatched(d, name, r);
}

void dax_file_fini(struct dax *d)
{
	map_fini(&d->files);
	map_fini(&d->watched);
	close_fd(&d->watches);
}

struct dax_file *dax_file_find(const struct dax *d, const struct share_inode *inode)
{
	return map_get(&d->files, &inode);
}

int dax_file_get(struct dax *d, struct share_inode *inode, struct dax_file **out)
{
	struct dax_file *f = dax_file_find(d, inode);
	int r;

	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return -ENOMEM;
		r = map_put(&d->files, &inode, f);
		if (r) {
			free(f);
			return r;
		}
		f->inode = share_get(inode);
	}
	f->refs++;
	*out = f;
	return 0;
}

void dax_file_put(struct dax *d, struct dax_file *f)
{
	if (--f->refs)
		return;
	unwatch(d, f);
	map_del(&d->files, &f->inode);
	share_put(f->inode);
	free(f);
}
