// SPDX-License-Identifier: Apache-2.0
/*
 * dax_int.h - what dax.c (what the guest asks for), dax_piece.c (what of which file is where) and dax_file.c (the files,
 * watched) know of each other.
 */
#ifndef DEVICES_DAX_INT_H
#define DEVICES_DAX_INT_H

#include "dax.h"
#include "../vmm/log.h"
#include "../vmm/map.h"
#include "../vmm/window.h"

/* What one mapping of the guest left of its own: a part of a file in the window. */
struct dax_piece {
	struct dax_file *file;
	struct dax_piece *next, **link; /* of the file's; spare ones: next only */
	uint64_t off, len, file_off;
	uint64_t
		shown; /* bytes that are the file; the rest, whole pages behind its end, is zeros */
	bool writable;
};

/* A file that is mapped, or about to be. */
struct dax_file {
	struct share_inode *inode; /* a reference */
	unsigned refs;             /* one of each piece */
	struct dax_piece *pieces;
	uint64_t size;           /* when it was last looked at for a change */
	struct dax_watch *watch; /* NULL: none could be had */
	struct dax_file *twin;   /* another with the same watch: one file, by two mounts */
	struct dax_file *next_changed;
	bool changed; /* it is in the list of those to look at */
};

struct dax_watch {
	int number;
	struct dax_file *files;
};

struct dax {
	struct window *window;
	struct map files;   /* share_inode * -> dax_file */
	struct map watched; /* number -> dax_watch */
	int watches;        /* the descriptor; -1: none could be had */
	struct dax_piece **piece;
	unsigned npieces, room; /* by off */
	struct dax_piece *spare;
	unsigned nspare;
	unsigned
		hiding; /* atomic: pieces that are zeros in part, and looks under way; see dax_hides() */
	struct log_once said_unwatched, said_lost;
};

/* ---- dax_piece.c ---- */

/* Room for a cut and then a piece. -ENOMEM. */
int dax_piece_reserve(struct dax *) must_check;
/* What was known of this part of the window is no more: the room for it was reserved. */
void dax_piece_cut(struct dax *, uint64_t off, uint64_t len);
/* All of *p but its links, where nothing is; with a reference to the file of its own. All of it is shown. */
struct dax_piece *dax_piece_add(struct dax *, const struct dax_piece *p);
void dax_piece_show(struct dax *, struct dax_piece *, uint64_t shown);
void dax_piece_clear(struct dax *);
void dax_piece_fini(struct dax *);

/* ---- dax_file.c ---- */

void dax_file_init(struct dax *, const char *name);
void dax_file_fini(struct dax *);
/* With a reference. -ENOMEM. */
int dax_file_get(struct dax *, struct share_inode *, struct dax_file **) must_check;
/* NULL: it is not mapped. Borrowed. */
struct dax_file *dax_file_find(const struct dax *, const struct share_inode *);
void dax_file_put(struct dax *, struct dax_file *);
/* From now on dax_file_changes() tells of it, unless that cannot be had, which is said. */
void dax_file_watch(struct dax *, struct dax_file *);
/* A list by next_changed of files that have changed since. */
struct dax_file *dax_file_changes(struct dax *);

#endif
