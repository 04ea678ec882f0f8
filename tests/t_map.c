// SPDX-License-Identifier: Apache-2.0
/*
 * t_map.c - the hash map against a plain array that knows the truth.
 *
 * The long run mixes puts, deletes and lookups so that the table grows, fills with dead slots, is
 * cleaned and shrinks.
 */
#include "../vmm/map.h"
#include "tap.h"

#define KEYS 2000

/* 13 bytes: no multiple of a word, so the tail of the hash and the padding of the slot are in use. */
struct key {
	unsigned char bytes[13];
};

static struct key key_of(unsigned n)
{
	struct key k = {{0}};

	memcpy(k.bytes + 9, &n, 4);
	return k;
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static void test_words(void)
{
	struct map m;
	uint64_t key = 7, other = 8;
	int a, b;

	map_init(&m, sizeof(key));
	ok(!map_get(&m, &key) && !map_del(&m, &key) && !m.slots,
	   "an empty map has nothing and no memory");
	is(map_put(&m, &key, &a), 0, "a key can be put");
	ok(map_get(&m, &key) == &a && !map_get(&m, &other), "and is found, and no other");
	is(map_put(&m, &key, &b), -EEXIST, "a second value for a key is refused");
	ok(map_get(&m, &key) == &a, "and changes nothing");
	ok(map_del(&m, &key) == &a && !map_get(&m, &key) && !map_del(&m, &key),
	   "a key can be taken out once");
	ok(!map_put(&m, &key, &b) && map_get(&m, &key) == &b && m.used == 1, "and put again");
	map_fini(&m);
	ok(!m.slots && !map_get(&m, &key), "an ended map is empty");
}

/* True if the map holds exactly what the array says. */
static bool same(const struct map *m, void *const *truth)
{
	size_t live = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		struct key k = key_of(i);

		if (map_get(m, &k) != truth[i])
			return false;
		live += truth[i] != NULL;
	}
	return live == m->used;
}

static void test_random(void)
{
	static void *truth[KEYS];
	static char values[KEYS];
	uint32_t state = 1;
	struct map m;
	unsigned bad = 0;

	map_init(&m, sizeof(struct key));
	for (unsigned step = 0; step < 200000; step++) {
		unsigned i = next_random(&state) % KEYS;
		bool growing = step / 20000 % 2 == 0; /* tides: mostly puts, then mostly deletes */
		struct key k = key_of(i);

		if (next_random(&state) % 4 == (growing ? 0 : 1) ||
		    (!growing && next_random(&state) % 2)) {
			bad += map_del(&m, &k) != truth[i];
			truth[i] = NULL;
		} else {
			bad += map_put(&m, &k, &values[i]) != (truth[i] ? -EEXIST : 0);
			truth[i] = &values[i];
		}
		if (step % 10000 == 0)
			bad += !same(&m, truth);
	}
	is(bad, 0, "200000 random steps agree with the array");
	ok(same(&m, truth), "and so does the end");
	map_fini(&m);
}

static void test_churn(void)
{
	struct map m;
	uint64_t key;
	size_t cap = 0;
	int v;

	map_init(&m, sizeof(key));
	for (key = 0; key < 100000; key++) {
		if (map_put(&m, &key, &v) || map_del(&m, &key) != &v)
			break;
		cap = MAX(cap, m.cap);
	}
	ok(key == 100000 && cap <= 16,
	   "a handle opened and closed 100000 times leaves a small table");
	map_fini(&m);
}

static void test_shrink(void)
{
	struct map m;
	uint64_t key;
	size_t cap;
	int v;

	map_init(&m, sizeof(key));
	for (key = 0; key < 10000; key++)
		need(!map_put(&m, &key, &v));
	cap = m.cap;
	for (key = 0; key < 10000; key++)
		need(map_del(&m, &key) == &v);
	for (key = 10000; m.cap == cap && key < 100000; key++)
		need(!map_put(&m, &key, &v) && map_del(&m, &key) == &v);
	ok(m.cap < 64, "a table most of whose entries have gone is made small again");
	map_fini(&m);
}

static void test_walk(void)
{
	static unsigned char values[100], seen[100];
	const void *key;
	size_t iter = 0;
	struct map m;
	void *value;
	unsigned n = 0, twice = 0;

	map_init(&m, sizeof(struct key));
	ok(!map_next(&m, &iter, &key, &value), "a walk of an empty map ends at once");
	for (unsigned i = 0; i < 100; i++) {
		struct key k = key_of(i);

		need(!map_put(&m, &k, &values[i]));
	}
	for (iter = 0; map_next(&m, &iter, &key, &value); n++) {
		struct key k;

		memcpy(&k, key, sizeof(k));
		twice += seen[(unsigned char *)value - values]++;
		need(map_del(&m, &k) == value);
	}
	ok(n == 100 && !twice && !m.used, "a walk that deletes as it goes meets every entry once");
	map_fini(&m);
}

static void test_seed(void)
{
	struct map a, b;

	map_init(&a, 8);
	map_init(&b, 8);
	ok(a.seed != b.seed,
	   "two maps do not share a seed, so collisions cannot be computed in advance");
	map_fini(&a);
	map_fini(&b);
}

int main(void)
{
	test_words();
	test_random();
	test_churn();
	test_shrink();
	test_walk();
	test_seed();
	return done();
}
