// SPDX-License-Identifier: Apache-2.0
/*
 * t_config.c - the configuration file as a whole: what is no file of ours, sections, Firecracker's files, what only the
 * whole can tell, and printing that loads again. Single keys are t_config_keys.c, flags t_flags.c.
 */
#include "config_file.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
#include "../devices/virtio_fs.h"
#include <sys/stat.h>

#define DRIVE(id, more) "{\"drive_id\": \"" id "\", \"path_on_host\": \"p\"" more "}"
#define FS(tag)         "{\"tag\": \"" tag "\", \"path\": \"p\"}"
#define ROOT            ", \"is_root_device\": true"
#define BOOT            "\"boot-source\": {\"kernel_image_path\": \"k\"}"

static void says(const struct loaded *l, int err, const char *line, const char *name)
{
	char want[1200];

	snprintf(want, sizeof(want), "wherry: error: %s\n", line);
	if (!ok(l->err == err && !strcmp(l->said, want), "%s", name))
		printf("#   %d %s#   want %d %s", l->err, l->said, err, want);
}

/* line is what follows "wherry: error: m.json:". */
static void refused(const char *text, const char *line, const char *name)
{
	char want[1100];
	struct loaded l;

	load(&l, text);
	snprintf(want, sizeof(want), NAME ":%s", line);
	says(&l, -EINVAL, want, name);
	unload(&l);
}

static void taken(const char *text, const char *name)
{
	struct loaded l;

	load(&l, text);
	if (!ok(!l.err && !l.said[0], "%s", name))
		printf("#   %d %s", l.err, l.said);
	unload(&l);
}

/* ---- the file ---- */

static void path_refused(const char *path, int err, const char *line, const char *name)
{
	struct loaded l;

	load_path(&l, path);
	says(&l, err, line, name);
	unload(&l);
}

static void test_file(void)
{
	char *big = malloc(MIB(1) + 1);
	struct loaded l;

	need(big);
	path_refused("missing.json", -ENOENT,
		     "missing.json (name a JSON file, or use flags: --help lists them): No such "
		     "file or directory",
		     "a missing file is named");
	path_refused(".", -EISDIR, ".: is a directory: name a JSON file", "a directory is refused");
	path_refused(
		"/dev/null/x", -ENOTDIR,
		"/dev/null/x (name a JSON file, or use flags: --help lists them): Not a directory",
		"so is a path that leads nowhere");

	memset(big, ' ', MIB(1) + 1);
	memcpy(big, "{" BOOT "}", strlen("{" BOOT "}"));
	write_file(big, MIB(1));
	load_path(&l, NAME);
	ok(!l.err && !l.said[0], "a file of 1 MiB is read");
	unload(&l);
	write_file(big, MIB(1) + 1);
	path_refused(NAME, -EFBIG, NAME ": larger than 1 MiB: not a machine's configuration",
		     "a byte more is refused");
	path_refused("/dev/zero", -EFBIG,
		     "/dev/zero: larger than 1 MiB: not a machine's configuration",
		     "also of a file that never ends");
	free(big);
}

