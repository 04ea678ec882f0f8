// SPDX-License-Identifier: Apache-2.0
/*
 * t_flags.c - the command line of the verbs that make a machine: every key as a flag, the file under them, -t and -v.
 */
#include "../cmd/flags.h"
#include "config_file.h"
#include "../devices/table.h"
#include "../devices/virtio_blk.h"
#include "../devices/virtio_fs.h"

#define MAX_ARGS 40

/* A command line, and what came of it; run() fills the rest, end() frees it. */
struct trial {
	bool with_timeout;
	const char *argv[MAX_ARGS]; /* without the verb */

	int err;
	struct flags f;
	struct config c;
	char said[2048];
};

static void run(struct trial *t)
{
	char verb[] = "boot", *argv[MAX_ARGS + 1] = {verb};
	struct capture cap;
	int argc = 1;

	for (unsigned i = 0; i < MAX_ARGS && t->argv[i]; i++)
		argv[argc++] = (char *)t->argv[i];
	need(!config_init(&t->c));
	capture_begin(&cap);
	t->err = flags_parse(&t->f, &t->c, argc, argv, t->with_timeout);
	capture_end(&cap, t->said, sizeof(t->said));
}

static void end(struct trial *t)
{
	config_fini(&t->c);
}

static void refused(struct trial t, int err, const char *line, const char *name)
{
	char want[600];

	run(&t);
	snprintf(want, sizeof(want), "wherry: error: %s\n", line);
	if (!ok(t.err == err && !strcmp(t.said, want), "%s", name))
		printf("#   %d %s#   want %d %s", t.err, t.said, err, want);
	end(&t);
}

#define ARGS(...)                       \
	{                               \
		.argv = { __VA_ARGS__ } \
	}
#define TRIAL(...) ((struct trial)ARGS(__VA_ARGS__))
#define KERNEL     "--boot-source", "kernel_image_path=k"

/* ---- every key ---- */

/* What a key that is under test lies in: "limits.rate." with its table, and the section's with "". */
struct below {
	const struct opt_table *table;
	char prefix[64];
	size_t offset;
};

static void key_item(FILE *f, const struct below *in, const struct opt *o)
{
	char text[32];

	fprintf(f, "%s%s%s=%s", ftell(f) ? "," : "", in->prefix, o->key, good_text(o, text));
}

/* What a table cannot be without, but for o. */
static void required_items(FILE *f, const struct below *in, const struct opt *o)
{
	for (unsigned i = 0; i < in->table->n; i++)
		if (in->table->opts[i].required && &in->table->opts[i] != o)
			key_item(f, in, &in->table->opts[i]);
}

/* key=value for o and, before it, whatever else the section, and the object it is in, cannot be without. */
static char *key_list(const struct section *s, const struct below *in, const struct opt *o)
{
	struct below top = {.table = s->table};
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	need(f);
	if (in->table != s->table)
		required_items(f, &top, NULL);
	required_items(f, in, o);
	key_item(f, in, o);
	need(!fclose(f));
	return text;
}

static void check_key(const struct section *s, const char *flag, const struct below *in,
		      const struct opt *o)
{
	char got[128] = "", want[64], flagged[64];
	char *list = key_list(s, in, o);
	struct trial t = TRIAL(KERNEL, flagged, list);

	snprintf(flagged, sizeof(flagged), "--%s", flag);
	run(&t);
	if (!t.err)
		opt_text(o, (char *)section_object(&t.c, s) + in->offset, got, sizeof(got));
	if (!ok(!t.err && !strcmp(got, good_json(o, want)), "--%s %s", flag, list))
		printf("#   %s %s", got, t.said);
	end(&t);
	free(list);
}

static void check_later(const char *flag, const struct opt *o)
{
	char flagged[64], list[64], want[200];
	struct trial t = TRIAL(KERNEL, flagged, list);

	snprintf(flagged, sizeof(flagged), "--%s", flag);
	snprintf(list, sizeof(list), "%s=1", o->key);
	snprintf(want, sizeof(want), "%s %s: %s: is not supported: ", flagged, list, o->key);
	run(&t);
	ok(t.err == -EINVAL && strstr(t.said, want), "--%s %s is refused", flag, list);
	end(&t);
}

