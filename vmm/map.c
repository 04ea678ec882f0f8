// SPDX-License-Identifier: Apache-2.0
/*
 * map.c - the hash map: linear probing over slots of { value, key }.
 *
 *   value NULL: never used, a search ends here     value DEAD: deleted, a search goes on     else:
 * live
 *
 * The table is a power of two and at least three eighths of it are never-used, so every search ends. It
 * is rebuilt, and the dead are dropped, only in map_put(): map_del() moves nothing, which is what
 * makes it legal during a walk. Not thread-safe. Calls: libc only.
 */
#include "map.h"
#include <assert.h>
#include <sys/random.h>

#define FIRST_CAP 16

static const char dead_mark;
#define DEAD ((void *)&dead_mark)

/* Of a value and a key of that size: every value stays aligned. */
static inline size_t slot_size(size_t key_size)
{
	return sizeof(void *) + ALIGN_UP(key_size, sizeof(void *));
}

static void **slot_at(const struct map *m, size_t i)
{
	return (void **)(m->slots + i * slot_size(m->key_size));
}

static inline bool is_live(const void *value)
{
	return value && value != DEAD;
}

void map_init(struct map *m, size_t key_size)
{
	*m = (struct map){.key_size = key_size};
	/* Early in a boot there may be no randomness yet; the address is then the best secret there
	 * is. */
	if (getrandom(&m->seed, sizeof(m->seed), GRND_NONBLOCK) != sizeof(m->seed))
		m->seed = (uintptr_t)m * 0x9e3779b97f4a7c15u;
}

void map_fini(struct map *m)
{
	free(m->slots);
	m->slots = NULL;
	m->cap = m->used = m->dead = 0;
}

/* Both halves of the product: the low bits, which choose the slot, depend on all of the key. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline uint64_t hash(uint64_t seed, const unsigned char *key, size_t key_size)
{
	uint64_t h = seed, word;
	size_t left = key_size;

	for (; left >= sizeof(word); left -= sizeof(word), key += sizeof(word)) {
		memcpy(&word, key, sizeof(word));
		h = fold(h ^ word, 0x9e3779b97f4a7c15u ^ left);
	}
	if (left) {
		word = 0;
		memcpy(&word, key, left);
		h = fold(h ^ word, 0x9e3779b97f4a7c15u ^ left);
	}
	return fold(h ^ seed, 0xd6e8feb86659fd93u);
}

/* The slot of key, or the one where it belongs: the first dead one on the way, else the empty one. */
static inline void **probe(const struct map *m, const void *key, const size_t key_size)
{
	const size_t mask = m->cap - 1, size = slot_size(key_size);
	void **place = NULL;

	for (size_t i = hash(m->seed, key, key_size) & mask;; i = (i + 1) & mask) {
		void **slot = (void **)(m->slots + i * size);

		if (!*slot)
			return place ? place : slot;
		if (*slot == DEAD && !place)
			place = slot;
		if (*slot != DEAD && !memcmp(slot + 1, key, key_size))
			return slot;
	}
}

rare static void **find_any(const struct map *m, const void *key)
{
	return probe(m, key, m->key_size);
}

/* Most keys are a number or two: where the compiler knows how long they are, it hashes and compares them as such. */
static void **find(const struct map *m, const void *key)
{
	switch (m->key_size) {
	case sizeof(uint32_t):
		return probe(m, key, sizeof(uint32_t));
	case sizeof(uint64_t):
		return probe(m, key, sizeof(uint64_t));
	case 2 * sizeof(uint64_t):
		return probe(m, key, 2 * sizeof(uint64_t));
	default:
		return find_any(m, key);
	}
}

void *map_get(const struct map *m, const void *key)
{
	void *value;

	if (!m->slots)
		return NULL;
	value = *find(m, key);
	return is_live(value) ? value : NULL;
}

/* Into a table that the live entries and one more fill to at most half: it may be a smaller one. */
static int rebuild(struct map *m)
{
	struct map old = *m;

	m->cap = FIRST_CAP;
	while (m->cap / 2 < m->used + 1)
		m->cap *= 2;
	m->slots = calloc(m->cap, slot_size(m->key_size));
	if (!m->slots) {
		*m = old;
		return -ENOMEM;
	}
	m->dead = 0;
	for (size_t i = 0; i < old.cap; i++) {
		void **from = slot_at(&old, i), **to;

		if (!is_live(*from))
			continue;
		to = find(m, from + 1);
		memcpy(to, from, slot_size(m->key_size));
	}
	free(old.slots);
	return 0;
}

int map_put(struct map *m, const void *key, void *value)
{
	void **slot = m->slots ? find(m, key) : NULL;

	assert(value);
	if (slot && is_live(*slot))
		return -EEXIST;
	/* Beyond five eighths used or dead, searches for what is not there get long. */
	if (!slot || m->used + m->dead + 1 > m->cap / 8 * 5) {
		int r = rebuild(m);

		if (r < 0)
			return r;
		slot = find(m, key);
	}
	if (*slot == DEAD)
		m->dead--;
	*slot = value;
	memcpy(slot + 1, key, m->key_size);
	m->used++;
	return 0;
}

void *map_swap(struct map *m, const void *key, void *value)
{
	void **slot = find(m, key), *old = *slot;

	assert(value && is_live(old));
	*slot = value;
	return old;
}

void *map_del(struct map *m, const void *key)
{
	void **slot, *value;

	if (!m->slots)
		return NULL;
	slot = find(m, key);
	value = *slot;
	if (!is_live(value))
		return NULL;
	*slot = DEAD;
	m->used--;
	m->dead++;
	return value;
}

bool map_next(const struct map *m, size_t *iter, const void **key, void **value)
{
	while (*iter < m->cap) {
		void **slot = slot_at(m, (*iter)++);

		if (!is_live(*slot))
			continue;
		*key = slot + 1;
		*value = *slot;
		return true;
	}
	return false;
}
