// SPDX-License-Identifier: Apache-2.0
/*
 * model.h - random operations done twice: through the door, and by system calls to a plain directory of the host beside
 * the share, as the same user. What each of them says, and what comes of all of them, is the same.
 *
 * A pair is one object on both sides, a spot a name in a directory on both sides. model.c chooses and compares,
 * model_names.c and model_data.c have the operations.
 */
#ifndef FS_SUITE_MODEL_H
#define FS_SUITE_MODEL_H

#include "suite.h"

#define HELD 12
#define OPEN 5

struct pair {
	struct fs_obj *o; /* NULL: none */
	int host;         /* O_PATH */
	bool linked;      /* has had more than one name */
	bool borrowed;    /* one of those that are held */
};

struct spot {
	struct fs_obj *dir;
	int host; /* O_PATH */
	char name[4];
};

struct opened {
	struct fs_file *f; /* NULL: none */
	struct pair p;
	int host;
	bool writes;
};

struct model {
	uint64_t seed;
	struct spot top;
	struct pair held[HELD];
	struct opened open[OPEN];
	unsigned nopen; /* of them that are used */
	bool devices;   /* the host lets us make device nodes */
	unsigned at;    /* operations done */
	char log[24][160];
};

unsigned pick(struct model *, unsigned below);
/* One in so many. */
bool chance(struct model *, unsigned in);
/* What is done next, for the message if it goes wrong. */
void note(struct model *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Both sides give the same, or the test ends with the last operations and how to have them again. */
void agree(struct model *, long long got, long long want_, const char *what);
_Noreturn void disagree(struct model *, const char *what);
void agree_stat(struct model *, const struct statx *, int host);

struct spot spot_find(struct model *);
void spot_drop(struct spot *);
/* An object that is held or found by a name; false: there is none there. */
bool pair_find(struct model *, struct pair *);
bool pair_in(struct model *, const struct spot *, struct pair *);
void pair_drop(struct pair *);
/* Holds it in place of another, or drops it. */
void pair_keep(struct model *, struct pair *);
/* The object could not be found again, where that may be: it is not held any more. */
bool pair_lost(struct model *, struct pair *, int err);
mode_t pair_type(const struct pair *);
bool pair_nameless(const struct pair *);
/* Takes both over. */
void open_keep(struct model *, struct opened *);
void open_drop(struct opened *);
struct opened *open_any(struct model *, bool writes);

mode_t pick_mode(struct model *, bool dir);
const struct cred *pick_caller(struct model *);
/* What was made on the host by root becomes the caller's. */
void host_give(int dir, const char *name, const struct cred *, mode_t);

struct model_op {
	void (*run)(struct model *);
	unsigned weight;
};
extern const struct model_op model_name_ops[], model_data_ops[];

/* Below and including: the same names, kinds, sizes, contents, modes, owners and links. */
void tree_agree(struct model *, struct fs_obj *, int host, unsigned depth);

#endif
