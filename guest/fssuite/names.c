// SPDX-License-Identifier: Apache-2.0
/*
 * names.c - every legal name is kept as it is, too long ones are refused, and trees may be deeper
 * than any path.
 */
#include "suite.h"
#include <dirent.h>

static bool check_every_byte(void)
{
	bool seen[256] = {0};
	struct dirent *e;
	DIR *dir;
	int n = 0;

	for (int c = 1; c < 256; c++) {
		char name[3] = {(char)c, 'x', 0};

		must(c == '/' || mknod(name, S_IFREG | 0644, 0) == 0);
	}
	must((dir = opendir(".")) != NULL);
	while ((e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		must(strlen(e->d_name) == 2 && e->d_name[1] == 'x');
		must(!seen[(uint8_t)e->d_name[0]]);
		seen[(uint8_t)e->d_name[0]] = true;
		n++;
	}
	must(closedir(dir) == 0 && n == 254);
	for (int c = 1; c < 256; c += 7) {
		char name[3] = {(char)c, 'x', 0};

		must(c == '/' || file_holds(name, ""));
	}
	return true;
}

static bool check_odd(void)
{
	static const char *const names[] = {
		"new\nline \xff\x80 \\ -",
		"...",
		"..x",
		".. ",
		" ",
		"-rf",
		"con:",
		"a\\b",
		"*?[",
		"\xe2\x82\xac",
		"\xed\xa0\x80",
		"name ",
		"name.",
		"NAME",
		"name",
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		must(file_make(names[i], names[i]));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		must(file_holds(names[i], names[i]));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		must(unlink(names[i]) == 0 && absent(names[i]));
	return true;
}

static bool check_length(void)
{
	char name[257], other[257];

	memset(name, 'n', 256);
	memset(other, 'o', 256);
	name[256] = other[256] = 0;
	must_fail(open(name, O_CREAT | O_WRONLY, 0644), ENAMETOOLONG);
	must_fail(mkdir(name, 0755), ENAMETOOLONG);
	must_fail(symlink("x", name), ENAMETOOLONG);
	must_fail(unlink(name), ENAMETOOLONG);
	name[255] = other[255] = 0;
	must(file_make(name, "long") && file_holds(name, "long"));
	must(rename(name, other) == 0 && file_holds(other, "long") && absent(name));
	must(link(other, name) == 0 && unlink(other) == 0 && unlink(name) == 0);
	must(mkdir(name, 0755) == 0 && rmdir(name) == 0 && symlink("x", name) == 0);
	return true;
}

/* Each level knows its place: the kernel finds a loop if numbers or ".." are mixed up. */
static bool check_getcwd(void)
{
	char start[4096], now[8192], want[8192];

	must(getcwd(start, 2048) != NULL);
	snprintf(want, sizeof(want), "%s", start);
	for (int i = 0; i < 30; i++) {
		char name[16];

		snprintf(name, sizeof(name), "level-%d", i);
		must(mkdir(name, 0755) == 0 && chdir(name) == 0);
		snprintf(want + strlen(want), sizeof(want) - strlen(want), "/%s", name);
		must(getcwd(now, sizeof(now)) != NULL && strcmp(now, want) == 0);
	}
	for (int i = 0; i < 30; i++)
		must(chdir("..") == 0);
	must(getcwd(now, sizeof(now)) != NULL && strcmp(now, start) == 0);
	return true;
}

static bool check_deep(void)
{
	enum { DEPTH = 90 };
	ino_t numbers[DEPTH];
	char name[50], path[DEPTH * 50 + 1] = "";
	int top = open(".", O_RDONLY | O_DIRECTORY);

	must(top >= 0);
	memset(name, 'd', sizeof(name) - 1);
	name[49] = 0;
	for (int i = 0; i < DEPTH; i++) {
		numbers[i] = ino_of(".");
		must(mkdir(name, 0755) == 0 && chdir(name) == 0);
		memcpy(path + i * 50, name, 49);
		path[i * 50 + 49] = '/';
	}
	must(file_make("bottom", "deeper than PATH_MAX") && rename("bottom", "b") == 0);
	must(file_holds("b", "deeper than PATH_MAX") && link("b", "c") == 0);
	must_fail(openat(top, path, O_RDONLY), ENAMETOOLONG);
	for (int i = DEPTH - 1; i >= 0; i--)
		must(chdir("..") == 0 && ino_of(".") == numbers[i]);
	path[50 * 60] = 0; /* as deep as a path goes, from here */
	must(openat(top, path, O_RDONLY | O_DIRECTORY) >= 0);
	return true;
}

const struct check name_checks[] = {
	CHECK(every_byte, "names of every byte but NUL and slash are kept"),
	CHECK(odd, "names that look special are not"),
	CHECK(length, "names of 255 bytes work, 256 is too long"),
	CHECK(getcwd, "every level of a tree knows its path"),
	CHECK(deep, "a tree may be deeper than the longest path"),
	{0},
};