static void check_table(const struct section *s, const char *flag, const struct below *in)
{
	for (unsigned k = 0; k < in->table->n; k++) {
		const struct opt *o = &in->table->opts[k];
		struct below deeper = {.table = o->sub, .offset = in->offset + o->offset};

		if (has_value(o))
			check_key(s, flag, in, o);
		if (o->kind == OPT_LATER)
			check_later(flag, o);
		if (o->kind != OPT_OBJECT)
			continue;
		snprintf(deeper.prefix, sizeof(deeper.prefix), "%.30s%.30s.", in->prefix, o->key);
		check_table(s, flag, &deeper);
	}
}

static void test_keys(void)
{
	struct section s;

	for (unsigned i = 0; section_get(i, &s); i++) {
		const char *flag = s.type ? s.type->flag : s.key;

		if (flag)
			check_table(&s, flag, &(struct below){.table = s.table});
	}
}

/* ---- the syntax of one flag ---- */

static const struct blk_config *drive(const struct trial *t, unsigned nth)
{
	return device_cfg(&t->c, &blk_device, nth);
}

static const struct fs_config *share(const struct trial *t, unsigned nth)
{
	return device_cfg(&t->c, &fs_device, nth);
}

static void test_syntax(void)
{
	struct trial t = TRIAL("--boot-source", "vmlinux,boot_args=a=b c,,d", "--machine-config",
			       "3", "--fs", "src,path=/a,,b,readonly", "--drive",
			       "d0,path_on_host=/x=y,is_read_only=off,is_root_device=ON");

	run(&t);
	is(t.err, 0, "flags alone make a machine");
	ok(!strcmp(t.c.boot.kernel_image_path, "vmlinux"), "the first item needs no key");
	is(t.c.machine.vcpu_count, 3, "in every section");
	ok(!strcmp(t.c.boot.boot_args, "a=b c,d"), "values may have = and, doubled, commas");
	ok(!strcmp(share(&t, 0)->tag, "src") && !strcmp(share(&t, 0)->share.path, "/a,b"),
	   "also in devices");
	ok(share(&t, 0)->share.readonly, "a name alone sets a bool");
	ok(!drive(&t, 0)->is_read_only && drive(&t, 0)->is_root_device, "on and off are bools too");
	end(&t);

	t = TRIAL(KERNEL, "--machine-config", "mem_size_mib=0x200", "--entropy", "");
	run(&t);
	ok(!t.err && t.c.machine.mem_size_mib == 512, "numbers may be hexadecimal");
	ok(device_cfg(&t.c, &rng_device, 0), "an empty list makes a device of defaults");
	end(&t);
}

static void test_refused(void)
{
	refused(TRIAL("--drive"), -EINVAL, "--drive: its value is missing", "a flag needs a value");
	refused(TRIAL(KERNEL, "--drive", "drive_id=d"), -EINVAL,
		"--drive drive_id=d: path_on_host= is missing (raw image file or block device)",
		"a device needs what it requires");
	refused(TRIAL("--fs", "t,path"), -EINVAL, "--fs t,path: path: needs a value",
		"only a bool needs no value");
	refused(TRIAL("--fs", "t,,path"), -EINVAL,
		"--fs t,,path: path= is missing (the host directory that is shared)",
		"a doubled comma ends nothing");
	refused(TRIAL("--machine-config", "vcpu_count=33"), -ERANGE,
		"--machine-config vcpu_count=33: vcpu_count: must be between 1 and 32",
		"a number out of range is refused");
	refused(TRIAL("--machine-config", "mem_size_mib=17179869184G"), -ERANGE,
		"--machine-config mem_size_mib=17179869184G: mem_size_mib: must be between 16 and "
		"1048576",
		"also one that no machine can hold");
	refused(TRIAL("--serial", "colour=red"), -EINVAL,
		"--serial colour=red: colour: unknown; there is output input",
		"so is an unknown key, and the known ones are named");
	refused(TRIAL("--entropy", "x"), -EINVAL,
		"--entropy x: x: unknown; there is nothing to set",
		"a section without keys takes no value");
	refused(TRIAL("--drive", "a-b,path_on_host=p"), -EINVAL,
		"--drive a-b,path_on_host=p: drive_id: must be of letters, digits and _",
		"what a file may not say a flag may not either");
	refused(TRIAL(KERNEL, "--nosuch", "x"), -EINVAL,
		"--nosuch: no such flag; --help lists them", "an unknown flag is refused");
	refused(TRIAL("--nosuch"), -EINVAL, "--nosuch: no such flag; --help lists them",
		"before its value is missed");
	refused(TRIAL("--rtc", "x"), -EINVAL, "--rtc: no such flag; --help lists them",
		"a device without a flag has none");
	refused(TRIAL("--", "x"), -EINVAL, "--: no such flag; --help lists them", "nor is -- one");
	refused(TRIAL("-"), -EINVAL, "-: no such flag; --help lists them", "or -");
	refused(TRIAL("-x", "a", "b"), -EINVAL, "-x: no such flag; --help lists them",
		"an unknown flag is told before what may be its value");
	refused(TRIAL("a.json", "b.json"), -EINVAL,
		"b.json: one configuration file is enough (a.json)", "there is one file");
	refused(TRIAL("missing.json"), -ENOENT,
		"missing.json (name a JSON file, or use flags: --help lists them): No such file or "
		"directory",
		"which must be there");
	refused(TRIAL(NULL), -EINVAL,
		"boot-source.kernel_image_path is missing: name the kernel to boot",
		"nothing at all is no machine");
}

