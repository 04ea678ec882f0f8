# SPDX-License-Identifier: Apache-2.0
# apt.sh - a package is installed, checked, removed and installed again, on a root directory that is a share.
. /test/lib.sh

apt="apt-get -q -y -o APT::Sandbox::User=root -o Dpkg::Options::=--force-unsafe-io"
installed() {
	test "$(hello-share)" = "hello from a share" && test "$(cat /var/lib/hello/state)" = configured &&
		test "$(stat -c '%a %h' /usr/bin/hello-linked)" = "4755 2" && test "$(readlink /usr/bin/hello-symlink)" = hello-share &&
		test "$(stat -c '%a %U:%G' /var/lib/hello)" = "2775 root:root" && test "$(find /usr/share/hello -type f | wc -l)" = 100
}
ok "the root directory is a share" grep -q '^[^ ]* / \(virtiofs\|9p\)' /proc/mounts
ok "apt-get installs a package" $apt install /srv/hello.deb
ok "the package is there in every way" installed
ok "dpkg finds nothing changed" sh -c 'test -z "$(dpkg -V hello-share)"'
ok "apt-get removes it, but for its configuration" $apt remove hello-share
no "what was removed is gone" test -e /usr/bin/hello-share -o -e /usr/share/hello
ok "dpkg installs it, syncing every file" dpkg -i /srv/hello.deb
ok "the package is there again" installed
ok "dpkg purges it" dpkg -P hello-share
ok "all is as consistent as it was" dpkg --audit
