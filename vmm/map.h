// SPDX-License-Identifier: Apache-2.0
/*
 * map.h - a hash map from a fixed-size key to a pointer: handles, node ids, inode keys.
 *
 * Open addressing, grows by doubling, never shrinks below its first size. Not thread-safe: the owner serialises.
 * Keys are compared as bytes, so a key struct must have no padding (or have it zeroed).
 */
#ifndef VMM_MAP_H
#define VMM_MAP_H

#include "base.h"

struct map {
	size_t key_size;
	size_t cap, used, dead; /* slots; live ones; deleted ones */
	unsigned char *slots;   /* cap x { void *value; key } ; NULL until the first put */
	uint64_t seed;          /* so that a guest cannot choose colliding keys */
};

void map_init(struct map *, size_t key_size);
/* Frees the table; the values are the owner's and are not touched. */
void map_fini(struct map *);
/* The value of key, or NULL. */
void *map_get(const struct map *, const void *key);
/* 0; -EEXIST if the key is there already (nothing is changed); -ENOMEM. value must not be NULL. */
int map_put(struct map *, const void *key, void *value) must_check;
/* Gives a key that is there another value, which is not NULL; returns the one it had. */
void *map_swap(struct map *, const void *key, void *value);
/* Takes the key out and returns its value, or NULL if it was not there. */
void *map_del(struct map *, const void *key);
/* Walks all entries: *iter starts at 0; false at the end. map_del() of the entry just returned is allowed. */
bool map_next(const struct map *, size_t *iter, const void **key, void **value);

#endif
