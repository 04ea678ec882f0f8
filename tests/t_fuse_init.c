// SPDX-License-Identifier: Apache-2.0
/*
 * t_fuse_init.c - what the FUSE server and a guest agree on: INITs as kernels from Linux 5.4 on send them, each option's
 * flags, bodies that are short or lie, and starting over.
 *
 * Hard cases D4, D5, D6, D7, D23, D33, D40, D50, D52, D66.
 */
#include "fuse_door.h"

/* As the kernels send them for virtio-fs. */
#define LINUX_5_4                                                                              \
	((uint64_t)FUSE_ASYNC_READ | FUSE_POSIX_LOCKS | FUSE_ATOMIC_O_TRUNC |                  \
	 FUSE_EXPORT_SUPPORT | FUSE_BIG_WRITES | FUSE_DONT_MASK | FUSE_SPLICE_WRITE |          \
	 FUSE_SPLICE_MOVE | FUSE_SPLICE_READ | FUSE_FLOCK_LOCKS | FUSE_HAS_IOCTL_DIR |         \
	 FUSE_AUTO_INVAL_DATA | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO | \
	 FUSE_WRITEBACK_CACHE | FUSE_NO_OPEN_SUPPORT | FUSE_PARALLEL_DIROPS |                  \
	 FUSE_HANDLE_KILLPRIV | FUSE_POSIX_ACL | FUSE_ABORT_ERROR | FUSE_MAX_PAGES |           \
	 FUSE_CACHE_SYMLINKS | FUSE_NO_OPENDIR_SUPPORT | FUSE_EXPLICIT_INVAL_DATA)
#define LINUX_5_10 (LINUX_5_4 | FUSE_SUBMOUNTS | FUSE_MAP_ALIGNMENT)
#define LINUX_5_15 (LINUX_5_10 | FUSE_HANDLE_KILLPRIV_V2 | FUSE_SETXATTR_EXT)
#define LINUX_6_1  (LINUX_5_15 | FUSE_INIT_EXT | FUSE_SECURITY_CTX | FUSE_HAS_INODE_DAX)
#define LINUX_6_6 \
	(LINUX_6_1 | FUSE_CREATE_SUPP_GROUP | FUSE_HAS_EXPIRE_ONLY | FUSE_DIRECT_IO_ALLOW_MMAP)
/* Pass-through, no export, resend, id maps, io_uring, time-outs. */
#define LINUX_6_18 (LINUX_6_6 | 0x3full << 37)

static const struct {
	const char *name;
	uint32_t minor;
	uint64_t flags;
	size_t len;
} guests[] = {
	{"5.4", 31, LINUX_5_4, 16},       {"5.10", 32, LINUX_5_10, 16},
	{"5.15", 34, LINUX_5_15, 16},     {"6.1", 37, LINUX_6_1, 64},
	{"6.6", 39, LINUX_6_6, 64},       {"6.18", 45, LINUX_6_18, 64},
	{"a later", 60, UINT64_MAX, 128},
};

/* What is always served. */
#define ALWAYS                                                                            \
	((uint64_t)FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_DO_READDIRPLUS |              \
	 FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | \
	 FUSE_HAS_IOCTL_DIR | FUSE_HANDLE_KILLPRIV_V2 | FUSE_INIT_EXT)
#define AUTO (FUSE_ATOMIC_O_TRUNC | FUSE_AUTO_INVAL_DATA | FUSE_CACHE_SYMLINKS)

/* What of LINUX_6_18 is agreed on. */
static uint64_t agreed(void)
{
	struct fuse_init_out o;

	need(ask_init(7, 45, LINUX_6_18, &o) == sizeof(o));
	return o.flags | (uint64_t)o.flags2 << 32;
}

static uint64_t flags_of(struct fuse_config cfg, struct share_config share)
{
	uint64_t flags;

	door_open_share(cfg, share);
	flags = agreed();
	door_close();
	return flags;
}

/* Of files that belong to whoever creates them. */
static uint64_t passing(void)
{
	return share_owner_passes() ? FUSE_CREATE_SUPP_GROUP : 0;
}

/* ---- guests ---- */

