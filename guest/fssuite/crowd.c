// SPDX-License-Identifier: Apache-2.0
/*
 * crowd.c - many processes and threads at the same names: nothing is lost, nothing is there twice.
 */
#include "suite.h"
#include <pthread.h>
#include <stdatomic.h>

enum { MEMBERS = 4, RACES = 25 };

static bool crowd(bool (*member)(int))
{
	bool good = true;
	pid_t pids[MEMBERS];

	for (int i = 0; i < MEMBERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(member(i) ? 0 : 1);
	}
	for (int i = 0; i < MEMBERS; i++)
		good = child_good(pids[i]) && good;
	return good;
}

static bool renamer(int id)
{
	char name[32], text[32];

	for (unsigned i = 0; i < suite_times(60); i++) {
		snprintf(name, sizeof(name), "own-%d-%u", id, i);
		snprintf(text, sizeof(text), "%d wrote %u", id, i);
		must(file_make(name, text) && file_holds(name, text));
		must(rename(name, "shared") == 0);
	}
	return true;
}

/* Each with its own files, all renaming over one name. */
static bool check_crowd(void)
{
	must(crowd(renamer));
	must(size_of("shared") > 0 && unlink("shared") == 0);
	return true;
}

static bool appender(int id)
{
	int fd = open("log", O_WRONLY | O_APPEND);
	char line[64];

	must(fd >= 0);
	for (unsigned i = 0; i < suite_times(150); i++) {
		int n = snprintf(line, sizeof(line), "%d:%03u:%.*s\n", id, i, 10 + id,
				 "padding-padding");

		must(write(fd, line, (size_t)n) == n);
	}
	return true;
}

static bool check_crowd_append(void)
{
	int next[MEMBERS] = {0}, id, i, n = 0;
	char line[64];
	FILE *f;

	must(file_make("log", "") && crowd(appender) && (f = fopen("log", "r")));
	while (fgets(line, sizeof(line), f)) {
		must(sscanf(line, "%d:%d:padding", &id, &i) == 2 && id < MEMBERS);
		must((int)strlen(line) == 7 + 10 + id && i == next[id]++);
		n++;
	}
	must(n == (int)suite_times(150) * MEMBERS);
	return true;
}

static atomic_int won[RACES], errors;

