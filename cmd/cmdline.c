// SPDX-License-Identifier: Apache-2.0
/*
 * cmdline.c - what the guest kernel is told.
 *
 * The default spares the guest what only costs exits and time:
 *   console=ttyS0          the serial port is the console
 *   reboot=k panic=-1      reboot by the keyboard controller, at once after a panic: a machine that died ends
 *   pci=noearly            no scan of 256 buses through ports (33,000 exits on AMD)
 *   i8042.*                no probes that wait for a keyboard
 *   tsc=reliable no_timer_check   the hypervisor's clocks need no calibration
 */
#include "cmdline.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
#include "../vmm/boot.h"
#include "../vmm/log.h"

static const char default_args[] =
	"console=ttyS0 reboot=k panic=-1 pci=noearly i8042.noaux i8042.nomux i8042.nopnp "
	"i8042.dumbkbd tsc=reliable no_timer_check quiet";

/* The kernel is told word: it stands by itself, before a "--", after which all is init's. */
static bool has_word(const char *args, const char *word)
{
	static const char blanks[] = " \t\n\v\f\r"; /* the kernel's */

	for (const char *p = args + strspn(args, blanks); *p;) {
		size_t n = strcspn(p, blanks);

		if (n == 2 && !memcmp(p, "--", 2))
			return false;
		if (n == strlen(word) && !memcmp(p, word, n))
			return true;
		p += n;
		p += strspn(p, blanks);
	}
	return false;
}

int cmdline_transport(const struct config *c)
{
	if (c->machine.transport != TRANSPORT_AUTO)
		return c->machine.transport;
	return c->boot.boot_args && has_word(c->boot.boot_args, "pci=off") ? TRANSPORT_MMIO
									   : TRANSPORT_PCI;
}

static int add(char *out, size_t cap, const char *params)
{
	int r = boot_cmdline_add(out, cap, params);

	if (r)
		log_err("boot-source.boot_args: longer than %zu bytes with what the devices add "
			"(%s): shorten it",
			cap - 1, params);
	return r;
}

static int add_root(const struct config *c, char *out, size_t cap)
{
	for (unsigned i = 0; i < c->ndev; i++) {
		const struct blk_config *blk = c->dev[i].cfg;
		char root[128];

		if (c->dev[i].type != &blk_device || !blk->is_root_device)
			continue;
		if (blk->partuuid)
			snprintf(root, sizeof(root), "root=PARTUUID=%.64s %s", blk->partuuid,
				 blk->is_read_only ? "ro" : "rw");
		else
			snprintf(root, sizeof(root), "root=/dev/vda %s",
				 blk->is_read_only ? "ro" : "rw");
		return add(out, cap, root);
	}
	return 0;
}

static int add_mmio(const struct vm *vm, char *out, size_t cap)
{
	for (unsigned i = 0; i < vm->nplatform; i++) {
		const struct vm_platform *p = &vm->platform[i];
		char param[80];
		int r;

		if (strcmp(p->hid, "LNRO0005"))
			continue;
		snprintf(param, sizeof(param), "virtio_mmio.device=%lluK@0x%llx:%d",
			 (unsigned long long)p->len >> 10, (unsigned long long)p->base, p->gsi);
		r = add(out, cap, param);
		if (r)
			return r;
	}
	return 0;
}

int cmdline_build(const struct config *c, const struct vm *vm, bool mmio, char *out, size_t cap)
{
	const char *args = c->boot.boot_args ? c->boot.boot_args : default_args;
	int r;

	if (strlen(args) >= cap) {
		log_err("boot-source.boot_args: %zu bytes, at most %zu are possible: shorten it",
			strlen(args), cap - 1);
		return -E2BIG;
	}
	strcpy(out, args);
	r = add_root(c, out, cap);
	if (!r && mmio)
		r = add_mmio(vm, out, cap);
	return r;
}
