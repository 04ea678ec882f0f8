// SPDX-License-Identifier: Apache-2.0
/*
 * t_log.c - lines, levels, errno, and the two limits.
 *
 * Standard error is a memfd while a line is written, and is given back before anything is judged.
 */
#include "../vmm/log.h"
#include "capture.h"

static char said[8192];

static unsigned count_lines(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

static void test_line(void)
{
	struct capture c;
	int kept;

	capture_begin(&c);
	errno = ENOSPC;
	log_err("blk0: %s: %m", "/img");
	kept = errno;
	capture_end(&c, said, sizeof(said));
	ok(!strcmp(said, "wherry: error: blk0: /img: No space left on device\n"),
	   "a line has its level, its text and the text of errno");
	is(kept, ENOSPC, "logging keeps errno");

	capture_begin(&c);
	log_err("fs0: %s", "a\nb\x1b[31m\x7f");
	capture_end(&c, said, sizeof(said));
	ok(!strcmp(said, "wherry: error: fs0: a?b?[31m?\n"),
	   "line ends and escape sequences in a name cannot leave the line");

	capture_begin(&c);
	log_set_raw_terminal(true);
	log_warn("x");
	log_set_raw_terminal(false);
	capture_end(&c, said, sizeof(said));
	ok(!strcmp(said, "wherry: warning: x\r\n"), "on a raw terminal a line ends in CR LF");
}

static void test_long_line(void)
{
	struct capture c;
	char *text = malloc(5000);

	need(text);
	memset(text, 'a', 4999);
	text[4999] = '\0';
	capture_begin(&c);
	log_set_raw_terminal(true);
	log_err("%s", text);
	log_set_raw_terminal(false);
	capture_end(&c, said, sizeof(said));
	ok(strlen(said) <= 1024 && strlen(said) > 1000, "a long line is cut at 1 KiB");
	ok(strstr(said, "a\r\n") && count_lines(said) == 1,
	   "a cut line still ends in its line end");

	capture_begin(&c);
	errno = EACCES;
	log_err("blk0: %s (give this user the right): %m", text);
	capture_end(&c, said, sizeof(said));
	ok(!strncmp(said, "wherry: error: blk0: aaa", 24) && strstr(said, "aaa...aaa") &&
		   strstr(said, "aaa (give this user the right): Permission denied\n") &&
		   strlen(said) <= 1024,
	   "it is the middle that goes: object, reason and remedy stay");
	free(text);
}

static void test_remedy(void)
{
	ok(strstr(log_remedy(EMFILE, "x"), "ulimit -n") &&
		   strstr(log_remedy(ENFILE, "x"), "fs.file-max") &&
		   strstr(log_remedy(EAGAIN, "x"), "ulimit -u") &&
		   strstr(log_remedy(ENOMEM, "x"), "memory"),
	   "what runs out has one remedy wherever it happens");
	ok(!strcmp(log_remedy(ENOENT, "make it"), "make it"), "for the rest the caller knows");
}

static void test_levels(void)
{
	struct capture c;

	capture_begin(&c);
	log_info("no");
	log_debug("no");
	log_warn("yes");
	log_set_level(LOG_ERR);
	log_warn("no");
	log_set_level(LOG_DEBUG);
	log_debug("yes");
	log_set_level(LOG_WARN);
	capture_end(&c, said, sizeof(said));
	ok(!strcmp(said, "wherry: warning: yes\nwherry: debug: yes\n"),
	   "lines above the level are dropped, and the level begins at warning");
}

static void test_limits(void)
{
	struct log_once once = {0};
	struct log_limit limit = {0};
	struct capture c;

	capture_begin(&c);
	for (int i = 0; i < 5; i++)
		log_once(&once, LOG_ERR, "once %d", i);
	capture_end(&c, said, sizeof(said));
	ok(!strcmp(said, "wherry: error: once 0\n"), "log_once writes the first line only");

	capture_begin(&c);
	for (int i = 0; i < 1000; i++)
		log_limited(&limit, LOG_ERR, "line %d", i);
	capture_end(&c, said, sizeof(said));
	/* The second may turn once meanwhile: ten lines, the report, ten more. */
	ok(count_lines(said) >= 10 && count_lines(said) <= 21,
	   "a burst is cut to ten lines a second");
	ok(limit.left_out >= 900, "what was left out is counted");

	limit.second--; /* as if a second had gone by */
	capture_begin(&c);
	log_limited(&limit, LOG_ERR, "after");
	capture_end(&c, said, sizeof(said));
	ok(strstr(said, "lines like the next one were left out\nwherry: error: after\n"),
	   "the first line after a pause is preceded by how many were left out");
}

static void test_limit_below_level(void)
{
	struct log_limit limit = {0};
	struct capture c;

	capture_begin(&c);
	for (int i = 0; i < 100; i++)
		log_limited(&limit, LOG_DEBUG, "line %d", i);
	limit.second--;
	log_limited(&limit, LOG_DEBUG, "after");
	capture_end(&c, said, sizeof(said));
	ok(!said[0] && !limit.left_out, "lines below the level are neither written nor counted");
}

int main(void)
{
	test_line();
	test_long_line();
	test_remedy();
	test_levels();
	test_limits();
	test_limit_below_level();
	return done();
}