static void *racer(void *arg)
{
	char name[32];

	(void)arg;
	for (int i = 0; i < RACES; i++) {
		int fd;

		snprintf(name, sizeof(name), "race-%d", i);
		fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
		if (fd >= 0)
			atomic_fetch_add(&won[i], 1);
		else if (errno != EEXIST)
			atomic_fetch_add(&errors, 1);
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static bool threads(void *(*fn)(void *), int n)
{
	pthread_t t[16];

	for (int i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, fn, (void *)(intptr_t)i))
			return false;
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	return true;
}

static bool check_threads_exclusive(void)
{
	must(threads(racer, 8) && errors == 0);
	for (int i = 0; i < RACES; i++)
		must(won[i] == 1);
	return true;
}

static void *maker(void *arg)
{
	int id = (int)(intptr_t)arg;
	char name[32], other[32];
	struct stat st;

	for (unsigned i = 0; i < 4 * suite_times(25); i++) {
		int bad;

		snprintf(name, sizeof(name), "t%d-%u", id, i);
		snprintf(other, sizeof(other), "u%d-%u", id, i);
		bad = i % 4 == 3 ? mkdir(name, 0755) : mknod(name, S_IFREG | 0644, 0);
		bad |= stat(name, &st) | rename(name, other);
		bad |= i % 4 == 3 ? rmdir(other) : i % 4 ? unlink(other) : 0;
		if (bad)
			atomic_fetch_add(&errors, 1);
	}
	return NULL;
}

static bool check_threads_one_directory(void)
{
	int left = 0;

	must(threads(maker, 8) && errors == 0);
	for (int id = 0; id < 8; id++)
		for (unsigned i = 0; i < 4 * suite_times(25); i++) {
			char name[32];

			snprintf(name, sizeof(name), "u%d-%u", id, i);
			left += !absent(name);
		}
	must(left == (int)(8 * suite_times(25)));
	return true;
}

/* All take away and put back the same few names: each call may lose, none may fail otherwise. */
static void *churner(void *arg)
{
	unsigned seed = (unsigned)(intptr_t)arg;
	char a[8], b[8];

	for (unsigned i = 0; i < suite_times(200); i++) {
		int r = 0, fd;

		seed = seed * 1103515245 + 12345;
		snprintf(a, sizeof(a), "c%u", seed >> 16 & 3);
		snprintf(b, sizeof(b), "c%u", seed >> 18 & 3);
		errno = 0;
		switch (seed >> 20 & 3) {
		case 0:
			fd = open(a, O_CREAT | O_RDWR, 0644);
			r = fd < 0 || write(fd, "x", 1) != 1 || close(fd);
			break;
		case 1:
			r = unlink(a);
			break;
		case 2:
			r = rename(a, b);
			break;
		default:
			r = link(a, b);
		}
		if (r && errno != ENOENT && errno != EEXIST)
			atomic_fetch_add(&errors, 1);
	}
	return NULL;
}

static bool check_threads_same_names(void)
{
	must(threads(churner, 6) && errors == 0);
	return true;
}

/* Two directories are moved into each other and out again; the tree stays a tree. */
static void *mover(void *arg)
{
	bool odd = (intptr_t)arg & 1;

	for (unsigned i = 0; i < suite_times(100); i++) {
		if (rename(odd ? "a" : "b", odd ? "b/a" : "a/b") && errno != ENOENT &&
		    errno != EINVAL && errno != ENOTEMPTY)
			atomic_fetch_add(&errors, 1);
		if (rename(odd ? "b/a" : "a/b", odd ? "a" : "b") && errno != ENOENT &&
		    errno != EINVAL && errno != ENOTEMPTY)
			atomic_fetch_add(&errors, 1);
	}
	return NULL;
}

static bool check_threads_move_directories(void)
{
	must(mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0 && file_make("a/in-a", "a"));
	must(file_make("b/in-b", "b") && threads(mover, 4) && errors == 0);
	if (!absent("a/b"))
		must(rename("a/b", "b") == 0);
	else if (!absent("b/a"))
		must(rename("b/a", "a") == 0);
	must(file_holds("a/in-a", "a") && file_holds("b/in-b", "b"));
	return true;
}

/* One file written by all, each in its own stripes. */
static bool striper(int id)
{
	int fd = open("striped", O_RDWR);
	char buf[1000];

	must(fd >= 0);
	memset(buf, 'A' + id, sizeof(buf));
	for (int i = 0; i < 30; i++)
		must(pwrite(fd, buf, sizeof(buf), (i * MEMBERS + id) * 1000) == sizeof(buf));
	return true;
}

static bool check_crowd_stripes(void)
{
	char buf[1000];
	int fd;

	must(file_make("striped", "") && crowd(striper) && (fd = open("striped", O_RDONLY)) >= 0);
	for (int i = 0; i < 30 * MEMBERS; i++) {
		must(read(fd, buf, sizeof(buf)) == sizeof(buf));
		for (size_t k = 0; k < sizeof(buf); k++)
			must(buf[k] == 'A' + i % MEMBERS);
	}
	must(read(fd, buf, 1) == 0);
	return true;
}

const struct check crowd_checks[] = {
	CHECK(crowd, "processes that rename over one name do not disturb each other"),
	CHECK(crowd_append, "processes that append to one file lose no line and tear none"),
	CHECK(crowd_stripes, "processes that write one file in stripes keep to them"),
	CHECK(threads_exclusive, "of threads that create one name exactly one wins"),
	CHECK(threads_one_directory, "threads that make and remove in one directory lose nothing"),
	CHECK(threads_same_names,
	      "threads at the same names meet no error but absence and presence"),
	CHECK(threads_move_directories, "directories moved into each other stay a tree"),
	{0},
};
