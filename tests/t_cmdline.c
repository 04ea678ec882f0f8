// SPDX-License-Identifier: Apache-2.0
/*
 * t_cmdline.c - the kernel's command line as it is built from a configuration and the windows of a machine.
 */
#include "../cmd/cmdline.h"
#include "../devices/table.h"
#include "capture.h"
#include "tap.h"

#define BASE 0xc0000000ull

/* A configuration, and what came of it. */
struct trial {
	const char *boot_args;            /* NULL: the default */
	const char *drive[3], *transport; /* flags' texts */
	unsigned windows;                 /* virtio-mmio */
	size_t cap;                       /* 0: the whole line */

	int err, kind;
	char line[4096], said[1024];
};

static void configure(struct config *c, const struct trial *t)
{
	need(!config_init(c));
	c->boot.kernel_image_path = strdup("vmlinux");
	c->boot.boot_args = t->boot_args ? strdup(t->boot_args) : NULL;
	for (unsigned i = 0; i < ARRAY_LEN(t->drive) && t->drive[i]; i++)
		need(!config_add_flag(c, &blk_device, t->drive[i]));
	if (t->transport)
		c->machine.transport =
			!strcmp(t->transport, "pci") ? TRANSPORT_PCI : TRANSPORT_MMIO;
	need(!config_check(c));
}

/* A machine with a serial port between its windows. */
static struct vm *machine(unsigned windows)
{
	const struct vm_params params = {.mem_size = MIB(2), .ncpus = 1};
	struct vm_platform serial = {.hid = "PNP0501", .base = 0x3f8, .len = 8, .gsi = 4};
	struct vm *vm = NULL;

	need(!vm_create_bare(&vm, &params));
	need(!vm_platform_add(vm, &serial));
	for (unsigned i = 0; i < windows; i++) {
		struct vm_platform p = {.hid = "LNRO0005",
					.base = BASE + i * 0x1000,
					.len = 0x1000,
					.gsi = 5 + (int)i};

		need(!vm_platform_add(vm, &p));
	}
	return vm;
}

/* Everything that goes to standard error from here to the end of the call is kept. */
static void build(struct trial *t)
{
	struct vm *vm = machine(t->windows);
	struct capture cap;
	struct config c;

	configure(&c, t);
	t->kind = cmdline_transport(&c);
	capture_begin(&cap);
	t->err = cmdline_build(&c, vm, t->kind == TRANSPORT_MMIO, t->line,
			       t->cap ? t->cap : sizeof(t->line));
	capture_end(&cap, t->said, sizeof(t->said));
	config_fini(&c);
	vm_destroy(vm);
}

static void line_is(struct trial t, const char *want, const char *name)
{
	build(&t);
	if (!ok(!t.err && !strcmp(t.line, want) && !t.said[0], "%s", name))
		printf("#   %d <%s> %s\n", t.err, t.line, t.said);
}

static void transport_is(struct trial t, int want, const char *name)
{
	build(&t);
	is(t.kind, want, "%s", name);
}

static bool has(const char *line, const char *word)
{
	const char *p = strstr(line, word);
	size_t n = strlen(word);

	return p && (p == line || p[-1] == ' ') && (!p[n] || p[n] == ' ');
}

static void test_default(void)
{
	static const char *const words[] = {"console=ttyS0", "reboot=k",     "panic=-1",
					    "pci=noearly",   "i8042.noaux",  "i8042.nomux",
					    "i8042.dumbkbd", "tsc=reliable", "no_timer_check"};
	struct trial t = {0};

	build(&t);
	is(t.err, 0, "without boot_args there is a default line");
	for (unsigned i = 0; i < ARRAY_LEN(words); i++)
		ok(has(t.line, words[i]), "it has %s", words[i]);
	ok(!strstr(t.line, "root=") && !strstr(t.line, "virtio_mmio"), "and names no devices");

	line_is((struct trial){.boot_args = "quiet a=b"}, "quiet a=b",
		"boot_args take the place of the default");
	line_is((struct trial){.boot_args = ""}, "", "also if they are empty");
}