static void test_guests(void)
{
	const uint64_t served = ALWAYS | AUTO | FUSE_SETXATTR_EXT | FUSE_SUBMOUNTS | passing();

	door_open(BY_MODE, false);
	for (unsigned i = 0; i < ARRAY_LEN(guests); i++) {
		uint8_t body[128] = {0};
		const struct fuse_init_in in = {.major = 7,
						.minor = guests[i].minor,
						.max_readahead = 131072,
						.flags = (uint32_t)guests[i].flags,
						.flags2 = (uint32_t)(guests[i].flags >> 32)};
		struct fuse_init_out o;
		struct fuse_attr attr;

		memcpy(body, &in, sizeof(in));
		is(ask(FUSE_INIT, 0, body, guests[i].len, &o, sizeof(o)), sizeof(o),
		   "Linux %s is welcome", guests[i].name);
		is(o.flags | (uint64_t)o.flags2 << 32,
		   (guests[i].len > 16 ? guests[i].flags : (uint32_t)guests[i].flags) & served,
		   "and agrees on all that is served and it offers");
		is(o.minor, MIN(guests[i].minor, (uint32_t)FUSE_MINOR_SERVED),
		   "in the older version");
		is(ask_attr(ROOT, &attr), 0, "and has a session");
	}
	door_close();
}

static void test_limits(void)
{
	struct fuse_init_out o;

	door_open(BY_MODE, false);
	need(ask_init(7, 31, LINUX_5_4, &o) == sizeof(o));
	is(o.max_write, DOOR_IO, "the largest write is told");
	is(o.max_pages, DOOR_IO / 4096, "and the pages of it");
	is(o.time_gran, 1, "times are in nanoseconds");
	is(o.max_readahead, 131072, "reading ahead is the guest's affair");
	ok(!o.map_alignment, "without a window nothing is mapped");
	door_close();
}

/* ---- what the options ask for ---- */

static void test_options(void)
{
	const uint64_t plain = flags_of(BY_MODE, (struct share_config){0});
	struct fuse_config writeback = BY_MODE;

	writeback.writeback = true;
	is(plain, ALWAYS | AUTO | passing(), "a share without anything");
	is(flags_of(BY_MODE, (struct share_config){.xattr = true}), plain | FUSE_SETXATTR_EXT,
	   "with attributes");
	is(flags_of(BY_MODE, (struct share_config){.submounts = true}), plain | FUSE_SUBMOUNTS,
	   "with mounts below");
	is(flags_of(BY_MODE, (struct share_config){.locks = SHARE_LOCKS_HOST}),
	   plain | FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS, "with locks on the host");
	is(flags_of(BY_MODE, (struct share_config){.owner = SHARE_OWNER_SQUASH}),
	   plain & ~FUSE_CREATE_SUPP_GROUP, "with one owner there are no groups");
	is(flags_of(writeback, (struct share_config){0}), plain | FUSE_WRITEBACK_CACHE,
	   "with writes held back");
	is(flags_of(IN_MODE(FUSE_CACHE_NEVER), (struct share_config){0}),
	   (plain & ~(FUSE_AUTO_INVAL_DATA | FUSE_CACHE_SYMLINKS)) | FUSE_DIRECT_IO_ALLOW_MMAP,
	   "with no cache files can be mapped still");
	if (!passing()) {
		skip("not root, or without other ids", "access control lists, labels");
		return;
	}
	is(flags_of(BY_MODE, (struct share_config){.xattr = true, .security_label = true}),
	   plain | FUSE_SETXATTR_EXT | FUSE_SECURITY_CTX, "with labels");
	is(flags_of(BY_MODE, (struct share_config){.xattr = true, .posix_acl = true}),
	   plain | FUSE_SETXATTR_EXT | FUSE_POSIX_ACL | FUSE_DONT_MASK,
	   "with access control lists the umask is ours");
}

/* The offers are the guest's; that they are taken is said by ENOSYS. */
static void test_untold(void)
{
	const struct share_config readonly = {.readonly = true},
				  locks = {.locks = SHARE_LOCKS_HOST};
	const uint64_t always = flags_of(IN_MODE(FUSE_CACHE_ALWAYS), (struct share_config){0});
	const uint64_t some = ALWAYS | FUSE_CACHE_SYMLINKS | passing();

	ok(!(always & (FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT)),
	   "an offer to open without a request is not agreed on by a flag");
	is(always, passing() ? some : some | FUSE_ATOMIC_O_TRUNC,
	   "where files are not opened nothing is cut by opening");
	is(flags_of(IN_MODE(FUSE_CACHE_ALWAYS), readonly), some | FUSE_ATOMIC_O_TRUNC,
	   "a read-only share is told of each opening");
	is(flags_of(IN_MODE(FUSE_CACHE_ALWAYS), locks),
	   some | FUSE_ATOMIC_O_TRUNC | FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS,
	   "so is one with the host's locks");
}

/* ---- what is not as it should be ---- */

