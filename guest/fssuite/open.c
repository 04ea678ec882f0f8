// SPDX-License-Identifier: Apache-2.0
/*
 * open.c - opening and creating: who may be created over, wrong kinds, links on the way, files that
 * were unlinked or renamed over while open, files without a name, programs.
 */
#include "suite.h"
#include <sys/mman.h>
#include <sys/xattr.h>

static bool check_exclusive(void)
{
	must(file_make("f", "one") && symlink("nowhere", "s") == 0);
	must_fail(open("f", O_CREAT | O_EXCL | O_WRONLY, 0644), EEXIST);
	must_fail(open("s", O_CREAT | O_EXCL | O_WRONLY, 0644), EEXIST);
	must_fail(mkdir("f", 0755), EEXIST);
	must_fail(mkdir("s", 0755), EEXIST);
	must_fail(mkfifo("f", 0755), EEXIST);
	must_fail(symlink("x", "f"), EEXIST);
	must(file_holds("f", "one") && absent("nowhere"));
	must(unlink("f") == 0 && absent("f"));
	return true;
}

static bool check_errors(void)
{
	must_fail(open("", O_RDONLY), ENOENT);
	must_fail(open("none", O_RDONLY), ENOENT);
	must_fail(open("none/x", O_RDONLY | O_CREAT, 0644), ENOENT);
	must_fail(unlink("none"), ENOENT);
	must_fail(rmdir("none"), ENOENT);
	must(file_make("f", "x") && mkdir("d", 0755) == 0);
	must_fail(open("f/x", O_RDONLY), ENOTDIR);
	must_fail(open("f/", O_RDONLY), ENOTDIR);
	must_fail(open("f", O_RDONLY | O_DIRECTORY), ENOTDIR);
	must_fail(mkdir("f/x", 0755), ENOTDIR);
	must_fail(open("d", O_WRONLY), EISDIR);
	must_fail(open("d", O_RDWR), EISDIR);
	must_fail(open("d", O_RDONLY | O_CREAT, 0644), EISDIR);
	must_fail(open("new/", O_WRONLY | O_CREAT, 0644), EISDIR);
	must_fail(unlink("d"), EISDIR);
	must_fail(unlink("d/"), EISDIR);
	must_fail(rmdir("f"), ENOTDIR);
	must_fail(rmdir("d/."), EINVAL);
	must_fail(rmdir("d/.."), ENOTEMPTY);
	must_fail(mkdir(".", 0755), EEXIST);
	must_fail(mkdir("d/..", 0755), EEXIST);
	must(mkdir("e/", 0755) == 0 && rmdir("e/") == 0 && absent("new"));
	return true;
}

static bool check_read_dir(void)
{
	char c;
	int fd = open(".", O_RDONLY | O_DIRECTORY);

	must(fd >= 0);
	must_fail(read(fd, &c, 1), EISDIR);
	must_fail(write(fd, &c, 1), EBADF);
	return true;
}

static bool check_links_on_the_way(void)
{
	int fd;

	must(mkdir("d", 0755) == 0 && file_make("d/f", "inside"));
	must(symlink("d", "s") == 0 && symlink("d/f", "t") == 0 && symlink("made", "m") == 0);
	must(symlink("b", "a") == 0 && symlink("a", "b") == 0);
	must(file_holds("s/f", "inside") && file_holds("t", "inside"));
	must_fail(open("t", O_RDONLY | O_NOFOLLOW), ELOOP);
	must_fail(open("s", O_RDONLY | O_NOFOLLOW | O_DIRECTORY), ENOTDIR);
	must_fail(open("a", O_RDONLY), ELOOP);
	must_fail(open("a/x", O_RDONLY), ELOOP);
	must((fd = open("m", O_CREAT | O_WRONLY, 0644)) >= 0 && write(fd, "new", 3) == 3);
	must(close(fd) == 0 && file_holds("made", "new"));
	must_fail(rmdir("s"), ENOTDIR);
	must((fd = open("t", O_PATH | O_NOFOLLOW)) >= 0);
	must_fail(fchmod(fd, 0600), EBADF);
	return true;
}

