// SPDX-License-Identifier: Apache-2.0
/*
 * share_idmap.c - the guest's ids and the host's, where they differ by ranges.
 *
 * A map is text, "GUEST:HOST:COUNT ..." as newuidmap takes it, checked when the configuration is
 * read and kept twice, sorted by either side: each stat of the guest asks. Ranges may not overlap
 * on either side, so an id has at most one meaning. Without ranges ids are as they are. Thread: any
 * once made. Calls: nothing. Spec: user_namespaces(7), "Defining user and group ID mappings".
 */
#include "share_int.h"
#include <stdio.h>

#define RANGES_MAX  340        /* as many as the kernel takes */
#define IDS_END     UINT32_MAX /* the last of 32 bits is nobody's id: it means "none" */
#define OVERFLOW_ID 65534      /* what Linux shows in place of an id that has no meaning here */

/* ---- the text ---- */

/* Decimal digits alone: strtoul would take a sign and blanks as well. */
static bool take_number(const char **p, uint32_t *out)
{
	uint64_t v = 0;
	const char *s = *p;

	for (; *s >= '0' && *s <= '9' && v <= UINT32_MAX; s++)
		v = v * 10 + (unsigned)(*s - '0');
	if (s == *p || v > UINT32_MAX)
		return false;
	*p = s;
	*out = (uint32_t)v;
	return true;
}

static bool take_char(const char **p, char c)
{
	if (**p != c)
		return false;
	++*p;
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static bool take_range(const char **p, struct id_range *r)
{
	return take_number(p, &r->guest) && take_char(p, ':') && take_number(p, &r->host) &&
	       take_char(p, ':') && take_number(p, &r->count) && (!**p || is_blank(**p));
}

/* The number of ranges, or -EINVAL with a sentence in err. */
static int map_parse(const char *text, struct id_range ranges[RANGES_MAX], char *err)
{
	const char *p = text;
	int n = 0;

	for (;; n++) {
		while (is_blank(*p))
			p++;
		if (!*p)
			return n;
		if (n == RANGES_MAX)
			break;
		if (!take_range(&p, &ranges[n])) {
			snprintf(err, OPT_ERR_MAX, "range %d must be GUEST:HOST:COUNT, in decimal",
				 n + 1);
			return -EINVAL;
		}
		if (!ranges[n].count || ranges[n].count > IDS_END - ranges[n].guest ||
		    ranges[n].count > IDS_END - ranges[n].host) {
			snprintf(err, OPT_ERR_MAX,
				 "range %d must hold at least one id and end at %u or before",
				 n + 1, IDS_END - 1);
			return -EINVAL;
		}
	}
	snprintf(err, OPT_ERR_MAX, "must have at most %d ranges", RANGES_MAX);
	return -EINVAL;
}

/* ---- order ---- */

static int compare(uint32_t a, uint32_t b)
{
	return a < b ? -1 : a > b;
}

static int by_guest(const void *a, const void *b)
{
	return compare(((const struct id_range *)a)->guest, ((const struct id_range *)b)->guest);
}

static int by_host(const void *a, const void *b)
{
	return compare(((const struct id_range *)a)->host, ((const struct id_range *)b)->host);
}

static uint32_t start_of(const struct id_range *r, bool host)
{
	return host ? r->host : r->guest;
}

/* Sorts, so that ranges which overlap lie side by side. */
static bool map_disjoint(struct id_range *r, unsigned n, bool host, char *err)
{
	qsort(r, n, sizeof(*r), host ? by_host : by_guest);
	for (unsigned i = 1; i < n; i++) {
		if (start_of(&r[i], host) - start_of(&r[i - 1], host) >= r[i - 1].count)
			continue;
		snprintf(err, OPT_ERR_MAX, "%u:%u:%u and %u:%u:%u overlap in the ids of the %s",
			 r[i - 1].guest, r[i - 1].host, r[i - 1].count, r[i].guest, r[i].host,
			 r[i].count, host ? "host" : "guest");
		return false;
	}
	return true;
}

bool share_map_check(const void *string, char err[OPT_ERR_MAX])
{
	struct id_range ranges[RANGES_MAX];
	int n = map_parse(string, ranges, err);

	return n >= 0 && map_disjoint(ranges, (unsigned)n, false, err) &&
	       map_disjoint(ranges, (unsigned)n, true, err);
}

/* ---- the map ---- */

/* Checked once more: not every share's configuration has come through a table. */
int share_idmap_init(struct id_map *map, const char *text, char err[OPT_ERR_MAX])
{
	struct id_range ranges[RANGES_MAX];
	int n = map_parse(text ? text : "", ranges, err);

	if (n <= 0)
		return n;
	if (!map_disjoint(ranges, (unsigned)n, false, err))
		return -EINVAL;
	map->by_guest = calloc(2 * (unsigned)n, sizeof(*ranges));
	if (!map->by_guest) {
		snprintf(err, OPT_ERR_MAX, "out of memory");
		return -ENOMEM;
	}
	map->n = (unsigned)n;
	map->by_host = map->by_guest + n;
	memcpy(map->by_guest, ranges, map->n * sizeof(*ranges));
	memcpy(map->by_host, ranges, map->n * sizeof(*ranges));
	if (map_disjoint(map->by_host, map->n, true, err))
		return 0;
	share_idmap_fini(map);
	return -EINVAL;
}

void share_idmap_fini(struct id_map *map)
{
	free(map->by_guest);
	*map = (struct id_map){0};
}

/* The range that id may lie in: the last that does not start after it. */
static const struct id_range *find_range(const struct id_range *r, unsigned n, bool host,
					 uint32_t id)
{
	unsigned low = 0;

	while (low < n) {
		const unsigned mid = low + (n - low) / 2;

		if (start_of(&r[mid], host) <= id)
			low = mid + 1;
		else
			n = mid;
	}
	return low && id - start_of(&r[low - 1], host) < r[low - 1].count ? &r[low - 1] : NULL;
}

bool share_idmap_host(const struct id_map *map, uint32_t guest, uint32_t *host)
{
	const struct id_range *r;

	if (!map->n) {
		*host = guest;
		return true;
	}
	r = find_range(map->by_guest, map->n, false, guest);
	if (r)
		*host = r->host + (guest - r->guest);
	return r;
}

static const struct id_range *host_range(const struct id_map *map, uint32_t host)
{
	return find_range(map->by_host, map->n, true, host);
}

bool share_idmap_knows(const struct id_map *map, uint32_t host)
{
	return !map->n || host_range(map, host);
}

uint32_t share_idmap_guest(const struct id_map *map, uint32_t host)
{
	const struct id_range *r;

	if (!map->n)
		return host;
	r = host_range(map, host);
	return r ? r->guest + (host - r->host) : OVERFLOW_ID;
}