static void test_versions(void)
{
	static const uint8_t zeros[64];
	struct fuse_init_out o;
	struct fuse_attr attr;

	door_open(BY_MODE, false);
	is(ask_attr(ROOT, &attr), -EIO, "before INIT nothing is served");
	is(ask_init(7, 22, 0, &o), -EPROTO, "a guest of 7.22 is too old");
	is(ask_init(6, 50, 0, &o), -EPROTO, "one of 6.50 as well");
	is(ask_attr(ROOT, &attr), -EIO, "and has no session");
	is(ask_init(8, 1, LINUX_6_18, &o), 64, "one of 8.1 is answered");
	ok(o.major == 7 && o.minor == FUSE_MINOR_SERVED && !o.flags && !o.flags2,
	   "with our version and no more");
	is(ask_attr(ROOT, &attr), -EIO, "it has no session yet");
	is(ask_init(7, 38, LINUX_6_6, &o), 64, "it comes again with ours");
	is(ask_attr(ROOT, &attr), 0, "and has one");
	for (unsigned n = 0; n < 16; n++)
		is(ask(FUSE_INIT, 0, zeros, n, &o, sizeof(o)), -EINVAL,
		   "an INIT of %u bytes is too short", n);
	is(ask_attr(ROOT, &attr), 0, "which does the session no harm");
	is(ask_init(7, 23, FUSE_ASYNC_READ, &o), 64, "a guest that offers little");
	is(o.flags, FUSE_ASYNC_READ, "is told of nothing else");
	door_close();
}

static void test_second_word(void)
{
	struct fuse_init_in in = {.major = 7,
				  .minor = 38,
				  .flags = (uint32_t)LINUX_6_1,
				  .flags2 = FUSE_SECURITY_CTX >> 32};
	const struct share_config labels = {.xattr = true, .security_label = true};
	struct fuse_init_out o;

	if (!passing()) {
		skip("not root, or without other ids", "a second word of flags");
		return;
	}
	door_open_share(BY_MODE, labels);
	is(ask(FUSE_INIT, 0, &in, sizeof(in), &o, sizeof(o)), sizeof(o), "a second word of flags");
	is(o.flags2, FUSE_SECURITY_CTX >> 32, "is agreed on");
	is(ask(FUSE_INIT, 0, &in, 16, &o, sizeof(o)), sizeof(o), "one that is not there");
	ok(o.flags & FUSE_INIT_EXT && !o.flags2, "is none");
	is(ask(FUSE_INIT, 0, &in, 19, &o, sizeof(o)), sizeof(o), "nor one that is cut off");
	in.flags &= ~(uint32_t)FUSE_INIT_EXT;
	is(ask(FUSE_INIT, 0, &in, sizeof(in), &o, sizeof(o)), sizeof(o), "one that is not said");
	ok(!(o.flags & FUSE_INIT_EXT) && !o.flags2, "neither");
	door_close();
}

/* ---- starting over ---- */

static void test_again(void)
{
	struct fuse_open_out o;
	uint64_t f;

	if (!passing()) {
		skip("not root, or without other ids", "opening without a request");
		return;
	}
	host_write("f", "x", 1);
	door_open(IN_MODE(FUSE_CACHE_ALWAYS), false);
	session_of(45, LINUX_6_18);
	f = find(ROOT, "f");
	is(ask_open_as(FUSE_OPEN, f, O_RDWR, &o), -ENOSYS, "a guest that need not open is told so");
	is(ask_open_as(FUSE_OPENDIR, ROOT, 0, &o), -ENOSYS, "for directories too");
	session_of(45, LINUX_6_18 & TELLS);
	f = find(ROOT, "f");
	is(ask_open_as(FUSE_OPEN, f, O_RDWR, &o), sizeof(o),
	   "one that starts over and opens, opens");
	is(release(f, o.fh), 0, "and closes");
	is(ask_open_as(FUSE_OPENDIR, ROOT, 0, &o), sizeof(o), "directories too");
	session_of(45, LINUX_6_18 & ~(uint64_t)FUSE_NO_OPEN_SUPPORT);
	is(ask_open_as(FUSE_OPENDIR, ROOT, 0, &o), -ENOSYS, "each by itself");
	is(ask_open_as(FUSE_OPEN, find(ROOT, "f"), O_RDWR, &o), sizeof(o), "as it was offered");
	is(ask(FUSE_DESTROY, 0, NULL, 0, NULL, 0), 0, "a session ends");
	ok(nothing_held(), "and leaves nothing");
	door_close();
}

int main(void)
{
	door_set_up("t_fuse_init");
	test_guests();
	test_limits();
	test_options();
	test_untold();
	test_versions();
	test_second_word();
	test_again();
	door_tear_down();
	return done();
}