static void test_root(void)
{
	line_is((struct trial){.boot_args = "a", .drive = {"d,path_on_host=i,is_root_device"}},
		"a root=/dev/vda rw", "a root drive adds root=");
	line_is((struct trial){.boot_args = "a",
			       .drive = {"d,path_on_host=i,is_root_device,is_read_only"}},
		"a root=/dev/vda ro", "read-only, if the drive is");
	line_is((struct trial){.boot_args = "a",
			       .drive = {"d,path_on_host=i,is_root_device,partuuid=0eaa91a0-01"}},
		"a root=PARTUUID=0eaa91a0-01 rw", "by its PARTUUID, if it has one");
	line_is((struct trial){.boot_args = "a",
			       .drive = {"d,path_on_host=i,partuuid=0eaa91a0-01"}},
		"a", "a drive that is no root drive adds nothing");
	line_is((struct trial){.boot_args = "a",
			       .drive = {"x,path_on_host=i", "y,path_on_host=i",
					 "z,path_on_host=i,is_root_device,is_read_only"}},
		"a root=/dev/vda ro", "the root drive is vda, wherever it was named");
	line_is((struct trial){.boot_args = "a -- b", .drive = {"d,path_on_host=i,is_root_device"}},
		"a root=/dev/vda rw -- b", "root= stands before what is init's");
	line_is((struct trial){.boot_args = "", .drive = {"d,path_on_host=i,is_root_device"}},
		"root=/dev/vda rw", "and alone, if there is nothing else");
}

static void test_mmio(void)
{
	line_is((struct trial){.boot_args = "a", .transport = "mmio", .windows = 2},
		"a virtio_mmio.device=4K@0xc0000000:5 virtio_mmio.device=4K@0xc0001000:6",
		"each virtio-mmio window is named, and no other device");
	line_is((struct trial){.boot_args = "pci=off -- init=1",
			       .windows = 1,
			       .drive = {"d,path_on_host=i,is_root_device"}},
		"pci=off root=/dev/vda rw virtio_mmio.device=4K@0xc0000000:5 -- init=1",
		"before what is init's, after root=");
	line_is((struct trial){.boot_args = "a", .transport = "pci", .windows = 2}, "a",
		"with virtio-pci none is");
}

static void test_transport(void)
{
	transport_is((struct trial){0}, TRANSPORT_PCI, "virtio-pci is the default");
	transport_is((struct trial){.boot_args = "a"}, TRANSPORT_PCI, "whatever boot_args say");
	transport_is((struct trial){.boot_args = "pci=off"}, TRANSPORT_MMIO, "but pci=off");
	transport_is((struct trial){.boot_args = "a\tpci=off b"}, TRANSPORT_MMIO,
		     "at any place among them");
	transport_is((struct trial){.boot_args = "a pci=off"}, TRANSPORT_MMIO, "also the last");
	transport_is((struct trial){.boot_args = "a pci=office xpci=off"}, TRANSPORT_PCI,
		     "a word that only has it inside is another word");
	transport_is((struct trial){.boot_args = "pci=office pci=off"}, TRANSPORT_MMIO,
		     "and does not hide it");
	transport_is((struct trial){.boot_args = "a -- pci=off"}, TRANSPORT_PCI,
		     "what is init's does not count");
	transport_is((struct trial){.boot_args = "a--b --c pci=off"}, TRANSPORT_MMIO,
		     "dashes in a word make nothing init's");
	transport_is((struct trial){.boot_args = "pci=off", .transport = "pci"}, TRANSPORT_PCI,
		     "a configured transport wins");
	transport_is((struct trial){.transport = "mmio"}, TRANSPORT_MMIO, "whichever it is");
}

static void refused(struct trial t, const char *what, const char *name)
{
	build(&t);
	if (!ok(t.err == -E2BIG && strstr(t.said, "boot-source.boot_args: ") &&
			strstr(t.said, what) && strstr(t.said, "shorten it\n"),
		"%s", name))
		printf("#   %d %s\n", t.err, t.said);
}

static void test_length(void)
{
	line_is((struct trial){.boot_args = "12345", .cap = 6}, "12345",
		"a line that fills its buffer is fine");
	refused((struct trial){.boot_args = "123456", .cap = 6}, "6 bytes, at most 5 are possible",
		"a byte more is refused");
	line_is((struct trial){.boot_args = "1",
			       .cap = 19,
			       .drive = {"d,path_on_host=i,is_root_device"}},
		"1 root=/dev/vda rw", "so is one that root= fills");
	refused((struct trial){.boot_args = "12",
			       .cap = 19,
			       .drive = {"d,path_on_host=i,is_root_device"}},
		"root=/dev/vda rw", "or one that is too long with root=, which is named");
	refused((struct trial){.boot_args = "pci=off", .cap = 60, .windows = 2},
		"virtio_mmio.device=4K@0xc0001000:6", "or with a window");
}

int main(void)
{
	test_default();
	test_root();
	test_mmio();
	test_transport();
	test_length();
	return done();
}
