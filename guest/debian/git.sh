# SPDX-License-Identifier: Apache-2.0
# git.sh - a repository is cloned, changed, packed and checked.
. /test/lib.sh

export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@n GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@n
git config --global safe.directory '*'
clean() { test -z "$(git status --porcelain)"; }
cd /root || exit
ok "git clones a repository" git clone -q /srv/repo.git clone
cd clone || exit
ok "git finds the clone clean" clean
ok "git finds it clean once more" clean
for i in 1 2 3 4 5; do echo "$i" >"dir-1/new-$i" && git rm -q "dir-2/file-2-$i"; done
no "git sees what was changed" clean
ok "git commits" sh -c 'git add -A && git commit -qm change'
ok "git checks out an older state and comes back" sh -c 'git checkout -q HEAD~10 && git checkout -q main'
ok "git finds it clean after that" clean
ok "git packs" git gc -q
ok "git finds every object whole" git fsck --full --strict
ok "git pushes to the origin" git push -q origin HEAD:refs/heads/pushed
ok "a second clone has the change" sh -c 'git clone -q -b pushed /srv/repo.git ../second && test -e ../second/dir-1/new-5'