static void test_pipe(void)
{
	static const char text[] = "{" BOOT "}";
	struct loaded l;
	char path[32];
	int p[2];

	need(!pipe2(p, O_CLOEXEC) && write(p[1], text, strlen(text)) > 0);
	close(p[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", p[0]);
	load_path(&l, path);
	ok(!l.err && l.c.boot.kernel_image_path, "a configuration can come through a pipe");
	unload(&l);
	close(p[0]);
}

static void bytes_refused(const void *text, size_t len, const char *line, const char *name)
{
	write_file(text, len);
	path_refused(NAME, -EINVAL, line, name);
}

static void test_text(void)
{
	refused("", "1:1: not JSON: unexpected end of data", "an empty file is refused");
	refused(" \n ", "2:2: not JSON: unexpected end of data", "so is a blank one");
	refused("// nothing\n", "2:1: not JSON: unexpected end of data", "or only a comment");
	refused("[]", "1:1: must be an object: { \"boot-source\": ... }", "so is a list");
	refused("null", "1:1: must be an object: { \"boot-source\": ... }", "null");
	refused("\"{}\"", "1:1: must be an object: { \"boot-source\": ... }", "or a string");
	refused("{\n " BOOT "\n}\n}", "4:1: not JSON: unexpected character",
		"nothing may follow the object");
	refused("{" BOOT "} {}", "1:45: not JSON: unexpected character", "not even another one");
	refused("{\n " BOOT ",\n}", "3:1: not JSON: unexpected character",
		"a comma before a brace is refused, and found");
	refused("{\n " BOOT "\n \"fs\": [] }", "3:2: not JSON: object value separator ',' expected",
		"so is a missing one");
	refused("{\n " BOOT, "2:43: not JSON: unexpected end of data", "and a missing brace");
	refused("{ boot: 1 }", "1:3: not JSON: quoted object property name expected",
		"and a key without quotes");
	refused("{\n " BOOT " /* }", "2:44: not JSON: a comment that does not end",
		"and a comment that runs to the end");

	bytes_refused("{\n \"fs\": \"\xff\" }", 14, NAME ":2:9: not JSON: invalid utf-8 string",
		      "bytes that are no UTF-8 are refused");
	bytes_refused("{}\n\0{}", 6, NAME ":2:1: not JSON: a NUL byte", "so is a NUL byte");
	bytes_refused("{\"a\":\"\0\"}", 9, NAME ":1:7: not JSON: a NUL byte",
		      "inside a string too");
}

static void test_bom(void)
{
	taken("\xef\xbb\xbf{" BOOT "}", "a byte order mark is skipped");
	refused("\xef\xbb\xbf{" BOOT ",}", "1:44: not JSON: unexpected character",
		"and columns are those that an editor shows");
	refused("\xef\xbb\xbf", "1:1: not JSON: unexpected end of data", "alone it is nothing");
	refused("\xef\xbb", "1:1: not JSON: invalid utf-8 string", "half of one is no JSON");
}

static void test_comments(void)
{
	taken("// first\n{ /* a */ " BOOT " // \"fs\": 1\n, /* \" */ \"fs\": [] /**/ } // last",
	      "comments may stand between all that is JSON");
	refused("{ /* two\nlines */ " BOOT ", \"nosuch\": 1 }",
		"2:53: nosuch: unknown section; known: boot-source, machine-config, serial, i8042, "
		"pvpanic, rtc, entropy, drives, fs, p9",
		"and do not move the places of what follows");
}

static void test_depth(void)
{
	char text[200] = "{" BOOT ", \"metrics\": ";
	size_t n = strlen(text);

	memset(text + n, '[', 31);
	memset(text + n + 31, ']', 31);
	strcpy(text + n + 62, "}");
	refused(text, "1:45: metrics: metrics are not built yet", "32 levels are read");
	memset(text + n, '[', 32);
	memset(text + n + 32, ']', 32);
	strcpy(text + n + 64, "}");
	refused(text, "1:87: not JSON: nesting too deep", "33 are not");
}

/* ---- sections ---- */

static void test_sections(void)
{
	static const char *const later[] = {
		"network-interfaces", "vsock",  "balloon", "pmem",           "mmds-config",
		"cpu-config",         "logger", "metrics", "memory-hotplug", "console"};
	char text[200], line[200];
	struct loaded l;

	for (unsigned i = 0; i < ARRAY_LEN(later); i++) {
		snprintf(text, sizeof(text), "{" BOOT ", \"%s\": null}", later[i]);
		taken(text, later[i]);
		snprintf(text, sizeof(text), "{" BOOT ", \"%s\": []}", later[i]);
		taken(text, "may be there with nothing in it");
		snprintf(text, sizeof(text), "{" BOOT ",\n\"%s\": {\"a\": 1}}", later[i]);
		load(&l, text);
		snprintf(line, sizeof(line), SAYS "2:1: %s: ", later[i]);
		ok(l.err == -EINVAL && !strncmp(l.said, line, strlen(line)) &&
			   strstr(l.said, "not built"),
		   "and is refused with something");
		unload(&l);
	}
	for (unsigned i = 0; device_types[i]; i++) {
		snprintf(text, sizeof(text), "{" BOOT ", \"%s\": null}", device_types[i]->section);
		load(&l, text);
		ok(!l.err && !l.c.ndev, "%s: null is no device", device_types[i]->section);
		unload(&l);
	}
	refused("{" BOOT ", \"drive\": []}",
		"1:45: drive: unknown section; known: boot-source, machine-config, serial, i8042, "
		"pvpanic, rtc, entropy, drives, fs, p9",
		"an unknown section is refused, and the known ones are named");
	refused("{" BOOT ", \"drives\": {}}", "1:45: drives: must be an array of objects",
		"an object is no list of devices");
	refused("{" BOOT ", \"drives\": [null]}", "1:56: drives[0]: must be an object",
		"null is no device");
	refused("{" BOOT ", \"entropy\": []}", "1:45: entropy: must be an object",
		"a list is no object");
	refused("{\"boot-source\": \"k\"}", "1:2: boot-source: must be an object",
		"nor is a string");
	refused("{" BOOT ", \"fs\": [], \"fs\": []}", "1:55: fs: is there twice: take one away",
		"a section may not be there twice");
	refused("{" BOOT ",\n \"fs\": [{\"tag\": \"t\", \"path\": \"p\"},\n  {\"tag\": \"u\"}]}",
		"3:3: fs[1]: \"path\" is missing (the host directory that is shared)",
		"a required key is missed in the device that lacks it");
	refused("{" BOOT ",\n \"drives\": [{\"drive_id\": \"d\",\n  \"path\": \"p\"}]}",
		"3:3: drives[0].path: unknown key; known here: drive_id, path_on_host, "
		"is_root_device, is_read_only, partuuid, cache_type, io_engine, serial, poll_us, "
		"queues, queue_size, direct, discard, rate_limiter",
		"an unknown key is refused, and the known ones are named");
	refused("{\"boot-source\": {\"kernel\": \"k\"}}",
		"1:18: boot-source.kernel: unknown key; known here: kernel_image_path, "
		"initrd_path, boot_args",
		"in a fixed section too");
}

static void test_many(void)
{
	char text[4096] = "{" BOOT ", \"drives\": [", *end;
	struct loaded l;

	for (unsigned i = 0; i < CONFIG_MAX_DEVICES; i++)
		sprintf(text + strlen(text), "%s{\"drive_id\": \"d%u\", \"path_on_host\": \"p\"}",
			i ? "," : "", i);
	end = text + strlen(text);
	strcpy(end, "]}");
	load(&l, text);
	ok(!l.err && l.c.ndev == CONFIG_MAX_DEVICES, "there may be 30 devices");
	unload(&l);
	strcpy(end, ",\n{\"drive_id\": \"e\", \"path_on_host\": \"p\"}]}");
	refused(text, "2:1: drives[30]: one device too many: a machine has at most 30",
		"one more is refused");
	strcpy(end, "], \"serial\": {}, \"rtc\": {}}");
	load(&l, text);
	ok(!l.err && l.c.ndev == CONFIG_MAX_DEVICES + 2, "what is in every machine does not count");
	unload(&l);
}

/* What boot would refuse in the end is refused here, where the place in the file is known. */
static void test_values(void)
{
	refused("{" BOOT ",\n\"drives\": [" DRIVE("a-b", "") "]}",
		"2:13: drives[0].drive_id: must be of letters, digits and _",
		"a drive_id of other characters is refused");
	refused("{" BOOT ",\n\"drives\": [" DRIVE("a", ",\n\"partuuid\": \"a b\"") "]}",
		"3:1: drives[0].partuuid: must be of hexadecimal digits and -, as blkid shows it",
		"so is a partuuid that would be two words of the command line");
	taken("{" BOOT ",\n\"drives\": [" DRIVE("a", ",\"partuuid\": \"0Eaa91a0-01\"") "]}",
	      "which may be in either case");
	refused("{" BOOT ",\n\"fs\": [{\"tag\": \"t\", \"path\": \"p\", \"queue_size\": 96}]}",
		"2:34: fs[0].queue_size: must be a power of two", "a queue_size that no ring has");
	refused("{" BOOT ",\n\"fs\": [{\"tag\": \"t\", \"path\": \"p\", \"fd_budget\": 2}]}",
		"2:34: fs[0].fd_budget: must be 0 or at least 8", "a budget that opens nothing");
	taken("{" BOOT ", \"machine-config\": {\"cpu_mask\": \",aes,,avx\"}}",
	      "a cpu_mask of features is taken");
}

static void test_cpu_mask(void)
{
	static const char want[] =
		SAYS "2:20: machine-config.cpu_mask: no feature \"warp\"; known are: pni ";
	struct loaded l;

	load(&l, "{" BOOT ",\n\"machine-config\": {\"cpu_mask\": \"aes,warp\"}}");
	ok(l.err == -EINVAL && !strncmp(l.said, want, strlen(want)) && strstr(l.said, " rdtscp\n"),
	   "a name in cpu_mask that is none is refused, and all names are told");
	unload(&l);
}

/* ---- Firecracker's files ---- */

static void test_firecracker(void)
{
	struct blk_config *root, *data;
	struct loaded l;

	load(&l, "{\n"
		 "  \"boot-source\": { \"kernel_image_path\": \"hello-vmlinux.bin\",\n"
		 "    \"boot_args\": \"console=ttyS0 reboot=k panic=1 pci=off\",\n"
		 "    \"initrd_path\": null },\n"
		 "  \"drives\": [\n"
		 "    { \"drive_id\": \"scratch\", \"is_root_device\": false,\n"
		 "      \"path_on_host\": \"scratch.img\" },\n"
		 "    { \"drive_id\": \"rootfs\", \"partuuid\": null, \"is_root_device\": true,\n"
		 "      \"cache_type\": \"Unsafe\", \"is_read_only\": true,\n"
		 "      \"path_on_host\": \"rootfs.ext4\", \"io_engine\": \"Sync\",\n"
		 "      \"rate_limiter\": null, \"socket\": null } ],\n"
		 "  \"machine-config\": { \"vcpu_count\": 2, \"mem_size_mib\": 1024,\n"
		 "    \"smt\": false, \"track_dirty_pages\": false, \"huge_pages\": \"None\",\n"
		 "    \"cpu_template\": \"None\" },\n"
		 "  \"cpu-config\": null, \"balloon\": null, \"network-interfaces\": [],\n"
		 "  \"vsock\": null, \"logger\": null, \"metrics\": null, \"mmds-config\": null,\n"
		 "  \"entropy\": null, \"pmem\": [], \"memory-hotplug\": null\n"
		 "}\n");
	need(!l.err && !config_check(&l.c));
	ok(!strcmp(l.c.boot.kernel_image_path, "hello-vmlinux.bin") &&
		   !strcmp(l.c.boot.boot_args, "console=ttyS0 reboot=k panic=1 pci=off") &&
		   !l.c.boot.initrd_path,
	   "a file of Firecracker's loads: what is booted");
	ok(l.c.machine.vcpu_count == 2 && l.c.machine.mem_size_mib == 1024 &&
		   l.c.machine.huge_pages == PAGES_NONE && l.c.machine.transport == TRANSPORT_AUTO,
	   "the machine");
	is(l.c.ndev, 2, "two devices, of which entropy: null is none");
	root = device_cfg(&l.c, &blk_device, 0);
	data = device_cfg(&l.c, &blk_device, 1);
	ok(!strcmp(root->drive_id, "rootfs") && root->is_root_device && root->is_read_only &&
		   !root->partuuid && root->cache_type == BLK_CACHE_UNSAFE &&
		   !strcmp(root->path_on_host, "rootfs.ext4"),
	   "the root drive, now first");
	ok(!strcmp(data->drive_id, "scratch") && !data->is_root_device && !data->is_read_only &&
		   data->cache_type == BLK_CACHE_WRITEBACK && data->poll_us == 50,
	   "the other one, whose flush is true unless the file says Unsafe");
	unload(&l);

	load(&l, "{" BOOT ", \"drives\": [], \"entropy\": {}}");
	ok(!l.err && l.c.ndev == 1 && l.c.dev[0].type == &rng_device, "entropy: {} is a device");
	unload(&l);
}

static void test_model(void)
{
	struct fs_config *fs;
	struct config c;
	struct loaded l;

	need(!config_init(&c));
	ok(c.machine.vcpu_count == 1 && c.machine.mem_size_mib == 128 && !c.ndev &&
		   c.machine.huge_pages == PAGES_TRANSPARENT &&
		   c.machine.transport == TRANSPORT_AUTO && !c.boot.kernel_image_path,
	   "a new model has the defaults and no devices");
	config_fini(&c);
	ok(!c.dev && !c.boot.boot_args, "a freed one is empty");
	config_fini(&c);

	load(&l,
	     "{" BOOT ", \"fs\": [{\"tag\": \"src\", \"path\": \"/srv/\\u00e4\\\"\\n\","
	     " \"readonly\": true, \"cache\": \"ALWAYS\"}, {\"tag\": \"b\", \"path\": \"p\"}]}");
	need(!l.err);
	fs = device_cfg(&l.c, &fs_device, 0);
	ok(!strcmp(fs->tag, "src") && !strcmp(fs->share.path, "/srv/\xc3\xa4\"\n") &&
		   fs->share.readonly && fs->queue_size == 1024,
	   "escapes are taken apart");
	fs = device_cfg(&l.c, &fs_device, 1);
	ok(!strcmp(fs->tag, "b") && !fs->share.readonly, "devices of a type keep their order");
	unload(&l);
}

/* ---- the whole ---- */

static void check(const char *text, const char *want, const char *name)
{
	struct capture cap;
	struct loaded l;

	load(&l, text);
	need(!l.err);
	capture_begin(&cap);
	l.err = config_check(&l.c);
	capture_end(&cap, l.said, sizeof(l.said));
	says(&l, -EINVAL, want, name);
	unload(&l);
}

static void check_pins(void)
{
	char text[4096] = "{\"boot-source\": {\"kernel_image_path\": \"k\", \"boot_args\": "
			  "\"pci=off\"}, \"serial\": {}, \"drives\": [";
	char *end;
	struct loaded l;

	for (unsigned i = 0; i < 15; i++)
		sprintf(text + strlen(text), "%s{\"drive_id\": \"d%u\", \"path_on_host\": \"p\"}",
			i ? "," : "", i);
	end = text + strlen(text);
	strcpy(end, "]}");
	load(&l, text);
	is(l.err ? l.err : config_check(&l.c), 0, "mmio has pins for 15 devices");
	unload(&l);
	strcpy(end, "], \"entropy\": {}}");
	check(text,
	      "machine-config.transport: mmio has 15 interrupt pins, one for each of 16 devices: "
	      "configure fewer, or use transport pci",
	      "and not for one more");
}

static void test_check(void)
{
	struct loaded l;

	check("{}", "boot-source.kernel_image_path is missing: name the kernel to boot",
	      "a machine needs a kernel");
	check("{" BOOT ", \"drives\": [" DRIVE("a", "") "," DRIVE("b", "") "," DRIVE("a", "") "]}",
	      "drives[2].drive_id: \"a\" is used by drives[0] already: choose another",
	      "a drive_id may not be used twice");
	check("{" BOOT ", \"entropy\": {}, \"fs\": [" FS("x") "," FS("y") "," FS("y") "]}",
	      "fs[2].tag: \"y\" is used by fs[1] already: choose another", "nor may a tag");
	check("{" BOOT ", \"drives\": [" DRIVE("a", ROOT) "," DRIVE("b", ROOT) "]}",
	      "drives: \"a\" and \"b\" are both the root device: one can be",
	      "there may not be two root drives");
	check("{" BOOT ", \"machine-config\": {\"huge_pages\": \"2M\", \"mem_size_mib\": 129}}",
	      "machine-config.mem_size_mib: 129: must be even with huge_pages 2M",
	      "pages of 2 MiB make up no odd size");

	check_pins();
	load(&l, "{" BOOT ", \"fs\": [" FS("a") "], \"drives\": [" DRIVE("a", "") "]}");
	is(config_check(&l.c), 0, "a drive and a share may have the same name");
	unload(&l);
	load(&l, "{" BOOT ", \"fs\": [" FS("x") "], \"drives\": [" DRIVE("a", "") "," DRIVE(
			 "b", "") "," DRIVE("c", ROOT) "," DRIVE("d", "") "]}");
	need(!config_check(&l.c));
	ok(!strcmp(((struct fs_config *)l.c.dev[0].cfg)->tag, "x"),
	   "other devices keep their place");
	for (unsigned i = 0; i < 4; i++) {
		const struct blk_config *blk = device_cfg(&l.c, &blk_device, i);

		ok(blk->drive_id[0] == "cabd"[i], "drive %u is %c: the root drive comes first", i,
		   "cabd"[i]);
	}
	is(config_check(&l.c), 0, "checking again is fine");
	ok(((struct blk_config *)device_cfg(&l.c, &blk_device, 0))->drive_id[0] == 'c',
	   "and changes nothing");
	unload(&l);
}

/* ---- printing ---- */

static void put_object(FILE *f, const struct opt_table *t)
{
	const char *sep = "";
	char buf[64];

	fprintf(f, "{");
	for (unsigned i = 0; i < t->n; i++) {
		const struct opt *o = &t->opts[i];

		if (!has_value(o) && o->kind != OPT_OBJECT)
			continue;
		fprintf(f, "%s\"%s\": ", sep, o->key);
		sep = ", ";
		if (o->kind == OPT_OBJECT)
			put_object(f, o->sub);
		else
			fprintf(f, "%s", good_json(o, buf));
	}
	fprintf(f, "}");
}

/* A file with every key of every section; devices that may be many are there twice. */
static char *every_key(void)
{
	struct section s;
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	need(f);
	for (unsigned i = 0; section_get(i, &s); i++) {
		bool many = s.type && s.type->many;

		fprintf(f, "%s\"%s\": %s", i ? ", " : "{", s.key, many ? "[" : "");
		for (unsigned n = 0; n < (many ? 2u : 1u); n++) {
			fprintf(f, "%s", n ? ", " : "");
			put_object(f, s.table);
		}
		fprintf(f, "%s", many ? "]" : "");
	}
	fprintf(f, "}");
	need(!fclose(f));
	return text;
}

/* What text means, printed, means the same; the print is returned, the caller frees it. */
static char *again(const char *text, const char *name)
{
	struct loaded first, second;
	char *once, *twice;

	load(&first, text);
	once = printed(&first.c);
	load(&second, once);
	twice = printed(&second.c);
	if (!ok(!first.err && !second.err && !second.said[0] && !strcmp(once, twice), "%s", name))
		printf("#   %s%s%s", first.said, second.said, once);
	unload(&first);
	unload(&second);
	free(twice);
	return once;
}

/* How many keys of obj do not have what put_object() gave them. */
static unsigned wrong_keys(const struct opt_table *t, const void *obj)
{
	unsigned bad = 0;

	for (unsigned i = 0; i < t->n; i++) {
		const struct opt *o = &t->opts[i];
		char got[256], want[64];

		if (o->kind == OPT_OBJECT)
			bad += wrong_keys(o->sub, (const char *)obj + o->offset);
		if (!has_value(o))
			continue;
		opt_text(o, obj, got, sizeof(got));
		bad += strcmp(got, good_json(o, want)) != 0;
	}
	return bad;
}

static void test_print_all(void)
{
	char *text = every_key(),
	     *print = again(text, "every key of every section prints and loads");
	struct loaded l;
	struct section s;

	load(&l, print);
	for (unsigned i = 0; section_get(i, &s); i++)
		is(wrong_keys(s.table, section_object(&l.c, &s)), 0,
		   "each value of %s is the one of the first file", s.key);
	unload(&l);
	free(print);
	free(text);
}

static void test_print(void)
{
	char args[4001], text[25000], *print;
	struct loaded l;
	size_t n;

	print = again("{" BOOT "}", "a model without devices prints and loads");
	free(print);
	print = again("{" BOOT ", \"drives\": [" DRIVE("b", "") "," DRIVE(
			      "a", ROOT) "],"
					 "\"fs\": [" FS("x\\\"\\\\\\t\\u0001") "," FS(
						 "\\u00e4/\\u0416") "], \"entropy\": {}}",
		      "quotes, control characters and letters of the world too");
	ok(strstr(print, "\"x\\\"\\\\\\u0009\\u0001\"") && strstr(print, "\"\xc3\xa4/\xd0\x96\""),
	   "escaped where they must be");
	free(print);
	print = again("{\"boot-source\": {\"kernel_image_path\": \"k\", \"boot_args\": \"\"}}",
		      "empty text is not the same as none");
	ok(strstr(print, "\"boot_args\": \"\"") && !strstr(print, "initrd_path"),
	   "and none is left out");
	free(print);

	/* The longest text there is, all of it in six-byte escapes. */
	n = (size_t)sprintf(text,
			    "{\"boot-source\": {\"kernel_image_path\": \"k\", \"boot_args\": \"");
	for (unsigned i = 0; i < 4000; i++)
		n += (size_t)sprintf(text + n, "\\u0001");
	sprintf(text + n, "\"}}");
	print = again(text, "also the longest text, when every byte must be escaped");
	load(&l, print);
	memset(args, 1, 4000);
	args[4000] = 0;
	ok(!l.err && !strcmp(l.c.boot.boot_args, args), "none of it is lost");
	unload(&l);
	free(print);
}

static void test_example(const char *path)
{
	struct loaded l;
	char *print;

	load_path(&l, path);
	ok(!l.err && !l.said[0] && !config_check(&l.c) && l.c.ndev == 2,
	   "the example of the README loads");
	print = printed(&l.c);
	free(again(print, "prints, and loads again"));
	free(print);
	unload(&l);
}

int main(void)
{
	char *example = realpath("configs/shared-dir.json", NULL);

	need(example); /* from the project's folder */
	config_dir_enter();
	test_file();
	test_pipe();
	test_text();
	test_bom();
	test_comments();
	test_depth();
	test_sections();
	test_many();
	test_values();
	test_cpu_mask();
	test_firecracker();
	test_model();
	test_check();
	test_print_all();
	test_print();
	test_example(example);
	free(example);
	config_dir_leave();
	return done();
}
