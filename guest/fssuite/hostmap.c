// SPDX-License-Identifier: Apache-2.0
/*
 * hostmap.c - a mapping of a file in here, and the host at the other end of it.
 *
 * A dialogue on the console: "@@ host WORDS" asks the host to do something (tests/guest/driver.sh has
 * host_WORD for each), and the line it types says that it has. With DAX the mapping is the host's own
 * page cache, so each side sees the other's stores at once; without, after msync and invalidation.
 * What the host truncates below a mapping may cost us the page, never the machine.
 */
#include "suite.h"
#include <setjmp.h>
#include <sys/mman.h>

#define SIZE (4 << 20)

static bool say(bool good, const char *sentence)
{
	printf("@@ %s %s\n", good ? "ok" : "not ok", sentence);
	return good;
}

/* Has the host do it; false if it could not, or did not answer. */
static bool host(const char *words)
{
	FILE *console = fopen("/dev/console", "r");
	char line[128] = "";

	printf("@@ host %s\n", words);
	fflush(stdout);
	if (console && fgets(line, sizeof(line), console))
		line[strcspn(line, "\r\n")] = 0;
	if (console)
		fclose(console);
	return !strcmp(line, "host: done");
}

static sigjmp_buf out;

static void on_bus(int n)
{
	(void)n;
	siglongjmp(out, 1);
}

/* The byte, or -1 for a page that is not there. */
static int byte_at(volatile char *p)
{
	signal(SIGBUS, on_bus);
	if (sigsetjmp(out, 1))
		return -1;
	return *p;
}

/* Shares are mounted at /mnt/TAG, and TAG is their directory on the host. */
static const char *on_host(const char *file)
{
	return strncmp(file, "/mnt/", 5) ? file : file + 5;
}

static bool file_mapped(const char *file, int *fd, char **m)
{
	*fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (*fd < 0 || ftruncate(*fd, SIZE))
		return false;
	*m = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return *m != MAP_FAILED;
}

int hostmap_main(const char *file, bool dax)
{
	const char *base = on_host(file);
	char words[128];
	bool good = true;
	char *m;
	int fd;

	if (!file_mapped(file, &fd, &m))
		return !say(false, "a file for the host is mapped");
	memcpy(m + 12345, "stored by the guest", 19);
	snprintf(words, sizeof(words), "holds %s 12345 stored by the guest", base);
	if (!dax)
		good &= msync(m, SIZE, MS_SYNC) == 0;
	good &= say(host(words), "the host sees what was stored through a mapping");
	snprintf(words, sizeof(words), "patch %s 2000000 patched by the host", base);
	good &= host(words);
	if (!dax)
		good &= posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
			madvise(m, SIZE, MADV_DONTNEED) == 0;
	if (dax)
		good &= say(!memcmp(m + 2000000, "patched by the host", 19),
			    "a mapping sees what the host wrote");
	return good ? 0 : 1;
}

int hostcut_main(const char *file)
{
	char words[128];
	int fd, c;
	char *m;

	if (!file_mapped(file, &fd, &m))
		return !say(false, "a file for the host to truncate is mapped");
	memset(m, 'x', SIZE);
	snprintf(words, sizeof(words), "cut %s", on_host(file));
	if (!say(host(words), "the host truncates what is mapped"))
		return 1;
	c = byte_at(m + 3000000);
	return say((c == 0 || c == -1) && munmap(m, SIZE) == 0 && ftruncate(fd, 100) == 0 &&
			   pwrite(fd, "x", 1, 50) == 1,
		   "what was truncated is zeros or a signal, and the file is used on")
		       ? 0
		       : 1;
}
