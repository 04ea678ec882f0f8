#!/usr/bin/awk -f
# SPDX-License-Identifier: Apache-2.0
# table.awk GOALS RESULTS   medians and goals of what run.sh noted, a block per piece of work
#
# exits, time and CPU less those of the work "empty"; exits and CPU per unit. Ratios are to qemu_auto of a share, qemu of a
# disk.

function median(s,   v, m, i, j, t) {
	m = split(s, v, " ")
	for (i = 2; i <= m; i++)
		for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
			t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
		}
	return m % 2 ? v[(m + 1) / 2] : (v[m / 2] + v[m / 2 + 1]) / 2
}
function net(work, who, what,   v) {
	v = median(col[work, who, what]) - (what == "irqs" ? 0 : median(col["empty", who, what]))
	return v > 0 ? v : 0
}
function ratio(a, b) { return b ? sprintf("(%.2f)", a / b) : "" }
function value(g,   a, b) {
	if (!((work[g], who[g]) in units)) return ""
	a = net(work[g], who[g], what[g] == "speed" ? "time" : what[g])
	if (peer[g] == "-") return a
	if (!((work[g], peer[g]) in units)) return ""
	b = net(work[g], peer[g], what[g] == "speed" ? "time" : what[g])
	if (what[g] == "speed") return a ? b / a : 1e9
	return b ? a / b : 1e9
}

FNR == 1 { file++ }
/^#/ || NF == 0 { next }
file == 1 {
	n = ++ngoals
	work[n] = $1; who[n] = $2; what[n] = $3; peer[n] = $4; rel[n] = $5; limit[n] = $6
	next
}
{
	if (!($1 in works)) { works[$1]; order[++nworks] = $1 }
	if (!($2 in whos)) { whos[$2]; names[++nwhos] = $2 }
	units[$1, $2] = $3
	col[$1, $2, "time"] = col[$1, $2, "time"] " " $4 / 1e6
	col[$1, $2, "exits"] = col[$1, $2, "exits"] " " $5
	col[$1, $2, "cpu"] = col[$1, $2, "cpu"] " " $6 / 100
	col[$1, $2, "irqs"] = col[$1, $2, "irqs"] " " $7
	if ($8) failed[$2 " " $1]++
}
END {
	for (i = 1; i <= nworks; i++) {
		w = order[i]
		printf "\n%-22s %8s %8s %12s %8s %10s %8s %10s\n", w, "s", "", "exits/unit", "", "cpu ms/unit", "", "interrupts"
		for (k = 1; k <= nwhos; k++) {
			who_ = names[k]
			if (!((w, who_) in units)) continue
			if (w == "empty") {
				printf "  %-20s %8.2f %8s %12.1f %8s %10.1f\n", who_, median(col[w, who_, "time"]), "",
					median(col[w, who_, "exits"]), "", median(col[w, who_, "cpu"]) * 1000
				continue
			}
			t = net(w, who_, "time"); e = net(w, who_, "exits"); c = net(w, who_, "cpu")
			qt = qe = qc = 0
			peer_ = (w, "qemu") in units ? "qemu" : "qemu_auto"
			if ((w, peer_) in units) {
				qt = net(w, peer_, "time"); qe = net(w, peer_, "exits"); qc = net(w, peer_, "cpu")
			}
			u = units[w, who_]
			printf "  %-20s %8.2f %8s %12.2f %8s %10.2f %8s %10d\n", who_, t, ratio(t, qt), e / u, ratio(e, qe),
				c * 1000 / u, ratio(c, qc), net(w, who_, "irqs")
		}
		for (g = 1; g <= ngoals; g++) {
			if (work[g] != w || (v = value(g)) == "") continue
			good = rel[g] == ">=" ? v >= limit[g] : v <= limit[g]
			text = sprintf("%s: %s %s %s%s: %s (%.2f)", who[g], what[g], rel[g], limit[g],
				peer[g] == "-" ? "" : " of " peer[g], good ? "met" : "MISSED", v)
			print "    goal " text
			if (good) met++
			else missed[++nmissed] = w "  " text
		}
	}
	if (met + nmissed) printf "\ngoals: %d met, %d missed\n", met, nmissed
	for (i = 1; i <= nmissed; i++) print "  " missed[i]
	for (f in failed) printf "\nFAILED: %s, %d times\n", f, failed[f]
}