/* The reason stands behind the text, which may be as long as the kernel lets arguments be. */
static void test_long(void)
{
	char *text = malloc(100001);
	struct trial t = TRIAL("--drive", text);

	need(text);
	memset(text, 'a', 100000);
	text[100000] = 0;
	run(&t);
	ok(t.err == -ERANGE && strlen(t.said) < 1024 &&
		   strstr(t.said, "aaa: drive_id: must be text of 1 to 64 bytes\n"),
	   "a flag however long does not hide what is wrong with it");
	end(&t);
	free(text);
}

static void test_too_many(void)
{
	char list[CONFIG_MAX_DEVICES + 1][40];
	struct config c;
	struct capture cap;
	char said[300];
	int r = 0;

	need(!config_init(&c));
	for (unsigned i = 0; i < CONFIG_MAX_DEVICES; i++) {
		snprintf(list[i], sizeof(list[i]), "d%u,path_on_host=p", i);
		r = r ? r : config_add_flag(&c, &blk_device, list[i]);
	}
	is(r, 0, "there may be 30 devices by flags");
	capture_begin(&cap);
	r = config_add_flag(&c, &blk_device, "e,path_on_host=p");
	capture_end(&cap, said, sizeof(said));
	ok(r == -ENOSPC &&
		   !strcmp(said, "wherry: error: --drive e,path_on_host=p: one device too many: "
				 "a machine has at most 30\n"),
	   "one more is refused");
	config_fini(&c);
}

/* ---- over a file ---- */

static void write_config(const char *text)
{
	write_file(text, strlen(text));
}

static void test_file(void)
{
	struct trial t = TRIAL("--drive", "new,path_on_host=q,is_root_device", "--machine-config",
			       "mem_size_mib=256", NAME, "--boot-source", "boot_args=quiet",
			       "--serial", "input=off");

	write_config("{\"boot-source\": {\"kernel_image_path\": \"k\", \"boot_args\": \"x\"},"
		     " \"machine-config\": {\"vcpu_count\": 2, \"mem_size_mib\": 64},"
		     " \"serial\": {\"output\": \"o\"},"
		     " \"drives\": [{\"drive_id\": \"old\", \"path_on_host\": \"p\"}]}");
	run(&t);
	need(!t.err);
	ok(!strcmp(t.f.file, NAME), "FILE may stand after flags");
	is(t.c.machine.mem_size_mib, 256, "and a flag before it changes what it says all the same");
	ok(t.c.machine.vcpu_count == 2 && !strcmp(t.c.boot.kernel_image_path, "k"),
	   "what no flag names stays as in the file");
	ok(!strcmp(t.c.boot.boot_args, "quiet"), "a flag after it changes it too");
	is(t.c.ndev, 3, "a flag adds to a list, and to a section that is one object nothing");
	ok(!strcmp(drive(&t, 0)->drive_id, "new") && !strcmp(drive(&t, 1)->drive_id, "old"),
	   "a root drive by a flag comes first");
	end(&t);

	t = TRIAL(NAME, "--machine-config", "vcpu_count=4", "--machine-config", "vcpu_count=5");
	run(&t);
	ok(!t.err && t.c.machine.vcpu_count == 5, "of two flags the last one counts");
	end(&t);

	refused(TRIAL(NAME, "--drive", "old,path_on_host=q"), -EINVAL,
		"drives[1].drive_id: \"old\" is used by drives[0] already: choose another",
		"a flag's device may not have the id of one in the file");
	write_config("{\"nosuch\": 1}");
	refused(TRIAL(KERNEL, NAME), -EINVAL,
		NAME ":1:2: nosuch: unknown section; known: boot-source, machine-config, serial, "
		     "i8042, pvpanic, rtc, entropy, drives, fs, p9",
		"a fault in the file ends it");
}

