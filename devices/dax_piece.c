// SPDX-License-Identifier: Apache-2.0
/*
 * dax_piece.c - what of which file is where in the window.
 *
 * Pieces lie in one array by their place in the window, never over each other, and each is also in a list of its file. A
 * mapping goes over whatever was there, so the guest cuts them as it likes: how many there may be is the window's to say
 * (window_hold()), and what a cut needs is reserved before anything is done. Calls: dax_file.c.
 */
#include "dax_int.h"
#include <assert.h>

/* A cut makes two more of one at most, and a mapping puts one between them. */
#define CUT 3u

static uint64_t end_of(const struct dax_piece *p)
{
	return p->off + p->len;
}

/* ---- room ---- */

int dax_piece_reserve(struct dax *d)
{
	while (d->nspare < CUT) {
		struct dax_piece *p = calloc(1, sizeof(*p));

		if (!p)
			return -ENOMEM;
		p->next = d->spare;
		d->spare = p;
		d->nspare++;
	}
	if (d->npieces + CUT > d->room) {
		unsigned room = MAX(2 * d->room, 64u);
		void *more = reallocarray(d->piece, room, sizeof(*d->piece));

		if (!more)
			return -ENOMEM;
		d->piece = more;
		d->room = room;
	}
	return 0;
}

static struct dax_piece *take_spare(struct dax *d)
{
	struct dax_piece *p = d->spare;

	assert(p && d->npieces < d->room);
	d->spare = p->next;
	d->nspare--;
	return p;
}

/* ---- one piece ---- */

/* Counted before it is seen by another thread, and until it has been: see dax_hides(). */
static void count(struct dax *d, const struct dax_piece *p, unsigned change)
{
	if (p->shown < p->len)
		__atomic_add_fetch(&d->hiding, change, __ATOMIC_SEQ_CST);
}

void dax_piece_show(struct dax *d, struct dax_piece *p, uint64_t shown)
{
	count(d, p, -1u);
	p->shown = shown;
	count(d, p, 1);
}

static void insert(struct dax *d, unsigned i, const struct dax_piece *p)
{
	struct dax_piece *new = take_spare(d);

	*new = *p;
	new->next = new->file->pieces;
	new->link = &new->file->pieces;
	if (new->next)
		new->next->link = &new->next;
	new->file->pieces = new;
	new->file->refs++;
	memmove(&d->piece[i + 1], &d->piece[i], (d->npieces - i) * sizeof(*d->piece));
	d->piece[i] = new;
	d->npieces++;
	count(d, new, 1);
}

/* It is out of the array, or will be. */
static void drop(struct dax *d, struct dax_piece *p)
{
	count(d, p, -1u);
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	dax_file_put(d, p->file);
	free(p);
}

/* ---- many ---- */

/* The first that ends behind off. */
static unsigned index_of(const struct dax *d, uint64_t off)
{
	unsigned first = 0, last = d->npieces;

	while (first < last) {
		unsigned mid = first + (last - first) / 2;

		if (end_of(d->piece[mid]) > off)
			last = mid;
		else
			first = mid + 1;
	}
	return first;
}

/* The piece that lies on both sides of off becomes two. */
static void split(struct dax *d, uint64_t off)
{
	unsigned i = index_of(d, off);
	struct dax_piece *p = i < d->npieces ? d->piece[i] : NULL, rest;
	uint64_t head;

	if (!p || p->off >= off)
		return;
	head = off - p->off;
	rest = *p;
	rest.off = off;
	rest.len -= head;
	rest.file_off += head;
	rest.shown -= MIN(rest.shown, head);
	insert(d, i + 1, &rest);
	count(d, p, -1u);
	p->len = head;
	p->shown = MIN(p->shown, head);
	count(d, p, 1);
}

void dax_piece_cut(struct dax *d, uint64_t off, uint64_t len)
{
	unsigned first, end;

	split(d, off);
	split(d, off + len);
	first = index_of(d, off);
	for (end = first; end < d->npieces && d->piece[end]->off < off + len; end++)
		drop(d, d->piece[end]);
	memmove(&d->piece[first], &d->piece[end], (d->npieces - end) * sizeof(*d->piece));
	d->npieces -= end - first;
}

struct dax_piece *dax_piece_add(struct dax *d, const struct dax_piece *p)
{
	unsigned i = index_of(d, p->off);

	insert(d, i, p);
	return d->piece[i];
}

void dax_piece_clear(struct dax *d)
{
	for (unsigned i = 0; i < d->npieces; i++)
		drop(d, d->piece[i]);
	d->npieces = 0;
}

void dax_piece_fini(struct dax *d)
{
	struct dax_piece *p;

	dax_piece_clear(d);
	while ((p = d->spare)) {
		d->spare = p->next;
		free(p);
	}
	free(d->piece);
}