/* A name the kernel may remember as missing. */
static bool check_negative(void)
{
	struct stat st;

	for (int i = 0; i < 20; i++) {
		must(absent("f"));
		must(file_make("f", "now") && file_holds("f", "now"));
		must(unlink("f") == 0);
	}
	must(absent("d") && mkdir("d", 0755) == 0 && stat("d/.", &st) == 0 && rmdir("d") == 0);
	must(absent("d") && symlink("x", "d") == 0 && lstat("d", &st) == 0 && S_ISLNK(st.st_mode));
	must(absent("e") && rename("d", "e") == 0 && absent("d") && lstat("e", &st) == 0);
	return true;
}

static bool unnamed_works(int fd, const char *text)
{
	struct timespec set[2] = {{1000, 1}, {2000, 2}};
	struct stat st;
	char buf[16];
	char *map;

	must(fd_holds(fd, text));
	must(pwrite(fd, "after", 5, 6) == 5 && pread(fd, buf, 16, 0) == 11);
	must(memcmp(buf + 6, "after", 5) == 0);
	must(fstat(fd, &st) == 0 && st.st_size == 11 && st.st_nlink == 0);
	must(ftruncate(fd, 3) == 0 && fchmod(fd, 0600) == 0 && fsync(fd) == 0);
	must(futimens(fd, set) == 0);
	must(fstat(fd, &st) == 0 && st.st_size == 3 && (st.st_mode & 07777) == 0600);
	must(st.st_atim.tv_sec == 1000 && st.st_mtim.tv_sec == 2000);
	must(!have(FINE) || st.st_mtim.tv_nsec == 2);
	if (have(ROOT | CHOWN)) {
		must(fchown(fd, 1234, 5678) == 0 && fstat(fd, &st) == 0);
		must(st.st_uid == 1234 && st.st_gid == 5678);
	}
	if (have(XATTR)) {
		must(fsetxattr(fd, "user.a", "1", 1, 0) == 0);
		must(fgetxattr(fd, "user.a", buf, 16) == 1 && buf[0] == '1');
	}
	must(ftruncate(fd, 8192) == 0);
	map = mmap(NULL, 8192, PROT_READ | (have(MMAP) ? PROT_WRITE : 0),
		   have(MMAP) ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	must(map != MAP_FAILED && memcmp(map, text, 3) == 0 && map[8191] == 0);
	if (have(MMAP)) {
		memcpy(map + 5000, "mapped", 6);
		must(msync(map, 8192, MS_SYNC) == 0);
		must(pread(fd, buf, 6, 5000) == 6 && memcmp(buf, "mapped", 6) == 0);
	}
	must(munmap(map, 8192) == 0 && ftruncate(fd, 0) == 0 && fstat(fd, &st) == 0);
	must(st.st_size == 0);
	return true;
}

static bool check_unlinked_open(void)
{
	int fd = open("f", O_CREAT | O_EXCL | O_RDWR, 0644);

	must(fd >= 0 && write(fd, "before", 6) == 6);
	must(unlink("f") == 0 && absent("f"));
	must(file_make("f", "other")); /* the name is free for another file */
	must(unnamed_works(fd, "before") && close(fd) == 0);
	must(file_holds("f", "other"));
	return true;
}

static bool check_renamed_over(void)
{
	int fd, reader;

	must(file_make("old", "before") && file_make("new", "new"));
	must((fd = open("old", O_RDWR)) >= 0 && (reader = open("old", O_RDONLY)) >= 0);
	must(rename("new", "old") == 0 && absent("new") && file_holds("old", "new"));
	must(fd_holds(reader, "before"));
	must(unnamed_works(fd, "before") && file_holds("old", "new"));
	return true;
}

/* The last link goes while a path descriptor is all that is held. */
static bool check_unlinked_path(void)
{
	struct stat st;
	int fd;

	must(file_make("f", "x") && (fd = open("f", O_PATH)) >= 0);
	must(unlink("f") == 0 && fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size == 1);
	must(mkdir("d", 0755) == 0 && (fd = open("d", O_PATH)) >= 0 && rmdir("d") == 0);
	must(fstat(fd, &st) == 0 && S_ISDIR(st.st_mode));
	must_fail(openat(fd, "x", O_CREAT | O_WRONLY, 0644), ENOENT);
	return true;
}

static bool check_removed_cwd(void)
{
	char buf[4096];
	int fd;

	must(mkdir("d", 0755) == 0 && (fd = open("d", O_RDONLY)) >= 0);
	must(chdir("d") == 0 && rmdir("../d") == 0);
	must_fail(open("x", O_CREAT | O_WRONLY, 0644), ENOENT);
	must_fail(mkdir("x", 0755), ENOENT);
	must(getcwd(buf, sizeof(buf)) == NULL && errno == ENOENT);
	must(fsync(fd) == 0);
	return true;
}

static bool check_tmpfile(void)
{
	char path[32];
	struct stat st;
	int fd = open(".", O_TMPFILE | O_RDWR, 0640);

	must(fd >= 0 && write(fd, "nameless", 8) == 8);
	must(fstat(fd, &st) == 0 && st.st_nlink == 0 && (st.st_mode & 07777) == 0640);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	must(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
	must(file_holds("named", "nameless") && nlink_of("named") == 1);
	must(write(fd, "!", 1) == 1 && file_holds("named", "nameless!") && close(fd) == 0);
	must_fail(open(".", O_TMPFILE | O_RDONLY, 0600), EINVAL);
	must_fail(open("named", O_TMPFILE | O_RDWR, 0600), ENOTDIR);
	must((fd = open(".", O_TMPFILE | O_WRONLY | O_EXCL, 0600)) >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	must_fail(linkat(AT_FDCWD, path, AT_FDCWD, "never", AT_SYMLINK_FOLLOW), ENOENT);
	must(absent("never"));
	return true;
}

static bool check_tmpfile_refused(void)
{
	must_fail(open(".", O_TMPFILE | O_RDWR, 0640), EOPNOTSUPP);
	return true;
}

static bool program_copy(const char *name)
{
	static char buf[1 << 16];
	int from = open("/proc/self/exe", O_RDONLY), to = open(name, O_CREAT | O_WRONLY, 0755);
	ssize_t n;

	must(from >= 0 && to >= 0);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		must(write(to, buf, (size_t)n) == n);
	must(n == 0 && close(from) == 0 && close(to) == 0);
	return true;
}

static int program_status(const char *name)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		execl(name, name, "--exit-42", (char *)NULL);
		_exit(errno == ETXTBSY ? 100 : errno == EACCES ? 101 : 1);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static bool check_exec(void)
{
	must(program_copy("program"));
	must(program_status("./program") == 42);
	must(rename("program", "moved") == 0 && program_status("./moved") == 42);
	must(chmod("moved", 0644) == 0 && program_status("./moved") == 101);
	return true;
}

static bool check_text_busy(void)
{
	int started[2], fd;
	pid_t pid;
	char c;

	must(program_copy("program") && pipe2(started, O_CLOEXEC) == 0);
	must((fd = open("program", O_WRONLY)) >= 0 && program_status("./program") == 100);
	must(close(fd) == 0);
	pid = fork();
	if (pid == 0) {
		execl("./program", "program", "--pause", (char *)NULL);
		_exit(1);
	}
	must(close(started[1]) == 0 && read(started[0], &c, 1) == 0); /* closed by the exec */
	must_fail(open("program", O_WRONLY), ETXTBSY);
	must_fail(truncate("program", 0), ETXTBSY);
	must(unlink("program") == 0);
	must(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	return true;
}

const struct check open_checks[] = {
	CHECK(exclusive, "creating what exists is refused"),
	CHECK(errors, "wrong kinds and missing names give the right errno"),
	CHECK(read_dir, "a directory is not read or written as a file"),
	CHECK(links_on_the_way, "symbolic links are followed, made through, and refused when told"),
	CHECK(negative, "a name that was missing is found once it is made"),
	CHECK(unlinked_open, "an unlinked file lives in every way as long as it is open"),
	CHECK(renamed_over, "a file renamed over lives in every way as long as it is open"),
	CHECK(unlinked_path, "a path descriptor keeps what was removed"),
	CHECK(removed_cwd, "nothing can be made in a removed working directory"),
	CHECK(tmpfile, "a file without a name gets one, unless it was to have none", TMPFILE),
	CHECK(tmpfile_refused, "a file without a name is refused as not supported", 0, TMPFILE),
	CHECK(exec, "a program on the share runs, and only if it may"),
	CHECK(text_busy, "a running program is not written to, one being written not run"),
	{0},
};