/* A section that is one object and requires a key: none of today's devices is, the next ones are. */
static void test_required_once(void)
{
	struct pair {
		char *must;
		uint32_t n;
	};
	static const struct opt opts[] = {
		{.key = "must", .kind = OPT_STR, .required = true, .max = 9, .help = "a must"},
		{.key = "n", .kind = OPT_U32, .offset = offsetof(struct pair, n)},
	};
	static const struct device_type type = {
		.name = "one",
		.section = "one",
		.flag = "one",
		.opts = {opts, ARRAY_LEN(opts), sizeof(struct pair)}};
	struct capture cap;
	struct config c;
	char said[200];
	int r;

	need(!config_init(&c));
	capture_begin(&cap);
	r = config_add_flag(&c, &type, "n=1");
	capture_end(&cap, said, sizeof(said));
	ok(r == -EINVAL && strstr(said, "--one n=1: must= is missing (a must)\n"),
	   "the flag that makes an object must have what it requires");
	config_fini(&c);
	need(!config_init(&c) && !config_add_flag(&c, &type, "must=a"));
	ok(!config_add_flag(&c, &type, "n=2") && c.ndev == 1 &&
		   ((struct pair *)c.dev[0].cfg)->n == 2 &&
		   !strcmp(((struct pair *)c.dev[0].cfg)->must, "a"),
	   "the flag that changes it need not");
	config_fini(&c);
}

/* ---- the verb's own ---- */

static void timeout_is(const char *text, unsigned want)
{
	struct trial t = {.with_timeout = true, .argv = {"-t", text, KERNEL}};
	char line[200];

	run(&t);
	if (want) {
		ok(!t.err && t.f.timeout_s == want, "-t %s is %u seconds", text, want);
	} else {
		snprintf(line, sizeof(line),
			 "wherry: error: -t %s: must be a number of seconds, 1 to 31536000\n",
			 text);
		ok(t.err == -EINVAL && !strcmp(t.said, line), "-t \"%s\" is refused", text);
	}
	end(&t);
}

static void test_own(void)
{
	static const char *const bad[] = {
		"0", "31536001", "-1", "+5", " 5", "5s", "", "x", "99999999999999999999999"};
	struct trial t = TRIAL(KERNEL);

	run(&t);
	ok(!t.err && !t.f.timeout_s && !t.f.file, "without -t there is no limit");
	end(&t);
	timeout_is("1", 1);
	timeout_is("31536000", 31536000);
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		timeout_is(bad[i], 0);
	refused((struct trial){.with_timeout = true, .argv = {KERNEL, "-t"}}, -EINVAL,
		"-t: its value is missing", "-t needs its value");
	refused(TRIAL("-t", "5", KERNEL), -EINVAL, "-t: no such flag; --help lists them",
		"a verb without a time limit has no -t");
}

static void test_verbose(void)
{
	struct trial t = TRIAL("-v", KERNEL);
	struct capture cap;
	char quiet[100], loud[100];

	log_set_level(LOG_WARN);
	capture_begin(&cap);
	log_info("a word");
	capture_end(&cap, quiet, sizeof(quiet));
	run(&t);
	end(&t);
	capture_begin(&cap);
	log_info("a word");
	capture_end(&cap, loud, sizeof(loud));
	log_set_level(LOG_WARN);
	ok(!t.err && !quiet[0] && !strcmp(loud, "wherry: info: a word\n"), "-v shows more");
}

static void test_help(void)
{
	char *text = NULL, flag[64];
	size_t len;
	FILE *f = open_memstream(&text, &len);
	struct section s;
	unsigned bad = 0;

	need(f);
	flags_help(f);
	need(!fclose(f));
	for (unsigned i = 0; section_get(i, &s); i++) {
		snprintf(flag, sizeof(flag), "  --%s ", s.type ? s.type->flag : s.key);
		bad += (!s.type || s.type->flag) && !strstr(text, flag);
	}
	is(bad, 0, "--help has every flag");
	ok(!strstr(text, "(null)"), "and no other");
	free(text);
}

int main(void)
{
	config_dir_enter();
	test_keys();
	test_syntax();
	test_refused();
	test_long();
	test_too_many();
	test_file();
	test_required_once();
	test_own();
	test_verbose();
	test_help();
	config_dir_leave();
	return done();
}
