# SPDX-License-Identifier: Apache-2.0
# input.sh - what is typed on the console arrives; the host types "typed line" when it reads "@@ type".
. /test/lib.sh

echo "@@ type"
read -r -t 60 line </dev/console
ok "a line typed on the host arrives" test "$line" = "a typed line with \$PATH & more"
